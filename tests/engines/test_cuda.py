"""The engine on a GPU: what can be said without one, and (marker `gpu`) what it computes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from srcmap.engines import cuda
from srcmap.engines.caselist import LISTED
from srcmap.engines.cases.checks import Run, execute
from srcmap.engines.cases.judging import compare_all
from srcmap.engines.cases.registry import checks_of
from srcmap.engines.child import run_jobs
from srcmap.engines.cuda import host
from srcmap.engines.interpreter.tensors import is_torch
from srcmap.engines.jobs import Job, Limits
from tests.engines.world import HEAD, ROOT

if TYPE_CHECKING:
    from srcmap.engines.jobs import Engine, Outcome

PIN = ROOT / "_vendor" / "tilelang-v0.1.14"
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


@pytest.mark.parametrize(
    ("devices", "missing", "expected"),
    [
        ((), (), "the engine cuda needs an NVIDIA GPU, and this machine has none"),
        (("nvidia0",), ("torch", "numpy"), "the engine cuda needs torch, numpy, which is not in"),
        (("nvidia0",), (), ""),
    ],
)
def test_why_not(
    monkeypatch: pytest.MonkeyPatch, devices: Any, missing: Any, expected: str
) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_a: iter(devices))
    monkeypatch.setattr(cuda, "find_spec", lambda name: None if name in missing else "there")
    assert cuda.why_not().startswith(expected)
    assert bool(cuda.why_not()) is bool(expected)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (RuntimeError("CUDA error: an illegal memory access was encountered\nmore"), True),
        (RuntimeError("CUDA_ERROR_LAUNCH_FAILED"), True),
        (ValueError("no layout for buffer acc_s"), False),
    ],
)
def test_what_the_gpu_says_is_a_verdict_and_what_the_compiler_lacks_is_none(
    error: Exception, verdict: bool
) -> None:
    assert (host.unable(error) == "") is verdict


def test_a_process_whose_gpu_does_not_answer_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    host_wait = SimpleNamespace(calls=0)

    def broken() -> None:
        host_wait.calls += 1
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nand so on")

    monkeypatch.setattr(host, "_wait", broken)
    with pytest.raises(SystemExit, match="does not answer any more: CUDA error: an illegal memory"):
        host.after_failure()
    assert host_wait.calls == 1


def test_an_ascend_kernel_is_refused() -> None:
    job = Job(kind="check", repo="tilelang-ascend", root="/", path="x.py", engine="cuda")
    with pytest.raises(ModuleNotFoundError, match="Ascend kernels need an NPU"):
        host.load(job)


@needs_torch
@pytest.mark.parametrize(
    "kind",
    [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float32, np.int32, np.bool_],
)
def test_inputs_become_tensors_and_outputs_arrays(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    import torch

    monkeypatch.setattr(host, "DEVICE", "cpu")
    seen: list[Any] = []

    def build(scale: int) -> Any:
        def kernel(x: Any, out: Any, number: int) -> None:
            seen.extend((x, out, number, scale))
            out.copy_(x)

        return kernel

    x = np.array([[0, 1, 1], [1, 0, 1]]).astype(kind)
    out = np.zeros((2, 3), kind)
    run = Run("build", (7,), inputs=(x, out, 5), filled=(1,), finish=lambda made: (made[0], "end"))
    found = host.execute(SimpleNamespace(build=build), run, execute)
    assert found[1] == "end"
    assert found[0].dtype == x.dtype
    assert (found[0] == x).all()
    assert [is_torch(value) for value in seen] == [True, True, False, False]
    assert str(seen[0].dtype) == f"torch.{str(x.dtype).replace('bool', 'bool')}"
    assert seen[2:] == [5, 7]
    assert not out.astype(np.float32).any(), "the check's own array stays as it is"
    assert isinstance(seen[0], torch.Tensor)


@needs_torch
@pytest.mark.skipif(not cuda.why_not(), reason="a GPU is here")
def test_a_torch_without_a_gpu_says_so(tmp_path: Path) -> None:
    (tmp_path / "tiny.py").write_text(HEAD, encoding="utf-8")
    job = Job(kind="check", repo="tilelang", root=str(tmp_path), path="tiny.py", engine="cuda")
    (outcome,) = run_jobs([job])
    assert outcome.failure is not None
    assert outcome.failure.kind == "needs"
    assert "torch sees no CUDA device" in outcome.failure.message


def cut(a: Any, b: Any, unit: float) -> Any:
    """Return sums of a * b over the last axis as a Hopper makes them of fp8.

    32 products and the sum so far are cut at `unit` of the largest one, and so is the new sum.
    """
    total = np.zeros(np.broadcast_shapes(a.shape, b.shape)[:-1])
    for first in range(0, a.shape[-1], 32):
        products = a[..., first : first + 32] * b[..., first : first + 32]
        added = np.concatenate([products, total[..., None]], -1)
        _, exponents = np.frexp(np.abs(added).max(-1, keepdims=True))
        step = np.ldexp(unit, exponents - 1)
        total = (np.floor(added / step) * step).sum(-1)
        _, exponents = np.frexp(total)
        step = np.ldexp(unit, exponents - 1)
        total = np.floor(total / step) * step
    return total


def test_fp8_products_that_are_cut_fit_the_budget_of_a_gpu_and_no_other() -> None:
    path = "examples/deepseek_v32/fp8_lighting_indexer.py"
    (row,) = (row for row in LISTED if row.path == path)
    job = Job(kind="check", repo="tilelang", root="", path=path, case=row.case)
    check = next(iter(checks_of(job)))
    q, k, scales, weights, *_ = (x.astype(np.float64) for x in check.run.inputs)
    heads = weights.shape[1]

    def worst(unit: float, allowed: float) -> float | None:
        scores = cut(q[:, None], k[None], unit).reshape(-1, heads, len(k)) * scales
        got = (np.maximum(scores, 0) * weights[..., None]).sum(1)
        (found,) = compare_all(check, (got,), cut=allowed)
        return found.ratio

    assert (worst(2.0**-30, 0.0) or 0) < 0.1
    assert (worst(2.0**-13, 0.0) or 0) > 5
    assert 0.1 < (worst(2.0**-13, host.CUT) or 0) < 0.7
    assert (worst(2.0**-10, host.CUT) or 0) > 1.5


# -- on a GPU ------------------------------------------------------------------------------------

ENGINES: tuple[Engine, ...] = ("cuda", "interpreter")
ON_A_GPU = pytest.mark.skipif(bool(cuda.why_not()), reason=cuda.why_not() or "a GPU is here")
FILES = (
    "examples/flash_attention/example_mha_fwd_bhsd.py",
    "examples/flash_attention/example_gqa_fwd_bshd.py",
    "examples/flash_attention/example_gqa_fwd_varlen.py",
    "examples/attention_sink/example_mha_sink_fwd_bhsd.py",
    "examples/flash_decoding/example_gqa_decode.py",
    "examples/deepseek_mla/example_mla_decode.py",
    "examples/deepseek_nsa/example_tilelang_nsa_fwd.py",
    "examples/deepseek_v32/fp8_lighting_indexer.py",
)


@pytest.fixture(scope="module")
def both() -> dict[str, tuple[Outcome, Outcome]]:
    """The first check of each file, on the GPU and in the interpreter; one process for each."""
    found = []
    for engine in ENGINES:
        jobs = [
            Job(kind="check", repo="tilelang", root=str(PIN), path=row.path, engine=engine,
                case=row.case, extra={"first": True})
            for row in LISTED if row.path in FILES
        ]  # fmt: skip
        outcomes = run_jobs(jobs, Limits(seconds=90, memory=16 << 30))
        found.append({jobs[one.job].path: one for one in reversed(outcomes)})
    return {path: (found[0][path], found[1][path]) for path in FILES}


@pytest.mark.gpu
@pytest.mark.pins
@ON_A_GPU
@pytest.mark.skipif(not PIN.is_dir(), reason="no checkout of tilelang v0.1.14")
@pytest.mark.parametrize("path", FILES)
def test_upstreams_kernel_on_the_gpu_and_in_the_interpreter(
    both: dict[str, tuple[Outcome, Outcome]], path: str
) -> None:
    """Both are within the budget of the same inputs, and alike."""
    real, read = both[path]
    assert (real.name, real.state) == (read.name, "passed"), (real.reason, real.failure)
    assert read.state == "passed"
    assert len(real.compared) == len(read.compared) > 0
    for one, other in zip(real.outputs, read.outputs, strict=True):
        assert (one.shape, one.dtype, one.nan) == (other.shape, other.dtype, other.nan)
        assert one.mean == pytest.approx(other.mean, rel=1e-2, abs=2e-3)
