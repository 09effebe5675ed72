"""HISA: each stage and the whole against their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.hisa import blocked, reference
from tests.kernels.budget import UNIT
from tests.kernels.sparse import LENGTHS, seeded

HEADS, DIM = 4, 8


def made(name: str, length: int, kind: str = "float64") -> tuple[Any, ...]:
    """Return q, k, scales, weights and causal ranges of two packed samples."""
    rng = seeded(name)
    q, k = rng.standard_normal((length, HEADS, DIM)), rng.standard_normal((length, DIM))
    scale = 0.1 + rng.random(length)
    weights = rng.standard_normal((length, HEADS))
    ks = np.where(np.arange(length) < length // 2, 0, length // 2)
    ke = np.arange(1, length + 1)
    return (*(x.astype(kind) for x in (q, k, scale, weights)), ks, ke)


def test_fp8_agrees_with_the_type() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the float8 that ours is checked against")
    x = seeded("fp8").standard_normal(4000).astype(np.float32) * np.float32(40)
    x = np.concatenate([x, np.arange(-448, 449, dtype=np.float32) / 16, [0, 2**-10, 448]])
    want = x.astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    assert (reference.to_fp8(x) == want).all()
    assert (blocked.to_fp8(x) == want).all()
    assert reference.to_fp8(np.array(1e4)) == blocked.to_fp8(np.array(1e4)) == 448


def test_bf16_agrees_with_the_type() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the bfloat16 that ours is checked against")
    x = seeded("bf16").standard_normal(4000).astype(np.float32) * 100
    x = np.concatenate([x, [np.inf, -np.inf, 0, 1 + 2**-8]]).astype(np.float32)
    want = x.astype(ml_dtypes.bfloat16).astype(np.float64)
    assert (reference.to_bf16(x) == want).all()
    assert (blocked.to_bf16(x) == want).all()


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("length", LENGTHS)
def test_pooled_keys_agree(length: int, kind: str) -> None:
    """Scales to rounding; numbers exactly, but for those that rounding puts on another side."""
    _, k, scale, *_ = made(f"pool {length} {kind}", length, kind)
    want, want_scale = reference.mean_pool(k, scale, 32)
    got, got_scale = blocked.mean_pool(k, scale, 32, block_n=16)
    assert (np.abs(got_scale - want_scale) <= 40 * UNIT[kind] * (want_scale + 1)).all()
    step = np.maximum(np.abs(want), 2.0**-6) / 8  # of float8: at most one apart
    assert (np.abs(got - want) <= step * 1.01).all()
    assert (got != want).mean() <= (0.01 if kind == "float32" else 0)


def test_tokens_rounded_to_fp8_stay_within_fp8() -> None:
    """Upstream's extra rounding: at most half a step of a token, so of their mean."""
    _, k, scale, *_ = made("tokens", 100)
    want, want_scale = reference.mean_pool(k, scale, 32)
    got, got_scale = blocked.mean_pool(k, scale, 32, token_fp8=True)
    means = [np.abs(k[i : i + 32] * scale[i : i + 32, None]).mean(0) for i in range(0, 100, 32)]
    allowed = np.stack(means) * 2.0**-4 + np.abs(want * want_scale[:, None]) * 2.0**-3 + 2.0**-9
    assert (np.abs(got * got_scale[:, None] - want * want_scale[:, None]) <= allowed).all()


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("length", LENGTHS)
def test_scores_agree(length: int, kind: str) -> None:
    q, k, scale, weights, ks, ke = made(f"scores {length} {kind}", length, kind)
    blocks = -(-length // 16)
    chosen = np.argsort(seeded(f"{length}").random((length, blocks)))[:, :3]
    spread = np.einsum("mhd,nd,n,mh->mn", *(np.abs(x) for x in (q, k, scale, weights)))
    want = reference.block_scores(q, k, scale, weights, np.longdouble)
    got = blocked.block_scores(q, k, scale, weights, block_n=16)
    bound = (DIM + HEADS + 4) * UNIT[kind] * spread
    assert (np.abs(got - want) <= bound).all()
    inside = reference.token_scores(q, k, scale, chosen, 16, weights, ks, ke)
    ours = blocked.token_scores(q, k, scale, chosen, 16, weights, ks, ke)
    assert (np.isneginf(ours) == np.isneginf(inside)).all()
    seen = np.isfinite(inside)
    assert (np.abs(ours[seen] - inside[seen]) <= bound.max()).all()


def test_first_and_last_block_are_always_kept() -> None:
    scores = seeded("kept").standard_normal((3, 6))
    ks, ke = np.array([0, 2, 4]), np.array([6, 3, 4])
    for rung in (reference, blocked):
        kept = rung.maintain(scores, ks, ke)
        assert np.isposinf(kept).tolist() == [
            [True, False, False, False, False, True],
            [False, False, True, False, False, False],
            [False] * 6,
        ]
        assert (kept[0, 1:5] == scores[0, 1:5]).all()
        assert np.isneginf(kept[2]).all()


@pytest.mark.parametrize("count", [1, 3, 50])
def test_selections_agree(count: int) -> None:
    scores = np.round(seeded(f"best {count}").standard_normal((5, 40)))
    scores[1], scores[2, ::3], scores[3, 5] = 0, -np.inf, np.inf
    assert (blocked.best(scores, count) == reference.best(scores, count)).all()


SIZES: dict[str, Any] = {"k_block_size": 16, "block_topk": 3, "topk_tokens": 20}


@pytest.mark.parametrize("length", LENGTHS)
def test_the_whole_agrees(length: int) -> None:
    tensors = made(f"whole {length}", length)
    want = reference.hisa(*tensors, **SIZES)
    got = blocked.hisa(*tensors, **SIZES)
    assert got.dtype == want.dtype == np.int32
    assert (got == want).all()
    ks, ke = tensors[4:]
    assert ((want >= -1) & (want < (ke - ks)[:, None])).all()
    for row in want:
        chosen = row[row >= 0]
        assert len(set(chosen.tolist())) == len(chosen)


def test_with_room_for_all_every_key_is_chosen_and_in_order() -> None:
    q, k, scale, weights, ks, ke = tensors = made("room", 64)
    got = blocked.hisa(*tensors, k_block_size=16, block_topk=4, topk_tokens=64)
    scores = reference.block_scores(q, k, scale, weights)
    for m, row in enumerate(got):
        inside = scores[m, ks[m] : ke[m]]
        assert row[: len(inside)].tolist() == np.argsort(-inside, kind="stable").tolist()
        assert (row[len(inside) :] == -1).all()
