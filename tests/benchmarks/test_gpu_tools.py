"""What ncu and compute-sanitizer say, read; and small shapes for them. Without a GPU."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.gpu import one, profile, results, sanitize, soak, tools, variants

if TYPE_CHECKING:
    from pathlib import Path

START = "========= COMPUTE-SANITIZER\n"
CLEAN = "== calling a\n== called a\n"
OTHER = "== calling f\n== called f\n"
BAD = """== calling b
========= Invalid __global__ write of size 16 bytes
=========     at main_kernel+0x1230
========= Invalid __global__ read of size 2 bytes
== called b
"""
RACE = """== calling c
========= Error: Race reported between Write access at main_kernel+0x10
== called c
"""
BROKEN = "== calling d\n========= Misaligned Shared or Local Address\n"
WRONG = "== calling e\n== failed e ValueError: no shape\n"
END = "========= ERROR SUMMARY: {} errors\n"


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (CLEAN + END.format(0), 0, [("a", 0, "")]),
        (CLEAN + BAD + OTHER + END.format(2), 0, [
            ("a", 0, ""), ("b", 2, "Invalid __global__ write of size 16 bytes"), ("f", 0, "")
        ]),
        (RACE, 0, [("c", 1, "Error: Race reported between Write access at main_kernel+0x10")]),
        (CLEAN + BROKEN, 1, [("a", 0, ""), ("d", None, "Misaligned Shared or Local Addr")]),
        (CLEAN + "== calling d\n", None, [("a", 0, ""), ("d", None, "it did not end in time")]),
        (WRONG + CLEAN, 0, [("e", None, "ValueError: no shape"), ("a", 0, "")]),
        (CLEAN + END.format(3), 0, [("a", 0, ""), ("not assigned", 3, "see the tool's own")]),
        ("oops\n", 1, []),
    ],
)  # fmt: skip
def test_what_the_sanitizer_said(text: str, code: int | None, expected: Any) -> None:
    rows = sanitize.judge("memcheck", tools.Said(START + text, code))
    assert [(row["variant"], row["findings"]) for row in rows] == [one[:2] for one in expected]
    for row, (_, _, first) in zip(rows, expected, strict=True):
        assert row["first"].startswith(first)


CSV = """==PROF== Connected to process 1
== called a
== failed b ValueError: no
== called c
"ID","Kernel Name","gpu__time_duration.sum","sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_\
sustained_active","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio",\
"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
"","","ns","%","inst","inst","inst"
"0","main_kernel","1,500,000","71.5","2.5","1","3.5"
"1","void elementwise<4, sinh_kernel_cuda(x)>(int)","1,000","0","0","0","0"
"2","main_kernel","2,000,000","50","2","1","1"
"3","combine_kernel","1000","0","2","1","1"
"4","void elementwise<4, cosh_kernel_cuda(x)>(int)","1,000","0","0","0","0"
"5","other_kernel","3,000,000","50","2","1","1"
"6","void elementwise<4, sinh_kernel_cuda(x)>(int)","1,000","0","0","0","0"
==PROF== Disconnected
"""


def test_what_ncu_said() -> None:
    rows = profile.read(CSV)
    assert [(row["variant"], row["who"], row["kernel"], row["ms"]) for row in rows] == [
        ("a", "ours", "main_kernel", 1.5),
        ("a", "upstream", "main_kernel", 2.0),
        ("a", "upstream", "combine_kernel", 0.001),
        ("c", "ours", "other_kernel", 3.0),
    ]
    assert rows[0]["tensor"] == 71.5
    assert rows[0]["dram"] is None
    assert list(rows[0]["stalls"].items()) == [("long_scoreboard", 3.5), ("barrier", 2.5)]
    assert profile.read("no table\n") == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What tools are run on: a list of variants for each process. One with `d` breaks."""
    found: list[list[str]] = []

    def run(command: list[str], *_: Any) -> tools.Said:
        if "--query-metrics" in command:
            return tools.Said("sm__pipe_tensor_cycles_active  Counter\n", 0)
        names = command[command.index("benchmarks.gpu.one") + 2 :]
        found.append(names)
        if "--tool" not in command:
            assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active" in command
            return tools.Said(CSV.replace("called a", "called a:2") if "a:2" in names else CSV, 0)
        before = names[: names.index("d")] if "d" in names else names
        text = "".join(f"== calling {n}\n== called {n}\n" for n in before)
        return tools.Said(text + BROKEN, 1) if "d" in names else tools.Said(text, 0)

    monkeypatch.setattr(tools, "find", lambda name: name)
    monkeypatch.setattr(tools, "run", run)
    monkeypatch.setattr(results, "digests", lambda name: {"ours": {"x": name}, "upstream": {}})
    monkeypatch.setattr(results, "RESULTS", tmp_path / "kept")
    monkeypatch.setattr(variants, "names", lambda: list("abcdgh"))
    monkeypatch.setattr(variants, "load", lambda _: SimpleNamespace(SHAPES=[0, 1, 2]))
    monkeypatch.setattr(profile, "compile_first", lambda *_: None)
    return found


