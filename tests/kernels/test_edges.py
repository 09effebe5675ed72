"""What the docstrings promise at the edges: refusals, nothing to do, rows that nobody writes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.kernels.budget import Inputs, allowed

RUNGS = ("reference", "blocked")


def rung(folder: str, name: str) -> Any:
    return import_module(f"kernels.{folder}.{name}")


def normal(*shape: int, seed: int = 0, kind: Any = np.float64) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(kind)


@pytest.mark.parametrize("name", RUNGS)
def test_causal_queries_may_not_outnumber_keys(name: str) -> None:
    q, k = normal(1, 1, 3, 4), normal(1, 1, 2, 4)
    with pytest.raises(ValueError, match="3 causal queries need as many keys, and there are 2"):
        rung("mha", name).attention(q, k, k, causal=True)
    assert np.isfinite(rung("mha", name).attention(q, k, k)).all()


@pytest.mark.parametrize("folder", ["window", "sink", "sink_after_exp"])
def test_nor_may_they_with_a_window_or_a_sink(folder: str) -> None:
    q, k, extra = normal(1, 1, 3, 4), normal(1, 1, 2, 4), (np.zeros(1),)
    with pytest.raises(ValueError, match="3 queries need as many keys, and there are 2"):
        rung(folder, "blocked").attention(
            q, k, k, *(extra if folder != "window" else ()), window_size=None
        )


@pytest.mark.parametrize("name", RUNGS)
def test_groups_must_be_even(name: str) -> None:
    q, k = normal(1, 2, 5, 4), normal(1, 2, 2, 4)
    with pytest.raises(ValueError, match="5 query heads cannot share 2 KV heads evenly"):
        rung("gqa", name).attention(q, k, k)


def test_blocks_must_divide_pages() -> None:
    pages, table = normal(2, 10, 1, 4), np.array([[0, 1]])
    with pytest.raises(ValueError, match="pages of 10 keys do not consist of blocks of 4"):
        rung("paged", "blocked").attention(
            normal(1, 1, 1, 4), pages, pages, table, np.array([20]), block_n=4
        )


@pytest.mark.parametrize("folder", ["varlen", "sink_gqa_varlen"])
def test_a_sample_without_queries_and_rows_of_no_sample(folder: str) -> None:
    """The middle sample is empty, and two rows at the end belong to none: they stay NaN."""
    q, k = normal(9, 2, 4), normal(9, 2, 4)
    cu_q, cu_k = np.array([0, 4, 4, 7]), np.array([0, 3, 5, 9])
    extra = (np.zeros(2),) if folder == "sink_gqa_varlen" else ()
    want, got = (
        rung(folder, name).attention(q, k, k, cu_q, cu_k, *extra, causal=True) for name in RUNGS
    )
    assert np.allclose(got[:7], want[:7])
    assert np.isnan(got[7:]).all()


def test_a_query_that_sees_nothing_gives_zero() -> None:
    q, k = normal(5, 1, 4), normal(2, 1, 4)
    for name in RUNGS:
        got = rung("varlen", name).attention(
            q, k, k, np.array([0, 5]), np.array([0, 2]), causal=True
        )
        assert (got[:3] == 0).all()
        assert (got[3:] != 0).any(axis=-1).all()


@pytest.mark.parametrize("folder", ["window", "sink"])
def test_scores_far_below_zero_after_a_hidden_block(folder: str) -> None:
    """A stand-in of 0 that stays in the maximum would swallow these rows."""
    q, k = np.full((1, 1, 200, 16), 20.0), np.full((1, 1, 200, 16), -20.0)
    v = normal(1, 1, 200, 16)
    extra = (np.full(1, -2000.0),) if folder == "sink" else ()
    want, got = (rung(folder, n).attention(q, k, v, *extra, window_size=64) for n in RUNGS)
    assert np.allclose(got, want)
    assert (np.abs(got).max(axis=-1) > 0).all()


def test_a_sink_takes_weight_and_gives_no_value() -> None:
    q, k, v = normal(1, 2, 30, 8), normal(1, 2, 30, 8, seed=1), normal(1, 2, 30, 8, seed=2)
    for name in RUNGS:
        module = rung("sink", name)
        none = module.attention(q, k, v, np.full(2, -np.inf))
        plain = rung("mha", "reference").attention(q, k, v, causal=True)
        assert np.allclose(none, plain)
        assert (np.abs(module.attention(q, k, v, np.full(2, 800.0))) < 1e-12).all()


def test_more_splits_than_keys() -> None:
    q, k, v = normal(1, 2, 1, 8), normal(1, 3, 1, 8, seed=1), normal(1, 3, 1, 8, seed=2)
    got = rung("decode", "blocked").attention(q, k, v, num_split=8)
    assert np.allclose(got, rung("decode", "reference").attention(q, k, v))


def test_what_splits_hand_on_may_be_stored_in_a_narrow_type() -> None:
    q, k, v = (normal(2, 65, 2, 16, seed=n, kind=np.float32) for n in range(3))
    blocked = rung("decode", "blocked").attention
    exact = rung("decode", "reference").attention(q, k, v)
    wide, narrow = blocked(q, k, v), blocked(q, k, v, partial_dtype=np.float16)
    assert np.abs(wide - exact).max() < 1e-5 < np.abs(narrow - exact).max() < 1e-2


def test_bfloat16() -> None:
    brain = pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16").bfloat16
    q, k, v = (normal(1, 2, 100, 16, seed=n, kind=brain) for n in range(3))
    for folder, options in (("mha", {"causal": True}), ("window", {"window_size": 20})):
        got = rung(folder, "blocked").attention(q, k, v, **options)
        assert got.dtype == brain
        reference = rung(folder, "reference").attention
        budget = allowed(reference, Inputs((q, k, v), options), "float32", 2, False)
        exact, spread = (reference(q, k, x, **options) for x in (v, np.abs(v)))
        budget = budget + 2.0**-8 * (np.abs(exact) + spread)
        assert (np.abs(got.astype(np.float64) - exact) <= budget).all()


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_inputs_are_left_as_they_were(kind: str) -> None:
    q, k, v = (normal(1, 2, 65, 16, seed=n, kind=kind) for n in range(3))
    before = [x.copy() for x in (q, k, v)]
    for folder in ("mha", "window", "ascend"):
        options: dict[str, Any] = {"window_size": 9} if folder == "window" else {}
        rung(folder, "blocked").attention(q, k, v, **options)
    assert all(np.array_equal(x, y) for x, y in zip((q, k, v), before, strict=True))
