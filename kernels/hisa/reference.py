"""The definition of HISA: the best of pooled blocks, then the best tokens in them.

Implements what tilelang `examples/dsa_hisa/hisa.py` and the four kernels beside it compute. Pooled
keys are stored in fp8 with a scale for each block, and block scores are compared as bfloat16: both
decide which blocks are taken, so they are part of the definition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


E4M3 = np.array(
    [(m + 8 * (e > 0)) * 2.0 ** (max(e, 1) - 10) for e in range(16) for m in range(8)][:-1]
)
"""The numbers of float8 e4m3fn that are not negative: 127 of them, up to 448."""


def to_fp8(x: NDArray[Any]) -> NDArray[Any]:
    """Return the nearest numbers of float8 e4m3fn, the even one of two; saturates at 448."""
    size = np.minimum(np.abs(x), E4M3[-1])
    above = np.clip(np.searchsorted(E4M3, size), 1, len(E4M3) - 1)
    up, down = E4M3[above] - size, size - E4M3[above - 1]
    nearest = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, above - 1)
    rounded: NDArray[Any] = np.copysign(E4M3[nearest], x)
    return rounded


def to_bf16(x: NDArray[Any]) -> NDArray[Any]:
    """Return the nearest numbers of bfloat16: eight bits of mantissa, the even one of two."""
    with np.errstate(invalid="ignore"):
        step = 2.0 ** (np.frexp(np.where(np.isfinite(x), x, 1))[1] - 8)
        return np.where(np.isfinite(x), np.rint(x / step) * step, x)


def mean_pool(
    k: NDArray[Any], k_scale: NDArray[Any], block: int, dtype: Any = np.float64
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mean key of each block as fp8 numbers [Nb, D] and a scale [Nb].

    k [N, D], k_scale [N]; Nb = ceil(N / block), and a partial block is divided by what it holds.
    """
    keys = k.astype(dtype) * k_scale.astype(dtype)[:, None]
    means = np.stack([keys[i : i + block].mean(axis=0) for i in range(0, len(k), block)])
    scale = np.maximum(np.abs(means).max(axis=1) / E4M3[-1], 1e-10)
    return to_fp8(means / scale[:, None]), scale


def block_scores(
    q: NDArray[Any],
    k: NDArray[Any],
    k_scale: NDArray[Any],
    weights: NDArray[Any],
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return [M, N]: sum over heads of max(q . k * scale, 0) w; q [M, H, D], k [N, D]."""
    q, k, k_scale, weights = (x.astype(dtype) for x in (q, k, k_scale, weights))
    scores = np.einsum("mhd,nd->mhn", q, k) * k_scale
    found: NDArray[Any] = np.einsum("mhn,mh->mn", np.maximum(scores, 0), weights)
    return found


def maintain(scores: NDArray[Any], ks: NDArray[Any], ke: NDArray[Any]) -> NDArray[Any]:
    """Return scores [M, N] with -inf out of range and +inf for the first and the last inside."""
    n = np.arange(scores.shape[1])
    first, last = n == ks[:, None], n == ke[:, None] - 1
    outside = (n < ks[:, None]) | (n >= ke[:, None])
    kept = np.where(first | last, np.inf, scores)
    found: NDArray[Any] = np.where(outside, -np.inf, kept)
    return found


def token_scores(
    q: NDArray[Any],
    k: NDArray[Any],
    k_scale: NDArray[Any],
    chosen: NDArray[Any],
    block: int,
    weights: NDArray[Any],
    ks: NDArray[Any],
    ke: NDArray[Any],
) -> NDArray[Any]:
    """Return [M, n * block]: scores of the tokens in each query's chosen blocks [M, n]."""
    every = block_scores(q, k, k_scale, weights)
    places = (chosen[..., None] * block + np.arange(block)).reshape(len(q), -1)
    inside = (places >= ks[:, None]) & (places < np.minimum(ke, len(k))[:, None])
    found = np.take_along_axis(every, np.minimum(places, len(k) - 1), axis=1)
    return np.where(inside, found, -np.inf)


def hisa(
    q: NDArray[Any],
    k: NDArray[Any],
    k_scale: NDArray[Any],
    weights: NDArray[Any],
    ks: NDArray[Any],
    ke: NDArray[Any],
    *,
    k_block_size: int,
    block_topk: int,
    topk_tokens: int,
) -> NDArray[Any]:
    """Return [M, tokens] int32: the best keys of each query, counted from its ks, best first.

    q [M, H, D], k [N, D], k_scale [N], weights [M, H]; query m may see keys ks[m] to ke[m] (not
    included). At most `topk_tokens` slots, and no more than the chosen blocks hold; slots that fall
    out of range hold -1. A query's first and last block are always among the chosen.
    """
    pooled, pooled_scale = mean_pool(k, k_scale, k_block_size)
    scores = block_scores(q, pooled, pooled_scale, weights)
    scores = maintain(scores, ks // k_block_size, -(-ke // k_block_size))
    chosen = best(to_bf16(scores), block_topk)
    inside = token_scores(q, k, k_scale, chosen, k_block_size, weights, ks, ke)
    slots = best(inside, topk_tokens)
    blocks = np.take_along_axis(chosen, slots // k_block_size, axis=1)
    tokens = blocks * k_block_size + slots % k_block_size - ks[:, None]
    seen = (tokens >= 0) & (tokens < (ke - ks)[:, None])
    return np.where(seen, tokens, -1).astype(np.int32)


def best(scores: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the places of the `count` largest of each row, the first of equals first."""
    return np.argsort(-scores, axis=-1, kind="stable")[:, :count]


def _ascend(run: Any) -> NDArray[Any]:
    """Return what tilelang-ascend's two kernels do: token scores [M, n, block], keys in pages."""
    if run.build == "block_sparse_mqa_attn_return_logits":
        q, k, chosen, weights, ks, ke = run.inputs
        one = np.ones(len(k), np.float32)
        found = token_scores(q, k, one, chosen, run.args[2], weights, ks, ke)
        return found.reshape(*chosen.shape, -1)
    q, cache, chosen, weights, lengths, table = run.inputs
    size, rows = cache.shape[1], []
    for b in range(len(q)):
        k, row = cache[table[b], :, 0].reshape(-1, cache.shape[3]), slice(b, b + 1)
        ends = (0 * lengths[row], lengths[row])
        one = np.ones(len(k), np.float32)
        rows.append(token_scores(q[row], k, one, chosen[row], size, weights[row], *ends))
    return np.concatenate(rows).reshape(*chosen.shape, -1)


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.named` its sizes, `run.inputs` its tensors."""
    named, inputs = run.named, run.inputs
    if run.build == "clean_and_maintain_logits_":
        return (maintain(*inputs),)
    if run.build == "fp8_native_block_mean_pooling":
        k, k_scale = inputs
        pooled, scale = mean_pool(k, k_scale, named["pooling_block_size"])
        return (pooled * scale[:, None],)
    if "heads" not in named:
        return (_ascend(run),)
    q = inputs[0].reshape(-1, named["heads"], named["index_dim"])
    if run.build == "pool_mqa_attn_return_logits_fp8":
        _, k, k_scale, _, weights, _, _ = inputs
        return (block_scores(q, k, k_scale, weights),)
    _, k, k_scale, chosen, weights, ks, ke = inputs
    size = named["kv_block_size"]
    return (token_scores(q, k, k_scale, chosen, size, weights, ks, ke),)
