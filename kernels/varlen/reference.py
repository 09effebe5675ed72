"""The definition of attention over packed samples of different lengths, aligned at the right.

Implements what tilelang `examples/flash_attention/example_mha_fwd_varlen.py` and
`example_gqa_fwd_varlen.py` compute. A query that sees no key, as the first of a sample with more
queries than keys, gives 0.
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
    *,
    causal: bool = False,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return attention within each sample, in `dtype`.

    q [Tq, H, D], k and v [Tk, G, D] -> [Tq, H, D]; sample b owns the rows from cu_seqlens[b] up to
    cu_seqlens[b + 1] (0-based, exclusive). Query head h reads KV head h // (H // G).
    """
    out = np.zeros(q.shape, dtype)
    groups = q.shape[1] // k.shape[1]
    for b, h in np.ndindex(len(cu_seqlens_q) - 1, q.shape[1]):
        rows = slice(cu_seqlens_q[b], cu_seqlens_q[b + 1])
        keys = slice(cu_seqlens_k[b], cu_seqlens_k[b + 1])
        one = (q[rows, h], k[keys, h // groups], v[keys, h // groups])
        q_head, k_head, v_head = (x.astype(dtype) for x in one)
        out[rows, h] = one_sample(q_head, k_head, v_head, causal)
    return out


def one_sample(q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], causal: bool) -> NDArray[Any]:
    """Return attention of one head of one sample: q [Sq, D], k and v [Sk, D] -> [Sq, D]."""
    scores = q @ k.T / np.sqrt(q.dtype.type(q.shape[1]))  # [Sq, Sk]
    if causal:  # the last query sees the last key
        offset = len(k) - len(q)
        seen = np.arange(len(q))[:, None] + offset >= np.arange(len(k))[None, :]
        scores = np.where(seen, scores, -np.inf)
    out: NDArray[Any] = softmax(scores) @ v
    return out


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension; 0 where every score is -inf."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    raised: NDArray[Any] = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = raised.sum(axis=-1, keepdims=True)
    weights: NDArray[Any] = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    return (attention(*run.inputs[:5], causal=run.args[-1]),)
