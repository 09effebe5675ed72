"""Sinks, with and without a window, beside `attention_sink/example_mha_sink_fwd_bhsd.py`."""

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
    window: int | None = None

    @property
    def flops(self) -> float:
        seen = parts.pairs(self.seq, causal=True, window=self.window)
        return 4.0 * self.batch * self.heads * seen * self.dim

    @property
    def bytes(self) -> float:
        return 2.0 * self.batch * self.heads * self.seq * self.dim * 4

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": True, "windowed": self.window is not None}


SHAPES = (
    Shape("sink", 1, 32, 8192, 128),
    Shape("sink", 1, 32, 8192, 128, window=1024),
    Shape("sink", 4, 32, 4096, 64),
    Shape("sink", 4, 32, 4096, 64, window=1024),
)
SMALL = (Shape("sink", 1, 4, 320, 128, window=100), Shape("sink", 2, 3, 201, 64))


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v [B, H, S, D] and sinks [H]."""
    one = (shape.batch, shape.heads, shape.seq, shape.dim)
    return parts.normal(one, one, one, (shape.heads,))


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.sink.tilelang_kernel import attention

    named: dict[str, Any] = {"tiling": launch.Tiling(**tiling) if tiling else None}
    if shape.window is not None:
        named["window_size"] = shape.window
    return lambda q, k, v, sinks: attention(q, k, v, sinks, **named)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    return parts.dense_sweep(shape.dim, shape.window is not None)


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in parts.UPSTREAM_BLOCKS:
        fits = shape.window is None or shape.window % blocks[1] == 0  # upstream's own condition
        if blocks != SHIPPED and fits:
            yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, ...]) -> Any:
    file = module("attention_sink/example_mha_sink_fwd_bhsd.py")
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), blocks, strict=True))
    return file.flashattn(
        shape.batch, shape.heads, shape.seq, shape.seq, shape.dim, shape.window, **named
    )


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch's fast backends have no sinks."""
    return ()
