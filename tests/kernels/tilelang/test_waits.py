"""No wait and no arrival of the sparse kernels can be left out without being seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kernels.tilelang import (
    test_block_sparse,
    test_indexer,
    test_nsa,
    test_vertical_slash,
)
from tests.kernels.tilelang.interpreted import Run
from tests.kernels.tilelang.waits import unnoticed

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


def test_block_sparse_waits() -> None:
    """Each of the file's two kernels shows its own; the last two waits have another purpose.

    They let copies arrive that nobody reads, before the program ends: the interpreter has no place
    that becomes another program's.
    """
    many, silent = block_sparse("block_sparse_forward", "65", "four stages")
    few, still = block_sparse(test_block_sparse.FEW, "all read", "all read, two blocks")
    assert many == few >= 20
    found = [what for what in silent if what in still]
    for_nobody = [f"T.mbarrier_wait_parity({which}_ready[t], 0)" for which in "kv"]
    assert [what.partition(": ")[2] for what in found] == for_nobody


def block_sparse(builder: str, *names: str) -> tuple[int, list[str]]:
    """Return how many of the file's waits there are, and those that a kernel does not miss."""
    cases = [test_block_sparse.CASES[name] for name in names]
    runs, exact = [], []
    for seed, case in enumerate(cases):
        inputs = test_block_sparse.made(seed, case)
        options = {"causal": case.causal, "block": case.block}
        runs.append(Run(test_block_sparse.arguments(case), inputs))
        exact.append(test_block_sparse.reference(*inputs, **options))
    return unnoticed("kernels/block_sparse/tilelang_kernel.py", builder, runs, exact)


def test_nsa_waits() -> None:
    cases = [test_nsa.CASES[name] for name in ("two by two", "one stage")]
    given = [test_nsa.made(seed, case) for seed, case in enumerate(cases)]
    exact = [
        test_nsa.reference(*inputs, block_size=case.block_size)
        for case, inputs in zip(cases, given, strict=True)
    ]
    check("nsa", [test_nsa.arguments(case) for case in cases], given, exact)


def test_vertical_slash_waits() -> None:
    cases = [test_vertical_slash.CASES[name] for name in ("three share", "two stages")]
    given = [test_vertical_slash.made(seed, case) for seed, case in enumerate(cases)]
    exact = [test_vertical_slash.reference(*inputs) for inputs in given]
    check("vertical_slash", [test_vertical_slash.arguments(case) for case in cases], given, exact)


def test_indexer_waits() -> None:
    case = test_indexer.CASES["some"]
    inputs = test_indexer.made(0, case)
    arguments = {"heads": case.heads, "dim": case.dim, "dtype": case.dtype, **dict(case.tiling)}
    given = test_indexer.laid_out(case, inputs)
    check("indexer", [arguments], [given], [test_indexer.reference(*inputs)])


def check(folder: str, arguments: list[Any], given: list[Any], exact: list[Any]) -> None:
    runs = [Run(*one) for one in zip(arguments, given, strict=True)]
    file = f"kernels/{folder}/tilelang_kernel.py"
    many, silent = unnoticed(file, f"{folder}_forward", runs, exact)
    assert silent == []
    assert many >= 7
