"""Step 2, blocked: one pass over the keys; a block's scores are used up before the next are made.

One head: q [Sq, D], k and v [Skv, D] -> [Sq, D]. When a block brings a new maximum, what was summed
against the old one is multiplied by c = exp(old - new), which is at most 1.
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
    block_n: int = 64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v."""
    out = np.full((len(q), v.shape[1]), np.nan, q.dtype)
    for first in range(0, len(q), block_m):  # concept: kernel-grid
        rows = slice(first, first + block_m)
        # concept: state-init
        m = np.full(len(q[rows]), -np.inf, wide(q))
        l = np.zeros(len(q[rows]), wide(q))
        acc = np.zeros((len(q[rows]), v.shape[1]), wide(q))
        for start in range(0, len(k), block_n):  # concept: kv-loop
            k_tile = k[start : start + block_n]
            v_tile = v[start : start + block_n]
            # concept: qk-gemm
            s = scores(q[rows], k_tile)  # [M, N]
            # concept: row-max
            m_old, m = m, np.maximum(m, s.max(axis=1))
            # concept: rescale-factor
            c = np.exp(m_old - m)
            # concept: probability
            p = np.exp(s - m[:, None])
            # concept: row-sum, denominator
            l = c * l + p.sum(axis=1)
            # concept: acc-rescale, pv-gemm
            acc = c[:, None] * acc + product(p, v_tile)
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
