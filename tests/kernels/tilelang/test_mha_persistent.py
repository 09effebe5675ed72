"""The persistent kernel without a GPU: its values in the interpreter, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.mha.reference import attention
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.packed import claiming, numpy_type

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


class Case(NamedTuple):
    batch: int
    heads: int
    seq_q: int
    seq_kv: int
    dim: int
    causal: bool
    programs: int
    """Few, so that each has several tiles, and the last round is not full."""
    layout: str = "BHSD"
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    tiling: tuple[tuple[str, Any], ...] = ()


CASES = {
    "one tile": Case(1, 1, 5, 5, 64, True, 1),
    "one program": Case(1, 2, 300, 300, 64, True, 1),
    "three programs": Case(2, 2, 300, 430, 64, True, 3, tiling=(("head_group", 4),)),
    "ragged, not causal": Case(1, 3, 200, 150, 128, False, 2, layout="BSHD"),
    "turns": Case(1, 4, 300, 400, 64, True, 3, tiling=(("turns", True), ("head_group", 2))),
    "three groups": Case(
        1, 2, 500, 500, 64, True, 2, tiling=(("block_m", 192), ("turns", True), ("q_stages", 2))
    ),
    "three stages": Case(1, 2, 300, 700, 64, False, 3, tiling=(("stages", 3), ("block_n", 96))),
    "large scores": Case(1, 2, 130, 200, 64, True, 2, size=12.0),
    "bfloat16": Case(1, 2, 140, 300, 64, True, 3, dtype="bfloat16"),
}


def tensors(name: str) -> tuple[Any, ...]:
    """Return q, k, v of a case in BHSD. Later keys are longer, so that maxima move."""
    case = CASES[name]
    rng = np.random.default_rng(sorted(CASES).index(name))
    q = rng.standard_normal((case.batch, case.heads, case.seq_q, case.dim)) * case.size
    k, v = rng.standard_normal((2, case.batch, case.heads, case.seq_kv, case.dim))
    k *= np.linspace(0.2, 1.5, case.seq_kv)[:, None]
    return tuple(x.astype(numpy_type(case.dtype)) for x in (q, k, v))


def laid(layout: str, x: Any) -> Any:
    """Return a BHSD tensor in a layout, or back."""
    return x if layout == "BHSD" else np.ascontiguousarray(np.swapaxes(x, 1, 2))


@cache
def ran() -> dict[str, Any]:
    """Return the output of every case, from one child process."""
    runs = []
    for name, case in CASES.items():
        named = {**case._asdict(), "block_n": 64, **dict(case.tiling)}
        arguments = {n: x for n, x in named.items() if n not in ("size", "tiling")}
        runs.append(Run(arguments, tuple(laid(case.layout, x) for x in tensors(name))))
    found = outputs("kernels/mha/tilelang_persistent.py", "mha_persistent", runs)
    return {n: laid(CASES[n].layout, out) for n, (out,) in zip(CASES, found, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case, given, got = CASES[name], tensors(name), ran()[name]
    exact = attention(*given, causal=case.causal)
    inputs = Inputs(given, {"causal": case.causal})
    most = allowed(attention, inputs, case.dtype, -(-case.seq_kv // 64), splits=False)
    assert got.dtype == given[0].dtype
    assert (np.abs(got.astype(np.float64) - exact) <= most).all()  # NaN is no success


def test_shared_heads_are_for_another_folder() -> None:
    pytest.importorskip("tilelang")
    from kernels.mha.tilelang_persistent import attention as launched

    q, k, v = claiming((1, 4, 5, 64), (1, 2, 5, 64), (1, 2, 5, 64))
    with pytest.raises(ValueError, match="kernels/gqa does that"):
        launched(q, k, v)
    with pytest.raises(ValueError, match="5 causal queries, and k only 4"):
        launched(q, *claiming(*[(1, 4, 4, 64)] * 2), causal=True)
