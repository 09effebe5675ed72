"""What the two forms of full and causal attention share: upstream has one file for both."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = (128, 128, 2, 256)
"""What `run_regression_perf` measures: block_M, block_N, num_stages, threads."""


class Dense(NamedTuple):
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


LARGE = tuple(
    (*sizes, causal)
    for sizes in ((1, 32, 8192, 128), (4, 32, 4096, 64))
    for causal in (False, True)
)
SMALL = ((1, 4, 320, 128, True), (2, 3, 201, 64, False))
"""batch, heads, seq, dim, causal: what is measured, and what slow tools look at."""


def inputs(shape: Dense) -> tuple[Any, ...]:
    """Return q, k, v [B, H, S, D]."""
    return parts.normal(*[(shape.batch, shape.heads, shape.seq, shape.dim)] * 3)


def upstream(shape: Dense) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED)
    for blocks in parts.UPSTREAM_BLOCKS:
        if blocks != SHIPPED:
            yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Dense, blocks: tuple[int, ...]) -> Any:
    file = module("flash_attention/example_mha_fwd_bhsd.py")
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), blocks, strict=True))
    return file.flashattn(
        shape.batch, shape.heads, shape.seq, shape.seq, shape.dim, shape.causal, **named
    )


def pytorch(shape: Dense) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    return parts.pytorch_attention(causal=shape.causal)
