"""Attention with a sink, block by block, where hidden keys are zeroed after the exponential.

Implements the mathematics of the example `mha_sink_fwd_bhsd` of tilelang-ascend v0.1.2.000; its
data path is that of `kernels/ascend`. A mask of 0 and 1 is multiplied in after exp, so the running
maximum is over hidden scores too. It may stand above every score that counts, or below the sink: so
the end is measured against max(sink, m). Exponentials are natural, and scores are scaled
themselves. Tiles are in the type of the inputs, sums in float32 (in float64 for float64 inputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    sinks: NDArray[Any],
    *,
    window_size: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return causal attention with a sink, in a window if one is given, in the type of q.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D]. With a window, a query sees its last
    `window_size` keys, itself included.
    `sinks` [H] holds one logit per head. It joins the denominator as if it were the score of one
    more key, but has no value: weight can drain away there. It is a logit already: 1/sqrt(d) does
    not apply.
    ValueError when queries outnumber the keys.
    """
    if k.shape[2] < q.shape[2]:
        raise ValueError(f"{q.shape[2]} queries need as many keys, and there are {k.shape[2]}")
    out = np.full(q.shape, np.nan, q.dtype)
    batch, heads, seq_q, _ = q.shape
    for b, h, bx in np.ndindex(batch, heads, -(-seq_q // block_m)):  # concept: kernel-grid
        head = (q[b, h], k[b, h], v[b, h], out[b, h])
        sink = sinks[h]  # concept: sink-load
        _program(head, sink, bx * block_m, window_size, block_m, block_n)
    return out


def _program(
    head: tuple[NDArray[Any], ...],
    sink: Any,
    first: int,
    window_size: int | None,
    block_m: int,
    block_n: int,
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
    l, acc = add_sink(state, sink)
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


def add_sink(state: State, sink: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return l [M] with the sink in it and acc [M, D], both measured against max(sink, m).

    exp(sink - m) alone would overflow where the sink stands far above m, and then all but erase the
    row; against the larger of the two, every exponent is at most 0.
    """
    m, l, acc = state
    # concept: sink-epilogue
    top = np.maximum(m, l.dtype.type(sink))
    rescale = np.exp(m - top)
    l = l * rescale + np.exp(l.dtype.type(sink) - top)
    acc = acc * rescale[:, None]

    return l, acc


def step(
    state: State,
    q_tile: NDArray[Any],
    k_tile: NDArray[Any],
    v_tile: NDArray[Any],
    visible: NDArray[Any],
) -> State:
    """Return the state after one block of keys: q [M, D], k and v [N, D], visible [M, N] or [1, N].

    Scores of hidden keys are real numbers here, and m is the largest of all. Only then are their
    exponentials made 0, so that they count in no sum. No row is ever without a maximum, and
    check_inf is not needed. The price: a hidden score far above the visible ones makes those
    vanish, which a mask before the exponential would not.
    """
    m_old, l, acc = state
    scale = acc.dtype.type(q_tile.shape[1] ** -0.5)  # concept: softmax-scale
    # concept: qk-gemm
    scores = q_tile.astype(acc.dtype) @ k_tile.astype(acc.dtype).T * scale  # [M, N]
    # concept: row-max
    m = np.maximum(m_old, scores.max(axis=1))
    # concept: rescale-factor
    rescale = np.exp(m_old - m)
    # concept: probability
    p = np.exp(scores - m[:, None])
    # concept: mask-after-exp
    p = p * visible
    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)
    # concept: acc-rescale
    acc = acc * rescale[:, None]
    # concept: pv-gemm
    acc = acc + p.astype(v_tile.dtype).astype(acc.dtype) @ v_tile.astype(acc.dtype)

    return m, l, acc
