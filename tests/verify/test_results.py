"""Results: grouped, kept, shown, and stale when what they rest on has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from srcmap.engines.jobs import Comparison, Failure, Job, Outcome
from srcmap.errors import SrcmapError
from srcmap.model import Note
from srcmap.verify import kept, results
from srcmap.verify.home import home
from srcmap.verify.plan import Planned

if TYPE_CHECKING:
    from pathlib import Path


def planned(root: Path, *, job: bool = True, engine: Any = "interpreter") -> Planned:
    made = Job(kind="check", repo="tiny", root=str(root), path="a.py", case="tiny:a", engine=engine)
    reason = None if job else Note("run.no-case", {"path": "a.py"})
    return Planned(("sink",), "tiny", "v1", "a.py", engine, made if job else None, reason)


def outcome(state: Any, **facts: Any) -> Outcome:
    return Outcome(job=0, name="one", state=state, **facts)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("states", "want"),
    [
        (["passed", "passed"], "passed"),
        (["passed", "failed", "diverges"], "failed"),
        (["passed", "diverges"], "diverges"),
        (["untested", "passed"], "passed"),
        (["untested"], "untested"),
        ([], "untested"),
    ],
)
def test_a_file_is_as_good_as_its_worst_check(root: Path, states: list[Any], want: str) -> None:
    (result,) = results.collect([planned(root)], [outcome(state) for state in states])
    assert result.state == want


def test_what_cannot_be_planned_says_why(root: Path) -> None:
    (result,) = results.collect([planned(root, job=False)], [])
    assert (result.state, result.reason, result.upstream) == ("untested", "run.no-case", "")


def test_a_failure_names_its_place(root: Path) -> None:
    failure = Failure(kind="unsupported", message="no", operation="x", path="a.py", line=3)
    (result,) = results.collect([planned(root)], [outcome("failed", failure=failure)])
    assert (result.state, result.reason) == ("failed", "a.py:3: no")


@pytest.mark.parametrize("kind", ["time", "needs", "died"])
def test_what_a_compiler_cannot_do_is_no_failure_of_the_kernel(root: Path, kind: str) -> None:
    failure = Failure(kind=kind, message="stopped")
    made = planned(root, engine="tilelang-cpu")
    (result,) = results.collect([made], [outcome("failed", failure=failure)])
    assert result.state == "untested"


def test_errors_are_unknown_as_soon_as_one_is_a_nan(root: Path) -> None:
    bad = Comparison(output=0, error=None, ratio=None, bad=1, total=4)
    good = Comparison(output=1, error=0.5, ratio=0.1, bad=0, total=4)
    (result,) = results.collect([planned(root)], [outcome("failed", compared=(bad, good))])
    assert (result.checks[0].error, result.checks[0].ratio) == (None, None)


def test_results_are_kept_and_replaced(root: Path) -> None:
    first = results.collect([planned(root)], [outcome("failed")])
    results.save(root, first)
    assert results.load(root) == tuple(first)
    second = results.collect([planned(root)], [outcome("passed")])
    results.save(root, second)
    assert [r.state for r in results.load(root)] == ["passed"]


def test_a_result_goes_stale_with_upstream_ours_or_the_method(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,) = results.collect([planned(root)], [outcome("passed")])
    assert not kept.is_stale(result, result.upstream)
    assert kept.is_stale(result, "0" * 40)
    assert kept.is_stale(result, result.upstream, ours="changed")
    assert results.shown_state([result], "tiny", "v1", "a.py", "0" * 40) == "stale"
    monkeypatch.setattr(kept, "method_digest", lambda: "another")
    assert kept.is_stale(result, result.upstream)


def test_a_damaged_file_is_told(root: Path) -> None:
    path = home(root)
    path.parent.mkdir(parents=True)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(SrcmapError, match="not a file of results"):
        results.load(root)


def test_nothing_is_kept_without_a_project() -> None:
    assert results.load(None) == ()


def test_the_file_is_readable_json(root: Path) -> None:
    results.save(root, results.collect([planned(root)], [outcome("passed")]))
    store = msgspec.json.decode(home(root).read_bytes())
    assert store["format"] == "srcmap-verify/1"
