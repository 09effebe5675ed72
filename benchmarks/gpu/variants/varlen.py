"""Packed samples, beside both of upstream's files: a KV head for each head, and shared ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.variants import _packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (128, 128, 2, 256)
"""What both files measure themselves with: block_M, block_N, num_stages, threads."""


class Shape(NamedTuple):
    variant: str
    samples: int
    heads: int
    kv_heads: int
    longest: int
    dim: int
    causal: bool = False
    spread: int = 20
    """How much shorter than the longest a sample may be."""

    @property
    def queries(self) -> list[int]:
        return _packed.lengths(self.samples, self.longest, self.spread, "queries")

    @property
    def keys(self) -> list[int]:
        return _packed.lengths(self.samples, self.longest, self.spread, "keys")

    @property
    def flops(self) -> float:
        seen = _packed.pairs(self.queries, self.keys, self.causal)
        return 4.0 * self.heads * seen * self.dim

    @property
    def bytes(self) -> float:
        rows = sum(self.queries) * self.heads + sum(self.keys) * self.kv_heads
        return 4.0 * rows * self.dim + 8.0 * (self.samples + 1)

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": self.causal}


SHAPES = (
    Shape("varlen", 8, 64, 64, 2048, 128),  # that of example_mha_fwd_varlen.py
    Shape("varlen", 8, 64, 64, 2048, 128, causal=True),
    Shape("varlen", 8, 64, 4, 2048, 128),  # that of example_gqa_fwd_varlen.py
    Shape("varlen", 8, 64, 4, 2048, 128, causal=True),
    Shape("varlen", 1, 32, 32, 8192, 128, spread=0),
    Shape("varlen", 1, 32, 32, 8192, 128, causal=True, spread=0),
    Shape("varlen", 4, 32, 32, 4096, 64),
    Shape("varlen", 4, 32, 32, 4096, 64, causal=True),
    Shape("varlen", 8, 32, 8, 6000, 128, causal=True, spread=4000),
)
SMALL = Shape("varlen", 3, 4, 2, 320, 128, causal=True, spread=300)
"""For tools that take long: samples of unlike lengths, and rows that see nothing."""


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [Tq, H, D], k and v [Tk, Hkv, D], cu_seqlens_q and cu_seqlens_k."""
    return _packed.inputs(shape.queries, shape.keys, shape.heads, shape.kv_heads, shape.dim)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.varlen.tilelang_kernel import attention

    chosen = launch.Tiling(**tiling) if tiling else None
    return partial(attention, causal=shape.causal, max_seqlen_q=max(shape.queries), tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    return parts.dense_sweep(shape.dim)


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in parts.UPSTREAM_BLOCKS:
        if blocks != SHIPPED:
            yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, ...]) -> Callable[..., Any]:
    sizes = (sum(shape.queries), sum(shape.keys), shape.heads, shape.dim, shape.causal)
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), blocks, strict=True))
    if shape.heads == shape.kv_heads:
        file = _packed.their_module("flash_attention/example_mha_fwd_varlen.py")
        kernel = file.flashattn(shape.samples, *sizes, **named)
    else:
        file = _packed.their_module("flash_attention/example_gqa_fwd_varlen.py")
        kernel = file.flashattn(shape.samples, shape.heads // shape.kv_heads, *sizes, **named)
    longest = max(shape.queries)
    return lambda *tensors: kernel(*tensors, longest)


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    grouped = shape.heads != shape.kv_heads
    return _packed.pytorch(max(shape.queries), max(shape.keys), shape.causal, grouped)


def truth(shape: Shape, *inputs: Any) -> Any:
    """Return places and what stands there: upstream's kernels are not the same twice.

    Where a whole tile of queries sees no key, as in the last shape, nothing waits for its Q.
    """
    return _packed.truth(inputs, shape.causal)
