"""Arguments from outside: NumPy arrays and torch tensors, to one and back; torch only if used."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

# torch types that NumPy lacks travel as whole numbers of the same width.
_CARRIERS = {
    "bfloat16": ("int16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    "float8_e4m3fnuz": ("uint8", ml_dtypes.float8_e4m3fnuz),
    "float8_e5m2fnuz": ("uint8", ml_dtypes.float8_e5m2fnuz),
}


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of torch, without importing torch."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return isinstance(tensor, type) and isinstance(value, tensor)


def to_numpy(value: Any) -> Any:
    """Return the values as an array that the kernel may write to; shares memory where it can."""
    if not is_torch(value):
        return np.asarray(value)
    import torch

    tensor = value.detach().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _CARRIERS:
        carrier, kind = _CARRIERS[name]
        return tensor.view(getattr(torch, carrier)).numpy().view(kind)
    return tensor.numpy()


def to_torch(array: Any) -> Any:
    """Return an array as a tensor."""
    import torch

    name = array.dtype.name
    array = np.ascontiguousarray(array)
    if name in _CARRIERS:
        carrier, _ = _CARRIERS[name]
        return torch.from_numpy(array.view(carrier)).view(getattr(torch, name))
    return torch.from_numpy(array)


def write_back(value: Any, data: Any) -> None:
    """Bring what a kernel wrote to the caller, where the memory was not shared."""
    if not is_torch(value) or value.is_contiguous():
        return
    import torch

    with torch.no_grad():
        value.copy_(to_torch(data).reshape(value.shape))
