"""Sparse MLA block by block: tokens are gathered one by one, and one tile serves as key and value.

Implements tilelang `examples/deepseek_v32/sparse_mla_fwd.py` (`sparse_mla_fwd_pipelined.py` loads
the same in another order). One program serves one query; up to 64 heads of it are the rows of its
tile. The running maximum starts at -2^30 and not at -inf: hidden scores are -inf, and the two never
meet as -inf - (-inf). Tiles are in the type of the inputs, sums in float32 (or float64).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG2E = float(np.log2(np.e))
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


LOWEST = -(2.0**30)
"""The running maximum before any key."""
HEADS = 64
"""The most heads of one program."""


def attention(
    q: NDArray[Any],
    kv: NDArray[Any],
    indices: NDArray[Any],  # concept: block-indices-param
    *,
    dim: int,
    scale: float | None = None,
    first: int = 0,
    block_i: int = 64,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the output [B, S, H, dim] in the type of q and the log2-sum-exp [B, S, H].

    q [B, S, H, D], kv [B, N, G, D], indices [B, S, G, topk]. Query s is at position first + s and
    sees what is listed from 0 to it; one that sees none has output 0 and lse -inf (upstream: NaN
    and -inf). Upstream wants topk to be a multiple of `block_i`; here the last tile may be partial.
    ValueError when H is no multiple of G.
    """
    batch, seq_len, heads, full = q.shape
    if heads % kv.shape[2]:
        raise ValueError(f"{heads} query heads cannot share {kv.shape[2]} K/V heads evenly")
    group = heads // kv.shape[2]  # concept: kv-head-count
    scale = full**-0.5 if scale is None else scale
    out = np.full((batch, seq_len, heads, dim), np.nan, q.dtype)
    lse = np.full((batch, seq_len, heads), np.nan, np.promote_types(q.dtype, np.float32))
    # concept: kernel-grid
    for s_i, b_i, g_i, part in np.ndindex(seq_len, batch, kv.shape[2], -(-group // HEADS)):
        start = g_i * group + part * HEADS  # concept: kv-head
        rows = slice(start, min(start + HEADS, (g_i + 1) * group))
        one = (q[b_i, s_i, rows], kv[b_i, :, g_i], indices[b_i, s_i, g_i])
        o_tile, tile_lse = _program(*one, first + s_i, dim, scale, block_i)
        out[b_i, s_i, rows] = o_tile  # concept: epilogue-store
        lse[b_i, s_i, rows] = tile_lse
    return out, lse


def _program(
    q_tile: NDArray[Any],
    kv: NDArray[Any],
    indices: NDArray[Any],
    query: int,
    dim: int,
    scale: float,
    block_i: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return output [M, dim] and lse [M] of one query: some of its heads [M, D], kv [N, D]."""
    state = empty_state(len(q_tile), dim, q_tile.dtype)
    for i in range(-(-len(indices) // block_i)):  # concept: kv-loop
        chosen = indices[i * block_i : (i + 1) * block_i]  # concept: block-index
        tile = gather(kv, chosen, block_i)  # concept: gather
        # concept: causal-mask, boundary-mask
        visible = np.zeros((1, block_i), bool)
        visible[0, : len(chosen)] = (chosen >= 0) & (chosen <= query) & (chosen < len(kv))

        state = step(state, q_tile, tile, dim, visible, scale)
    m, l, acc = state
    # concept: normalise, empty-row
    o_tile = np.where(l[:, None] > 0, acc / np.where(l > 0, l, 1)[:, None], 0)

    with np.errstate(divide="ignore"):
        lse = np.log2(l) + m * l.dtype.type(scale * LOG2E)  # concept: partial-lse
    return o_tile, lse


def gather(kv: NDArray[Any], chosen: NDArray[Any], rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] of single rows of kv [N, D]; those out of range are zero."""
    tile = np.zeros((rows, kv.shape[1]), kv.dtype)
    there = (chosen >= 0) & (chosen < len(kv))
    tile[: len(chosen)][there] = kv[chosen[there]]
    return tile


State = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""m [M] the largest score so far, l [M] the denominator, acc [M, D] the numerator."""


def empty_state(rows: int, dim: int, dtype: Any) -> State:
    """Return the state before any key: nothing summed, and a maximum below all."""
    wide = np.promote_types(dtype, np.float32)
    # concept: state-init
    m = np.full(rows, LOWEST, wide)
    l = np.zeros(rows, wide)
    acc = np.zeros((rows, dim), wide)

    return m, l, acc


def step(
    state: State,
    q_tile: NDArray[Any],
    kv_tile: NDArray[Any],
    dim: int,
    visible: NDArray[Any],
    scale: float,
) -> State:
    """Return the state after one tile of tokens: q [M, D], kv [N, D], visible [1, N].

    The score is the sum of two products, of the latent part and of the rotary one; the value is the
    latent part of the same tile.
    """
    m_old, l, acc = state
    wide = acc.dtype
    q_latent, q_rope = q_tile[:, :dim].astype(wide), q_tile[:, dim:].astype(wide)
    latent, rope = kv_tile[:, :dim].astype(wide), kv_tile[:, dim:].astype(wide)
    # concept: softmax-scale
    factor = wide.type(scale * LOG2E)
    # concept: mask-value
    scores = np.where(visible, wide.type(0), -np.inf)
    # concept: qk-gemm
    scores = scores + q_latent @ latent.T + q_rope @ rope.T  # [M, N]
    # concept: row-max
    m = np.maximum(m_old, scores.max(axis=1))
    # concept: rescale-factor
    rescale = np.exp2((m_old - m) * factor)
    # concept: probability
    p = np.exp2(scores * factor - m[:, None] * factor)
    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)
    # concept: acc-rescale
    acc = acc * rescale[:, None]
    # concept: pv-gemm
    acc = acc + p.astype(kv_tile.dtype).astype(wide) @ latent

    return m, l, acc


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.named` its sizes, `run.inputs` its tensors."""
    named, (q, kv, indices, *rest) = run.named, run.inputs
    if run.build == "sparse_attention_fwd":  # Ascend: one file hides the future, it takes a dtype
        first = 0 if "dtype" in named else kv.shape[1]
        return attention(q, kv, indices, dim=run.args[1], first=first)[:1]
    first = int(rest[0][0]) if rest else 0
    scale = named.get("sm_scale")
    out, lse = attention(q, kv, indices, dim=named["dim"], scale=scale, first=first)
    return (out,) if run.only == (0,) else (out, lse)
