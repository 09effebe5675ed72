"""The definition of decoding attention: few queries, many keys, a mask for each key.

Implements what tilelang `examples/flash_decoding/example_mha_inference.py` (not causal) and
`example_gqa_decode.py` compute. How the keys are split is no part of it: nothing here knows.
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
    mask: NDArray[Any] | None = None,
    *,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v over the keys that the mask leaves, in `dtype`.

    q [B, Sq, H, D], k and v [B, Skv, G, D] -> [B, Sq, H, D]; query head h reads KV head
    h // (H // G).
    mask [B, Skv, G]: 0 hides a key. A query that sees no key gives 0.
    """
    out = np.empty((*q.shape[:3], v.shape[3]), dtype)
    for b, h in np.ndindex(q.shape[0], q.shape[2]):
        g = h // (q.shape[2] // k.shape[2])
        scores = q[b, :, h].astype(dtype) @ k[b, :, g].astype(dtype).T  # [Sq, Skv]
        scores = scores / np.sqrt(dtype(q.shape[3]))
        if mask is not None:
            scores = np.where(mask[b, :, g] != 0, scores, -np.inf)
        out[b, :, h] = softmax(scores) @ v[b, :, g].astype(dtype)
    return out


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension; 0 where every score is -inf."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    raised: NDArray[Any] = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = raised.sum(axis=-1, keepdims=True)
    weights: NDArray[Any] = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors.

    Tensors with three dimensions hold one query for each sample, and come with a mask.
    NotImplementedError for upstream's causal branch, which does not take the split into account.
    """
    if run.inputs[0].ndim == 4 and run.args[5]:
        raise NotImplementedError("the causal branch, which hides by the place in a split")
    if run.inputs[0].ndim == 3:
        q, k, v, mask = run.inputs
        return (attention(q[:, None], k, v, mask)[:, 0],)
    return (attention(*run.inputs),)
