"""The figures of a shape, the table of tilings, a run that breaks in places: without a GPU."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import benchmarks.gpu.__main__ as command
from benchmarks.gpu import results, variants
from benchmarks.gpu.crew import Failed, Job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ABOUT = {"device": "NVIDIA H200", "matrix_tflops": 800.0, "copy_tbs": 4.0, "date": "2026-11-29"}


def found(ms: dict[str, float], key: str = "a", **more: Any) -> dict[str, Any]:
    kinds = {name: name.split()[0] for name in ms}
    tilings = {name: {"n": int(name[5:])} if name[5:] else None for name in ms if "ours" in name}
    return {
        "shape": {"variant": "x", "name": key}, "key": {"key": key}, "flops": 8e11, "bytes": 2e9,
        "rate": 1,
        "ms": ms, "kinds": kinds, "tilings": tilings, "wrong": {}, **more,
    }  # fmt: skip


def test_the_ratios_of_a_line() -> None:
    ms = {"ours": 2.0, "upstream as shipped": 4.0, "upstream (1)": 3.0, "pytorch cudnn": 1.0}
    line = results.summary(found(ms), ABOUT)
    assert line["floor_ms"] == 1.0
    assert line["bound"] == "matrix"
    assert line["of_floor"] == 0.5
    assert line["ours_tflops"] == pytest.approx(400.0)
    assert line["best_of_upstream"] == "upstream (1)"
    assert line["faster_than"] == {
        "upstream as shipped": 2.0, "upstream's best": 1.5, "pytorch cudnn": 0.5
    }  # fmt: skip


def test_the_floor_of_products_that_are_faster() -> None:
    line = results.summary(found({"ours": 2.0}, rate=2), ABOUT)
    assert line["floor_ms"] == 0.5
    assert line["of_floor"] == 0.25


def test_a_line_without_ours_has_no_ratio() -> None:
    line = results.summary(found({"upstream as shipped": 4.0}, wrong={"ours": "off"}), ABOUT)
    assert "faster_than" not in line
    assert "ours_ms" not in line


def test_a_tiling_is_chosen_over_all_shapes_of_its_key() -> None:
    lines = [
        results.summary(found({"ours": 1.0, "ours 1": 1.0, "ours 2": 1.2}), ABOUT),
        results.summary(found({"ours": 1.0, "ours 1": 4.0, "ours 2": 1.0, "ours 3": 0.1}), ABOUT),
        results.summary(found({"ours": 1.0, "ours 3": 4.0}, key="b"), ABOUT),
        results.summary(found({"ours": 1.0}, key="c"), ABOUT),
    ]
    chosen = [(key["key"], tiling["n"]) for key, tiling, _ in results.choose(lines)]
    assert chosen == [("a", 2), ("b", 3)]


def test_rows_of_other_keys_stay_in_the_table(tmp_path: Path) -> None:
    table = tmp_path / "tuning.json"
    row = {"variant": "x", "device": "G", "tiling": {"n": 1}, "shape": {}, "sweep": "s"}
    results.merge(table, [{**row, "dim": 64}, {**row, "dim": 128}, {**row, "device": "H"}])
    results.merge(table, [{**row, "dim": 64, "tiling": {"n": 2}}])
    rows = json.loads(table.read_text())["rows"]
    assert [(r["device"], r.get("dim"), r["tiling"]["n"]) for r in rows] == [
        ("G", 128, 1), ("H", None, 1), ("G", 64, 2)
    ]  # fmt: skip


def test_taking_results_merges_their_tilings(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    row = {"variant": "x", "device": "G", "dim": 64, "tiling": {}, "shape": {}}
    rows = [
        {**row, "sweep": "kernels/results/x-g-sweep.json"},
        {**row, "variant": "y", "sweep": "o"},
    ]
    (there / "x-g-sweep.json").write_text("{}")
    (there / "tuning.json").write_text(json.dumps({"rows": rows}))
    assert results.take(there, here, tmp_path / "t.json") == ["x-g-sweep.json"]
    assert json.loads((tmp_path / "t.json").read_text()) == {"rows": rows[:1]}
    assert (here / "x-g-sweep.json").read_text() == "{}"


class Stand:
    """Stands for the processes: variants `good` and `bad`, each of two shapes."""

    def __init__(self, size: int) -> None:
        assert size

    def __enter__(self) -> Stand:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, job: Job, _: float) -> Any:
        return self.outcome(job)

    def map(
        self, jobs: list[Job], _: float, until: float = float("inf")
    ) -> Iterator[tuple[Job, Any]]:
        for job in jobs:
            late = job.function == "measure" and time.monotonic() >= until
            yield job, Failed("the time was up") if late else self.outcome(job)

    def outcome(self, job: Job) -> Any:
        assert job.module == "benchmarks.gpu.work"
        if job.function == "machine":
            return ABOUT
        if job.function == "plan":
            if job.arguments[0] == "broken":
                return Failed("ImportError: no module")
            more = ["ours 1", "ours 2"] if job.arguments[1] else []
            return [["ours", *more, "upstream as shipped"]] * 2
        if job.function == "prepare":
            hangs = job.arguments[:3] == ("bad", 1, "ours")
            return Failed("it did not end") if hangs else None
        variant, number, names, _, _, tiling = job.arguments
        if (variant, number) == ("bad", 0):
            return Failed("its process died (exit code -11)")
        ms = {n: {"ours 1": 3.0, "ours 2": 1.0}.get(n, 2.0) for n in names}
        return found({**ms, "ours": 1.0} if tiling == {"n": 2} else ms, key=f"{number}")


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(command, "Crew", Stand)
    monkeypatch.setattr(variants, "names", lambda: ["bad", "broken", "good"])
    monkeypatch.setattr(results, "digests", lambda _: {"ours": {"file": "digest"}})
    monkeypatch.setattr(results, "TUNING", tmp_path / "tuning.json")
    return tmp_path


def kept(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text())


def test_one_variants_failure_does_not_stop_the_others(
    stand: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--out", str(stand / "out")]) == 1
    out = capsys.readouterr().out
    assert "bad, shape 0: not measured: its process died (exit code -11)" in out
    assert "broken: nothing is measured: ImportError" in out
    good = kept(stand / "out", "good-h200.json")
    assert (good["format"], good["missing"], len(good["shapes"])) == (1, 0, 2)
    assert good["ours"] == {"file": "digest"}
    bad = kept(stand / "out", "bad-h200.json")
    assert (bad["missing"], len(bad["shapes"])) == (1, 1)
    assert "ours_ms" not in bad["shapes"][0]
    assert command.main(["good", "--out", str(stand / "out")]) == 0


def test_a_sweep_measures_again_with_what_it_chose(stand: Path) -> None:
    assert command.main(["good", "--sweep", "--out", str(stand / "out")]) == 0
    sweep, final = (kept(stand / "out", f"good-h200{s}.json") for s in ("-sweep", ""))
    assert set(sweep["shapes"][0]["milliseconds"]) == {
        "ours", "ours 1", "ours 2", "upstream as shipped"
    }  # fmt: skip
    assert final["shapes"][0]["milliseconds"] == {"ours": 1.0, "upstream as shipped": 2.0}
    for table in (stand / "tuning.json", stand / "out" / "tuning.json"):
        rows = json.loads(table.read_text())["rows"]
        assert [row["tiling"] for row in rows] == [{"n": 2}] * 2
        assert rows[0]["sweep"] == "kernels/results/good-h200-sweep.json"


def test_a_variant_that_hangs_is_left_alone(
    stand: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    outcome = Stand.outcome

    def hung(self: Stand, job: Job) -> Any:
        if job.function != "measure":
            return outcome(self, job)
        asked.append(job.arguments[:2])
        return Failed("it did not end") if job.arguments[0] == "good" else Failed("off")

    monkeypatch.setattr(Stand, "outcome", hung)
    assert command.main(["good", "bad", "--out", str(stand / "out")]) == 1
    assert asked == [("good", 0), ("bad", 0), ("bad", 1)]
    assert "good, shape 0: not measured: it did not end" in capsys.readouterr().out


def test_the_limit_keeps_what_there_is(stand: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["good", "--limit", "0", "--out", str(stand / "out")]) == 1
    assert "good, shape 0: not measured: the time was up" in capsys.readouterr().out
    assert not (stand / "out" / "good-h200.json").exists()


def test_with_a_full_cache_nothing_is_compiled_first(
    stand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    outcome = Stand.outcome

    def heard(self: Stand, job: Job) -> Any:
        asked.append(job.function)
        return outcome(self, job)

    monkeypatch.setattr(Stand, "outcome", heard)
    assert command.main(["good", "--compiled", "--out", str(stand / "out")]) == 0
    assert asked == ["machine", "plan", "measure", "measure"]


def test_variants_with_whole_figures_are_left_out(
    stand: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results, "RESULTS", stand / "kept")
    options = ["good", "bad", "--rest", "--out", str(stand / "out")]
    assert command.main(options) == 1
    asked: list[Any] = []
    outcome = Stand.outcome

    def heard(self: Stand, job: Job) -> Any:
        asked.append(job.arguments[0])
        return outcome(self, job)

    monkeypatch.setattr(Stand, "outcome", heard)
    assert command.main(options) == 1
    assert "measured before: good\n" in capsys.readouterr().out
    assert set(asked[1:]) == {"bad"}
    monkeypatch.setattr(results, "digests", lambda _: {"ours": {"file": "other"}})
    assert command.main(options) == 1
    assert "good" in asked


def test_what_counts_as_measured(stand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "RESULTS", stand / "kept")
    line = results.summary(found({"ours": 2.0}), ABOUT)
    off = results.summary(found({"ours": 2.0}, wrong={"ours": "off"}), ABOUT)
    for lines, missing, known in (([line], 0, True), ([line], 1, False), ([off], 0, False)):
        results.write(stand / "kept", ABOUT, "good", lines, missing)
        assert bool(results.whole("good", ABOUT)) is known
    results.write(stand / "kept", ABOUT, "good", [line], 0)
    assert not results.whole("good", {**ABOUT, "driver": "2"})
    assert not results.whole("good", {**ABOUT, "device": "NVIDIA H100"})
    assert results.whole("good", {**ABOUT, "date": "later", "copy_tbs": 3.0}, stand / "none")


def test_a_broken_run_does_not_replace_a_whole_one(stand: Path) -> None:
    line = results.summary(found({"ours": 2.0}), ABOUT)
    there, here = stand / "there", stand / "here"
    results.write(there, ABOUT, "good", [line], 1)
    results.write(here, ABOUT, "good", [line, line], 0)
    assert results.take(there, here, stand / "t.json") == []
    results.write(there, ABOUT, "good", [line], 0)
    assert results.take(there, here, stand / "t.json") == ["good-h200.json"]
    results.write(there, ABOUT, "good", [line, line], 2)
    changed = json.loads((here / "good-h200.json").read_text())
    (here / "good-h200.json").write_text(json.dumps({**changed, "ours": {"file": "older"}}))
    assert results.take(there, here, stand / "t.json") == ["good-h200.json"]


def test_tilings_are_tried_where_the_table_has_none(
    stand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"variant": "good", "device": "NVIDIA H200", "tiling": {"n": 1}, "shape": {}, "sweep": ""}
    results.merge(results.TUNING, [{**row, "key": "0"}])
    keys = [{"key": "0"}, {"key": "1"}]
    assert results.untuned("good", "NVIDIA H200", keys) == [1]
    assert results.untuned("good", "NVIDIA H100", keys) == [0, 1]
    outcome = Stand.outcome

    def plan(self: Stand, job: Job) -> Any:
        found = outcome(self, job)
        if job.function == "plan":
            assert job.arguments[1] == "missing"
            found[0] = ["ours", "upstream as shipped"]
        return found

    monkeypatch.setattr(Stand, "outcome", plan)
    assert command.main(["good", "--sweep-missing", "--out", str(stand / "out")]) == 0
    (sweep,) = (stand / "out").glob("good-h200-*-sweep.json")
    assert [line["key"] for line in json.loads(sweep.read_text())["shapes"]] == [{"key": "1"}]
    assert len(kept(stand / "out", "good-h200.json")["shapes"]) == 2
    rows = json.loads(results.TUNING.read_text())["rows"]
    assert [(row["key"], row["tiling"]["n"]) for row in rows] == [("0", 1), ("1", 2)]
    assert rows[1]["sweep"] == f"kernels/results/{sweep.name}"


def test_an_unknown_variant_is_refused(stand: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["nope"]) == 2
    assert "no nope: there are bad, broken, good" in capsys.readouterr().err
