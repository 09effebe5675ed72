"""The definition of attention with a sink: one more logit in the denominator, and no value for it.

Implements what the example `mha_sink_fwd_bhsd` of tilelang-ascend v0.1.2.000 computes. How keys are
hidden is no part of it.
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
    sinks: NDArray[Any],
    *,
    window_size: int | None = None,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return causal attention with a sink, in a window if one is given.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D], computed in `dtype`. With a window, a
    query sees its last `window_size` keys, itself included.
    `sinks` [H] holds one logit per head. It joins the denominator as if it were the score of one
    more key, but has no value: weight can drain away there. It is a logit already: 1/sqrt(d) does
    not apply.
    """
    q, k, v, sinks = (x.astype(dtype) for x in (q, k, v, sinks))
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(dtype(q.shape[3]))  # [B, H, Sq, Skv]
    scores = np.where(visible(q.shape[2], k.shape[2], window_size), scores, -np.inf)
    out: NDArray[Any] = softmax(scores, sinks[None, :, None, None]) @ v
    return out


def visible(queries: int, keys: int, window_size: int | None) -> NDArray[Any]:
    """Return [queries, keys]: where a query sees a key. The last query stands at the last key."""
    q_idx = np.arange(queries)[:, None] + keys - queries
    k_idx = np.arange(keys)[None, :]
    seen: NDArray[Any] = q_idx >= k_idx
    return seen if window_size is None else seen & (q_idx < k_idx + window_size)


def softmax(scores: NDArray[Any], sink: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / (sum of exp(s) + exp(sink)) over the last dimension."""
    top = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    raised: NDArray[Any] = np.exp(scores - top)
    weights: NDArray[Any] = raised / (raised.sum(axis=-1, keepdims=True) + np.exp(sink - top))
    return weights
