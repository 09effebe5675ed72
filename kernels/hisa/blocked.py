"""HISA block by block: four kernels, and the host code that hands their results on.

Implements tilelang `examples/dsa_hisa/hisa.py`, `fp8_block_mean_pooling.py`, `pool_mqa_fp8.py`,
`clean_and_maintain_logits.py` and `block_sparse_mqa_fp8.py`. Sums are in float32 (in float64 for
float64 inputs). Upstream's pooling holds the tokens of a tile in fp8 after their scale is applied,
which rounds each of them once more than the mean needs; `token_fp8` does that, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


FP8_MAX = 448.0
"""The largest number of float8 e4m3fn."""


def to_fp8(x: NDArray[Any]) -> NDArray[Any]:
    """Return x rounded to three bits of mantissa, exponents from -6 to 8, saturating."""
    exponent = np.maximum(np.frexp(x)[1] - 1, -6)
    step = np.exp2(exponent - 3.0)
    rounded: NDArray[Any] = np.clip(np.rint(x / step) * step, -FP8_MAX, FP8_MAX)
    return rounded.astype(x.dtype)


def to_bf16(x: NDArray[Any]) -> NDArray[Any]:
    """Return x rounded to bfloat16: the upper half of a float32, to the even one of two."""
    bits = x.astype(np.float32).view(np.uint32)
    upper = (bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    rounded: NDArray[Any] = upper.astype(np.uint32).view(np.float32)
    return rounded


def mean_pool(
    k: NDArray[Any],
    k_scale: NDArray[Any],
    block: int,
    *,
    block_n: int = 64,
    token_fp8: bool = False,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the mean key of each block as fp8 numbers [Nb, D] and a scale [Nb].

    k [N, D], k_scale [N]; a partial block is divided by what it holds.
    """
    wide = np.promote_types(k_scale.dtype, np.float32)
    blocks = -(-len(k) // block)
    pooled, scale = np.full((blocks, k.shape[1]), np.nan, wide), np.full(blocks, np.nan, wide)
    for bx in range(blocks):
        k_start, k_end = bx * block, min((bx + 1) * block, len(k))
        acc = np.zeros(k.shape[1], wide)
        for start in range(k_start, k_end, block_n):
            tile = slice(start, min(start + block_n, k_end))
            tokens = k[tile].astype(wide) * k_scale[tile, None].astype(wide)
            acc += (to_fp8(tokens) if token_fp8 else tokens).sum(axis=0)
        mean = acc / (k_end - k_start)
        scale[bx] = max(float(np.abs(mean).max()) / FP8_MAX, 1e-10)
        pooled[bx] = to_fp8(mean / scale[bx])
    return pooled, scale


def block_scores(
    q: NDArray[Any],
    k: NDArray[Any],
    k_scale: NDArray[Any],
    weights: NDArray[Any],
    *,
    block_n: int = 256,
) -> NDArray[Any]:
    """Return [M, N]: sum over heads of max(q . k * scale, 0) w; q [M, H, D], k [N, D].

    Not masked: what is out of a query's range is written like the rest, and hidden by `maintain`.
    """
    wide = np.promote_types(weights.dtype, np.float32)
    block_q = max(1, 128 // q.shape[1])
    out = np.full((len(q), len(k)), np.nan, wide)
    for first in range(0, len(q), block_q):  # concept: kernel-grid
        rows = slice(first, first + block_q)
        q_tile = q[rows].reshape(-1, q.shape[2]).astype(wide)
        for start in range(0, len(k), block_n):  # concept: kv-loop
            tile = slice(start, start + block_n)
            s = k[tile].astype(wide) @ q_tile.T  # concept: qk-gemm
            s = s.reshape(len(s), -1, q.shape[1]) * k_scale[tile, None, None].astype(wide)
            out[rows, tile] = (np.maximum(s, 0) * weights[rows].astype(wide)).sum(axis=2).T
    return out


def maintain(scores: NDArray[Any], ks: NDArray[Any], ke: NDArray[Any]) -> NDArray[Any]:
    """Return scores [M, N] with -inf out of range and +inf for the first and the last inside.

    The second overwrites the first, so a query without any key keeps none.
    """
    kept, idx = np.array(scores), np.arange(scores.shape[1])[None, :]
    kept[(idx == ks[:, None]) | (idx == ke[:, None] - 1)] = np.inf
    # concept: boundary-mask, mask-value
    kept[(idx < ks[:, None]) | (idx >= ke[:, None])] = -np.inf

    return kept


def token_scores(
    q: NDArray[Any],
    k: NDArray[Any],
    k_scale: NDArray[Any],
    chosen: NDArray[Any],  # concept: block-indices-param
    block: int,
    weights: NDArray[Any],
    ks: NDArray[Any],
    ke: NDArray[Any],
) -> NDArray[Any]:
    """Return [M, n * block]: scores of the tokens in each query's chosen blocks [M, n]."""
    wide = np.promote_types(weights.dtype, np.float32)
    out = np.full((len(q), chosen.shape[1] * block), np.nan, wide)
    for m in range(len(q)):  # concept: kernel-grid
        q_tile, end = q[m].astype(wide), min(int(ke[m]), len(k))
        for n_i in range(chosen.shape[1]):  # concept: kv-loop
            block_s = int(chosen[m, n_i]) * block  # concept: block-index
            # concept: gather
            k_tile = load(k, block_s, block).astype(wide)
            scale = load(k_scale[:, None], block_s, block).astype(wide)

            # concept: qk-gemm
            s = k_tile @ q_tile.T  # [N, H]

            s = np.maximum(s * scale, 0) @ weights[m].astype(wide)
            k_i = block_s + np.arange(block)
            # concept: boundary-mask, mask-value
            s = np.where((k_i < ks[m]) | (k_i >= end), -np.inf, s)

            out[m, n_i * block : (n_i + 1) * block] = s
    return out


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
    included). Slots that fall out of range hold -1.
    """
    pooled, pooled_scale = mean_pool(k, k_scale, k_block_size)
    dense = block_scores(q, pooled, pooled_scale, weights)
    kept = maintain(dense, ks // k_block_size, (ke + k_block_size - 1) // k_block_size)
    chosen = best(to_bf16(kept), block_topk)
    inside = token_scores(q, k, k_scale, chosen, k_block_size, weights, ks, ke)
    slots = best(inside, topk_tokens)
    # From a slot to its block, to the key, to the offset from the query's first key.
    tokens = np.empty(slots.shape, np.int32)
    for m, j in np.ndindex(slots.shape):
        block, offset = divmod(int(slots[m, j]), k_block_size)
        token = int(chosen[m, block]) * k_block_size + offset - int(ks[m])
        tokens[m, j] = token if 0 <= token < int(ke[m]) - int(ks[m]) else -1
    return tokens


def best(scores: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the places of the `count` largest of each row, best first.

    The place of an entry in the result is how many come before it: larger ones, and equal ones on
    its left.
    """
    count = min(count, scores.shape[1])
    places = np.zeros((len(scores), count), np.int64)
    # concept: top-k
    order = np.arange(scores.shape[1])
    for m, row in enumerate(scores):
        ahead = (row[None, :] > row[:, None]) | (
            (row[None, :] == row[:, None]) & (order[None, :] < order[:, None])
        )
        rank = ahead.sum(axis=1)
        places[m, rank[rank < count]] = order[rank < count]

    return places


def load(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] from row `first` on; past the end it is zero, as a copy fills it."""
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    tile[: max(0, len(x) - first)] = x[first : first + rows]
    return tile


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
        pooled, scale = mean_pool(k, k_scale, named["pooling_block_size"], token_fp8=True)
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