def test_one_variants_failure_leaves_the_others(
    asked: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path)]
    assert sanitize.main(["a", "d", "g", "h", *out]) == 1
    assert sorted(asked) == [["a", "g"]] * 2 + [["d", "h"]] * 2 + [["h"]] * 2
    assert profile.main(["a", "b", "c", *out]) == 1
    said = capsys.readouterr().out
    assert "d                    memcheck    not run  Misaligned Shared or Local Address" in said
    assert "h                    racecheck         0" in said
    assert "b                  ValueError: no" in said
    assert "71.5" in said
    assert sanitize.main(["a", *out]) == 0
    assert {f.name for f in tmp_path.iterdir()} == {"h200-sanitize.json", "h200-profile.json"}


def test_what_is_known_is_left_out_and_kept(
    asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", str(tmp_path)]
    sanitize.main(["a", "d", *out])
    asked.clear()
    assert sanitize.main(["a", "d", "g", "h", "--rest", *out]) == 1
    assert sorted(asked) == [["d", "h"]] * 2 + [["g"]] * 2 + [["h"]] * 2
    asked.clear()
    assert sanitize.main(["a", "b", "--rest", "--limit", "-1", *out]) == 1
    assert sanitize.main(["a", "g", "--rest", *out]) == 0
    assert asked == []
    rows = json.loads((tmp_path / "h200-sanitize.json").read_text())["rows"]
    assert [(row["variant"], row["findings"]) for row in rows[::2]] == [
        ("a", 0), ("b", None), ("d", None), ("g", 0), ("h", 0)
    ]  # fmt: skip
    changed = {"ours": {"x": "other"}, "upstream": {}}
    monkeypatch.setattr(results, "digests", lambda _: changed)
    assert sanitize.main(["a", "--rest", *out]) == 0
    assert asked == [["a"]] * 2
    assert len(json.loads((tmp_path / "h200-sanitize.json").read_text())["rows"]) == 2


def test_what_ncu_said_before_is_kept(
    asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", str(tmp_path)]
    assert profile.main(["a", "c", *out]) == 1  # c has no kernel of upstream's
    assert profile.main(["a", *out, "--rest"]) == 0
    assert asked == [["a", "c"]]
    assert profile.main(["a", "b", *out]) == 1
    assert asked[1:] == [["b", "a"]]
    rows = json.loads((tmp_path / "h200-profile.json").read_text())["rows"]
    assert [(row["variant"], row["who"]) for row in rows[:4]] == [
        ("a", "ours"), ("a", "upstream"), ("a", "upstream"), ("b", "")
    ]  # fmt: skip


def test_another_shape_than_the_first_has_rows_of_its_own(
    asked: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--out", str(tmp_path)]
    profile.main(["a:2", *out])
    profile.main(["a", *out])
    assert asked == [["a:2"], ["a"]]
    rows = json.loads((tmp_path / "h200-profile.json").read_text())["rows"]
    assert {(row["variant"], row["shape"]) for row in rows if row["variant"] == "a"} == {
        ("a", 0),
        ("a", 2),
    }
    profile.main(["a:0", *out])
    assert asked[-1] == ["a"]
    capsys.readouterr()
    assert profile.main(["a:3", "x", "b:y", "b", *out]) == 2
    assert capsys.readouterr().err == "no a:3, x, b:y: there are a, b, c, d, g, h\n"


def test_a_variant_that_is_none_is_named(
    asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (sanitize, soak, profile):
        assert command.main(["a", "x"]) == 2
        assert capsys.readouterr().err == "no x: there are a, b, c, d, g, h\n"
    assert asked == []


def test_without_the_tools(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tools, "find", lambda _: None)
    assert (sanitize.main([]), profile.main([])) == (3, 3)
    assert capsys.readouterr().err == "compute-sanitizer is not installed\nncu is not installed\n"


def test_a_tool_that_takes_too_long_is_ended_and_its_words_are_kept(tmp_path: Path) -> None:
    code = "import time; print('on', flush=True); time.sleep(99)"
    log = tmp_path / "new" / "x.log"
    assert tools.run([sys.executable, "-c", code], 1, log) == tools.Said("on\n", None)
    tools.run([sys.executable, "-c", "print('again')"], 20, log)
    code = "import time; print('== a', flush=True); time.sleep(0.6); print('== b', flush=True)"
    assert tools.run([sys.executable, "-c", code], 20, None, 1) == tools.Said("== a\n== b\n", 0)
    said = tools.run([sys.executable, "-c", code + "; time.sleep(99)"], 20, None, 1)
    assert said == tools.Said("== a\n== b\n", None)
    kept = [line for line in log.read_text().splitlines() if line and not line.startswith("$ ")]
    assert kept == ["on", "exit code None", "again", "exit code 0"]


@pytest.mark.parametrize("name", variants.names())
def test_small_shapes_are_small_and_sound(name: str) -> None:
    for shape in one.small(variants.load(name)):
        assert shape.variant == name
        assert 0 < shape.bytes < 1 << 28
        assert 0 < shape.flops < 1e11
        assert shape.key
