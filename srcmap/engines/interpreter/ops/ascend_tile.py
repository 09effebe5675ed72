"""Ascend's `T.tile.*`: what a Vector does with tiles in the unified buffer, destination first."""

from __future__ import annotations

import operator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter.machine import KernelError, here
from srcmap.engines.interpreter.memory import Buffer, Region, Var, region, value_of
from srcmap.engines.interpreter.ops.registry import operation

if TYPE_CHECKING:
    from collections.abc import Callable

_FILE = "tilelang/language/ascend_tile.py"


def _tile(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return operation(*(f"tile.{name}" for name in names), defined_in=_FILE, ascend=True)


def _write(dst: Any, values: Any, *inputs: Any) -> None:
    """Store into the destination's shape, and tell where a NaN was born."""
    target = region(dst)
    values = np.asarray(values)
    if values.size != prod(target.extents):
        raise KernelError(f"{values.size} elements do not fit {target.name}{target.extents}")
    if values.dtype.kind == "f" and np.isnan(values).any():
        seen = [np.asarray(x) for x in inputs]
        if not any(x.dtype.kind not in "iub" and np.isnan(x).any() for x in seen):
            where = tuple(int(i) for i in np.argwhere(np.isnan(values))[0])
            here.run.note("nan-born", target.name, where=where)
    here.run.role.loads.clear()
    target.write(values.reshape(target.extents))


def _read(place: Any) -> Any:
    return region(place).read()


def _operand(place: Any, shape: tuple[int, ...]) -> Any:
    """A second source: a tile of as many elements, one element of a buffer, or a number."""
    if isinstance(place, Region) and not place.explicit:
        # The runtime is handed the buffer and its first index (`binary_op`).
        return place.value() if place.buffer.ndim == 1 else _first_indexed(place)
    if isinstance(place, Buffer | Region):
        values = _read(place)
        if values.size != prod(shape):
            raise KernelError(f"{values.size} elements against {list(shape)}")
        return values.reshape(shape)
    return value_of(place)


def _first_indexed(place: Region) -> Any:
    flat = place.buffer.data.reshape(-1)
    return flat[place.starts[0]] if sum(place.starts[1:]) == 0 else place.value()


def _typed(value: Any, kind: Any) -> Any:
    """A number takes the type of the tile that it meets."""
    return np.asarray(value).astype(kind) if not isinstance(value, np.ndarray) else value


def _binary(name: str, function: Callable[[Any, Any], Any]) -> None:
    def apply(dst: Any, src0: Any, src1: Any, *_args: Any, **_options: Any) -> None:
        first = _read(src0)
        second = _typed(_operand(src1, first.shape), first.dtype)
        _write(dst, function(first, second), first, second)

    apply.__doc__ = f"`{name}` of two tiles, or of a tile and a number."
    _tile(name, f"{name}s")(apply)


for _name, _function in (
    ("add", operator.add),
    ("sub", operator.sub),
    ("mul", operator.mul),
    ("div", np.divide),
    ("max", np.fmax),
    ("min", np.fmin),
    ("bitwise_and", operator.and_),
    ("bitwise_or", operator.or_),
    ("bitwise_xor", operator.xor),
    ("pow", np.power),
):
    _binary(_name, _function)


def _unary(name: str, function: Callable[[Any], Any]) -> None:
    def apply(dst: Any, src: Any, *_args: Any, **_options: Any) -> None:
        values = _read(src)
        _write(dst, function(values), values)

    apply.__doc__ = f"`{name}` of a tile."
    _tile(name)(apply)


for _name1, _function1 in (
    ("exp", np.exp),
    ("ln", np.log),
    ("abs", np.abs),
    ("reciprocal", lambda x: 1 / x),
    ("sqrt", np.sqrt),
    ("rsqrt", lambda x: 1 / np.sqrt(x)),
    ("relu", lambda x: np.maximum(x, 0)),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ("silu", lambda x: x / (1 + np.exp(-x))),
    ("sin", np.sin),
    ("cos", np.cos),
    ("bitwise_not", operator.invert),
    ("round", np.rint),
    ("floor", np.floor),
    ("ceil", np.ceil),
    ("trunc", np.trunc),
):
    _unary(_name1, _function1)


@_tile("fill")
def fill(buffer: Any, value: Any) -> None:
    """Fill a tile with one value."""
    if isinstance(buffer, Var):
        buffer.set(value)
    else:
        here.run.role.loads.clear()
        region(buffer).fill(value)


@_tile("clear")
def clear(buffer: Any) -> None:
    """Fill a tile with zeros."""
    fill(buffer, 0)


@_tile("leaky_relu")
def leaky_relu(dst: Any, src: Any, slope: Any) -> None:
    """x, or slope * x below zero."""
    values = _read(src)
    _write(
        dst, np.where(values >= 0, values, values * _typed(value_of(slope), values.dtype)), values
    )


@_tile("axpy")
def axpy(dst: Any, src: Any, scalar: Any) -> None:
    """Add scalar * src to dst."""
    values, old = _read(src), _read(dst)
    factor = _typed(_operand(scalar, values.shape), values.dtype)
    _write(dst, old + (values * factor).reshape(old.shape), values, old)


@_tile("mul_add_dst")
def mul_add_dst(dst: Any, src0: Any, src1: Any) -> None:
    """Add src0 * src1 to dst."""
    first, old = _read(src0), _read(dst)
    second = _operand(src1, first.shape)
    _write(dst, old + (first * second).reshape(old.shape), first, second, old)


@_tile("bitwise_lshift")
def bitwise_lshift(dst: Any, src: Any, count: Any) -> None:
    """Bits moved up."""
    _write(dst, _read(src) << int(value_of(count)))


@_tile("bitwise_rshift")
def bitwise_rshift(dst: Any, src: Any, count: Any) -> None:
    """Bits moved down."""
    _write(dst, _read(src) >> int(value_of(count)))


@_tile("clamp")
def clamp(dst: Any, src: Any, low: Any, high: Any, *_args: Any) -> None:
    """Keep between two bounds."""
    _write(dst, np.clip(_read(src), value_of(low), value_of(high)))


@_tile("clamp_max")
def clamp_max(dst: Any, src: Any, high: Any, *_args: Any) -> None:
    """Keep at or below a bound."""
    _write(dst, np.fmin(_read(src), value_of(high)))


@_tile("clamp_min")
def clamp_min(dst: Any, src: Any, low: Any, *_args: Any) -> None:
    """Keep at or above a bound."""
    _write(dst, np.fmax(_read(src), value_of(low)))


# -- shapes and types --------------------------------------------------------------------------


@_tile("broadcast")
def broadcast(dst: Any, src: Any, axis: int | None = None, *_args: Any, **_options: Any) -> None:
    """Repeat rows or columns; the axis follows from the shapes when it is not told."""
    target, values = region(dst), _read(src)
    shape = list(target.extents)[-2:]
    if values.ndim == 1 and len(shape) == 2:
        along = 0 if axis == 0 or (axis is None and shape[1] == values.size) else 1
        values = values.reshape((1, -1) if along == 0 else (-1, 1))
    values = values.reshape(values.shape[-2:])
    _write(dst, np.broadcast_to(values, shape), values)


def _row_expand(name: str, function: Callable[[Any, Any], Any]) -> None:
    def apply(dst: Any, src0: Any, src1: Any, *_args: Any, **_options: Any) -> None:
        first = _read(src0)
        rows = first.reshape(-1, first.shape[-1])
        second = _read(src1).reshape(-1)[: len(rows), None]
        _write(dst, function(rows, second), first, second)

    apply.__doc__ = f"`{name}` of every row with its own number."
    _tile(f"row_expand_{name}", f"row_expand_{name}_experiment")(apply)


for _name2, _function2 in (
    ("add", operator.add),
    ("sub", operator.sub),
    ("mul", operator.mul),
    ("div", np.divide),
    ("max", np.fmax),
    ("min", np.fmin),
):
    _row_expand(_name2, _function2)


@_tile("transpose")
def transpose(dst: Any, src: Any) -> None:
    """Swap the last two dimensions."""
    _write(dst, np.swapaxes(_read(src), -1, -2))


_ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "CAST_NONE": lambda x: x,
    "CAST_RINT": np.rint,
    "CAST_FLOOR": np.floor,
    "CAST_CEIL": np.ceil,
    "CAST_ROUND": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "CAST_TRUNC": np.trunc,
}


