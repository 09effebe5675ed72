"""The lightning indexer's scores, beside `deepseek_v32/fp8_lighting_indexer.py`.

Upstream computes them in one kernel and hides what is out of range in a second; both are measured.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 8
RATE = 2
"""Hopper's tensor cores multiply twice as many numbers of 8 bits as of 16."""
SHIPPED: dict[str, Any] = {}
"""Upstream's interface leaves its kernel's defaults: 256 keys, 3 stages, 512 threads."""
THEIR_BLOCKS: tuple[dict[str, Any], ...] = (
    {"block_N": 128, "num_stages": 3, "threads": 256},
    {"block_N": 128, "num_stages": 2, "threads": 256},
    {"block_N": 256, "num_stages": 2, "threads": 512},
)
OUR_CUTS = (
    (2, 4, 256, 64, 2),
    (2, 4, 256, 64, 3),
    (2, 4, 256, 128, 2),
    (2, 8, 256, 64, 2),
    (2, 2, 256, 64, 3),
    (4, 2, 128, 64, 3),
    (3, 4, 128, 64, 3),
)
"""groups, tiles, columns, queries and stages."""


class Shape(NamedTuple):
    variant: str
    queries: int
    keys: int
    heads: int
    dim: int
    packed: bool = False
    """Ranges are those of packed samples, as upstream makes them; else the last query sees all."""

    @property
    def flops(self) -> float:
        starts, ends = ranges(self)
        pairs = (ends.clip(max=self.keys) - starts).clip(min=0).sum()
        return float(2 * pairs * self.heads * self.dim)

    @property
    def bytes(self) -> float:
        read = self.queries * self.heads * (self.dim + 4) + self.keys * (self.dim + 4)
        return float(read + 8 * self.queries + 4 * self.queries * self.keys)

    @property
    def key(self) -> dict[str, Any]:
        return {"heads": self.heads, "dim": self.dim, "dtype": "float8_e4m3fn"}


SHAPES = (
    Shape("indexer", 4096, 8192, 64, 128),
    Shape("indexer", 2048, 32768, 64, 128),
    Shape("indexer", 4096, 8192, 32, 64),
    Shape("indexer", 4096, 8192, 32, 64, packed=True),  # upstream's own
)
SMALL = (
    Shape("indexer", 70, 700, 64, 128),
    Shape("indexer", 70, 700, 32, 64, packed=True),
)


@cache
def ranges(shape: Shape) -> tuple[Any, Any]:
    """Return the first key of each query, and one past its last, as int32."""
    import numpy as np

    if not shape.packed:
        ends = np.arange(shape.keys - shape.queries, shape.keys, dtype=np.int32) + 1
        return np.zeros_like(ends), ends
    # The fourth of four devices has a piece in the middle and one behind it, of samples of 2048
    # tokens on average.
    total, piece = 4 * shape.queries, shape.queries // 2
    rng = np.random.default_rng(SEED)
    firsts = np.concatenate([[0], rng.integers(0, 4096, 64).cumsum()])
    token = np.concatenate([np.arange(piece) + 3 * piece, np.arange(piece) + total - 4 * piece])
    starts = firsts[np.searchsorted(firsts, token, "right") - 1]
    return starts.astype(np.int32), (token + 1).astype(np.int32)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [M, H, D] and k [N, D] in fp8, scales, weights, and where ranges begin and end."""
    import torch

    torch.manual_seed(SEED)
    q = torch.randn(shape.queries, shape.heads, shape.dim, device="cuda")
    k = torch.randn(shape.keys, shape.dim, device="cuda")
    scale = k.abs().amax(dim=1).clamp(min=1e-4) / 448
    weights = torch.randn(shape.queries, shape.heads, device="cuda")
    eights = (x.to(torch.float8_e4m3fn) for x in (q, k / scale[:, None]))
    starts, ends = (torch.from_numpy(x).cuda() for x in ranges(shape))
    return (*eights, scale, weights, starts, ends)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.indexer.tilelang_kernel import Tiling, logits

    chosen = Tiling(**tiling) if tiling else None
    return lambda *inputs: logits(*inputs, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    names = ("groups", "tiles", "columns", "queries", "stages")
    for cut in OUR_CUTS:
        yield dict(zip(names, cut, strict=True))


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", lambda: _theirs(SHIPPED)
    for blocks in THEIR_BLOCKS:
        yield f"upstream {' '.join(map(str, blocks.values()))}", partial(_theirs, blocks)


def _theirs(blocks: dict[str, Any]) -> Callable[..., Any]:
    """Return what upstream's interface does, with other blocks."""
    file = module("deepseek_v32/fp8_lighting_indexer.py")

    def call(q: Any, k: Any, scale: Any, weights: Any, starts: Any, ends: Any) -> Any:
        flat = q.view(-1, q.shape[2])
        scores = file.mqa_attn_return_logits(flat, k, scale, weights, starts, ends, **blocks)
        file.clean_logits_(scores, starts, ends)
        return scores

    return call


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """PyTorch would write the products of all heads to memory: nobody would call that."""
    yield from ()
