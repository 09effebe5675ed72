"""The attention kernel without a GPU: its values in the interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.mha import reference as definition
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.packed import numpy_type

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")
attention: Any = definition.attention


class Case(NamedTuple):
    seq_q: int
    seq_kv: int
    causal: bool = True
    dim: int = 64
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    tiling: tuple[tuple[str, Any], ...] = (("block_n", 64),)


WIDE = (("block_m", 192), ("block_n", 64), ("turns", True))
CASES = {
    "one block or two": Case(200, 200, tiling=()),
    "ragged": Case(150, 300, causal=False),
    "three groups": Case(400, 400, tiling=WIDE),
    "large scores": Case(130, 400, size=12.0),
    "huge scores": Case(100, 400, causal=False, size=60.0),
    "bfloat16": Case(140, 300, dtype="bfloat16", dim=128),
}


def tensors(name: str) -> tuple[Any, ...]:
    """Return q, k, v [1, 2, S, D]. Later keys are longer, so that maxima move."""
    case = CASES[name]
    rng = np.random.default_rng(list(CASES).index(name))
    q = rng.standard_normal((1, 2, case.seq_q, case.dim)) * case.size
    k, v = rng.standard_normal((2, 1, 2, case.seq_kv, case.dim))
    k *= np.linspace(0.2, 1.5, case.seq_kv)[:, None]
    return tuple(x.astype(numpy_type(case.dtype)) for x in (q, k, v))


@cache
def ran() -> dict[str, Any]:
    """Return the output of every case, from one child process."""
    runs = [Run(arguments(case), tensors(name)) for name, case in CASES.items()]
    found = outputs("kernels/mha/tilelang_kernel.py", "mha_forward", runs)
    return {name: out for name, (out,) in zip(CASES, found, strict=True)}


def arguments(case: Case) -> dict[str, Any]:
    named = {"batch": 1, "heads": 2, **case._asdict(), **dict(case.tiling)}
    return {name: value for name, value in named.items() if name not in ("size", "tiling")}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case, inputs = CASES[name], tensors(name)
    options = {"causal": case.causal}
    exact = attention(*(x.astype(np.float64) for x in inputs), **options)
    got = ran()[name].astype(np.float64)
    budget = allowed(attention, Inputs(inputs, options), case.dtype, case.seq_kv // 64 + 1, False)
    bad = np.argwhere(~(np.abs(got - exact) <= budget))
    assert not len(bad), f"{len(bad)} of {got.size} off, first {bad[0]}"
