"""Native sparse attention, beside `deepseek_nsa/example_tilelang_nsa_fwd.py`.

Lists are made as upstream makes them: random blocks from before the query's own, and a number that
is no block where there are too few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Shape(NamedTuple):
    variant: str
    batch: int
    seq: int
    heads: int
    kv_heads: int
    dim: int
    listed: int
    block_size: int

    @property
    def flops(self) -> float:
        """Two products over the keys that are listed: whole blocks, all of them in the past."""
        import numpy as np

        before = np.maximum(np.arange(self.seq) // self.block_size, 1)
        blocks = np.minimum(before, self.listed)
        early = np.minimum(np.arange(self.seq) + 1, self.block_size)  # block 0 while it is new
        keys = np.where(np.arange(self.seq) < self.block_size, early, blocks * self.block_size)
        return float(4 * self.batch * self.heads * keys.sum() * self.dim)

    @property
    def bytes(self) -> float:
        numbers = 2 * self.batch * self.seq * (self.heads + self.kv_heads) * self.dim
        return 2.0 * numbers + 4 * self.batch * self.seq * self.kv_heads * self.listed

    @property
    def key(self) -> dict[str, Any]:
        short = self.seq <= min(128, 4 * self.block_size)  # the kernel's fits_whole
        return {"dim": self.dim, "block_size": self.block_size, "short": short}


SHAPES = (
    Shape("nsa", 1, 8192, 64, 4, 128, listed=16, block_size=64),
    Shape("nsa", 32, 1024, 16, 1, 128, listed=16, block_size=32),  # the default of its benchmark
    Shape("nsa", 2, 2048, 256, 16, 64, listed=16, block_size=64),  # one of those it runs
    Shape("nsa", 2, 64, 16, 1, 32, listed=1, block_size=32),  # of its run_regression_perf
)
SMALL = (
    Shape("nsa", 1, 330, 32, 2, 128, listed=4, block_size=64),
    Shape("nsa", 2, 70, 16, 1, 32, listed=1, block_size=32),
)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [B, S, H, D], k and v [B, S, G, D], and the lists [B, S, G, n]."""
    head = (shape.batch, shape.seq, shape.kv_heads)
    many = parts.normal((*head[:2], shape.heads, shape.dim), *[(*head, shape.dim)] * 2)
    return (*many, lists(shape))


def lists(shape: Shape) -> Any:
    import torch

    blocks = -(-shape.seq // shape.block_size)
    torch.manual_seed(parts.SEED)
    order = torch.rand(
        shape.batch, shape.seq, shape.kv_heads, max(blocks, shape.listed), device="cuda"
    )
    number = torch.arange(order.shape[3], device="cuda")
    before = (torch.arange(shape.seq, device="cuda") // shape.block_size).clamp(min=1)
    later = number >= before[None, :, None, None]
    place = (order + later).argsort(dim=-1)[..., : shape.listed]
    place = place.masked_fill(place >= before[None, :, None, None], shape.seq)
    return place.sort(dim=-1).values.to(torch.int32).contiguous()


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.nsa.tilelang_kernel import Tiling, attention

    chosen = Tiling(**tiling) if tiling else None
    return lambda *inputs: attention(*inputs, block_size=shape.block_size, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    """Yield tilings: at most 72 KB for three programs, 112 KB for two, 226 KB for one."""
    if shape.key["short"]:
        for queries in (1, 2, 4):
            yield {"queries": queries, "whole": True}
        yield {"stages": 2, "residents": 2, "queries": 4}
        return
    block = 4 * shape.block_size * shape.dim  # a block of keys and one of values, in bytes
    for residents, room in ((3, 72_000), (2, 112_000), (1, 200_000)):
        most = min(6, (room - 128 * shape.dim - 12 * (shape.seq // shape.block_size)) // block)
        if residents == 3 and shape.dim == 128:  # wgmma needs more registers
            continue
        for stages in sorted({min(2, most), min(3, most), most} - {0, 1}):
            yield {"stages": stages, "residents": residents, "queries": 4}
    for queries in (1, 2):
        yield {"stages": 2, "residents": 2, "queries": queries}


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Upstream's file has no block shapes to choose from: 32 threads, two stages."""
    yield "upstream as shipped", lambda: _theirs(shape)


def _theirs(shape: Shape) -> Callable[..., Any]:
    kernel = module("deepseek_nsa/example_tilelang_nsa_fwd.py").native_sparse_attention
    named = {
        "dim": shape.dim,
        "is_causal": True,
        "block_size": shape.block_size,
        "groups": shape.heads // shape.kv_heads,
        "selected_blocks": shape.listed,
    }
    return lambda *inputs: kernel(*inputs, **named)


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """PyTorch has no attention that reads lists of blocks."""
    yield from ()
