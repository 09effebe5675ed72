"""The gradients of GQA without a GPU: its four kernels in the interpreter, one after the other."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from kernels.gqa.backward_reference import gradients
from kernels.mha.reference import attention
from tests.kernels.tilelang.gradients import Case, Found, allowed, check_forward, compare, through
from tests.kernels.tilelang.packed import claiming, numpy_type

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")

CASES = {
    "groups of 2": Case(1, 4, 2, 65, 100, 64, causal=True, layout="BSHD"),
    "groups of 3": Case(2, 3, 1, 130, 130, 64, causal=True, layout="BSHD"),
    "one for all, not causal": Case(1, 3, 1, 70, 150, 128, causal=False, layout="BSHD"),
    "one for each": Case(1, 2, 2, 200, 130, 64, causal=False),
    "128 queries": Case(1, 4, 2, 257, 300, 64, causal=True, tiling=(("block_q", 128),)),
    "ahead": Case(
        1, 6, 2, 200, 200, 64, causal=True, layout="BSHD",
        tiling=(("ahead", True), ("stages", 3), ("head_group", 2)),
    ),
    "192 and 128": Case(
        1, 4, 2, 130, 150, 192, causal=True, layout="BSHD", dim_v=128,
        tiling=(("block_kv", 64), ("columns", True)),
    ),
    "192 and 128, not causal": Case(
        1, 2, 1, 100, 100, 192, causal=False, layout="BSHD", dim_v=128, dtype="bfloat16",
        tiling=(("block_kv", 64), ("columns", True), ("ahead", True)),
    ),
    "192 and 128, lengths that no block divides": Case(
        1, 4, 2, 200, 300, 192, causal=False, layout="BSHD", dim_v=128,
        tiling=(("block_kv", 64), ("columns", True)),
    ),
    "192 and 128, split": Case(
        1, 4, 1, 100, 150, 192, causal=True, layout="BSHD", dim_v=128,
        tiling=(("block_kv", 64), ("columns", True), ("splits", 2)),
    ),
    "split": Case(
        2, 3, 1, 70, 70, 64, causal=False,
        tiling=(("block_kv", 64), ("columns", True), ("splits", 3)),
    ),
    "large scores": Case(1, 4, 2, 130, 200, 64, causal=True, layout="BSHD", size=12.0),
    "bfloat16": Case(1, 2, 1, 140, 200, 128, causal=True, layout="BSHD", dtype="bfloat16"),
}  # fmt: skip


@cache
def ran() -> dict[str, Found]:
    return through("kernels/gqa/tilelang_backward.py", "gqa", CASES)


def repeated(case: Case, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return q, k, v, do with keys and values once for each query head."""
    q, k, v, do = given
    return q, *(np.repeat(x, case.heads // case.kv_heads, axis=1) for x in (k, v)), do


def summed(case: Case, many: Any) -> Any:
    """Return what belongs to query heads, added up for their KV heads."""
    group = case.heads // case.kv_heads
    return many.reshape(case.batch, case.kv_heads, group, *many.shape[2:]).sum(axis=2)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    case, found = CASES[name], ran()[name]
    plain = tuple(np.swapaxes(x, 1, 2) for x in found.given)
    exact = tuple(np.swapaxes(x, 1, 2) for x in gradients(*plain, causal=case.causal))
    dq, *others = allowed(repeated(case, found.given), case.causal, case.dtype)
    budget = (dq, *(summed(case, x) for x in others))
    compare(name, found.gradients, exact, budget)
    assert all(x.dtype == numpy_type(case.dtype) for x in found.gradients)


@pytest.mark.parametrize("name", CASES)
def test_the_forward_and_the_logarithms_of_its_sums(name: str) -> None:
    case, found = CASES[name], ran()[name]
    given = repeated(case, found.given)
    exact = attention(*given[:3], causal=case.causal)
    check_forward(case, found._replace(given=given), exact)


REFUSED: dict[str, tuple[int, Any, Any, str]] = {
    "groups": (0, lambda x: x[:, :, :3].contiguous(), ValueError, "q has 3 heads"),
    "wide values": (
        2,
        lambda x: x.repeat(1, 1, 1, 2),
        ValueError,
        r"v is \[1, 5, 2, 256\], and has to be \[1, 5, 2, 128\]",
    ),
    "other values": (2, lambda x: x[:, :4], ValueError, r"v is \[1, 4, 2, 128\], and has"),
    "a list": (4, lambda x: x.tolist(), TypeError, "lse is a list"),
    "another lse": (4, lambda x: x[:, :1], ValueError, r"lse is \[1, 1, 5\], and has to be"),
    "a short gradient": (5, lambda x: x[:, :4], ValueError, r"do is \[1, 4, 4, 128\]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.gqa.tilelang_backward import backward

    q, k, v, out, lse, do = claiming(
        (1, 5, 4, 192), (1, 5, 2, 192), (1, 5, 2, 128), (1, 5, 4, 128), (1, 4, 5), (1, 5, 4, 128)
    )
    place, change, kind, message = REFUSED[name]
    tensors = [q, k, v, out, lse.float(), do]
    tensors[place] = change(tensors[place])
    with pytest.raises(kind, match=message):
        backward(*tensors)
