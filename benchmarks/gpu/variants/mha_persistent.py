"""Attention by programs that stay, beside `flash_attention/example_mha_fwd_bhsd.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.gpu.variants import _mha
from benchmarks.gpu.variants._mha import inputs, pytorch, upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["inputs", "pytorch", "upstream"]


class Shape(_mha.Dense):
    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": self.causal}


SHAPES = tuple(Shape("mha_persistent", *sizes) for sizes in _mha.LARGE)
SMALL = tuple(Shape("mha_persistent", *sizes) for sizes in _mha.SMALL)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.mha.tilelang_persistent import Tiling, attention

    chosen = Tiling(**tiling) if tiling else None
    return lambda q, k, v: attention(q, k, v, causal=shape.causal, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    """Yield tilings without spills; longer orders of heads keep less of them on the chip."""
    cuts: tuple[dict[str, Any], ...] = (
        {"block_m": 128, "block_n": 128, "q_stages": 1, "turns": False},
        {"block_m": 128, "block_n": 176, "q_stages": 1, "turns": False},
    )
    if shape.dim == 64:
        cuts = (
            {"block_m": 192, "block_n": 128, "q_stages": 2, "turns": True},
            {"block_m": 192, "block_n": 128, "q_stages": 1, "turns": True},
            {"block_m": 192, "block_n": 128, "q_stages": 2, "turns": False},
        )
    for cut in cuts:
        for group in (8, 32):
            yield {**cut, "stages": 2, "head_group": group}
