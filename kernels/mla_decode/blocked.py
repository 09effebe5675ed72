"""A step of decoding with MLA block by block, split over the keys and merged by a second kernel.

Implements tilelang `examples/deepseek_mla/example_mla_decode.py`. Heads are the rows of a tile:
there is one query, but all heads read the same keys. A split hands on its output, already divided,
and its log2-sum-exp; both are stored in the type of the inputs, as upstream does: in float16 the
weights of the merge carry that rounding (see README). `lse_dtype` stores the lse in another type.
Tiles are in the type of the inputs, sums in float32 (in float64 for float64 inputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG2E = float(np.log2(np.e))
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


def attention(
    q: NDArray[Any],
    q_pe: NDArray[Any],
    kv: NDArray[Any],
    k_pe: NDArray[Any],
    *,
    splits: int = 1,
    scale: float | None = None,
    block_n: int = 64,
    block_h: int = 64,
    lse_dtype: Any = None,
) -> NDArray[Any]:
    """Return the output [B, H, D] in the type of q.

    q [B, H, D], q_pe [B, H, P], kv [B, S, 1, D], k_pe [B, S, 1, P]. A split reads ceil(S / splits)
    keys; the last ones may read fewer, or none. (Upstream reads S // splits and wants no rest.)
    ValueError when the cache has more than one head, or `splits` is below 1.
    """
    batch, heads, dim = q.shape
    if kv.shape[2] != 1:
        raise ValueError(f"one latent head serves all query heads, and there are {kv.shape[2]}")
    if splits < 1:
        raise ValueError(f"{splits} splits read nothing")
    scale = (dim + q_pe.shape[2]) ** -0.5 if scale is None else scale
    glse = np.full((batch, heads, splits), np.nan, lse_dtype or q.dtype)
    partial = np.full((batch, heads, splits, dim), np.nan, q.dtype)
    # concept: kernel-grid
    for bid, hid, bz in np.ndindex(batch, -(-heads // block_h), splits):
        rows = slice(hid * block_h, (hid + 1) * block_h)
        cur_kv_head = 0  # concept: kv-head
        cache = (kv[bid, :, cur_kv_head], k_pe[bid, :, cur_kv_head])
        keys = split_range(len(cache[0]), splits, bz)
        part = _program((q[bid, rows], q_pe[bid, rows]), cache, keys, scale, block_n)
        partial[bid, rows, bz], glse[bid, rows, bz] = part  # concept: partial-output, partial-lse
    if splits == 1:
        return partial[:, :, 0]
    return combine(partial, glse)


def split_range(length: int, splits: int, bz: int) -> range:
    """Return the keys of one split."""
    # concept: split-range
    size = -(-length // splits)
    return range(min(size * bz, length), min(size * (bz + 1), length))


def _program(
    q_tiles: tuple[NDArray[Any], NDArray[Any]],
    cache: tuple[NDArray[Any], NDArray[Any]],
    keys: range,
    scale: float,
    block_n: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return output [M, D] and lse [M] of one split: heads [M, D] and [M, P], cache [S, D], [S, P].

    A split without keys has output 0 and lse -inf: it weighs nothing.
    """
    state = empty_state(len(q_tiles[0]), cache[0].shape[1], q_tiles[0].dtype)
    loop_range = -(-len(keys) // block_n)  # concept: loop-range
    for k in range(loop_range):  # concept: kv-loop
        kv_start = keys.start + k * block_n
        tiles = [load(x[: keys.stop], kv_start, block_n) for x in cache]
        visible = kv_start + np.arange(block_n)[None, :] < keys.stop  # concept: boundary-mask
        state = step(state, q_tiles, tiles, visible, scale)
    m, l, acc = state
    # concept: normalise, empty-row
    o_tile = np.where(l[:, None] > 0, acc / np.where(l > 0, l, 1)[:, None], 0)

    with np.errstate(divide="ignore"):
        lse = np.log2(l) + m * l.dtype.type(scale * LOG2E)
    return o_tile, lse


def load(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] from row `first` on; past the end it is zero, as a copy fills it."""
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    tile[: max(0, len(x) - first)] = x[first : first + rows]
    return tile


State = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""m [M] the largest score so far, l [M] the denominator, acc [M, D] the numerator."""


def empty_state(rows: int, dim: int, dtype: Any) -> State:
    """Return the state before any key: nothing summed, and no maximum."""
    wide = np.promote_types(dtype, np.float32)
    # concept: state-init
    m = np.full(rows, -np.inf, wide)
    l = np.zeros(rows, wide)
    acc = np.zeros((rows, dim), wide)

    return m, l, acc


def step(
    state: State,
    q_tiles: tuple[NDArray[Any], NDArray[Any]],
    tiles: list[NDArray[Any]],
    visible: NDArray[Any],
    scale: float,
) -> State:
    """Return the state after one block of keys: q [M, D] and [M, P], cache [N, D] and [N, P].

    One tile of the cache is key and value; the rotary part joins the scores by a second product.
    A row whose scores are all -inf has no maximum yet: 0 stands in for it in the exponents.
    """
    m_old, l, acc = state
    wide = acc.dtype
    (q, q_pe), (kv, k_pe) = ([x.astype(wide) for x in pair] for pair in (q_tiles, tiles))
    # concept: softmax-scale
    factor = wide.type(scale * LOG2E)
    # concept: mask-value
    scores = np.where(visible, wide.type(0), -np.inf)
    # concept: qk-gemm
    scores = scores + q @ kv.T + q_pe @ k_pe.T  # [M, N]
    # concept: row-max
    m = np.maximum(m_old, scores.max(axis=1))
    # concept: check-inf
    top = np.where(np.isneginf(m), 0, m)
    # concept: rescale-factor
    rescale = np.exp2(m_old * factor - top * factor)
    # concept: probability
    p = np.exp2(scores * factor - top[:, None] * factor)
    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)
    # concept: acc-rescale
    acc = acc * rescale[:, None]
    # concept: pv-gemm
    acc = acc + p.astype(tiles[0].dtype).astype(wide) @ kv

    return m, l, acc


def combine(partial: NDArray[Any], glse: NDArray[Any]) -> NDArray[Any]:
    """Return the joint output [B, H, D] of splits [B, H, S, D] and their log2-sum-exps [B, H, S].

    Every part was divided by its own l, so it weighs l / (sum of all l) = 2^(lse - joint lse).
    """
    # concept: combine
    wide = np.promote_types(partial.dtype, np.float32)
    lse = glse.astype(wide)
    # concept: combine, combine-max
    lse_max = lse.max(axis=2)
    lse_max = np.where(np.isneginf(lse_max), 0, lse_max)
    # concept: combine, combine-logsumexp
    total = np.exp2(lse - lse_max[..., None]).sum(axis=2)
    lse_logsum = np.log2(np.where(total > 0, total, 1)) + lse_max
    # concept: combine, combine-weights
    weights = np.exp2(lse - lse_logsum[..., None])
    # concept: combine, combine-accumulate
    out: NDArray[Any] = (partial.astype(wide) * weights[..., None]).sum(axis=2)
    # concept: combine
    return out.astype(partial.dtype)


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    splits, scale = run.args[8:10]
    return (attention(*run.inputs, splits=splits, scale=scale),)
