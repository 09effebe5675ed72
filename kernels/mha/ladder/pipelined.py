"""Step 3, pipelined: keys and values are brought while earlier blocks are worked on.

One head: q [Sq, D], k and v [Skv, D] -> [Sq, D]. A block is brought `stages - 1` steps before its
use. Until then its buffer is taken, so there are use - bring + 1 = `stages` copies of it. The first
steps only bring (prologue), the last only compute (epilogue); the steps between (body) do both, and
on a device at the same time. Scores need no second copy: nothing is brought into them, and the
probabilities are written over them.
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
    stages: int = 2,
    copies: int | None = None,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v. Fewer `copies` than stages: blocks are lost (a test)."""
    blocks = -(-len(k) // block_n)
    copies = stages if copies is None else copies
    k_tiles: dict[int, NDArray[Any]] = {}
    v_tiles: dict[int, NDArray[Any]] = {}
    out = np.full((len(q), v.shape[1]), np.nan, q.dtype)
    for first in range(0, len(q), block_m):  # concept: kernel-grid
        rows = slice(first, first + block_m)
        # concept: state-init
        m = np.full(len(q[rows]), -np.inf, wide(q))
        l = np.zeros(len(q[rows]), wide(q))
        acc = np.zeros((len(q[rows]), v.shape[1]), wide(q))
        for now in range(blocks + stages - 1):  # concept: kv-loop
            if now < blocks:  # prologue and body: bring a block
                start = now * block_n
                k_tiles[now % copies] = k[start : start + block_n]
                v_tiles[now % copies] = v[start : start + block_n]
            t = now - (stages - 1)
            if t < 0:  # prologue: nothing to compute yet
                continue
            # concept: qk-gemm
            s = scores(q[rows], k_tiles[t % copies])  # [M, N]
            # concept: row-max
            m_old, m = m, np.maximum(m, s.max(axis=1))
            # concept: rescale-factor
            c = np.exp(m_old - m)
            # concept: probability
            p = np.exp(s - m[:, None], out=s)
            # concept: row-sum, denominator
            l = c * l + p.sum(axis=1)
            # concept: acc-rescale, pv-gemm
            acc = c[:, None] * acc + product(p, v_tiles[t % copies])
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
