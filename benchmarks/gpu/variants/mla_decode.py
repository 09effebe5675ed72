"""Decoding with MLA, beside `deepseek_mla/example_mla_decode.py` and its other schedule."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module
from benchmarks.gpu.variants._latent import einops_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLAIN = "deepseek_mla/example_mla_decode.py"
SPECIALISED = "deepseek_mla/example_mla_decode_ws.py"
"""Two warp groups that compute and one that copies; wants tiles of 64 heads."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    seq: int

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.heads * self.seq * (576 + 512)

    @property
    def bytes(self) -> float:
        return 2.0 * self.batch * (self.seq * 576 + self.heads * (576 + 512))

    @property
    def key(self) -> dict[str, Any]:
        return {"few_heads": self.heads <= 16, "many": self.tiles >= 128}

    @property
    def tiles(self) -> int:
        return self.batch * -(-self.heads // 64)


SHAPES = (
    Shape("mla_decode", 132, 128, 8192),  # what upstream's file runs by default
    Shape("mla_decode", 1, 128, 8192),  # what its regression test runs
    Shape("mla_decode", 4, 16, 65536),  # an eighth of the heads, as with eight GPUs
    Shape("mla_decode", 64, 16, 8192),
)
SMALL = (Shape("mla_decode", 2, 70, 320), Shape("mla_decode", 2, 5, 320))


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [B, H, 512], q_pe [B, H, 64], kv [B, S, 1, 512] and k_pe [B, S, 1, 64]."""
    b, h, s = shape.batch, shape.heads, shape.seq
    return parts.normal((b, h, 512), (b, h, 64), (b, s, 1, 512), (b, s, 1, 64))


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.mla_decode.tilelang_kernel import Tiling, attention

    chosen = Tiling(**tiling) if tiling else None
    return lambda *inputs: attention(*inputs, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    if shape.heads <= 16:
        for programs in (128, 132):
            yield {"programs": programs, "lag": 2, "columns": True}
        yield {"programs": 132, "lag": 0, "columns": False}
        return
    for programs in (132,) if shape.tiles >= 128 else (66, 88, 132):
        for lag in (1, 2):
            yield {"programs": programs, "lag": lag, "columns": False}


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Yield upstream's, with as many splits as fill the GPU once and twice.

    Each split has to have an even number of blocks of 64 keys.
    """
    yield "upstream as shipped", partial(_plain, shape, 1)
    for programs in (128, 256):
        splits = max(1, programs // shape.tiles)
        if splits > 1:
            yield f"upstream {splits} splits", partial(_plain, shape, splits)
        if shape.heads >= 64:
            yield f"upstream specialised, {splits} splits", partial(_specialised, shape, splits)
        if splits == 1:
            return


def _sizes(shape: Shape, splits: int) -> tuple[Any, ...]:
    b, h, s = shape.batch, shape.heads, shape.seq
    return b, h, 1, s, 512, 64, 64, min(64, h), splits, 576**-0.5


def _plain(shape: Shape, splits: int) -> Callable[..., Any]:
    with einops_or_none():
        file = module(PLAIN)
    kernel: Callable[..., Any] = file.flashattn(*_sizes(shape, splits))
    return kernel


def _specialised(shape: Shape, splits: int) -> Callable[..., Any]:
    import torch

    with einops_or_none():
        file = module(SPECIALISED)
    kernel = file.flashattn(*_sizes(shape, splits))
    made = {"device": "cuda", "dtype": torch.float16}
    lse = torch.empty(shape.batch, shape.heads, splits, **made)
    part = torch.empty(shape.batch, shape.heads, splits, 512, **made)
    return lambda *inputs: kernel(*inputs, lse, part)


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch's fast backends have no head size of 576."""
    return ()
