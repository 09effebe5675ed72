"""Packed samples block by block: a program serves a tile of one sample's queries, or nothing.

Implements tilelang `examples/flash_attention/example_mha_fwd_varlen.py` and
`example_gqa_fwd_varlen.py`. The grid is as tall as the longest sample; programs past the end of a
shorter one compute and store nothing. Tiles read on into the next sample: every mask tests this
sample's length. Tiles are in the type of the inputs, sums in float32 (float64 for float64).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG2E = float(np.log2(np.e))
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


HIDDEN = -1e9
"""What a hidden score is: far below every real one, and finite, so that a row that sees nothing
has the maximum -1e9 and no inf - inf. Its weights are all alike then; the epilogue zeroes it."""


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    cu_seqlens_q: NDArray[Any],
    cu_seqlens_k: NDArray[Any],
    *,
    causal: bool = False,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return attention within each sample, in the type of q.

    q [Tq, H, D], k and v [Tk, G, D] -> [Tq, H, D]; sample b owns the rows from cu_seqlens[b] up to
    cu_seqlens[b + 1] (0-based, exclusive). Query head h reads KV head h // (H // G). Rows that no
    sample owns are left NaN.
    """
    out = np.full(q.shape, np.nan, q.dtype)
    groups = q.shape[1] // k.shape[1]  # concept: kv-head-count
    tiles = -(-int(np.diff(cu_seqlens_q).max()) // block_m)
    for b, h, bx in np.ndindex(len(cu_seqlens_q) - 1, q.shape[1], tiles):  # concept: kernel-grid
        kv_head = h // groups  # concept: kv-head
        # concept: cu-seqlens
        queries = (int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1]))
        keys = (int(cu_seqlens_k[b]), int(cu_seqlens_k[b + 1]))

        one = (q[:, h], k[:, kv_head], v[:, kv_head], out[:, h])
        _program(one, queries, keys, bx * block_m, causal, block_m, block_n)
    return out


def _program(
    head: tuple[NDArray[Any], ...],
    queries: tuple[int, int],
    keys: tuple[int, int],
    first: int,
    causal: bool,
    block_m: int,
    block_n: int,
) -> None:
    """Compute a sample's rows from `first` on; q, k, v, out [T, D] hold all samples of a head."""
    q, k, v, out = head
    seq_q, seq_k = queries[1] - queries[0], keys[1] - keys[0]
    offset = seq_k - seq_q  # concept: query-offset
    # concept: loop-range
    blocks = -(-seq_k // block_n)
    if causal:  # a negative bound, where the tile sees nothing at all, is an empty loop
        blocks = min(blocks, -(-(offset + first + block_m) // block_n))

    q_tile = load(q, queries[0] + first, block_m)  # [M, D], rows past the sample included
    q_idx = np.arange(first, first + block_m)[:, None]
    state = empty_state(block_m, v.shape[1], q.dtype)
    for t in range(blocks):  # concept: kv-loop
        k_tile = load(k, keys[0] + t * block_n, block_n)
        v_tile = load(v, keys[0] + t * block_n, block_n)
        k_idx = np.arange(t * block_n, (t + 1) * block_n)[None, :]
        # concept: padding-mask
        visible = (q_idx < seq_q) & (k_idx < seq_k)
        if causal:
            visible &= q_idx + offset >= k_idx

        state = step(state, q_tile, k_tile, v_tile, visible)
    _finish(state, out[queries[0] : queries[1]], first, sees_nothing=causal and q_idx + offset < 0)


def _finish(state: State, out: NDArray[Any], first: int, sees_nothing: Any) -> None:
    """Divide, and write the rows that exist to this sample's out [Sq, D]."""
    _, l, acc = state
    # concept: empty-row, normalise
    with np.errstate(invalid="ignore"):  # 0 / 0 where no block was visited
        o_tile = np.where(sees_nothing, 0, acc / l[:, None])

    store(o_tile, out, first)  # concept: epilogue-store


def load(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] from row `first` on; past the end it is zero, as a copy fills it.

    A zero key is no hidden key: its score is 0, and the boundary mask has to hide it.
    """
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    found = x[first : first + rows]
    tile[: len(found)] = found
    return tile


def store(tile: NDArray[Any], out: NDArray[Any], first: int) -> None:
    """Write the rows of a tile [M, D] that exist to out [S, D], rounded to its type."""
    exist = max(min(len(out) - first, len(tile)), 0)  # concept: varlen-guard
    out[first : first + exist] = tile[:exist]


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
    """
    m_old, l, acc = state
    # concept: softmax-scale
    scale = acc.dtype.type(q_tile.shape[1] ** -0.5 * LOG2E)
    # concept: mask-value
    scores = np.where(visible, acc.dtype.type(0), acc.dtype.type(HIDDEN))
    # concept: qk-gemm
    scores = scores + q_tile.astype(acc.dtype) @ k_tile.astype(acc.dtype).T  # [M, N]
    # concept: row-max
    m = np.maximum(m_old, scores.max(axis=1))
    # concept: rescale-factor
    rescale = np.exp2(m_old * scale - m * scale)
    # concept: probability
    p = np.exp2(scores * scale - m[:, None] * scale)
    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)
    # concept: acc-rescale
    acc = acc * rescale[:, None]
    # concept: pv-gemm
    acc = acc + p.astype(v_tile.dtype).astype(acc.dtype) @ v_tile.astype(acc.dtype)

    return m, l, acc


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    return (attention(*run.inputs[:5], causal=run.args[-1]),)
