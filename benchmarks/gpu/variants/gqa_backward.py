"""The gradients of grouped-query attention beside `flash_attention/example_gqa_bwd.py`.

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

SHIPPED = (128, 32)
"""What upstream's `_attention.backward` takes: block_M (keys), block_N."""
UPSTREAM_BLOCKS = ((128, 64),)


class Shape(NamedTuple):
    variant: str
    batch: int
    heads: int
    kv_heads: int
    seq: int
    dim: int
    dim_v: int
    causal: bool

    @property
    def flops(self) -> float:
        """Five products: scores, dP, dV, dK and dQ."""
        return (
            10.0
            * self.batch
            * self.heads
            * parts.pairs(self.seq, self.causal)
            * (0.6 * self.dim + 0.4 * self.dim_v)
        )

    @property
    def bytes(self) -> float:
        """q, out, do, a number for each query, k and v in; dq, dk and dv out."""
        many, few = self.batch * self.seq * self.heads, self.batch * self.seq * self.kv_heads
        return many * (4.0 * self.dim + 4.0 * self.dim_v + 4) + few * 4.0 * (self.dim + self.dim_v)

    @property
    def key(self) -> dict[str, Any]:
        block = 64 if self.dim == 192 else 128
        few = self.batch * self.kv_heads * -(-self.seq // block) < 132
        return {"dim": self.dim, "causal": self.causal, "few": few}


SHAPES = (
    Shape("gqa_backward", 1, 32, 8, 8192, 128, 128, causal=False),
    Shape("gqa_backward", 1, 32, 8, 8192, 128, 128, causal=True),
    Shape("gqa_backward", 4, 32, 8, 4096, 64, 64, causal=True),
    Shape("gqa_backward", 8, 32, 2, 1024, 192, 128, causal=False),  # that of upstream's main
    Shape("gqa_backward", 1, 32, 2, 256, 192, 128, causal=False),  # of `run_regression_perf`
)


def inputs(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v, out, lse, do: [B, S, H or G, D or Dv], and lse [B, H, S]."""
    from kernels.gqa.tilelang_backward import forward

    rows = (shape.batch, shape.seq)
    q, k = ((*rows, n, shape.dim) for n in (shape.heads, shape.kv_heads))
    do, v = ((*rows, n, shape.dim_v) for n in (shape.heads, shape.kv_heads))
    q, k, v, do = parts.normal(q, k, v, do)
    return (q, k, v, *forward(q, k, v, causal=shape.causal), do)


def ours(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    from kernels.gqa.tilelang_backward import Backward, backward

    chosen = Backward(**tiling) if tiling else None
    return partial(backward, causal=shape.causal, tiling=chosen)


def sweep(shape: Shape) -> Iterator[dict[str, Any]]:
    """Yield tilings without spills; heads are shared out where programs are few."""
    cuts = {
        64: ((64, 128, False, False), (64, 128, True, False), (128, 128, False, False)),
        128: ((64, 128, False, False), (64, 64, True, True)),
        192: ((64, 64, False, True), (64, 64, True, True)),
    }[shape.dim]
    for block_q, block_kv, ahead, columns in cuts:
        cut = {"block_q": block_q, "block_kv": block_kv, "stages": 2}
        more = {"ahead": ahead, "columns": columns}
        for group in (1, 2, 8):
            yield {**cut, "head_group": group, **more}
        if shape.key["few"] and columns:
            for splits in (2, 4, 8, 16):
                yield {**cut, "head_group": 1, **more, "splits": splits}


def upstream(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    yield "upstream as shipped", partial(_theirs, shape, SHIPPED, "atomic_add")
    yield "upstream, sums afterwards", partial(_theirs, shape, SHIPPED, "split")
    for blocks in UPSTREAM_BLOCKS:
        yield f"upstream {blocks}", partial(_theirs, shape, blocks, "atomic_add")


def _theirs(shape: Shape, blocks: tuple[int, int], how: str) -> Callable[..., Any]:
    """Return what upstream's `_attention.backward` does; `how` dK and dV of heads are added up."""
    import torch

    file = module("flash_attention/example_gqa_bwd.py")
    sizes = (shape.batch, shape.heads, shape.seq)
    group = shape.heads // shape.kv_heads
    prepare = file.flashattn_bwd_preprocess(*sizes, shape.dim_v)
    build = getattr(file, f"flashattn_bwd_{how}")
    cut = {"threads": 256, "num_stages": 2, "groups": group}
    main = build(*sizes, shape.dim, shape.dim_v, shape.causal, *blocks, **cut)
    finish = file.flashattn_bwd_postprocess(*sizes, shape.dim)
    here = {"device": "cuda"}

    def call(q: Any, k: Any, v: Any, out: Any, lse: Any, do: Any) -> Any:
        delta = prepare(out, do)
        dq = torch.zeros(q.shape, dtype=torch.float32, **here)
        if how == "split":
            dk, dv = (torch.empty((group, *x.shape), dtype=x.dtype, **here) for x in (k, v))
        else:
            dk, dv = (torch.zeros(x.shape, dtype=torch.float32, **here) for x in (k, v))
        main(q, k, v, do, lse, delta, dq, dk, dv)
        if how == "split":
            return finish(dq), dk.sum(0), dv.sum(0)
        return finish(dq), dk.to(k.dtype), dv.to(v.dtype)

    return call


def pytorch(shape: Shape) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    for name, make in parts.pytorch_attention(causal=shape.causal, bhsd=False, grouped=True):
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
