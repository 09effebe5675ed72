"""The kernel with sink, window, groups and packed samples without a GPU: values, and refusals."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.sink_gqa_varlen.reference import attention as reference
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.packed import Batch, claiming, compare, numpy_type, tensors

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


class Case(NamedTuple):
    batch: Batch
    causal: bool = True
    window: int | None = None
    tiling: tuple[tuple[str, Any], ...] = (("block_n", 64),)
    sinks: tuple[float, float] = (-3.0, 4.0)
    """Those of the first head and of the last."""


RAGGED = Batch((100, 1, 130), (100, 70, 140))
UNSEEING = Batch((200, 65, 3), (3, 64, 200))
CASES = {
    "ragged": Case(RAGGED),
    "ragged, not causal": Case(RAGGED, causal=False),
    "window": Case(RAGGED, window=20),
    "window, not causal": Case(RAGGED, causal=False, window=20),
    "window of 1": Case(RAGGED, window=1),
    "window of a block": Case(Batch((300,), (300,)), window=64),
    "window of all": Case(RAGGED, window=1000),
    "window, more keys": Case(Batch((20, 140), (300, 250)), window=100),
    "one token": Case(Batch((1,), (1,), kv_heads=2), window=1),
    "rows that see nothing": Case(UNSEEING),
    "rows that see nothing, window": Case(UNSEEING, window=30),
    "rows that see nothing, not causal": Case(UNSEEING, causal=False, window=30),
    "a sample without keys": Case(Batch((70, 5), (0, 80)), causal=False),
    "a sample without queries": Case(Batch((70, 0, 5), (70, 33, 80)), window=30),
    "no sink where nothing is seen": Case(UNSEEING, sinks=(-np.inf, -np.inf)),
    "sinks above all": Case(RAGGED, sinks=(60.0, 300.0)),
    "groups of 3": Case(
        Batch((65, 90), (65, 100), 6, 2), window=40, tiling=(("block_n", 64), ("head_group", 3))
    ),
    "large scores": Case(Batch((130, 30), (130, 64), size=12.0), window=50),
    "large scores, not causal": Case(Batch((30,), (200,), size=40.0), causal=False),
    "bfloat16": Case(Batch((100, 40), (130, 40), dtype="bfloat16"), window=50),
    "head size 128": Case(Batch((128, 256), (128, 256), dim=128), window=128, tiling=()),
    "three groups, turns": Case(
        Batch((250, 190), (250, 200)),
        window=100,
        tiling=(("block_m", 192), ("block_n", 64), ("turns", True)),
    ),
    "wide blocks, three stages": Case(
        Batch((140,), (700,)), window=400, tiling=(("block_n", 176), ("stages", 3))
    ),
}


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return inputs, output, and output with the last program first, of all: from one child."""
    given = [inputs(seed, case) for seed, case in enumerate(CASES.values())]
    runs = [
        Run(arguments(case), (*tensors, max(case.batch.queries), sinks), backwards)
        for case, (*tensors, sinks) in zip(CASES.values(), given, strict=True)
        for backwards in (False, True)
    ]
    file = "kernels/sink_gqa_varlen/tilelang_kernel.py"
    found = outputs(file, "sink_gqa_varlen_forward", runs)
    both = zip(found[::2], found[1::2], strict=True)
    return {
        name: (inputs, output, last_first)
        for name, inputs, ((output,), (last_first,)) in zip(CASES, given, both, strict=True)
    }


def inputs(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k, v, cu_seqlens_q, cu_seqlens_k, sinks."""
    first, last = case.sinks
    sinks = np.linspace(first, last, case.batch.heads) if np.isfinite(first) else [first] * 2
    kind = numpy_type(case.batch.dtype)
    return (*tensors(seed, case.batch), np.asarray(sinks).astype(kind))


def arguments(case: Case) -> dict[str, Any]:
    batch = case.batch
    named = {"heads": batch.heads, "kv_heads": batch.kv_heads, "dim": batch.dim}
    options = {"causal": case.causal, "window_size": case.window, "dtype": batch.dtype}
    return {**named, **options, **dict(case.tiling)}


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("no sink")])
def test_values(name: str) -> None:
    case = CASES[name]
    given, got, _ = ran()[name]
    options = {"causal": case.causal, "window_size": case.window}
    compare(name, got, reference, given, options, case.batch.dtype)


@pytest.mark.parametrize("name", ["rows that see nothing", "no sink where nothing is seen"])
def test_rows_that_see_nothing_are_zero(name: str) -> None:
    """Also without a sink, where the definition is 0 / 0."""
    _, got, _ = ran()[name]
    seen = np.any(got, axis=(1, 2))
    assert np.flatnonzero(~seen).tolist() == [*range(197), 200]


def test_without_sinks_it_is_attention() -> None:
    from kernels.varlen.reference import attention

    (*given, _), got, _ = ran()["no sink where nothing is seen"]
    compare("no sink", got, attention, tuple(given), {"causal": True}, "float16")


@pytest.mark.parametrize("name", CASES)
def test_no_program_writes_rows_of_another(name: str) -> None:
    """The last tile of a sample reaches into the next: whoever comes last would win."""
    _, got, last_first = ran()[name]
    assert got.tobytes() == last_first.tobytes()


def packed() -> tuple[Any, ...]:
    """Return tensors that claim to be on a GPU: nothing is computed before all are checked."""
    shapes = ((5, 4, 64), (7, 2, 64), (7, 2, 64))
    return (*claiming(*shapes), *claiming((0, 5), (0, 7), values=True), *claiming((4,)))


REFUSED: dict[str, tuple[int, Any, Any, str]] = {
    "four dimensions": (0, lambda x: x[None], ValueError, r"q is \[1, 5, 4, 64\]"),
    "another type": (2, lambda x: x.bfloat16(), TypeError, "v is of bfloat16, and q of float16"),
    "groups": (0, lambda x: x[:, :3].contiguous(), ValueError, "q has 3 heads"),
    "int64": (4, lambda x: x.long(), TypeError, "cu_seqlens_k is of int64"),
    "one sample more": (3, lambda x: x.repeat(2), ValueError, r"cu_seqlens_k is \[2\], and"),
    "a list": (5, lambda x: x.tolist(), TypeError, "sinks is a list"),
    "sinks of KV heads": (5, lambda x: x[:2], ValueError, r"sinks is \[2\], and has to be \[4\]"),
    "wide sinks": (5, lambda x: x.float(), TypeError, "sinks is of float32"),
    "too few rows": (4, lambda x: x - x.new_tensor([0, 1]), ValueError, "cu_seqlens_k is"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.sink_gqa_varlen.tilelang_kernel import attention

    place, change, kind, message = REFUSED[name]
    given = list(packed())
    given[place] = change(given[place])
    with pytest.raises(kind, match=message):
        attention(*given)


def test_a_window_is_not_empty() -> None:
    pytest.importorskip("tilelang")
    from kernels.sink_gqa_varlen.tilelang_kernel import attention

    with pytest.raises(ValueError, match="window_size is 0"):
        attention(*packed(), window_size=0)
