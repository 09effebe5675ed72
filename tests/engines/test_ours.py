"""Implementations of ours beside upstream's: each named, and what is wrong with one told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from srcmap.engines import ours
from srcmap.engines.cases.checks import Check, Expected, Run
from srcmap.engines.jobs import Job

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

INPUT = np.arange(4, dtype=np.float16)
CHECK = Check("tiny", Run("make", inputs=(INPUT,)), (Expected(INPUT * 2.0, INPUT * 2.0),))
BODY = "def like_upstream(run):\n    "


def compared(folder: Path, monkeypatch: pytest.MonkeyPatch, **bodies: str) -> ours.Ours:
    package = folder / f"own_{folder.name[-6:].strip('-_')}_package"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, body in bodies.items():
        (package / f"{name}.py").write_text(BODY + body, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    modules = tuple(f"{package.name}.{name}" for name in bodies)
    job = Job(kind="check", repo="tilelang", root="", path="", ours=(str(folder), *modules))
    return ours.compare(job, CHECK)


def test_every_module_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(
        folder,
        monkeypatch,
        plain="return (run.inputs[0] * 2,)",
        exact="return (run.inputs[0] * 2,)",
    )
    assert [(c.by, c.bad) for c in found.compared] == [("plain", 0), ("exact", 0)]
    assert (found.missing, found.wrong) == ("", "")


def test_which_one_is_wrong_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = compared(
        folder, monkeypatch, right="return (run.inputs[0] * 2,)", off="return (run.inputs[0],)"
    )
    assert found.wrong == "off is outside the budget"


def test_one_that_cannot_is_missing_and_one_that_breaks_is_wrong(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(
        folder, monkeypatch, other="raise NotImplementedError('no sinks')", broken="1 / 0"
    )
    assert found.missing == "other: no sinks; broken: ZeroDivisionError: division by zero"
    assert found.wrong == "broken: ZeroDivisionError: division by zero"


def test_what_upstream_leaves_out_is_not_asked_of_ours() -> None:
    job = Job(kind="check", repo="tilelang", root="", path="", ours=("", "no.such.module"))
    assert ours.compare(job, CHECK._replace(left_out=True)).missing == ours.LEFT_OUT


TILELANG = """
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[1])
def make():
    @T.prim_func
    def main(A: T.Tensor([4], "float16"), B: T.Tensor([4], "float16")):
        with T.Kernel(1, threads=128) as bx:
            tile = T.alloc_shared([4], "float16")
            T.async_copy(A, tile)
            WAIT
            for i in T.Parallel(4):
                B[i] = tile[i] * T.float16(2)
    return main

def like_upstream(run):
    return (make()(*run.inputs),)
"""


def test_a_race_in_a_kernel_of_ours_is_wrong_whatever_comes_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from srcmap.engines.interpreter import loader

    loader.prepare("nvidia")
    package = folder / "own_tiles"
    package.mkdir()
    for name, wait in (("tilelang_good", "T.ptx_wait_group(0)"), ("tilelang_bad", "pass")):
        text = TILELANG.replace("WAIT", wait)
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    modules = ("own_tiles.tilelang_good", "own_tiles.tilelang_bad")
    job = Job(kind="check", repo="tilelang", root="", path="", ours=(str(folder), *modules))
    found = ours.compare(job, CHECK)
    assert [c.bad for c in found.compared] == [0, 0]
    assert found.wrong == "tilelang_bad:14: unwaited-read tile"
    ascend = Job(kind="check", repo="tilelang-ascend", root="", path="", ours=job.ours)
    assert ours.compare(ascend, CHECK) == ours.Ours()
