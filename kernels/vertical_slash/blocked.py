"""Vertical-slash attention block by block: two loops, over blocks along diagonals and over columns.

Implements tilelang `examples/minference/example_vertical_slash_sparse_attn.py`. A slash block is
loaded whole and is causal; columns are gathered one by one into a tile, whose end is hidden. There
a producer warp group loads while a consumer computes, with barriers between; here one follows the
other. Tiles are in the type of the inputs, sums in float32 (in float64 for float64 inputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG2E = float(np.log2(np.e))
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


Lists = tuple[NDArray[Any], NDArray[Any]]
"""Of one block of queries: the first keys of its slash blocks, and its single columns."""


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    block_count: NDArray[Any],
    block_offset: NDArray[Any],  # concept: block-indices-param
    column_count: NDArray[Any],
    column_index: NDArray[Any],  # concept: block-indices-param
    *,
    block: int = 64,
) -> NDArray[Any]:
    """Return attention of each query to the keys of its block's two lists, in the type of q.

    q, k, v [B, H, S, D] -> [B, H, S, D]; a row that sees no key is 0. Counts are [B, H, n], lists
    [B, H, n, most], n = ceil(S / block). ValueError when a count is larger than its list.
    """
    for name, count, listed in (
        ("block", block_count, block_offset),
        ("column", column_count, column_index),
    ):
        if count.max(initial=0) > listed.shape[3]:
            raise ValueError(f"{name}_count says {count.max()}, its list holds {listed.shape[3]}")
    out = np.full(q.shape, np.nan, q.dtype)
    for b, h, bx in np.ndindex(block_count.shape):  # concept: kernel-grid
        offsets = block_offset[b, h, bx][: block_count[b, h, bx]]
        columns = column_index[b, h, bx][: column_count[b, h, bx]]
        head = (q[b, h], k[b, h], v[b, h], out[b, h])
        _program(head, (offsets, columns), bx * block, block)
    return out


def _program(head: tuple[NDArray[Any], ...], lists: Lists, first: int, block: int) -> None:
    """Compute one block of queries: q, k, v, out [S, D]; out is written."""
    q, k, v, out = head
    offsets, columns = lists
    q_tile = load(q, first, block)
    state = empty_state(block, v.shape[1], q.dtype)
    for bi in range(len(offsets)):  # concept: kv-loop
        start = int(offsets[bi])  # concept: block-index
        k_tile, v_tile = load(k, start, block), load(v, start, block)  # concept: gather
        q_idx, k_idx = first + np.arange(block)[:, None], start + np.arange(block)[None, :]
        state = step(state, q_tile, k_tile, v_tile, q_idx >= k_idx)  # concept: causal-mask
    for bi in range(-(-len(columns) // block)):  # concept: kv-loop
        chosen = columns[bi * block : (bi + 1) * block]  # concept: block-index
        k_tile, v_tile = gather(k, chosen, block), gather(v, chosen, block)  # concept: gather
        visible = np.arange(block)[None, :] < len(chosen)  # concept: boundary-mask
        state = step(state, q_tile, k_tile, v_tile, visible)
    store(normalised(state), out, first)  # concept: epilogue-store


def gather(x: NDArray[Any], chosen: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] of single rows of x [S, D]; what is left over is zero."""
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    tile[: len(chosen)] = x[chosen]
    return tile


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
    """Return the state before any key: nothing summed, and no maximum."""
    wide = np.promote_types(dtype, np.float32)
    # concept: state-init
    m = np.full(rows, -np.inf, wide)
    l = np.zeros(rows, wide)
    acc = np.zeros((rows, dim), wide)

    return m, l, acc


def step(
    state: State,
    q_tile: NDArray[Any],
    k_tile: NDArray[Any],
    v_tile: NDArray[Any],
    visible: NDArray[Any],
) -> State:
    """Return the state after one block of keys: q [M, D], k and v [N, D], visible [M, N] or [1, N].

    What was summed so far was measured against the old maximum. Before anything is added it is
    brought to the new one, by the factor exp(old - new): then all terms have the same yardstick.
    A row that has seen no key has no maximum: 0 stands in for it in the exponents, not in m.
    """
    m_old, l, acc = state
    # concept: softmax-scale
    scale = acc.dtype.type(q_tile.shape[1] ** -0.5 * LOG2E)
    # concept: mask-value
    scores = np.where(visible, acc.dtype.type(0), -np.inf)
    # concept: qk-gemm
    scores = scores + q_tile.astype(acc.dtype) @ k_tile.astype(acc.dtype).T  # [M, N]
    # concept: row-max
    m = np.maximum(m_old, scores.max(axis=1))
    # concept: check-inf
    top = np.where(np.isneginf(m), 0, m)
    # concept: rescale-factor
    rescale = np.exp2(m_old * scale - top * scale)
    # concept: probability
    p = np.exp2(scores * scale - top[:, None] * scale)
    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)
    # concept: acc-rescale
    acc = acc * rescale[:, None]
    # concept: pv-gemm
    acc = acc + p.astype(v_tile.dtype).astype(acc.dtype) @ v_tile.astype(acc.dtype)

    return m, l, acc


def normalised(state: State) -> NDArray[Any]:
    """Return acc / l [M, D]; a row that has seen no key is 0."""
    _, l, acc = state
    # concept: normalise, empty-row
    o_tile: NDArray[Any] = np.where(l[:, None] > 0, acc / np.where(l > 0, l, 1)[:, None], 0)

    return o_tile


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    return (attention(*run.inputs),)
