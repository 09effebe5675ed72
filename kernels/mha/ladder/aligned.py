"""Step 4, aligned with upstream: which keys a query sees, and the masks and the loop that follow.

One head: q [Sq, D], k and v [Skv, D] -> [Sq, D], pipelined as in step 3. A causal query i stands at
position i + past_len, as the last query sees the last key; blocks past a tile's last query are not
visited. Tiles are whole: past the end they are filled with zeros, whose score of 0 the boundary
mask hides. The output goes through a tile, of which the rows that exist are stored.
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
    causal: bool = False,
    stages: int = 2,
    copies: int | None = None,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v. Fewer `copies` than stages: blocks are lost (a test)."""
    past_len = len(k) - len(q)  # concept: query-offset
    copies = stages if copies is None else copies
    k_tiles: dict[int, NDArray[Any]] = {}
    v_tiles: dict[int, NDArray[Any]] = {}
    out = np.full((len(q), v.shape[1]), np.nan, q.dtype)
    for first in range(0, len(q), block_m):  # concept: kernel-grid
        rows = slice(first, first + block_m)
        q_tile = tile(q, first, block_m)
        blocks = -(-len(k) // block_n)
        # concept: loop-range
        if causal:
            blocks = min(blocks, -(-(first + block_m + past_len) // block_n))
        # concept: state-init
        m = np.full(block_m, -np.inf, wide(q))
        l = np.zeros(block_m, wide(q))
        acc = np.zeros((block_m, v.shape[1]), wide(q))
        for now in range(blocks + stages - 1):  # concept: kv-loop
            if now < blocks:  # prologue and body: bring a block
                start = now * block_n
                k_tiles[now % copies] = tile(k, start, block_n)
                v_tiles[now % copies] = tile(v, start, block_n)
            t = now - (stages - 1)
            if t < 0:  # prologue: nothing to compute yet
                continue
            # concept: qk-gemm
            s = scores(q_tile, k_tiles[t % copies])  # [M, N]
            # concept: causal-mask, boundary-mask, mask-value
            q_idx = np.arange(first, first + block_m)[:, None] + past_len
            k_idx = np.arange(t * block_n, (t + 1) * block_n)[None, :]
            s = np.where(q_idx >= k_idx if causal else k_idx < len(k), s, -np.inf)
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
        o_tile = acc / l[:, None]  # concept: normalise
        out[rows] = o_tile[: len(out[rows])]  # concept: epilogue-store
    return out


def tile(x: NDArray[Any], first: int, rows: int) -> NDArray[Any]:
    """Return `rows` rows from `first` on; past the end they are zero."""
    filled = np.zeros((rows, x.shape[1]), x.dtype)
    filled[: len(x) - first] = x[first : first + rows]
    return filled


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
