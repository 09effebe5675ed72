"""The rewrites themselves, on strings: what they change, what they leave, where lines go."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import black
import pytest

from srcmap.model import Lines
from srcmap.parse import rewrite
from srcmap.parse.rewrite import CannotRewriteError, Pair
from tests.metamorphic.instructions import comparable, difference
from tests.metamorphic.kernels import EVERY, PREFILL

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.parse.rewrite import Rewritten


def _renamed(source: str, **options: bool) -> str:
    return rewrite.rename_locals(source, lambda name, n: name.upper() + str(n), **options).source


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "def f(a):\n    b = a  # keep a\n    return b\n",
            "def f(A0):\n    B1 = A0  # keep a\n    return B1\n",
            id="a parameter and a variable, not the comment",
        ),
        pytest.param(
            "a = 1\ndef f():\n    return a\n",
            "a = 1\ndef f():\n    return a\n",
            id="module variables stay",
        ),
        pytest.param(
            "a = 1\ndef f(a):\n    return a\nf(a)\n",
            "a = 1\ndef f(A0):\n    return A0\nf(a)\n",
            id="a parameter that shadows a module variable",
        ),
        pytest.param(
            "def f(a):\n    def g(b):\n        return a + b\n    return g\n",
            "def f(A0):\n    def g(B1):\n        return A0 + B1\n    return g\n",
            id="closures follow, inner functions keep their names",
        ),
        pytest.param(
            "def f(a):\n    return a\nf(a=1)\n",
            "def f(A0):\n    return A0\nf(A0=1)\n",
            id="keyword arguments of own functions follow",
        ),
        pytest.param(
            "def f(a):\n    return a.a\n",
            "def f(A0):\n    return A0.a\n",
            id="attributes stay",
        ),
        pytest.param(
            "def f(a):\n    x.g(a=a)\n",
            "def f(a):\n    x.g(a=a)\n",
            id="a parameter named in a call to something unseen is kept",
        ),
        pytest.param(
            "import tilelang.language as T\ndef f(a):\n    T.g(a=a)\n",
            "import tilelang.language as T\ndef f(A0):\n    T.g(a=A0)\n",
            id="keywords of tilelang calls stay, their values follow",
        ),
        pytest.param(
            "def f():\n    import os\n    p = os.sep\n    return p\n",
            "def f():\n    import os\n    P0 = os.sep\n    return P0\n",
            id="imports stay",
        ),
        pytest.param(
            "def f(n):\n    return [n + i for i in range(n)]\n",
            "def f(N0):\n    return [N0 + I1 for I1 in range(N0)]\n",
            id="comprehensions",
        ),
        pytest.param(
            "def f(n, t: g(n) = n):\n    with k(n) as (x, y):\n        x[n] += y\n",
            "def f(N0, T1: g(n) = n):\n    with k(N0) as (X2, Y3):\n        X2[N0] += Y3\n",
            id="annotations and defaults belong outside; with targets and subscripts",
        ),
        pytest.param(
            "def f(é):\n\tß = é ; return ß\n",
            "def f(É0):\n\tSS1 = É0 ; return SS1\n",
            id="letters beyond ASCII, tabs and semicolons",
        ),
        pytest.param(
            "i = 1\ndef f(n):\n    for i in n:\n        g(i)\n    while i:\n        i = 2\n",
            "i = 1\ndef f(N0):\n    for I1 in N0:\n        g(I1)\n    while I1:\n        I1 = 2\n",
            id="what a function assigns anywhere is its own everywhere",
        ),
        pytest.param(
            "class A:\n    a = 1\n    def f(self):\n        a = self.a\n        return a\n",
            "class A:\n    a = 1\n    def f(SELF0):\n        A1 = SELF0.a\n        return A1\n",
            id="class variables stay",
        ),
        pytest.param(
            "def f():\n    global a\n    a = 1\n",
            "def f():\n    global a\n    a = 1\n",
            id="global variables stay",
        ),
    ],
)
def test_rename_locals(source: str, expected: str) -> None:
    assert _renamed(source) == expected


def test_everything_renames_what_is_named_elsewhere_too() -> None:
    source = 'def f(a):\n    x.g(a=a, b="a")\n'
    assert _renamed(source, everything=True) == 'def f(A0):\n    x.g(a=A0, b="a")\n'


def test_definitions_are_renamed_with_their_uses() -> None:
    source = "import os\nC = 1\n@d\ndef f(a):\n    def g():\n        return C\n    return g\nf(C)\n"
    done = rewrite.rename_definitions(source)
    new = {old: next(iter(names)) for old, names in done.names.items()}
    assert set(new) == {"C", "f", "g"}
    assert done.source == source.replace("C", new["C"]).replace(" f(", f" {new['f']}(").replace(
        "\nf(", f"\n{new['f']}("
    ).replace(" g", f" {new['g']}")


def test_two_scopes_get_two_names() -> None:
    done = rewrite.rename_locals("def f(a): return a\ndef g(a): return a\n")
    assert len(done.names["a"]) == 2


def test_names_that_only_variables_bear() -> None:
    source = "import os\nd = 1\ndef f(a, d, len):\n    b = a.c\n    return os\n"
    assert rewrite.local_names(source) == {"a", "b"}


_AS_MODULE, _FROM_PACKAGE = "import tilelang.language as ", "from tilelang import language as "


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (_AS_MODULE + "T\nT.x(T)\n", _FROM_PACKAGE + "L\nL.x(L)\n"),
        (_FROM_PACKAGE + "T\nT.x\n", _AS_MODULE + "L\nL.x\n"),
        ("from tilelang import language\nlanguage.x\n", _AS_MODULE + "L\nL.x\n"),
        (
            "from tilelang import jit, language as T\nT.x\n",
            "from tilelang import jit, language as L\nL.x\n",
        ),
        (
            _AS_MODULE + "T\ndef f(T):\n    T.x\n",
            _FROM_PACKAGE + "L\ndef f(T):\n    T.x\n",
        ),
        (
            f"def f():\n    {_AS_MODULE}T\n    T.x\nT.y\n",
            f"def f():\n    {_FROM_PACKAGE}L\n    L.x\nT.y\n",
        ),
        ("import torch as T\nT.x\n", "import torch as T\nT.x\n"),
    ],
)
def test_rename_alias(source: str, expected: str) -> None:
    assert rewrite.rename_alias(source, "L").source == expected


def test_reformatting_maps_headers_statements_arguments_and_else() -> None:
    old = "for a in f(b,\n        c):\n    x = 1; y = 2\nelse:\n"
    old += "    g(aaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbb)\n"
    done = rewrite.reformat(old, lambda s: black.format_str(s, mode=black.Mode(line_length=30)))
    assert done.source.split("\n") == [
        "for a in f(b, c):",
        "    x = 1",
        "    y = 2",
        "else:",
        "    g(",
        "        aaaaaaaaaaaaaaaaaaaaaaa,",
        "        bbbbbbbbbb,",
        "    )",
        "",
    ]
    assert done.lines.image(Lines(1, 2)) == Lines(1, 1)
    assert done.lines.agrees(Lines(3, 3), Lines(2, 3))
    assert done.lines.image(Lines(4, 5)) == Lines(4, 8)
    assert done.lines.agrees(Lines(5, 5), Lines(6, 6))
    assert not done.lines.agrees(Lines(5, 5), Lines(4, 8))


def test_a_formatter_that_changes_meaning_is_refused() -> None:
    with pytest.raises(CannotRewriteError, match="Constant became Name"):
        rewrite.reformat("x = 1\n", lambda s: s.replace("1", "y"))


def test_inserted_lines_push_the_others_down() -> None:
    done = rewrite.insert_lines("a\nb\nc", {1: ["x"], 3: ["y", "z"]})
    assert done.source == "x\na\ny\nz\nc".replace("a\n", "a\nb\n")
    assert [done.lines.starts[n] for n in (1, 2, 3)] == [(2,), (3,), (6,)]


def test_inserted_lines_keep_carriage_returns() -> None:
    assert rewrite.insert_lines("a\r\nb\r\n", {2: ["x"]}).source == "a\r\nx\r\nb\r\n"


def test_comments_stand_before_statements_and_change_nothing() -> None:
    source = "@d\ndef f(a,\n      b):\n    if a:\n        b\n    else: c\n"
    done = rewrite.comment_statements(source, lambda n: [f"{n}"], blank=False)
    assert done.source == (
        "# 0\n@d\ndef f(a,\n      b):\n    # 1\n    if a:\n        # 2\n        b\n    else: c\n"
    )


@pytest.mark.parametrize("source", EVERY.values(), ids=EVERY)
def test_comments_keep_the_tree_and_the_map_is_right(source: str) -> None:
    done = rewrite.comment_statements(source, lambda n: ["T.gemm(a, b, c)"] * (n % 3))
    assert ast.dump(ast.parse(done.source)) == ast.dump(ast.parse(source))
    old, new = source.split("\n"), done.source.split("\n")
    assert all(old[n - 1] == new[done.lines.starts[n][0] - 1] for n in range(1, len(old) + 1))


def _kernel(body: str) -> str:
    head = "def f(n, a: T.Tensor(n), b: T.Tensor(n)):\n  with T.Kernel(n) as x:\n"
    return _AS_MODULE + "T\n" + head + "".join(f"    {line}\n" for line in body.split("; "))


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        ("T.fill(u, 0); T.fill(v, 0)", 1),
        ("T.fill(u, 0); T.fill(u, 1)", 0),
        ("T.copy(a[x], u); T.copy(b[x], v)", 1),
        ("T.copy(a[x], u); T.copy(a[x], v)", 0),
        ("T.copy(u, v); T.copy(v, w)", 0),
        ("T.fill(u, 0); T.barrier_all(); T.fill(v, 0)", 0),
        ("T.fill(u, 0); T.set_flag('V', 0)", 0),
        ("i = x + n; j = x * n", 1),
        ("i = x + n; j = i * n", 0),
        ("T.fill(u, 0); unknown(v)", 0),
        ("T.fill(u, 0); T.fill(v, 0); w = T.view(u)", 0),
    ],
)
def test_independent_pairs(body: str, pairs: int) -> None:
    assert len(rewrite.independent_pairs(_kernel(body))) == pairs


def test_swapped_statements_take_their_lines_along() -> None:
    done = rewrite.swap("a\nb(\n)\n\nc\nd", [Pair(Lines(2, 3), Lines(5, 5))])
    assert done.source == "a\nc\n\nb(\n)\nd"
    assert [done.lines.image(Lines(n, n)) for n in (2, 3, 5)] == [
        Lines(4, 4),
        Lines(5, 5),
        Lines(2, 2),
    ]
    assert done.lines.agrees(Lines(2, 5), Lines(2, 5))
    assert not done.lines.agrees(Lines(2, 3), Lines(2, 3))


def test_overlapping_pairs_are_refused() -> None:
    pairs = [Pair(Lines(1, 1), Lines(2, 2)), Pair(Lines(2, 2), Lines(3, 3))]
    with pytest.raises(CannotRewriteError, match="overlaps"):
        rewrite.swap("a\nb\nc", pairs)


def test_wrapping_keeps_strings_over_several_lines() -> None:
    source = 'from __future__ import annotations\nx = """a\nb"""\n\nif x:\n    y\n'
    done = rewrite.wrap(source, "w")
    head = "from __future__ import annotations\ndef w():\n\n"
    assert done.source == head + '    x = """a\nb"""\n\n    if x:\n        y\n'
    assert done.lines.image(Lines(5, 6)) == Lines(7, 8)


def test_what_a_function_cannot_hold_is_refused() -> None:
    with pytest.raises(CannotRewriteError):
        rewrite.wrap("def f():\n    global x\n    x = 1\n", "w")


def test_appending_moves_the_future_to_the_top() -> None:
    done = rewrite.append_to("a = 1\n", "from __future__ import division\nb = 2\n")
    assert done.source == "from __future__ import division\na = 1\n\n\n\nb = 2\n"
    assert done.lines.image(Lines(2, 2)) == Lines(6, 6)


def test_rewrites_compose() -> None:
    done = rewrite.rename_locals(PREFILL).then(rewrite.rename_alias)
    done = done.then(lambda s: rewrite.wrap(s, "outer"))
    number = next(n for n, line in enumerate(PREFILL.split("\n"), 1) if "reduce_max" in line)
    image = done.lines.image(Lines(number, number))
    assert image == Lines(number + 1, number + 1)
    assert "reduce_max" in done.source.split("\n")[number]
    assert done.names["peak"]
    assert "peak" not in done.source
    compile(done.source, "composed", "exec")


@pytest.mark.parametrize("source", EVERY.values(), ids=EVERY)
def test_renaming_there_and_back_gives_the_same_bytes(source: str) -> None:
    there = rewrite.rename_locals(source, everything=True)
    back = {new: old for old, news in there.names.items() for new in news}
    again = rewrite.rename_locals(there.source, lambda name, _: back[name], everything=True)
    assert again.source == source


@comparable
@pytest.mark.parametrize("source", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("rename", [rewrite.rename_locals, rewrite.rename_definitions])
def test_renaming_changes_no_instruction(source: str, rename: Callable[[str], Rewritten]) -> None:
    assert difference(source, rename(source).source) == ""