@_tile("cast")
def cast(dst: Any, src: Any, mode: str, count: Any = None) -> None:
    """Convert the first `count` elements; the mode rounds when the result is whole."""
    target, values = region(dst), _read(src).reshape(-1)
    if mode not in _ROUNDINGS:
        raise KernelError(f"no rounding mode {mode}")
    if not target.dtype.floating and values.dtype.kind == "f":
        values = _ROUNDINGS[mode](values)
    size = prod(target.extents) if count is None else int(value_of(count))
    if size == prod(target.extents):
        _write(dst, values[:size])
    else:
        kept = target.read(check=False).reshape(-1).copy()
        kept[:size] = values[:size].astype(kept.dtype)
        _write(dst, kept)


@_tile("createvecindex")
def createvecindex(dst: Any, first: Any) -> None:
    """first, first + 1, and so on."""
    target = region(dst)
    _write(dst, np.arange(prod(target.extents)) + value_of(first))


@_tile("arith_progression")
def arith_progression(dst: Any, first: Any, step: Any, count: Any = None) -> None:
    """first, first + step, and so on."""
    target = region(dst)
    del count
    _write(dst, np.arange(prod(target.extents)) * value_of(step) + value_of(first))


# -- choosing ----------------------------------------------------------------------------------

_COMPARISONS = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "GT": operator.gt,
    "GE": operator.ge,
    "LT": operator.lt,
    "LE": operator.le,
}


