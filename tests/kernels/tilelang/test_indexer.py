"""The indexer's kernel without a GPU: its values in the interpreter, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.indexer import reference as definition
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.pretended import Pretended

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")
reference: Any = definition.logits


class Case(NamedTuple):
    queries: int
    keys: int
    heads: int = 32
    dim: int = 64
    ranges: str = "causal"
    """`causal`, `all`, `none`, `some`: random, empty and reaching over both ends."""
    dtype: str = "float8_e4m3fn"
    size: float = 1.0
    tiling: tuple[tuple[str, int], ...] = (("groups", 1),)


CASES = {
    "one": Case(1, 1, ranges="all"),
    "63 by 65": Case(63, 65),
    "causal": Case(70, 300),
    "some": Case(70, 300, ranges="some"),
    "all": Case(64, 256, ranges="all"),
    "none": Case(10, 200, ranges="none"),
    "8 heads": Case(40, 140, heads=8, ranges="some"),
    "64 heads": Case(21, 140, heads=64, dim=128, ranges="some"),
    "128 heads": Case(9, 140, heads=128, ranges="some"),
    "two groups": Case(70, 300, ranges="some", tiling=(("groups", 2), ("tiles", 1))),
    "four tiles": Case(70, 300, ranges="some", tiling=(("groups", 1), ("tiles", 4))),
    "narrow": Case(30, 140, tiling=(("groups", 1), ("columns", 64), ("stages", 3))),
    "wide": Case(30, 140, tiling=(("groups", 1), ("columns", 256), ("queries", 16))),
    "fewer columns than heads": Case(9, 70, heads=64, tiling=(("groups", 1), ("columns", 32))),
    "three queries": Case(40, 140, tiling=(("groups", 1), ("columns", 96))),
    "six queries": Case(40, 140, tiling=(("groups", 1), ("columns", 192), ("queries", 12))),
    "large": Case(30, 140, size=20.0),
    "bfloat16": Case(40, 200, dtype="bfloat16", ranges="some"),
    "float16": Case(40, 200, heads=16, dim=128, dtype="float16", ranges="some"),
    "float16, 8 heads": Case(70, 140, heads=8, dim=128, dtype="float16", ranges="some"),
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q [M, H, D], k [N, D], scales, weights of both signs, starts and ends."""
    import ml_dtypes

    kind = np.float16 if case.dtype == "float16" else getattr(ml_dtypes, case.dtype)
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((case.queries, case.heads, case.dim)) * case.size
    k = rng.standard_normal((case.keys, case.dim))
    scale = rng.uniform(0.01, 2, case.keys).astype(np.float32)
    weights = rng.standard_normal((case.queries, case.heads)).astype(np.float32)
    starts, ends = np.zeros((2, case.queries), np.int32)
    if case.ranges == "some":
        starts, ends = rng.integers(-9, case.keys + 9, (2, case.queries), dtype=np.int32)
    elif case.ranges == "causal":
        ends = np.linspace(1, case.keys, case.queries).astype(np.int32)
        starts = np.where(np.arange(case.queries) > 50, ends // 2, 0).astype(np.int32)
    elif case.ranges == "all":
        ends = np.full(case.queries, case.keys, np.int32)
    return q.astype(kind), k.astype(kind), scale, weights, starts, ends


def laid_out(case: Case, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs as the kernel takes them: q [M, H, D] as [H / run, M, run, D].

    Of the queries of a tile 4, 2 or 1 lie side by side, as many as divide them, and 8 columns have
    some heads of each.
    """
    each = max(1, dict(case.tiling).get("columns", 256) // case.heads)
    run = 8 // next(beside for beside in (4, 2, 1) if each % beside == 0)
    q = inputs[0].reshape(case.queries, -1, run, case.dim)
    return (q.swapaxes(0, 1), *inputs[1:])


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the output of every case, from one child process."""
    given = [made(seed, case) for seed, case in enumerate(CASES.values())]
    runs = [
        Run(
            {"heads": case.heads, "dim": case.dim, "dtype": case.dtype, **dict(case.tiling)},
            laid_out(case, inputs),
        )
        for case, inputs in zip(CASES.values(), given, strict=True)
    ]
    found = outputs("kernels/indexer/tilelang_kernel.py", "indexer_forward", runs)
    return {
        name: (inputs, output) for name, inputs, (output,) in zip(CASES, given, found, strict=True)
    }


def budget(case: Case, given: tuple[Any, ...]) -> Any:
    """Return how far each score may be off: the roundings of a sum of float32 in any order.

    A head's product has as many terms as there are components, and then come the heads; each term
    is rounded at the size of what is added up, in magnitudes.
    """
    q, k, scale, weights, _, _ = (np.abs(x.astype(np.float64)) for x in given)
    summed = np.einsum("mhd,nd,mh->mn", q, k, weights) * scale
    return (case.dim + case.heads + 4) * 2.0**-24 * summed


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    given, got = ran()[name]
    exact = reference(*given)
    assert got.shape == exact.shape
    assert got.dtype == np.float32
    hidden = np.isneginf(exact)
    np.testing.assert_array_equal(np.isneginf(got), hidden)
    difference = np.abs(np.where(hidden, 0, got) - np.where(hidden, 0, exact))
    bad = np.argwhere(~(difference <= budget(case, given)))
    assert not len(bad), f"{name}: {len(bad)} of {got.size} off, first {bad[0]}"


def tensor(*shape: int, **facts: str) -> Any:
    return Pretended(*shape, **facts)


FP8 = "float8_e4m3fn"
GOOD = (tensor(7, 32, 64, dtype=FP8), tensor(9, 64, dtype=FP8), tensor(9, dtype="float32"),
        tensor(7, 32, dtype="float32"), *[tensor(7, dtype="int32")] * 2)  # fmt: skip
REFUSED: dict[str, tuple[int, Any, type[Exception], str]] = {
    "no tensor": (0, [1.0], TypeError, "q is a list"),
    "flat": (0, tensor(224, 64, dtype=FP8), ValueError, r"q is \[224, 64\], and has to be"),
    "float32": (0, tensor(7, 32, 64, dtype="float32"), TypeError, "q is of float32"),
    "heads": (0, tensor(7, 24, 64, dtype=FP8), ValueError, "q has 24 heads, and may have"),
    "components": (0, tensor(7, 32, 48, dtype=FP8), ValueError, "q has 48 components"),
    "strided": (0, tensor(7, 32, 64, dtype=FP8).strided(), ValueError, "q is not contiguous"),
    "keys of another type": (1, tensor(9, 64, dtype="bfloat16"), TypeError, "k is of bfloat16"),
    "shorter keys": (1, tensor(9, 32, dtype=FP8), ValueError,
                     r"k is \[9, 32\], and has to be \[9, 64\]"),
    "no keys": (1, tensor(0, 64, dtype=FP8), ValueError, "k is empty"),
    "keys with heads": (1, tensor(9, 1, 64, dtype=FP8), ValueError, r"k is \[9, 1, 64\]"),
    "fewer scales": (2, tensor(8, dtype="float32"), ValueError, r"k_scale is \[8\]"),
    "half weights": (3, tensor(7, 32, dtype="float16"), TypeError, "weights is of float16"),
    "long starts": (4, tensor(7, dtype="int64"), TypeError, "ks is of int64"),
    "more ends": (5, tensor(8, dtype="int32"), ValueError, r"ke is \[8\], and has to be \[7\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.indexer import tilelang_kernel

    logits: Any = tilelang_kernel.logits
    place, wrong, kind, message = REFUSED[name]
    given = [*GOOD[:place], wrong, *GOOD[place + 1 :]]
    with pytest.raises(kind, match=message):
        logits(*given)
