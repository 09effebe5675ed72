"""The gradients of MHA without a GPU: its four kernels in the interpreter, one after the other."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from kernels.mha.backward_reference import gradients
from kernels.mha.reference import attention
from tests.kernels.tilelang.gradients import Case, Found, allowed, check_forward, compare, through
from tests.kernels.tilelang.packed import claiming, numpy_type

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


def given() -> tuple[Any, ...]:
    """Return q, k, v, out, lse and do that fit."""
    q, k, v, out, lse, do = claiming(*[(1, 2, 5, 64)] * 4, (1, 2, 5), (1, 2, 5, 64))
    return q, k, v, out, lse.float(), do


REFUSED: dict[str, tuple[int, Any, Any, str]] = {
    "strided": (0, lambda x: x.transpose(1, 2), ValueError, "q is not contiguous"),
    "heads": (1, lambda x: x[:, :1], ValueError, r"v is .*, and k \[1, 1, 5, 64\]"),
    "float32": (3, lambda x: x.float(), TypeError, "out is of float32"),
    "a short output": (
        3,
        lambda x: x[:, :, :4].contiguous(),
        ValueError,
        r"out is \[1, 2, 4, 64\]",
    ),
    "a list": (4, lambda x: x.tolist(), TypeError, "lse is a list"),
    "another lse": (4, lambda x: x[:, :1], ValueError, r"lse is \[1, 1, 5\], and has to be"),
    "half an lse": (4, lambda x: x.half(), TypeError, "lse is of float16"),
    "a wider gradient": (5, lambda x: x.bfloat16(), TypeError, "do is of bfloat16"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.mha.tilelang_backward import backward

    place, change, kind, message = REFUSED[name]
    tensors = list(given())
    tensors[place] = change(tensors[place])
    with pytest.raises(kind, match=message):
        backward(*tensors)


def test_shared_heads_are_for_another_folder() -> None:
    pytest.importorskip("tilelang")
    from kernels.mha.tilelang_backward import forward

    q, k, v = claiming((1, 4, 5, 64), (1, 2, 5, 64), (1, 2, 5, 64))
    with pytest.raises(ValueError, match="kernels/gqa does that"):
        forward(q, k, v)
