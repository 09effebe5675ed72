"""The block-sparse kernel without a GPU: values in the interpreter, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.block_sparse import reference as definition
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.pretended import Pretended

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")

reference: Any = definition.attention


class Case(NamedTuple):
    seq_len: int
    causal: bool
    density: float = 0.5
    """The share of blocks that are on; beyond 1, all."""
    batch: int = 1
    heads: int = 2
    dim: int = 64
    block: int = 64
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    tiling: tuple[tuple[str, int], ...] = ()
    builder: str = "block_sparse_forward"


FEW = "block_sparse_few"
CASES = {
    "one token": Case(1, causal=True, density=2),
    "63": Case(63, causal=False, density=2),
    "65": Case(65, causal=True, density=2),
    "ragged": Case(300, causal=True, batch=2),
    "ragged, not causal": Case(300, causal=False, batch=2, dim=128),
    "whole": Case(512, causal=False),
    "few": Case(700, causal=True, density=0.15, heads=3),
    "none": Case(200, causal=False, density=0),
    "large scores": Case(300, causal=True, size=12.0, dim=128),
    "large scores, not causal": Case(300, causal=False, size=40.0),
    "bfloat16": Case(300, causal=True, dtype="bfloat16"),
    "bfloat16, not causal": Case(200, causal=False, dtype="bfloat16", size=12.0),
    "blocks of 128": Case(700, causal=True, block=128, tiling=(("residents", 1),)),
    "blocks of 128, not causal": Case(520, causal=False, block=128, dim=128),
    "four stages": Case(800, causal=False, density=0.7, tiling=(("stages", 4), ("residents", 1))),
    "one stage": Case(500, causal=True, density=0.7, tiling=(("stages", 1), ("residents", 3))),
    "all read": Case(500, causal=True, batch=2, builder=FEW),
    "all read, one token": Case(1, causal=True, density=2, builder=FEW),
    "all read, two blocks": Case(128, causal=True, density=2, builder=FEW),
    "all read, not causal": Case(300, causal=False, dim=128, builder=FEW),
    "all read, none on": Case(200, causal=True, density=0, builder=FEW),
    "all read, large scores": Case(300, causal=True, size=12.0, builder=FEW),
    "all read, blocks of 128": Case(300, causal=False, block=128, builder=FEW),
    "heads side by side": Case(300, causal=True, batch=3, tiling=(("head_group", 3),)),
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k, v and the table. Later keys are longer, so that the maximum moves."""
    import ml_dtypes

    kinds = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    rng = np.random.default_rng(seed)
    shape = (case.batch, case.heads, case.seq_len, case.dim)
    q, k, v = rng.standard_normal((3, *shape))
    k *= np.linspace(0.2, 1.5, case.seq_len)[:, None]
    tiles = -(-case.seq_len // case.block)
    table = rng.random((case.batch, case.heads, tiles, tiles)) < case.density
    return (*(x.astype(kinds[case.dtype]) for x in (q * case.size, k, v)), table)


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the output of every case, from a child process for each builder."""
    given = {name: made(seed, case) for seed, (name, case) in enumerate(CASES.items())}
    found = {}
    for builder in ("block_sparse_forward", FEW):
        names = [name for name, case in CASES.items() if case.builder == builder]
        runs = [Run(arguments(CASES[name]), given[name]) for name in names]
        got = outputs("kernels/block_sparse/tilelang_kernel.py", builder, runs)
        found.update({name: (given[name], x) for name, (x,) in zip(names, got, strict=True)})
    return found


def arguments(case: Case) -> dict[str, Any]:
    named = {**case._asdict(), **dict(case.tiling)}
    return {k: x for k, x in named.items() if k not in ("density", "size", "tiling", "builder")}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    given, got = ran()[name]
    options = {"causal": case.causal, "block": case.block}
    exact = reference(*given, **options)
    budget = allowed(reference, Inputs(given, options), case.dtype, -(-case.seq_len // 64), False)
    assert got.shape == exact.shape
    assert got.dtype == case.dtype
    bad = np.argwhere(~(np.abs(got.astype(np.float64) - exact) <= budget))
    assert not len(bad), f"{name}: {len(bad)} of {got.size} off, first {bad[0]}"


def test_rows_whose_blocks_are_all_off_are_zero() -> None:
    case = CASES["few"]
    (*_, table), got = ran()["few"]
    tiles = table.shape[2]
    empty = ~(table & (np.tri(tiles) > 0)).any(axis=3)
    assert empty.any()
    rows = np.repeat(empty, case.block, axis=2)[:, :, : case.seq_len]
    assert not got[rows].any()
    assert got[~rows].any(axis=1).all()


def tensor(*shape: int, **facts: str) -> Any:
    return Pretended(*shape, **facts)


GOOD = (tensor(1, 2, 100, 64), tensor(1, 2, 100, 64), tensor(1, 2, 100, 64),
        tensor(1, 2, 2, 2, dtype="bool"))  # fmt: skip
REFUSED: dict[str, tuple[int, Any, type[Exception], str]] = {
    "three dimensions": (0, tensor(2, 100, 64), ValueError, r"q is \[2, 100, 64\]"),
    "no tensor": (1, [1.0], TypeError, "k is a list"),
    "float32": (0, tensor(1, 2, 100, 64, dtype="float32"), TypeError, "q is of float32"),
    "head size": (0, tensor(1, 2, 100, 80), ValueError, "q has head size 80"),
    "fewer keys": (1, tensor(1, 2, 90, 64), ValueError, r"v is \[1, 2, 100, 64\], and k"),
    "strided": (2, tensor(1, 2, 100, 64).strided(), ValueError, "v is not contiguous"),
    "table of another size": (3, tensor(1, 2, 3, 3, dtype="bool"), ValueError,
                              r"block_mask is \[1, 2, 3, 3\], and has to be \[1, 2, 2, 2\]"),
    "table of numbers": (3, tensor(1, 2, 2, 2, dtype="int32"), TypeError,
                         "block_mask is of int32 on cuda:0: bool on cuda:0"),
    "table elsewhere": (3, tensor(1, 2, 2, 2, dtype="bool", device="cpu"), TypeError,
                        "block_mask is of bool on cpu"),
    "strided table": (3, tensor(1, 2, 2, 2, dtype="bool").strided(), ValueError,
                      "block_mask is not contiguous"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.block_sparse import tilelang_kernel

    attention: Any = tilelang_kernel.attention
    place, wrong, kind, message = REFUSED[name]
    given = [*GOOD[:place], wrong, *GOOD[place + 1 :]]
    with pytest.raises(kind, match=message):
        attention(*given, causal=True)


def test_other_lengths_and_blocks_are_refused() -> None:
    pytest.importorskip("tilelang")
    from kernels.block_sparse import tilelang_kernel

    attention: Any = tilelang_kernel.attention
    q, k, v, table = GOOD
    with pytest.raises(ValueError, match=r"k is \[1, 1, 100, 64\], and q \[1, 2, 100, 64\]"):
        attention(q, *[tensor(1, 1, 100, 64)] * 2, table, causal=True)
    with pytest.raises(ValueError, match="block is 32, and may be one of"):
        attention(q, k, v, table, causal=True, block=32)
