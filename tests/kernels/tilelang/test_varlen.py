"""The varlen kernel without a GPU: its values in the interpreter, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.varlen.reference import attention as reference
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.packed import Batch, claiming, compare, tensors

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


class Case(NamedTuple):
    batch: Batch
    causal: bool
    tiling: dict[str, Any]


SMALL = {"block_n": 64}
CASES = {
    "ragged": Case(Batch((100, 1, 130), (100, 70, 140)), True, SMALL),
    "ragged, not causal": Case(Batch((100, 1, 130), (100, 70, 140)), False, SMALL),
    "one token": Case(Batch((1,), (1,), kv_heads=2), True, SMALL),
    "whole tiles": Case(Batch((128, 256), (128, 256), dim=128), True, {}),
    "rows that see nothing": Case(Batch((200, 65, 3), (3, 64, 200)), True, SMALL),
    "a sample without keys": Case(Batch((70, 5), (0, 80)), True, SMALL),
    "a sample without keys, not causal": Case(Batch((70, 5), (0, 80)), False, SMALL),
    "a sample without queries": Case(Batch((70, 0, 5), (70, 33, 80)), True, SMALL),
    "more keys": Case(Batch((20, 140), (300, 250)), True, SMALL),
    "groups of 3": Case(Batch((65, 90), (65, 100), 6, 2), True, {"block_n": 64, "head_group": 3}),
    "large scores": Case(Batch((130, 30), (130, 64), size=12.0), True, SMALL),
    "large scores, not causal": Case(Batch((30,), (200,), size=40.0), False, SMALL),
    "bfloat16": Case(Batch((100, 40), (130, 40), dtype="bfloat16"), True, SMALL),
    "bfloat16, large": Case(Batch((70,), (90,), dtype="bfloat16", size=12.0), False, SMALL),
    "turns": Case(Batch((200,), (280,)), True, {"block_n": 64, "turns": True}),
    "three groups": Case(
        Batch((250, 190), (250, 200)), True, {"block_m": 192, "block_n": 64, "turns": True}
    ),
    "wide blocks, three stages": Case(Batch((140,), (700,)), False, {"block_n": 176, "stages": 3}),
}


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return inputs, output, and output with the last program first, of all: from one child."""
    given = [tensors(seed, case.batch) for seed, case in enumerate(CASES.values())]
    runs = [
        Run(arguments(case), (*inputs, max(case.batch.queries)), backwards)
        for case, inputs in zip(CASES.values(), given, strict=True)
        for backwards in (False, True)
    ]
    found = outputs("kernels/varlen/tilelang_kernel.py", "varlen_forward", runs)
    both = zip(found[::2], found[1::2], strict=True)
    return {
        name: (inputs, output, last_first)
        for name, inputs, ((output,), (last_first,)) in zip(CASES, given, both, strict=True)
    }


def arguments(case: Case) -> dict[str, Any]:
    batch = case.batch
    named = {"heads": batch.heads, "kv_heads": batch.kv_heads, "dim": batch.dim}
    return {**named, "causal": case.causal, "dtype": batch.dtype, **case.tiling}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    given, got, _ = ran()[name]
    compare(name, got, reference, given, {"causal": case.causal}, case.batch.dtype)


def test_rows_that_see_nothing_are_zero() -> None:
    _, got, _ = ran()["rows that see nothing"]
    seen = np.any(got, axis=(1, 2))
    assert np.flatnonzero(~seen).tolist() == [*range(197), 200]
    _, got, _ = ran()["a sample without keys, not causal"]
    assert not np.any(got[:70])


@pytest.mark.parametrize("name", CASES)
def test_no_program_writes_rows_of_another(name: str) -> None:
    """The last tile of a sample reaches into the next: whoever comes last would win."""
    _, got, last_first = ran()[name]
    assert got.tobytes() == last_first.tobytes()


def packed() -> tuple[Any, ...]:
    """Return tensors that claim to be on a GPU: nothing is computed before all are checked."""
    shapes = ((5, 4, 64), (7, 2, 64), (7, 2, 64))
    return (*claiming(*shapes), *claiming((0, 5), (0, 7), values=True))


def plain(tensor: Any) -> Any:
    import torch

    return tensor.as_subclass(torch.Tensor)


REFUSED: dict[str, tuple[int, Any, Any, str]] = {
    "four dimensions": (0, lambda x: x[None], ValueError, r"q is \[1, 5, 4, 64\]"),
    "no tensor": (1, lambda x: x.tolist(), TypeError, "k is a list"),
    "float32": (0, lambda x: x.float(), TypeError, "q is of float32"),
    "another type": (1, lambda x: x.bfloat16(), TypeError, "k is of bfloat16, and q of float16"),
    "other lengths": (2, lambda x: x[:6], ValueError, r"v is \[1, 6, 2, 64\], and k"),
    "head size": (0, lambda x: x[..., :32], ValueError, "q has head size 32"),
    "strided": (2, lambda x: x.transpose(0, 1).contiguous().transpose(0, 1), ValueError,
                "v is not contiguous"),
    "the CPU": (0, plain, ValueError, "q is on cpu"),
    "groups": (0, lambda x: x[:, :3].contiguous(), ValueError, "q has 3 heads"),
    "starts in a list": (4, lambda x: x.tolist(), TypeError, "cu_seqlens_k is a list"),
    "one start": (4, lambda x: x[:1], ValueError, r"cu_seqlens_k is \[1\]"),
    "int64": (3, lambda x: x.long(), TypeError, "cu_seqlens_q is of int64"),
    "one sample more": (4, lambda x: x.repeat(2), ValueError, r"cu_seqlens_k is \[4\], and"),
    "too few rows": (3, lambda x: x - x.new_tensor([0, 1]), ValueError, "cu_seqlens_q is"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.varlen.tilelang_kernel import attention

    place, change, kind, message = REFUSED[name]
    given = list(packed())
    given[place] = change(given[place])
    with pytest.raises(kind, match=message):
        attention(*given)


def test_the_longest_sample_has_a_query() -> None:
    pytest.importorskip("tilelang")
    from kernels.varlen.tilelang_kernel import attention

    with pytest.raises(ValueError, match="max_seqlen_q is 0"):
        attention(*packed(), max_seqlen_q=0)


@pytest.mark.parametrize("wrong", [[1, 5], [0, 4], [0, 6, 5]])
def test_lengths_have_to_fit(wrong: list[int]) -> None:
    from kernels import launch

    torch = pytest.importorskip("torch")
    assert launch.lengths("cu_seqlens_q", torch.tensor([0, 2, 5]), 5) == [2, 3]
    with pytest.raises(ValueError, match=r"cu_seqlens_q is .* has to rise from 0 to 5"):
        launch.lengths("cu_seqlens_q", torch.tensor(wrong), 5)
