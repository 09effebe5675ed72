"""SeerAttention block by block: block-sparse, with the query offset of a cache.

Implements tilelang `examples/seer_attention/block_sparse_attn_tilelang.py`. Unlike `block_sparse`
the loop runs over all key blocks (the table alone keeps the future out), and the diagonal is moved
by the keys that were there before. Upstream has check_inf as a comment: a row that sees no key
is NaN there and 0 here.
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
    block_mask: NDArray[Any],  # concept: block-mask-param
    *,
    causal: bool = True,
    block: int = 64,
) -> NDArray[Any]:
    """Return attention to the blocks that are on, in the type of q; 0 for a row that sees no key.

    q [B, H, Sq, D], k and v [B, H, Skv, D], block_mask [B, H, n, n], n = ceil(Skv / block)
    -> [B, H, Sq, D]. ValueError when the table has another shape, or queries outnumber keys.
    """
    batch, heads, seq_q, _ = q.shape
    blocks = -(-k.shape[2] // block)
    if block_mask.shape != (batch, heads, blocks, blocks):
        raise ValueError(f"a table {(batch, heads, blocks, blocks)} is needed: {block_mask.shape}")
    if seq_q > k.shape[2]:
        raise ValueError(f"{seq_q} queries need as many keys, and there are {k.shape[2]}")
    out = np.full(q.shape, np.nan, q.dtype)
    for b, h, bx in np.ndindex(batch, heads, -(-seq_q // block)):  # concept: kernel-grid
        flags = block_mask[b, h, bx] != 0  # concept: block-mask
        _program((q[b, h], k[b, h], v[b, h], out[b, h]), flags, bx * block, causal, block)
    return out


def _program(
    head: tuple[NDArray[Any], ...], flags: NDArray[Any], first: int, causal: bool, block: int
) -> None:
    """Compute one block of queries: q, k, v, out [S, D]; flags [n] of its row of the table."""
    q, k, v, out = head
    past_len = len(k) - len(q)  # concept: query-offset
    blocks = -(-len(k) // block)  # concept: loop-range
    q_tile = load(q, first, block)
    state = empty_state(block, v.shape[1], q.dtype)
    for t in range(blocks):  # concept: kv-loop
        # concept: block-skip
        if not flags[t]:
            continue

        k_tile, v_tile = load(k, t * block, block), load(v, t * block, block)
        q_idx = np.arange(first, first + block)[:, None] + past_len
        k_idx = np.arange(t * block, (t + 1) * block)[None, :]
        # concept: causal-mask, boundary-mask
        visible = q_idx >= k_idx if causal else k_idx < len(k)

        state = step(state, q_tile, k_tile, v_tile, visible)
    store(normalised(state), out, first)  # concept: epilogue-store


def threshold_mask(gate: NDArray[Any], threshold: float) -> NDArray[Any]:
    """Return the causal block table of a gate [..., n, n]: row by row, what is above."""
    table = np.zeros(gate.shape, bool)
    for at in np.ndindex(gate.shape[:-1]):
        row = at[-1]
        table[at][: row + 1] = gate[at][: row + 1] > threshold
    return table


def topk_mask(gate: NDArray[Any], topk: int) -> NDArray[Any]:
    """Return the causal block table of the `topk` best key blocks in each row of [..., n, n].

    A block is chosen when fewer than `topk` come before it: larger ones, or equal and left.
    """
    # concept: top-k
    order = np.arange(gate.shape[-1])
    mine, other = gate[..., :, None], gate[..., None, :]
    ahead = (other > mine) | ((other == mine) & (order[None, :] < order[:, None]))
    chosen = ahead.sum(axis=-1) < topk

    past = order[:, None] >= order[None, :]
    kept: NDArray[Any] = chosen & past
    return kept


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
    return (attention(*run.inputs, causal=run.args[6]),)
