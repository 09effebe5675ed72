"""The gradients of attention beside `flash_attention/example_mha_bwd_bhsd.py`: all their kernels.

Everybody gets q, k, v, the output, the logarithms of the sums (to the base of 2, as upstream has
them, too) and the gradient of the output, and makes those of q, k and v. PyTorch's backends get
them through autograd, whose forward has been.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = {64: (64, 64), 128: (64, 32)}
"""What upstream's `_attention.backward` takes for a head size: block_M (keys), block_N."""
UPSTREAM_BLOCKS = ((64, 32), (64, 64), (128, 32), (64, 128))


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    seq: int
    dim: int
    causal: bool

    @property
    def flops(self) -> float:
        """Five products: scores, dP, dV, dK and dQ."""
        return 10.0 * self.batch * self.heads * parts.pairs(self.seq, self.causal) * self.dim

    @property
    def bytes(self) -> float:
        """Five tensors and a number for each query in, three out."""
        return self.batch * self.heads * self.seq * (2.0 * self.dim * 8 + 4)

    @property
    def key(self) -> dict[str, Any]:
        few = self.batch * self.heads * -(-self.seq // 128) < 132
        return {"dim": self.dim, "causal": self.causal, "few": few}


SHAPES = (
    Shape("mha_backward", 1, 32, 8192, 128, causal=False),
    Shape("mha_backward", 1, 32, 8192, 128, causal=True),
    Shape("mha_backward", 4, 32, 4096, 64, causal=False),
    Shape("mha_backward", 4, 32, 4096, 64, causal=True),
    Shape("mha_backward", 8, 32, 1024, 64, causal=False),  # that of upstream's main
    Shape("mha_backward", 1, 16, 512, 64, causal=False),  # that of `run_regression_perf`
)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v, out, lse, do: [B, H, S, D], and lse [B, H, S]."""
    from kernels.mha.tilelang_backward import forward

    size = (shape.batch, shape.heads, shape.seq, shape.dim)
    q, k, v, do = parts.normal(*[size] * 4)
    return (q, k, v, *forward(q, k, v, causal=shape.causal), do)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.mha.tilelang_backward import Backward, backward

    chosen = Backward(**tiling) if tiling else None
    return partial(backward, causal=shape.causal, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    """Yield tilings without spills: all but the first need registers that head size 128 has not."""
    cuts = [(64, 128, False)]
    if shape.dim == 64:
        cuts += [(64, 128, True), (128, 128, False), (64, 64, True)]
    for block_q, block_kv, ahead in cuts:
        for stages, group in ((2, 1), (2, 8), (3 if shape.dim == 64 else 2, 4)):
            cut = {"block_q": block_q, "block_kv": block_kv, "stages": stages}
            yield {**cut, "head_group": group, "ahead": ahead}


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED[shape.dim])
    for blocks in UPSTREAM_BLOCKS:
        if blocks != SHIPPED[shape.dim]:
            yield f"upstream {blocks}", partial(_theirs, shape, blocks)


def _theirs(shape: Shape, blocks: tuple[int, int]) -> Callable[..., Any]:
    import torch

    file = module("flash_attention/example_mha_bwd_bhsd.py")
    sizes = (shape.batch, shape.heads, shape.seq, shape.dim)
    prepare = file.flashattn_bwd_preprocess(*sizes)
    main = file.flashattn_bwd(*sizes, shape.causal, *blocks)
    finish = file.flashattn_bwd_postprocess(*sizes)

    def call(q: Any, k: Any, v: Any, out: Any, lse: Any, do: Any) -> Any:
        delta = prepare(out, do)
        dq = torch.zeros(sizes, dtype=torch.float32, device="cuda")
        dk, dv = torch.empty_like(k), torch.empty_like(v)
        main(q, k, v, do, lse, delta, dq, dk, dv)
        return finish(dq), dk, dv

    return call


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    for name, make in parts.pytorch_attention(causal=shape.causal):
        yield name, partial(_by_autograd, make)


def _by_autograd(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    import torch

    attention = make()
    kept: dict[int, Any] = {}

    def call(q: Any, k: Any, v: Any, _out: Any, _lse: Any, do: Any) -> Any:
        if q.data_ptr() not in kept:
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            kept[q.data_ptr()] = leaves, attention(*leaves)
        leaves, out = kept[q.data_ptr()]
        return torch.autograd.grad(out, leaves, do, retain_graph=True)

    return call
