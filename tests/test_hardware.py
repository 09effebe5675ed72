"""What real hardware said of our kernels: only a whole, current run without failures agrees."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from srcmap.commands.measured import with_hardware
from srcmap.hardware import Speed, seen
from srcmap.render.interface import Block

if TYPE_CHECKING:
    from pathlib import Path

OURS = "kernels/sink/tilelang_kernel.py"
THEIRS = "examples/x/y.py"
BLOB = "a" * 40


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "kernels" / "sink"
    folder.mkdir(parents=True)
    (tmp_path / "kernels" / "results").mkdir()
    (tmp_path / "kernels" / "index.toml").write_text('[folders]\nsink-a = "sink"\n')
    (folder / "tilelang_kernel.py").write_text("ours\n")
    return tmp_path


def keep(project: Path, name: str, **facts: Any) -> None:
    rests = {
        "device": "NVIDIA H200",
        "date": "2026-11-29",
        "ours": {OURS: hashlib.sha256(b"ours\n").hexdigest()},
        "upstream": {f"tilelang v0.1.14 {THEIRS}": BLOB},
    }
    file = project / "kernels" / "results" / name
    file.write_text(json.dumps({**rests, **facts}), encoding="utf-8")


def tests(project: Path, **facts: Any) -> None:
    counts = {"passed": 5, "failed": 0, "skipped": 0, "unfinished": 0, "missing": []}
    keep(project, "sink-h200-tests.json", format="srcmap-gpu-tests/1", **{**counts, **facts})


def speed(project: Path, *ratios: float, **facts: Any) -> None:
    shapes = [{"ours_ms": 1, "faster_than": {"upstream as shipped": r}} for r in ratios]
    shapes.append({"wrong": {"ours": "off"}})
    keep(project, "sink-h200.json", format=1, shapes=shapes, **facts)


def said(project: Path, lang: str = "en", blob: str = BLOB) -> tuple[tuple[str, ...], ...]:
    block = Block(repo="tilelang", pin="v0.1.14", path=THEIRS, rows=())
    shown = with_hardware(block, blob, "sink-a", project, lang)
    return shown.measured, shown.remarks


def test_a_whole_run_agrees(project: Path) -> None:
    tests(project)
    speed(project, 1.1, 1.3)
    assert said(project) == (
        (
            f"{OURS}: agrees with upstream on NVIDIA H200, 2026-11-29 (5 tests).",
            (
                "On NVIDIA H200 it is 1.20 times as fast as upstream as shipped "
                "(1.10 to 1.30 over 2 shapes, 2026-11-29)."
            ),
        ),
        (),
    )
    assert said(project, "zh") == (
        (
            f"{OURS} 在 NVIDIA H200 上与上游一致（2026-11-29，5 个测试）。",
            "在 NVIDIA H200 上，速度是上游原配置的 1.20 倍（2 种形状，1.10 到 1.30；2026-11-29）。",
        ),
        (),
    )


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "agrees"),
        ({"failed": 1}, "failed"),
        ({"skipped": 1}, "unfinished"),
        ({"unfinished": 1}, "unfinished"),
        ({"missing": ["test_x.py"]}, "unfinished"),
        ({"passed": 0}, "unfinished"),
        ({"failed": 1, "ours": {OURS: "0"}}, "stale"),
        ({"ours": {OURS: "0"}}, "stale"),
        ({"ours": {"kernels/sink/gone.py": "0"}}, "stale"),
        ({"upstream": {f"tilelang v0.1.13 {THEIRS}": "b" * 40}}, "stale"),
        ({"upstream": {f"tilelang v0.1.13 {THEIRS}": BLOB}}, "agrees"),
    ],
)
def test_the_state_of_tests(project: Path, facts: dict[str, Any], state: str) -> None:
    tests(project, **facts)
    (found,) = seen(project, "sink-a", "tilelang", THEIRS, BLOB)
    assert found.tests is not None
    assert found.tests.state == state
    measured, remarks = said(project)
    assert bool(measured) is (state == "agrees")
    assert bool(remarks) is (state != "agrees")
    assert not any("agrees" in text for text in remarks)


def test_what_is_said_of_bad_runs(project: Path) -> None:
    tests(project, failed=2, unfinished=3)
    assert said(project)[1] == (
        f"{OURS}: does not agree with upstream on NVIDIA H200, 2026-11-29: 2 of 10 tests failed.",
    )
    tests(project, skipped=2, missing=["test_sink_more.py"])
    assert said(project)[1] == (
        (
            f"{OURS}: not tested whole on NVIDIA H200, 2026-11-29: 5 tests passed, "
            "2 were skipped, 1 did not run."
        ),
    )
    tests(project)
    speed(project, 1.5)
    (project / OURS).write_text("changed\n")
    assert said(project) == (
        (),
        (
            (
                f"stale: {OURS} was compared with upstream on NVIDIA H200, 2026-11-29; "
                f"changed since: {OURS}"
            ),
            (
                "stale: on NVIDIA H200 it was 1.50 times as fast as upstream as shipped, "
                f"2026-11-29; changed since: {OURS}"
            ),
        ),
    )


def test_a_changed_upstream_is_stale_and_an_unknown_blob_is_not_looked_at(project: Path) -> None:
    speed(project, 1.5, 3.0, 1.6)
    (found,) = seen(project, "sink-a", "tilelang", THEIRS, "c" * 40)
    assert found.speed == Speed(
        date="2026-11-29", shapes=3, median=1.6, least=1.5, most=3.0, changed=(THEIRS,)
    )
    (found,) = seen(project, "sink-a", "tilelang", THEIRS, "")
    assert found.speed is not None
    assert not found.speed.stale


def test_a_result_counts_for_the_files_it_was_compared_with_alone(project: Path) -> None:
    tests(project)
    speed(project, 2.0)
    assert seen(project, "sink-a", "tilelang", "examples/x/other.py", BLOB) == ()
    assert seen(project, "sink-a", "tilelang-ascend", THEIRS, BLOB) == ()
    assert seen(project, "other", "tilelang", THEIRS, BLOB) == ()
    assert seen(None, "sink-a", "tilelang", THEIRS, BLOB) == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sink-h200-tests.json", "no JSON"),
        ("sink-h200-tests.json", '{"format": "srcmap-gpu-tests/9", "device": "x", "date": "y"}'),
        ("sink-h200.json", '{"format": 9, "device": "x", "date": "y"}'),
        ("sink-h200-sweep.json", '{"format": 1, "device": "x", "date": "y"}'),
    ],
)
def test_other_files_say_nothing(project: Path, name: str, text: str) -> None:
    (project / "kernels" / "results" / name).write_text(text)
    assert seen(project, "sink-a", "tilelang", THEIRS, BLOB) == ()


def test_two_devices_stand_side_by_side(project: Path) -> None:
    tests(project)
    counts = {"format": "srcmap-gpu-tests/1", "passed": 1, "device": "NVIDIA B200"}
    keep(project, "sink-b200-tests.json", **counts)
    speed(project, 1.5)
    found = seen(project, "sink-a", "tilelang", THEIRS, BLOB)
    assert [(one.device, one.speed is not None) for one in found] == [
        ("NVIDIA B200", False), ("NVIDIA H200", True)
    ]  # fmt: skip
