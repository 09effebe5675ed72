"""Data types as upstream names them, and casts as its hardware does them."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

_ALIASES = {
    "float": "float32",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "double": "float64",
    "bfloat16": "bfloat16",
    "float8_e4m3": "float8_e4m3fn",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "boolean": "bool",
    "bool_": "bool",
    "handle": "uint64",
}
_finfo: Any = ml_dtypes.finfo
_NUMPY: dict[str, Any] = {
    **{
        name: np.dtype(name)
        for name in (
            *("float16", "float32", "float64", "bool"),
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        )
    },
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e4m3fnuz": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "float8_e5m2fnuz": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
NAMES = tuple(_NUMPY)
_SMALL = {name for name in _NUMPY if name.startswith("float8")}


class DType(str):
    """A data type: a string, as upstream's are, that also converts a value when it is called."""

    __slots__ = ()

    @property
    def numpy(self) -> np.dtype[Any]:
        """The type of the arrays that hold it."""
        found: np.dtype[Any] = _NUMPY[self]
        return found

    @property
    def bits(self) -> int:
        """Its width."""
        return 8 * self.numpy.itemsize

    @property
    def itemsize(self) -> int:
        """Its width in bytes."""
        return self.numpy.itemsize

    @property
    def floating(self) -> bool:
        """Whether it has a NaN."""
        return "float" in self

    def as_torch(self) -> Any:
        """Return torch's type of this name."""
        import torch

        return getattr(torch, str(self))

    def __call__(self, value: Any) -> Any:
        """Convert a value, as `T.float32(x)` does."""
        from srcmap.engines.interpreter.memory import value_of

        return cast(value_of(value), self)


@cache
def dtype(name: Any) -> DType:
    """Return the type that a string, a torch type or a NumPy type means."""
    text = str(name).removeprefix("torch.").removeprefix("numpy.")
    if isinstance(name, type | np.dtype):
        text = np.dtype(name).name
    text = _ALIASES.get(text, text)
    if text not in _NUMPY:
        raise TypeError(f"no data type {name!r}")
    return DType(text)


def cast(value: Any, target: DType) -> Any:
    """Convert as a store does: to nearest even; fp8 saturates; floats to integers truncate."""
    array = np.asarray(value)
    wanted = target.numpy
    if array.dtype == wanted:
        return value if isinstance(value, np.ndarray | np.generic) else array[()]
    if target in _SMALL:
        array = _saturated(array, wanted)
    if array.dtype.kind == "f" and wanted.kind in "iu":
        array = np.nan_to_num(array, nan=0.0)
    result = array.astype(wanted)
    return result if result.ndim else result[()]


def _saturated(array: Any, wanted: np.dtype[Any]) -> Any:
    bound = float(_finfo(wanted).max)
    return np.clip(array.astype(np.float32), -bound, bound)


def infinity(name: Any) -> Any:
    """Return the infinity of a type; the largest number where it has none (e4m3)."""
    kind = dtype(name)
    if "e4m3" in kind:
        return kind.numpy.type(float(_finfo(kind.numpy).max))
    return kind.numpy.type(float("inf"))


def largest(name: Any) -> Any:
    """Return the largest finite value of a type."""
    kind = dtype(name)
    if kind.floating:
        return kind.numpy.type(float(_finfo(kind.numpy).max))
    return True if kind == "bool" else int(np.iinfo(kind.numpy).max)


def smallest(name: Any) -> Any:
    """Return the smallest finite value of a type."""
    kind = dtype(name)
    if kind.floating:
        return kind.numpy.type(float(_finfo(kind.numpy).min))
    return False if kind == "bool" else int(np.iinfo(kind.numpy).min)
