"""The lightning indexer block by block: one kernel scores, one hides, one selects by radix.

Implements tilelang `examples/deepseek_v32/fp8_lighting_indexer.py` (scores and `clean_logits_`) and
`topk_selector.py`. A tile of scores is keys by (queries x heads): all heads of some queries are one
operand. The selection never sorts: it counts digits, keeps what is above the threshold's bin and
looks closer at that bin alone. q and k can be of any type that converts to float32, fp8 included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def logits(
    q: NDArray[Any],
    k: NDArray[Any],
    k_scale: NDArray[Any],
    weights: NDArray[Any],
    ks: NDArray[Any],
    ke: NDArray[Any],
    *,
    block_n: int = 256,
) -> NDArray[Any]:
    """Return [M, N] of float32 (float64 for float64 q): summed scores, -inf out of range.

    q [M, H, D], k [N, D], k_scale [N], weights [M, H]; query m may see keys ks[m] to ke[m] (not
    included).
    """
    block_q = max(1, 128 // q.shape[1])
    out = np.full((len(q), len(k)), np.nan, np.promote_types(weights.dtype, np.float32))
    out = out.astype(np.promote_types(out.dtype, q.dtype) if q.dtype.kind == "f" else out.dtype)
    for bx in range(-(-len(q) // block_q)):  # concept: kernel-grid
        rows = slice(bx * block_q, (bx + 1) * block_q)
        _program(q[rows], (k, k_scale), weights[rows], (ks[rows], ke[rows]), out[rows], block_n)
    return cleaned(out, ks, ke)


def _program(
    q: NDArray[Any],
    keys: tuple[NDArray[Any], NDArray[Any]],
    weights: NDArray[Any],
    ends: tuple[NDArray[Any], NDArray[Any]],
    out: NDArray[Any],
    block_n: int,
) -> None:
    """Score the keys that any of some queries may see: q [Q, H, D], out [Q, N] is written."""
    k, k_scale = keys
    wide = out.dtype
    q_tile = q.reshape(-1, q.shape[2]).astype(wide)  # [Q * H, D]
    # concept: loop-range
    k_s_min = min(int(ends[0].min()), len(k))
    k_e_max = min(int(ends[1].max()), len(k))

    for start in range(k_s_min, k_e_max, block_n):  # concept: kv-loop
        tile = slice(start, min(start + block_n, len(k)))
        s = k[tile].astype(wide) @ q_tile.T  # concept: qk-gemm
        s = s.reshape(-1, *weights.shape)  # [N, Q, H]
        s = np.maximum(s, 0) * weights.astype(wide) * k_scale[tile, None, None].astype(wide)
        out[:, tile] = s.sum(axis=2).T


def cleaned(scores: NDArray[Any], ks: NDArray[Any], ke: NDArray[Any]) -> NDArray[Any]:
    """Return scores [M, N], hidden out of each query's range, where nobody need have written."""
    scores, idx = np.array(scores), np.arange(scores.shape[1])[None, :]
    # concept: boundary-mask, mask-value
    scores[(idx < ks[:, None]) | (idx >= ke[:, None])] = -np.inf

    return scores


def select(
    scores: NDArray[Any],
    ks: NDArray[Any],
    ke: NDArray[Any],
    topk: int,
    fill: int | None = None,
) -> NDArray[Any]:
    """Return [M, topk] int32: the best keys of each query, best first, of float32 scores [M, N].

    A query with fewer keys in range has `fill` in the slots left over, N when None. Upstream leaves
    the chosen in no order; here they are put in one, so that results can be compared. Bits decide:
    -0.0 comes after 0.0.
    """
    fill = scores.shape[1] if fill is None else fill
    chosen = np.full((len(scores), topk), fill, np.int32)
    for m in range(len(scores)):
        row = scores[m].astype(np.float32)
        best = radix_select(row, int(ks[m]), min(int(ke[m]), len(row)), topk)
        best = best[np.lexsort((best, -row[best]))]
        chosen[m, : len(best)] = best
    return chosen


def radix_select(row: NDArray[Any], start: int, end: int, topk: int) -> NDArray[Any]:
    """Return the places of the `topk` largest of row[start:end], in no order.

    Five looks, each at eight bits: first at the float16 that a value rounds to, then at the float32
    from its top bits down. Above the bin that holds the last winner all win; below, none.
    """
    left = np.arange(start, max(start, end))
    won = []
    # concept: top-k
    for digit in (_top_of_half, *(_byte_of_float(shift) for shift in (24, 16, 8, 0))):
        keys = digit(row[left])
        bin_id = _threshold(keys, topk)
        won.append(left[keys > bin_id])
        left = left[keys == bin_id]
        topk -= len(won[-1])

    return np.concatenate([*won, left[: max(topk, 0)]])


def _threshold(keys: NDArray[Any], wanted: int) -> int:
    """Return the bin in which the count from above reaches what is wanted; 0 if it never does."""
    counts = np.bincount(keys, minlength=257)[::-1].cumsum()[::-1]  # suffix sums
    reached = np.flatnonzero((counts[:256] >= wanted) & (counts[1:257] < wanted))
    return int(reached[0]) if len(reached) else 0


def _ordered(bits: NDArray[Any], width: int) -> NDArray[Any]:
    """Return float bits as integers of the same order: negative ones turn around."""
    sign = np.int64(1) << (width - 1)
    whole = (np.int64(1) << width) - 1
    bits = bits.astype(np.int64)
    ordered: NDArray[Any] = np.where(bits & sign, ~bits & whole, bits | sign)
    return ordered


def _top_of_half(x: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        bits = x.astype(np.float16).view(np.uint16)
    return _ordered(bits, 16) >> 8


def _byte_of_float(shift: int) -> Any:
    return lambda x: (_ordered(x.view(np.uint32), 32) >> shift) & 0xFF


def _ascend(run: Any) -> NDArray[Any]:
    """Return what tilelang-ascend's indexer does: one K/V head, no bounds, samples apart."""
    query, key, weights = run.inputs
    keys, topk = key.shape[1], run.args[6] if len(run.args) == 12 else run.args[3]
    chosen = []
    for q, k, w in zip(query, key[:, :, 0], weights[:, :, 0], strict=True):
        ends = np.full(len(q), keys)
        heads = q.reshape(*w.shape, -1)
        scores = logits(heads, k, np.ones(keys, np.float32), w, 0 * ends, ends)
        chosen.append(select(scores, 0 * ends, ends, topk))
    return np.stack(chosen)[:, None]


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns; `run.inputs` are its tensors."""
    if run.build == "indexer":
        return (_ascend(run),)
    if run.build == "tl_topk_impl":
        scores, buffer, starts, ends = run.inputs
        chosen = select(scores, starts, ends, buffer.shape[1], fill=-1)
        return (np.sort(chosen, axis=1),)
    if run.build == "clean_logits_":
        return (cleaned(*run.inputs),)
    q, k, k_scale, weights, ks, ke = run.inputs
    return (logits(q.reshape(*weights.shape, -1), k, k_scale, weights, ks, ke),)
