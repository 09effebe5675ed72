"""Our block-causal kernel on a GPU beside upstream's two, PyTorch and float64."""

from __future__ import annotations

import itertools
import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from kernels import launch
from kernels.block_causal.reference import attention_varlen as reference
from kernels.block_causal.reference import visible
from tests.kernels.gpu.packed import arrays, largest, theirs
from tests.kernels.gpu.world import compare, run_poisoned, why_not, wide
from tests.kernels.tilelang.packed import starts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]


class Call(NamedTuple):
    lengths: tuple[int, ...]
    heads: int
    dim: int
    dllm_block: int
    dtype: str = "float16"
    size: float = 1.0


CALLS = {
    "blocks of 16": Call((512, 512), 2, 64, 16),
    "large scores": Call((512, 512), 2, 64, 16, size=12.0),
    "blocks of 1": Call((256, 256, 256), 2, 64, 1, "bfloat16"),
    "blocks of 32": Call((1536,), 4, 128, 32),
    "blocks of 64": Call((768, 768), 3, 128, 64, "bfloat16"),
    "packed": Call((640, 128, 256), 2, 64, 16),
    "packed, long": Call((128, 1536, 384), 4, 128, 32),
    "halves that cut tiles": Call((700, 2, 0, 130), 2, 64, 16),
    "blocks of 24": Call((700, 130), 4, 128, 24),
    "blocks above a tile": Call((1400, 60), 4, 128, 200),
}
TILINGS = {
    "default": launch.Tiling(),
    "wide": launch.Tiling(128, 176, 2, 2, True),
    "three groups": launch.Tiling(192, 96, 2, 2, True),
}
PAIRS = [
    *((name, "default") for name in CALLS),
    *((name, "three groups") for name in CALLS if CALLS[name][2:5] == (64, 16, "float16")),
    ("blocks of 32", "wide"),
    ("packed, long", "wide"),
]


@pytest.mark.parametrize(("name", "tiling"), PAIRS)
def test_block_causal(name: str, tiling: str) -> None:
    from kernels.block_causal.tilelang_kernel import attention, attention_varlen

    call = CALLS[name]
    given = tensors(name, call)
    named: dict[str, Any] = {"dllm_block": call.dllm_block}
    exact, exact_lse = reference(*arrays(given), **named)
    lse: list[Any] = []

    def output(*inputs: Any) -> Any:
        """Return the first of ours, in the shape of packed tensors, and keep the second."""
        if name.startswith("blocks of") and len(set(call.lengths)) == 1:
            four = (x.reshape(len(call.lengths), -1, *x.shape[1:]) for x in inputs[:3])
            out, second = attention(*four, **named, tiling=TILINGS[tiling])
            lse.append(second.transpose(0, 1).reshape(call.heads, -1))
            return out.reshape(inputs[0].shape)
        out, second = attention_varlen(*inputs, **named, tiling=TILINGS[tiling])
        lse.append(second)
        return out

    got = run_poisoned(output, *given)
    error, lse_error = upstream_errors(name, call)
    label = f"block_causal {name} {tiling} {call}"
    compare(label, got, exact, error, call.dtype)
    off = np.abs(wide(lse[0]) - exact_lse)
    # Ours takes the hardware's exponentials and logarithms, which are off by 2 or 3 places more.
    assert (off <= 2 * lse_error + 2.0**-20 * (1 + np.abs(exact_lse))).all(), label
    pytorch = by_pytorch(given, call)
    off_too = error + largest(pytorch, exact)
    compare(f"{label} against PyTorch", got, wide(pytorch), off_too, call.dtype)


def tensors(name: str, call: Call) -> tuple[Any, ...]:
    """Return q, k, v, cu_seqlens as CUDA tensors. Later keys are longer: maxima move."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    total = sum(call.lengths)
    q, k, v = rng.standard_normal((3, total, call.heads, call.dim))
    k *= np.linspace(0.2, 1.5, total)[:, None, None]
    kind = getattr(torch, call.dtype)
    three = (torch.from_numpy(x).to("cuda", kind) for x in (q * call.size, k, v))
    return (*three, torch.from_numpy(starts(call.lengths)).cuda())


def upstream_errors(name: str, call: Call) -> tuple[float, float]:
    """Return the largest errors of upstream's output and lse.

    Upstream wants halves that are multiples of its tile, and tiles that are of a block. Where they
    are not, it gets the next call that fits: as many heads, the same scores.
    """
    fits = all(length % 128 == 0 for length in call.lengths) and 64 % call.dllm_block == 0
    if not fits:
        lengths = tuple(max(128, length // 128 * 128) for length in call.lengths)
        call = call._replace(lengths=lengths, dllm_block=16)
    given = tensors(name, call)
    exact = reference(*arrays(given), dllm_block=call.dllm_block)
    second: list[Any] = []

    def output(*inputs: Any) -> Any:
        out, lse = upstream_outputs(call, *inputs)
        second.append(lse)
        return out

    first = run_poisoned(output, *given)
    return largest(first, exact[0]), largest(second[0], exact[1])


def upstream_outputs(call: Call, q: Any, k: Any, v: Any, places: Any) -> tuple[Any, Any]:
    """Return output and lse of upstream's compiled kernel: packed samples of unlike lengths."""
    import torch

    scale = call.dim**-0.5
    if len(set(call.lengths)) == 1:
        samples, length = len(call.lengths), call.lengths[0]
        kernel = theirs("block_causal_attention/block_causal_attention.py")._fwd_template(
            samples, call.heads, length, call.dim, call.dllm_block, scale, dtype=call.dtype
        )
        out, lse = kernel(*(x.reshape(samples, length, call.heads, -1) for x in (q, k, v)))
        return out.reshape(q.shape), lse.transpose(0, 1).reshape(call.heads, -1)
    file = theirs("block_causal_attention/block_causal_attention_varlen.py")
    kernel = file._fwd_varlen_template(
        len(call.lengths), call.heads, call.dim, call.dllm_block, scale, dtype=call.dtype
    )
    out = torch.empty_like(q)
    lse = torch.empty(call.heads, len(q), device="cuda")
    kernel(q, k, v, places, max(call.lengths), out, lse)
    return out, lse


def by_pytorch(given: tuple[Any, ...], call: Call) -> Any:
    """Return PyTorch's attention under the definition's mask, sample by sample."""
    import torch

    *three, _ = given
    outs = []
    ends = [0, *itertools.accumulate(call.lengths)]
    for first, end in itertools.pairwise(ends):
        if first == end:
            continue
        seen = torch.from_numpy(visible(end - first, call.dllm_block)).cuda()
        one = (x[first:end].transpose(0, 1)[None] for x in three)
        out = torch.nn.functional.scaled_dot_product_attention(*one, attn_mask=seen)
        outs.append(out[0].transpose(0, 1))
    return torch.cat(outs)


def test_another_scale() -> None:
    from kernels.block_causal.tilelang_kernel import attention_varlen

    call = CALLS["packed"]
    given = tensors("another scale", call)
    exact, exact_lse = reference(*arrays(given), dllm_block=16, scale=0.3)
    out, lse = attention_varlen(*given, dllm_block=16, scale=0.3, tiling=launch.Tiling())
    assert largest(out, exact) < 0.01
    assert largest(lse, exact_lse) < 1e-4
