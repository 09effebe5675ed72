"""Many calls of a kernel: what is kept of them, and which outputs count as alike. Without a GPU."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.gpu import crew, results, soak, variants
from benchmarks.gpu.crew import Failed, Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOUND: dict[tuple[str, int], Any] = {
    ("a", 0): {"different": 0, "worst": ""},
    ("a", 1): {"different": 3, "worst": "call 7: off by 0.1 of its norm"},
    ("b", 0): Failed("it did not end: call 50 and the next 50"),
}


class Team:
    """Side processes that answer at once, or find that the time is up."""

    asked: list[tuple[str, int]]

    def __init__(self, *_: Any) -> None:
        self.late = False

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: Any) -> None:
        return

    def map(self, jobs: list[Job], _: float, until: float) -> Iterator[tuple[Job, Any]]:
        for job in jobs:
            Team.asked.append(job.arguments[:2])
            yield job, Failed(crew.LATE) if until < 0 else FOUND[job.arguments[:2]]


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    measured = {"a": [0], "b": [0]}
    small = {"a": [1], "b": []}
    Team.asked = []
    monkeypatch.setattr(soak, "Crew", Team)
    monkeypatch.setattr(results, "RESULTS", tmp_path / "kept")
    monkeypatch.setattr(results, "digests", lambda name: {"ours": {"x": name}, "upstream": {}})
    monkeypatch.setattr(variants, "names", lambda: list(measured))
    monkeypatch.setattr(
        variants, "load", lambda name: SimpleNamespace(SHAPES=measured[name], SMALL=small[name])
    )
    return tmp_path


def kept(out: Path) -> dict[tuple[str, int], str]:
    rows = json.loads((out / "h200-soak.json").read_text())["rows"]
    return {(row["variant"], row["shape"]): row["why"] for row in rows}


def test_one_that_hangs_or_differs_is_told_and_the_others_are_kept(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert soak.main(["--out", str(out), "--calls", "100"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a                    shape 0  100 calls, 0 other outputs",
        "a                    shape 1  100 calls, 3 other outputs  call 7: off by 0.1 of its norm",
        "b                    shape 0  not done  it did not end: call 50 and the next 50",
    ]
    assert kept(out)["a", 0] == ""
    assert kept(out)["b", 0].startswith("it did not end")


def test_what_passed_is_left_out_and_what_comes_late_replaces_nothing(out: Path) -> None:
    soak.main(["--out", str(out)])
    before = kept(out)
    Team.asked.clear()
    assert soak.main(["--out", str(out), "--rest", "--limit=-1e18"]) == 1
    assert Team.asked == [("a", 1), ("b", 0)]
    assert kept(out) == before
    assert soak.main(["a", "--rest", "--out", str(out)]) == 1


def test_outputs_are_alike_to_the_bit() -> None:
    torch = pytest.importorskip("torch")
    one = torch.tensor([1.0, float("nan"), -0.0], dtype=torch.float16)
    assert soak.same((one, None), (one.clone(), None))
    assert not soak.same(one, torch.tensor([1.0, float("nan"), 0.0], dtype=torch.float16))
    assert not soak.same((one, one), (one, one + 1))
