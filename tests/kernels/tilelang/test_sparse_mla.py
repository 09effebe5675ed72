"""The sparse MLA kernel without a GPU: its values, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.sparse_mla.reference import attention as reference
from tests.kernels.budget import UNIT
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.pretended import Pretended

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


class Case(NamedTuple):
    heads: int
    topk: int
    seq_len: int
    tokens: int
    first: int = 0
    kv_heads: int = 1
    batch: int = 1
    lag: int = 2
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    softmax_scale: float | None = None
    least: int = -3
    """The smallest number that a list may hold; above the last query, nothing is visible."""


CASES = {
    "one token": Case(5, 1, 1, 1, least=0),
    "some hidden": Case(16, 130, 3, 200, first=100),
    "most hidden": Case(16, 200, 2, 300, first=5, lag=1),
    "nothing visible": Case(16, 100, 2, 300, first=5, least=20),
    "more heads than a tile": Case(70, 64, 2, 90, first=90),
    "groups": Case(12, 65, 2, 130, first=60, kv_heads=3),
    "large groups": Case(192, 70, 1, 130, first=80, kv_heads=2, lag=0),
    "samples": Case(16, 128, 2, 150, first=149, batch=2),
    "many blocks": Case(16, 500, 1, 600, first=599),
    "large scores": Case(16, 200, 2, 250, first=249, size=12.0),
    "larger scores": Case(16, 300, 1, 250, first=200, size=40.0, lag=1),
    "bfloat16": Case(16, 130, 2, 150, first=120, dtype="bfloat16"),
    "bfloat16, large scores": Case(64, 200, 1, 150, first=120, dtype="bfloat16", size=12.0),
    "another scale": Case(16, 100, 1, 100, first=90, softmax_scale=0.11),
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, kv, indices. What is hidden is NaN where it can be: nobody may look at it."""
    import ml_dtypes

    kinds = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((case.batch, case.seq_len, case.heads, 576)) * case.size
    kv = rng.standard_normal((case.batch, case.tokens, case.kv_heads, 576))
    kv[..., 512:] *= np.linspace(0.2, 2, case.tokens)[:, None, None]
    lists = (case.batch, case.seq_len, case.kv_heads, case.topk)
    indices = rng.integers(case.least, case.tokens + 3, lists).astype(np.int32)
    kv[:, case.first + case.seq_len :] = np.nan
    return (*(x.astype(kinds[case.dtype]) for x in (q, kv)), indices)


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the outputs of every case, from one child process."""
    given = [made(seed, case) for seed, case in enumerate(CASES.values())]
    builder = ("heads", "kv_heads", "topk", "softmax_scale", "dtype", "lag")
    runs = [
        Run({name: getattr(case, name) for name in builder}, (*inputs, case.first))
        for case, inputs in zip(CASES.values(), given, strict=True)
    ]
    found = outputs("kernels/sparse_mla/tilelang_kernel.py", "sparse_mla_forward", runs)
    return dict(zip(CASES, zip(given, found, strict=True), strict=True))


def exact(case: Case, given: tuple[Any, ...], dtype: Any = np.float64) -> tuple[Any, Any]:
    """Return the definition's output and lse; tokens that do not exist are hidden."""
    q, kv, indices = given
    listed = np.where(indices < case.tokens, indices, -1)
    scale = case.softmax_scale or 576**-0.5
    return reference(q, kv, listed, dim=512, scale=scale, first=case.first, dtype=dtype)


def allowed(case: Case, given: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return how far outputs and lse may be off: what `budget.allowed` says, for lists."""
    q, kv, indices = given
    (wide, _), (narrow, _) = (exact(case, given, kind) for kind in (np.float64, np.float32))
    # Magnitudes as values, the same keys behind them: what was added up.
    apart = np.concatenate([np.abs(kv[..., :512]), kv], -1)
    queries = np.concatenate([np.zeros_like(q[..., :512]), q], -1)
    spread, _ = exact(case, (queries, apart, indices))
    finite = np.nan_to_num(kv.astype(np.float64))
    largest = np.linalg.norm(q.astype(np.float64), axis=-1).max()
    largest *= np.linalg.norm(finite, axis=-1).max() * (case.softmax_scale or 576**-0.5)
    roundings = (2 * -(-case.topk // 64) + 6 * largest) * UNIT["float32"]
    stored = UNIT[case.dtype] * (np.abs(wide) + spread)
    return 2 * np.abs(narrow - wide).max() + stored + roundings * spread, 1e-6 + 4 * roundings


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    given, (got, lse) = ran()[name]
    wanted, wanted_lse = exact(case, given)
    budget, lse_budget = allowed(case, given)
    assert got.dtype == case.dtype
    assert lse.dtype == np.float32
    off = np.argwhere(~(np.abs(got.astype(np.float64) - wanted) <= budget))
    assert not len(off), f"{name}: {len(off)} of {got.size} off, first {off[0]}"
    seen = np.isfinite(wanted_lse)
    assert (np.abs(lse[seen] - wanted_lse[seen]) <= lse_budget).all()
    assert (lse[~seen] == -np.inf).all()
    assert not got[~seen].any()


def test_some_queries_see_nothing() -> None:
    _, (_, lse) = ran()["nothing visible"]
    assert np.isneginf(lse).all()


def tensors() -> dict[str, Any]:
    return {
        "q": Pretended(2, 3, 16, 576, dtype="bfloat16"),
        "kv": Pretended(2, 9, 2, 576, dtype="bfloat16"),
        "indices": Pretended(2, 3, 2, 5, dtype="int32"),
    }


REFUSED: dict[str, tuple[str, Any, Any, str]] = {
    "no tensor": ("indices", [1], TypeError, "indices is a list"),
    "three dimensions": ("q", Pretended(3, 16, 576), ValueError, r"q is \[3, 16, 576\]"),
    "no tokens": ("kv", Pretended(2, 0, 2, 576), ValueError, r"kv is \[2, 0, 2, 576\]"),
    "float32": ("q", Pretended(2, 3, 16, 576, dtype="float32"), TypeError, "q is of float32"),
    "head size": ("q", Pretended(2, 3, 16, 512), ValueError, "q is .* has to be .2, 3, 16, 576"),
    "another type": ("kv", Pretended(2, 9, 2, 576), TypeError, "kv is of float16"),
    "samples": ("kv", Pretended(1, 9, 2, 576), ValueError, "kv is .* has to be .2, 9, 2, 576"),
    "groups": ("kv", Pretended(2, 9, 3, 576, dtype="bfloat16"), ValueError, "indices is .2, 3, 2"),
    "lists": ("indices", Pretended(2, 4, 2, 5, dtype="int32"), ValueError, "indices is .2, 4"),
    "int64": ("indices", Pretended(2, 3, 2, 5, dtype="int64"), TypeError, "indices is of int64"),
    "heads": ("q", Pretended(2, 3, 15, 576, dtype="bfloat16"), ValueError, "q has 15 heads"),
    "position": ("first", -1, ValueError, "first is -1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.sparse_mla.tilelang_kernel import attention

    wrong, instead, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        attention(**{**tensors(), wrong: instead})
