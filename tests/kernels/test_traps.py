"""The classic mistakes fail here, and the inputs that show them are named.

A trap that went unnoticed would mean that the inputs of the other tests are too easy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.traps import MERGE_TRAPS, TRAPS, attention, split_attention

WINDOWED = ("no check_inf", "check_inf kept", "window start off")


def three(queries: int, keys: int, dim: int = 8, size: float = 1.0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng([queries, keys, dim])
    q, k, v = (rng.standard_normal((n, dim)) for n in (queries, keys, keys))
    return q * size, k, v


def exact(q: Any, k: Any, v: Any, window: int | None = None) -> Any:
    """The definition in one piece; rows that see no key give 0."""
    places = np.arange(len(q))[:, None] + len(k) - len(q)
    keys = np.arange(len(k))[None, :]
    seen = places >= keys
    seen = seen if window is None else seen & (places < keys + window)
    scores = np.where(seen, q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    raised = np.exp(scores - np.maximum(scores.max(1, keepdims=True), -1e300))
    return raised @ v / np.maximum(raised.sum(1, keepdims=True), 1e-300)


def off(got: Any, want: Any) -> float:
    """Return the largest error; NaN where the result is NaN."""
    return float(np.abs(got - want).max())


BUDGET = 64 * np.finfo(np.float64).eps
"""Both sides compute in float64 on numbers of order 1, sums of at most 100 terms."""


@pytest.mark.parametrize("queries", [1, 15, 16, 17, 50])
@pytest.mark.parametrize("more", [0, 5, 16])
@pytest.mark.parametrize("window", [None, 1, 7, 16, 1000])
def test_without_a_trap_it_is_right(queries: int, more: int, window: int | None) -> None:
    q, k, v = three(queries, queries + more)
    assert off(attention(q, k, v, window=window), exact(q, k, v, window)) < BUDGET


@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_fails(trap: str) -> None:
    window = 7 if trap in WINDOWED else None
    q, k, v = three(50, 57, size=3.0)
    if trap == "check_inf kept":  # every score far below zero
        q, k = 20 * np.abs(q), -20 * np.abs(k)
    with np.errstate(invalid="ignore"):
        error = off(attention(q, k, v, window=window, trap=trap), exact(q, k, v, window))
    assert not error < 1e6 * BUDGET


def test_no_check_inf_gives_nan_and_only_where_a_row_starts_masked() -> None:
    q, k, v = three(32, 32)
    with np.errstate(invalid="ignore"):
        got = attention(q, k, v, window=5, trap="no check_inf")
    # The tile of queries 16 to 31 starts at the block of keys 0 to 15, of which rows from 20 on
    # see none: the maximum is -inf, and -inf - -inf is NaN, which the sum never loses.
    assert np.isnan(got).any(1).tolist() == [False] * 20 + [True] * 12


def test_a_kept_zero_swallows_negative_rows() -> None:
    """Replacing the maximum for good lets exp(-large) underflow: rows come out as 0."""
    q, k, v = three(32, 32)
    q, k = 100 * np.abs(q), -100 * np.abs(k)
    with np.errstate(invalid="ignore"):
        got = attention(q, k, v, window=5, trap="check_inf kept")
    assert not got[20:].any()
    assert off(attention(q, k, v, window=5), exact(q, k, v, 5)) < BUDGET


def test_diagonal_off_by_one_empties_the_first_row() -> None:
    q, k, v = three(20, 20)
    got, want = attention(q, k, v, trap="diagonal off by one"), exact(q, k, v)
    assert not got[0].any()
    assert off(want[0], v[0]) < BUDGET


def test_loop_bound_off_shows_in_every_tile() -> None:
    q, k, v = three(48, 48)
    errors = np.abs(attention(q, k, v, trap="loop bound off") - exact(q, k, v)).max(1)
    assert (errors > 1e6 * BUDGET).all()


def test_no_query_offset_hides_only_when_lengths_are_equal() -> None:
    q, k, v = three(20, 20)
    assert off(attention(q, k, v, trap="no query offset"), exact(q, k, v)) < BUDGET
    q, k, v = three(20, 21)
    assert off(attention(q, k, v, trap="no query offset"), exact(q, k, v)) > 1e6 * BUDGET


# -- merging -----------------------------------------------------------------------------------


def one_query(size: float) -> tuple[Any, Any, Any, Any]:
    q, k, v = three(1, 100, 16, size)
    k = k * np.linspace(0.1, 2, 100)[:, None]  # later splits weigh more
    return q[0], k, v, exact(q, k, v)[0]


@pytest.mark.parametrize("splits", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_merging_by_lse_is_right(splits: int, size: float) -> None:
    q, k, v, want = one_query(size)
    # exp2(lse) carries the rounding of an lse of magnitude `top`.
    top = np.abs(k @ q).max() / np.sqrt(len(q)) / np.log(2)
    assert off(split_attention(q, k, v, splits), want) < BUDGET * (1 + top)


@pytest.mark.parametrize("trap", MERGE_TRAPS)
def test_each_merge_trap_fails(trap: str) -> None:
    q, k, v, want = one_query(1500.0 if trap == "no maximum" else 3.0)
    with np.errstate(over="ignore", invalid="ignore"):
        got = split_attention(q, k, v, 4, trap)
    assert not off(got, want) < 1e6 * BUDGET


def test_unweighted_merge_hides_when_parts_weigh_the_same() -> None:
    """Equal splits of equal scores: the one input on which the mistake is invisible."""
    q, k, v, _ = one_query(1.0)
    same = np.zeros_like(k)
    assert off(split_attention(q, same, v, 4, "unweighted"), v.mean(0)) < BUDGET


def test_an_fp16_lse_gets_worse_as_it_grows() -> None:
    """Its step doubles with its magnitude; the error of the weights follows."""
    errors = []
    for base in (1.0, 32.0, 512.0):
        lses = base + np.array([0.0, 0.37, 0.81])
        parts = np.eye(3)
        weights = np.exp2(lses - lses.max())
        want = weights / weights.sum()
        q = lses.astype(np.float16).astype(np.float64)
        got = np.exp2(q - q.max()) @ parts / np.exp2(q - q.max()).sum()
        errors.append(off(got, want))
    assert errors[0] < errors[1] < errors[2]
