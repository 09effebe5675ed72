"""Our TileLang kernels on a GPU beside upstream's compiled ones, PyTorch and float64."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.kernels.gpu.world import (
    UNIT,
    Call,
    compare,
    run_poisoned,
    swapped,
    tensors,
    upstream,
    why_not,
    wide,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

CAUSAL = (("causal", True),)
TILINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "wide": {"block_n": 176, "head_group": 8, "turns": True},
    "three groups": {"block_m": 192, "turns": True},
}
"""Three warp groups have too few registers for head size 128, and are compared with 64 alone."""

CALLS = {
    "one": Call(1, 1, 0, 1, 1, 64),
    "63": Call(2, 3, 0, 63, 63, 64, options=CAUSAL),
    "65 of 100": Call(2, 2, 0, 65, 100, 128, options=CAUSAL),
    "one block or two": Call(1, 2, 0, 200, 200, 64, options=CAUSAL),
    "one of 300": Call(1, 4, 0, 1, 300, 128, options=CAUSAL),
    "300": Call(1, 3, 0, 300, 300, 128),
    "513": Call(2, 2, 0, 513, 513, 64, options=CAUSAL),
    "513, not causal": Call(2, 2, 0, 513, 513, 64),
    "1024": Call(1, 4, 0, 1024, 1024, 128, options=CAUSAL),
    "large scores": Call(1, 2, 0, 257, 300, 128, size=12.0, options=CAUSAL),
    "bfloat16": Call(1, 2, 0, 200, 300, 128, "bfloat16", options=CAUSAL),
    "bfloat16, not causal": Call(1, 2, 0, 300, 200, 64, "bfloat16"),
}


def reference(variant: str) -> Callable[..., Any]:
    found: Callable[..., Any] = importlib.import_module(f"kernels.{variant}.reference").attention
    return found


def ours(variant: str) -> tuple[Callable[..., Any], Any]:
    module = importlib.import_module(f"kernels.{variant}.tilelang_kernel")
    return module.attention, importlib.import_module("kernels.launch").Tiling


def largest(got: Any, exact: Any) -> float:
    found = float(np.abs(wide(got) - exact).max())
    assert np.isfinite(found)
    return found


def halves(call: Call, *inputs: Any) -> tuple[Any, ...]:
    """Return the inputs as float16, the only type of most of upstream's kernels."""
    return tuple(x.half() for x in inputs)


def in_type(call: Call, error: float) -> float:
    """Return an error in float16 in terms of the type of the call: roundings are that much larger.

    A bfloat16 kernel of upstream's own would be off by as much.
    """
    return error * UNIT[call.dtype] / UNIT["float16"]


MHA = [
    (name, tiling)
    for name, call in CALLS.items()
    for tiling in TILINGS
    if (tiling, call.dim) != ("three groups", 128)
]


@pytest.mark.parametrize("layout", ["BHSD", "BSHD"])
@pytest.mark.parametrize(("name", "tiling"), MHA)
def test_mha(name: str, tiling: str, layout: str) -> None:
    import torch

    call = CALLS[name]
    causal = bool(dict(call.options))
    attention, tilings = ours("mha")
    q, k, v = tensors(f"mha {name}", call)
    exact = reference("mha")(*map(wide, (q, k, v)), causal=causal)
    half = halves(call, q, k, v)
    there = reference("mha")(*map(wide, half), causal=causal)
    if layout == "BSHD" and call.seq_q == call.seq_kv:  # upstream's file knows no past there
        kernel = upstream("flash_attention/example_mha_fwd_bshd.py").flashattn(
            call.batch, call.heads, call.seq_q, call.dim, causal,
            block_M=128, block_N=128, num_stages=1, threads=256,
        )  # fmt: skip
        theirs = largest(swapped(run_poisoned(kernel, *swapped(*half)))[0], there)
    elif call.seq_q <= call.seq_kv:
        kernel = upstream("flash_attention/example_mha_fwd_bhsd.py").flashattn(
            call.batch, call.heads, call.seq_q, call.seq_kv, call.dim, causal,
            block_M=128, block_N=128, num_stages=2, threads=256,
        )  # fmt: skip
        theirs = largest(run_poisoned(kernel, *half), there)
    else:  # more queries than keys: upstream refuses, and PyTorch has to do
        theirs = largest(torch.nn.functional.scaled_dot_product_attention(*half), there)
    inputs = swapped(q, k, v) if layout == "BSHD" else (q, k, v)
    got = run_poisoned(
        lambda *x: attention(*x, causal=causal, layout=layout, tiling=tilings(**TILINGS[tiling])),
        *inputs,
    )
    got = swapped(got)[0] if layout == "BSHD" else got
    label = f"mha {name} {tiling} {layout} {call}"
    compare(label, got, exact, in_type(call, theirs), call.dtype)
    seen = torch.ones(call.seq_q, call.seq_kv, dtype=torch.bool, device="cuda")
    mask = seen.tril(call.seq_kv - call.seq_q) if causal else None
    pytorch = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    error = in_type(call, theirs) + largest(pytorch, exact)
    compare(f"{label} against PyTorch", got, wide(pytorch), error, call.dtype)


