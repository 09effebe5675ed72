"""The definition of attention with a sink: one more logit in the denominator, and no value for it.

Implements what tilelang `examples/attention_sink/example_mha_sink_fwd_bhsd.py` and the forward of
`example_gqa_sink_bwd_bhsd.py` compute; the idea is in "Efficient Streaming Language Models with
Attention Sinks" (Xiao et al., 2023), the learned logit in gpt-oss.
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

    q [B, H, Sq, D], k and v [B, G, Skv, D] -> [B, H, Sq, D], computed in `dtype`. Query head h
    reads KV head h // (H // G). With a window, a query sees its last `window_size` keys, itself
    included.
    `sinks` [H] holds one logit per head. It joins the denominator as if it were the score of one
    more key, but has no value: weight can drain away there. It is a logit already: 1/sqrt(d) does
    not apply.
    """
    groups = q.shape[1] // k.shape[1]
    k, v = (np.repeat(x, groups, axis=1) for x in (k, v))
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


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors.

    NotImplementedError for the gradients.
    """
    if len(run.inputs) != 4:
        raise NotImplementedError("the forward pass alone")
    return (attention(*run.inputs, window_size=run.args[5]),)
