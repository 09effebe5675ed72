"""The persistent kernel on a GPU beside upstream's compiled one, PyTorch and float64."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.mha.reference import attention as reference
from tests.kernels.gpu.world import (
    Call,
    compare,
    run_poisoned,
    swapped,
    tensors,
    upstream,
    why_not,
    wide,
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

CALLS = {
    "few tiles": Call(2, 2, 0, 300, 513, 64),
    "many tiles": Call(1, 32, 0, 1000, 1000, 64),
    "many tiles, wide": Call(1, 32, 0, 1000, 1200, 128),
    "large scores": Call(2, 2, 0, 300, 513, 64, size=12.0),
}
TURNS: dict[str, Any] = {"block_m": 192, "q_stages": 2, "turns": True}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_persistent(name: str, causal: bool) -> None:
    import torch

    from kernels.mha.tilelang_persistent import Tiling, attention

    call = CALLS[name]
    q, k, v = tensors(f"persistent {name}", call)
    exact = reference(*map(wide, (q, k, v)), causal=causal)
    kernel = upstream("flash_attention/example_mha_fwd_bhsd.py").flashattn(
        call.batch, call.heads, call.seq_q, call.seq_kv, call.dim, causal,
        block_M=128, block_N=128, num_stages=2, threads=256,
    )  # fmt: skip
    theirs = float(abs(wide(run_poisoned(kernel, q, k, v)) - exact).max())
    tiling = Tiling(**(TURNS if call.dim == 64 else {"block_n": 176}))
    got = run_poisoned(lambda *x: attention(*x, causal=causal, tiling=tiling), q, k, v)
    label = f"persistent {name} causal={causal} {call}"
    compare(label, got, exact, theirs, call.dtype)
    seen = torch.ones(call.seq_q, call.seq_kv, dtype=torch.bool, device="cuda")
    mask = seen.tril(call.seq_kv - call.seq_q) if causal else None
    pytorch = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    off = float(abs(wide(pytorch) - exact).max())
    compare(f"{label} against PyTorch", got, wide(pytorch), theirs + off, call.dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_other_layout(dtype: str) -> None:
    from kernels.mha.tilelang_persistent import attention

    call = Call(2, 2, 0, 300, 513, 64, dtype)
    q, k, v = tensors(f"persistent {dtype}", call)
    exact = reference(*map(wide, (q, k, v)), causal=True)
    half = tuple(x.half() for x in (q, k, v))
    kernel = upstream("flash_attention/example_mha_fwd_bhsd.py").flashattn(
        2, 2, 300, 513, 64, True, block_M=128, block_N=128, num_stages=2, threads=256
    )
    there = reference(*map(wide, half), causal=True)
    theirs = float(abs(wide(run_poisoned(kernel, *half)) - there).max())
    got = run_poisoned(lambda *x: attention(*x, causal=True, layout="BSHD"), *swapped(q, k, v))
    error = theirs * (8 if dtype == "bfloat16" else 1)
    compare(f"persistent BSHD {call}", swapped(got)[0], exact, error, dtype)
