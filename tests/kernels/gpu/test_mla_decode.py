"""Our MLA decoding on a GPU beside upstream's compiled kernels, PyTorch and float64."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks.gpu.variants._latent import einops_or_none
from kernels.mla_decode.reference import attention as reference
from tests.kernels.gpu.world import UNIT, compare, run_poisoned, upstream, why_not, wide

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

KEYS = 1024
"""What upstream is measured at: it wants an even number of blocks of 64."""


class Call(NamedTuple):
    batch: int
    heads: int
    seq_kv: int
    programs: int = 132
    lag: int = 2
    columns: bool = False
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""


CALLS = {
    "one key": Call(1, 5, 1),
    "one key, columns": Call(1, 5, 1, columns=True),
    "63": Call(2, 16, 63),
    "63, columns": Call(2, 16, 63, columns=True),
    "65": Call(1, 64, 65, programs=1, lag=1),
    "more heads than a tile": Call(2, 70, 300, programs=1),
    "ragged splits": Call(2, 128, 1000, programs=20, lag=0),
    "many splits": Call(1, 128, 8000),
    "one split": Call(3, 128, 1500, programs=1),
    "many blocks, columns": Call(1, 16, 8000, programs=3, columns=True),
    "more heads than columns": Call(2, 20, 1000, programs=1, columns=True),
    "large scores": Call(1, 128, 1000, size=12.0),
    "bfloat16": Call(2, 128, 1000, dtype="bfloat16"),
    "bfloat16, one split": Call(2, 16, 700, programs=1, dtype="bfloat16", size=12.0),
    "bfloat16, columns": Call(2, 16, 1000, dtype="bfloat16", size=12.0, columns=True),
}


def tensors(name: str, call: Call) -> tuple[Any, ...]:
    """Return q, q_pe, kv, k_pe on the GPU. Rotary parts grow and shrink again: maxima move."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    q, q_pe = (rng.standard_normal((call.batch, call.heads, n)) * call.size for n in (512, 64))
    kv, k_pe = (rng.standard_normal((call.batch, call.seq_kv, 1, n)) for n in (512, 64))
    k_pe *= 3 - 2 * np.abs(np.linspace(-1, 1.2, call.seq_kv))[:, None, None]
    kind = getattr(torch, call.dtype)
    return tuple(torch.from_numpy(x).to("cuda", kind) for x in (q, q_pe, kv, k_pe))


@pytest.mark.parametrize("name", CALLS)
def test_mla_decode(name: str) -> None:
    import torch

    from kernels.mla_decode.tilelang_kernel import Tiling, attention

    call = CALLS[name]
    given = tensors(name, call)
    exact = reference(*map(wide, given))
    theirs = error_of_upstream(call.size) * fewer(call.seq_kv) * in_type(call.dtype)
    tiling = Tiling(call.programs, call.lag, call.columns)
    got = run_poisoned(lambda *x: attention(*x, tiling=tiling), *given)
    compare(f"mla_decode {name} {call}", got, exact, theirs, call.dtype)
    q, q_pe, kv, k_pe = given
    whole = torch.cat([q, q_pe], -1)[:, :, None]
    key, value = (x.transpose(1, 2) for x in (torch.cat([kv, k_pe], -1), kv))
    pytorch = torch.nn.functional.scaled_dot_product_attention(whole, key, value, enable_gqa=True)
    pytorch = pytorch[:, :, 0]
    error = theirs + float(np.abs(wide(pytorch) - exact).max())
    compare(f"mla_decode {name} against PyTorch", got, wide(pytorch), error, call.dtype)


def fewer(keys: int) -> float:
    """Return how much larger outputs, and their errors, are than where upstream was measured."""
    return float(max(1.0, (KEYS / keys) ** 0.5))


def in_type(dtype: str) -> float:
    """Return how much larger roundings are than in float16, the only type of upstream's kernel."""
    return UNIT[dtype] / UNIT["float16"]


@cache
def error_of_upstream(size: float) -> float:
    """Return the smaller of the largest errors of upstream's two kernels, with one split."""
    import torch

    call = Call(2, 128, KEYS, size=size)
    given = tensors(f"upstream {size}", call)
    exact = reference(*map(wide, given))
    sizes = (2, 128, 1, KEYS, 512, 64, 64, 64, 1, 576**-0.5)
    parts = [
        torch.empty(2, 128, *more, device="cuda", dtype=torch.float16) for more in [(1,), (1, 512)]
    ]
    with einops_or_none():
        files = [upstream(f"deepseek_mla/example_mla_decode{end}.py") for end in ("", "_ws")]
    plain, special = (file.flashattn(*sizes) for file in files)
    found = [run_poisoned(plain, *given), run_poisoned(special, *given, *parts)]
    errors = [float(np.abs(wide(out) - exact).max()) for out in found]
    assert np.isfinite(errors).all(), errors
    return min(errors)
