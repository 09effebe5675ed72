"""The derivation as properties: what must hold for all scores, all blocks, all orders.

(A) O(t) = exp(-m) * sum of exp(x_j) v_j and (B) l(t) = exp(-m) * sum of exp(x_j), over the keys
seen so far, are the induction of the proof; they are looked at after every block, here and in the
step of `kernels/mha/blocked.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

EPS = float(np.finfo(np.float64).eps)
LARGEST = 300.0
"""Of a score: exp(600) is still a number in float64, so both sides can be written down."""

quick = settings(max_examples=60, deadline=None)


@st.composite
def rows(draw: st.DrawFn, least: int = 1) -> tuple[Any, Any, list[int]]:
    """Draw scores [n], values [n, 3] and a cut into blocks: some large, some hidden (-inf)."""
    count = draw(st.integers(least, 24))
    score = st.floats(-LARGEST, LARGEST) | st.just(-np.inf)
    scores = np.array(draw(st.lists(score, min_size=count, max_size=count)))
    value = st.floats(-4, 4, allow_subnormal=False)
    values = np.array(draw(st.lists(value, min_size=3 * count, max_size=3 * count)))
    cuts = draw(st.lists(st.integers(1, count), max_size=5))
    return scores, values.reshape(count, 3), sorted({0, *cuts, count})


def budget(scores: Any, count: float) -> float:
    """Return the relative error of sums of exponentials: theirs is that of x, times |x|."""
    finite = scores[np.isfinite(scores)]
    return 8 * EPS * (count + float(np.abs(finite).max(initial=0.0)) + 1)


def safe(m: float) -> float:
    """Return a maximum that can be subtracted: without any key it is 0."""
    return 0.0 if m == -np.inf else m


def online(scores: Any, values: Any, cuts: list[int]) -> Iterator[tuple[float, float, Any, float]]:
    """Yield m, l, O and the rescale factor c after each block: the recurrence as it is derived."""
    m, total, out = -np.inf, 0.0, np.zeros(values.shape[1])
    for start, stop in pairwise(cuts):
        new = max(m, float(scores[start:stop].max()))
        c = float(np.exp(m - safe(new)))
        p = np.exp(scores[start:stop] - safe(new))
        total, out, m = c * total + float(p.sum()), c * out + p @ values[start:stop], new
        yield m, total, out, c


def definition(scores: Any, values: Any) -> Any:
    """Return softmax(scores) values, 0 when all is hidden."""
    if not np.isfinite(scores).any():
        return np.zeros(values.shape[1])
    raised = np.exp(scores - scores.max())
    return raised @ values / raised.sum()


@quick
@given(rows(), st.floats(-LARGEST, LARGEST))
def test_softmax_does_not_see_a_shift(row: Any, shift: float) -> None:
    scores, values, _ = row
    close = budget(np.append(scores, shift), len(scores)) * np.abs(values).max()
    assert np.abs(definition(scores + shift, values) - definition(scores, values)).max() <= close


@quick
@given(rows())
def test_invariants_hold_after_every_block(row: Any) -> None:
    scores, values, cuts = row
    for stop, (m, total, out, _) in zip(cuts[1:], online(scores, values, cuts), strict=True):
        terms = np.exp(scores[:stop] - safe(m))  # exp(-m) exp(x_j), without leaving the numbers
        allowed = budget(scores, stop) * (terms.sum() + 1e-300)
        assert m == scores[:stop].max()
        assert abs(total - terms.sum()) <= allowed  # (B)
        assert np.abs(out - terms @ values[:stop]).max() <= 4 * allowed  # (A)


@quick
@given(rows())
def test_the_step_of_our_kernel_keeps_the_invariants(row: Any) -> None:
    """The same of `kernels.mha.blocked.step`, in float64, its m unscaled and its base 2."""
    blocked = pytest.importorskip("kernels.mha.blocked", reason="kernels/mha is not here")
    scores, values, cuts = row
    if not np.isfinite(scores[: cuts[1]]).any():
        return  # full attention never starts with a block that is wholly hidden
    q, keys = np.array([[1.0]]), np.where(np.isfinite(scores), scores, 0.0)[:, None]
    state = blocked.empty_state(1, values.shape[1], np.float64)
    for start, stop in pairwise(cuts):
        seen = np.isfinite(scores[start:stop])[None, :]
        state = blocked.step(state, q, keys[start:stop], values[start:stop], seen)
        m, total, out = state
        terms = np.exp(scores[:stop] - m[0])
        allowed = budget(scores, stop) * terms.sum()
        assert m[0] == scores[:stop].max()
        assert abs(total[0] - terms.sum()) <= allowed
        assert np.abs(out[0] - terms @ values[:stop]).max() <= 4 * allowed


@quick
@given(rows())
def test_the_factor_is_in_the_half_open_interval(row: Any) -> None:
    """c is in (0, 1], 1 when the maximum stays, and 0 only before any key was seen."""
    scores, values, cuts = row
    before = -np.inf
    for m, _, _, c in online(scores, values, cuts):
        if before == -np.inf:
            assert c == 0.0 or m == -np.inf
        else:
            assert 0 < c <= 1
            assert c == 1 if m == before else c < 1 or m - before < EPS
        before = m


@quick
@given(rows())
def test_the_end_is_the_definition(row: Any) -> None:
    scores, values, cuts = row
    *_, (m, total, out, _) = online(scores, values, cuts)
    got = out / total if m > -np.inf else np.zeros(3)
    allowed = budget(scores, len(scores)) * 4
    assert np.abs(got - definition(scores, values)).max() <= allowed


@quick
@given(rows(), st.randoms(use_true_random=False))
def test_order_of_keys_does_not_matter(row: Any, chance: Any) -> None:
    scores, values, cuts = row
    order = list(range(len(scores)))
    chance.shuffle(order)
    ends = []
    for x, v in ((scores, values), (scores[order], values[order])):
        *_, (m, total, out, _) = online(x, v, cuts)
        ends.append(out / total if m > -np.inf else np.zeros(3))
    assert np.abs(ends[0] - ends[1]).max() <= 8 * budget(scores, len(scores))


Part = tuple[float, float, Any]


def merged(a: Part, b: Part) -> Part:
    """Return two states (m, l, O) as one: both are brought to the larger maximum."""
    m = max(a[0], b[0])
    ca, cb = (float(np.exp(x[0] - safe(m))) for x in (a, b))
    return m, ca * a[1] + cb * b[1], ca * a[2] + cb * b[2]


def part(scores: Any, values: Any) -> Part:
    """Return the state of one split."""
    *_, (m, total, out, _) = online(scores, values, [0, len(scores)])
    return m, total, out


@quick
@given(rows(least=3))
def test_merging_commutes_and_associates(row: Any) -> None:
    """Splits can be merged in any order and tree: m exactly, l and O to rounding."""
    scores, values, _ = row
    third = len(scores) // 3
    edges = [slice(0, third), slice(third, 2 * third), slice(2 * third, None)]
    a, b, c = (part(scores[e], values[e]) for e in edges)
    trees = [merged(merged(a, b), c), merged(a, merged(b, c)), merged(merged(c, a), b)]
    whole = part(scores, values)
    for m, total, out in trees:
        allowed = budget(scores, len(scores)) * (whole[1] + 1e-300)
        assert m == whole[0]
        assert abs(total - whole[1]) <= allowed
        assert np.abs(out - whole[2]).max() <= 4 * allowed
    assert merged(a, b)[0] == merged(b, a)[0]
    assert merged(a, b)[1] == pytest.approx(merged(b, a)[1], rel=4 * EPS, abs=0)


@quick
@given(rows(), st.floats(-50, 50), st.floats(-50, 50))
def test_any_m_gives_the_same_ratio(row: Any, first: float, second: float) -> None:
    """m cancels: what is subtracted changes l and O by one factor, and O / l by none."""
    scores, values, _ = row
    if not np.isfinite(scores).any():
        return
    top = scores.max()
    ratios = []
    for m in (top + first, top + second):
        p = np.exp(scores - m)
        ratios.append(p @ values / p.sum())
    allowed = 8 * budget(np.append(scores, 50.0), len(scores))
    assert np.abs(ratios[0] - ratios[1]).max() <= allowed


@quick
@given(rows(), st.floats(-LARGEST, LARGEST))
def test_a_sink_is_a_key_without_a_value(row: Any, sink: float) -> None:
    """With m* = max(m, sink) nothing overflows, and the result is that of one more key, v = 0."""
    scores, values, cuts = row
    *_, (m, total, out, _) = online(scores, values, cuts)
    top = max(m, sink)
    c = np.exp(m - top)
    got = c * out / (c * total + np.exp(sink - top))
    want = definition(np.append(scores, sink), np.vstack([values, np.zeros(3)]))
    assert np.isfinite(got).all()
    assert np.abs(got - want).max() <= 8 * budget(np.append(scores, sink), len(scores))


@quick
@given(rows(), st.floats(-30, 30))
def test_the_sink_epilogue_equals_that_of_m_star(row: Any, sink: float) -> None:
    """Upstream adds exp(sink - m) to l and leaves m alone: the same while the sink is not large."""
    scores, values, cuts = row
    *_, (m, total, out, _) = online(scores, values, cuts)
    if m == -np.inf or sink - m > LARGEST:
        return
    plain = out / (total + np.exp(sink - m))
    top = max(m, sink)
    starred = np.exp(m - top) * out / (np.exp(m - top) * total + np.exp(sink - top))
    assert np.abs(plain - starred).max() <= 8 * budget(np.append(scores, sink), len(scores))


def test_without_m_star_a_large_sink_overflows() -> None:
    """In float32, exp(sink - m) is infinite for a sink 100 above m, and the row collapses to 0."""
    m, total, out = np.float32(-60), np.float32(1), np.float32(3)
    sink = np.float32(40)
    with np.errstate(over="ignore"):
        plain = out / (total + np.exp(sink - m))
    top = max(m, sink)
    starred = np.exp(m - top) * out / (np.exp(m - top) * total + np.exp(sink - top))
    assert plain == 0
    assert starred > 0