GROUPED = {
    "groups of 2": Call(2, 4, 2, 100, 100, 64, options=CAUSAL),
    "groups of 3": Call(1, 6, 2, 300, 300, 128, options=CAUSAL),
    "one for all": Call(1, 5, 1, 257, 257, 128),
    "one for each": Call(1, 3, 3, 65, 65, 64),
    "large scores": Call(1, 8, 2, 300, 300, 128, size=12.0, options=CAUSAL),
    "bfloat16": Call(1, 8, 2, 300, 300, 128, "bfloat16", options=CAUSAL),
}


@pytest.mark.parametrize("tiling", ["default", "wide"])
@pytest.mark.parametrize("name", GROUPED)
def test_gqa(name: str, tiling: str) -> None:
    call = GROUPED[name]
    causal = bool(dict(call.options))
    attention, tilings = ours("gqa")
    q, k, v = swapped(*tensors(f"gqa {name}", call))
    exact = reference("gqa")(*map(wide, (q, k, v)), causal=causal)
    half = halves(call, q, k, v)
    kernel = upstream("flash_attention/example_gqa_fwd_bshd.py").flashattn(
        call.batch, call.heads, call.seq_q, call.dim, causal,
        groups=call.heads // call.kv_heads, block_M=128, block_N=128, num_stages=2, threads=256,
    )  # fmt: skip
    there = reference("gqa")(*map(wide, half), causal=causal)
    theirs = largest(run_poisoned(kernel, *half), there)
    got = run_poisoned(
        lambda *x: attention(*x, causal=causal, tiling=tilings(**TILINGS[tiling])), q, k, v
    )
    compare(f"gqa {name} {tiling} {call}", got, exact, in_type(call, theirs), call.dtype)


WINDOWED = {
    "whole": Call(1, 2, 0, 300, 300, 64),
    "window of 128": Call(2, 2, 0, 513, 513, 128, options=(("window_size", 128),)),
    "window of 128 of 700": Call(1, 2, 0, 200, 700, 64, options=(("window_size", 128),)),
    "large scores": Call(1, 2, 0, 513, 513, 128, size=12.0, options=(("window_size", 128),)),
    "bfloat16": Call(1, 2, 0, 300, 400, 128, "bfloat16", options=(("window_size", 128),)),
}


@pytest.mark.parametrize("tiling", ["default", "wide"])
@pytest.mark.parametrize("name", WINDOWED)
def test_sink(name: str, tiling: str) -> None:
    import torch

    call = WINDOWED[name]
    options = dict(call.options)
    attention, tilings = ours("sink")
    q, k, v = tensors(f"sink {name}", call)
    sinks = torch.linspace(-3, 4, call.heads, device="cuda").to(q.dtype)
    exact = reference("sink")(*map(wide, (q, k, v, sinks)), **options)
    made = upstream("attention_sink/example_mha_sink_fwd_bhsd.py").flashattn(
        call.batch, call.heads, call.seq_q, call.seq_kv, call.dim, options.get("window_size"),
        block_M=128, block_N=128, num_stages=2, threads=256, dtype=call.dtype,
    )  # fmt: skip
    theirs = largest(run_poisoned(made, q, k, v, sinks), exact)
    got = run_poisoned(
        lambda *x: attention(*x, **options, tiling=tilings(**TILINGS[tiling])), q, k, v, sinks
    )
    compare(f"sink {name} {tiling} {call}", got, exact, theirs, call.dtype)


