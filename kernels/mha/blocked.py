"""Attention block by block, as the kernels compute it: scores never leave a tile.

Implements tilelang `examples/flash_attention/example_mha_fwd_bhsd.py` (and `_bshd.py`). A loop over
tiles of queries stands for the grid of programs; inside, keys and values pass by once, and three
things per query row carry what has been seen: m, the running maximum of the scores; l, the
denominator; acc, the numerator. m is kept unscaled, as upstream keeps it.

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
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    causal: bool = False,
    layout: str = "BHSD",
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v in the type of q.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D]; with layout "BSHD" the second and
    third dimensions change places, and nothing else: no tensor is copied. `block_m` queries meet
    `block_n` keys at a time. ValueError when causal queries outnumber the keys.
    """
    out = np.full(q.shape, np.nan, q.dtype)
    views = [np.swapaxes(x, 1, 2) if layout == "BSHD" else x for x in (q, k, v, out)]
    batch, heads, seq_q, _ = views[0].shape
    for b, h, bx in np.ndindex(batch, heads, -(-seq_q // block_m)):  # concept: kernel-grid
        q_head, k_head, v_head, out_head = (x[b, h] for x in views)
        first = bx * block_m
        _program(q_head, k_head, v_head, out_head, first, causal, block_m, block_n)
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
    past_len = len(k) - len(q)  # concept: query-offset
    if causal and past_len < 0:
        raise ValueError(f"{len(q)} causal queries need as many keys, and there are {len(k)}")
    # concept: loop-range
    blocks = -(-len(k) // block_n)
    if causal:  # no query of this tile stands behind the last one
        blocks = min(blocks, -(-(first + block_m + past_len) // block_n))

    q_tile = load(q, first, block_m)  # [M, D]
    state = empty_state(block_m, v.shape[1], q.dtype)
    for t in range(blocks):  # concept: kv-loop
        k_tile, v_tile = load(k, t * block_n, block_n), load(v, t * block_n, block_n)
        q_idx = np.arange(first, first + block_m)[:, None] + past_len
        k_idx = np.arange(t * block_n, (t + 1) * block_n)[None, :]
        # A causal query stands inside the sequence: what it sees does, too.
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
    bhsd = len(run.args) == 6
    layout = "BHSD" if bhsd else "BSHD"
    return (attention(*run.inputs, causal=run.args[5 if bhsd else 4], layout=layout),)
