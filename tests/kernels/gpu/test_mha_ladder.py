"""The ladder in TileLang on a GPU: each step beside upstream's compiled kernel and float64."""

from __future__ import annotations

import importlib

import pytest

from kernels.mha.reference import attention as reference
from tests.kernels.gpu.world import Call, compare, run_poisoned, tensors, upstream, why_not, wide

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

CALL = Call(2, 2, 0, 300, 513, 64)


STEPS = ("naive", "blocked", "pipelined", "aligned")


@pytest.mark.parametrize(("step", "causal"), [*((s, False) for s in STEPS), ("aligned", True)])
def test_step(step: str, causal: bool) -> None:
    module = importlib.import_module(f"kernels.mha.ladder.tilelang_{step}")
    q, k, v = tensors("ladder", CALL)
    exact = reference(*map(wide, (q, k, v)), causal=causal)
    kernel = upstream("flash_attention/example_mha_fwd_bhsd.py").flashattn(
        CALL.batch, CALL.heads, CALL.seq_q, CALL.seq_kv, CALL.dim, causal,
        block_M=128, block_N=128, num_stages=2, threads=256,
    )  # fmt: skip
    theirs = float(abs(wide(run_poisoned(kernel, q, k, v)) - exact).max())
    options = {"causal": True} if causal else {}
    got = run_poisoned(lambda *x: module.attention(*x, **options), q, k, v)
    compare(f"ladder {step} causal={causal} {CALL}", got, exact, theirs, CALL.dtype)
