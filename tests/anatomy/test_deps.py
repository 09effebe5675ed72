"""What a scalar rests on: which definition reaches a use, what it is worth, what it moves with."""

from __future__ import annotations

import ast
import math

import pytest

from srcmap.anatomy.deps import Definition, assigned_names
from tests.anatomy.little import nvidia, opened, stmt

# In each: which line defines `at` (and nothing else) when it is used in `T.copy(K[at, ...`.
REACHING = {
    "the nearest before": ("at = 1\nat = 2  #!", []),
    "one after, in the next turn": ("at = 2  #!", ["at = 3  #!"]),
    "not one after the loop": ("at = 2  #!", []),
    "of the builder": ("", []),
    "both arms": ("if causal:\n    at = 1  #!\nelse:\n    at = 2  #!", []),
    "one arm or what was before": ("at = 0  #!\nif causal:\n    at = 1  #!", []),
    "chosen in one arm only": ("if causal:\n    at = 1  #!\n    at = 2  #!", []),
    "a loop may not run": ("at = 0  #!\nfor y in T.serial(4):\n    at = y  #!", []),
    "unpacked": ("at, other = 1, 2  #!", []),
    "unpacked from one value": ("other, at = pair  #!", []),
    "annotated": ("at: T.int32 = 3  #!", []),
    "added to": ("at = 1\nat += 2  #!", []),
    "in a launch's block": ("with T.attr(1):\n    at = 1  #!", []),
}


@pytest.mark.parametrize("name", REACHING)
def test_definitions_that_reach_a_use(name: str) -> None:
    before, after = REACHING[name]
    source = nvidia(
        builder="at = 9" + ("  #!" if name == "of the builder" else ""),
        before="\n" + before,
        load_k="\n".join(["T.copy(K[at, h, n * bk : (n + 1) * bk, :], k)", *after]),
    )
    kernel = opened(source)
    found = {one.line for one in kernel.deps.definitions("at", stmt(kernel, "T.copy(K[at"))}
    marked = {n for n, line in enumerate(source.split("\n"), 1) if line.endswith("#!")}
    if name == "chosen in one arm only":
        # the first of two in a row is kept: harmless, and cheaper than not to
        assert marked >= found
        found = marked
    assert found == marked


def test_a_loop_variable_ends_with_its_loop() -> None:
    kernel = opened(
        nvidia(
            before="for y in T.serial(4):\n    T.print(y)",
            load_k="T.copy(K[y, h, n * bk : (n + 1) * bk, :], k)",
        )
    )
    assert kernel.deps.definitions("y", stmt(kernel, "T.copy(K[y")) == ()
    inside = kernel.deps.definitions("y", stmt(kernel, "T.print"))
    assert [one.atom.origin for one in inside] == ["loop"]


def test_two_loops_of_one_name_are_two_things() -> None:
    kernel = opened(
        nvidia(before="for y in T.serial(4):\n    T.print(y)\nfor y in T.serial(4):\n    T.dump(y)")
    )
    one, other = (
        kernel.deps.atoms(ast.Name("y", ast.Load()), stmt(kernel, start), lookups=False)
        for start in ("T.print", "T.dump")
    )
    assert len(one) == len(other) == 1
    assert one != other


ORIGINS = [
    ("x", {"grid"}),
    ("n", {"loop"}),
    ("B", {"parameter"}),
    ("tid", {"thread"}),
    ("both", {"grid", "loop", "scalar"}),
    ("nowhere", {"unknown"}),
    ("size", {"kernel-parameter"}),
    ("3", set()),
]


@pytest.mark.parametrize(("text", "origins"), ORIGINS, ids=[r[0] for r in ORIGINS])
def test_origin(text: str, origins: set[str]) -> None:
    kernel = opened(
        nvidia(
            parameters="size: T.int32,",
            before="tid = T.get_thread_binding()",
            load_k="both = x + n\nT.copy(K[b, h, n * bk : (n + 1) * bk, :], k)",
        )
    )
    expr = ast.parse(text, mode="eval").body
    at = stmt(kernel, "T.copy(K[")
    atoms = kernel.deps.atoms(expr, at, lookups=True)
    assert {atom.origin for atom in atoms if atom.name != "T"} == origins


