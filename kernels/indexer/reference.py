"""The definition of the lightning indexer: weighted sums of max(score, 0), and their top k.

Implements what tilelang `examples/deepseek_v32/fp8_lighting_indexer.py` and `topk_selector.py`
compute, and tilelang-ascend `examples/lightning_indexer/example_lightning_indexer.py`; the report
is "DeepSeek-V3.2-Exp" (2025). `kernels/sparse_mla` is the attention that uses it.
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
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return [M, N]: sum over heads of max(q . k, 0) w, times the key's scale; -inf out of range.

    q [M, H, D], k [N, D], k_scale [N], weights [M, H]; query m may see keys ks[m] to ke[m] (not
    included). The scale belongs to keys that are stored in fp8.
    """
    q, k, k_scale, weights = (x.astype(dtype) for x in (q, k, k_scale, weights))
    scores = np.einsum("mhd,nd->mhn", q, k)
    summed = np.einsum("mhn,mh->mn", np.maximum(scores, 0), weights) * k_scale
    return cleaned(summed, ks, ke)


def cleaned(scores: NDArray[Any], ks: NDArray[Any], ke: NDArray[Any]) -> NDArray[Any]:
    """Return scores [M, N] with -inf where a key is out of its query's range."""
    keys = np.arange(scores.shape[1])
    inside = (keys >= ks[:, None]) & (keys < ke[:, None])
    found: NDArray[Any] = np.where(inside, scores, -np.inf)
    return found


def select(
    scores: NDArray[Any],
    ks: NDArray[Any],
    ke: NDArray[Any],
    topk: int,
    fill: int | None = None,
) -> NDArray[Any]:
    """Return [M, topk] int32: the best keys of each query, best first, the first of equals first.

    scores [M, N]. A query with fewer keys in range has `fill` in the slots left over; None is N,
    past the last key, which `sparse_mla` hides. (Upstream leaves what was there: 0.)
    """
    fill = scores.shape[1] if fill is None else fill
    chosen = np.full((len(scores), topk), fill, np.int32)
    for m in range(len(scores)):
        row = scores[m, ks[m] : ke[m]]
        best = np.argsort(-row, kind="stable")[:topk]
        chosen[m, : len(best)] = best + ks[m]
    return chosen


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
