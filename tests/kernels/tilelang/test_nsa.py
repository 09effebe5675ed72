"""The NSA kernel without a GPU: its values in the interpreter, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.nsa import reference as definition
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.pretended import Pretended

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")
reference: Any = definition.attention


class Case(NamedTuple):
    seq_len: int
    heads: int = 16
    kv_heads: int = 1
    listed: int = 4
    lists: str = "random"
    """`random` without twins and with gaps, `none`, or `twins`: with repetition."""
    batch: int = 1
    dim: int = 64
    block_size: int = 32
    causal: bool = True
    scale: float | None = None
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    tiling: tuple[tuple[str, int], ...] = ()


WHOLE = {
    "upstream's own": Case(64, batch=2, dim=32, listed=1),
    "one token, whole": Case(1),
    "63, whole": Case(63),
    "ragged, whole": Case(70, heads=32, kv_heads=2, tiling=(("queries", 4),)),
    "not causal, whole": Case(90, causal=False, tiling=(("queries", 2),)),
    "twins, whole": Case(100, lists="twins", listed=9, tiling=(("queries", 4),)),
    "long lists, whole": Case(64, block_size=16, lists="twins", listed=33),
    "none, whole": Case(20, lists="none"),
    "groups of 12, whole": Case(50, heads=24, kv_heads=2, tiling=(("queries", 4),)),
    "groups of 2, whole": Case(41, heads=4, kv_heads=2, listed=3, tiling=(("queries", 4),)),
    "groups of 70, whole": Case(9, heads=140, kv_heads=2, block_size=16, listed=2),
    "large blocks, whole": Case(120, block_size=128, listed=2),
    "large scores, whole": Case(64, size=40.0, dim=128),
    "bfloat16, whole": Case(100, dtype="bfloat16", lists="twins", listed=20),
}
"""Samples so short that all keys are read at once."""
CASES = {
    "one token": Case(1),
    "63": Case(63),
    "ragged": Case(130, batch=2, kv_heads=2, heads=32),
    "ragged, not causal": Case(130, causal=False, dim=128),
    "twins": Case(100, lists="twins", listed=9),
    "twins, not causal": Case(100, lists="twins", listed=9, causal=False),
    "none": Case(20, lists="none"),
    "alone": Case(70, tiling=(("queries", 1),)),
    "two by two": Case(71, tiling=(("queries", 2), ("stages", 3))),
    "groups of 12": Case(50, heads=24, kv_heads=2),
    "groups of 2": Case(41, heads=4, kv_heads=2, listed=3),
    "groups of 70": Case(9, heads=140, kv_heads=2, block_size=16, listed=2),
    "small blocks": Case(90, block_size=16, listed=7, dim=32, scale=0.1),
    "large blocks": Case(300, block_size=128, listed=2, tiling=(("residents", 1),)),
    "large scores": Case(130, size=12.0, dim=128),
    "large scores, not causal": Case(90, size=40.0, causal=False),
    "bfloat16": Case(130, dtype="bfloat16", lists="twins"),
    "one stage": Case(100, tiling=(("stages", 1),)),
    **WHOLE,
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k, v and the lists. Later keys are longer, so that the maximum moves."""
    import ml_dtypes

    kinds = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((case.batch, case.seq_len, case.heads, case.dim)) * case.size
    k, v = rng.standard_normal((2, case.batch, case.seq_len, case.kv_heads, case.dim))
    k *= np.linspace(0.2, 1.5, case.seq_len)[:, None, None]
    lists = listed(rng, case)
    return (*(x.astype(kinds[case.dtype]) for x in (q, k, v)), lists)


