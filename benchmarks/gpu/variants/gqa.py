"""Heads that share keys, beside `flash_attention/example_gqa_fwd_bshd.py`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (64, 64, 2, 128)
"""What `run_regression_perf` measures: block_M, block_N, num_stages, threads."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    kv_heads: int
    seq: int
    dim: int
    causal: bool

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.heads * parts.pairs(self.seq, self.causal) * self.dim

    @property
    def bytes(self) -> float:
        return 2.0 * self.batch * self.seq * self.dim * 2 * (self.heads + self.kv_heads)

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": self.causal, "windowed": False}


SHAPES = (
    Shape("gqa", 1, 32, 8, 8192, 128, causal=False),
    Shape("gqa", 1, 32, 8, 8192, 128, causal=True),
    Shape("gqa", 4, 32, 8, 4096, 64, causal=False),
    Shape("gqa", 4, 32, 8, 4096, 64, causal=True),
)
SMALL = (
    Shape("gqa", 1, 8, 2, 320, 128, causal=True),
    Shape("gqa", 2, 6, 2, 201, 64, causal=False),
)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [B, S, H, D], k and v [B, S, Hkv, D]."""
    many = (shape.heads, shape.kv_heads, shape.kv_heads)
    return parts.normal(*((shape.batch, shape.seq, heads, shape.dim) for heads in many))


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.gqa.tilelang_kernel import attention

    chosen = launch.Tiling(**tiling) if tiling else None
    return lambda q, k, v: attention(q, k, v, causal=shape.causal, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    return parts.dense_sweep(shape.dim)


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in parts.UPSTREAM_BLOCKS:
        yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, ...]) -> Any:
    file = module("flash_attention/example_gqa_fwd_bshd.py")
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), blocks, strict=True))
    groups = shape.heads // shape.kv_heads
    return file.flashattn(
        shape.batch, shape.heads, shape.seq, shape.dim, shape.causal, groups=groups, **named
    )


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    return parts.pytorch_attention(causal=shape.causal, bhsd=False, grouped=True)
