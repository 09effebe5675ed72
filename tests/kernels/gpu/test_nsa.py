"""The NSA kernel on a GPU beside upstream's compiled one, PyTorch and float64."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.nsa import reference as definition
from tests.kernels.gpu.world import UNIT, compare, run_poisoned, upstream, why_not, wide

reference: Any = definition.attention
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]


class Case(NamedTuple):
    group: int = 16
    listed: int = 4
    lists: str = "apart"
    """`apart`: no block twice; `twins`: with repetition; `none`: no block at all."""
    seq_len: int = 200
    dim: int = 64
    block_size: int = 32
    causal: bool = True
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    tiling: tuple[tuple[str, Any], ...] = ()


CASES = {
    "plain": Case(),
    "twins": Case(lists="twins", listed=9),
    "none": Case(lists="none"),
    "not causal": Case(causal=False, seq_len=256, dim=128, block_size=64),
    "upstream's own": Case(dim=32, listed=1),
    "large scores": Case(dim=128, size=12.0, block_size=64),
    "bfloat16": Case(dtype="bfloat16", dim=128, block_size=64),
    "groups of 6": Case(group=6, tiling=(("stages", 4),)),
    "groups of 70": Case(group=70, block_size=16),
    "large blocks": Case(seq_len=300, dim=128, block_size=128, tiling=(("residents", 1),)),
    "one query a program": Case(tiling=(("queries", 1), ("residents", 3))),
    "short": Case(dim=32, listed=1, seq_len=64, tiling=(("queries", 1), ("whole", True))),
    "short, twins": Case(lists="twins", listed=9, seq_len=100, tiling=(("whole", True),)),
    "short, large": Case(
        seq_len=128,
        dim=128,
        block_size=128,
        size=12.0,
        listed=1,
        tiling=(("queries", 2), ("whole", True)),
    ),
    "short, groups of 6": Case(group=6, seq_len=70, dtype="bfloat16", tiling=(("whole", True),)),
}
BATCH, KV_HEADS = 2, 2


def made(name: str, case: Case) -> tuple[Any, ...]:
    """Return q, k, v and the lists; some of them have numbers that are no blocks."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    head = (BATCH, case.seq_len, KV_HEADS)
    q = rng.standard_normal((*head[:2], KV_HEADS * case.group, case.dim)) * case.size
    k, v = rng.standard_normal((2, *head, case.dim))
    k *= np.linspace(0.2, 1.5, case.seq_len)[:, None, None]
    blocks = -(-case.seq_len // case.block_size)
    lists = rng.integers(-1, blocks + 1, (*head, case.listed))
    if case.lists == "apart":
        lists = rng.random((*head, max(blocks, case.listed))).argsort(axis=-1)
    elif case.lists == "none":
        lists = np.where(lists > 0, blocks, -1)
    kind = getattr(torch, case.dtype)
    floats = (torch.from_numpy(x).to("cuda", kind) for x in (q, k, v))
    return (*floats, torch.from_numpy(lists[..., : case.listed]).to("cuda", torch.int32))


def empty(case: Case, lists: Any) -> Any:
    """Return which queries have no block, [B, S, G]: upstream divides them by zero."""
    starts = wide(lists) * case.block_size
    return ~((starts >= 0) & (starts <= np.arange(case.seq_len)[:, None, None])).any(axis=-1)


def their_error(case: Case, q: Any, k: Any, v: Any, lists: Any) -> float:
    """Return how far upstream's compiled kernel is off, in terms of the type of the case.

    It needs float16 and groups of 16. Rows without blocks are left out, and those where it
    overflows because it measures against the block's own maximum and not the largest so far.
    """
    half = [x.half() for x in (q, k, v)]
    some = half[0].unflatten(2, (KV_HEADS, case.group))
    half[0] = some.repeat(1, 1, 1, 16, 1)[:, :, :, :16].flatten(2, 3).contiguous()
    module = upstream("deepseek_nsa/example_tilelang_nsa_fwd.py")
    got = wide(run_poisoned(
        lambda *x: module.native_sparse_attention(
            *x, dim=case.dim, is_causal=case.causal, block_size=case.block_size, groups=16,
            selected_blocks=case.listed,
        ), *half, lists,
    ))  # fmt: skip
    options = {"block_size": case.block_size, "causal": case.causal}
    exact = reference(*map(wide, half), wide(lists), **options)
    seen = np.repeat(~empty(case, lists), 16, axis=2)
    error = np.abs(got - exact)[seen]
    finite = error[np.isfinite(error)]
    assert len(finite) >= len(error) // 2 or case.size > 1
    return float(finite.max(initial=0)) * UNIT[case.dtype] / UNIT["float16"]


@pytest.mark.parametrize("name", CASES)
def test_nsa(name: str) -> None:
    from kernels.nsa.tilelang_kernel import Tiling, attention

    case = CASES[name]
    q, k, v, lists = made(f"nsa {name}", case)
    options: dict[str, Any] = {"block_size": case.block_size, "causal": case.causal}
    exact = reference(*map(wide, (q, k, v)), wide(lists), **options)
    theirs = their_error(case, q, k, v, lists)
    chosen = Tiling(**dict(case.tiling))
    got = run_poisoned(lambda *x: attention(*x, **options, tiling=chosen), q, k, v, lists)
    label = f"nsa {name} {case}"
    compare(label, got, exact, theirs, case.dtype)
    if case.lists == "apart" and case.causal:  # PyTorch counts no key twice
        beside = wide(with_pytorch(case, q, k, v, lists))
        error = float(np.abs(beside - exact).max())
        compare(f"{label} against PyTorch", got, beside, theirs + error, case.dtype)


def with_pytorch(case: Case, q: Any, k: Any, v: Any, lists: Any) -> Any:
    """Return what PyTorch's attention gives with the lists as a mask; 0 without blocks."""
    import torch

    position = torch.arange(case.seq_len, device="cuda")
    on = (lists[..., None] == (position // case.block_size)).any(dim=3)  # [B, S, G, keys]
    seen = on & (position <= position[:, None])[None, :, None]
    seen = seen.transpose(1, 2).repeat_interleave(case.group, dim=1)
    many = (x.transpose(1, 2).repeat_interleave(case.group, dim=1) for x in (k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q.transpose(1, 2), *many, attn_mask=seen)
    return torch.where(seen.any(dim=3, keepdim=True), out, 0).transpose(1, 2)