def listed(rng: Any, case: Case) -> Any:
    """Return lists [B, S, G, n] with numbers that are none among them: too large, or negative."""
    shape = (case.batch, case.seq_len, case.kv_heads, case.listed)
    if case.lists == "none":
        return np.where(rng.random(shape) < 0.5, -1, case.seq_len).astype(np.int32)
    blocks = -(-case.seq_len // case.block_size)
    if case.lists == "twins":
        return rng.integers(-1, blocks + 1, shape, dtype=np.int32)
    order = rng.random((*shape[:3], max(blocks, case.listed))).argsort(axis=-1)
    return order[..., : case.listed].astype(np.int32)


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the output of every case, from one child process."""
    given = {name: made(seed, case) for seed, (name, case) in enumerate(CASES.items())}
    found = {}
    for builder in ("nsa_forward", "nsa_whole"):
        names = [name for name in CASES if (name in WHOLE) == (builder == "nsa_whole")]
        runs = [Run(arguments(CASES[name]), given[name]) for name in names]
        outs = outputs("kernels/nsa/tilelang_kernel.py", builder, runs)
        found.update({name: (given[name], out) for name, (out,) in zip(names, outs, strict=True)})
    return found


def arguments(case: Case) -> dict[str, Any]:
    named = {**case._asdict(), **dict(case.tiling)}
    return {k: x for k, x in named.items() if k not in ("lists", "size", "tiling")}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    given, got = ran()[name]
    options = {"block_size": case.block_size, "causal": case.causal, "scale": case.scale}
    exact = reference(*given, **options)
    budget = allowed(reference, Inputs(given, options), case.dtype, case.listed, False)
    assert got.shape == exact.shape
    assert got.dtype == case.dtype
    bad = np.argwhere(~(np.abs(got.astype(np.float64) - exact) <= budget))
    assert not len(bad), f"{name}: {len(bad)} of {got.size} off, first {bad[0]}"


def test_queries_without_blocks_are_zero() -> None:
    assert not ran()["none"][1].any()
    given, got = ran()["twins"]
    first = given[3][0, :, 0]  # [S, n]
    none = ~((first >= 0) & (first * 32 <= np.arange(100)[:, None])).any(axis=1)
    assert none.any()
    assert not got[0, none].any()
    assert got[0, ~none].any(axis=(1, 2)).all()


def tensor(*shape: int, **facts: str) -> Any:
    return Pretended(*shape, **facts)


GOOD = (tensor(2, 70, 32, 64), tensor(2, 70, 2, 64), tensor(2, 70, 2, 64),
        tensor(2, 70, 2, 5, dtype="int32"))  # fmt: skip
REFUSED: dict[str, tuple[int, Any, type[Exception], str]] = {
    "three dimensions": (0, tensor(70, 32, 64), ValueError, r"q is \[70, 32, 64\]"),
    "no tensor": (1, [1.0], TypeError, "k is a list"),
    "float32": (2, tensor(2, 70, 2, 64, dtype="float32"), TypeError, "v is of float32"),
    "head size": (0, tensor(2, 70, 32, 256), ValueError, "q has head size 256"),
    "odd groups": (0, tensor(2, 70, 31, 64), ValueError, "q has 31 heads, no multiple of the 2"),
    "more queries": (0, tensor(2, 71, 32, 64), ValueError, "q has 71 causal queries"),
    "fewer queries": (0, tensor(2, 69, 32, 64), ValueError, "k has 70 tokens, and q 69"),
    "no lists": (3, [1], TypeError, "block_indices is a list"),
    "one list for all": (3, tensor(2, 70, 1, 5, dtype="int32"), ValueError,
                         r"block_indices is \[2, 70, 1, 5\], and has to be \[2, 70, 2, 5\]"),
    "long lists": (3, tensor(2, 70, 2, 256, dtype="int32"), ValueError,
                   r"block_indices lists \[256\] blocks, and may list 1 to 255"),
    "empty lists": (3, tensor(2, 70, 2, 0, dtype="int32"), ValueError, "may list 1 to 255"),
    "int64": (3, tensor(2, 70, 2, 5, dtype="int64"), TypeError, "block_indices is of int64"),
    "strided lists": (3, tensor(2, 70, 2, 5, dtype="int32").strided(), ValueError,
                      "block_indices is not contiguous"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.nsa import tilelang_kernel

    attention: Any = tilelang_kernel.attention
    place, wrong, kind, message = REFUSED[name]
    given = [*GOOD[:place], wrong, *GOOD[place + 1 :]]
    with pytest.raises(kind, match=message):
        attention(*given)


def test_long_samples_are_not_whole() -> None:
    pytest.importorskip("tilelang")
    from kernels.nsa import tilelang_kernel

    attention: Any = tilelang_kernel.attention
    with pytest.raises(ValueError, match=r"tiling\.whole is True, and q has 70 tokens"):
        attention(*GOOD, block_size=16, tiling=tilelang_kernel.Tiling(whole=True))


def test_another_block_size_is_refused() -> None:
    pytest.importorskip("tilelang")
    from kernels.nsa import tilelang_kernel

    attention: Any = tilelang_kernel.attention
    with pytest.raises(ValueError, match="block_size is 48, and may be one of"):
        attention(*GOOD, block_size=48)
