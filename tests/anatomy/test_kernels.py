"""Where the kernels of a file are, what they are called, and what they take."""

from __future__ import annotations

import ast

import pytest

from srcmap.anatomy.kernels import builder_names, kernel_roots, parameters, qualnames, statements
from tests.anatomy.little import nvidia, only, opened, read

HEAD = "import tilelang\nimport tilelang.language as T\n\n"

FOUND = [
    (
        "module level",
        """\
@T.prim_func
def main(A: T.Tensor((4,), 'float32')):
    with T.Kernel(1) as x:
        T.clear(A)""",
        ["main"],
    ),
    (
        "in a builder",
        """\
def build(n):
    @T.prim_func
    def main(A):
        with T.Kernel(n) as x:
            T.clear(A)
    return main""",
        ["build.main"],
    ),
    (
        "two builders deep, called decorator",
        """\
def a():
    def b():
        @T.prim_func()
        def main(A):
            with T.Kernel(1) as x:
                T.clear(A)""",
        ["a.b.main"],
    ),
    (
        "in a class, under if and try",
        """\
class C:
    if x:
        try:
            @T.prim_func
            def main(A):
                with T.Kernel(1) as x:
                    T.clear(A)
        finally:
            pass""",
        ["C.main"],
    ),
    (
        "eager",
        """\
@tilelang.jit
def main(A):
    A: T.Tensor[[4], 'float32']
    with T.Kernel(1) as x:
        T.clear(A)""",
        ["main"],
    ),
    (
        "launch under a builder's if",
        """\
def main(A, wide):
    if wide:
        with T.Kernel(2) as x:
            T.clear(A)
    else:
        with T.Kernel(1) as x:
            T.clear(A)""",
        ["main"],
    ),
    (
        "two of one name",
        """\
def build(wide):
    if wide:
        @T.prim_func
        def main(A):
            with T.Kernel(2) as x:
                T.clear(A)
    else:
        @T.prim_func
        def main(A):
            with T.Kernel(1) as x:
                T.clear(A)
    return main""",
        ["build.main", "build.main#2"],
    ),
    (
        "launched by a macro",
        """\
@T.macro
def run(A):
    with T.Kernel(1) as x:
        T.clear(A)

@T.prim_func
def main(A):
    run(A)""",
        ["main"],
    ),
    # what is none
    ("a prim_func without a launch", "@T.prim_func\ndef main(A):\n    T.clear(A)", []),
    ("a macro alone", "@T.macro\ndef run(A):\n    with T.Kernel(1) as x:\n        T.clear(A)", []),
    ("a reference", "def ref(q, k):\n    return (q @ k.T).softmax(-1)", []),
    (
        "triton",
        """\
import triton
import triton.language as tl

@triton.jit
def main(A):
    with tl.Kernel(1) as x:
        tl.store(A, 0)""",
        [],
    ),
    ("another Kernel", "def main(A):\n    with Kernel(1) as x:\n        T.clear(A)", []),
]


@pytest.mark.parametrize(("body", "names"), [r[1:] for r in FOUND], ids=[r[0] for r in FOUND])
def test_roots(body: str, names: list[str]) -> None:
    tree = ast.parse(HEAD + body)
    called = qualnames(tree)
    assert [called[root.function] for root in kernel_roots(tree)] == names


def test_no_kernel_without_an_import() -> None:
    assert kernel_roots(ast.parse(FOUND[0][1])) == []


def test_an_import_in_a_function_counts() -> None:
    body = FOUND[1][1].replace(
        "def build(n):\n", "def build(n):\n    import tilelang.language as T\n"
    )
    assert len(kernel_roots(ast.parse(body))) == 1


def test_qualified_names_count_in_their_scope() -> None:
    tree = ast.parse(
        "def f():\n    def g(): pass\n    def g(): pass\nclass f:\n    def g(self): pass\n"
        "async def h():\n    for x in y:\n        def g(): pass\n"
    )
    assert sorted(qualnames(tree).values()) == ["f", "f#2", "f#2.g", "f.g", "f.g#2", "h", "h.g"]