@pytest.mark.parametrize("size", [1, 20, 128, 200])
@pytest.mark.parametrize("name", ["window of 128", "window of 128 of 700", "bfloat16"])
def test_window(name: str, size: int) -> None:
    """Upstream has no window without sinks: its kernel runs with sinks that weigh nothing."""
    import torch

    call = WINDOWED[name]
    attention, tilings = ours("window")
    q, k, v = tensors(f"window {name} {size}", call)
    exact = reference("window")(*map(wide, (q, k, v)), window_size=size)
    none = torch.full((call.heads,), -60000.0, device="cuda").to(q.dtype)
    their_size = 128  # upstream wants a multiple of its block
    made = upstream("attention_sink/example_mha_sink_fwd_bhsd.py").flashattn(
        call.batch, call.heads, call.seq_q, call.seq_kv, call.dim, their_size,
        block_M=128, block_N=128, num_stages=2, threads=256, dtype=call.dtype,
    )  # fmt: skip
    there = reference("window")(*map(wide, (q, k, v)), window_size=their_size)
    theirs = largest(run_poisoned(made, q, k, v, none), there)
    got = run_poisoned(lambda *x: attention(*x, window_size=size, tiling=tilings()), q, k, v)
    # With fewer keys less is averaged: the scale of the outputs is that of single values.
    shorter = max(1.0, (their_size / size) ** 0.5)
    compare(f"window {name} {size} {call}", got, exact, theirs * shorter, call.dtype)


def test_sink_grouped() -> None:
    """The forward of `example_gqa_sink_bwd_bhsd.py` shares keys, as ours does."""
    import torch

    call = Call(1, 6, 2, 300, 300, 128, options=(("window_size", 128),))
    attention, tilings = ours("sink")
    q, k, v = tensors("grouped sinks", call)
    sinks = torch.linspace(-3, 4, call.heads, device="cuda").half()
    exact = reference("sink")(*map(wide, (q, k, v, sinks)), window_size=128)
    many = (q, *(x.repeat_interleave(3, dim=1) for x in (k, v)))
    made = upstream("attention_sink/example_mha_sink_fwd_bhsd.py").flashattn(
        1, 6, 300, 300, 128, 128, block_M=128, block_N=128, num_stages=2, threads=256
    )
    theirs = largest(run_poisoned(made, *many, sinks), exact)
    got = run_poisoned(lambda *x: attention(*x, window_size=128, tiling=tilings()), q, k, v, sinks)
    compare(f"grouped sinks {call}", got, exact, theirs, call.dtype)


DECODING = {
    "one key": (1, 4, 1, 1, 64),
    "63 keys": (2, 8, 2, 63, 64),
    "one head each": (2, 3, 3, 300, 128),
    "1000 keys, groups of 4": (1, 32, 8, 1000, 128),
    "groups of 70": (1, 140, 2, 300, 64),
    "many blocks": (3, 16, 2, 5000, 128),
}
"""batch, query heads, KV heads, keys, head size."""


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", DECODING)
def test_decode(name: str, dtype: str, masked: bool) -> None:
    """Upstream's decoding wants lengths that its splits divide: its error is that at 1024 keys."""
    import torch

    batch, heads, kv_heads, keys, dim = DECODING[name]
    attention, _ = ours("decode")
    definition = reference("decode")
    q, k, v = (swapped(x)[0] for x in tensors(f"decode {name}", Call(
        batch, heads, kv_heads, 1, keys, dim, dtype)))  # fmt: skip
    mask = (torch.rand(batch, keys, kv_heads, device="cuda") < 0.7).to(torch.uint8)
    mask[0, :, 0] = 0  # queries that see nothing
    mask[:, : keys // 2] = 0  # splits that see nothing
    given = (wide(mask),) if masked else ()
    exact = definition(*map(wide, (q, k, v)), *given)[:, 0]
    got = run_poisoned(
        lambda *x: attention(*x, mask if masked else None), q[:, 0].contiguous(), k, v
    )
    theirs = in_type(Call(1, 1, 1, 1, 1, dim, dtype), decoding_error(dim))
    compare(f"decode {name} {dtype} masked={masked}", got, exact, theirs * keys_scale(keys, masked),
            dtype)  # fmt: skip


def keys_scale(keys: int, masked: bool) -> float:
    """Return how much larger outputs are than at 1024 keys, where more is averaged."""
    return float(max(1.0, (1024 / (keys * (0.3 if masked else 1.0))) ** 0.5))


def decoding_error(dim: int) -> float:
    """Return the largest error of upstream's compiled decoding in float16."""
    import torch

    call = Call(2, 32, 8, 1, 1024, dim)
    q, k, v = (swapped(x)[0] for x in tensors("decode upstream", call))
    mask = torch.ones(2, 1024, 8, device="cuda", dtype=torch.uint8)
    kernel = upstream("flash_decoding/example_gqa_decode.py").flashattn(
        2, 32, 8, 1024, dim, 128, 64, 4, 2, 128
    )
    exact = reference("decode")(*map(wide, (q, k, v)))[:, 0]
    return largest(run_poisoned(kernel, q[:, 0].contiguous(), k, v, mask), exact)
