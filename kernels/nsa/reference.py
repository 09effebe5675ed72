"""The definition of native sparse attention, selected branch: attention to a list of key blocks.

Implements what tilelang `examples/deepseek_nsa/example_tilelang_nsa_fwd.py` computes; the paper is
"Native Sparse Attention" (Yuan et al., 2025), section 3.3.2. A block listed twice counts twice.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    block_indices: NDArray[Any],
    *,
    block_size: int = 64,
    causal: bool = True,
    scale: float | None = None,
    first: int = 0,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return attention of each query to its blocks; 0 when it has none.

    q [B, S, H, D], k and v [B, S, G, D], block_indices [B, S, G, n] -> [B, S, H, D], computed in
    `dtype`. Query t stands at position first + t. The H / G query heads of a K/V head share its
    list. A block that starts after its query, or before 0, is none: that is how lists are filled.
    """
    scale = q.shape[3] ** -0.5 if scale is None else scale
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    groups = q.shape[2] // k.shape[2]
    out = np.zeros(q.shape, dtype)
    for b, t, h in np.ndindex(q.shape[:3]):
        keys = listed(block_indices[b, t, h // groups], block_size, first + t, k.shape[1], causal)
        if len(keys):
            scores = k[b, keys, h // groups] @ q[b, t, h] * dtype(scale)
            out[b, t, h] = softmax(scores) @ v[b, keys, h // groups]
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
    for start, end in pairwise(cu_seqlens):
        sample = (x[None, start:end] for x in (q, k, v, block_indices))
        outs.append(attention(*sample, block_size=block_size)[0])
    return np.concatenate(outs)


def listed(
    indices: NDArray[Any], block_size: int, query: int, length: int, causal: bool
) -> NDArray[Any]:
    """Return the keys that one query reads, in the order of its list."""
    starts = indices.astype(np.int64) * block_size
    starts = starts[(starts >= 0) & (starts <= query)]
    keys: NDArray[Any] = (starts[:, None] + np.arange(block_size)).ravel()
    return keys[(keys <= query) if causal else (keys < length)]


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension; 0 where all scores are -inf."""
    top = scores.max(axis=-1, keepdims=True)
    raised: NDArray[Any] = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = raised.sum(axis=-1, keepdims=True)
    weights: NDArray[Any] = raised / np.where(total > 0, total, 1)
    return weights


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