def test_builders_from_the_outside_in() -> None:
    (root,) = kernel_roots(ast.parse(HEAD + FOUND[2][1]))
    assert [builder.name for builder in root.builders] == ["a", "b"]
    assert builder_names([root]) == {"a", "b", "main"}  # a wrapper is one too
    (eager,) = kernel_roots(ast.parse(HEAD + FOUND[4][1]))
    assert builder_names([eager]) == {"main"}


def test_parameters_with_their_lines() -> None:
    source = (
        HEAD
        + """\
def main(
    A,
    n: T.int32,
):
    A: T.Tensor[[n], 'float32']
    with T.Kernel(1) as x:
        y: T.int32 = 3
        T.clear(A)
"""
    )
    (root,) = kernel_roots(ast.parse(source))
    assert parameters(root) == {"A": 8, "n": 6}  # an annotation in the body is the parameter line


def test_statements_of_every_block() -> None:
    tree = ast.parse(
        """\
try:
    a
except E:
    b
else:
    c
finally:
    d
match x:
    case 1:
        e
"""
    )
    names = {
        s.value.id
        for s in statements(tree)
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Name)
    }
    assert names == {"a", "b", "c", "d", "e"}


def test_regions() -> None:
    kernel = opened(
        nvidia(
            parameters='W: T.Tensor((B, D), "float16"),',
            later="with T.Kernel(B) as y:\n    T.copy(O[y, 0, 0, 0], W[y, 0])",
        )
    )
    first, second = kernel.context.regions
    assert kernel.context.region_of(kernel.facts.qk_products[0].statement) is first
    assert [
        r.lines.first < kernel.facts.qk_products[0].statement.lines.first for r in (first, second)
    ] == [True, False]
    assert kernel.facts.handed_on == {"O"}


def test_global_memory_is_per_region() -> None:
    """What one region writes is not a workspace of that region when another reads it."""
    kernel = opened(
        nvidia(
            parameters='W: T.Tensor((B, D), "float16"),',
            later="with T.Kernel(B) as y:\n    T.copy(O[y, 0, 0, 0], W[y, 0])",
        )
    )
    assert kernel.facts.workspaces == set()


# Where the kernel stands, how it is dressed and how things are imported changes no answer.
DRESSES = {
    "plain": ("", ""),
    "from the package": ("import tilelang.language as T", "from tilelang import language as T"),
    "single names": (
        "import tilelang.language as T",
        "import tilelang.language as T\nfrom tilelang.language import copy as move",
    ),
    "no jit": ("@tilelang.jit(out_idx=[3])\n", ""),
    "two decorators": ("@tilelang.jit(", "@tune(configs=[1])\n@tilelang.jit("),
    "decorator with a call": ("@T.prim_func\n", "@T.prim_func(private=True)\n"),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_dress(dress: str) -> None:
    source = nvidia()
    if dress == "single names":
        source = source.replace("T.copy(", "move(")
    plain = {(s.concept, s.label) for s in only(nvidia()).sites}
    assert {(s.concept, s.label) for s in only(source.replace(*DRESSES[dress])).sites} == plain


def test_reference_and_driver_beside_a_kernel_are_nothing() -> None:
    tail = """
def reference(Q, K, V, scale):
    s = (Q @ K.transpose(-1, -2)) * scale
    m = s.max(-1, keepdim=True).values
    s = (s - m).exp()
    return s / s.sum(-1, keepdim=True) @ V


if __name__ == "__main__":
    scale = 3
    print(build(1, 2, 3, 4))
"""
    assert len(read(nvidia(tail=tail)).kernels) == 1
    assert only(nvidia(tail=tail)).sites == only(nvidia()).sites


def test_two_kernels_of_one_builder_are_read_apart() -> None:
    source = nvidia()
    again = source[source.index("    @T.prim_func") : source.index("    return main")]
    both = read(source.replace("    return main", again + "    return main"))
    assert [kernel.qualname for kernel in both.kernels] == ["build.main", "build.main#2"]
    concepts = [[site.concept for site in kernel.sites] for kernel in both.kernels]
    assert concepts[0] == concepts[1]
