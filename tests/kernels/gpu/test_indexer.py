"""The indexer's kernel on a GPU beside upstream's compiled ones, PyTorch and float64."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.indexer import reference as definition
from tests.kernels.gpu.world import compare, run_poisoned, upstream, why_not, wide

reference: Any = definition.logits
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]


class Case(NamedTuple):
    queries: int
    keys: int
    heads: int = 32
    dim: int = 64
    ranges: str = "causal"
    """`causal`, `all`, `none`, `some`: random, empty and reaching over both ends."""
    dtype: str = "float8_e4m3fn"
    size: float = 1.0
    tiling: tuple[tuple[str, int], ...] = ()


CASES = {
    "one": Case(1, 1, ranges="all"),
    "causal": Case(300, 1500),
    "some": Case(301, 1501, ranges="some"),
    "all": Case(64, 1024, ranges="all"),
    "none": Case(70, 700, ranges="none"),
    "64 heads": Case(130, 1111, heads=64, dim=128, ranges="some"),
    "large": Case(300, 1500, size=20.0),
    "three groups": Case(
        301, 1501, ranges="some", tiling=(("groups", 3), ("tiles", 1), ("columns", 128))
    ),
    "four groups": Case(
        301, 1501, ranges="some",
        tiling=(("groups", 4), ("tiles", 2), ("columns", 128), ("stages", 3)),
    ),
    "8 heads": Case(301, 1501, heads=8, ranges="some"),
    "8 heads, float16": Case(130, 1111, heads=8, dim=128, ranges="some", dtype="float16",
                             tiling=(("tiles", 2), ("columns", 128))),
    "128 heads": Case(130, 1111, heads=128, ranges="some"),
    "bfloat16": Case(301, 1501, ranges="some", dtype="bfloat16"),
    "float16": Case(130, 1111, heads=64, dim=128, ranges="some", dtype="float16",
                    tiling=(("tiles", 2),)),
}  # fmt: skip


def made(name: str, case: Case) -> tuple[Any, ...]:
    """Return q [M, H, D], k [N, D], scales, weights of both signs, starts and ends."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    q = rng.standard_normal((case.queries, case.heads, case.dim)) * case.size
    k = rng.standard_normal((case.keys, case.dim))
    scale = rng.uniform(0.01, 2, case.keys)
    weights = rng.standard_normal((case.queries, case.heads))
    starts, ends = np.zeros((2, case.queries))
    if case.ranges == "some":
        starts, ends = rng.integers(-9, case.keys + 9, (2, case.queries))
    elif case.ranges == "causal":
        ends = np.linspace(1, case.keys, case.queries)
    elif case.ranges == "all":
        ends = np.full(case.queries, case.keys)
    kind = getattr(torch, case.dtype)
    return (
        *(torch.from_numpy(x).to("cuda", torch.float32).to(kind) for x in (q, k)),
        *(torch.from_numpy(x).to("cuda", torch.float32) for x in (scale, weights)),
        *(torch.from_numpy(x).to("cuda", torch.int32) for x in (starts, ends)),
    )


def exactly(given: tuple[Any, ...]) -> Any:
    return reference(*map(wide, given[:4]), *(x.cpu().numpy() for x in given[4:]))


def poisoned(function: Any, given: tuple[Any, ...]) -> Any:
    """Return scores from a place that was full of NaN."""
    import torch

    place = torch.empty(given[0].shape[0], given[1].shape[0], device="cuda")
    return run_poisoned(lambda _place, *x: function(*x), place, *given)


def their_error(given: tuple[Any, ...]) -> float:
    """Return how far upstream's compiled kernels are off, with their fp8 and whole tiles.

    The last queries are there several times, so that the tiles are whole; a negative start would
    have it write in front of a row, and is cut off.
    """
    import torch

    module = upstream("deepseek_v32/fp8_lighting_indexer.py")
    q, k, scale, weights, starts, ends = given
    more = torch.arange(-(-q.shape[0] // 16) * 16, device="cuda").clamp(max=q.shape[0] - 1)
    q, k = (x.float().to(torch.float8_e4m3fn) for x in (q, k))
    q = q.view(torch.uint8)[more].view(torch.float8_e4m3fn)
    weights, starts, ends = (x[more].contiguous() for x in (weights, starts.clamp(min=0), ends))
    some = (q, k, scale, weights, starts, ends)
    exact = exactly(some)
    got = wide(poisoned(module.mqa_attn_return_logits_interface, some))
    seen = np.isfinite(exact)
    return float(np.abs(got - exact)[seen].max(initial=0))


def without_hidden(label: str, got: Any, exact: Any) -> tuple[Any, Any]:
    """Return scores with 0 where they are hidden, -inf in both."""
    import torch

    hidden = np.isneginf(exact)
    np.testing.assert_array_equal(np.isneginf(wide(got)), hidden, err_msg=label)
    return torch.where(torch.isneginf(got), 0, got), np.where(hidden, 0, exact)


@pytest.mark.parametrize("name", CASES)
def test_indexer(name: str) -> None:
    from kernels.indexer.tilelang_kernel import Tiling, logits

    case = CASES[name]
    given = made(f"indexer {name}", case)
    exact = exactly(given)
    theirs = their_error(given)
    chosen = Tiling(**dict(case.tiling))
    label = f"indexer {name} {case}"
    got = poisoned(lambda *x: logits(*x, tiling=chosen), given)
    beside = wide(with_pytorch(*given))
    beside = np.where(np.isneginf(beside), 0, beside)
    got, exact = without_hidden(label, got, exact)
    compare(label, got, exact, theirs, "float32")
    error = float(np.abs(beside - exact).max())
    compare(f"{label} against PyTorch", got, beside, theirs + error, "float32")


def with_pytorch(q: Any, k: Any, scale: Any, weights: Any, starts: Any, ends: Any) -> Any:
    """Return the scores as PyTorch computes them in float32."""
    import torch

    scores = torch.einsum("mhd,nd->mhn", q.float(), k.float()).relu()
    summed = torch.einsum("mhn,mh->mn", scores, weights) * scale
    keys = torch.arange(k.shape[0], device="cuda")
    inside = (keys >= starts[:, None]) & (keys < ends[:, None])
    return summed.masked_fill(~inside, float("-inf"))
