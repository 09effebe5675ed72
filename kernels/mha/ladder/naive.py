"""Step 1, naive: all scores S and all probabilities P are written to global memory and read back.

One head: q [Sq, D], k and v [Skv, D] -> [Sq, D]. Three passes over keys: maximum, sum, product.
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
    block_m: int = 64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v."""
    out = np.full((len(q), v.shape[1]), np.nan, q.dtype)
    s_global = np.full((len(q), len(k)), np.nan, wide(q))  # as large as queries times keys
    p_global = np.full((len(q), len(k)), np.nan, wide(q))
    for first in range(0, len(q), block_m):  # concept: kernel-grid
        rows = slice(first, first + block_m)
        # concept: qk-gemm
        s_global[rows] = scores(q[rows], k)  # [M, Skv]
        # concept: row-max
        m = s_global[rows].max(axis=1)
        # concept: probability
        p_global[rows] = np.exp(s_global[rows] - m[:, None])
        # concept: row-sum
        l = p_global[rows].sum(axis=1)
        # concept: pv-gemm
        acc = product(p_global[rows], v)
        out[rows] = acc / l[:, None]  # concept: normalise, epilogue-store
    return out


def scores(q: NDArray[Any], k: NDArray[Any]) -> NDArray[Any]:
    """Return q k^T / sqrt(d), summed in the wide type."""
    scale = q.shape[1] ** -0.5  # concept: softmax-scale
    result: NDArray[Any] = product(q, k.T) * wide(q)(scale)
    return result


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return a b: a comes in the type of b, the sum in the wide one, as matrix units work."""
    result: NDArray[Any] = a.astype(b.dtype).astype(wide(b)) @ b.astype(wide(b))
    return result


def wide(x: NDArray[Any]) -> Any:
    """Return the type that sums are held in: float32, or float64 for float64."""
    return np.promote_types(x.dtype, np.float32).type
