"""The gradients of MHA without a GPU: its four kernels in the interpreter, one after the other."""

from __future__ import annotations

from functools import cache

import pytest

from kernels.mha.backward_reference import gradients
from kernels.mha.reference import attention
from tests.kernels.tilelang.gradients import Case, Found, allowed, check_forward, compare, through
from tests.kernels.tilelang.packed import numpy_type

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")

CASES = {
    "one of 5": Case(1, 1, 1, 1, 5, 64, causal=True),
    "65": Case(1, 2, 2, 65, 65, 64, causal=True),
    "ragged": Case(2, 1, 1, 200, 300, 64, causal=True),
    "ragged, not causal": Case(1, 2, 2, 130, 150, 128, causal=False, layout="BSHD"),
    "more queries": Case(1, 1, 1, 200, 90, 64, causal=False),
    "128 queries": Case(1, 1, 1, 257, 257, 64, causal=True, tiling=(("block_q", 128),)),
    "64 keys": Case(1, 1, 1, 100, 170, 64, causal=True, tiling=(("block_kv", 64),)),
    "ahead": Case(
        1, 2, 2, 300, 300, 64, causal=True,
        tiling=(("ahead", True), ("stages", 3), ("head_group", 2)),
    ),
    "large scores": Case(1, 1, 1, 130, 200, 64, causal=True, size=12.0),
    "large scores, not causal": Case(1, 1, 1, 100, 30, 64, causal=False, size=40.0),
    "bfloat16": Case(1, 1, 1, 140, 200, 128, causal=True, layout="BSHD", dtype="bfloat16"),
    "bfloat16, not causal": Case(1, 1, 1, 100, 100, 64, causal=False, dtype="bfloat16"),
}  # fmt: skip


@cache
def ran() -> dict[str, Found]:
    return through("kernels/mha/tilelang_backward.py", "mha", CASES)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    case, found = CASES[name], ran()[name]
    exact = gradients(*found.given, causal=case.causal)
    compare(name, found.gradients, exact, allowed(found.given, case.causal, case.dtype))
    assert all(x.dtype == numpy_type(case.dtype) for x in found.gradients)


@pytest.mark.parametrize("name", CASES)
def test_the_forward_and_the_logarithms_of_its_sums(name: str) -> None:
    case, found = CASES[name], ran()[name]
    check_forward(case, found, attention(*found.given[:3], causal=case.causal))
