"""Block-causal attention tile by tile: most tiles are skipped or computed whole, few are masked.

Implements tilelang `examples/block_causal_attention/block_causal_attention.py` (and `_varlen.py`).
A tile of queries walks the clean tiles up to its own; a noisy one visits its own noisy tile last.
Only the last clean tile and the noisy one lie on a diagonal and need a mask. Hidden scores are
-1e6 and not -inf, so no infinities meet: what a wholly hidden tile adds is rescaled to nothing by
the next tile. Tiles are in the type of the inputs, sums in float32 (float64 for float64 inputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG2E = float(np.log2(np.e))
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


NEG_INF = -1.0e6
"""What a hidden score is set to, and the maximum before any key."""


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    dllm_block: int,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the output [B, S, H, D] in the type of q and the log2-sum-exp [B, H, S].

    q, k, v [B, S, H, D], noisy rows before clean ones. ValueError when S is odd, or `block_size` no
    multiple of `dllm_block`. Upstream wants the half to be a multiple of `block_size`, too.
    """
    batch, seq_len, heads, dim = q.shape
    _check(seq_len, dllm_block, block_size)
    scale = dim**-0.5 if scale is None else scale
    out = np.full(q.shape, np.nan, q.dtype)
    lse = np.full((batch, heads, seq_len), np.nan, np.promote_types(q.dtype, np.float32))
    for b, h in np.ndindex(batch, heads):
        one = (q[b, :, h], k[b, :, h], v[b, :, h], out[b, :, h], lse[b, h])
        _head(one, dllm_block, scale, block_size)
    return out, lse


