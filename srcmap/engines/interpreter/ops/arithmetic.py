"""What stands in expressions: functions of numbers, element by element."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter import dtypes
from srcmap.engines.interpreter.memory import plain, value_of
from srcmap.engines.interpreter.ops.registry import expression
from srcmap.engines.interpreter.symbols import Symbol, computed

if TYPE_CHECKING:
    from collections.abc import Callable

_FILE = "tilelang/language/tir/op.py"


def _single(value: Any) -> Any:
    """A Python number in float arithmetic is float32."""
    return np.float32(value) if isinstance(value, int | float) else value


def _unary(name: str, function: Callable[[Any], Any], *more: str) -> None:
    def apply(value: Any, *_args: Any, **_options: Any) -> Any:
        return function(_single(value_of(value)))

    apply.__doc__ = f"`{name}`, element by element."
    expression(name, *more, defined_in=_FILE)(apply)


for _name, _function, _more in (
    ("exp", np.exp, ("__exp",)),
    ("exp2", np.exp2, ("__exp2",)),
    ("exp10", lambda x: np.power(np.float32(10), x), ("__exp10",)),
    ("log", np.log, ("__log",)),
    ("log2", np.log2, ("__log2",)),
    ("log10", np.log10, ("__log10",)),
    ("log1p", np.log1p, ()),
    ("sqrt", np.sqrt, ("ieee_fsqrt",)),
    ("rsqrt", lambda x: 1 / np.sqrt(x), ("ieee_frsqrt",)),
    ("sin", np.sin, ("__sin",)),
    ("cos", np.cos, ("__cos",)),
    ("tan", np.tan, ("__tan",)),
    ("tanh", np.tanh, ()),
    ("erf", np.vectorize(__import__("math").erf, otypes=[np.float32]), ()),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), ()),
    ("floor", np.floor, ()),
    ("ceil", np.ceil, ()),
    ("trunc", np.trunc, ()),
    ("round", np.rint, ("nearbyint", "rint")),
    ("isnan", np.isnan, ()),
    ("isinf", np.isinf, ()),
    ("isfinite", np.isfinite, ()),
    ("ieee_frcp", lambda x: 1 / x, ("reciprocal",)),
):
    _unary(_name, _function, *_more)


@expression("max", "Max", "maximum", "fmax", defined_in=_FILE)
def larger(first: Any, *rest: Any, **_options: Any) -> Any:
    """The larger; NaN is dropped, as CUDA's fmax does."""
    return _folded((first, *rest), max, np.fmax)


@expression("min", "Min", "minimum", "fmin", defined_in=_FILE)
def smaller(first: Any, *rest: Any, **_options: Any) -> Any:
    """The smaller; NaN is dropped."""
    return _folded((first, *rest), min, np.fmin)


@expression("max_nan", defined_in=_FILE)
def larger_nan(first: Any, second: Any) -> Any:
    """The larger; NaN stays."""
    return np.maximum(value_of(first), value_of(second))


@expression("min_nan", defined_in=_FILE)
def smaller_nan(first: Any, second: Any) -> Any:
    """The smaller; NaN stays."""
    return np.minimum(value_of(first), value_of(second))


def _folded(values: tuple[Any, ...], exact: Any, floating: Any) -> Any:
    if any(isinstance(value, Symbol) for value in values) and all(
        isinstance(value, Symbol | int) for value in values
    ):
        return computed(exact.__name__, exact, *values)
    found = value_of(values[0])
    for other in map(value_of, values[1:]):
        both_int = isinstance(found, int) and isinstance(other, int)
        found = exact(found, other) if both_int else floating(found, other)
    return found


@expression("abs", "fabs", defined_in=_FILE)
def magnitude(value: Any) -> Any:
    """The magnitude."""
    return abs(value_of(value))


