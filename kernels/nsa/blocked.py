"""Native sparse attention block by block: the loop walks a list, and the rows of a tile are heads.

Implements tilelang `examples/deepseek_nsa/example_tilelang_nsa_fwd.py`. One program serves one
query; the heads that share a K/V head are the rows of its tile, so the product is no vector. The
maximum is merged with the old one here; upstream takes the block's own (see `block_sparse`).
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
    block_indices: NDArray[Any],  # concept: block-indices-param
    *,
    block_size: int = 64,
    causal: bool = True,
    scale: float | None = None,
    first: int = 0,
) -> NDArray[Any]:
    """Return attention of each query to its blocks, in the type of q; 0 when it has none.

    q [B, S, H, D], k and v [B, S, G, D], block_indices [B, S, G, n] -> [B, S, H, D]. Query t
    stands at position first + t. ValueError when H is no multiple of G.
    """
    batch, seq_len, heads, dim = q.shape
    if heads % k.shape[2]:
        raise ValueError(f"{heads} query heads cannot share {k.shape[2]} K/V heads evenly")
    groups = heads // k.shape[2]  # concept: kv-head-count
    scale = dim**-0.5 if scale is None else scale
    out = np.full(q.shape, np.nan, q.dtype)
    for i_t, i_b, i_h in np.ndindex(seq_len, batch, k.shape[2]):  # concept: kernel-grid
        rows = slice(i_h * groups, (i_h + 1) * groups)  # concept: kv-head
        one = (q[i_b, i_t, rows], k[i_b, :, i_h], v[i_b, :, i_h], block_indices[i_b, i_t, i_h])
        o_tile = _program(*one, first + i_t, block_size, causal, scale)
        out[i_b, i_t, rows] = o_tile  # concept: epilogue-store
    return out


def attention_varlen(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    block_indices: NDArray[Any],
    block_counts: NDArray[Any],
    cu_seqlens: NDArray[Any],
    *,
    block_size: int = 64,
) -> NDArray[Any]:
    """Return causal attention [T, H, D] of packed samples; blocks are counted within a sample.

    q [T, H, D], k and v [T, G, D], block_indices [T, G, n], of which block_counts [T, G] are used.
    """
    used = np.arange(block_indices.shape[2]) < block_counts[..., None]
    block_indices = np.where(used, block_indices, -1)
    outs = []
    for b in range(len(cu_seqlens) - 1):
        start, end = cu_seqlens[b], cu_seqlens[b + 1]  # concept: cu-seqlens
        sample = (x[None, start:end] for x in (q, k, v, block_indices))
        outs.append(attention(*sample, block_size=block_size)[0])
    return np.concatenate(outs)


def _program(
    q_tile: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    indices: NDArray[Any],
    query: int,
    block_size: int,
    causal: bool,
    scale: float,
) -> NDArray[Any]:
    """Return the output [G, D] of one query: its heads q_tile [G, D], k and v [S, D]."""
    state = empty_state(len(q_tile), v.shape[1], q_tile.dtype)
    for i in range(len(indices)):  # concept: kv-loop
        start = int(indices[i]) * block_size  # concept: block-index
        # concept: block-skip
        if not 0 <= start <= query:
            continue

        # concept: gather
        k_tile, v_tile = load(k, start, block_size), load(v, start, block_size)

        k_idx = start + np.arange(block_size)[None, :]
        # concept: causal-mask, boundary-mask
        visible = k_idx <= query if causal else k_idx < len(k)

        state = step(state, q_tile, k_tile, v_tile, visible, scale)
    return normalised(state)


def load(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] from row `first` on; past the end it is zero, as a copy fills it."""
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    tile[: max(0, len(x) - first)] = x[first : first + rows]
    return tile


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
    scale: float,
) -> State:
    """Return the state after one block of keys: q [M, D], k and v [N, D], visible [M, N] or [1, N].

    What was summed so far was measured against the old maximum. Before anything is added it is
    brought to the new one, by the factor exp(old - new): then all terms have the same yardstick.
    A row that has seen no key has no maximum: 0 stands in for it in the exponents, not in m.
    """
    m_old, l, acc = state
    # concept: softmax-scale
    factor = acc.dtype.type(scale * LOG2E)
    # concept: mask-value
    scores = np.where(visible, acc.dtype.type(0), -np.inf)
    # concept: qk-gemm
    scores = scores + q_tile.astype(acc.dtype) @ k_tile.astype(acc.dtype).T  # [M, N]
    # concept: row-max
    m = np.maximum(m_old, scores.max(axis=1))
    # concept: check-inf
    top = np.where(np.isneginf(m), 0, m)
    # concept: rescale-factor
    rescale = np.exp2(m_old * factor - top * factor)
    # concept: probability
    p = np.exp2(scores * factor - top[:, None] * factor)
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
    """Return what upstream's kernel returns: `run.named` its sizes, `run.inputs` its tensors."""
    size = run.named["block_size"]
    if run.build == "native_sparse_attention_varlen":
        q, k, v, _, indices, counts, offsets, _ = run.inputs
        return (attention_varlen(q, k, v, indices, counts, offsets, block_size=size),)
    if "is_causal" not in run.named:  # a step of decoding: the query is the last position
        last = run.inputs[1].shape[1] - 1
        return (attention(*run.inputs, block_size=size, causal=False, first=last),)
    return (attention(*run.inputs, block_size=size, causal=run.named["is_causal"]),)
