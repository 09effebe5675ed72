"""The block-causal kernel without a GPU: values in the interpreter, and what it refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.block_causal.reference import attention_varlen as reference
from tests.kernels.budget import UNIT, Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.packed import claiming, numpy_type, starts

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


class Case(NamedTuple):
    lengths: tuple[int, ...]
    dllm_block: int
    dim: int = 64
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    scale: float | None = None
    tiling: tuple[tuple[str, Any], ...] = (("block_n", 64),)


CASES = {
    "two tokens": Case((2,), 4),
    "blocks of one": Case((260, 100), 1),
    "blocks of 16": Case((260, 2, 100), 16),
    "blocks of 24": Case((300, 170), 24),
    "blocks of 64": Case((520,), 64),
    "blocks above a tile": Case((900,), 200),
    "one block": Case((200, 60), 128),
    "whole tiles": Case((256, 512), 32, dim=128, tiling=()),
    "a sample without tokens": Case((100, 0, 60), 8),
    "large scores": Case((300, 170), 24, size=12.0),
    "larger scores": Case((200,), 8, size=40.0),
    "another scale": Case((300,), 16, scale=0.3),
    "bfloat16": Case((300, 50), 32, dtype="bfloat16"),
    "turns": Case((700,), 16, tiling=(("block_n", 64), ("turns", True), ("head_group", 2))),
    "three groups": Case((700, 90), 32, tiling=(("block_m", 192), ("block_n", 96), ("stages", 3))),
    "wide blocks": Case((700,), 16, tiling=(("block_n", 176),)),
}
HEADS = 2


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return inputs, outputs, and outputs with the last program first, of all: from one child."""
    given = [tensors(seed, case) for seed, case in enumerate(CASES.values())]
    runs = [
        Run(arguments(case), (*inputs, max(case.lengths)), backwards)
        for case, inputs in zip(CASES.values(), given, strict=True)
        for backwards in (False, True)
    ]
    found = outputs("kernels/block_causal/tilelang_kernel.py", "block_causal_forward", runs)
    both = zip(found[::2], found[1::2], strict=True)
    return {name: (inputs, *twice) for name, inputs, twice in zip(CASES, given, both, strict=True)}


def tensors(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k, v and cu_seqlens. Later keys are longer, so that maxima move."""
    rng = np.random.default_rng(seed)
    total = sum(case.lengths)
    q, k, v = rng.standard_normal((3, total, HEADS, case.dim))
    k *= np.linspace(0.2, 1.5, total)[:, None, None]
    kind = numpy_type(case.dtype)
    return (*(x.astype(kind) for x in (q * case.size, k, v)), starts(case.lengths))


def arguments(case: Case) -> dict[str, Any]:
    scale = case.dim**-0.5 if case.scale is None else case.scale
    named = {"heads": HEADS, "dim": case.dim, "dllm_block": case.dllm_block}
    return {**named, "softmax_scale": scale, "dtype": case.dtype, **dict(case.tiling)}


def options(case: Case) -> dict[str, Any]:
    return {"dllm_block": case.dllm_block, "scale": case.scale}


def output(*given: Any, **named: Any) -> Any:
    """Return the first of what the definition returns."""
    return reference(*given, **named)[0]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    given, (got, _), _ = ran()[name]
    exact = output(*given, **options(case))
    blocks = -(-max(case.lengths) // 64)
    budget = allowed(output, Inputs(given, options(case)), case.dtype, blocks, splits=False)
    assert got.dtype == numpy_type(case.dtype)
    off = np.abs(got.astype(np.float64) - exact) - budget
    assert (off <= 0).all(), (name, np.unravel_index(off.argmax(), off.shape), off.max())


@pytest.mark.parametrize("name", CASES)
def test_log_sums(name: str) -> None:
    """A sum of probabilities rounds in float32; its logarithm is small beside scores."""
    case = CASES[name]
    given, (_, got), _ = ran()[name]
    _, exact = reference(*given, **options(case))
    _, narrow = reference(*given, **options(case), dtype=np.float32)
    assert got.dtype == np.float32
    assert got.shape == exact.shape
    budget = 2 * np.abs(narrow - exact).max() + 32 * UNIT["float32"] * (1 + np.abs(exact))
    assert (np.abs(got - exact) <= budget).all(), name


@pytest.mark.parametrize("name", CASES)
def test_no_program_writes_rows_of_another(name: str) -> None:
    """The last tile of a half reaches into the next: whoever comes last would win."""
    _, first, last_first = ran()[name]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, last_first, strict=True))


def packed() -> tuple[Any, ...]:
    """Return tensors that claim to be on a GPU: nothing is computed before all are checked."""
    return (*claiming(*[(6, 2, 64)] * 3), *claiming((0, 6), values=True))


REFUSED: dict[str, tuple[int, Any, Any, str]] = {
    "four dimensions": (0, lambda x: x[None], ValueError, r"q is \[1, 6, 2, 64\]"),
    "another type": (1, lambda x: x.bfloat16(), TypeError, "k is of bfloat16, and q of float16"),
    "other values": (2, lambda x: x[:4], ValueError, r"v is \[1, 4, 2, 64\], and k"),
    "head size": (0, lambda x: x[..., :32], ValueError, "q has head size 32"),
    "more queries": (0, lambda x: x.repeat(2, 1, 1), ValueError, "k has 6 tokens and 2 heads"),
    "int64": (3, lambda x: x.long(), TypeError, "cu_seqlens is of int64"),
    "too few rows": (3, lambda x: x - x.new_tensor([0, 2]), ValueError, "cu_seqlens is"),
    "no halves": (3, lambda x: x.new_tensor([0, 3, 6]), ValueError, "a sample of 3 tokens"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.block_causal.tilelang_kernel import attention_varlen

    place, change, kind, message = REFUSED[name]
    given = list(packed())
    given[place] = change(given[place])
    with pytest.raises(kind, match=message):
        attention_varlen(*given, dllm_block=2)


def test_wrong_numbers_are_named() -> None:
    pytest.importorskip("tilelang")
    from kernels.block_causal.tilelang_kernel import attention, attention_varlen

    with pytest.raises(ValueError, match="dllm_block is 0"):
        attention_varlen(*packed(), dllm_block=0)
    for scale in (0.0, -0.1, 1e9):
        with pytest.raises(ValueError, match="scale is "):
            attention_varlen(*packed(), dllm_block=2, scale=scale)
    with pytest.raises(ValueError, match="max_seqlen is 1"):
        attention_varlen(*packed(), dllm_block=2, max_seqlen=1)
    with pytest.raises(ValueError, match="q has 5 tokens, and they have to be two halves"):
        attention(*claiming(*[(1, 5, 2, 64)] * 3), dllm_block=2)
