"""The vertical-slash kernel on a GPU beside upstream's compiled one, PyTorch and float64."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.vertical_slash import reference as definition
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
    most_blocks: int = 5
    most_columns: int = 100
    lists: str = "proper"
    """`proper`: no key twice, and each row sees one; `any`: all that a list can hold; `none`."""
    tiling: tuple[tuple[str, int], ...] = ()


def call(seq_len: int, dim: int, dtype: str = "float16", size: float = 1.0) -> Call:
    return Call(2, 3, 0, seq_len, seq_len, dim, dtype, size)


CASES = {
    "one": Case(call(1, 64), 1, 1),
    "plain": Case(call(600, 64)),
    "D 128": Case(call(577, 128)),
    "any": Case(call(600, 64), lists="any"),
    "none": Case(call(600, 64), lists="none"),
    "large scores": Case(call(577, 128, size=12.0)),
    "bfloat16": Case(call(577, 128, dtype="bfloat16"), lists="any"),
    "many columns": Case(call(600, 64), 2, 400),
    "alone": Case(call(600, 64), tiling=(("sharers", 1), ("residents", 3), ("stages", 3))),
    "three share": Case(call(600, 64), 8, 200, tiling=(("sharers", 3), ("stages", 6))),
    "two stages": Case(call(577, 128), tiling=(("stages", 2), ("head_group", 3))),
}


def lists(name: str, case: Case) -> tuple[Any, ...]:
    """Return block counts and offsets, column counts and indices, as int32 on the GPU."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    seq_len = case.call.seq_q
    entries = (case.call.batch, case.call.heads, -(-seq_len // 64))
    blocks = rng.integers(0, seq_len, (*entries, case.most_blocks))
    columns = rng.integers(0, seq_len, (*entries, case.most_columns))
    most = (0, 0) if case.lists == "none" else (case.most_blocks, case.most_columns)
    block_count, column_count = (rng.integers(0, m + 1, entries) for m in most)
    if case.lists == "proper":
        for at in np.ndindex(entries):
            some = proper(rng, at[2] * 64, case.most_blocks, case.most_columns)
            block_count[at], column_count[at] = (len(x) for x in some)
            blocks[at][: len(some[0])], columns[at][: len(some[1])] = some
    given = (block_count, blocks, column_count, columns)
    return tuple(torch.from_numpy(x.astype(np.int32)).cuda() for x in given)


def proper(rng: Any, first: int, most_blocks: int, most_columns: int) -> tuple[Any, Any]:
    """Return blocks in the past and the one on the diagonal, and columns beside them."""
    before = rng.permutation(first // 64)[: most_blocks - 1] * 64
    starts = np.concatenate([np.sort(before), [first]])
    beside = np.setdiff1d(np.arange(first), (starts[:, None] + np.arange(64)).ravel())
    return starts, np.sort(rng.permutation(beside)[: rng.integers(0, most_columns + 1)])


def their_error(case: Case, q: Any, k: Any, v: Any, given: tuple[Any, ...]) -> float:
    """Return how far upstream's compiled kernel is off, in terms of the type of the case.

    It knows float16. Rows that see nothing in the first of their blocks, or nothing at all, are NaN
    there, and left out; there are none in proper lists.
    """
    half = [x.half() for x in (q, k, v)]
    b, h, seq_len, dim = q.shape
    module = upstream("minference/example_vertical_slash_sparse_attn.py")
    kernel = module._tl_vs_sparse_flashattn(b, h, seq_len, dim, case.most_columns, case.most_blocks)
    got = wide(run_poisoned(kernel, *half, *given))
    error = np.abs(got - reference(*map(wide, half), *(x.cpu().numpy() for x in given)))
    finite = error[np.isfinite(error)]
    assert len(finite) == error.size or case.lists != "proper"
    return float(finite.max(initial=0)) * UNIT[case.call.dtype] / UNIT["float16"]


@pytest.mark.parametrize("name", CASES)
def test_vertical_slash(name: str) -> None:
    from kernels.vertical_slash.tilelang_kernel import Tiling, attention

    case = CASES[name]
    q, k, v = tensors(f"vertical_slash {name}", case.call)
    given = lists(name, case)
    exact = reference(*map(wide, (q, k, v)), *(x.cpu().numpy() for x in given))
    theirs = their_error(case, q, k, v, given)
    chosen = Tiling(**dict(case.tiling))
    got = run_poisoned(lambda *x: attention(*x, tiling=chosen), q, k, v, *given)
    label = f"vertical_slash {name} {case}"
    compare(label, got, exact, theirs, case.call.dtype)
    if case.lists == "proper":
        beside = wide(with_pytorch(q, k, v, *(x.cpu().numpy() for x in given)))
        error = float(np.abs(beside - exact).max())
        compare(f"{label} against PyTorch", got, beside, theirs + error, case.call.dtype)


def with_pytorch(q: Any, k: Any, v: Any, *given: Any) -> Any:
    """Return what PyTorch's attention gives with the lists as a mask."""
    import torch

    block_count, blocks, column_count, columns = given
    seq_len = q.shape[2]
    seen = np.zeros((*q.shape[:2], seq_len, seq_len + 64), bool)
    for b, h, t in np.ndindex(block_count.shape):
        rows = slice(t * 64, (t + 1) * 64)
        for start in blocks[b, h, t][: block_count[b, h, t]]:
            seen[b, h, rows, start : start + 64] = True
        seen[b, h, rows] &= np.arange(seq_len + 64) <= np.arange(seq_len)[rows, None]
        seen[b, h, rows, columns[b, h, t][: column_count[b, h, t]]] = True
    mask = torch.from_numpy(seen[..., :seq_len].copy()).cuda()
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
