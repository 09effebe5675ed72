"""Proofs that a change changes nothing, and changes that look alike and do change something."""

from __future__ import annotations

import ast

import pytest

from srcmap.model import Lines
from srcmap.verify.equivalence import proven
from srcmap.verify.linear import NotLinearError, all_of, cases, impossible

HEAD = """\
def main(n, low):
    m = T.alloc_fragment([M], f32)
    p = T.alloc_fragment([M], f32)
    q = T.alloc_fragment([N], f32)
    h = T.alloc_fragment([M], f16)
    s = T.alloc_fragment([M, N], f32)
    for k in T.Pipelined(n):
"""
LINE = HEAD.count("\n") + 1


def told(before: str, after: str) -> str | None:
    """Return the key of the proof that two bodies of the loop do the same."""
    texts = [HEAD + "".join(f"        {line}\n" for line in x.split("\n")) for x in (before, after)]
    last = LINE + before.count("\n")
    note = proven(texts[0], texts[1], Lines(LINE, last))
    return note.key if note else None


JOIN = "for i in T.Parallel(M):\n    m[i] = T.max(m[i], p[i])"
RESET = "T.fill(m, -T.infinity(f32))"
FROM_OLD = "T.reduce_max(s, m, dim=1, clear=False)"


def lines(*statements: str) -> str:
    return "\n".join(statements)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # The reset is of no use where the old maximum is taken in later.
        (
            lines("T.copy(m, p)", RESET, FROM_OLD, JOIN),
            lines("T.copy(m, p)", "pass", FROM_OLD, JOIN),
        ),
        # Taking it in is of no use where the reduction starts from it.
        (lines("T.copy(m, p)", FROM_OLD, JOIN), lines("T.copy(m, p)", FROM_OLD, "pass", "")),
        (
            lines("T.copy(m, p)", FROM_OLD, JOIN),
            lines("T.copy(m, p)", FROM_OLD, JOIN.replace("p[i]", "m[i]")),
        ),
        # The order does not matter.
        (JOIN, JOIN.replace("m[i], p[i]", "p[i], m[i]")),
        # What is overwritten was never there.
        (lines(RESET, "T.reduce_max(s, m, dim=1)"), lines("pass", "T.reduce_max(s, m, dim=1)")),
        # Two statements of one loop are two loops, element by element.
        (
            lines("T.copy(m, p)", RESET, FROM_OLD, JOIN, "    h[i] = p[i] - m[i]"),
            lines("T.copy(m, p)", "pass", FROM_OLD, JOIN, "    h[i] = p[i] - m[i]"),
        ),
    ],
)
def test_maxima_that_come_out_the_same_are_proven(before: str, after: str) -> None:
    assert told(before, after) == "mutant.proven-maximum"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # Nobody takes the old maximum in.
        (lines("T.copy(m, p)", RESET, FROM_OLD), lines("T.copy(m, p)", "pass", FROM_OLD)),
        # Somebody looks in between.
        (
            lines("T.copy(m, p)", RESET, "T.copy(m, q)", FROM_OLD, JOIN),
            lines("T.copy(m, p)", "pass", "T.copy(m, q)", FROM_OLD, JOIN),
        ),
        # The copy rounds, or is of another size.
        (
            lines("T.copy(m, h)", RESET, FROM_OLD, JOIN.replace("p", "h")),
            lines("T.copy(m, h)", "pass", FROM_OLD, JOIN.replace("p", "h")),
        ),
        # The loop does not go over all of it.
        (
            lines("T.copy(m, p)", RESET, FROM_OLD, JOIN.replace("M", "N")),
            lines("T.copy(m, p)", "pass", FROM_OLD, JOIN.replace("M", "N")),
        ),
        # The rows are not their own.
        (
            lines("T.copy(m, p)", RESET, FROM_OLD, JOIN.replace("p[i]", "p[0]")),
            lines("T.copy(m, p)", "pass", FROM_OLD, JOIN.replace("p[i]", "p[0]")),
        ),
        # A reset to something else than minus infinity.
        (
            lines("T.copy(m, p)", "T.fill(m, 0)", FROM_OLD, JOIN),
            lines("T.copy(m, p)", "pass", FROM_OLD, JOIN),
        ),
        # A branch leaves in between.
        (
            lines("T.copy(m, p)", RESET, "if k:", "    break", FROM_OLD, JOIN),
            lines("T.copy(m, p)", "pass", "if k:", "    break", FROM_OLD, JOIN),
        ),
        # The memory has another name, by which it is looked at.
        (
            lines("z = m", "T.copy(m, p)", RESET, "T.copy(z, q)", FROM_OLD, JOIN),
            lines("z = m", "T.copy(m, p)", "pass", "T.copy(z, q)", FROM_OLD, JOIN),
        ),
        ("x = n + 1", "x = n - 1"),
        ("T.clear(s)", "pass"),
    ],
)
def test_what_may_come_out_differently_is_not(before: str, after: str) -> None:
    assert told(before, after) is None


