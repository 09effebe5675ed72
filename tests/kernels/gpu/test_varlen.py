"""Our kernel for packed samples on a GPU beside upstream's two, PyTorch and float64."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import pytest

from kernels import launch
from kernels.varlen.reference import attention as reference
from tests.kernels.gpu.packed import arrays, in_type, largest, on_gpu, theirs, unsound
from tests.kernels.gpu.world import compare, run_poisoned, why_not, wide
from tests.kernels.tilelang.packed import Batch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

SHORT: dict[str, Any] = {"heads": 4, "kv_heads": 2, "dim": 64}
LONG: dict[str, Any] = {"heads": 4, "kv_heads": 2, "dim": 128}
BATCHES = {
    "ragged": Batch((100, 1, 167), (100, 70, 140), **SHORT),
    "rows that see nothing": Batch((200, 65, 3), (10, 64, 236), **SHORT),
    "a sample without queries": Batch((168, 0, 100), (168, 42, 100), **SHORT),
    "whole tiles": Batch((128, 128, 12), (128, 128, 54), **SHORT),
    "large scores, short": Batch((130, 38, 100), (140, 70, 100), size=12.0, **SHORT),
    "many blocks": Batch((513, 1000), (1500, 1000), **LONG),
    "large scores": Batch((513, 1000), (1500, 1000), size=12.0, **LONG),
    "bfloat16": Batch((1000, 513), (1000, 1500), dtype="bfloat16", **LONG),
    "a head each": Batch((65, 200), (80, 300), 3, 3, 64),
}
"""Upstream compiles for totals and for numbers of samples, so most have the same."""
TILINGS = {
    "default": launch.Tiling(),
    "wide": launch.Tiling(128, 176, 2, 4, True),
    "three groups": launch.Tiling(192, 128, 2, 4, True),
}
CALLS = [
    *((name, "default", causal) for name in BATCHES for causal in (True, False)),
    *((name, "three groups", True) for name in BATCHES if BATCHES[name].dim == 64),
    ("many blocks", "wide", True),
    ("large scores", "wide", True),
]


@pytest.mark.parametrize(("name", "tiling", "causal"), CALLS)
def test_varlen(name: str, tiling: str, causal: bool) -> None:
    from kernels.varlen.tilelang_kernel import attention

    batch = BATCHES[name]
    given = on_gpu(zlib.crc32(name.encode()), batch)
    exact = reference(*arrays(given), causal=causal)
    sound = (BATCHES["ragged"], on_gpu(0, BATCHES["ragged"]))  # as many tokens: no compiling
    measured = sound if unsound(batch, causal) else (batch, given)
    error = in_type(batch.dtype, upstream_error(*measured, causal))
    got = run_poisoned(lambda *x: attention(*x, causal=causal, tiling=TILINGS[tiling]), *given)
    label = f"varlen {name} {tiling} causal={causal} {batch}"
    compare(label, got, exact, error, batch.dtype)
    rows, pytorch = by_pytorch(given, causal)
    off = error + largest(pytorch, exact[rows])
    compare(f"{label} against PyTorch", got[rows], wide(pytorch), off, batch.dtype)


def upstream_error(batch: Batch, given: tuple[Any, ...], causal: bool) -> float:
    """Return the largest error of upstream's compiled kernel, in float16, on these tensors."""
    half = (*(x.half() for x in given[:3]), *given[3:])
    sizes = (sum(batch.queries), sum(batch.keys), batch.heads, batch.dim, causal)
    blocks = {"block_M": 128, "block_N": 128, "num_stages": 2, "threads": 256}
    if batch.heads == batch.kv_heads:
        module = theirs("flash_attention/example_mha_fwd_varlen.py")
        kernel = module.flashattn(len(batch.queries), *sizes, **blocks)
    else:
        module = theirs("flash_attention/example_gqa_fwd_varlen.py")
        group = batch.heads // batch.kv_heads
        kernel = module.flashattn(len(batch.queries), group, *sizes, **blocks)
    got = run_poisoned(lambda *x: kernel(*x, max(batch.queries)), *half)
    return largest(got, reference(*arrays(half), causal=causal))


def by_pytorch(given: tuple[Any, ...], causal: bool) -> tuple[list[int], Any]:
    """Return PyTorch's attention, sample by sample, and the rows that it is of.

    Samples with more queries than keys are left out: rows that see nothing are NaN there.
    """
    import torch

    q, k, v, *starts = given
    rows: list[int] = []
    outs: list[Any] = []
    places = (itertools.pairwise(x.tolist()) for x in starts)
    for (q_first, q_end), (k_first, k_end) in zip(*places, strict=True):
        queries, keys = q_end - q_first, k_end - k_first
        if not 0 < queries <= keys:
            continue
        one = (
            x.transpose(0, 1)[None] for x in (q[q_first:q_end], k[k_first:k_end], v[k_first:k_end])
        )
        seen = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)
        out = torch.nn.functional.scaled_dot_product_attention(
            *one, attn_mask=seen if causal else None, enable_gqa=True
        )
        rows += range(q_first, q_end)
        outs.append(out[0].transpose(0, 1))
    return rows, torch.cat(outs)


def test_a_sample_without_keys_gives_zeros() -> None:
    """Upstream's gives 0 / 0 there."""
    from kernels.varlen.tilelang_kernel import attention

    batch = Batch((70, 198), (0, 310), **SHORT)
    given = on_gpu(1, batch)
    got = run_poisoned(lambda *x: attention(*x, tiling=launch.Tiling()), *given)
    assert not got[:70].any()
    assert got[70:].isfinite().all()


def test_other_lengths_compile_nothing() -> None:
    from kernels.varlen import tilelang_kernel

    calls = [Batch((70, 30), (90, 30), **SHORT), Batch((5,), (77,), **SHORT)]
    given = [on_gpu(2, batch) for batch in calls]
    tilelang_kernel.attention(*given[0], tiling=launch.Tiling())
    before = tilelang_kernel._compiled.cache_info().misses
    out = tilelang_kernel.attention(*given[1], max_seqlen_q=5, tiling=launch.Tiling())
    assert tilelang_kernel._compiled.cache_info().misses == before
    assert largest(out, reference(*arrays(given[1]))) < 0.01
