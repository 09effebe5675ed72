"""The block-sparse kernel on a GPU beside upstream's compiled one, PyTorch and float64."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks.gpu.repairs import together
from kernels.block_sparse import reference as definition
from tests.kernels.gpu.world import (
    UNIT,
    Call,
    compare,
    run_poisoned,
    tensors,
    upstream,
    why_not,
    wide,
)

reference: Any = definition.attention
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]


class Case(NamedTuple):
    call: Call
    """`options` hold `causal`. Lengths have ten blocks of 64: upstream compiles that few times."""
    density: float
    """The share of blocks that are on; beyond 1, all."""
    block: int = 64
    tiling: tuple[tuple[str, Any], ...] = ()


def call(seq_len: int, dim: int, causal: bool, dtype: str = "float16", size: float = 1.0) -> Call:
    return Call(2, 3, 0, seq_len, seq_len, dim, dtype, size, (("causal", causal),))


CASES = {
    "one": Case(call(1, 64, causal=True), 2),
    "600 of D 64": Case(call(600, 64, causal=False), 0.4),
    "577": Case(call(577, 128, causal=True), 0.4),
    "large scores": Case(call(577, 128, causal=True, size=12.0), 0.5),
    "bfloat16": Case(call(600, 128, causal=False, dtype="bfloat16"), 0.5),
    "all off": Case(call(600, 64, causal=False), 0),
    "blocks of 128": Case(call(577, 128, causal=True), 0.5, block=128),
    "blocks of 128, D 64": Case(call(600, 64, causal=False), 0.5, block=128),
    "three programs": Case(
        call(640, 64, causal=True), 0.5, tiling=(("stages", 3), ("residents", 3))
    ),
    "heads side by side": Case(call(577, 128, causal=True), 0.5, tiling=(("head_group", 3),)),
    "all read": Case(call(600, 64, causal=False), 0.4, tiling=(("listed", 0),)),
    "all read, causal": Case(call(577, 64, causal=True), 0.4, tiling=(("listed", 0),)),
    "all read, D 128": Case(call(300, 128, causal=True, size=12.0), 0.5, tiling=(("listed", 0),)),
    "many blocks": Case(call(4200, 64, causal=True)._replace(batch=1, heads=1), 0.2),
}


def table(name: str, case: Case) -> Any:
    """Return which blocks are on, [B, H, n, n]."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    n = -(-case.call.seq_q // case.block)
    flags = rng.random((case.call.batch, case.call.heads, n, n)) < case.density
    return torch.from_numpy(flags).cuda()


def whole(x: Any, rows: int) -> Any:
    """Return a tensor [B, H, S, D] with zeros up to `rows` rows."""
    import torch

    return torch.nn.functional.pad(x, (0, 0, 0, rows - x.shape[2]))


def their_error(case: Case, q: Any, k: Any, v: Any, flags: Any) -> float:
    """Return how far upstream's compiled kernel is off, in terms of the type of the case.

    It knows blocks of 64 and float16, and hides no key past the end: it gets what is missing of a
    block as zeros, and the definition then sees them, too. With a table whose size is a multiple
    of 8 it does not compile (tilelang 0.1.15), so that has a block more. Rows whose blocks are all
    off, which it divides by zero, are left out.
    """
    import torch

    causal = bool(dict(case.call.options)["causal"])
    b, h, seq_len, dim = q.shape
    n = -(-seq_len // 64)
    fine = flags.repeat_interleave(case.block // 64, 2).repeat_interleave(case.block // 64, 3)
    fine = fine[:, :, :n, :n].contiguous()
    given = [whole(x.half(), n * 64) for x in (q, k, v)]
    module = upstream("blocksparse_attention/example_tilelang_block_sparse_attn.py")
    size = n + (n % 8 == 0)
    with together(module.blocksparse_flashattn):  # or it hangs, at times
        kernel = module.blocksparse_flashattn(b, h, n * 64, dim, size, causal)
    padded = torch.nn.functional.pad(fine, (0, size - n, 0, size - n))
    got = wide(run_poisoned(kernel, *given, padded))
    options = {"causal": causal}
    exact = reference(*map(wide, given), wide(fine), **options)
    on = wide(fine) > 0
    seen = (on & (np.tri(n) > 0) if causal else on).any(axis=3).repeat(64, axis=2)
    error = float(np.abs(got - exact)[seen].max(initial=0))
    return error * UNIT[case.call.dtype] / UNIT["float16"]


def with_pytorch(case: Case, q: Any, k: Any, v: Any, flags: Any) -> Any:
    """Return what PyTorch's attention gives with the table as a mask."""
    import torch

    seq_len = q.shape[2]
    seen = flags.repeat_interleave(case.block, 2).repeat_interleave(case.block, 3)
    seen = seen[:, :, :seq_len, :seq_len]
    if dict(case.call.options)["causal"]:
        seen = seen.tril()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)


@pytest.mark.parametrize("name", CASES)
def test_block_sparse(name: str) -> None:
    from kernels.block_sparse.tilelang_kernel import Tiling, attention

    case = CASES[name]
    causal = bool(dict(case.call.options)["causal"])
    q, k, v = tensors(f"block_sparse {name}", case.call)
    flags = table(name, case)
    options: dict[str, Any] = {"causal": causal, "block": case.block}
    exact = reference(*map(wide, (q, k, v)), wide(flags), **options)
    theirs = their_error(case, q, k, v, flags)
    cut: dict[str, Any] = {"residents": 128 // case.block, **dict(case.tiling)}
    chosen = Tiling(**cut)
    got = run_poisoned(lambda *x: attention(*x, **options, tiling=chosen), q, k, v, flags)
    label = f"block_sparse {name} {case}"
    compare(label, got, exact, theirs, case.call.dtype)
    beside = wide(with_pytorch(case, q, k, v, flags))
    seen = np.any(exact != 0, axis=3)  # PyTorch and we need not agree on rows that see nothing
    error = float(np.abs(beside - exact)[seen].max(initial=0))
    beside = np.where(seen[..., None], beside, 0)
    compare(f"{label} against PyTorch", got, beside, theirs + error, case.call.dtype)
