"""The gradients of attention: what a change of q, k and v does to a loss, given that of the output.

Implements what tilelang `examples/flash_attention/example_mha_bwd_bhsd.py` (and `_bshd.py`)
compute. With s = q k^T / sqrt(d), p = softmax(s) and o = p v, the chain rule gives

    dv = p^T do
    dp = do v^T
    ds = p (dp - sum of p dp over the row)      softmax's own gradient
    dq = ds k / sqrt(d),  dk = ds^T q / sqrt(d)

and the sum of p dp over a row is the sum of o do over the components: no row of p is needed for it.
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
    layout: str = "BHSD",
    dtype: Any = np.float64,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return dq, dk and dv of the loss sum(do * attention(q, k, v)), in `dtype`.

    q and do [B, H, Sq, D], k and v [B, H, Skv, D]; with layout "BSHD" the second and third
    dimensions change places, and those of the results, too. Causal: the last query sees the last
    key; ValueError when causal queries outnumber the keys.
    """
    if layout == "BSHD":
        swapped = (np.swapaxes(x, 1, 2) for x in (q, k, v, do))
        found = gradients(*swapped, causal=causal, dtype=dtype)
        return tuple(np.swapaxes(x, 1, 2) for x in found)  # type: ignore[return-value]
    q, k, v, do = (x.astype(dtype) for x in (q, k, v, do))
    scale = q.dtype.type(1) / np.sqrt(q.dtype.type(q.shape[3]))
    scores = q @ np.swapaxes(k, 2, 3) * scale  # [B, H, Sq, Skv]
    if causal:
        scores = np.where(visible(q.shape[2], k.shape[2]), scores, -np.inf)
    p = softmax(scores)
    dv = np.swapaxes(p, 2, 3) @ do
    dp = do @ np.swapaxes(v, 2, 3)
    ds = p * (dp - (p * dp).sum(axis=3, keepdims=True)) * scale
    return ds @ k, np.swapaxes(ds, 2, 3) @ q, dv


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension."""
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
