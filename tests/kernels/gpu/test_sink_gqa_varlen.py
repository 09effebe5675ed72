"""Sink, window, groups and packed samples on a GPU: our kernel beside upstream's and float64."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

from kernels import launch
from kernels.sink_gqa_varlen.reference import attention as reference
from tests.kernels.gpu.packed import arrays, in_type, largest, on_gpu, theirs, unsound
from tests.kernels.gpu.world import compare, run_poisoned, why_not
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
    "many blocks": Batch((513, 1000), (1500, 1000), **LONG),
    "large scores": Batch((513, 1000), (1500, 1000), size=12.0, **LONG),
    "bfloat16": Batch((1000, 513), (1000, 1500), dtype="bfloat16", **LONG),
}
"""Upstream compiles for totals and for numbers of samples: all short ones have the same, and all
long ones."""
DEFAULT, WIDE = launch.Tiling(), launch.Tiling(128, 176, 2, 4, True)
THREE = launch.Tiling(192, 96, 2, 4, True)
"""Tiles are twice as high as blocks are wide: rows have several blocks that hide all of them."""
CALLS = [
    *((name, True, window, DEFAULT) for name in BATCHES for window in (None, 128)),
    *((name, True, 128, THREE) for name in BATCHES if BATCHES[name].dim == 64),
    ("many blocks", True, 200, DEFAULT),
    ("many blocks", True, 128, WIDE),
    ("many blocks", False, 128, DEFAULT),
    ("many blocks", False, None, DEFAULT),
    ("large scores", False, 128, DEFAULT),
]
THEIR_WINDOW = 128
"""Upstream wants a multiple of its blocks. 200 is about as long, and rounds as much."""


@pytest.mark.parametrize(("name", "causal", "window", "tiling"), CALLS)
def test_sink_gqa_varlen(
    name: str, causal: bool, window: int | None, tiling: launch.Tiling
) -> None:
    from kernels.sink_gqa_varlen.tilelang_kernel import attention

    batch = BATCHES[name]
    given = with_sinks(zlib.crc32(name.encode()), batch)
    exact = reference(*arrays(given), causal=causal, window_size=window)
    # With large scores, upstream's rows keep the 0 that its check_inf gave them for a maximum, and
    # those whose scores are all far below vanish: its error is taken where no block is hidden.
    their_window = None if window is None or batch.size > 1 else THEIR_WINDOW
    sound = (BATCHES["ragged"], with_sinks(0, BATCHES["ragged"]))  # as many tokens: no compiling
    measured = sound if unsound(batch, causal) else (batch, given)
    error = in_type(batch.dtype, upstream_error(*measured, causal, their_window))
    got = run_poisoned(
        lambda *x: attention(*x, causal=causal, window_size=window, tiling=tiling), *given
    )
    label = f"sink_gqa_varlen {name} causal={causal} window={window} {tiling} {batch}"
    compare(label, got, exact, error * fewer(batch, window, their_window), batch.dtype)


def fewer(batch: Batch, window: int | None, their_window: int | None) -> float:
    """Return how much larger errors are where fewer keys are averaged than in upstream's call."""
    if window == their_window or window is None:
        return 1.0
    return float(max(1.0, (max(batch.keys) / window) ** 0.5)) if their_window is None else 1.0


def with_sinks(seed: int, batch: Batch) -> tuple[Any, ...]:
    """Return q, k, v, cu_seqlens_q, cu_seqlens_k, sinks as CUDA tensors."""
    import torch

    given = on_gpu(seed, batch)
    sinks = torch.linspace(-3, 4, batch.heads, device="cuda").to(given[0].dtype)
    return (*given, sinks)


def upstream_error(batch: Batch, given: tuple[Any, ...], causal: bool, window: int | None) -> float:
    """Return the largest error of upstream's compiled kernel, in float16, on these tensors."""
    *half, q_starts, k_starts, sinks = (x.half() if x.is_floating_point() else x for x in given)
    kernel = theirs("attention_sink/example_gqa_sink_fwd_varlen.py").flashattn_sink(
        len(batch.queries), batch.heads // batch.kv_heads, sum(batch.queries), sum(batch.keys),
        batch.heads, batch.dim, causal, window, block_M=128, block_N=128, num_stages=2, threads=256,
    )  # fmt: skip
    got = run_poisoned(lambda *x: kernel(*x, q_starts, k_starts, max(batch.queries), sinks), *half)
    rounded = arrays((*half, q_starts, k_starts, sinks))
    exact = reference(*rounded, causal=causal, window_size=window)
    return largest(got, exact)


@pytest.mark.parametrize("causal", [True, False])
def test_no_sink_where_nothing_is_seen(causal: bool) -> None:
    """A sink of -inf where no key is seen: 0 / 0 in upstream's kernel, and 0 here."""
    import torch

    from kernels.sink_gqa_varlen.tilelang_kernel import attention

    given = with_sinks(3, Batch((200, 68), (0, 310), **SHORT))
    given = (*given[:5], torch.full_like(given[5], -np.inf))
    got = run_poisoned(lambda *x: attention(*x, causal=causal, tiling=DEFAULT), *given)
    assert not got[:200].any()
    assert got[200:].isfinite().all()
