"""The lightning indexer: scores and selection against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.indexer import blocked, reference
from kernels.sparse_mla import blocked as attention
from tests.kernels.budget import UNIT
from tests.kernels.sparse import LENGTHS, seeded

Tensors = tuple[Any, ...]


def made(name: str, length: int, heads: int, kind: str, size: float = 1.0) -> Tensors:
    """Return q, k, scales, weights and ranges: empty ones, ones past the end, and all keys."""
    rng, queries = seeded(name), 7
    q = (rng.standard_normal((queries, heads, 8)) * size).astype(kind)
    k = rng.standard_normal((length, 8)).astype(kind)
    sums = "float64" if kind == "float64" else "float32"
    scale = (0.1 + rng.random(length)).astype(sums)
    weights = rng.standard_normal((queries, heads)).astype(sums)
    ks = rng.integers(0, length, queries).astype(np.int32)
    ke = np.minimum(ks + rng.integers(0, length + 1, queries), length).astype(np.int32)
    ks[0], ke[0], ke[1] = 0, length, ks[1]
    return q, k, scale, weights, ks, ke


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [1.0, 100.0])
@pytest.mark.parametrize("heads", [1, 5, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_scores_agree(
    length: int, heads: int, size: float, kind: str, request: pytest.FixtureRequest
) -> None:
    tensors = made(request.node.name, length, heads, kind, size)
    got = blocked.logits(*tensors, block_n=16)
    want = reference.logits(*tensors, dtype=np.longdouble)
    q, k, scale, weights, _, _ = tensors
    # What is added up: products over 8 components, then over the heads, each rounded on the way.
    terms = np.einsum("mhd,nd->mhn", np.abs(q, dtype=np.float64), np.abs(k, dtype=np.float64))
    spread = np.einsum("mhn,mh->mn", terms, np.abs(weights)) * scale
    sums = "float64" if kind == "float64" else "float32"
    assert got.dtype == sums
    hidden = np.isneginf(want)
    assert (np.isneginf(got) == hidden).all()
    off = np.abs(got[~hidden] - want[~hidden])
    assert (off <= (8 + heads + 4) * UNIT[sums] * spread[~hidden]).all()


def test_every_score_is_written_or_hidden() -> None:
    """Keys out of the range of a tile's queries are never scored: no NaN of the buffer is left."""
    q, k, scale, weights, ks, ke = made("written", 100, 64, "float32")
    ks[:], ke[:] = 40, 50
    got = blocked.logits(q, k, scale, weights, ks, ke, block_n=16)
    assert np.isfinite(got[:, 40:50]).all()
    assert np.isneginf(np.delete(got, np.s_[40:50], axis=1)).all()


@pytest.mark.parametrize("topk", [1, 2, 16, 200])
@pytest.mark.parametrize("length", LENGTHS)
def test_selections_agree(length: int, topk: int) -> None:
    rng = seeded(f"select {length} {topk}")
    scores = rng.standard_normal((6, length)).astype(np.float32)
    scores[1] = 0  # all equal: the first win
    scores[2] = np.round(scores[2]) + 0.0  # by its bits, -0.0 is less than 0.0
    scores[3, ::2] = -np.inf
    scores[4] *= 1e30  # beyond float16
    scores[5] = 1 + np.arange(length) * 2.0**-23  # equal in float16
    ks = np.array([0, 0, length // 3, 0, 0, 0])
    ke = np.array([length, length, length, length, length, length // 2])
    want = reference.select(scores, ks, ke, topk)
    assert (blocked.select(scores, ks, ke, topk) == want).all()
    assert want.dtype == np.int32


def test_negative_scores_and_both_zeros_keep_their_order() -> None:
    scores = np.array([[-1.0, 0.0, -2.0, 1.0, -0.5, 1e-40, -1e-40]], np.float32)
    chosen = blocked.select(scores, np.array([0]), np.array([7]), 7)
    assert chosen.tolist() == [[3, 5, 1, 6, 4, 0, 2]]


@pytest.mark.parametrize("rung", [reference, blocked])
def test_what_is_left_over_is_filled(rung: Any) -> None:
    scores = np.zeros((1, 5), np.float32)
    ends = np.array([1]), np.array([3])
    assert rung.select(scores, *ends, 4).tolist() == [[1, 2, 5, 5]]
    assert rung.select(scores, *ends, 4, fill=-1).tolist() == [[1, 2, -1, -1]]


def test_the_attention_reads_what_was_chosen() -> None:
    """Indexer and sparse MLA together: with room for all keys they are causal attention."""
    rng, length = seeded("both"), 20
    index = made("both", length, 4, "float64")[:4]
    ks, ke = np.zeros(length, np.int32), np.arange(1, length + 1, dtype=np.int32)
    q_index = rng.standard_normal((length, 4, 8))
    weights = rng.standard_normal((length, 4))
    scores = blocked.logits(q_index, index[1], index[2], weights, ks, ke)
    chosen = blocked.select(scores, ks, ke, 24)[None, :, None]
    q, kv = rng.standard_normal((1, length, 2, 24)), rng.standard_normal((1, length, 1, 24))
    out, _ = attention.attention(q, kv, chosen, dim=16)
    s = np.where(np.tri(length) > 0, q[0].swapaxes(0, 1) @ kv[0, :, 0].T / 24**0.5, -np.inf)
    weights = np.exp(s - s.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ kv[0, :, 0, :16]
    assert np.abs(out[0].swapaxes(0, 1) - want).max() < 2**-46
