"""Paged decoding, beside `blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py`.

tilelang 0.1.15 does not compile that file for a GPU: `benchmarks.gpu.upstream` has what is changed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import repaired
from benchmarks.gpu.variants._latent import einops_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

THEIRS = "blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py"
PAGES = 1024
"""In a cache: as many as upstream has, most of them nobody's."""
PAGE = 256
BLOCK = 64
OUR_CUTS = ((2, 264), (3, 132), (3, 264), (3, 528), (3, 1056), (6, 132), (6, 264))
"""stages and programs."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    kv_heads: int
    seq: int
    """The last sample's length; the others are spread evenly from half of it on."""
    dim: int
    kept: float = 1.0
    """The share of the blocks that are chosen; the last one always is."""
    listed: bool = True
    """Without lists ours reads everything; upstream's kernel then has lists of everything."""

    @property
    def lengths(self) -> list[int]:
        half, steps = self.seq // 2, max(1, self.batch - 1)
        return [self.seq - -(-half * b // steps) for b in range(self.batch)][::-1]

    @property
    def blocks(self) -> list[int]:
        """How many blocks each sample reads."""
        return [max(1, int(-(-length // BLOCK) * self.kept)) for length in self.lengths]

    @property
    def pages(self) -> int:
        """How many there are: few, where a tool watches every store."""
        width = -(-self.seq // PAGE)
        return PAGES if self.seq >= PAGE * 16 else 2 * self.batch * width

    @property
    def flops(self) -> float:
        return 4.0 * self.heads * self.dim * BLOCK * sum(self.blocks)

    @property
    def bytes(self) -> float:
        cache = 4.0 * self.kv_heads * self.dim * BLOCK * sum(self.blocks)
        return cache + 4.0 * self.batch * self.heads * self.dim

    @property
    def key(self) -> dict[str, Any]:
        return {"dim": self.dim, "block_n": BLOCK}


SHAPES = (
    Shape("paged", 8, 32, 8, 8192, 128),  # what upstream's regression test runs
    Shape("paged", 8, 32, 8, 8192, 128, kept=0.25),
    Shape("paged", 1, 32, 8, 65536, 128, listed=False),
)
SMALL = (
    Shape("paged", 2, 8, 2, 700, 128, kept=0.5),
    Shape("paged", 1, 6, 2, 300, 64, listed=False),
)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, K and V in pages, block_table, cache_seqlens, block_indices (descending)."""
    import torch

    pages = (shape.pages, PAGE, shape.kv_heads, shape.dim)
    q, k, v = parts.normal((shape.batch, shape.heads, shape.dim), pages, pages)
    width = -(-shape.seq // PAGE)
    table = torch.randperm(shape.pages, device="cuda")[: shape.batch * width]
    table = table.reshape(shape.batch, width).to(torch.int32)
    lengths = torch.tensor(shape.lengths, dtype=torch.int32, device="cuda")
    return q, k, v, table, lengths, _lists(shape)


def _lists(shape: Shape) -> Any:
    import torch

    heads = (shape.batch, shape.kv_heads)
    indices = torch.full((*heads, -(-shape.seq // BLOCK)), -1, dtype=torch.int32)
    for at in ((b, h) for b in range(heads[0]) for h in range(heads[1])):
        last = -(-shape.lengths[at[0]] // BLOCK) - 1
        some = [last, *(torch.randperm(last)[: shape.blocks[at[0]] - 1]).tolist()]
        indices[at][: len(some)] = torch.tensor(sorted(some, reverse=True))
    return indices.cuda()


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.paged.tilelang_kernel import Tiling, attention

    chosen = Tiling(**tiling) if tiling else None
    return lambda *inputs: attention(
        *inputs[:5], block_indices=inputs[5] if shape.listed else None, tiling=chosen
    )


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    for stages, programs in OUR_CUTS:
        yield {"stages": stages, "programs": programs}


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, None, 2)
    for splits, stages in ((8, 2), (8, 3), (16, 2), (32, 2)):
        yield f"upstream {splits} splits, {stages} stages", partial(_theirs, shape, splits, stages)


def _theirs(shape: Shape, splits: int | None, stages: int) -> Callable[..., Any]:
    """Return upstream's kernel; without `splits`, with as many as its heuristic says."""
    import torch

    with einops_or_none():
        file = repaired(THEIRS)
    b, h, g, d = shape.batch, shape.heads, shape.kv_heads, shape.dim
    blocks = -(-shape.seq // BLOCK)
    if splits is None:
        processors = torch.cuda.get_device_properties(0).multi_processor_count
        splits = file.num_splits_heuristic(
            b * g, processors, blocks, 1, blocks * BLOCK * d * 4, is_causal_or_local=True,
            max_splits=128,
        )  # fmt: skip
    kernel = file.flashattn(b, h, g, d, d, BLOCK, 64, PAGE, stages, 128, PAGES)
    lse = torch.empty(b, h, splits, device="cuda")
    part = torch.empty(b, h, splits, d, device="cuda")
    return lambda q, k, v, table, lengths, lists: kernel(q, k, v, lists, lengths, table, lse, part)


def truth(shape: Shape, *inputs: Any) -> Any:
    """Return what the outputs of the first and the last sample are to be, in float64."""
    import torch

    q, k, v, table, lengths, lists = inputs
    groups = shape.heads // shape.kv_heads
    some, values = sorted({0, shape.batch - 1}), []
    for b in some:
        keys, value = (x[table[b].long()].flatten(0, 1).double() for x in (k, v))
        position = torch.arange(len(keys), device=q.device)
        for head in range(shape.heads):
            g = head // groups
            seen = torch.isin(position // BLOCK, lists[b, g]) & (position < lengths[b])
            scores = keys[seen, g] @ q[b, head].double() * shape.dim**-0.5
            values.append(torch.softmax(scores, 0) @ value[seen, g])
    return torch.tensor(some, device=q.device), torch.stack(values).unflatten(0, (len(some), -1))


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch's attention knows no pages."""
    return ()
