"""The definition of vertical-slash attention: blocks and single columns of keys.

Implements what tilelang `examples/minference/example_vertical_slash_sparse_attn.py` computes; the
paper is "MInference 1.0" (Jiang et al., 2024). A key that is listed twice counts twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    block_count: NDArray[Any],
    block_offset: NDArray[Any],
    column_count: NDArray[Any],
    column_index: NDArray[Any],
    *,
    block: int = 64,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return attention of each query to the keys of its block's two lists; 0 when it sees none.

    q, k, v [B, H, S, D] -> [B, H, S, D], computed in `dtype`. Counts are [B, H, n], lists [B, H, n,
    most], n = ceil(S / block): entry i is for queries i * block and on. Offsets are the first keys
    of blocks, which are causal; columns are seen by every query of the block, past or not.
    """
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    out = np.zeros(q.shape, dtype)
    for b, h, t in np.ndindex(q.shape[:3]):
        at = (b, h, t // block)
        starts = block_offset[at][: block_count[at]].astype(np.int64)
        slash = (starts[:, None] + np.arange(block)).ravel()
        keys = np.concatenate([slash[slash <= t], column_index[at][: column_count[at]]])
        if len(keys):
            scores = k[b, h, keys] @ q[b, h, t] / np.sqrt(dtype(q.shape[3]))
            out[b, h, t] = softmax(scores) @ v[b, h, keys]
    return out


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension; 0 where all scores are -inf."""
    top = scores.max(axis=-1, keepdims=True)
    raised: NDArray[Any] = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = raised.sum(axis=-1, keepdims=True)
    weights: NDArray[Any] = raised / np.where(total > 0, total, 1)
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    return (attention(*run.inputs),)