@expression("ceildiv", "cdiv", defined_in=_FILE)
def ceildiv(a: Any, b: Any) -> Any:
    """A / b, rounded up."""
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return computed("ceildiv", lambda x, y: -(-x // y), a, b)
    return -(-value_of(a) // value_of(b))


@expression("floordiv", defined_in=_FILE)
def floordiv(a: Any, b: Any) -> Any:
    """A / b, rounded down."""
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return computed("floordiv", operator.floordiv, a, b)
    return value_of(a) // value_of(b)


@expression("floormod", defined_in=_FILE)
def floormod(a: Any, b: Any) -> Any:
    """What floordiv leaves."""
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return computed("floormod", operator.mod, a, b)
    return value_of(a) % value_of(b)


@expression("truncdiv", defined_in=_FILE)
def truncdiv(a: Any, b: Any) -> Any:
    """A / b, rounded towards zero."""
    return plain(np.trunc(np.divide(value_of(a), value_of(b))).astype(np.int64))


@expression("truncmod", defined_in=_FILE)
def truncmod(a: Any, b: Any) -> Any:
    """What truncdiv leaves."""
    return plain(np.fmod(value_of(a), value_of(b)))


@expression("pow", "power", "__pow", defined_in=_FILE)
def power(a: Any, b: Any) -> Any:
    """A to the power of b."""
    return np.power(_single(value_of(a)), value_of(b))


@expression("fma", "__fmaf_rn", defined_in=_FILE)
def fma(a: Any, b: Any, c: Any, *_args: Any) -> Any:
    """A * b + c."""
    return value_of(a) * value_of(b) + value_of(c)


@expression("clamp", defined_in="tilelang/language/customize.py")
def clamp(value: Any, low: Any, high: Any) -> Any:
    """The value, kept between two bounds."""
    return np.clip(value_of(value), value_of(low), value_of(high))


@expression("if_then_else", "Select", "where", defined_in=_FILE, chooses=True)
def if_then_else(test: Any, first: Any, second: Any) -> Any:
    """One of two values by element; inside kernels the rewriter reads only the side that counts."""
    return np.where(value_of(test), value_of(first), value_of(second))


@expression("cast", defined_in=_FILE)
def cast(value: Any, kind: Any, *_args: Any) -> Any:
    """Convert to a type."""
    return plain(dtypes.cast(value_of(value), dtypes.dtype(kind)))


@expression("Cast", defined_in=_FILE)
def cast_to(kind: Any, value: Any, *_args: Any) -> Any:
    """Convert to a type; the type comes first."""
    return cast(value, kind)


@expression("infinity", defined_in=_FILE)
def infinity(kind: Any = "float32", *_args: Any) -> Any:
    """Infinity of a type."""
    return dtypes.infinity(kind)


@expression("max_value", defined_in=_FILE)
def max_value(kind: Any, *_args: Any) -> Any:
    """The largest finite value of a type."""
    return dtypes.largest(kind)


@expression("min_value", defined_in=_FILE)
def min_value(kind: Any, *_args: Any) -> Any:
    """The smallest finite value of a type."""
    return dtypes.smallest(kind)


def _binary(name: str, function: Callable[[Any, Any], Any], *more: str) -> None:
    def apply(a: Any, b: Any, *_args: Any, **_options: Any) -> Any:
        return function(value_of(a), value_of(b))

    apply.__doc__ = f"`{name}`, element by element."
    expression(name, *more, defined_in=_FILE)(apply)


for _name2, _function2, _more2 in (
    ("bitwise_and", operator.and_, ()),
    ("bitwise_or", operator.or_, ()),
    ("bitwise_xor", operator.xor, ()),
    ("shift_left", operator.lshift, ()),
    ("shift_right", operator.rshift, ()),
    ("add", operator.add, ("__fadd", "ieee_add")),
    ("sub", operator.sub, ("__fsub", "ieee_sub", "subtract")),
    ("mul", operator.mul, ("__fmul", "ieee_mul", "multiply")),
    ("div", operator.truediv, ("__fdiv", "ieee_fdiv", "__fdividef", "fdividef", "divide")),
    ("logical_and", np.logical_and, ("And",)),
    ("logical_or", np.logical_or, ("Or",)),
):
    _binary(_name2, _function2, *_more2)


@expression("bitwise_not", defined_in=_FILE)
def bitwise_not(value: Any) -> Any:
    """Every bit turned."""
    return ~value_of(value)


@expression("Not", "logical_not", "not_", defined_in=_FILE)
def logical_not(value: Any) -> Any:
    """True where it was false."""
    return np.logical_not(value_of(value))


@expression("any_of", "Any", defined_in="tilelang/language/logical.py")
def any_of(*values: Any) -> Any:
    """True where some value is."""
    found = [np.any(value_of(value)) for value in values]
    return any(found)


@expression("all_of", "All", defined_in="tilelang/language/logical.py")
def all_of(*values: Any) -> Any:
    """True where all values are."""
    found = [np.all(value_of(value)) for value in values]
    return all(found)


@expression("likely", defined_in=_FILE)
def likely(value: Any) -> Any:
    """The value: a hint for the compiler."""
    return value
