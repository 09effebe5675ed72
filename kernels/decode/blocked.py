"""Split-KV decoding block by block: one program for each split of the keys, then a combination.

Implements tilelang `examples/flash_decoding/example_mha_inference.py` (not causal) and
`example_gqa_decode.py`. A tile of queries would leave most of a device idle, so the keys are split
too: `num_split` programs each attend to their part and hand on an output and the logarithm of its
denominator. The rows of a tile are the queries that share a KV head. Tiles are in the type of the
inputs, sums in float32 (in float64 for float64 inputs), what splits hand on in `partial_dtype`.
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
    mask: NDArray[Any] | None = None,  # concept: mask-param
    *,
    num_split: int = 4,
    block_m: int = 64,
    block_n: int = 64,
    partial_dtype: Any = None,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v over the keys that the mask leaves, in the type of q.

    q [B, Sq, H, D], k and v [B, Skv, G, D] -> [B, Sq, H, D]; query head h reads KV head
    h // (H // G).
    mask [B, Skv, G]: 0 hides a key; a query that sees no key gives 0. Splits may be of any length,
    or empty. `partial_dtype` is the type of sums when None; upstream stores in the type of q.
    """
    batch, seq_q, heads, dim = q.shape
    groups = heads // k.shape[2]
    out = np.full((batch, seq_q, heads, v.shape[3]), np.nan, q.dtype)
    for b, g in np.ndindex(batch, k.shape[2]):
        mine = slice(g * groups, (g + 1) * groups)  # concept: kv-head
        rows = q[b, :, mine].reshape(-1, dim)  # [Sq * groups, D]: all that read this KV head
        seen = np.ones(k.shape[1], bool) if mask is None else mask[b, :, g] != 0
        head = (rows, k[b, :, g], v[b, :, g], seen)
        partial, lse = _splits(head, num_split, block_m, block_n, partial_dtype)
        out[b, :, mine] = combine(partial, lse).reshape(seq_q, groups, -1)
    return out


def _splits(
    head: tuple[NDArray[Any], ...], num_split: int, block_m: int, block_n: int, kind: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return partial [R, N, D] and lse [R, N] of N splits: what lies in global memory between."""
    rows, k, v, seen = head
    kind = np.promote_types(rows.dtype, np.float32) if kind is None else kind
    partial = np.full((len(rows), num_split, v.shape[1]), np.nan, kind)
    lse = np.full((len(rows), num_split), np.nan, kind)
    for bx, split in np.ndindex(-(-len(rows) // block_m), num_split):  # concept: kernel-grid
        # concept: split-range
        length = -(-len(k) // num_split)
        keys = slice(split * length, (split + 1) * length)

        first = bx * block_m
        q_tile = load(rows, first, block_m)
        o_tile, lse_tile = _program(q_tile, k[keys], v[keys], seen[keys], block_n)
        # concept: partial-output
        store(o_tile, partial[:, split], first)
        # concept: partial-lse
        store(lse_tile, lse[:, split], first)

    return partial, lse


def _program(
    q_tile: NDArray[Any], k: NDArray[Any], v: NDArray[Any], seen: NDArray[Any], block_n: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return output [M, D] and lse [M] of a tile of queries over the keys of one split."""
    state = empty_state(len(q_tile), v.shape[1], q_tile.dtype)
    blocks = -(-len(k) // block_n)  # concept: loop-range
    for t in range(blocks):  # concept: kv-loop
        k_tile, v_tile = load(k, t * block_n, block_n), load(v, t * block_n, block_n)
        # concept: mask-load
        visible = load(seen[:, None], t * block_n, block_n).T  # [1, N]; past the end it is False

        state = step(state, q_tile, k_tile, v_tile, visible)
    return finish(state, softmax_scale(q_tile))


def finish(state: State, scale: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return what a split hands on: its output [M, D] and log2 of its denominator [M].

    The denominator was measured against m; the logarithm takes m in again, so that splits with
    different maxima can be compared. A row that saw nothing gives 0 and -inf.
    """
    m, l, acc = state
    # concept: normalise
    o_tile = acc / np.where(l == 0, 1, l)[:, None]
    # concept: partial-lse
    with np.errstate(divide="ignore"):
        lse = np.log2(l) + np.where(l == 0, 0, m) * scale

    return o_tile, lse


def combine(partial: NDArray[Any], lse: NDArray[Any]) -> NDArray[Any]:
    """Return the output of all keys from that of each split.

    partial [R, N, D] and lse [R, N] of N splits -> [R, D].
    Each partial output is already divided by its own denominator 2^lse. The sum weighs it with its
    share of the joint one. A split that saw nothing has lse = -inf and no share; a row that saw
    nothing in any split gives 0.
    """
    # concept: combine
    lse = lse.astype(np.promote_types(lse.dtype, np.float32))
    # concept: combine, combine-max
    top = lse.max(axis=1, keepdims=True)
    top = np.where(np.isneginf(top), 0, top)
    # concept: combine, combine-logsumexp
    with np.errstate(divide="ignore"):
        joint = np.log2(np.exp2(lse - top).sum(axis=1, keepdims=True)) + top
    joint = np.where(np.isneginf(joint), 0, joint)
    # concept: combine, combine-weights
    weights = np.exp2(lse - joint)  # [R, N], each row sums to 1
    # concept: combine, combine-accumulate
    out: NDArray[Any] = (weights[:, :, None] * partial.astype(lse.dtype)).sum(axis=1)

    return out


def load(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return a tile [rows, D] from row `first` on; past the end it is zero, as a copy fills it.

    A zero key is no hidden key: its score is 0, and the boundary mask has to hide it.
    """
    tile = np.zeros((rows, x.shape[1]), x.dtype)
    tile[: len(x) - first] = x[first : first + rows]
    return tile


def store(tile: NDArray[Any], out: NDArray[Any], first: int) -> None:
    """Write the rows of a tile [M, ...] that exist to out [S, ...], rounded to its type."""
    out[first : first + len(tile)] = tile[: len(out) - first]


def softmax_scale(q_tile: NDArray[Any]) -> Any:
    """Return 1/sqrt(d) times log2(e), in the type that sums are held in."""
    wide = np.promote_types(q_tile.dtype, np.float32)
    # concept: softmax-scale
    return wide.type(q_tile.shape[1] ** -0.5 * LOG2E)


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
    scale = softmax_scale(q_tile)
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

    Tensors with three dimensions hold one query for each sample, and come with a mask.
    NotImplementedError for upstream's causal branch, which does not take the split into account.
    """
    if run.inputs[0].ndim == 4 and run.args[5]:
        raise NotImplementedError("the causal branch, which hides by the place in a split")
    stored = run.inputs[0].dtype
    if run.inputs[0].ndim == 3:
        q, k, v, mask = run.inputs
        splits = run.args[7]
        kind = stored if splits > 1 else None
        out = attention(q[:, None], k, v, mask, num_split=splits, partial_dtype=kind)
        return (out[:, 0],)
    return (attention(*run.inputs, partial_dtype=stored),)
