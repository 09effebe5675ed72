"""The definition of attention with sink and window over packed samples with grouped heads.

Implements what tilelang `examples/attention_sink/example_gqa_sink_fwd_varlen.py` computes. A query
that sees no key gives 0: all its weight goes to the sink, which has no value.
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
    cu_seqlens_q: NDArray[Any],
    cu_seqlens_k: NDArray[Any],
    sinks: NDArray[Any],
    *,
    causal: bool = True,
    window_size: int | None = None,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return attention within each sample, in `dtype`.

    q [Tq, H, D], k and v [Tk, G, D] -> [Tq, H, D]; sample b owns the rows from cu_seqlens[b] up to
    cu_seqlens[b + 1] (0-based, exclusive). Query head h reads KV head h // (H // G), and sinks [H]
    holds its logit, which joins the denominator and has no value. With a window, keys that are
    `window_size` or more behind are hidden; without causality those ahead are not.
    """
    out = np.zeros(q.shape, dtype)
    groups = q.shape[1] // k.shape[1]
    for b, h in np.ndindex(len(cu_seqlens_q) - 1, q.shape[1]):
        rows = slice(cu_seqlens_q[b], cu_seqlens_q[b + 1])
        keys = slice(cu_seqlens_k[b], cu_seqlens_k[b + 1])
        one = (q[rows, h], k[keys, h // groups], v[keys, h // groups])
        q_head, k_head, v_head = (x.astype(dtype) for x in one)
        seen = visible(len(q_head), len(k_head), causal, window_size)
        out[rows, h] = one_sample(q_head, k_head, v_head, seen, dtype(sinks[h]))
    return out


def one_sample(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], seen: NDArray[Any], sink: Any
) -> NDArray[Any]:
    """Return attention of one head of one sample: q [Sq, D], k and v [Sk, D] -> [Sq, D]."""
    scores = q @ k.T / np.sqrt(q.dtype.type(q.shape[1]))  # [Sq, Sk]
    out: NDArray[Any] = softmax(np.where(seen, scores, -np.inf), sink) @ v
    return out


def visible(queries: int, keys: int, causal: bool, window_size: int | None) -> NDArray[Any]:
    """Return [queries, keys]: where a query sees a key. The last query stands at the last key."""
    q_idx = np.arange(queries)[:, None] + keys - queries
    k_idx = np.arange(keys)[None, :]
    seen = np.ones((queries, keys), bool)
    if causal:
        seen &= q_idx >= k_idx
    if window_size is not None:
        seen &= q_idx < k_idx + window_size
    return seen


def softmax(scores: NDArray[Any], sink: Any) -> NDArray[Any]:
    """Return exp(s) / (sum of exp(s) + exp(sink)) over the last dimension."""
    top = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    raised: NDArray[Any] = np.exp(scores - top)
    weights: NDArray[Any] = raised / (raised.sum(axis=-1, keepdims=True) + np.exp(sink - top))
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    q, k, v, cu_q, cu_k, _, sinks = run.inputs
    causal, window_size = run.args[6:8]
    return (attention(q, k, v, cu_q, cu_k, sinks, causal=causal, window_size=window_size),)
