"""The definition of attention, as the Ascend kernel computes it: full, one length, no mask.

Implements what tilelang-ascend `examples/flash_attention/flash_attn_bhsd.py` computes. How the data
travels is no part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], *, dtype: Any = np.float64
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v, computed in `dtype`: all [B, H, S, D]."""
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(dtype(q.shape[3]))  # [B, H, S, S]
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out: NDArray[Any] = raised / raised.sum(axis=-1, keepdims=True) @ v
    return out


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.inputs` are its tensors."""
    return (attention(*run.inputs),)
