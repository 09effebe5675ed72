"""The definition of sliding-window attention.

Implements what tilelang `examples/attention_sink/example_mha_sink_fwd_bhsd.py` computes with a
window and without sinks; the paper is "Longformer" (Beltagy et al., 2020), section 3.1, one-sided.
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
    window_size: int | None,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return causal attention in which a query sees the last `window_size` keys, itself included.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D], computed in `dtype`. None: no window.
    """
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(dtype(q.shape[3]))  # [B, H, Sq, Skv]
    scores = np.where(visible(q.shape[2], k.shape[2], window_size), scores, -np.inf)
    out: NDArray[Any] = softmax(scores) @ v
    return out


def visible(queries: int, keys: int, window_size: int | None) -> NDArray[Any]:
    """Return [queries, keys]: where a query sees a key. The last query stands at the last key."""
    q_idx = np.arange(queries)[:, None] + keys - queries
    k_idx = np.arange(keys)[None, :]
    seen: NDArray[Any] = q_idx >= k_idx
    return seen if window_size is None else seen & (q_idx < k_idx + window_size)


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension."""
    raised: NDArray[Any] = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: NDArray[Any] = raised / raised.sum(axis=-1, keepdims=True)
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns without sinks: for sinks that are all -inf.

    NotImplementedError for others: see `kernels/sink`.
    """
    q, k, v, sinks = run.inputs
    if not np.isneginf(sinks).all():
        raise NotImplementedError("this variant has no sinks")
    return (attention(q, k, v, window_size=run.args[5] if len(run.args) > 5 else None),)
