"""What the diff tests of packed samples on a GPU share: tensors, and upstream's modules."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.kernels.gpu.world import UNIT, upstream, wide
from tests.kernels.tilelang.packed import tensors

if TYPE_CHECKING:
    from tests.kernels.tilelang.packed import Batch

TILE = 128
"""Queries of a tile of upstream's, as it ships."""


def on_gpu(seed: int, batch: Batch) -> tuple[Any, ...]:
    """Return q, k, v, cu_seqlens_q, cu_seqlens_k as CUDA tensors."""
    import torch

    *three, q_starts, k_starts = tensors(seed, batch)
    kind = getattr(torch, batch.dtype)
    made = (torch.from_numpy(x.astype(np.float32)).to("cuda", kind) for x in three)
    return (*made, *(torch.from_numpy(x).cuda() for x in (q_starts, k_starts)))


def arrays(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors as arrays for the reference: numbers in float64, starts as integers."""
    return tuple(wide(x) if x.is_floating_point() else x.cpu().numpy() for x in given)


def theirs(path: str) -> Any:
    """Return a module of upstream's with kernels for packed samples.

    The file imports helpers that make its own test data, and those need einops: a kernel does not.
    """
    if find_spec("einops") is None and "varlen_utils" not in sys.modules:
        absent = ModuleType("varlen_utils")
        absent.generate_random_padding_mask = absent.generate_qkv = None  # type: ignore[attr-defined]
        sys.modules["varlen_utils"] = absent
    return upstream(path)


def unsound(batch: Batch, causal: bool) -> bool:
    """Return whether a whole tile of upstream's sees nothing: what it gives is left to chance.

    Its loop is empty then, and nothing waits for the copy of Q, which arrives where the zeros of
    the output are being put together. No error can be taken from there.
    """
    lengths = zip(batch.queries, batch.keys, strict=True)
    return causal and any(queries - keys >= TILE for queries, keys in lengths)


def largest(got: Any, exact: Any) -> float:
    """Return the largest error of a tensor."""
    found = float(np.abs(wide(got) - exact).max())
    assert np.isfinite(found)
    return found


def in_type(dtype: str, error: float) -> float:
    """Return an error in float16, the only type of upstream's kernels, in terms of another."""
    return error * UNIT[dtype] / UNIT["float16"]
