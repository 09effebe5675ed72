"""Our sparse MLA on a GPU beside upstream's compiled kernels and float64."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.sparse_mla.reference import attention as reference
from tests.kernels.gpu.world import FACTOR, UNIT, compare, upstream, why_not, wide

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]


class Call(NamedTuple):
    heads: int
    topk: int
    seq_len: int
    tokens: int
    first: int = 0
    kv_heads: int = 1
    batch: int = 1
    lag: int = 2
    dtype: str = "bfloat16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    least: int = -3
    """The smallest number that a list may hold; above the last query, nothing is visible."""


CALLS = {
    "one token": Call(5, 1, 1, 1, least=0),
    "some hidden": Call(16, 130, 40, 200, first=100),
    "most hidden": Call(16, 200, 9, 300, first=5, lag=1),
    "nothing visible": Call(16, 100, 2, 300, first=5, least=20),
    "more heads than a tile": Call(70, 64, 20, 90, first=90),
    "groups": Call(12, 65, 20, 130, first=60, kv_heads=3),
    "large groups": Call(256, 70, 9, 130, first=80, kv_heads=2, lag=0),
    "samples": Call(128, 512, 9, 700, first=699, batch=2),
    "many blocks": Call(128, 2048, 3, 3000, first=2000),
    "large scores": Call(64, 300, 20, 350, first=349, size=12.0),
    "float16": Call(128, 300, 20, 350, first=100, dtype="float16"),
    "float16, large scores": Call(16, 600, 20, 350, first=349, dtype="float16", size=12.0),
}


def tensors(name: str, call: Call) -> tuple[Any, ...]:
    """Return q, kv, indices on the GPU. Tokens that nobody may look at are NaN."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    q = rng.standard_normal((call.batch, call.seq_len, call.heads, 576)) * call.size
    kv = rng.standard_normal((call.batch, call.tokens, call.kv_heads, 576))
    kv[..., 512:] *= np.linspace(0.2, 2, call.tokens)[:, None, None]
    kv[:, call.first + call.seq_len :] = np.nan
    lists = (call.batch, call.seq_len, call.kv_heads, call.topk)
    indices = rng.integers(call.least, call.tokens + 3, lists).astype(np.int32)
    kind = getattr(torch, call.dtype)
    q, kv = (torch.from_numpy(x).to("cuda", kind) for x in (q, kv))
    return q, kv, torch.from_numpy(indices).cuda()


def exact(call: Call, given: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the definition's output and lse; tokens that do not exist are hidden."""
    indices = given[2].cpu().numpy()
    listed = np.where(indices < call.tokens, indices, -1)
    return reference(wide(given[0]), wide(given[1]), listed, dim=512, first=call.first)


@pytest.mark.parametrize("name", CALLS)
def test_sparse_mla(name: str) -> None:
    from kernels.sparse_mla.tilelang_kernel import Tiling, attention

    call = CALLS[name]
    given = tensors(name, call)
    wanted, wanted_lse = exact(call, given)
    tiling = Tiling(lag=call.lag)
    theirs = errors_of_upstream(call.size)
    got, lse = poisoned(lambda *x: attention(*x, first=call.first, tiling=tiling), *given)
    label = f"sparse_mla {name} {call}"
    larger = max(1.0, float(np.abs(wanted).max()) / theirs.size)
    compare(label, got, wanted, theirs.output * larger * in_type(call.dtype), call.dtype)
    found, seen = wide(lse), np.isfinite(wanted_lse)
    off = np.abs(found - np.where(seen, wanted_lse, 0))[seen].max(initial=0)
    # The logarithm is rounded as float32, whatever the type of the inputs.
    allowed = FACTOR * theirs.lse + 2.0**-23 * np.abs(wanted_lse[seen]).max(initial=0)
    assert off <= allowed, f"{label}: lse off by {off:.3g}, and {allowed:.3g} is allowed"
    assert (found[~seen] == -np.inf).all(), label


def poisoned(function: Any, *inputs: Any) -> Any:
    """Call a kernel whose outputs are full of NaN before it runs.

    There are several, of several sizes, and tilelang has PyTorch allocate them, from C++: PyTorch
    fills what it allocates when it is to be deterministic.
    """
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert torch.empty(9, device="cuda").isnan().all()
        before = torch.cuda.memory_allocated()
        found = function(*inputs)
        grown = torch.cuda.memory_allocated() - before
    finally:
        torch.use_deterministic_algorithms(False)
    torch.cuda.synchronize()
    assert grown >= sum(output.nbytes for output in found), "allocated in another way"
    return found


def in_type(dtype: str) -> float:
    """Return how much larger roundings are than in bfloat16, the only type of upstream's kernel."""
    return UNIT[dtype] / UNIT["bfloat16"]


class Errors(NamedTuple):
    output: float
    lse: float
    size: float
    """The largest output there: errors grow with it."""


@cache
def errors_of_upstream(size: float) -> Errors:
    """Return the smaller of the largest errors of upstream's two kernels.

    The first begins with position 0, so it gets all queries, and the last ones are compared: those
    for which every listed token is in the past.
    """
    import torch

    past, call = 560, Call(128, 512, 576, 576, size=size)
    q, kv, _ = tensors(f"upstream {size}", call)
    indices = torch.randint(past, (1, call.seq_len, 1, call.topk), device="cuda").int()
    late = q[:, past:].contiguous(), kv, indices[:, past:].contiguous()
    wanted = exact(call._replace(first=past), late)
    first = torch.full((1,), past, dtype=torch.int32, device="cuda")
    sizes = (call.heads, 512, 64, call.topk)
    plain = upstream("deepseek_v32/sparse_mla_fwd.py").sparse_mla_fwd
    pipelined = upstream("deepseek_v32/sparse_mla_fwd_pipelined.py").sparse_mla_fwd
    whole = poisoned(lambda *x: plain(*x, *sizes), q, kv, indices)
    outputs = [whole[0][:, past:], pipelined(*late, first, *sizes, 1, CP0=False)[0]]
    off = [float(np.abs(wide(output) - wanted[0]).max()) for output in outputs]
    lse = float(np.abs(wide(whole[1][:, past:]) - wanted[1]).max())  # the second writes none
    assert np.isfinite([*off, lse]).all(), off
    return Errors(min(off), lse, float(np.abs(wanted[0]).max()))
