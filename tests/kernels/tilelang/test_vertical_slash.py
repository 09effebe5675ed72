"""The vertical-slash kernel without a GPU: values in the interpreter, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.vertical_slash import reference as definition
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.pretended import Pretended

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")
reference: Any = definition.attention


class Case(NamedTuple):
    seq_len: int
    most_blocks: int = 3
    most_columns: int = 40
    counts: str = "random"
    """`random`, `full`, `none`, `slashes` or `columns`: which lists have something in them."""
    batch: int = 1
    heads: int = 1
    dim: int = 64
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    tiling: tuple[tuple[str, int], ...] = ()


ALONE = (("sharers", 1),)
CASES = {
    "one token": Case(1, most_columns=1, counts="full"),
    "63": Case(63, counts="full"),
    "65": Case(65, batch=2, heads=2),
    "ragged": Case(300, 5, 100, heads=2),
    "whole tiles of columns": Case(256, 2, 128, counts="full", dim=128),
    "slashes alone": Case(300, 5, counts="slashes"),
    "columns alone": Case(300, 2, 200, counts="columns"),
    "nothing": Case(200, counts="none"),
    "large scores": Case(300, 4, 90, size=12.0, dim=128),
    "larger scores": Case(200, 4, 90, counts="full", size=40.0),
    "bfloat16": Case(300, 5, 100, dtype="bfloat16"),
    "bfloat16, alone": Case(200, 5, 100, dtype="bfloat16", size=12.0, tiling=ALONE),
    "alone": Case(400, 6, 70, tiling=ALONE),
    "three share": Case(500, 8, 150, tiling=(("sharers", 3), ("stages", 6))),
    "two stages": Case(400, 7, 150, counts="full", tiling=(("stages", 2), ("residents", 2))),
    "heads side by side": Case(200, heads=4, tiling=(("head_group", 2),)),
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k, v, counts and lists. Later keys are longer, so that the maximum moves."""
    import ml_dtypes

    kinds = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, case.batch, case.heads, case.seq_len, case.dim))
    k *= np.linspace(0.2, 1.5, case.seq_len)[:, None]
    floats = (x.astype(kinds[case.dtype]) for x in (q * case.size, k, v))
    entries = (case.batch, case.heads, -(-case.seq_len // 64))
    # Blocks that begin anywhere, after the query, too; entries that nothing counts are garbage.
    blocks = rng.integers(0, case.seq_len, (*entries, case.most_blocks), dtype=np.int32)
    columns = rng.integers(0, case.seq_len, (*entries, case.most_columns), dtype=np.int32)
    counts = [counted(rng, case, name, entries) for name in ("slashes", "columns")]
    return (*floats, counts[0], blocks, counts[1], columns)


def counted(rng: Any, case: Case, name: str, entries: tuple[int, ...]) -> Any:
    most = case.most_blocks if name == "slashes" else case.most_columns
    if case.counts == "random":
        return rng.integers(0, most + 1, entries, dtype=np.int32)
    return np.full(entries, most if case.counts in ("full", name) else 0, np.int32)


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the output of every case, from one child process."""
    given = [made(seed, case) for seed, case in enumerate(CASES.values())]
    runs = [
        Run(arguments(case), inputs) for case, inputs in zip(CASES.values(), given, strict=True)
    ]
    found = outputs("kernels/vertical_slash/tilelang_kernel.py", "vertical_slash_forward", runs)
    return {
        name: (inputs, output) for name, inputs, (output,) in zip(CASES, given, found, strict=True)
    }


def arguments(case: Case) -> dict[str, Any]:
    named = {**case._asdict(), **dict(case.tiling)}
    return {k: x for k, x in named.items() if k not in ("counts", "size", "tiling")}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    given, got = ran()[name]
    exact = reference(*given)
    tiles = case.most_blocks + -(-case.most_columns // 64)
    budget = allowed(reference, Inputs(given, {}), case.dtype, tiles, True)
    assert got.shape == exact.shape
    assert got.dtype == case.dtype
    bad = np.argwhere(~(np.abs(got.astype(np.float64) - exact) <= budget))
    assert not len(bad), f"{name}: {len(bad)} of {got.size} off, first {bad[0]}"


def test_rows_that_see_nothing_are_zero() -> None:
    assert not ran()["nothing"][1].any()
    (_, _, _, _, blocks, _, _), got = ran()["slashes alone"]
    begin = np.repeat(blocks[0, 0].min(axis=1), 64)[:300]
    sees = begin <= np.arange(300)
    assert not sees.all()
    assert not got[0, 0, ~sees].any()
    assert got[0, 0, sees].any(axis=1).all()


def test_a_count_larger_than_its_list_is_the_length_of_the_list() -> None:
    q, k, v, count, blocks, column_count, columns = ran()["63"][0]
    more = (q, k, v, count + 5, blocks, column_count + 7, columns)
    (got,) = outputs(
        "kernels/vertical_slash/tilelang_kernel.py",
        "vertical_slash_forward",
        [Run(arguments(CASES["63"]), more)],
    )[0]
    np.testing.assert_array_equal(got, ran()["63"][1])


def tensor(*shape: int, **facts: str) -> Any:
    return Pretended(*shape, **facts)


COUNT = tensor(1, 2, 2, dtype="int32")
GOOD = (*[tensor(1, 2, 100, 64)] * 3, COUNT, tensor(1, 2, 2, 3, dtype="int32"), COUNT,
        tensor(1, 2, 2, 40, dtype="int32"))  # fmt: skip
REFUSED: dict[str, tuple[int, Any, type[Exception], str]] = {
    "three dimensions": (0, tensor(2, 100, 64), ValueError, r"q is \[2, 100, 64\]"),
    "no tensor": (2, [1.0], TypeError, "v is a list"),
    "float32": (0, tensor(1, 2, 100, 64, dtype="float32"), TypeError, "q is of float32"),
    "other heads": (0, tensor(1, 4, 100, 64), ValueError, r"k is \[1, 2, 100, 64\], and q"),
    "other counts": (3, tensor(1, 2, 3, dtype="int32"), ValueError,
                     r"block_count is \[1, 2, 3\], and has to be \[1, 2, 2\]"),
    "int64 counts": (5, tensor(1, 2, 2, dtype="int64"), TypeError, "column_count is of int64"),
    "no list": (4, [1], TypeError, "block_offset is a list"),
    "no room": (6, tensor(1, 2, 2, 0, dtype="int32"), ValueError, "column_index is .* have room"),
    "other lists": (6, tensor(2, 2, 40, dtype="int32"), ValueError,
                    r"column_index is \[2, 2, 40\], and has to be \[1, 2, 2, 40\]"),
    "strided list": (4, tensor(1, 2, 2, 3, dtype="int32").strided(), ValueError,
                     "block_offset is not contiguous"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.vertical_slash import tilelang_kernel

    attention: Any = tilelang_kernel.attention
    place, wrong, kind, message = REFUSED[name]
    given = [*GOOD[:place], wrong, *GOOD[place + 1 :]]
    with pytest.raises(kind, match=message):
        attention(*given)


@pytest.mark.parametrize("stages", [2, 4])
def test_a_stage_of_two_sharers_is_refused(stages: int) -> None:
    """With 4 stages of 3 sharers the kernel hung on an H200, about once in twenty calls."""
    pytest.importorskip("tilelang")
    from kernels.vertical_slash import tilelang_kernel

    attention: Any = tilelang_kernel.attention
    with pytest.raises(ValueError, match=f"{stages} stages for 3 sharers: a multiple is needed"):
        attention(*GOOD, tiling=tilelang_kernel.Tiling(stages=stages, sharers=3))


@pytest.mark.parametrize("stages", [4, 5])
def test_the_interpreter_sees_a_stage_of_two_sharers(stages: int) -> None:
    case = Case(500, 8, 150, tiling=(("sharers", 3), ("stages", stages)))
    run = Run(arguments(case), made(0, case))
    with pytest.raises(AssertionError, match=r"early-wait.*k_ready\[0\]"):
        outputs("kernels/vertical_slash/tilelang_kernel.py", "vertical_slash_forward", [run])
