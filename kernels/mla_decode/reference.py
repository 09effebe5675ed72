"""The definition of a step of decoding with MLA: one query, one latent cache for all heads.

Implements what tilelang `examples/deepseek_mla/example_mla_decode.py` computes; the report is
"DeepSeek-V2" (2024), section 2.1, with the up-projections absorbed into q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    q_pe: NDArray[Any],
    kv: NDArray[Any],
    k_pe: NDArray[Any],
    *,
    scale: float | None = None,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return the output [B, H, D], computed in `dtype`.

    q [B, H, D], q_pe [B, H, P], kv [B, S, 1, D], k_pe [B, S, 1, P]: the latent part and the rotary
    part. A score is the sum of both products; the value is the latent. `scale` is 1/sqrt(D + P)
    when None.
    """
    scale = (q.shape[2] + q_pe.shape[2]) ** -0.5 if scale is None else scale
    q, q_pe, kv, k_pe = (x.astype(dtype) for x in (q, q_pe, kv[:, :, 0], k_pe[:, :, 0]))
    scores = q @ np.swapaxes(kv, 1, 2) + q_pe @ np.swapaxes(k_pe, 1, 2)  # [B, H, S]
    out: NDArray[Any] = softmax(scores * dtype(scale)) @ kv
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
    return (attention(*run.inputs, scale=run.args[9]),)
