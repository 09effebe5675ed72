"""A test that hangs, or that spoils its process, costs its file's other tests nothing."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from benchmarks.gpu import tests
from benchmarks.gpu.crew import Failed
from benchmarks.gpu.tests import Found, Part

if TYPE_CHECKING:
    from pathlib import Path

CONFTEST = """
from pathlib import Path
def pytest_runtest_logreport(report):
    if report.when == "call":
        with Path(__file__).with_name("reports").open("a") as file:
            print(report.nodeid.rpartition(":")[2], report.outcome, file=file)
"""
HANGING = """
import time
import pytest
@pytest.mark.parametrize("n", range(4))
def test_a(n):
    if n == 1:
        time.sleep(1000)
    assert n != 2, "two is wrong"
"""
DYING = """
import os
def test_b(): ...
def test_c(): os._exit(9)
def test_d(): ...
"""


def test_what_hangs_or_dies_fails_and_the_rest_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name, text in (("test_hanging", HANGING), ("test_dying", DYING)):
        (tmp_path / f"{name}.py").write_text(text)
    files = [str(tmp_path / f"test_{name}.py") for name in ("hanging", "dying")]
    options = ["--seconds", "2", "--workers", "2", "--last", "test_dying", "--parts", "1"]
    options += ["--out", str(tmp_path)]
    assert tests.main([*files, *options]) == 1
    out = capsys.readouterr().out
    assert "test_hanging: it did not end: test_hanging.py::test_a[1]\n" in out
    assert "test_hanging: 1 passed, 2 failed, 0 skipped\n" in out
    assert "test_hanging.py::test_a[1]: it did not end\n" in out
    assert "test_hanging.py::test_a[2]: AssertionError: two is wrong\n" in out
    assert "test_dying: 1 passed, 1 failed, 0 skipped\n" in out
    reports = (tmp_path / "reports").read_text().splitlines()
    assert sorted(reports[:4]) == [
        "test_a[0] passed", "test_a[1] failed", "test_a[2] failed", "test_a[3] passed"
    ]  # fmt: skip
    assert reports[4:] == ["test_b passed", "test_c failed", "test_d passed"]
    assert "two is wrong" in (tmp_path / "test_hanging.log").read_text()


def test_files_that_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = [str(tmp_path / "test_x.py"), "--out", str(tmp_path), "--workers", "1"]
    (tmp_path / "test_x.py").write_text("def test_x(): ...\ndef test_y(): ...\n")
    assert tests.main([*call, "--parts", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"test_x {number}/3: {passed} passed, 0 failed, 0 skipped"
        for number, passed in ((1, 0), (2, 1), (3, 1))
    ]
    (tmp_path / "test_x.py").write_text("def test_x(: ...\n")
    assert tests.main([*call, "--parts", "1"]) == 1
    assert "test_x.py: pytest ended with" in capsys.readouterr().out


def test_cuda_that_is_spoilt_ends_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "test_x.py"
    file.write_text("def test_a(): ...\ndef test_b(): assert 0\ndef test_c(): ...\n")
    monkeypatch.setattr(tests, "sound", lambda: False)
    found = tests.run(Part(str(file)), 30, tmp_path)
    assert (found.passed, found.spoilt_by) == (1, "test_x.py::test_b")
    assert list(found.failed) == ["test_x.py::test_b"]
    rest = tests.behind(Part(str(file)), found)
    assert rest == Part(str(file), after="test_x.py::test_b")
    assert tests.run(rest, 30, tmp_path) == Found(1, {}, 0, "")


def test_without_a_gpu_a_test_that_fails_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA cannot be spoilt where it never began: asking it would fail, and say that it is."""

    def torch(begun: bool) -> object:
        return SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: begun))

    monkeypatch.setattr("benchmarks.gpu.work.sound", lambda: False)
    monkeypatch.setitem(sys.modules, "torch", torch(begun=False))
    assert tests.sound()
    monkeypatch.setitem(sys.modules, "torch", torch(begun=True))
    assert not tests.sound()


@pytest.mark.parametrize(
    ("why", "after"),
    [
        ("it did not end: f.py::test_a[b: c]", "f.py::test_a[b: c]"),
        ("its process died (exit code -11): f.py::test_a", "f.py::test_a"),
        ("its process died (exit code 1)", ""),
        ("it did not end: starting", ""),
        ("the time was up: f.py::test_a", ""),
    ],
)
def test_what_is_left_of_a_file(why: str, after: str) -> None:
    rest = tests.behind(Part("f.py"), Failed(why))
    assert (rest.after if rest else "") == after


def test_what_hangs_before_it_can_fail_is_left_out() -> None:
    again = Part("f.py", 1, 2, "f.py::test_a", "it did not end")
    rest = tests.behind(again, Failed("it did not end: f.py::test_a"))
    assert rest == again._replace(why="")
