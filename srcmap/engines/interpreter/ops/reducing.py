"""Reductions along a dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from srcmap.engines.interpreter.machine import KernelError, here
from srcmap.engines.interpreter.memory import region
from srcmap.engines.interpreter.ops.registry import operation

_FILE = "tilelang/language/reduce_op.py"


def reduced(
    source: Any, target: Any, dim: int, clear: bool, combine: Any, prepare: Any = None
) -> None:
    """Reduce a buffer along a dimension into another, over what is there unless cleared."""
    box, out = region(source), region(target)
    values = box.read()
    if prepare is not None:
        values = prepare(values)
    if out.dtype.floating and values.dtype.itemsize < out.dtype.itemsize:
        values = values.astype(out.dtype.numpy)
    result = combine.reduce(values, axis=dim if dim >= 0 else values.ndim + dim)
    if result.size != np.prod(out.shape):
        raise KernelError(f"reducing {list(values.shape)} does not give {list(out.shape)}")
    result = result.reshape(out.shape)
    if not clear:
        result = combine(out.read(), result)
    _tell_nan(values, result, out.name)
    here.run.role.loads.clear()
    out.write(result)


def _tell_nan(values: Any, result: Any, name: str) -> None:
    if result.dtype.kind in "iub" or not np.isnan(result).any():
        return
    if not np.isnan(values).any():
        here.run.note(
            "nan-born", name, where=tuple(int(i) for i in np.argwhere(np.isnan(result))[0])
        )


def _fewer_nan(nan_propagate: bool, plain: Any, dropping: Any) -> Any:
    """CUDA's max and min drop NaN unless told otherwise."""
    return plain if nan_propagate else dropping


@operation("reduce_max", defined_in=_FILE)
def reduce_max(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,  # noqa: ARG001
    nan_propagate: bool = False,
    **_options: Any,
) -> None:
    """The largest along a dimension; NaN is dropped."""
    reduced(buffer, out, dim, clear, _fewer_nan(nan_propagate, np.maximum, np.fmax))


@operation("reduce_min", defined_in=_FILE)
def reduce_min(
    buffer: Any,
    out: Any,
    dim: int = -1,
    clear: bool = True,
    batch: int = 1,  # noqa: ARG001
    nan_propagate: bool = False,
    **_options: Any,
) -> None:
    """The smallest along a dimension; NaN is dropped."""
    reduced(buffer, out, dim, clear, _fewer_nan(nan_propagate, np.minimum, np.fmin))


@operation("reduce_sum", defined_in=_FILE)
def reduce_sum(buffer: Any, out: Any, dim: int = -1, clear: bool = True, **_options: Any) -> None:
    """The sum along a dimension, in the type of the result when that is wider."""
    reduced(buffer, out, dim, clear, np.add)


@operation("reduce_abssum", defined_in=_FILE)
def reduce_abssum(buffer: Any, out: Any, dim: int = -1, **_options: Any) -> None:
    """The sum of magnitudes."""
    reduced(buffer, out, dim, clear=True, combine=np.add, prepare=np.abs)


@operation("reduce_absmax", defined_in=_FILE)
def reduce_absmax(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, **_options: Any
) -> None:
    """The largest magnitude."""
    reduced(buffer, out, dim, clear, np.fmax, prepare=np.abs)


@operation("reduce_bitand", defined_in=_FILE)
def reduce_bitand(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, **_options: Any
) -> None:
    """Bitwise and."""
    reduced(buffer, out, dim, clear, np.bitwise_and)


@operation("reduce_bitor", defined_in=_FILE)
def reduce_bitor(buffer: Any, out: Any, dim: int = -1, clear: bool = True, **_options: Any) -> None:
    """Bitwise or."""
    reduced(buffer, out, dim, clear, np.bitwise_or)


@operation("cumsum", defined_in="tilelang/language/scan_op.py")
def cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, **_options: Any) -> None:
    """Running sums along a dimension, from the end with `reverse`."""
    box, out = region(src), region(src if dst is None else dst)
    values = box.read()
    if reverse:
        result = np.flip(np.cumsum(np.flip(values, dim), axis=dim), dim)
    else:
        result = np.cumsum(values, axis=dim)
    out.write(result)


@operation("finalize_reducer", defined_in=_FILE)
def finalize_reducer(reducer: Any, **_options: Any) -> None:
    """Add up over threads: a reducer is whole at all times here."""
    del reducer
