"""Attention with a sink, block by block: after the loop, the denominator gains one term.

Implements tilelang `examples/attention_sink/example_mha_sink_fwd_bhsd.py` (and the forward of
`example_gqa_sink_bwd_bhsd.py`, for grouped heads). The loop is that of the sliding window. Tiles
are in the type of the inputs, sums in float32 (in float64 for float64 inputs).
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
    sinks: NDArray[Any],
    *,
    window_size: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return causal attention with a sink, in a window if one is given, in the type of q.

    q [B, H, Sq, D], k and v [B, G, Skv, D] -> [B, H, Sq, D]. Query head h reads KV head
    h // (H // G). With a window, a query sees its last `window_size` keys, itself included.
    `sinks` [H] holds one logit per head. It joins the denominator as if it were the score of one
    more key, but has no value: weight can drain away there. It is a logit already: 1/sqrt(d) does
    not apply.
    ValueError when queries outnumber the keys. Upstream wants the window to be a multiple of
    `block_n`; here it need not be.
    """
    if k.shape[2] < q.shape[2]:
        raise ValueError(f"{q.shape[2]} queries need as many keys, and there are {k.shape[2]}")
    out = np.full(q.shape, np.nan, q.dtype)
    batch, heads, seq_q, _ = q.shape
    groups = heads // k.shape[1]  # concept: kv-head-count
    for b, h, bx in np.ndindex(batch, heads, -(-seq_q // block_m)):  # concept: kernel-grid
        kv_head = h // groups  # concept: kv-head
        head = (q[b, h], k[b, kv_head], v[b, kv_head], out[b, h])
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
    m, l, acc = state
    l = add_sink(m, l, sink, softmax_scale(q_tile, acc))
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


def add_sink(m: NDArray[Any], l: NDArray[Any], sink: Any, scale: Any) -> NDArray[Any]:
    """Return the denominators l [M] with the sink in them, against the same maximum m as the rest.

    A sink above every score makes this large, at worst infinite, and the row 0: as it should be. A
    row that saw nothing has no maximum, and its denominator is the sink's alone.
    """
    # concept: sink-epilogue
    top = np.where(np.isneginf(m), 0, m)
    logit = l.dtype.type(sink) * l.dtype.type(LOG2E)
    with np.errstate(over="ignore"):
        total: NDArray[Any] = l + np.exp2(logit - top * scale)

    return total


def softmax_scale(q_tile: NDArray[Any], acc: NDArray[Any]) -> Any:
    """Return 1/sqrt(d) times log2(e), in the type that sums are held in."""
    # concept: softmax-scale
    return acc.dtype.type(q_tile.shape[1] ** -0.5 * LOG2E)


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
    scale = softmax_scale(q_tile, acc)
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
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors.

    NotImplementedError for the gradients.
    """
    if len(run.inputs) != 4:
        raise NotImplementedError("the forward pass alone")
    return (attention(*run.inputs, window_size=run.args[5]),)
