"""Full and causal attention beside `flash_attention/example_mha_fwd_bhsd.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.gpu import parts
from benchmarks.gpu.variants import _mha
from benchmarks.gpu.variants._mha import inputs, pytorch, upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["inputs", "pytorch", "upstream"]


class Shape(_mha.Dense):
    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": self.causal, "windowed": False}


SHAPES = tuple(Shape("mha", *sizes) for sizes in _mha.LARGE)
SMALL = tuple(Shape("mha", *sizes) for sizes in _mha.SMALL)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.mha.tilelang_kernel import attention

    chosen = launch.Tiling(**tiling) if tiling else None
    return lambda q, k, v: attention(q, k, v, causal=shape.causal, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    return parts.dense_sweep(shape.dim)
