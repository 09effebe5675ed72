"""The gradients of grouped-query attention on a GPU beside upstream's, PyTorch's and float64."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from kernels.gqa.backward_reference import gradients
from tests.kernels.gpu.gradients import by_pytorch, check, check_forward, largest, poison
from tests.kernels.gpu.world import UNIT, Call, swapped, tensors, upstream, why_not, wide

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

CALLS = {
    "groups of 2": Call(2, 4, 2, 384, 384, 64),
    "ragged": Call(2, 4, 2, 300, 300, 64),
    "63 of 100": Call(2, 4, 2, 63, 100, 64),
    "100 of 63": Call(2, 4, 2, 100, 63, 64),
    "large scores": Call(2, 4, 2, 384, 384, 64, size=12.0),
    "groups of 3": Call(2, 6, 2, 384, 384, 128),
    "1000 of 1500": Call(1, 6, 2, 1000, 1500, 128),
    "one for all": Call(1, 5, 1, 256, 256, 128),
    "one for each": Call(2, 2, 2, 256, 256, 64),
    "bfloat16": Call(2, 6, 2, 384, 384, 128, "bfloat16"),
    "192 and 128": Call(2, 4, 2, 384, 384, 192),
    "192 and 128, ragged": Call(2, 4, 2, 200, 300, 192),
}
"""Lengths and numbers of samples are no facts of ours: few kernels are compiled."""
TILINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "ahead": {"ahead": True, "stages": 3, "head_group": 2},
    "128 queries": {"block_q": 128, "stages": 3, "head_group": 2},
    "64 keys": {"block_kv": 64, "ahead": True, "stages": 3},
}
"""The others fit head size 64 alone."""
WIDE = {"block_kv": 64, "columns": True}
"""What head size 192 needs."""
PAIRS = [
    (name, tiling, causal)
    for name, call in CALLS.items()
    for tiling in TILINGS
    for causal in (True, False)
    if (tiling == "default" or (call.dim == 64 and call.heads == 4))
    and not (causal and call.seq_q > call.seq_kv)
]


def given(name: str) -> tuple[Any, ...]:
    """Return q, k, v and do in BHSD. Head size 192 has values of 128."""
    import torch

    call = CALLS[name]
    q, k, v = tensors(name, call)
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    v = v[..., :128].contiguous()
    do = rng.standard_normal((call.batch, call.heads, call.seq_q, v.shape[3]))
    return q, k, v, torch.from_numpy(do).to("cuda", getattr(torch, call.dtype))


def bshd(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return q, k, v, do, or gradients, as the kernels have them; or back."""
    return swapped(*given)


def definition(given: tuple[Any, ...], causal: bool) -> tuple[Any, ...]:
    """Return the gradients in float64, in BHSD."""
    found = gradients(*map(wide, bshd(given)), causal=causal)
    return tuple(np.swapaxes(x, 1, 2) for x in found)


SPLIT = [("groups of 3", 3), ("192 and 128", 2)]


@pytest.mark.parametrize(("name", "splits"), SPLIT)
def test_heads_shared_out(name: str, splits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that share a block of keys add up its gradients in memory."""
    from kernels.gqa.tilelang_backward import Backward, backward, forward

    call, tensors_given = CALLS[name], given(name)
    exact = definition(tensors_given, causal=True)
    theirs = upstream_errors(call, tensors_given, causal=True)
    q, k, v, do = bshd(tensors_given)
    poison(monkeypatch)
    out, lse = forward(q, k, v, causal=True)
    cut = Backward(block_kv=64, columns=True, ahead=True, splits=splits)
    got = backward(q, k, v, out, lse, do, causal=True, tiling=cut)
    check(f"gqa {name} {splits} splits {call}", bshd(got), exact, theirs, call.dtype)


def upstream_errors(call: Call, half: tuple[Any, ...], causal: bool) -> tuple[float, ...]:
    """Return the largest errors of upstream's compiled kernels in float16.

    Their forward knows one length, and what they add past the end of a length that their blocks do
    not divide goes to memory of others: there, PyTorch has to do.
    """
    import torch

    exact = definition(half, causal)
    if call.seq_q != call.seq_kv or call.seq_q % 128:
        return largest(by_pytorch(half, causal), exact)
    q, k, v, do = bshd(half)
    file = upstream("flash_attention/example_gqa_bwd.py")
    sizes, group = (call.batch, call.heads, call.seq_q), call.heads // call.kv_heads
    dims = (q.shape[3], v.shape[3])
    out, lse = file.flashattn_fwd(*sizes, *dims, causal, 128, 64, group)(q, k, v)
    delta = file.flashattn_bwd_preprocess(*sizes, dims[1])(out, do)
    dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float32, device="cuda") for x in (q, k, v))
    main = file.flashattn_bwd_atomic_add(
        *sizes, *dims, causal, 128, 32, threads=256, num_stages=2, groups=group
    )
    main(q, k, v, do, lse, delta, dq, dk, dv)
    dq = file.flashattn_bwd_postprocess(*sizes, dims[0])(dq)
    return largest(bshd((dq, dk.half(), dv.half())), exact)


@pytest.mark.parametrize(("name", "tiling", "causal"), PAIRS)
def test_gradients(name: str, tiling: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.gqa.tilelang_backward import Backward, backward, forward

    call, tensors_given = CALLS[name], given(name)
    exact = definition(tensors_given, causal)
    theirs = upstream_errors(call, tuple(x.half() for x in tensors_given), causal)
    pytorch = by_pytorch(tuple(x.float() for x in tensors_given), causal)
    q, k, v, do = bshd(tensors_given)
    poison(monkeypatch)
    out, lse = forward(q, k, v, causal=causal)
    got = backward(
        q,
        k,
        v,
        out,
        lse,
        do,
        causal=causal,
        tiling=Backward(**(WIDE if call.dim == 192 else TILINGS[tiling])),
    )
    got = bshd(got)
    label = f"gqa {name} {tiling} causal={causal} {call}"
    check(label, got, exact, theirs, call.dtype)
    (out,) = swapped(out)
    check_forward(label, tensors_given, out, causal, call.dtype)
    factor = UNIT[call.dtype] / UNIT["float16"]
    off = [a + b / factor for a, b in zip(theirs, largest(pytorch, exact), strict=True)]
    check(f"{label} against PyTorch", got, tuple(map(wide, pytorch)), tuple(off), call.dtype)


@pytest.mark.parametrize("causal", [True, False])
def test_autograd_and_the_other_layout(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.gqa.tilelang_backward import attention

    call, tensors_given = CALLS["groups of 2"], given("groups of 2")
    exact = definition(tensors_given, causal)
    theirs = upstream_errors(call, tensors_given, causal)
    q, k, v, do = tensors_given
    leaves = [x.requires_grad_() for x in (q, k, v)]
    poison(monkeypatch)
    out = attention(*leaves, causal=causal, layout="BHSD")
    out.backward(do)
    check("autograd", tuple(x.grad for x in leaves), exact, theirs, "float16")
