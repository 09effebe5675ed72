"""A sliding window; upstream's has sinks (`attention_sink/example_mha_sink_fwd_bhsd.py`).

Its kernel runs with sinks that weigh nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (128, 128, 2, 256)
"""What `run_regression_perf` measures: block_M, block_N, num_stages, threads."""
NOTHING = -60000.0
"""The logit of a sink that takes no weight."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    seq: int
    dim: int
    window: int

    @property
    def flops(self) -> float:
        seen = parts.pairs(self.seq, causal=True, window=self.window)
        return 4.0 * self.batch * self.heads * seen * self.dim

    @property
    def bytes(self) -> float:
        return 2.0 * self.batch * self.heads * self.seq * self.dim * 4

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "causal": True, "windowed": True}


SHAPES = (
    Shape("window", 1, 32, 8192, 128, window=1024),
    Shape("window", 4, 32, 4096, 64, window=1024),
)
SMALL = (Shape("window", 1, 4, 320, 128, window=100), Shape("window", 2, 3, 201, 64, window=20))


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v [B, H, S, D]."""
    return parts.normal(*[(shape.batch, shape.heads, shape.seq, shape.dim)] * 3)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels import launch
    from kernels.window.tilelang_kernel import attention

    chosen = launch.Tiling(**tiling) if tiling else None
    return lambda q, k, v: attention(q, k, v, window_size=shape.window, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    return parts.dense_sweep(shape.dim, windowed=True)


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in parts.UPSTREAM_BLOCKS:
        if blocks != SHIPPED and shape.window % blocks[1] == 0:  # upstream's own condition
            yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, ...]) -> Callable[..., Any]:
    import torch

    file = module("attention_sink/example_mha_sink_fwd_bhsd.py")
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), blocks, strict=True))
    kernel = file.flashattn(
        shape.batch, shape.heads, shape.seq, shape.seq, shape.dim, shape.window, **named
    )
    none = torch.full((shape.heads,), NOTHING, device="cuda", dtype=torch.float16)
    return lambda q, k, v: kernel(q, k, v, none)


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch's fast backends have no window."""
    return ()
