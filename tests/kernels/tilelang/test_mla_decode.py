"""The MLA decoding kernel without a GPU: its values, what its launcher refuses."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels.mla_decode.reference import attention as reference
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.pretended import Pretended

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")


class Case(NamedTuple):
    batch: int
    heads: int
    seq_kv: int
    splits: int = 1
    lag: int = 2
    columns: bool = False
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    softmax_scale: float | None = None


CASES = {
    "one key": Case(1, 5, 1),
    "63": Case(2, 16, 63),
    "65": Case(1, 64, 65, lag=1),
    "more heads than a tile": Case(1, 70, 130),
    "even splits": Case(2, 16, 256, splits=2),
    "ragged splits": Case(2, 16, 300, splits=3),
    "a block for each split": Case(1, 3, 500, splits=8, lag=0),
    "many blocks": Case(1, 16, 700, splits=2),
    "large scores": Case(1, 16, 300, size=12.0),
    "large scores, splits": Case(1, 16, 300, splits=4, size=40.0, lag=1),
    "bfloat16": Case(1, 16, 200, splits=2, dtype="bfloat16"),
    "bfloat16, large scores": Case(1, 70, 130, dtype="bfloat16", size=12.0),
    "another scale": Case(1, 16, 130, softmax_scale=0.11),
    "one key, columns": Case(1, 5, 1, columns=True),
    "even splits, columns": Case(2, 16, 512, splits=2, columns=True),
    "ragged splits, columns": Case(2, 16, 300, splits=3, columns=True),
    "many blocks, columns": Case(1, 12, 700, columns=True),
    "more heads than columns": Case(1, 20, 130, columns=True),
    "large scores, columns": Case(1, 16, 300, splits=2, size=40.0, columns=True),
    "bfloat16, columns": Case(1, 16, 200, dtype="bfloat16", size=12.0, columns=True),
    "another scale, columns": Case(1, 16, 130, softmax_scale=0.11, columns=True),
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, q_pe, kv, k_pe. Rotary parts grow, and then shrink: the maximum moves and stays."""
    import ml_dtypes

    kinds = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
    rng = np.random.default_rng(seed)
    q, q_pe = (rng.standard_normal((case.batch, case.heads, n)) * case.size for n in (512, 64))
    kv, k_pe = (rng.standard_normal((case.batch, case.seq_kv, 1, n)) for n in (512, 64))
    hill = 1.5 - np.abs(np.linspace(-1, 1.2, case.seq_kv))
    k_pe *= 2 * hill[:, None, None]
    return tuple(x.astype(kinds[case.dtype]) for x in (q, q_pe, kv, k_pe))


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs and the output of every case, from one child process."""
    given = [made(seed, case) for seed, case in enumerate(CASES.values())]
    runs = [
        Run({k: x for k, x in case._asdict().items() if k != "size"}, inputs)
        for case, inputs in zip(CASES.values(), given, strict=True)
    ]
    found = outputs("kernels/mla_decode/tilelang_kernel.py", "mla_decode_forward", runs)
    return {
        name: (inputs, output) for name, inputs, (output,) in zip(CASES, given, found, strict=True)
    }


def definition(q: Any, k: Any, v: Any, *, scale: float | None, dtype: Any) -> Any:
    """The reference with a value of its own: the shared budget takes its magnitude."""
    nothing = np.zeros_like(q[..., :512])
    factor = 576**-0.5 if scale is None else scale
    return reference(nothing, q, v, k, scale=factor, dtype=dtype)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    case = CASES[name]
    (q, q_pe, kv, k_pe), got = ran()[name]
    options = {"scale": case.softmax_scale}
    exact = reference(q, q_pe, kv, k_pe, **options)
    whole = (np.concatenate([q, q_pe], -1), np.concatenate([kv, k_pe], -1), kv)
    blocks = -(-case.seq_kv // 64)
    budget = allowed(definition, Inputs(whole, options), case.dtype, blocks, case.splits > 1)
    assert got.shape == exact.shape
    assert got.dtype == case.dtype
    bad = np.argwhere(~(np.abs(got.astype(np.float64) - exact) <= budget))
    assert not len(bad), f"{name}: {len(bad)} of {got.size} off, first {bad[0]}"


def tensors() -> dict[str, Any]:
    shapes = {"q": (2, 16, 512), "q_pe": (2, 16, 64), "kv": (2, 9, 1, 512), "k_pe": (2, 9, 1, 64)}
    return {name: Pretended(*shape) for name, shape in shapes.items()}


REFUSED: dict[str, tuple[str, Any, Any, str]] = {
    "no tensor": ("q", [1.0], TypeError, "q is a list"),
    "two dimensions": ("q", Pretended(16, 512), ValueError, r"q is \[16, 512\]"),
    "no keys": ("kv", Pretended(2, 0, 1, 512), ValueError, r"kv is \[2, 0, 1, 512\]"),
    "float32": ("q", Pretended(2, 16, 512, dtype="float32"), TypeError, "q is of float32"),
    "head size": ("q", Pretended(2, 16, 256), ValueError, r"q is \[2, 16, 256\], and has to be"),
    "rotary size": ("q_pe", Pretended(2, 16, 32), ValueError, "q_pe is .* has to be .2, 16, 64"),
    "two latents": ("kv", Pretended(2, 9, 2, 512), ValueError, "kv is .* has to be .2, 9, 1, 512"),
    "another length": ("k_pe", Pretended(2, 8, 1, 64), ValueError, "k_pe is .* be .2, 9, 1, 64"),
    "another type": ("kv", Pretended(2, 9, 1, 512, dtype="bfloat16"), TypeError, "kv is of bfl"),
    "another device": ("kv", Pretended(2, 9, 1, 512, device="cuda:1"), TypeError, "kv is of .*:1"),
    "strided": ("k_pe", Pretended(2, 9, 1, 64).strided(), ValueError, "k_pe is not contiguous"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_tensor_is_named(name: str) -> None:
    pytest.importorskip("tilelang")
    from kernels.mla_decode.tilelang_kernel import attention

    wrong, instead, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        attention(**{**tensors(), wrong: instead})


def test_no_split_is_without_a_block() -> None:
    pytest.importorskip("tilelang")
    from kernels.mla_decode.tilelang_kernel import Tiling

    assert Tiling(programs=132).splits(1, 128, 8192) == 66
    assert Tiling(programs=132).splits(1, 16, 100) == 2
    assert Tiling(programs=132).splits(132, 128, 8192) == 1
    assert Tiling(programs=132, columns=True).splits(4, 16, 65536) == 33
    assert Tiling(programs=132, columns=True).splits(1, 40, 65536) == 44
