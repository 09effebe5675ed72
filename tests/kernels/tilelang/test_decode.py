"""The decoding kernel without a GPU: its values in the interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.decode.reference import attention as reference
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


class Case(NamedTuple):
    seq_kv: int
    splits: int = 1
    batch: int = 1
    heads: int = 8
    kv_heads: int = 2
    dim: int = 64
    block_n: int = 64
    stages: int = 3
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    density: float = 2.0
    """The share of keys that the mask leaves; beyond 1 there is no mask."""


CASES = {
    "one key": Case(1),
    "63": Case(63, batch=2),
    "65": Case(65, splits=2, dim=128),
    "ragged splits": Case(700, splits=4, stages=2),
    "blocks of 128": Case(700, splits=3, block_n=128, dim=128),
    "more splits than blocks": Case(100, splits=5),
    "groups of 70": Case(200, heads=140),
    "one head each": Case(300, heads=3, kv_heads=3, splits=2),
    "masked": Case(500, splits=3, density=0.5, batch=2),
    "masked, blocks of 128": Case(500, splits=2, density=0.5, block_n=128, dim=128),
    "few keys left": Case(500, splits=4, density=0.004, batch=2),
    "no key left": Case(300, splits=2, density=0.0),
    "large scores": Case(300, splits=2, size=12.0),
    "large scores, masked": Case(400, splits=3, size=40.0, density=0.3),
    "bfloat16": Case(300, splits=2, dtype="bfloat16", dim=128),
    "bfloat16, masked": Case(300, splits=2, dtype="bfloat16", density=0.5, size=12.0),
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k, v, mask. Keys grow, and then shrink: the maximum moves and stays."""
    import ml_dtypes

    kind = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[case.dtype]
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((case.batch, case.heads, case.dim)) * case.size
    k, v = rng.standard_normal((2, case.batch, case.seq_kv, case.kv_heads, case.dim))
    k *= 1.5 - np.abs(np.linspace(-1, 1.2, case.seq_kv))[:, None, None]
    mask = rng.random(k.shape[:3]) < case.density if case.density <= 1 else np.ones((1, 1, 1))
    return (*(x.astype(kind) for x in (q, k, v)), mask.astype(np.uint8))


def arguments(case: Case) -> dict[str, Any]:
    apart = ("size", "density")
    return {k: x for k, x in case._asdict().items() if k not in apart} | {
        "masked": case.density <= 1
    }


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the output of every case, from one child process."""
    given = [made(seed, case) for seed, case in enumerate(CASES.values())]
    runs = [Run(arguments(c), x) for c, x in zip(CASES.values(), given, strict=True)]
    found = outputs("kernels/decode/tilelang_kernel.py", "decode_forward", runs)
    return {
        name: (inputs, output) for name, inputs, (output,) in zip(CASES, given, found, strict=True)
    }


def definition(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """The reference for one query."""
    return reference(q[:, None], k, v, **options)[:, 0]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    (q, k, v, mask), got = ran()[name]
    options = {"mask": mask if case.density <= 1 else None}
    exact = definition(q, k, v, **options)
    blocks = -(-case.seq_kv // 64)
    budget = allowed(definition, Inputs((q, k, v), options), case.dtype, blocks, case.splits > 1)
    assert got.shape == exact.shape
    assert got.dtype == case.dtype
    bad = np.argwhere(~(np.abs(got.astype(np.float64) - exact) <= budget))
    assert not len(bad), f"{name}: {len(bad)} of {got.size} off, first {bad[0]}"


def test_a_query_that_sees_no_key_is_zero() -> None:
    _, got = ran()["no key left"]
    assert not got.any()
