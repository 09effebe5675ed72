"""Attention by programs that stay, beside `flash_attention/example_mha_fwd_bhsd.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (128, 128, 2, 256)
"""What `run_regression_perf` measures: block_M, block_N, num_stages, threads."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    seq: int
    dim: int
    causal: bool

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.heads * parts.pairs(self.seq, self.causal) * self.dim

    @property
    def bytes(self) -> float:
        return 2.0 * self.batch * self.heads * self.seq * self.dim * 4

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": self.causal}


SHAPES = (
    Shape("mha_persistent", 1, 32, 8192, 128, causal=False),
    Shape("mha_persistent", 1, 32, 8192, 128, causal=True),
    Shape("mha_persistent", 4, 32, 4096, 64, causal=False),
    Shape("mha_persistent", 4, 32, 4096, 64, causal=True),
)
SMALL = (
    Shape("mha_persistent", 1, 4, 320, 128, causal=True),
    Shape("mha_persistent", 2, 3, 201, 64, causal=False),
)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v [B, H, S, D]."""
    return parts.normal(*[(shape.batch, shape.heads, shape.seq, shape.dim)] * 3)


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


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in parts.UPSTREAM_BLOCKS:
        if blocks != SHIPPED:
            yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, ...]) -> Any:
    file = module("flash_attention/example_mha_fwd_bhsd.py")
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), blocks, strict=True))
    return file.flashattn(
        shape.batch, shape.heads, shape.seq, shape.seq, shape.dim, shape.causal, **named
    )


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    return parts.pytorch_attention(causal=shape.causal)
