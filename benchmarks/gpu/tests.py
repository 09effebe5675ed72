"""The tests on a GPU, in a way that a kernel which hangs costs its own test and no others.

`python -m benchmarks.gpu.tests [FILE...]`

Each file of `tests/kernels/gpu` is a job of a side process, some side by side. A test that takes
longer than it may ends its process, so that the driver frees the GPU; it counts as failed, and the
rest of its file goes on in another process once the other files are through. The same holds after a
store out of range, which spoils every later call. Files named by `--last` come after all others,
one at a time. Outcomes are kept and joined as by pytest (`tests/kernels/gpu/outcomes.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from benchmarks.gpu import crew, results, work
from benchmarks.gpu.crew import Crew, Failed, Job
from benchmarks.gpu.upstream import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TESTS = ROOT / "tests" / "kernels" / "gpu"
OPTIONS = (
    "-q",
    "--tb=short",
    "--durations=5",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:benchmark",
    "-p",
    "no:xdist",
)
STARTING = 60.0
"""Seconds for importing compilers and for CUDA to begin."""


class Part(NamedTuple):
    """A test file, or what of it comes behind a test that ended its process."""

    file: str
    after: str = ""
    """That test's id."""
    why: str = ""
    """Why it counts as failed; empty when its outcome is known."""


class Found(NamedTuple):
    """What a part of a file came out with."""

    passed: int
    failed: dict[str, str]
    """Why, by the tests' ids."""
    skipped: int
    spoilt_by: str
    """The test that left CUDA unusable, behind which nothing ran; empty: all ran."""


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments(argv)
    os.environ["SRCMAP_GPU_RESULTS"] = str(args.out)
    os.environ["SRCMAP_GPU_REST"] = "1" if args.rest else ""
    until = time.monotonic() + args.limit
    files = [_path(name) for name in args.files] or sorted(map(str, TESTS.glob("test_*.py")))
    late = [file for file in files if Path(file).stem in args.last]
    good = True
    with Crew(args.workers) as together, Crew(1) as alone:
        for team, many in ((together, [f for f in files if f not in late]), (alone, late)):
            good = run_all(team, many, args.seconds, until, args.out) and good
    return 0 if good else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tests", description=__doc__)
    parser.add_argument("files", nargs="*", help="test files, or their names; all when none is")
    parser.add_argument("--workers", type=int, default=5, help="side processes; each starts CUDA")
    parser.add_argument("--seconds", type=float, default=30.0, help="for one test")
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument(
        "--last", nargs="*", default=[], metavar="NAME", help="as test_gqa_backward"
    )
    parser.add_argument("--rest", action="store_true", help="leave out what passed as it is now")
    parser.add_argument("--out", type=Path, default=results.RESULTS)
    return parser.parse_args(argv)


def _path(name: str) -> str:
    """Return the path of a test file: `test_mha_ladder`, or a path already."""
    return name if name.endswith(".py") else str(TESTS / f"{name}.py")


def run_all(team: Crew, files: Iterable[str], seconds: float, until: float, logs: Path) -> bool:
    """Run files, and what hanging tests left of them; return whether all passed."""
    left = [Part(file) for file in files]
    good = True
    while left:
        jobs = [Job(__name__, "run", (part, seconds, logs)) for part in left]
        left = []
        for job, found in team.map(jobs, seconds, until):
            part = job.arguments[0]
            good = isinstance(found, Found) and not found.failed and not found.skipped and good
            print(f"{Path(part.file).stem}: {_line(found)}", flush=True)
            rest = behind(part, found)
            if rest:
                left.append(rest)
    return good


def behind(part: Part, found: Found | Failed) -> Part | None:
    """Return what of a file is left to be run in another process."""
    if isinstance(found, Found):
        return Part(part.file, found.spoilt_by) if found.spoilt_by else None
    why, _, test = found.why.partition(": ")
    ended = why == crew.ENDLESS or why.startswith(crew.DIED)
    if not ended or "::" not in test:
        return None
    return Part(part.file, test, "" if test == part.after else why)  # each time less is left


def _line(found: Found | Failed) -> str:
    if isinstance(found, Failed):
        return found.why
    said = f"{found.passed} passed, {len(found.failed)} failed, {found.skipped} skipped"
    return "\n  ".join([said, *(f"{test}: {why}" for test, why in found.failed.items())])


def sound() -> bool:
    """Return whether this process can go on: CUDA still works, or was never asked."""
    return "torch" not in sys.modules or work.sound()


def run(part: Part, seconds: float, logs: Path) -> Found:
    """Run a part of a file in this process; what pytest says goes to a log beside the results."""
    crew.doing("starting", STARTING / seconds)
    with contextlib.suppress(Exception):  # without a GPU, tests say so themselves
        import tilelang  # noqa: F401 - its import is not to count as a test's
        import torch

        torch.zeros(1, device="cuda")
    watch = Watch(part)
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{Path(part.file).stem}.log"
    with (
        log.open("a", encoding="utf-8", buffering=1) as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        code = pytest.main([*OPTIONS, part.file], [watch])
    if code not in watch.expected():
        watch.failed[part.file] = f"pytest ended with {code!r}: {log.name} says why"
    return Found(watch.passed, watch.failed, watch.skipped, watch.spoilt_by)


class Watch:
    """Tells the crew which test runs, leaves out what ran before, and stops when CUDA is spoilt."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.passed = self.skipped = 0
        self.failed: dict[str, str] = {}
        self.spoilt_by = ""
        self.left_out = False

    def expected(self) -> set[pytest.ExitCode]:
        """Return how pytest may end, when nothing but tests went wrong."""
        codes = {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if self.left_out:  # perhaps all
            codes.add(pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.spoilt_by:
            codes.add(pytest.ExitCode.INTERRUPTED)
        return codes

    def pytest_deselected(self) -> None:
        self.left_out = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Begin behind a test; when its outcome is not known yet, it fails."""
        ids = [item.nodeid for item in items]
        if self.part.after not in ids:
            return
        place = ids.index(self.part.after)
        if self.part.why:
            failing: Any = items[place]
            failing.runtest = partial(pytest.fail, self.part.why, pytrace=False)
        else:
            place += 1
        config.hook.pytest_deselected(items=items[:place])
        del items[:place]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        crew.doing(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            lines = report.longreprtext.splitlines()
            marked = [line[1:] for line in lines if line.startswith("E ")]
            self.failed[report.nodeid] = (marked or lines or [""])[0].strip()[:300]
        elif report.skipped:
            self.skipped += 1
        elif report.when == "call":
            self.passed += 1

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if nodeid in self.failed and not sound():
            self.spoilt_by = nodeid

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        yield
        if self.spoilt_by:
            item.session.shouldstop = "CUDA does not answer any more"


if __name__ == "__main__":
    sys.exit(main())
