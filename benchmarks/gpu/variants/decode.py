"""Decoding with splits, beside `flash_decoding/example_gqa_decode.py`, which always has a mask."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (128, 64, 8, 2, 128)
"""Upstream's heuristic for Hopper: block_N, block_H, num_split, num_stages, threads."""
THEIR_BLOCKS = ((128, 64, 16, 2, 128), (64, 64, 16, 3, 128), (64, 64, 32, 2, 128))
OUR_CUTS = (
    (64, 2, 264), (64, 3, 132), (64, 3, 264), (64, 3, 528), (64, 6, 132),
    (128, 2, 132), (128, 2, 264), (128, 3, 132),
)  # fmt: skip
"""block_n, stages and programs."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    kv_heads: int
    seq: int
    dim: int
    masked: bool = True
    """Without, ours reads no mask, and upstream's reads one that hides nothing."""

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.heads * self.seq * self.dim

    @property
    def bytes(self) -> float:
        keys = self.batch * self.seq * self.kv_heads
        return 2.0 * (2 * keys + 2 * self.batch * self.heads) * self.dim + keys * self.masked

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim}


SHAPES = (
    Shape("decode", 1, 32, 8, 65536, 128),
    Shape("decode", 1, 32, 8, 65536, 128, masked=False),
    Shape("decode", 16, 32, 8, 8192, 128),
)
SMALL = (Shape("decode", 2, 8, 2, 700, 128), Shape("decode", 1, 6, 2, 201, 64, masked=False))


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [B, H, D], k and v [B, S, Hkv, D] and, with a mask, one of ones [B, S, Hkv]."""
    keys = (shape.batch, shape.seq, shape.kv_heads)
    made = parts.normal((shape.batch, shape.heads, shape.dim), *[(*keys, shape.dim)] * 2)
    return (*made, _ones(shape)) if shape.masked else made


def _ones(shape: Shape) -> Any:
    import torch

    keys = (shape.batch, shape.seq, shape.kv_heads)
    return torch.ones(*keys, device="cuda", dtype=torch.uint8)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.decode.tilelang_kernel import attention

    chosen = launch.Splitting(**tiling) if tiling else None
    return lambda *inputs: attention(*inputs, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    for block_n, stages, programs in OUR_CUTS:
        yield {"block_n": block_n, "stages": stages, "programs": programs}


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in THEIR_BLOCKS:
        yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, ...]) -> Callable[..., Any]:
    file = module("flash_decoding/example_gqa_decode.py")
    kernel = file.flashattn(shape.batch, shape.heads, shape.kv_heads, shape.seq, shape.dim, *blocks)
    ones = _ones(shape)
    return lambda q, k, v, mask=ones: kernel(q, k, v, mask)


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch's fast backends do not split the keys of one query."""
    return ()
