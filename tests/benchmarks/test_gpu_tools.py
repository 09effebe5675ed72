"""What ncu and compute-sanitizer say, read; and small shapes for them. Without a GPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.gpu import one, profile, results, sanitize, tools, variants

if TYPE_CHECKING:
    from pathlib import Path

CLEAN = """========= COMPUTE-SANITIZER
called and waited for: Shape(variant='x')
========= ERROR SUMMARY: 0 errors
"""
BAD = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 16 bytes
=========     at main_kernel+0x1230
called and waited for: Shape(variant='x')
========= ERROR SUMMARY: 3 errors
"""
RACE = """========= Error: Race reported between Write access at main_kernel+0x10
called and waited for: Shape(variant='x')
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""


@pytest.mark.parametrize(
    ("text", "code", "findings", "first"),
    [
        (CLEAN, 0, 0, ""),
        (BAD, 0, 3, "Invalid __global__ write of size 16 bytes"),
        (RACE, 0, 2, "Error: Race reported between Write access at main_kernel+0x10"),
        (CLEAN, None, None, "it did not end in time"),
        ("RuntimeError: no shape\nbye\n", 1, None, "exit code 1: RuntimeError: no shape"),
        ("========= ERROR SUMMARY: 0 errors\n", 1, None, "exit code 1: ========= ERROR SUMMARY: 0"),
        ("", 0, None, "exit code 0: nothing was said"),
    ],
)
def test_what_the_sanitizer_said(text: str, code: int | None, findings: Any, first: str) -> None:
    row = sanitize.judge("mha", "memcheck", tools.Said(text, code))
    assert row["findings"] == findings
    assert row["first"].startswith(first)


CSV = """==PROF== Connected to process 1
"ID","Kernel Name","gpu__time_duration.sum","sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_\
sustained_active","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
"","","ns","%","inst","inst","inst"
"0","main_kernel","1,500,000","71.5","2.5","1","3.5"
"1","void at::native::sinh_kernel","1,000","0","0","0","0"
"2","main_kernel","2,000,000","50","2","1","1"
"3","combine_kernel","1000","0","2","1","1"
==PROF== Disconnected
"""


def test_what_ncu_said() -> None:
    rows = profile.read("mha", CSV)
    assert [(row["who"], row["kernel"], row["ms"]) for row in rows] == [
        ("ours", "main_kernel", 1.5),
        ("upstream", "main_kernel", 2.0),
        ("upstream", "combine_kernel", 0.001),
    ]
    assert rows[0]["tensor"] == 71.5
    assert rows[0]["dram"] is None
    assert list(rows[0]["stalls"].items()) == [("long_scoreboard", 3.5), ("barrier", 2.5)]
    assert profile.read("mha", "no table\n") == []


def test_one_variants_failure_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], _seconds: float) -> tools.Said:
        if "--query-metrics" in command:
            return tools.Said("sm__pipe_tensor_cycles_active  Counter\n", 0)
        bad = command[-1] == "bad"
        if "--tool" in command:
            return tools.Said("oops", 1) if bad else tools.Said(CLEAN, 0)
        assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active" in command
        return tools.Said("ERROR: no", None) if bad else tools.Said(CSV, 0)

    monkeypatch.setattr(tools, "find", lambda name: name)
    monkeypatch.setattr(tools, "run", run)
    monkeypatch.setattr(results, "digests", lambda _: {})
    monkeypatch.setattr(profile, "compile_first", lambda *_: None)
    assert sanitize.main(["bad", "mha", "--out", str(tmp_path)]) == 1
    assert profile.main(["bad", "mha", "--out", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "bad                  memcheck    not run  exit code 1: oops" in out
    assert "mha                  racecheck         0" in out
    assert "bad                it did not end in time" in out
    assert "71.5" in out
    assert sanitize.main(["mha", "--out", str(tmp_path)]) == 0
    assert {f.name for f in tmp_path.iterdir()} == {"h200-sanitize.json", "h200-profile.json"}


def test_without_the_tools(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tools, "find", lambda _: None)
    assert (sanitize.main([]), profile.main([])) == (3, 3)
    assert capsys.readouterr().err == "compute-sanitizer is not installed\nncu is not installed\n"


def test_a_tool_that_takes_too_long_is_ended() -> None:
    said = tools.run(
        [sys.executable, "-c", "import time; print('on', flush=True); time.sleep(99)"], 1
    )
    assert said == tools.Said("on\n", None)


@pytest.mark.parametrize("name", variants.names())
def test_small_shapes_are_small_and_sound(name: str) -> None:
    for shape in one.small(variants.load(name)):
        assert shape.variant == name
        assert 0 < shape.bytes < 1 << 28
        assert 0 < shape.flops < 1e11
        assert shape.key
