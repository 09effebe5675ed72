"""Sliding-window attention block by block: the loop starts where the window does.

Implements tilelang `examples/attention_sink/example_mha_sink_fwd_bhsd.py` without its sinks. The
first block of a tile is there for its first row; for later rows it may be hidden altogether, so a
row can pass a block without having a maximum: check_inf. Upstream stores the stand-in 0 as the
maximum; here it stays out of m (see `step`). Tiles are in the type of the inputs, sums in float32
(in float64 for float64 inputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG2E = float(np.log2(np.e))
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    window_size: int | None,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return causal attention in which a query sees the last `window_size` keys, itself included.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D] in the type of q. None: no window.
    ValueError when queries outnumber the keys. Upstream wants the window to be a multiple of
    `block_n`; here it need not be.
    """
    if k.shape[2] < q.shape[2]:
        raise ValueError(f"{q.shape[2]} queries need as many keys, and there are {k.shape[2]}")
    out = np.full(q.shape, np.nan, q.dtype)
    batch, heads, seq_q, _ = q.shape
    for b, h, bx in np.ndindex(batch, heads, -(-seq_q // block_m)):  # concept: kernel-grid
        head = (q[b, h], k[b, h], v[b, h], out[b, h])
        _program(head, bx * block_m, window_size, block_m, block_n)
    return out


def _program(
    head: tuple[NDArray[Any], ...], first: int, window_size: int | None, block_m: int, block_n: int
) -> None:
    """Compute rows `first` to `first + block_m` of one head: q, k, v, out are [S, D]."""
    q, k, v, out = head
    past_len = len(k) - len(q)  # concept: query-offset
    # concept: loop-range
    end = min(-(-len(k) // block_n), -(-(first + block_m + past_len) // block_n))
    # concept: window-start
    start = 0
    if window_size is not None:
        start = max(0, (first + past_len - window_size) // block_n)

    q_tile = load(q, first, block_m)  # [M, D]
    state = empty_state(block_m, v.shape[1], q.dtype)
    for t in range(start, end):  # concept: kv-loop
        k_tile, v_tile = load(k, t * block_n, block_n), load(v, t * block_n, block_n)
        q_idx = np.arange(first, first + block_m)[:, None] + past_len
        k_idx = np.arange(t * block_n, (t + 1) * block_n)[None, :]
        visible = q_idx >= k_idx  # concept: causal-mask
        # concept: window-mask
        if window_size is not None:
            visible &= q_idx < k_idx + window_size

        state = step(state, q_tile, k_tile, v_tile, visible)
    _, l, acc = state
    o_tile = acc / l[:, None]  # concept: normalise
    store(o_tile, out, first)  # concept: epilogue-store


def load(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] from row `first` on; past the end it is zero, as a copy fills it.

    A zero key is no hidden key: its score is 0, and the boundary mask has to hide it.
    """
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    tile[: len(x) - first] = x[first : first + rows]
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

    A row that has seen nothing yet has no maximum, and -inf - (-inf) would be NaN: 0 stands in, and
    both exponentials come out as 0. It stands in the exponents alone: kept in m, it would be the
    row's maximum from then on, and swallow a row whose scores are all far below zero.
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


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns without sinks: for sinks that are all -inf.

    NotImplementedError for others: see `kernels/sink`.
    """
    q, k, v, sinks = run.inputs
    if not np.isneginf(sinks).all():
        raise NotImplementedError("this variant has no sinks")
    return (attention(q, k, v, window_size=run.args[5] if len(run.args) > 5 else None),)