def attention_varlen(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    cu_seqlens: NDArray[Any],
    *,
    dllm_block: int,
    scale: float | None = None,
    block_size: int = 64,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return output [T, H, D] and lse [H, T] of packed samples; q, k, v [T, H, D]."""
    scale = q.shape[2] ** -0.5 if scale is None else scale
    out = np.full(q.shape, np.nan, q.dtype)
    lse = np.full((q.shape[1], len(q)), np.nan, np.promote_types(q.dtype, np.float32))
    for b, h in np.ndindex(len(cu_seqlens) - 1, q.shape[1]):
        start, end = cu_seqlens[b], cu_seqlens[b + 1]  # concept: cu-seqlens
        _check(end - start, dllm_block, block_size)
        one = (*(x[start:end, h] for x in (q, k, v, out)), lse[h, start:end])
        _head(one, dllm_block, scale, block_size)
    return out, lse


def _check(length: int, dllm_block: int, block_size: int) -> None:
    if length % 2:
        raise ValueError(f"{length} tokens are no two halves")
    if block_size % dllm_block:
        raise ValueError(f"tiles of {block_size} cut blocks of {dllm_block}")


def _head(one: tuple[NDArray[Any], ...], dllm_block: int, scale: float, block_size: int) -> None:
    """Compute one head of one sample: q, k, v, out [S, D], lse [S]; out and lse are written."""
    half = len(one[0]) // 2
    region_tiles = -(-half // block_size)
    noisy, clean = (tuple(x[part] for x in one) for part in (slice(None, half), slice(half, None)))
    for bx in range(2 * region_tiles):  # concept: kernel-grid
        q_is_noisy = bx < region_tiles
        tile = bx if q_is_noisy else bx - region_tiles
        _program(
            noisy if q_is_noisy else clean,
            noisy,
            clean,
            tile,
            q_is_noisy,
            dllm_block,
            scale,
            block_size,
        )


def _program(
    queries: tuple[NDArray[Any], ...],
    noisy: tuple[NDArray[Any], ...],
    clean: tuple[NDArray[Any], ...],
    tile: int,
    q_is_noisy: bool,
    dllm_block: int,
    scale: float,
    block_size: int,
) -> None:
    """Compute one tile of queries of one half; every half is (q, k, v, out, lse) of its rows."""
    q, _, _, out, lse = queries
    first = tile * block_size
    q_tile = load(q, first, block_size)
    state = empty_state(block_size, q.shape[1], q.dtype)
    # concept: loop-range
    last_clean_step = tile
    num_steps = tile + 2 if q_is_noisy else tile + 1

    for s in range(num_steps):  # concept: kv-loop
        is_noisy_diag = s > last_clean_step
        half, start = (noisy, first) if is_noisy_diag else (clean, s * block_size)
        k_tile, v_tile = (load(x, start, block_size) for x in half[1:3])
        visible = np.ones((block_size, block_size), bool)
        # concept: causal-mask
        if is_noisy_diag or s == last_clean_step:
            visible = _tile_allowed(block_size, dllm_block, is_noisy_diag, q_is_noisy)

        visible &= start + np.arange(block_size) < len(q)  # concept: boundary-mask
        state = step(state, q_tile, k_tile, v_tile, visible, scale)
    m, l, acc = state
    # concept: normalise, empty-row
    o_tile = acc / (l[:, None] + 1e-30)

    store(o_tile, out, first)  # concept: epilogue-store
    # concept: partial-lse
    tile_lse = np.log2(l + 1e-30) + m * l.dtype.type(scale * LOG2E)
    lse[first : first + block_size] = tile_lse[: len(lse) - first]


def _tile_allowed(
    size: int, dllm_block: int, is_noisy_diag: bool, q_is_noisy: bool
) -> NDArray[Any]:
    """Return [size, size] for a tile on a diagonal, by the blocks of its own rows and columns."""
    block = np.arange(size) // dllm_block
    q_blk, k_blk = block[:, None], block[None, :]
    allowed: NDArray[Any] = q_blk > k_blk if q_is_noisy else q_blk >= k_blk
    return q_blk == k_blk if is_noisy_diag else allowed


def load(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] from row `first` on; past the end it is zero, as a copy fills it."""
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    tile[: max(0, len(x) - first)] = x[first : first + rows]
    return tile


def store(tile: NDArray[Any], out: NDArray[Any], first: int) -> None:
    """Write the rows of a tile [M, D] that exist to out [S, D], rounded to its type."""
    out[first : first + len(tile)] = tile[: len(out) - first]


State = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""m [M] the largest score so far, l [M] the denominator, acc [M, D] the numerator."""


def empty_state(rows: int, dim: int, dtype: Any) -> State:
    """Return the state before any key: nothing summed, and a maximum below all."""
    wide = np.promote_types(dtype, np.float32)
    # concept: state-init
    m = np.full(rows, NEG_INF, wide)
    l = np.zeros(rows, wide)
    acc = np.zeros((rows, dim), wide)

    return m, l, acc


def step(
    state: State,
    q_tile: NDArray[Any],
    k_tile: NDArray[Any],
    v_tile: NDArray[Any],
    visible: NDArray[Any],
    scale: float,
) -> State:
    """Return the state after one block of keys: q [M, D], k and v [N, D], visible [M, N].

    What was summed so far was measured against the old maximum. Before anything is added it is
    brought to the new one, by the factor exp(old - new): then all terms have the same yardstick.
    """
    m_old, l, acc = state
    # concept: softmax-scale
    factor = acc.dtype.type(scale * LOG2E)
    # concept: mask-value
    scores = np.where(visible, acc.dtype.type(0), acc.dtype.type(NEG_INF))
    # concept: qk-gemm
    scores = scores + q_tile.astype(acc.dtype) @ k_tile.astype(acc.dtype).T  # [M, N]
    # concept: row-max
    m = np.maximum(m_old, scores.max(axis=1))
    # concept: rescale-factor
    rescale = np.exp2(m_old * factor - m * factor)
    # concept: probability
    p = np.exp2(scores * factor - m[:, None] * factor)
    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)
    # concept: acc-rescale
    acc = acc * rescale[:, None]
    # concept: pv-gemm
    acc = acc + p.astype(v_tile.dtype).astype(acc.dtype) @ v_tile.astype(acc.dtype)

    return m, l, acc


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    if run.build == "_fwd_varlen_template":
        dllm_block, scale = run.args[3:5]
        return attention_varlen(*run.inputs[:4], dllm_block=dllm_block, scale=scale)
    dllm_block, scale = run.args[4:6]
    return attention(*run.inputs, dllm_block=dllm_block, scale=scale)
