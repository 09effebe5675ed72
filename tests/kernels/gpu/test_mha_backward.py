"""The gradients of our TileLang attention on a GPU beside upstream's, PyTorch's and float64."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from kernels.mha.backward_reference import gradients
from kernels.mha.reference import attention as reference
from tests.kernels.gpu.gradients import by_pytorch, check, check_forward, largest, poison
from tests.kernels.gpu.world import UNIT, Call, compare, swapped, tensors, upstream, why_not, wide

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

CALLS = {
    "one of 5": Call(1, 2, 0, 1, 5, 64),
    "63 of 100": Call(2, 2, 0, 63, 100, 128),
    "100 of 63": Call(2, 2, 0, 100, 63, 64),
    "300": Call(2, 2, 0, 300, 300, 64),
    "320": Call(2, 2, 0, 320, 320, 64),
    "320, wide": Call(2, 2, 0, 320, 320, 128),
    "large scores": Call(2, 2, 0, 320, 320, 64, size=12.0),
    "1000 of 1500": Call(1, 2, 0, 1000, 1500, 128),
    "bfloat16": Call(2, 2, 0, 320, 320, 128, "bfloat16"),
    "bfloat16, 200 of 513": Call(1, 2, 0, 200, 513, 64, "bfloat16"),
}
"""All with two heads, and lengths are no facts of ours: few kernels are compiled."""
TILINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "ahead": {"ahead": True, "stages": 3, "head_group": 2},
    "128 queries": {"block_q": 128, "stages": 3, "head_group": 2},
    "64 keys": {"block_kv": 64, "ahead": True, "stages": 3},
}
"""The others fit head size 64 alone."""
PAIRS = [
    (name, tiling, causal)
    for name, call in CALLS.items()
    for tiling in TILINGS
    for causal in (True, False)
    if (tiling == "default" or (call.dim == 64 and call.dtype == "float16"))
    and not (causal and call.seq_q > call.seq_kv)
]


def given(name: str) -> tuple[Any, ...]:
    """Return q, k, v and do in BHSD."""
    import torch

    call = CALLS[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    do = rng.standard_normal((call.batch, call.heads, call.seq_q, call.dim))
    return (*tensors(name, call), torch.from_numpy(do).to("cuda", getattr(torch, call.dtype)))


def upstream_errors(call: Call, half: tuple[Any, ...], causal: bool) -> tuple[float, ...]:
    """Return the largest errors of upstream's compiled kernels in float16.

    Their forward knows one length, and what they add to dq past the end of a length that their
    blocks do not divide goes to memory of others: there, PyTorch has to do.
    """
    import torch

    exact = gradients(*map(wide, half), causal=causal)
    if call.seq_q != call.seq_kv or call.seq_q % 64:
        return largest(by_pytorch(half, causal), exact)
    q, k, v, do = half
    file = upstream("flash_attention/example_mha_bwd_bhsd.py")
    sizes = (call.batch, call.heads, call.seq_q, call.dim)
    out, lse = file.flashattn_fwd(*sizes, causal, 64, 64)(q, k, v)
    delta = file.flashattn_bwd_preprocess(*sizes)(out, do)
    dq = torch.zeros(sizes, dtype=torch.float32, device="cuda")
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    blocks = (64, 64 if call.dim == 64 else 32)
    file.flashattn_bwd(*sizes, causal, *blocks)(q, k, v, do, lse, delta, dq, dk, dv)
    return largest((file.flashattn_bwd_postprocess(*sizes)(dq), dk, dv), exact)


@pytest.mark.parametrize(("name", "tiling", "causal"), PAIRS)
def test_gradients(name: str, tiling: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.mha.tilelang_backward import Backward, backward, forward

    call, tensors_given = CALLS[name], given(name)
    exact = gradients(*map(wide, tensors_given), causal=causal)
    theirs = upstream_errors(call, tuple(x.half() for x in tensors_given), causal)
    pytorch = by_pytorch(tuple(x.float() for x in tensors_given), causal)
    q, k, v, do = tensors_given
    poison(monkeypatch)
    out, lse = forward(q, k, v, causal=causal)
    got = backward(q, k, v, out, lse, do, causal=causal, tiling=Backward(**TILINGS[tiling]))
    label = f"mha {name} {tiling} causal={causal} {call}"
    check(label, got, exact, theirs, call.dtype)
    check_forward(label, tensors_given, out, causal, call.dtype)
    factor = UNIT[call.dtype] / UNIT["float16"]
    off = [a + b / factor for a, b in zip(theirs, largest(pytorch, exact), strict=True)]
    check(f"{label} against PyTorch", got, tuple(map(wide, pytorch)), tuple(off), call.dtype)


@pytest.mark.parametrize("causal", [True, False])
def test_autograd_and_the_other_layout(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.mha.tilelang_backward import attention

    call, (q, k, v, do) = CALLS["300"], given("300")
    exact = gradients(*map(wide, (q, k, v, do)), causal=causal)
    theirs = upstream_errors(call, (q, k, v, do), causal)
    leaves = [x.requires_grad_() for x in swapped(q, k, v)]
    poison(monkeypatch)
    out = attention(*leaves, causal=causal, layout="BSHD")
    out.backward(do.transpose(1, 2))  # not contiguous, as gradients may be
    check("autograd", swapped(*(x.grad for x in leaves)), exact, theirs, "float16")
    right = reference(*map(wide, (q, k, v)), causal=causal)
    half = by_pytorch_forward(q, k, v, causal)
    compare("autograd out", swapped(out.detach())[0], right, half, "float16")


def by_pytorch_forward(q: Any, k: Any, v: Any, causal: bool) -> float:
    """Return the largest error of PyTorch's attention in the type of q."""
    import torch

    half = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    exact = reference(*map(wide, (q, k, v)), causal=causal)
    return float(np.abs(wide(half) - exact).max())
