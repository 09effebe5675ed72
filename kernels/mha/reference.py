"""The definition of attention: softmax(q k^T / sqrt(d)) v, one head at a time, nothing blocked.

Implements what these compute: tilelang `examples/flash_attention/example_mha_fwd_bhsd.py` and
`example_mha_fwd_bshd.py`; the paper is "FlashAttention" (Dao et al., 2022), equation of section 2.
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
    layout: str = "BHSD",
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v, computed in `dtype`.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D]; with layout "BSHD" the second and
    third dimensions change places. Causal: the last query sees the last key, so query i stands at
    position i + Skv - Sq. ValueError when causal queries outnumber the keys.
    """
    if layout == "BSHD":
        q, k, v = (np.swapaxes(x, 1, 2) for x in (q, k, v))
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(dtype(q.shape[3]))  # [B, H, Sq, Skv]
    if causal:
        scores = np.where(visible(q.shape[2], k.shape[2]), scores, -np.inf)
    out: NDArray[Any] = softmax(scores) @ v
    return np.swapaxes(out, 1, 2) if layout == "BSHD" else out


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension.

    The maximum goes out first: it changes nothing, as numerator and denominator shrink by the same
    factor, and no exponential overflows.
    """
    raised: NDArray[Any] = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: NDArray[Any] = raised / raised.sum(axis=-1, keepdims=True)
    return weights


def visible(queries: int, keys: int) -> NDArray[Any]:
    """Return [queries, keys]: where a query sees a key, aligned at the end."""
    past_len = keys - queries
    if past_len < 0:
        raise ValueError(f"{queries} causal queries need as many keys, and there are {keys}")
    seen: NDArray[Any] = np.arange(queries)[:, None] + past_len >= np.arange(keys)[None, :]
    return seen


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    bhsd = len(run.args) == 6
    layout = "BHSD" if bhsd else "BSHD"
    return (attention(*run.inputs, causal=run.args[5 if bhsd else 4], layout=layout),)
