"""Kernels without a case on a compiling engine: the same made-up inputs as the interpreter's."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest

from srcmap.engines.child import run_jobs
from srcmap.engines.jobs import Job
from tests.engines.world import HEAD

if TYPE_CHECKING:
    from pathlib import Path

    from srcmap.engines.jobs import Engine, Outcome

needs_tilelang = pytest.mark.skipif(
    importlib.util.find_spec("tilelang") is None or importlib.util.find_spec("torch") is None,
    reason="needs the extra tilelang",
)
SOURCE = """
@tilelang.jit(out_idx=[-1])
def scaled(length, dim=32, factor=3):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor([length, dim], "float16"), B: T.Tensor([n, dim], "float16"),
             Out: T.Tensor([length, dim], "float16")):
        with T.Kernel(length) as bx:
            row = T.alloc_shared([dim], "float16")
            T.copy(A[bx, 0], row)
            for j in T.Parallel(dim):
                row[j] = row[j] * factor + B[0, j]
            T.copy(row, Out[bx, 0])

    return main


@tilelang.jit
def eager(A, n: int = 4):
    M = T.const("M")
    A: T.Tensor[[M], "float16"]
    with T.Kernel(1):
        A[0] = A[0] + n
"""


def outcome(folder: Path, engine: Engine, function: str, **shape: str) -> Outcome:
    (folder / "tiny.py").write_text(HEAD + SOURCE, encoding="utf-8")
    job = Job(
        kind="run", repo="tilelang", root=str(folder), path="tiny.py", engine=engine,
        function=function, shape=shape,
    )  # fmt: skip
    (found,) = run_jobs([job])
    return found


@needs_tilelang
def test_the_engines_are_given_and_give_the_same(folder: Path) -> None:
    found = [
        outcome(folder, e, "scaled", length="5", n="2") for e in ("interpreter", "tilelang-cpu")
    ]
    assert [one.state for one in found] == ["ran", "ran"], [one.failure for one in found]
    assert found[0].inputs == found[1].inputs
    assert [(one.name, one.shape) for one in found[1].inputs] == [("A", (5, 32)), ("B", (2, 32))]
    assert found[0].outputs == found[1].outputs


@needs_tilelang
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("eager", "an eager kernel: only the interpreter makes up its inputs"),
        ("nope", "no kernel 'nope'; there are: scaled, eager"),
    ],
)
def test_what_it_cannot_run(folder: Path, function: str, expected: str) -> None:
    failure = outcome(folder, "tilelang-cpu", function).failure
    assert failure is not None
    assert failure.message == expected
