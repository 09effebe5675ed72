"""A correct kernel for one head with each classic mistake built in behind a name.

Blocks of keys meet blocks of queries, causal and with a sliding window; nothing here is imported
from `kernels/`. `attention(..., trap=NAME)` makes one mistake; without a trap it is right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

TRAPS = (
    "no check_inf",
    "check_inf kept",
    "diagonal off by one",
    "no query offset",
    "loop bound off",
    "window start off",
    "no rescale",
)
"""Mistakes of the blocked kernel."""

MERGE_TRAPS = ("unweighted", "fp16 lse", "no maximum")
"""Mistakes of the merge of splits."""


def attention(
    q: Any, k: Any, v: Any, *, window: int | None = None, block: int = 16, trap: str = ""
) -> Any:
    """Return causal attention of one head, q [Sq, D], k and v [Sk, D]; rows that see none are 0."""
    tiles = [_tile(q, k, v, first, window, block, trap) for first in range(0, len(q), block)]
    return np.concatenate(tiles)


def _tile(q: Any, k: Any, v: Any, first: int, window: int | None, block: int, trap: str) -> Any:
    rows = q[first : first + block]
    offset = 0 if trap == "no query offset" else len(k) - len(q)
    places = first + np.arange(len(rows)) + offset
    m, total = np.full(len(rows), -np.inf), np.zeros(len(rows))
    acc = np.zeros((len(rows), v.shape[1]))
    for start in range(*_range(first, offset, len(k), window, block, trap)):
        keys = slice(start, start + block)
        scores = rows @ k[keys].T / np.sqrt(q.shape[1])
        scores = np.where(_seen(places, start, scores.shape[1], window, trap), scores, -np.inf)
        m_new = np.maximum(m, scores.max(1))
        base = m_new if trap == "no check_inf" else np.where(m_new == -np.inf, 0, m_new)
        if trap == "check_inf kept":
            m_new = base
        c = np.ones_like(total) if trap == "no rescale" else np.exp(m - base)
        p = np.exp(scores - base[:, None])
        m, total, acc = m_new, total * c + p.sum(1), acc * c[:, None] + p @ v[keys]
    return acc / np.where(total == 0, 1, total)[:, None]


def _range(
    first: int, offset: int, keys: int, window: int | None, block: int, trap: str
) -> tuple[int, int, int]:
    last = min(keys, first + block + offset)
    if trap == "loop bound off":
        last -= block
    start = 0 if window is None else max(0, first + offset - window + 1) // block * block
    if trap == "window start off":
        start += block
    return start, last, block


def _seen(places: Any, start: int, count: int, window: int | None, trap: str) -> Any:
    keys = start + np.arange(count)
    seen = places[:, None] > keys if trap == "diagonal off by one" else places[:, None] >= keys
    return seen if window is None else seen & (places[:, None] < keys + window)


def split_attention(q: Any, k: Any, v: Any, splits: int, trap: str = "") -> Any:
    """Return attention of one query [D] over keys in `splits` parts, merged by their lse."""
    parts, lses = [], []
    for keys, values in zip(np.array_split(k, splits), np.array_split(v, splits), strict=True):
        scores = keys @ q / np.sqrt(len(q))
        weights = np.exp(scores - scores.max())
        parts.append(weights @ values / weights.sum())
        lses.append(np.log2(weights.sum()) + scores.max() / np.log(2))
    return merge(np.stack(parts), np.array(lses), trap)


def merge(parts: Any, lses: Any, trap: str = "") -> Any:
    """Return the weighted sum of partial outputs [S, D] by log2-sum-exps [S]."""
    if trap == "fp16 lse":
        lses = lses.astype(np.float16).astype(np.float64)
    top = 0 if trap == "no maximum" else lses.max()
    weights = np.ones_like(lses) if trap == "unweighted" else np.exp2(lses - top)
    return weights @ parts / weights.sum()
