"""Attention over a paged KV cache block by block: each load asks the block table first.

Implements tilelang-ascend `examples/flash_attention/paged_flash_attn_bhsd.py` (its data path is in
`kernels/ascend`) and, of tilelang's `examples/blocksparse_attention`,
`example_tilelang_sparse_gqa_decode_paged.py`. The loop is over logical blocks, all of a sample or
chosen ones; a block is a part of a page, and the table says which page that is. Splits and their
combination are those of `kernels/decode`. Tiles are in the type of the inputs, sums and what splits
hand on in float32 (in float64 for float64 inputs).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LOG2E = float(np.log2(np.e))
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


def attention(
    q: NDArray[Any],
    k_pages: NDArray[Any],
    v_pages: NDArray[Any],
    block_table: NDArray[Any],  # concept: block-table-param
    cache_seqlens: NDArray[Any],
    *,
    block_indices: NDArray[Any] | None = None,  # concept: block-indices-param
    num_split: int = 1,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return attention of each query to its sample's keys, in the type of q.

    q [B, H, Sq, D], k_pages and v_pages [P, page, G, D] -> [B, H, Sq, D]. Keys of sample b lie in
    pages block_table[b, 0], block_table[b, 1], ... and are the first cache_seqlens[b] in there.
    block_indices [B, G, n], when given, names the blocks of `block_n` keys that are attended to, in
    any order; -1 names none. Query head h reads KV head h // (H // G). No key seen: 0. ValueError
    when blocks do not divide pages.
    """
    if k_pages.shape[1] % block_n:
        raise ValueError(f"pages of {k_pages.shape[1]} keys do not consist of blocks of {block_n}")
    batch, heads, seq_q, dim = q.shape
    groups = heads // k_pages.shape[2]
    out = np.full((batch, heads, seq_q, v_pages.shape[3]), np.nan, q.dtype)
    for b, g in np.ndindex(batch, k_pages.shape[2]):
        mine = slice(g * groups, (g + 1) * groups)  # concept: kv-head
        length = int(cache_seqlens[b])
        chosen = np.arange(-(-length // block_n))
        if block_indices is not None:
            chosen = block_indices[b, g]
        cache = (k_pages[:, :, g], v_pages[:, :, g], block_table[b])
        rows = q[b, mine].reshape(-1, dim)
        partial, lse = _splits(rows, cache, chosen, length, num_split, block_m, block_n)
        out[b, mine] = combine(partial, lse).reshape(groups, seq_q, -1)
    return out


def _splits(
    rows: NDArray[Any],
    cache: tuple[NDArray[Any], ...],
    chosen: NDArray[Any],
    length: int,
    num_split: int,
    block_m: int,
    block_n: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return partial [R, N, D] and lse [R, N] of N splits: what lies in global memory between."""
    wide = np.promote_types(rows.dtype, np.float32)
    partial = np.full((len(rows), num_split, cache[1].shape[2]), np.nan, wide)
    lse = np.full((len(rows), num_split), np.nan, wide)
    for bx, split in np.ndindex(-(-len(rows) // block_m), num_split):  # concept: kernel-grid
        # concept: split-range
        share, more = divmod(len(chosen), num_split)  # the first `more` splits get one block more
        start = share * split + min(split, more)
        blocks = chosen[start : start + share + (split < more)]

        first = bx * block_m
        q_tile = load(rows, first, block_m)
        o_tile, lse_tile = _program(q_tile, cache, blocks, length, block_n)
        # concept: partial-output, epilogue-store
        store(o_tile, partial[:, split], first)
        # concept: partial-lse
        store(lse_tile, lse[:, split], first)

    return partial, lse


def _program(
    q_tile: NDArray[Any],
    cache: tuple[NDArray[Any], ...],
    blocks: NDArray[Any],
    length: int,
    block_n: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return output [M, D] and lse [M] of a tile of queries over these logical blocks of keys."""
    k_pages, v_pages, table = cache  # [P, page, D] twice, [n]
    state = empty_state(len(q_tile), v_pages.shape[2], q_tile.dtype)
    for block in blocks:  # concept: kv-loop, block-index
        if block < 0:
            continue
        # concept: block-table
        page, tile = divmod(int(block), k_pages.shape[1] // block_n)
        physical = table[page]
        # concept: paged-load, gather
        inside = slice(tile * block_n, (tile + 1) * block_n)
        k_tile, v_tile = k_pages[physical, inside], v_pages[physical, inside]  # [N, D]
        # concept: boundary-mask
        visible = (block * block_n + np.arange(block_n) < length)[None, :]

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

    Ascend's kernel attends to all keys, NVIDIA's to chosen blocks, with one query for each sample.
    """
    if len(run.inputs) == 4:
        q, k, v, table = run.inputs
        return (attention(q, k, v, table, np.full(len(q), q.shape[2])),)
    q, k, v, indices, lengths, table, lse = run.inputs[:7]
    options = {"block_indices": indices, "num_split": lse.shape[2], "block_n": run.args[5]}
    return (attention(q[:, :, None], k, v, table, lengths, **options)[:, :, 0],)
