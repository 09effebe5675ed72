"""Vertical-slash attention, beside `minference/example_vertical_slash_sparse_attn.py`.

Lists are made as upstream makes them: diagonals become blocks that begin at any key, neighbours
merge, and columns are those keys that no block has. Both kinds are the nearest 30 and random ones;
upstream chooses them by the scores of random tensors.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 64
NEAREST = 30
OUR_CUTS = {
    (64, False): ((3, 1, 3, 1), (3, 1, 3, 4), (6, 1, 2, 1), (6, 3, 1, 1)),
    (64, True): ((6, 3, 1, 1), (8, 2, 1, 1), (3, 1, 3, 1), (6, 1, 2, 1)),
    (128, False): ((2, 1, 2, 1), (2, 1, 2, 4), (4, 2, 1, 1), (3, 3, 1, 1)),
}
"""stages, sharers, residents and head_group for a head size and few programs or many: what fits."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    seq: int
    dim: int
    vertical: int
    slash: int

    @property
    def tiles(self) -> int:
        return -(-self.seq // BLOCK)

    @property
    def flops(self) -> float:
        """Two products over the pairs that a query sees: columns, and blocks up to the diagonal."""
        import numpy as np

        block_count, block_offset, column_count, _ = lists(self)
        row = np.arange(self.seq).reshape(1, self.tiles, BLOCK, 1)
        seen = np.clip(row - block_offset[:, :, None] + 1, 0, BLOCK).sum(axis=2)
        listed = np.arange(self.slash) < block_count[..., None]
        pairs = self.batch * (seen[listed].sum() + BLOCK * column_count.sum())
        return float(4 * pairs * self.dim)

    @property
    def bytes(self) -> float:
        block_count, _, column_count, _ = lists(self)
        entries = block_count.sum() + column_count.sum() + 2 * block_count.size
        numbers = 4 * self.heads * self.seq * self.dim
        return float(self.batch * (2 * numbers + 4 * entries))

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "few": self.batch * self.heads * self.tiles <= 1024}


SHAPES = (
    Shape("vertical_slash", 1, 32, 8192, 128, vertical=1000, slash=200),
    Shape("vertical_slash", 4, 32, 4096, 64, vertical=500, slash=100),
    Shape("vertical_slash", 1, 1, 16384, 64, vertical=1000, slash=200),  # upstream's own
)
SMALL = (
    Shape("vertical_slash", 1, 4, 320, 64, vertical=100, slash=40),
    Shape("vertical_slash", 2, 2, 256, 128, vertical=70, slash=35),
)


@cache
def lists(shape: Shape) -> tuple[Any, Any, Any, Any]:
    """Return block counts [H, n], offsets [H, n, slash], column counts, and indices: one sample."""
    import numpy as np

    rng = np.random.default_rng(8)
    counts = (shape.heads, shape.tiles)
    block_count, column_count = np.zeros((2, *counts), np.int32)
    block_offset = np.zeros((*counts, shape.slash), np.int32)
    column_index = np.zeros((*counts, shape.vertical), np.int32)
    for head in range(shape.heads):
        vertical, slash = (_chosen(rng, shape.seq, n) for n in (shape.vertical, shape.slash))
        for tile in range(shape.tiles):
            at = head, tile
            starts = _blocks(slash, (tile + 1) * BLOCK)
            single = vertical[vertical < starts[-1]]
            before = starts[np.maximum(np.searchsorted(starts, single, "right") - 1, 0)]
            single = single[(single < before) | (single >= before + BLOCK)]
            block_count[at], column_count[at] = len(starts), len(single)
            block_offset[at][: len(starts)] = starts
            column_index[at][: len(single)] = single
    return block_count, block_offset, column_count, column_index


def _chosen(rng: Any, seq: int, many: int) -> Any:
    """Return numbers below `seq` in order: the first ones and random ones."""
    import numpy as np

    more = rng.permutation(np.arange(NEAREST, seq))[: many - NEAREST]
    return np.sort(np.concatenate([np.arange(NEAREST), more]))


def _blocks(slash: Any, end: int) -> Any:
    """Return the first keys of the blocks that diagonals pass through, for queries up to `end`."""
    import numpy as np

    ends = np.unique(np.maximum(end - slash[slash < end], BLOCK))
    starts: list[int] = []
    covered = 0
    for last in ends.tolist():
        if last > covered + BLOCK or not starts:
            covered = last
        elif last > covered:
            covered += BLOCK
        else:
            continue
        starts.append(covered - BLOCK)
    return np.array(starts, np.int32)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v [B, H, S, D], and counts and lists, the same for every sample."""
    import torch

    sizes = (shape.batch, shape.heads, shape.seq, shape.dim)
    tables = (
        torch.from_numpy(x)[None].repeat(shape.batch, *[1] * x.ndim).cuda() for x in lists(shape)
    )
    return (*parts.normal(*[sizes] * 3), *tables)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.vertical_slash.tilelang_kernel import Tiling, attention

    chosen = Tiling(**tiling) if tiling else None
    return lambda *inputs: attention(*inputs, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    for stages, sharers, residents, group in OUR_CUTS[shape.dim, shape.key["few"]]:
        yield {
            "stages": stages,
            "sharers": sharers,
            "residents": residents,
            "head_group": group,
        }


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Upstream's kernel has its block shape built in."""
    yield "upstream as shipped", lambda: _theirs(shape)


def _theirs(shape: Shape) -> Callable[..., Any]:
    build = module("minference/example_vertical_slash_sparse_attn.py")._tl_vs_sparse_flashattn  # noqa: SLF001 - the kernel itself; its wrapper makes the lists, too
    made: Callable[..., Any] = build(
        shape.batch, shape.heads, shape.seq, shape.dim, shape.vertical, shape.slash
    )
    return made


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """PyTorch has no attention that reads such lists."""
    yield from ()