@_tile("compare", "compare_scalar")
def compare(dst: Any, src0: Any, src1: Any, mode: str) -> None:
    """Compare element by element; the answers are bits, the first one lowest (assumed)."""
    first = _read(src0)
    second = _operand(src1, first.shape)
    bits = np.packbits(_COMPARISONS[mode](first, second).reshape(-1), bitorder="little")
    target = region(dst)
    if target.dtype == "bool" or prod(target.extents) == first.size:
        _write(dst, _COMPARISONS[mode](first, second))
        return
    room = np.zeros(prod(target.extents) * target.dtype.itemsize, np.uint8)
    room[: len(bits)] = bits[: len(room)]
    _write(dst, room.view(target.dtype.numpy))


@_tile("select")
def select(dst: Any, mask: Any, src0: Any, src1: Any, mode: str = "") -> None:
    """Take the first source where the mask's bit is set, else the second (or a number)."""
    del mode
    first = _read(src0)
    bits = np.unpackbits(_read(mask).reshape(-1).view(np.uint8), bitorder="little")
    chosen = bits[: first.size].reshape(first.shape) != 0
    second = _typed(_operand(src1, first.shape), first.dtype)
    _write(dst, np.where(chosen, first, second), first, second)


@_tile("gather")
def gather(dst: Any, src: Any, offsets: Any, base: Any = 0) -> None:
    """Take elements at byte offsets from a base."""
    source, target = region(src), region(dst)
    places = (_read(offsets).reshape(-1).astype(np.int64) + value_of(base)) // source.dtype.itemsize
    values = source.read().reshape(-1)
    size = min(prod(target.extents), places.size)
    taken = values[np.clip(places[:size], 0, values.size - 1)]
    kept = target.read(check=False).reshape(-1).copy()
    kept[:size] = taken
    _write(dst, kept)


_PATTERNS = {
    "P0101": (0, 2),
    "P1010": (1, 2),
    "P0001": (0, 4),
    "P0010": (1, 4),
    "P0100": (2, 4),
    "P1000": (3, 4),
    "P1111": (0, 1),
}


@_tile("gather_mask")
def gather_mask(dst: Any, src: Any, pattern: Any) -> None:
    """Keep every second or fourth element, or those whose bit is set in a buffer."""
    values = _read(src).reshape(-1)
    if isinstance(pattern, str):
        first, step = _PATTERNS[pattern]
        taken = values[first::step]
    else:
        bits = np.unpackbits(_read(pattern).reshape(-1).view(np.uint8), bitorder="little")
        taken = values[: bits.size][bits[: values.size] != 0]
    target = region(dst)
    size = min(prod(target.extents), taken.size)
    kept = target.read(check=False).reshape(-1).copy()
    kept[:size] = taken[:size]
    _write(dst, kept)


@_tile("topk")
def topk(dst: Any, src: Any, K: Any, actual_num: Any = None) -> None:  # noqa: N803
    """The K largest with their places, as value and index in turn, largest first.

    The index is held as a number of the tile's type (assumed; hardware holds its bits).
    """
    values = _read(src).reshape(-1)
    count = values.size if actual_num is None else int(value_of(actual_num))
    _write_pairs(dst, values[:count], int(value_of(K)))


@_tile("sort")
def sort(dst: Any, src: Any, actual_num: Any = None) -> None:
    """All elements with their places, as value and index in turn, largest first."""
    values = _read(src).reshape(-1)
    count = values.size if actual_num is None else int(value_of(actual_num))
    _write_pairs(dst, values[:count], count)


def _write_pairs(dst: Any, values: Any, count: int) -> None:
    target = region(dst)
    order = np.argsort(-values, kind="stable")[:count]
    room = target.read(check=False).reshape(-1).copy()
    room[0 : 2 * len(order) : 2] = values[order]
    room[1 : 2 * len(order) : 2] = order
    _write(dst, room)


# -- reducing ----------------------------------------------------------------------------------


def _reduction(name: str, combine: Any) -> None:
    def apply(dst: Any, src: Any, *args: Any, dim: int = -1, **_options: Any) -> None:
        axis = args[0] if args and isinstance(args[0], int) else dim
        values = _read(src)
        _write(dst, combine.reduce(values, axis=axis), values)

    apply.__doc__ = f"`{name}` along a dimension."
    _tile(name)(apply)


for _name3, _combine3 in (("reduce_max", np.fmax), ("reduce_min", np.fmin), ("reduce_sum", np.add)):
    _reduction(_name3, _combine3)


@_tile("atomic_add")
def atomic_add(dst: Any, src: Any, *_args: Any) -> None:
    """Add a tile to memory."""
    target = region(dst)
    target.write(target.read() + _read(src).reshape(target.extents))
