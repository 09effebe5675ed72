"""Sparse MLA, beside `deepseek_v32/sparse_mla_fwd.py` and its other schedule."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLAIN = "deepseek_v32/sparse_mla_fwd.py"
PIPELINED = "deepseek_v32/sparse_mla_fwd_pipelined.py"
"""Two warp groups that compute and one that gathers. Takes a position of the first query.

Where a token is hidden it leaves in shared memory what it finds there, which may be NaN: it is
measured where lists are full of visible tokens. It writes no lse."""
THEIR_BLOCKS = ((64, 1, 256), (32, 2, 256))
"""block_I, num_stages and threads of the first file, beside those that it is shipped with."""


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    seq: int
    tokens: int
    topk: int
    first: int = 0
    """The position of the first query. It sees as many tokens, the next one more."""

    @property
    def pairs(self) -> int:
        """How many tokens all queries of a sample attend to."""
        return sum(min(max(1, self.first + s), self.topk) for s in range(self.seq))

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.heads * self.pairs * (576 + 512)

    @property
    def bytes(self) -> float:
        halves = self.seq * self.heads * (576 + 512) + self.tokens * 576
        return self.batch * (2.0 * halves + 4.0 * self.seq * (self.topk + self.heads))

    @property
    def key(self) -> dict[str, Any]:
        return {"few_heads": self.heads <= 32}


SHAPES = (
    Shape("sparse_mla", 1, 128, 4096, 8192, 2048),  # what upstream's regression test runs
    Shape("sparse_mla", 1, 16, 4096, 8192, 2048),  # an eighth of the heads, as with eight GPUs
    Shape("sparse_mla", 1, 128, 1024, 8192, 2048, first=4096),  # full lists, the other schedule
)
SMALL = Shape("sparse_mla", 1, 70, 5, 320, 200, first=300)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q [B, S, H, 576], kv [B, N, 1, 576], and indices [B, S, 1, topk].

    As upstream does, indices are tokens before the query in any order, and past the end where there
    are too few.
    """
    import torch

    b, s, n = shape.batch, shape.seq, shape.tokens
    q, kv = parts.normal((b, s, shape.heads, 576), (b, n, 1, 576), dtype="bfloat16")
    seen = torch.arange(s, device="cuda").add(shape.first).clamp(1, n)
    draw = torch.rand(b, s, n, device="cuda")
    draw.masked_fill_(torch.arange(n, device="cuda") >= seen[:, None], -1.0)
    found, indices = draw.topk(shape.topk, dim=2)
    indices = indices.masked_fill(found < 0, n).to(torch.int32)
    return q, kv, indices[:, :, None].contiguous()


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.sparse_mla.tilelang_kernel import Tiling, attention

    chosen = Tiling(**tiling) if tiling else None
    return lambda *inputs: attention(*inputs, first=shape.first, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    for lag in (0, 1, 2):
        yield {"lag": lag}


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Yield upstream's. The first file has its queries at the beginning."""
    if shape.first:
        yield "upstream as shipped", partial(_pipelined, shape)
        return
    yield "upstream as shipped", partial(_plain, shape, (64, 2, 256))
    for blocks in THEIR_BLOCKS:
        yield f"upstream {blocks}", partial(_plain, shape, blocks)


def _plain(shape: Shape, blocks: tuple[int, int, int]) -> Callable[..., Any]:
    forward = module(PLAIN).sparse_mla_fwd
    named = dict(zip(("block_I", "num_stages", "threads"), blocks, strict=True))
    return lambda q, kv, indices: forward(
        q, kv, indices, shape.heads, 512, 64, shape.topk, 1, None, True, **named
    )


def _pipelined(shape: Shape) -> Callable[..., Any]:
    import torch

    forward = module(PIPELINED).sparse_mla_fwd
    first = torch.tensor([shape.first], dtype=torch.int32, device="cuda")
    return lambda q, kv, indices: forward(
        q, kv, indices, first, shape.heads, 512, 64, shape.topk, 1, 1, None, True, False
    )


def truth(shape: Shape, q: Any, kv: Any, indices: Any) -> Any:
    """Return what the outputs of some queries are to be, in float64, and nothing for the lse."""
    import torch

    some = torch.linspace(0, shape.seq - 1, 9, device=q.device).long()
    values = [_one(q[0, s], kv[0, :, 0], indices[0, s, 0], shape.first + s) for s in some.tolist()]
    return ((0, some), torch.stack(values)), None


def _one(q: Any, kv: Any, listed: Any, position: int) -> Any:
    """Return the output of one query in float64."""
    import torch

    keys = kv[listed[listed <= position].long()].double()
    scores = q.double() @ keys.T * 576**-0.5
    return torch.softmax(scores, -1) @ keys[:, :512]


def pytorch(shape: Shape) -> tuple[()]:
    """PyTorch has no attention to listed tokens."""
    return ()
