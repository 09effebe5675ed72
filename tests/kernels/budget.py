"""How far a kernel may be off: derived from float64, the type of the inputs and the formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

UNIT = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}
"""Half a unit in the last place of 1: what one rounding is worth."""
LEAST = {"bfloat16": 2.0**-134, "float16": 2.0**-25, "float32": 2.0**-150, "float64": 0.0}
"""Half the smallest number there is: what one rounding of nearly nothing is worth."""
WIDER = {
    "bfloat16": np.float64,
    "float16": np.float64,
    "float32": np.float64,
    "float64": np.longdouble,
}


class Inputs(NamedTuple):
    """What one call gets: tensors with v in the third place, and options of both rungs."""

    tensors: tuple[Any, ...]
    options: dict[str, Any]


def allowed(
    reference: Callable[..., Any], inputs: Inputs, kind: str, blocks: int, splits: bool
) -> Any:
    """Return how far each element may be off. `spread` is what was added up, in magnitudes.

    - Twice what the definition itself is off when computed in the type of the sums.
    - One rounding of the output; one of each probability, which weighs like the spread.
    - For each block the two roundings, in the type of the sums, of `acc * rescale + p v`.
    - The exponent `s * scale - m * scale` is rounded three times at the size of a score, where the
      definition rounds once; the exponential makes that a relative error, of numerator and
      denominator. The logarithms of splits go through the same once more.
    """
    q, k, v, *rest = inputs.tensors
    sums = np.float64 if kind == "float64" else np.float32
    exact = reference(*inputs.tensors, **inputs.options, dtype=WIDER[kind])
    narrow = reference(*inputs.tensors, **inputs.options, dtype=sums)
    spread = reference(q, k, np.abs(v), *rest, **inputs.options, dtype=WIDER[kind])
    formula = 2 * np.abs(narrow - exact).max(initial=0)
    stored = UNIT[kind] * (np.abs(exact) + spread) + LEAST[kind]
    roundings = 2 * blocks + 2 * 3 * (1 + splits) * largest_score(q, k)
    return formula + stored + roundings * UNIT[np.dtype(sums).name] * spread


def largest_score(q: Any, k: Any) -> float:
    """Return a bound for finite scores: the longest query times the longest key."""
    longest = [
        float(np.linalg.norm(np.where(np.isfinite(x), x, 0).astype(np.float64), axis=-1).max())
        for x in (q, k)
    ]
    return longest[0] * longest[1] / float(np.sqrt(q.shape[-1]))


def check(
    name: str, rungs: tuple[Any, Any], inputs: Inputs, kind: str, blocks: int, **tiling: Any
) -> None:
    """Fail, naming the first bad coordinate, when the blocked form leaves its budget."""
    reference, blocked = (rung.attention for rung in rungs)
    # Rows past the end are zero, and 0 * -inf is NaN: computed, never stored.
    with np.errstate(invalid="ignore"):
        got = blocked(*inputs.tensors, **inputs.options, **tiling)
        exact = reference(*inputs.tensors, **inputs.options, dtype=WIDER[kind])
        budget = allowed(reference, inputs, kind, blocks, tiling.get("num_split", 1) > 1)
    assert got.dtype == kind
    assert got.shape == exact.shape
    bad = np.argwhere(~(np.abs(got - exact) <= budget))  # NaN is no success
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise AssertionError(
            f"{name} {[x.shape for x in inputs.tensors]} {kind} {inputs.options} {tiling}: "
            f"{len(bad)} of {got.size} off, first {at}: {got[at]} is not {exact[at]} "
            f"within {budget[at]:.3g}"
        )
