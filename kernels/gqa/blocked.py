"""Grouped-query attention block by block: MHA's kernel, reading another head of K and V.

Implements tilelang `examples/flash_attention/example_gqa_fwd_bshd.py`. One program still serves one
query head; the group shows in one division. Tiles are in the type of the inputs, sums in float32
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
    causal: bool = False,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v for each query head with its KV head, in the type of q.

    q [B, S, H, D], k and v [B, S, G, D] -> [B, S, H, D]. ValueError when H is no multiple of G.
    """
    batch, seq_len, heads, _ = q.shape
    if heads % k.shape[2]:
        raise ValueError(f"{heads} query heads cannot share {k.shape[2]} KV heads evenly")
    groups = heads // k.shape[2]  # concept: kv-head-count
    out = np.full(q.shape, np.nan, q.dtype)
    for b, h, bx in np.ndindex(batch, heads, -(-seq_len // block_m)):  # concept: kernel-grid
        kv_head = h // groups  # concept: kv-head
        one = (q[b, :, h], k[b, :, kv_head], v[b, :, kv_head])
        _program(*one, out[b, :, h], bx * block_m, causal, block_m, block_n)
    return out


def _program(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    out: NDArray[Any],
    first: int,
    causal: bool,
    block_m: int,
    block_n: int,
) -> None:
    """Compute rows `first` to `first + block_m` of one head: all [S, D], out is written."""
    # concept: loop-range
    blocks = -(-len(k) // block_n)
    if causal:
        blocks = min(blocks, -(-(first + block_m) // block_n))

    q_tile = load(q, first, block_m)  # [M, D]
    state = empty_state(block_m, v.shape[1], q.dtype)
    for t in range(blocks):  # concept: kv-loop
        k_tile, v_tile = load(k, t * block_n, block_n), load(v, t * block_n, block_n)
        q_idx = np.arange(first, first + block_m)[:, None]
        k_idx = np.arange(t * block_n, (t + 1) * block_n)[None, :]
        # concept: causal-mask, boundary-mask
        visible = q_idx >= k_idx if causal else k_idx < len(k)

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
    return (attention(*run.inputs, causal=run.args[4]),)