FLOOR = """\
def main(n):
    low = -1e6
    m = T.alloc_fragment([M], f32)
    p = T.alloc_fragment([M], f32)
    T.fill(m, low)
    for k in T.Pipelined(n):
        T.copy(m, p)
        T.fill(m, low)
        T.reduce_max(s, m, dim=1, clear=False)
        for i in T.Parallel(M):
            m[i] = T.max(m[i], p[i])
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", True),
        ("    T.fill(m, low)\n    for", "    for", False),  # nothing says that it starts there
        ("low = -1e6", "low = -1e6\n    low = n", False),  # no constant
        ("    for k", "    T.copy(n, m)\n    for k", False),  # something else is put there
        ("m[i] = T.max(m[i], p[i])", "m[i] = T.max(m[i], p[i])\n            m[i] = n", False),
    ],
)
def test_a_constant_that_nothing_is_below_is_as_good_as_minus_infinity(
    old: str, new: str, same: bool
) -> None:
    text = FLOOR.replace(old, new)
    line = next(n for n, x in enumerate(text.split("\n"), 1) if x == "        T.fill(m, low)")
    dropped = text.replace("        T.fill(m, low)", "        pass")
    note = proven(text, dropped, Lines(line, line))
    assert (note is not None) is same


PACKED = """\
def main(cu):
    a = cu[b]
    z = cu[b + 1]
    length = z - a
    offset = keys - length
    s = T.alloc_fragment([M, N], f32)
    c = T.alloc_fragment([M, N], f16)
    m = T.alloc_fragment([M], f32)
    o = T.alloc_fragment([M, D], f32)
    r = T.alloc_shared([M, D], f16)
    for k in T.Pipelined(blocks):
        for i, j in T.Parallel(M, N):
            s[i, j] = T.if_then_else(MASK, -T.infinity(s.dtype), 0)
        T.gemm(Q, K, s, transpose_B=True)
        T.reduce_max(s, m, dim=1, clear=False)
        for i, j in T.Parallel(M, N):
            s[i, j] = T.exp2(s[i, j] - m[i])
        T.copy(s, c)
        T.gemm(c, V, o)
    T.copy(o, r)
    for i, d in T.Parallel(M, D):
        if bx * M + i < length:
            O[a + bx * M + i, d] = r[i, d]
"""
CAUSAL = "bx * M + i + offset < k * N + j or (bx * M + i >= length or k * N + j >= keys)"


def rows(before: str, after: str, kernel: str = PACKED) -> bool:
    line = next(n for n, x in enumerate(kernel.split("\n"), 1) if "MASK" in x)
    texts = kernel.replace("MASK", before), kernel.replace("MASK", after)
    note = proven(*texts, Lines(line, line))
    assert note is None or note.key == "mutant.proven-rows"
    return note is not None


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (CAUSAL, CAUSAL.replace("i >= length", "i > length"), True),
        (CAUSAL, CAUSAL.replace("j >= keys", "j > keys"), True),
        (CAUSAL, CAUSAL.replace("(bx * M + i >= length or", "(bx * M + i >= length and"), True),
        (CAUSAL, CAUSAL.replace("offset <", "offset <="), False),
        (CAUSAL, CAUSAL.replace("i >= length", "i >= length - 1"), False),
        (
            "bx * M + i >= length or k * N + j >= keys",
            "bx * M + i >= length or k * N + j > keys",
            False,
        ),
        ("bx * M + i >= length", "bx * M + i > length", True),
        ("f(i) >= length", "f(i) > length", False),
    ],
)
def test_a_mask_may_differ_in_rows_that_are_not_stored(before: str, after: str, same: bool) -> None:
    assert rows(before, after) is same


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        if bx * M + i < length:\n            O", "        if True:\n            O"),
        ("if bx * M + i < length:", "if bx * M + i <= length:"),
        ("O[a + bx * M + i, d] = r[i, d]", "O[a + bx * M + i, d] = r[i - 1, d]"),
        ("T.reduce_max(s, m, dim=1, clear=False)", "T.reduce_max(s, m, dim=0, clear=False)"),
        ("T.gemm(c, V, o)", "T.gemm(V, c, o)"),
        ("T.gemm(c, V, o)", "T.gemm(c, V, o, transpose_A=True)"),
        ("T.copy(o, r)", "T.copy(o, O[a : a + M, :])"),
        ("s[i, j] - m[i]", "s[i, j] - m[j]"),
        ("T.copy(s, c)", "T.copy(s, c)\n        other(s)"),
        ("    offset = keys - length", "    offset = keys - length\n    length = 2"),
    ],
)
def test_unless_rows_meet_or_are_stored_anyway(old: str, new: str) -> None:
    assert old in PACKED
    kernel = PACKED.replace(old, new)
    assert not rows("bx * M + i >= length", "bx * M + i > length", kernel)


def test_the_same_program_is_proven() -> None:
    note = proven("x = (1)\n", "x = 1\n", Lines(1, 1))
    assert note is not None
    assert note.key == "mutant.proven-text"


@pytest.mark.parametrize(
    ("tests", "contradiction"),
    [
        (("a < b", "b < a"), True),
        (("a < b", "b < a + 2"), False),
        (("a < b", "b < a + 1"), True),  # whole numbers
        (("a <= b", "b <= c", "c <= d", "d < a"), True),
        (("a <= b", "b <= c", "c <= d", "d <= a"), False),
        (("x == y", "x != y"), True),
        (("not (a < b or c < d)", "a < b"), True),
        (("not (a < b and c < d)", "a < b"), False),
        (("p * q + 1 < r", "r <= p * q"), True),
        (("-a < b", "b < -a - 1"), True),
    ],
)
def test_inequalities_contradict_each_other_or_may_not(
    tests: tuple[str, ...], contradiction: bool
) -> None:
    found = all_of(cases(ast.parse(t, mode="eval").body, True, lambda _: None) for t in tests)
    assert all(impossible(case) for case in found) is contradiction


def test_other_conditions_are_not_judged() -> None:
    with pytest.raises(NotLinearError):
        cases(ast.parse("f(a) < b", mode="eval").body, True, lambda _: None)
