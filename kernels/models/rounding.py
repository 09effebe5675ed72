"""Rounding errors of merged splits and of low-precision sums, against float64.

One query row with random scores is computed exactly, then as splits whose log-sum-exps and partial
outputs are stored in a narrow type before they are merged; and as a sum of tiles that is rounded
after each addition, as an atomic accumulation in that type does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels.models.errors import ModelError, positive
from kernels.models.splits import steps
from kernels.models.tables import Chart, Series, Table

STORED = ("float64", "float32", "float16", "bfloat16")
"""Types that a result can be stored in on its way."""

MERGES = (
    ("float32", "float32"),
    ("float32", "float16"),
    ("float16", "float32"),
    ("bfloat16", "bfloat16"),
)
"""Types of lse and of partial outputs that the table compares."""


def narrow(x: Any, dtype: str) -> Any:
    """Return float64 numbers as they come back from storage in `dtype`, rounded to nearest even.

    ModelError when the type is not one of `STORED`.
    """
    if dtype not in STORED:
        raise ModelError(f"no type is called {dtype!r}; known are {', '.join(STORED)}")
    if dtype != "bfloat16":
        return np.asarray(x, np.float64).astype(dtype).astype(np.float64)
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return rounded.astype(np.uint32).view(np.float32).astype(np.float64)


def exact(scores: Any, values: Any) -> Any:
    """Return softmax(scores) values in float64; scores [keys], values [keys, dim] -> [dim]."""
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


def parts(scores: Any, values: Any, splits: int) -> tuple[Any, Any]:
    """Return normalised partial outputs [splits, dim] and their log2-sum-exps [splits]."""
    outputs, lses = [], []
    for s, v in zip(np.array_split(scores, splits), np.array_split(values, splits), strict=True):
        weights = np.exp(s - s.max())
        outputs.append(weights @ v / weights.sum())
        lses.append(np.log2(weights.sum()) + s.max() / np.log(2))
    return np.stack(outputs), np.array(lses)


def merged(outputs: Any, lses: Any) -> Any:
    """Return the joint output: every part weighs 2^(lse - joint lse)."""
    weights = np.exp2(lses - lses.max())
    return weights @ outputs / weights.sum()


def merge_error(
    splits: int, lse: str, partial: str, *, keys: int, dim: int, largest: float, seed: int = 0
) -> float:
    """Return the relative L2 error of merging `splits` parts stored in the types given.

    `largest` scales the scores: their standard deviation is a quarter of it. ModelError for sizes
    below 1, more splits than keys, and unknown types.
    """
    positive(splits=splits, keys=keys, dim=dim)
    _check(largest, seed)
    if splits > keys:
        raise ModelError(f"{splits} splits of {keys} keys leave some without any")
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(keys) * largest / 4
    values = rng.standard_normal((keys, dim))
    outputs, lses = parts(scores, values, splits)
    return relative(merged(narrow(outputs, partial), narrow(lses, lse)), exact(scores, values))


def sum_error(tiles: int, dtype: str, *, dim: int, seed: int = 0) -> float:
    """Return the relative L2 error of a sum of `tiles` vectors rounded after each addition."""
    positive(tiles=tiles, dim=dim)
    _check(0.0, seed)
    addends = np.random.default_rng(seed).standard_normal((tiles, dim))
    total = np.zeros(dim)
    for tile in addends:
        total = narrow(total + narrow(tile, dtype), dtype)
    return relative(total, addends.sum(0))


def _check(largest: float, seed: int) -> None:
    if not 0 <= largest < np.inf:
        raise ModelError(f"largest must be a finite score of at least 0, not {largest!r}")
    if seed < 0:
        raise ModelError(f"seed must be at least 0, not {seed}")


def relative(got: Any, want: Any) -> float:
    """Return the L2 norm of the difference over that of what is right."""
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


def table(most: int, *, keys: int, dim: int, largest: float, seed: int) -> Table:
    """Return errors for 1 to `most` splits: merging by type of lse and of parts, and plain sums."""
    sizes: dict[str, Any] = {"keys": keys, "dim": dim, "largest": largest, "seed": seed}
    rows = []
    for splits in steps(most):
        errors = [merge_error(splits, lse, part, **sizes) for lse, part in MERGES]
        sums = [sum_error(splits, dtype, dim=dim, seed=seed) for dtype in ("float16", "bfloat16")]
        rows.append((splits, *errors, *sums))
    names = tuple(f"lse {lse}, parts {part}" for lse, part in MERGES)
    return Table(
        model="rounding",
        title=f"Relative L2 error against float64: {keys} keys, d = {dim}, scores to {largest:g}",
        columns=("splits", *names, "sum in float16", "sum in bfloat16"),
        rows=tuple(rows),
        notes=(
            "A merge rounds each part once, a narrow sum at each addition: its error grows.",
            "An lse of float16 rounds the weights themselves: its step grows with the scores.",
        ),
    )


def chart(most: int, *, keys: int, dim: int, largest: float, seed: int) -> Chart:
    """Return the same errors as lines over the number of splits."""
    found = table(most, keys=keys, dim=dim, largest=largest, seed=seed)
    x = tuple(steps(most))
    lines = tuple(
        Series(label=name, x=x, y=tuple(float(row[place] or 0) for row in found.rows))
        for place, name in enumerate(found.columns)
        if place
    )
    return Chart(
        title=found.title,
        x_label="splits, or tiles summed",
        y_label="relative L2 error",
        series=lines,
        log_x=True,
        log_y=True,
    )
