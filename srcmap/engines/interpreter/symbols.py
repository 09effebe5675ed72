"""Shapes that are known when a kernel is called: `T.dynamic`, `T.symbolic`, `T.const`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class UnboundError(ValueError):
    """Raised when a symbol is needed before the arguments said what it is."""


class Symbol:
    """A size that the shapes of the arguments give, or arithmetic on such sizes.

    Arithmetic stays symbolic, since a builder computes with symbols before any call; comparing and
    converting to an integer ask for the value.
    """

    def __init__(self, name: str, compute: Callable[[], int] | None = None) -> None:
        self.name = name
        self.bound: int | None = None
        self._compute = compute

    @property
    def plain(self) -> bool:
        """Whether it is a symbol itself and not arithmetic on others."""
        return self._compute is None

    def value(self) -> int:
        """Return the value. UnboundError when the call has not given it."""
        if self._compute is not None:
            return self._compute()
        if self.bound is None:
            raise UnboundError(f"the size {self.name!r} is not known from the arguments")
        return self.bound

    def __int__(self) -> int:
        return self.value()

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.value())

    def __repr__(self) -> str:
        return self.name

    def astype(self, _dtype: Any) -> Symbol:
        """Return itself: sizes are integers whatever their width."""
        return self

    def __hash__(self) -> int:
        return id(self)


def resolve(value: Any) -> Any:
    """Return the value of a symbol; anything else as it is."""
    return value.value() if isinstance(value, Symbol) else value


def computed(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Apply a function to sizes: at once when all are numbers, else when asked."""
    if not any(isinstance(arg, Symbol) for arg in args):
        return function(*args)
    shown = f"{name}({', '.join(map(repr, args))})"
    return Symbol(shown, lambda: int(function(*(resolve(arg) for arg in args))))


def _arithmetic(name: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: Symbol, other: Any) -> Any:
        if isinstance(other, int | Symbol):
            return computed(name, function, self, other)
        return function(self.value(), other)

    def backward(self: Symbol, other: Any) -> Any:
        if isinstance(other, int | Symbol):
            return computed(name, function, other, self)
        return function(other, self.value())

    setattr(Symbol, f"__{name}__", forward)
    setattr(Symbol, f"__r{name}__", backward)


def _comparison(name: str, function: Callable[[Any, Any], Any]) -> None:
    def compare(self: Symbol, other: Any) -> Any:
        if other is self:
            return function(0, 0)
        return function(self.value(), resolve(other))

    setattr(Symbol, f"__{name}__", compare)


for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
    _arithmetic(_name, getattr(operator, _name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _comparison(_name, getattr(operator, _name))
