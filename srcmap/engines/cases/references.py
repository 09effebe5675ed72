"""Attention in float64: the definition, short enough to be checked by eye."""

from __future__ import annotations

from typing import Any

import numpy as np

from srcmap.engines.cases.checks import Expected


def wide(x: Any) -> Any:
    """Return the numbers in float64."""
    return np.asarray(x).astype(np.float64)


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None, sink: Any = None
) -> Expected:
    """softmax(q k^T scale) v over the last two dimensions; rows that see nothing give 0.

    q [..., Sq, D], k [..., Sk, D], v [..., Sk, Dv]; mask broadcasts to [..., Sq, Sk]; sink [...]
    adds a key with that score (before scaling) and no value.
    """
    q, k, v = wide(q), wide(k), wide(v)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ np.swapaxes(k, -1, -2) * scale
    magnify = float(np.abs(scores).max(initial=0.0)) * 1.5
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = _softmax(scores, sink)
    return Expected(weights @ v, weights @ np.abs(v), magnify)


def _softmax(scores: Any, sink: Any) -> Any:
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        extra = np.broadcast_to(wide(sink)[..., None, None], top.shape)
        top = np.maximum(top, extra)
    top = np.where(np.isfinite(top), top, 0.0)
    raised = np.exp(scores - top)
    total = raised.sum(-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(extra - top)
    return np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)


def log_sum_exp(q: Any, k: Any, mask: Any, scale: float) -> Any:
    """Return log2 of the denominators, as upstream stores them."""
    scores = np.where(mask, wide(q) @ np.swapaxes(wide(k), -1, -2) * scale, -np.inf)
    top = scores.max(-1, keepdims=True)
    return (np.log(np.exp(scores - top).sum(-1)) + top[..., 0]) / np.log(2)


def causal(queries: int, keys: int) -> Any:
    """Return where a query sees a key, aligned at the end."""
    return np.arange(queries)[:, None] + keys - queries >= np.arange(keys)[None, :]


def window(queries: int, keys: int, size: int) -> Any:
    """Return where a key is not older than the window."""
    return np.arange(queries)[:, None] + keys - queries < np.arange(keys)[None, :] + size


def moved(expected: Expected, *axes: int) -> Expected:
    """Return the same with its dimensions in another order."""
    return Expected(
        np.transpose(expected.values, axes), np.transpose(expected.spread, axes), expected.magnify
    )


def heads_first(x: Any) -> Any:
    """[B, S, H, D] -> [B, H, S, D]."""
    return np.swapaxes(x, 1, 2)


def grouped(x: Any, groups: int, axis: int = 1) -> Any:
    """Repeat each head of keys for the heads of queries that share it."""
    return np.repeat(x, groups, axis=axis)
