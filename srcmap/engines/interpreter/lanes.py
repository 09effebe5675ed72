"""Indices of a parallel statement: all iterations at once, as arrays that broadcast.

`for i, j in T.Parallel(M, N)` runs its body once; `i` is a lane along the first axis and `j` one
along the second. A lane plus a whole number stays a lane, so that `A[bx * M + i, j]` is a slice.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from srcmap.engines.interpreter.symbols import Symbol


class Operand:
    """Whatever stands for a value: arithmetic on it is arithmetic on the value."""

    __slots__ = ()
    __array_priority__ = 1000
    __array_ufunc__ = None

    def value(self) -> Any:
        """Return the number or array it stands for."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        return bool(self.value())

    def __index__(self) -> int:
        return operator.index(self.value())

    def __int__(self) -> int:
        return int(self.value())

    def __float__(self) -> float:
        return float(self.value())

    def __neg__(self) -> Any:
        return -self.value()

    def __invert__(self) -> Any:
        return ~self.value()

    def __abs__(self) -> Any:
        return abs(self.value())

    def astype(self, name: Any) -> Any:
        """Convert, as `x.astype("float32")` does."""
        from srcmap.engines.interpreter.dtypes import cast, dtype

        return cast(self.value(), dtype(name))

    __hash__ = object.__hash__


def _plain(value: Any) -> Any:
    return value.value() if isinstance(value, Operand | Symbol) else value


def _add_operators() -> None:
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"),
        *("and_", "or_", "xor", "lshift", "rshift"),
    ):
        function = getattr(operator, name)
        bare = name.rstrip("_")

        def forward(self: Operand, other: Any, function: Any = function) -> Any:
            return function(self.value(), _plain(other))

        def backward(self: Operand, other: Any, function: Any = function) -> Any:
            return function(_plain(other), self.value())

        setattr(Operand, f"__{bare}__", forward)
        setattr(Operand, f"__r{bare}__", backward)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        function = getattr(operator, name)

        def compare(self: Operand, other: Any, function: Any = function) -> Any:
            return function(self.value(), _plain(other))

        setattr(Operand, f"__{name}__", compare)


_add_operators()


class Lane(Operand):
    """A run of whole numbers along one axis of a parallel statement."""

    __slots__ = ("_array", "axis", "extent", "rank", "start")

    def __init__(self, axis: int, rank: int, start: int, extent: int) -> None:
        self.axis = axis
        self.rank = rank
        self.start = start
        self.extent = extent
        self._array: Any = None

    def value(self) -> Any:
        """Return the numbers, with one dimension for each axis of the statement."""
        if self._array is None:
            shape = [1] * self.rank
            shape[self.axis] = self.extent
            numbers = np.arange(self.start, self.start + self.extent)
            self._array = numbers.reshape(shape)
        return self._array

    def moved(self, by: int) -> Lane:
        """Return the lane shifted by a whole number."""
        return Lane(self.axis, self.rank, self.start + int(by), self.extent)

    def __add__(self, other: Any) -> Any:
        other = _plain(other)
        if isinstance(other, int | np.integer):
            return self.moved(int(other))
        return self.value() + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        other = _plain(other)
        if isinstance(other, int | np.integer):
            return self.moved(-int(other))
        return self.value() - other

    __hash__ = Operand.__hash__
