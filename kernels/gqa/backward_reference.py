"""The gradients of grouped-query attention: those of a KV head are sums over its query heads.

Implements what tilelang `examples/flash_attention/example_gqa_bwd.py` computes. One head alone is
the chain rule of o = softmax(q k^T / sqrt(d)) v, step by step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def gradients(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    do: NDArray[Any],
    *,
    causal: bool = False,
    dtype: Any = np.float64,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return dq, dk and dv of the loss sum(do * attention(q, k, v)), in `dtype`.

    q [B, Sq, H, D], do [B, Sq, H, Dv], k [B, Skv, G, D], v [B, Skv, G, Dv], where H is a multiple
    of G: ValueError when it is not. Causal: the last query sees the last key.
    """
    heads, kv_heads = q.shape[2], k.shape[2]
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} KV heads evenly")
    dq, dk, dv = (np.zeros(x.shape, dtype) for x in (q, k, v))
    for b, h in np.ndindex(q.shape[0], heads):
        kv_head = h // (heads // kv_heads)
        one = (q[b, :, h], k[b, :, kv_head], v[b, :, kv_head], do[b, :, h])
        q_head, k_head, v_head, do_head = (x.astype(dtype) for x in one)
        q_part, k_part, v_part = one_head(q_head, k_head, v_head, do_head, causal)
        dq[b, :, h] = q_part
        dk[b, :, kv_head] += k_part
        dv[b, :, kv_head] += v_part
    return dq, dk, dv


def one_head(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], do: NDArray[Any], causal: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return dq [Sq, D], dk [Skv, D] and dv [Skv, Dv] of one head."""
    scale = q.dtype.type(1) / np.sqrt(q.dtype.type(q.shape[1]))
    scores = q @ k.T * scale  # [Sq, Skv]
    if causal:
        scores = np.where(np.tri(len(q), len(k), len(k) - len(q)) > 0, scores, -np.inf)
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    p = raised / raised.sum(axis=1, keepdims=True)
    dp = do @ v.T
    ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) * scale
    return ds @ k, ds.T @ q, p.T @ do
