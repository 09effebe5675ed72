"""Sink, window, grouped heads and packed samples at once, block by block.

Implements tilelang `examples/attention_sink/example_gqa_sink_fwd_varlen.py`: `kernels/varlen` with
the loop bounds of `kernels/window` and the epilogue of `kernels/sink`. Hidden scores are -inf here,
not -1e9: rows without a key are caught by check_inf. Tiles are in the type of the inputs, sums in
float32 (in float64 for float64 inputs).
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
    cu_seqlens_q: NDArray[Any],
    cu_seqlens_k: NDArray[Any],
    sinks: NDArray[Any],
    *,
    causal: bool = True,
    window_size: int | None = None,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return attention within each sample, in the type of q.

    q [Tq, H, D], k and v [Tk, G, D] -> [Tq, H, D]; sample b owns the rows from cu_seqlens[b] up to
    cu_seqlens[b + 1] (0-based, exclusive). Query head h reads KV head h // (H // G), and sinks [H]
    holds its logit, which joins the denominator and has no value. With a window, keys that are
    `window_size` or more behind are hidden; without causality those ahead are not. Rows that no
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
        sink = sinks[h]  # concept: sink-load
        _program(one, queries, keys, sink, bx * block_m, causal, window_size, block_m, block_n)
    return out


def _program(
    head: tuple[NDArray[Any], ...],
    queries: tuple[int, int],
    keys: tuple[int, int],
    sink: Any,
    first: int,
    causal: bool,
    window_size: int | None,
    block_m: int,
    block_n: int,
) -> None:
    """Compute a sample's rows from `first` on; q, k, v, out [T, D] hold all samples of a head."""
    q, k, v, out = head
    seq_q, seq_k = queries[1] - queries[0], keys[1] - keys[0]
    offset = seq_k - seq_q  # concept: query-offset
    # concept: loop-range
    end = -(-seq_k // block_n)
    if causal:  # a negative bound, where the tile sees nothing at all, is an empty loop
        end = min(end, -(-(offset + first + block_m) // block_n))
    # concept: window-start
    start = 0
    if window_size is not None:
        start = max(0, (offset + first - window_size + 1) // block_n)

    q_tile = load(q, queries[0] + first, block_m)  # [M, D], rows past the sample included
    q_idx = np.arange(first, first + block_m)[:, None]
    state = empty_state(block_m, v.shape[1], q.dtype)
    for t in range(start, end):  # concept: kv-loop
        k_tile = load(k, keys[0] + t * block_n, block_n)
        v_tile = load(v, keys[0] + t * block_n, block_n)
        k_idx = np.arange(t * block_n, (t + 1) * block_n)[None, :]
        # concept: padding-mask
        visible = (q_idx < seq_q) & (k_idx < seq_k)
        if causal:
            visible &= q_idx + offset >= k_idx
        # concept: window-mask
        if window_size is not None:
            visible &= q_idx + offset < k_idx + window_size

        state = step(state, q_tile, k_tile, v_tile, visible)
    m, l, acc = state
    l = add_sink(m, l, sink, softmax_scale(q_tile, acc))
    o_tile = acc / l[:, None]  # concept: normalise
    store(o_tile, out[queries[0] : queries[1]], first)  # concept: epilogue-store


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
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    q, k, v, cu_q, cu_k, _, sinks = run.inputs
    causal, window_size = run.args[6:8]
    return (attention(q, k, v, cu_q, cu_k, sinks, causal=causal, window_size=window_size),)
