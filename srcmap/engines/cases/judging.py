"""An output against the float64 reference: how far off, in units of the budget, and where first."""

from __future__ import annotations

from typing import Any

import numpy as np

from srcmap.engines.cases.checks import Check, Expected, budget
from srcmap.engines.jobs import Comparison, Summary


def compare(
    check: Check, want: Expected, got: Any, number: int, by: str = "", cut: float = 0.0
) -> Comparison:
    """Compare one output. NaN never equals anything; infinities must be the same."""
    got, right = np.asarray(got).astype(np.float64), want.values
    if got.shape != right.shape:
        size = got.size
        return Comparison(output=number, by=by, error=None, ratio=None, bad=size, total=size)
    with np.errstate(all="ignore"):
        off = np.where(got == right, 0.0, np.abs(got - right))
        allowed = np.zeros_like(right) if check.exact else budget(check, want, cut)
        bad = ~(off <= allowed) | (np.isinf(right) & (got != right))
        units = np.where(off == 0, 0.0, off / np.where(allowed > 0, allowed, np.nan))
    first = tuple(int(i) for i in np.argwhere(bad)[0]) if bad.any() else ()
    return Comparison(
        output=number,
        by=by,
        error=_number(float(np.max(off, initial=0.0))),
        ratio=_largest(units, bad),
        bad=int(bad.sum()),
        total=got.size,
        where=first,
        got=_number(float(got[first])) if first else None,
        want=_number(float(right[first])) if first else None,
        allowed=float(allowed[first]) if first else None,
    )


def _number(value: float) -> float | None:
    """Return a number that JSON can hold."""
    return value if np.isfinite(value) else None


def _largest(units: Any, bad: Any) -> float | None:
    if bad.any() and not np.isfinite(units[bad]).all():
        return None
    return float(units[np.isfinite(units)].max(initial=0.0))


def compare_all(
    check: Check, outputs: tuple[Any, ...], by: str = "", cut: float = 0.0
) -> tuple[Comparison, ...]:
    """Compare every output that has a reference; `cut` is what the engine does to fp8 products."""
    pairs = enumerate(zip(check.want, outputs, strict=False))
    return tuple(compare(check, want, got, number, by, cut) for number, (want, got) in pairs)


def summary(name: str, value: Any) -> Summary:
    """Return an array in a few numbers."""
    array = np.asarray(value)
    kind = str(array.dtype)
    if array.dtype.kind not in "biufV" and "float" not in kind:
        return Summary(name=name, shape=array.shape, dtype=kind)
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    some = finite.size > 0
    return Summary(
        name=name,
        shape=tuple(array.shape),
        dtype=kind,
        low=float(finite.min()) if some else None,
        high=float(finite.max()) if some else None,
        mean=float(finite.mean()) if some else None,
        nan=int(np.isnan(numbers).sum()),
        infinite=int(np.isinf(numbers).sum()),
    )