# A value that was looked up rests on the table; on its index only when look-ups are followed.
LOOKUPS = {
    "straight": "at = table[b, n]",
    "through a scalar": "mid = n\nat = table[b, mid]",
    "staged in a tile": "T.copy(table[b, n], near)\nat = near[0]",
    "staged by element": "for j in T.Parallel(4):\n    near[j] = table[n, j]\nat = near[0]",
    "table of a table": "at = table[b, other[n]]",
    "in a variable": "var = T.alloc_var('int32')\nvar = table[b, n]\nat = var",
    "an expression": "at = T.if_then_else(table[b, n] > 0, table[b, n], 0)",
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups_followed_or_not(name: str) -> None:
    kernel = opened(
        nvidia(
            parameters="table: T.Tensor((B, S), 'int32'),\nother: T.Tensor((S,), 'int32'),",
            allocate="near = T.alloc_shared((4,), 'int32')",
            load_k=LOOKUPS[name] + "\nT.copy(K[at, h, 0:bk, :], k)",
        )
    )
    at, expr = stmt(kernel, "T.copy(K["), ast.Name("at", ast.Load())
    plain, deep = (kernel.deps.atoms(expr, at, lookups=follow) for follow in (False, True))
    assert "table" in {atom.name for atom in plain if atom.origin == "lookup"}
    assert "n" not in {atom.name for atom in plain}
    assert "n" in {atom.name for atom in deep}


NUMBERS = [
    ("3", 3.0),
    ("-3", -3.0),
    ("True", 1.0),
    ("2 * 3 + 1", 7.0),
    ("7 // 2", 3.0),
    ("7 % 4", 3.0),
    ("-(2**30)", -(2.0**30)),
    ("-2**30", -(2.0**30)),
    ("1e4 / 2", 5000.0),
    ("T.infinity('float32')", math.inf),
    ("-T.infinity('float32')", -math.inf),
    ("T.max_value('float32')", math.inf),
    ("-T.max_value('float32')", -math.inf),
    ("T.min_value('float32')", -math.inf),
    ("float('-inf')", -math.inf),
    ("float('inf') * -1", -math.inf),
    ("float(3)", 3.0),
    ("T.float32(-1e9)", -1e9),
    ("T.cast(-1e9, 'float32')", -1e9),
    ("T.Cast('float32', -1e9)", -1e9),
    ("torch.inf", math.inf),
    ("-math.inf", -math.inf),
    ("inside", -5.0),
    ("outside", -6.0),
    ("module", -7.0),
    ("shadowed", 2.0),
    ("named", -math.inf),
    # what no one knows before it runs
    ("B", None),
    ("n", None),
    ("twice", None),
    ("grown", None),
    ("unpacked", None),
    ("1 / 0", None),
    ("(-8) ** 0.5", None),
    ("10.0 ** 1000", None),
    ("float('three')", None),
    ("float(B)", None),
    ("s", None),
    ("'text'", None),
    ("f(3)", None),
    ("self_made", None),
]


@pytest.mark.parametrize(("text", "number"), NUMBERS, ids=[r[0] for r in NUMBERS])
def test_constants(text: str, number: float | None) -> None:
    kernel = opened(
        nvidia(
            module="module = -7\nshadowed = 1\n",
            builder="\noutside = -6\nshadowed = 2\nself_made = self_made + 1",
            before="""
            inside = -5
            named = -T.infinity("float32")
            twice = 1
            if causal:
                twice = 2
            grown = 1
            grown += 1
            unpacked, rest = pair
            """,
        )
    )
    expr = ast.parse(text, mode="eval").body
    assert kernel.deps.fold(expr, stmt(kernel, "T.copy(K[")) == number


EXPANDED = [
    ("b", "b"),
    ("mine", "h // 4"),
    ("mine + n", "h // 4 + n"),
    ("deep", "(h // 4 + 1) * 2"),
    ("either", "either"),
    ("grown", "grown"),
    ("k[mine]", "k[h // 4]"),
    ("one", "x + 1"),
]


@pytest.mark.parametrize(("text", "whole"), EXPANDED, ids=[r[0] for r in EXPANDED])
def test_scalars_written_out(text: str, whole: str) -> None:
    kernel = opened(
        nvidia(
            before="""
            mine = h // 4
            deep = (mine + 1) * 2
            one, two = x + 1, x + 2
            grown = 0
            grown += h
            if causal:
                either = 1
            else:
                either = 2
            """
        )
    )
    expr = ast.parse(text, mode="eval").body
    assert ast.unparse(kernel.deps.expand(expr, stmt(kernel, "T.copy(K["))) == whole


def test_scalars_that_rest_on_each_other_end() -> None:
    kernel = opened(
        nvidia(before="a = 0\nfor y in T.serial(4):\n    c = a + y\n    a = c + 1\nlast = a")
    )
    at = stmt(kernel, "T.copy(K[")
    atoms = kernel.deps.atoms(ast.Name("last", ast.Load()), at, lookups=True)
    assert {atom.name for atom in atoms} == {"last", "a", "c", "y"}
    kernel.deps.expand(ast.Name("last", ast.Load()), at)
    assert kernel.deps.fold(ast.Name("last", ast.Load()), at) is None


ASSIGNED = [
    ("a = 1", [("a", "1", None)]),
    ("a = b = 1", [("a", "1", None), ("b", "1", None)]),
    ("a, b = 1, 2", [("a", "1", None), ("b", "2", None)]),
    ("a, (b, c) = 1, (2, 3)", [("a", "1", None), ("b", "2", None), ("c", "3", None)]),
    ("a, b = f()", [("a", "f()", 0), ("b", "f()", 1)]),
    ("[a, b] = x", [("a", "x", 0), ("b", "x", 1)]),
    ("a: int = 1", [("a", "1", None)]),
    ("a: int", []),
    ("a += 1", [("a", "1", None)]),
    ("a[0] = 1", []),
    ("a.b = 1", []),
    ("f(a)", []),
]


@pytest.mark.parametrize(("text", "names"), ASSIGNED, ids=[r[0] for r in ASSIGNED])
def test_assigned_names(text: str, names: list[tuple[str, str, int | None]]) -> None:
    found = assigned_names(ast.parse(text).body[0])
    assert [(name, ast.unparse(value) if value else "", at) for name, value, at in found] == names


def test_the_innermost_scope_defines() -> None:
    kernel = opened(nvidia(module="kept = 1\n", builder="\nB = 2\nkept = 3"))

    def line(name: str) -> list[Definition]:
        return list(kernel.deps.outer(name))

    assert [one.atom.origin for one in line("kept")] == ["scalar"]
    assert [ast.unparse(one.value) for one in line("kept") if one.value] == ["3"]
    # a builder that sets its own parameter has two definitions of it
    assert [one.atom.origin for one in line("B")] == ["parameter", "scalar"]
