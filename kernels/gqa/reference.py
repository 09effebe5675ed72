"""The definition of grouped-query attention: query head h reads KV head h // groups.

Implements what tilelang `examples/flash_attention/example_gqa_fwd_bshd.py` computes; the paper is
"GQA" (Ainslie et al., 2023). One KV head for all is multi-query attention, one for each is MHA.
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
    *,
    causal: bool = False,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v for each query head with its KV head, in `dtype`.

    q [B, S, H, D], k and v [B, S, G, D] -> [B, S, H, D], where H is a multiple of G: ValueError
    when it is not.
    """
    heads, kv_heads = q.shape[2], k.shape[2]
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} KV heads evenly")
    out = np.empty((*q.shape[:3], v.shape[3]), dtype)
    for b, h in np.ndindex(q.shape[0], heads):
        kv_head = h // (heads // kv_heads)
        one = (q[b, :, h], k[b, :, kv_head], v[b, :, kv_head])
        q_head, k_head, v_head = (x.astype(dtype) for x in one)
        out[b, :, h] = one_head(q_head, k_head, v_head, causal)
    return out


def one_head(q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], causal: bool) -> NDArray[Any]:
    """Return attention of one head: q and k [S, D], v [S, D] -> [S, D]."""
    scores = q @ k.T / np.sqrt(q.dtype.type(q.shape[1]))  # [S, S]
    if causal:
        scores = np.where(np.tri(len(q), len(k)) > 0, scores, -np.inf)
    out: NDArray[Any] = softmax(scores) @ v
    return out


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension."""
    raised: NDArray[Any] = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: NDArray[Any] = raised / raised.sum(axis=-1, keepdims=True)
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    return (attention(*run.inputs, causal=run.args[4]),)
