"""Inputs of the sparse variants, and what their tests share."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = (1, 63, 64, 65, 100)
KINDS = ("float16", "float32", "float64")
STYLES = ("normal", "large", "minus-inf")
"""`large` makes scores of some hundreds; `minus-inf` gives the last key scores of -inf."""
DIM = 16


def seeded(name: str) -> np.random.Generator:
    """Return a generator that depends on the name of the test alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def three(
    rng: np.random.Generator,
    kind: str,
    style: str,
    queries: tuple[int, ...],
    keys: tuple[int, ...],
    axis: int,
) -> tuple[Any, Any, Any]:
    """Return q, k, v, strided views; keys are counted along `axis`."""
    q, k, v = (
        rng.standard_normal((*shape[:-1], 2 * shape[-1])).astype(kind)[..., ::2]
        for shape in (queries, keys, keys)
    )
    if style == "large":
        q *= 40
    if style == "minus-inf" and keys[axis] > 1:
        q[..., 0] = np.abs(q[..., 0]) + 1
        np.moveaxis(k, axis, 0)[-1][..., 0] = -np.inf
    return q, k, v


class Rung:
    """A rung of the ladder under the name that the shared check calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.attention = function
