"""A noisy half before a clean one, beside upstream's two files: one length, and packed samples."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module
from benchmarks.gpu.variants import _packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (64, 1, 128)
"""What upstream's functions take: block_size, num_stages, threads. Its files measure nothing."""
THEIR_BLOCKS = ((64, 2, 128), (128, 1, 256), (128, 2, 256))
STEP = 256
"""Upstream wants samples that are multiples of two of its blocks."""


class Shape(NamedTuple):
    variant: str
    samples: int
    heads: int
    longest: int
    """Tokens, noisy and clean."""
    dim: int
    dllm_block: int = 32
    packed: bool = False
    """Whether samples have different lengths, from half the longest on."""

    @property
    def lengths(self) -> list[int]:
        if not self.packed:
            return [self.longest] * self.samples
        most = self.longest // STEP
        return [STEP * n for n in _packed.lengths(self.samples, most, most // 2, "tokens")]

    @property
    def flops(self) -> float:
        return 4.0 * self.heads * sum(map(self._pairs, self.lengths)) * self.dim

    def _pairs(self, length: int) -> int:
        """Return what rows see together: noisy and clean ones of a place see as many."""
        half, block = length // 2, self.dllm_block
        return 2 * sum(min(half, (row // block + 1) * block) for row in range(half))

    @property
    def bytes(self) -> float:
        return float(sum(self.lengths) * self.heads * (4 * 2 * self.dim + 4))

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim}


SHAPES = (
    Shape("block_causal", 1, 32, 8192, 128),
    Shape("block_causal", 4, 32, 4096, 64),
    Shape("block_causal", 1, 32, 8192, 128, dllm_block=4),
    Shape("block_causal", 8, 32, 4096, 128, packed=True),
    Shape("block_causal", 8, 32, 4096, 64, packed=True),
)
SMALL = Shape("block_causal", 3, 4, 768, 128, packed=True)
"""For tools that take long."""


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v [B, S, H, D]; packed, q, k, v [T, H, D] and cu_seqlens."""
    if not shape.packed:
        return parts.normal(*[(shape.samples, shape.longest, shape.heads, shape.dim)] * 3)
    three = parts.normal(*[(sum(shape.lengths), shape.heads, shape.dim)] * 3)
    return (*three, _packed.starts(shape.lengths))


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.block_causal.tilelang_kernel import attention, attention_varlen

    chosen = launch.Tiling(**tiling) if tiling else None
    if not shape.packed:
        return partial(attention, dllm_block=shape.dllm_block, tiling=chosen)
    longest = max(shape.lengths)
    return partial(attention_varlen, dllm_block=shape.dllm_block, max_seqlen=longest, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    return parts.dense_sweep(shape.dim)


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    theirs = _packed_theirs if shape.packed else _theirs
    yield "upstream as shipped", partial(theirs, shape, SHIPPED)
    for blocks in THEIR_BLOCKS:
        yield f"upstream {blocks}", partial(theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, int, int]) -> Any:
    file = module("block_causal_attention/block_causal_attention.py")
    sizes = (shape.samples, shape.heads, shape.longest, shape.dim, shape.dllm_block)
    return file._fwd_template(*sizes, shape.dim**-0.5, *blocks, "float16")  # noqa: SLF001 - forward


def _packed_theirs(shape: Shape, blocks: tuple[int, int, int]) -> Callable[..., Any]:
    file = module("block_causal_attention/block_causal_attention_varlen.py")
    sizes = (shape.samples, shape.heads, shape.dim, shape.dllm_block)
    kernel = file._fwd_varlen_template(*sizes, shape.dim**-0.5, *blocks, "float16")  # noqa: SLF001
    longest = max(shape.lengths)

    def call(q: Any, k: Any, v: Any, starts: Any) -> tuple[Any, Any]:
        import torch

        out = torch.empty_like(q)
        lse = torch.empty(q.shape[1], q.shape[0], device=q.device, dtype=torch.float32)
        kernel(q, k, v, starts, longest, out, lse)
        return out, lse

    return call


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch's fast backends have no masks of blocks."""
    return ()
