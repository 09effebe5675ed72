"""Do outputs agree? Tensors, or tuples of outputs, as kernels give them."""

from __future__ import annotations

from typing import Any

TOLERANCE = 1e-2
"""Relative: the norm of the difference over the norm. Half types leave some 1e-3."""


def difference(got: Any, wanted: Any, tolerance: float = TOLERANCE) -> str:
    """Return how the outputs differ; empty when they agree.

    A leaf of `wanted` is a tensor, None (nothing is compared), or an `At`.
    """
    if wanted is None:
        return ""
    if isinstance(wanted, At):
        return _leaf(got[wanted.index], wanted.values, tolerance)
    if isinstance(wanted, (tuple, list)):
        return _many(got, wanted, tolerance)
    return _leaf(got, wanted, tolerance)


class At:
    """What a part of an output is to be: `output[index]` is `values`."""

    def __init__(self, index: Any, values: Any) -> None:
        self.index = index
        self.values = values


def truth(pairs: Any) -> Any:
    """Return what a variant's `truth` gave (pairs of index and values, nested) as `At`s."""
    if pairs is None:
        return None
    if isinstance(pairs, tuple) and len(pairs) == 2 and hasattr(pairs[1], "shape"):
        return At(*pairs)
    return [truth(one) for one in pairs]


def _many(got: Any, wanted: Any, tolerance: float) -> str:
    if not isinstance(got, (tuple, list)):
        got = (got,)
    if len(got) != len(wanted):
        return f"{len(got)} outputs, and not {len(wanted)}"
    for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
        found = difference(one, other, tolerance)
        if found:
            return f"output {number}: {found}"
    return ""


def _leaf(got: Any, wanted: Any, tolerance: float) -> str:
    if tuple(got.shape) != tuple(wanted.shape):
        return f"shape {list(got.shape)}, and not {list(wanted.shape)}"
    if not wanted.dtype.is_floating_point:
        wrong = int((got != wanted).sum())
        return f"{wrong} of {got.numel()} are others" if wrong else ""
    off, size = _gap(got, wanted), _norm(wanted)
    relative = off / size if size else off
    return "" if relative <= tolerance else f"off by {relative:.3g} of its norm"


def _gap(got: Any, wanted: Any) -> float:
    """Return the norm of the difference; infinities of one sign are alike, NaN is never."""
    same = got.to(wanted.dtype) == wanted
    return float((got.double() - wanted.double()).masked_fill(same, 0.0).norm())


def _norm(tensor: Any) -> float:
    return float(tensor.double().nan_to_num(0.0, 0.0, 0.0).norm())
