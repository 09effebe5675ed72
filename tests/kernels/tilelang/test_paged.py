"""The kernel for paged caches without a GPU: its values, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from kernels.paged.reference import attention as reference
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.paging import CASES, Case, made
from tests.kernels.tilelang.pretended import Pretended

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


def typed(seed: int, case: Case) -> tuple[Any, ...]:
    import ml_dtypes

    kind = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}[case.dtype]
    q, k, v, *rest = made(seed, case)
    return (*(x.astype(kind) for x in (q, k, v)), *rest)


def arguments(case: Case) -> dict[str, Any]:
    names = ("heads", "kv_heads", "dim", "page_size", "block_n", "dtype", "stages", "splits")
    return {**{n: getattr(case, n) for n in names}, "listed": case.chosen > 0}


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the output of every case, from one child process."""
    given = [typed(seed, case) for seed, case in enumerate(CASES.values())]
    runs = [Run(arguments(c), x) for c, x in zip(CASES.values(), given, strict=True)]
    found = outputs("kernels/paged/tilelang_kernel.py", "paged_forward", runs)
    return {
        name: (inputs, output) for name, inputs, (output,) in zip(CASES, given, found, strict=True)
    }


def definition(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """The reference for one query; it multiplies by what it has hidden, which is not NaN there."""
    k, v = (np.nan_to_num(x.astype(np.float64)).astype(x.dtype) for x in (k, v))
    return reference(q[:, :, None], k, v, **options)[:, :, 0]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    (q, k, v, indices, lengths, table), got = ran()[name]
    options = {"block_table": table, "cache_seqlens": lengths, "block_n": case.block_n}
    options["block_indices"] = indices if case.chosen else None
    exact = definition(q, k, v, **options)
    blocks = -(-max(case.lengths) // 64)
    budget = allowed(definition, Inputs((q, k, v), options), case.dtype, blocks, case.splits > 1)
    assert got.shape == exact.shape
    assert got.dtype == case.dtype
    bad = np.argwhere(~(np.abs(got.astype(np.float64) - exact) <= budget))
    assert not len(bad), f"{name}: {len(bad)} of {got.size} off, first {bad[0]}"


def test_a_sample_without_keys_is_zero() -> None:
    _, got = ran()["no keys"]
    assert not got[0].any()
    assert got[1].any()


def tensors() -> dict[str, Any]:
    return {
        "q": Pretended(2, 8, 64),
        "k_pages": Pretended(9, 128, 2, 64),
        "v_pages": Pretended(9, 128, 2, 64),
        "block_table": Pretended(2, 4, dtype="int32"),
        "cache_seqlens": Pretended(2, dtype="int32"),
        "block_indices": Pretended(2, 2, 3, dtype="int32"),
    }


REFUSED: dict[str, tuple[str, Any, Any, str]] = {
    "no tensor": ("q", [1.0], ValueError, r"q is \[\], and has to be"),
    "four dimensions": ("q", Pretended(2, 8, 1, 64), ValueError, r"q is \[2, 8, 1, 64\]"),
    "no pages": ("k_pages", [1.0], ValueError, r"k_pages is \[\]: 4 dimensions"),
    "empty": ("k_pages", Pretended(0, 128, 2, 64), ValueError, "may not be empty"),
    "float32": ("q", Pretended(2, 8, 64, dtype="float32"), TypeError, "q is of float32"),
    "head size": ("q", Pretended(2, 8, 32), ValueError, "q has head size 32"),
    "another head size": ("k_pages", Pretended(9, 128, 2, 128), ValueError, "k_pages is .*, 64.$"),
    "another type": ("v_pages", Pretended(9, 128, 2, 64, dtype="bfloat16"), TypeError, "v_pages"),
    "groups": ("q", Pretended(2, 7, 64), ValueError, "q has 7 heads"),
    "pages": ("v_pages", Pretended(8, 128, 2, 64), ValueError, "v_pages is .* be .9, 128, 2, 64"),
    "table": ("block_table", Pretended(1, 4, dtype="int32"), ValueError, "block_table is .1, 4"),
    "int64": ("block_table", Pretended(2, 4, dtype="int64"), TypeError, "block_table is of int64"),
    "lengths": ("cache_seqlens", Pretended(3, dtype="int32"), ValueError, "cache_seqlens is .3"),
    "lists": ("block_indices", Pretended(2, 1, 3, dtype="int32"), ValueError, "block_indices is"),
    "no lists": ("block_indices", Pretended(2, 2, 0, dtype="int32"), ValueError, "be .2, 2, 1"),
    "list of Python": ("block_indices", [[1]], TypeError, "block_indices is a list"),
    "block": ("block_n", 256, ValueError, "block_n is 256"),
    "odd block": ("block_n", 96, ValueError, "block_n is 96"),
    "strided": ("v_pages", Pretended(9, 128, 2, 64).strided(), ValueError, "v_pages is not contig"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.paged.tilelang_kernel import attention

    wrong, instead, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        attention(**{**tensors(), wrong: instead})


def test_splits_are_powers_of_two() -> None:
    pytest.importorskip("tilelang")
    from kernels.paged.tilelang_kernel import Tiling

    assert Tiling(programs=528).splits(64, 128) == 8
    assert Tiling(programs=528).splits(64, 3) == 2
    assert Tiling(programs=528).splits(1000, 128) == 1
