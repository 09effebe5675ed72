# ruff: noqa: E501  (marks make lines of kernels longer than code would be)
"""Macros and value helpers, read where they are called and located where they are written."""

from __future__ import annotations

import ast

import pytest

from srcmap.anatomy.inline import MAX_DEPTH
from tests.anatomy.little import nvidia, opened, read, roots, sites, wrong

HELPED = {
    "macro beside the kernel": nvidia(
        builder="""
        @T.macro
        def shrink(one, other, factor):
            for i in T.Parallel(bq):  #: rescale-factor
                factor[i] = T.exp2(one[i] * scale - other[i] * scale)  #: rescale-factor
        """,
        rescale="shrink(m0, m, r)",
    ),
    "undecorated helper of tile statements": nvidia(
        builder="""
        def top(tile, peak, before):
            T.copy(peak, before)  #: row-max
            T.reduce_max(tile, peak, dim=1, clear=False)  #: row-max
        """,
        maximum="top(s, m, m0)",
    ),
    "keyword arguments": nvidia(
        builder="""
        @T.macro
        def top(tile, peak, before):
            T.copy(peak, before)  #: row-max
            T.reduce_max(tile, peak, dim=1, clear=False)  #: row-max
        """,
        maximum="top(s, before=m0, peak=m)",
    ),
    "defaults": nvidia(
        builder="""
        @T.macro
        def divide(acc, rows, *, cols=D, unused=3):
            for i, j in T.Parallel(bq, D):  #: normalise
                acc[i, j] /= rows[i]  #: normalise
        """,
        normalise="divide(o, l)",
    ),
    "macro in a macro": nvidia(
        builder="""
        @T.macro
        def reduce(tile, peak):
            T.reduce_max(tile, peak, dim=1, clear=False)  #: row-max

        @T.macro
        def top(tile, peak, before):
            T.copy(peak, before)
            reduce(tile, peak)
        """,
        maximum="top(s, m, m0)",
    ),
    "macro's own locals are its own": nvidia(
        builder="""
        @T.macro
        def shrink(one, other, factor):
            scale2 = scale
            x = 7
            for i in T.Parallel(bq):  #: rescale-factor
                factor[i] = T.exp2(one[i] * scale - other[i] * scale)  #: rescale-factor
        """,
        rescale="shrink(m0, m, r)",
    ),
    "value helper": nvidia(
        builder="""
        def past(row, col):
            return col > row
        """,
        mask="""
        for i, j in T.Parallel(bq, bk):  #: causal-mask
            s[i, j] = T.if_then_else(past(x * bq + i, n * bk + j), -T.infinity("float32"), s[i, j])  #: causal-mask, mask-value
        """,
    ),
    "value helper with scalars of its own": nvidia(
        builder="""
        def past(row, col, step=bk):
            \"\"\"Is the key later than the query?\"\"\"
            at = n_of(col, step)
            return at > row

        def n_of(col, step):
            return col * step
        """,
        mask="""
        for i, j in T.Parallel(bq, bk):  #: causal-mask
            s[i, j] = T.if_then_else(past(x * bq + i, n + j), -T.infinity("float32"), s[i, j])  #: causal-mask, mask-value
        """,
    ),
    "value helper in a test": nvidia(
        builder="""
        def past(row, col):
            return col > row
        """,
        mask="""
        for i, j in T.Parallel(bq, bk):  #: causal-mask
            if past(x * bq + i, n * bk + j):  #: causal-mask
                s[i, j] = -T.infinity("float32")  #: causal-mask, mask-value
        """,
    ),
}


@pytest.mark.parametrize("name", HELPED)
def test_what_a_helper_does_stands_in_the_helper(name: str) -> None:
    assert wrong(HELPED[name]) == []


def test_a_helper_called_twice_is_one_place() -> None:
    source = nvidia(
        builder="""
        @T.macro
        def load(tile, at):
            T.copy(K[0, 0, at : at + bk, :], tile)
        """,
        load_k="load(k, n * bk)\nload(k, n * bk + 1)",
    )
    assert [str(site.lines) for site in sites(source, "kv-loop")] == [
        str(site.lines) for site in sites(source, "kv-loop")
    ]
    kernel = opened(source)
    loads = kernel.facts.loads_of("K")
    assert len({access.statement.place for access in loads}) == 1
    assert len({access.statement.uid for access in loads}) == 2


def test_a_helper_that_calls_itself_ends() -> None:
    source = nvidia(
        builder="""
        @T.macro
        def again(tile):
            T.clear(tile)
            again(tile)

        def deep(a):
            return deep(a + 1)
        """,
        before="again(d)\nstart = deep(1)",
    )
    (root,) = roots(source)
    clears = [
        node
        for top in root.body
        for node in ast.walk(top)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "T.clear"
    ]
    assert MAX_DEPTH <= len(clears) <= MAX_DEPTH + 2
    assert sites(source, "qk-gemm")


def test_the_innermost_definition_of_a_name_is_called() -> None:
    source = nvidia(
        module="def past(row, col):\n    return col < row\n",
        builder="def past(row, col):\n    return col > row",
        mask="""
        for i, j in T.Parallel(bq, bk):
            s[i, j] = T.if_then_else(past(x * bq + i, n * bk + j), -T.infinity("float32"), s[i, j])
        """,
    )
    assert [site.concept for site in sites(source, "causal-mask", "window-mask")] == ["causal-mask"]


def test_what_cannot_be_a_helper_is_left_alone() -> None:
    """Decorated by another library, or doing more than tilelang statements and a value."""
    source = nvidia(
        module="""import functools


@functools.cache
def past(row, col):
    return col > row

""",
        mask="""
        for i, j in T.Parallel(bq, bk):
            s[i, j] = T.if_then_else(past(x * bq + i, n * bk + j), -T.infinity("float32"), s[i, j])
        """,
    )
    assert sites(source, "causal-mask") == []


NEIGHBOURS = [
    (
        "its file is there",
        "from masks import past",
        "past",
        "def past(row, col):\n    return col > row",
        True,
    ),
    (
        "from the folder",
        "from .masks import past",
        "past",
        "def past(row, col):\n    return col > row",
        True,
    ),
    (
        "there is no such file",
        "from other import past",
        "past",
        "def past(row, col):\n    return col > row",
        False,
    ),
    ("its file is broken", "from masks import past", "past", "def past(row, col)", False),
    ("not a value", "from masks import past", "past", "def past(row, col):\n    print(col)", False),
    (
        "its own helper wins",
        "from masks import past\n\n\ndef past(row, col):\n    return 0\n",
        "past",
        "def past(row, col):\n    return col > row",
        False,
    ),
]


@pytest.mark.parametrize(
    ("line", "called", "neighbour", "found"),
    [r[1:] for r in NEIGHBOURS],
    ids=[r[0] for r in NEIGHBOURS],
)
def test_helper_from_a_neighbour(line: str, called: str, neighbour: str, found: bool) -> None:
    source = nvidia(
        module=line,
        mask=f"""
        for i, j in T.Parallel(bq, bk):
            s[i, j] = T.if_then_else({called}(x * bq + i, n * bk + j), -T.infinity("float32"), s[i, j])
        """,
    )
    reading = read(source, masks=neighbour + "\n")
    concepts = {site.concept for kernel in reading.kernels for site in kernel.sites}
    assert ("causal-mask" in concepts) == found


def test_helper_from_a_neighbour_under_another_name() -> None:
    test_helper_from_a_neighbour(
        "from masks import past as hidden",
        "hidden",
        "def past(row, col):\n    return col > row",
        found=True,
    )
