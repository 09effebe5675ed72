"""What library_sites finds in Python: tiny definitions written here."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srcmap.anatomy.library import library_sites
from srcmap.model import Lines, Site

POLICY = '''\
from enum import IntEnum


# How warps share the work.
class WarpPolicy(IntEnum):
    """Shares of a product."""

    Square = 0
    FullRow = 1
    # the other way round
    FullCol = 2

    def is_row(self):
        return self == WarpPolicy.FullRow
'''

REDUCE = '''\
def reduce_sum(buffer, out, dim=-1, clear=True):
    """Sum.

    clear: whether old values are dropped
    """
    return reduce(buffer, out, "sum", dim, clear)


# The largest.
def reduce_max(
    buffer,
    out,
    dim: int = -1,
    clear: bool = True,
):
    """Maximum; with clear=True from -inf."""
    return reduce(buffer, out, "max", dim, clear)


def reduce_absmax(buffer, out, dim=-1, clear=True):
    """Largest magnitude."""
    return reduce(buffer, out, "absmax", dim, clear)


def reduce_abssum(buffer, out, dim=-1):
    """Never keeps; no clear."""
    return reduce(buffer, out, "abssum", dim, True)
'''

GEMM = '''\
def gemm(A, B, C, transpose_A=False, policy=None, clear_accum=False):
    """Product.

    Synchronous: waits by itself. An asynchronous one is elsewhere.

    To schedule asynchronously by hand, use `T.other_gemm(...)` and
    `T.wait_other(...)`.

    Args:
        A: one
    """
    return call(A, B, C)
'''

TMEM = '''\
def alloc_tmem(shape, dtype):
    """
    Tensor memory.

    Rules:
        - columns in powers of two

    Args:
        shape: of the buffer
    """
    return make(shape, dtype, scope="shared.tmem")
'''

SOURCES = {"policy": POLICY, "reduce": REDUCE, "gemm": GEMM, "tmem": TMEM}


def sites(source: str) -> tuple[Site, ...]:
    return library_sites(ast.parse(source), source.split("\n"))


def found(source: str) -> list[tuple[str, str, Lines]]:
    return [(site.concept, site.label, site.lines) for site in sites(source)]


def test_a_policy_is_its_line_and_its_members() -> None:
    (site,) = sites(POLICY)
    assert (site.concept, site.label, site.lines) == ("warp-policy", "", Lines(5, 11))
    assert site.context == Lines(4, 11)
    assert site.qualname == "WarpPolicy"
    assert site.proof[0].note.args["members"] == "Square, FullRow, FullCol"


@pytest.mark.parametrize(
    ("old", "new"),
    [("IntEnum)", "Thing)"), ("FullCol =", "Other =")],
    ids=["no-enum", "other-members"],
)
def test_classes_that_are_no_policy(old: str, new: str) -> None:
    assert found(POLICY.replace(old, new)) == []


def test_the_maximum_is_the_plain_answer_and_the_others_are_labelled() -> None:
    assert found(REDUCE) == [
        ("reduce-clear", "op=sum", Lines(1, 6)),
        ("reduce-clear", "", Lines(10, 17)),
        ("reduce-clear", "op=absmax", Lines(20, 22)),
    ]
    by_label = {site.label: site for site in sites(REDUCE)}
    assert by_label[""].context == Lines(9, 17)
    assert (by_label[""].confidence, by_label["op=absmax"].confidence) == ("high", "medium")


@pytest.mark.parametrize(
    "source",
    [
        'def reduce_max(M, N, block_M, dim):\n    """clear"""\n    return clear\n',
        'def reduce_macro(buffer, out, dim, clear):\n    """clear"""\n    return clear\n',
        "def reduce_max(buffer, out, dim, clear):\n    return buffer\n",
        'def test_reduce_max_op(buffer, dim, clear):\n    """clear"""\n',
        'def f():\n    def reduce_max(buffer, out, dim, clear):\n        """clear"""\n',
    ],
    ids=["no-clear", "no-operation", "unused", "test", "inner"],
)
def test_functions_that_are_no_reduction(source: str) -> None:
    assert found(source) == []


def test_the_paragraph_on_asynchronous_scheduling() -> None:
    (site,) = sites(GEMM)
    assert (site.concept, site.label, site.lines) == ("gemm-async-note", "", Lines(6, 7))
    assert site.qualname == "gemm"


def test_a_paragraph_that_begins_on_the_quotes() -> None:
    source = 'def gemm(A, B, C):\n    """Manual asynchronous use: wait for it."""\n'
    assert found(source) == [("gemm-async-note", "", Lines(2, 2))]


@pytest.mark.parametrize(
    "source",
    [
        GEMM.replace("def gemm(", "def other("),
        GEMM.replace("asynchronously", "carefully"),
        GEMM.replace("wait_other", "go_other"),
        GEMM.replace('    """Product', '    text = """Product'),
    ],
    ids=["other-function", "not-asynchronous", "no-wait", "no-docstring"],
)
def test_docstrings_without_the_note(source: str) -> None:
    assert [c for c, _, _ in found(source) if c == "gemm-async-note"] == []


def test_tensor_memory_from_the_definition_to_the_arguments() -> None:
    (site,) = sites(TMEM)
    assert (site.concept, site.label, site.lines) == ("tmem-docstring", "", Lines(1, 8))
    assert site.qualname == "alloc_tmem"


RETURNED = 'return make(shape, dtype, scope="shared.tmem")'
BY_NAME = TMEM.replace(RETURNED, 'b = make(scope="shared.tmem")\n    return b')
BY_DEFAULT = TMEM.replace(RETURNED, "return b").replace("dtype)", 'dtype, scope="shared.tmem")')


@pytest.mark.parametrize(
    ("source", "last"),
    [
        (TMEM.replace("    Args:\n        shape: of the buffer\n", ""), 8),
        (BY_NAME, 8),
        (BY_DEFAULT, 8),
    ],
    ids=["no-arguments", "by-a-name", "by-default"],
)
def test_other_ways_to_allocate_it(source: str, last: int) -> None:
    assert found(source) == [("tmem-docstring", "", Lines(1, last))]


@pytest.mark.parametrize(
    "source",
    [
        TMEM.replace("shared.tmem", "shared.dyn"),
        TMEM.replace("return make", "make"),
        TMEM.replace("(shape, dtype):", "(meta):"),
        re.sub(r'"""[\s\S]*"""', "pass", TMEM),
    ],
    ids=["other-scope", "kept", "other-parameters", "no-docstring"],
)
def test_functions_that_do_not(source: str) -> None:
    assert found(source) == []


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
class TestMetamorphic:
    """The same definitions in another shape, on the lines that they moved to."""

    def test_shifted(self, source: str) -> None:
        moved = [(c, lab, Lines(at.first + 4, at.last + 4)) for c, lab, at in found(source)]
        assert found('"""Docs: FullRow."""\n\n# reduce_max\nx = 1\n' + source) == moved

    def test_renamed(self, source: str) -> None:
        names = r"\b(WarpPolicy|buffer|out|make|reduce|call|A|B|C)\b"
        assert found(re.sub(names, r"my_\1", source)) == found(source)

    def test_in_a_class(self, source: str) -> None:
        body = "class Dialect:\n" + re.sub(r"(?m)^(?=.)", "    ", source)
        moved = [(c, lab, Lines(at.first + 1, at.last + 1)) for c, lab, at in found(source)]
        assert found(body) == moved


@given(st.sampled_from(list(SOURCES.values())), st.integers(0, 30))
def test_too_few_lines_do_not_crash_it(source: str, kept: int) -> None:
    library_sites(ast.parse(source), source.split("\n")[:kept])
