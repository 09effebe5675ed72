"""Block-sparse attention, beside `blocksparse_attention/example_tilelang_block_sparse_attn.py`.

Tables are made as upstream makes them: the `topk` best of random scores in each row, the first
block always among them, cut to the past afterwards. Upstream's kernel hangs on such shapes without
the barriers of `repairs`; with them, it is what stands in the table.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.repairs import together
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 64
"""Upstream's, the only one it has; so is the causal mask with such tables."""
OUR_CUTS = {
    128: ((2, 2, 1, True), (2, 2, 4, True), (3, 1, 1, True), (5, 1, 1, True)),
    64: ((3, 3, 1, True), (3, 3, 4, True), (4, 3, 1, True), (5, 2, 1, True)),
}
"""stages, residents, head_group and listed for a head size: what fits."""
FEW_CUTS = ((3, 3, 1, False), (3, 3, 1, True), (4, 2, 1, True))
"""The same where there are few blocks."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    seq: int
    dim: int
    topk: int

    @property
    def tiles(self) -> int:
        return -(-self.seq // BLOCK)

    @property
    def flops(self) -> float:
        """Two products over the pairs that a query sees; on the diagonal, half a block."""
        on = table(self)
        diagonal = on.diagonal(axis1=2, axis2=3).sum()
        pairs = (on.sum() - diagonal) * BLOCK**2 + diagonal * BLOCK * (BLOCK + 1) / 2
        return float(4 * pairs * self.dim)

    @property
    def bytes(self) -> float:
        numbers = 4.0 * self.batch * self.heads * self.seq * self.dim
        return 2 * numbers + self.batch * self.heads * self.tiles**2

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "block": BLOCK, "few": self.tiles <= 8}


SHAPES = (
    Shape("block_sparse", 1, 32, 8192, 128, topk=16),
    Shape("block_sparse", 1, 32, 8192, 128, topk=64),
    Shape("block_sparse", 4, 32, 4096, 64, topk=16),
    Shape("block_sparse", 1, 32, 256, 64, topk=2),  # upstream's own
)
SMALL = (
    Shape("block_sparse", 1, 4, 320, 128, topk=3),
    Shape("block_sparse", 2, 2, 700, 64, topk=5),
)


@cache
def table(shape: Shape) -> Any:
    """Return which blocks are on, [B, H, n, n]."""
    import numpy as np

    rng = np.random.default_rng(8)
    scores = rng.random((shape.batch, shape.heads, shape.tiles, shape.tiles))
    scores[..., 0] = 2  # more than any other
    best = np.argsort(-scores, axis=-1)[..., : shape.topk]
    on = np.zeros(scores.shape, bool)
    np.put_along_axis(on, best, True, axis=-1)
    return np.tril(on)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v [B, H, S, D] and the table."""
    import torch

    sizes = (shape.batch, shape.heads, shape.seq, shape.dim)
    return (*parts.normal(*[sizes] * 3), torch.from_numpy(table(shape)).cuda())


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.block_sparse.tilelang_kernel import Tiling, attention

    chosen = Tiling(**tiling) if tiling else None
    return lambda *inputs: attention(*inputs, causal=True, block=BLOCK, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    cuts = FEW_CUTS if shape.key["few"] else OUR_CUTS[shape.dim]
    for stages, residents, group, listed in cuts:
        yield {
            "stages": stages,
            "residents": residents,
            "head_group": group,
            "listed": listed,
        }


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", lambda: _theirs(shape)


def _theirs(shape: Shape) -> Callable[..., Any]:
    """Return upstream's kernel, which has its block shape built in.

    With a table whose size is a multiple of 8 it does not compile (tilelang 0.1.15); a block more,
    which it never looks at, is added before the time is taken.
    """
    import torch

    size = shape.tiles + (shape.tiles % 8 == 0)
    file = module("blocksparse_attention/example_tilelang_block_sparse_attn.py")
    with together(file.blocksparse_flashattn):
        kernel = file.blocksparse_flashattn(
            shape.batch, shape.heads, shape.seq, shape.dim, size, is_causal=True
        )
    more = size - shape.tiles
    padded = torch.nn.functional.pad(torch.from_numpy(table(shape)), (0, more, 0, more)).cuda()
    return lambda q, k, v, _table: kernel(q, k, v, padded)


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """PyTorch's attention takes a mask over elements, 2 GB of it here: nobody would call that."""
    yield from ()
