"""The definition of sparse MLA: attention to listed tokens, whose first numbers are the values too.

Implements what tilelang `examples/deepseek_v32/sparse_mla_fwd.py` computes; the report is
"DeepSeek-V3.2-Exp" (2025). A token that is listed twice counts twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    kv: NDArray[Any],
    indices: NDArray[Any],
    *,
    dim: int,
    scale: float | None = None,
    first: int = 0,
    dtype: Any = np.float64,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the output [B, S, H, dim] and the log2-sum-exp of scaled scores [B, S, H].

    q [B, S, H, D], kv [B, N, G, D], indices [B, S, G, topk]; keys are D numbers, of which the first
    `dim` are the value and the rest the rotary part. Query s is at position first + s and sees
    listed tokens from 0 to it; one that sees none has output 0 and lse -inf. `scale` is 1/sqrt(D)
    when None.
    """
    scale = q.shape[3] ** -0.5 if scale is None else scale
    q, kv = q.astype(dtype), kv.astype(dtype)
    groups = q.shape[2] // kv.shape[2]
    out, lse = np.zeros((*q.shape[:3], dim), dtype), np.full(q.shape[:3], -np.inf, dtype)
    for b, s, h in np.ndindex(q.shape[:3]):
        listed = indices[b, s, h // groups]
        keys = kv[b, listed[(listed >= 0) & (listed <= first + s)], h // groups]
        if len(keys):
            scores = keys @ q[b, s, h] * dtype(scale)
            weights = np.exp(scores - scores.max())
            out[b, s, h] = weights @ keys[:, :dim] / weights.sum()
            lse[b, s, h] = (np.log(weights.sum()) + scores.max()) / np.log(2)
    return out, lse


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.named` its sizes, `run.inputs` its tensors."""
    named, (q, kv, indices, *rest) = run.named, run.inputs
    if run.build == "sparse_attention_fwd":  # Ascend: one file hides the future, it takes a dtype
        first = 0 if "dtype" in named else kv.shape[1]
        return attention(q, kv, indices, dim=run.args[1], first=first)[:1]
    first = int(rest[0][0]) if rest else 0
    scale = named.get("sm_scale")
    out, lse = attention(q, kv, indices, dim=named["dim"], scale=scale, first=first)
    return (out,) if run.only == (0,) else (out, lse)
