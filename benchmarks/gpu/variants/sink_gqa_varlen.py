"""Sink, window, groups and packed samples at once, beside upstream's file for them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.variants import _packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (128, 128, 2, 256)
"""What the file measures itself with: block_M, block_N, num_stages, threads."""


class Shape(NamedTuple):
    variant: str
    samples: int
    heads: int
    kv_heads: int
    longest: int
    dim: int
    causal: bool = True
    window: int | None = None
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
        seen = _packed.pairs(self.queries, self.keys, self.causal, self.window)
        return 4.0 * self.heads * seen * self.dim

    @property
    def bytes(self) -> float:
        rows = sum(self.queries) * self.heads + sum(self.keys) * self.kv_heads
        return 4.0 * rows * self.dim + 8.0 * (self.samples + 1) + 2.0 * self.heads

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": self.causal, "windowed": self.window is not None}


SHAPES = (
    Shape("sink_gqa_varlen", 8, 64, 4, 2048, 128),  # the file's own
    Shape("sink_gqa_varlen", 8, 64, 4, 2048, 128, causal=False),
    Shape("sink_gqa_varlen", 8, 64, 4, 2048, 128, window=512),
    Shape("sink_gqa_varlen", 1, 32, 8, 8192, 128, spread=0),
    Shape("sink_gqa_varlen", 1, 32, 8, 8192, 128, window=1024, spread=0),
    Shape("sink_gqa_varlen", 4, 32, 8, 4096, 64),
    Shape("sink_gqa_varlen", 4, 32, 8, 4096, 64, window=1024),
)
SMALL = Shape("sink_gqa_varlen", 3, 4, 2, 320, 128, window=64, spread=300)
"""For tools that take long: samples of unlike lengths, and rows that see nothing."""


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [Tq, H, D], k and v [Tk, Hkv, D], cu_seqlens_q, cu_seqlens_k and sinks [H]."""
    packed = _packed.inputs(shape.queries, shape.keys, shape.heads, shape.kv_heads, shape.dim)
    return (*packed, *parts.normal((shape.heads,)))


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.sink_gqa_varlen.tilelang_kernel import attention

    named: dict[str, Any] = {"causal": shape.causal, "window_size": shape.window}
    chosen = launch.Tiling(**tiling) if tiling else None
    return partial(attention, **named, max_seqlen_q=max(shape.queries), tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    return parts.dense_sweep(shape.dim, shape.window is not None)


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in parts.UPSTREAM_BLOCKS:
        fits = shape.window is None or shape.window % blocks[1] == 0  # upstream's own condition
        if blocks != SHIPPED and fits:
            yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, ...]) -> Callable[..., Any]:
    file = _packed.their_module("attention_sink/example_gqa_sink_fwd_varlen.py")
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), blocks, strict=True))
    kernel = file.flashattn_sink(
        shape.samples,
        shape.heads // shape.kv_heads,
        sum(shape.queries),
        sum(shape.keys),
        shape.heads,
        shape.dim,
        shape.causal,
        shape.window,
        **named,
    )
    longest = max(shape.queries)
    return lambda q, k, v, q_starts, k_starts, sinks: kernel(
        q, k, v, q_starts, k_starts, longest, sinks
    )


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch's fast backends have no sinks."""
    return ()
