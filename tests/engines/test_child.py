"""The child process: limits, crashes, errors with operation, file and line; and a clean parent."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from srcmap.engines.child import EngineError, require, run_jobs
from srcmap.engines.jobs import Job, Limits
from tests.engines.world import HEAD, ROOT

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = """
@tilelang.jit(out_idx=[1])
def make(n=8):
    @T.prim_func
    def main(A: T.Tensor([n], 'float32'), B: T.Tensor([n], 'float32')):
        with T.Kernel(1) as bx:
            BODY
    return main
"""


def job(folder: Path, body: str, before: str = "", name: str = "tiny.py") -> Job:
    """Write a kernel file and return the job that runs it."""
    (folder / name).write_text(HEAD + before + KERNEL.replace("BODY", body), encoding="utf-8")
    return Job(kind="run", repo="tilelang", root=str(folder), path=name)


def test_a_run_says_shapes_and_statistics(folder: Path) -> None:
    (outcome,) = run_jobs([job(folder, "T.copy(A, B)")])
    assert (outcome.state, outcome.name, outcome.failure) == ("ran", "make", None)
    assert [s.name for s in outcome.inputs] == ["A"]
    assert outcome.outputs[0].shape == (8,)
    assert outcome.outputs[0].low == outcome.inputs[0].low


def test_an_unknown_operation_names_operation_file_and_line(folder: Path) -> None:
    made = job(folder, "T.wibble(A, B)")
    (outcome,) = run_jobs([made])
    failure = outcome.failure
    assert failure is not None
    line = next(
        n
        for n, text in enumerate((folder / "tiny.py").read_text().split("\n"), 1)
        if "wibble" in text
    )
    got = (failure.kind, failure.operation, failure.path, failure.line)
    assert got == ("unsupported", "wibble", "tiny.py", line)


def test_one_job_that_dies_does_not_cost_the_others(folder: Path) -> None:
    jobs = [
        job(folder, "T.copy(A, B)", name="one.py"),
        job(
            folder,
            "T.copy(A, B)",
            before="import os\nDEAD = 1\ndef boom():\n    pass\n",
            name="two.py",
        ),
        job(folder, "T.copy(A, B)", name="three.py"),
    ]
    two = folder / "two.py"
    two.write_text("class Gone:\n    import os\n    os._exit(7)\n", encoding="utf-8")
    outcomes = run_jobs(jobs)
    assert [o.state for o in outcomes] == ["ran", "failed", "ran"]
    assert outcomes[1].failure is not None
    assert outcomes[1].failure.kind == "died"


def test_a_kernel_that_takes_too_long_is_stopped(folder: Path) -> None:
    slow = job(folder, "for k in T.serial(1 << 40):\n                T.copy(A, B)")
    (outcome,) = run_jobs([slow], Limits(seconds=1.5))
    assert outcome.failure is not None
    assert outcome.failure.kind == "time"


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are Linux's here")
def test_a_kernel_that_takes_too_much_memory_is_stopped(folder: Path) -> None:
    big = job(folder, "x = T.alloc_shared([1 << 34], 'float32')")
    (outcome,) = run_jobs([big], Limits(memory=4 << 30))
    assert outcome.failure is not None
    assert outcome.failure.kind in ("memory", "died")


def test_cuda_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srcmap.engines.cuda.Path.glob", lambda *_a: iter(()))
    with pytest.raises(EngineError, match="needs an NVIDIA GPU"):
        require("cuda")


@pytest.mark.parametrize(
    "module", ["srcmap", "srcmap.engines.child", "srcmap.verify.results", "srcmap.commands.verify"]
)
def test_importing_the_parents_side_pulls_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{n.partition('.')[0] for n in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert not {"numpy", "ml_dtypes", "torch", "tilelang"} & set(done.stdout.split())
