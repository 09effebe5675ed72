"""The tests on a GPU, in a way that a kernel which hangs costs its own test and no others.

`python -m benchmarks.gpu.tests [FILE...]`

Each file of `tests/kernels/gpu`, in a few parts, goes to side processes. A test that takes longer
than it may ends its process, so that the driver frees the GPU; it counts as failed, and the rest of
its part goes on in another process once the other parts are through. The same holds after a store
out of range, which spoils every later call. Files named by `--last` come when all others are done.
Outcomes are kept and joined as by pytest (`tests/kernels/gpu/outcomes.py`).
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
    *("-q", "--tb=short", "--durations=5"),
    *(
        word
        for name in ("cacheprovider", "benchmark", "xdist", "randomly")
        for word in ("-p", f"no:{name}")
    ),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of plugins that torch has imported
)
STARTING = 60.0
"""Seconds for importing compilers and for CUDA to begin."""


class Part(NamedTuple):
    """A part of a test file, or what of it comes behind a test that ended its process."""

    file: str
    number: int = 0
    of: int = 1
    """How many parts of about as many tests there are."""
    after: str = ""
    """The id of the test that ended its process; empty: from the first."""
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
    with Crew(args.workers) as team:
        for many in ([file for file in files if file not in late], late):
            parts = [
                Part(file, number, args.parts) for file in many for number in range(args.parts)
            ]
            good = run_all(team, parts, args.seconds, until, args.out) and good
    return 0 if good else 1


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tests", description=__doc__)
    parser.add_argument("files", nargs="*", help="test files, or their names; all when none is")
    parser.add_argument("--workers", type=int, default=5, help="side processes; each starts CUDA")
    parser.add_argument("--parts", type=int, default=3, help="of each file, side by side")
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


def run_all(team: Crew, parts: Iterable[Part], seconds: float, until: float, logs: Path) -> bool:
    """Run parts, and what hanging tests left of them; return whether all passed."""
    left = list(parts)
    good = True
    while left:
        jobs = [Job(__name__, "run", (part, seconds, logs)) for part in left]
        left = []
        for job, found in team.map(jobs, seconds, until):
            part = job.arguments[0]
            good = isinstance(found, Found) and not found.failed and not found.skipped and good
            which = f" {part.number + 1}/{part.of}" if part.of > 1 else ""
            print(f"{Path(part.file).stem}{which}: {_line(found)}", flush=True)
            rest = behind(part, found)
            if rest:
                left.append(rest)
    return good


def behind(part: Part, found: Found | Failed) -> Part | None:
    """Return what of a part is left to be run in another process."""
    if isinstance(found, Found):
        return part._replace(after=found.spoilt_by, why="") if found.spoilt_by else None
    why, _, test = found.why.partition(": ")
    ended = why == crew.ENDLESS or why.startswith(crew.DIED)
    if not ended or "::" not in test:
        return None
    again = test == part.after  # it did not even come to fail: each time less is left
    return part._replace(after=test, why="" if again else why)


def _line(found: Found | Failed) -> str:
    if isinstance(found, Failed):
        return found.why
    said = f"{found.passed} passed, {len(found.failed)} failed, {found.skipped} skipped"
    return "\n  ".join([said, *(f"{test}: {why}" for test, why in found.failed.items())])


def sound() -> bool:
    """Return whether this process can go on: CUDA still works, or never began here."""
    torch = sys.modules.get("torch")
    return torch is None or not torch.cuda.is_initialized() or work.sound()


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
        code = pytest.main([*OPTIONS, f"--rootdir={_root(part.file)}", part.file], [watch])
    if code not in watch.expected():
        watch.failed[part.file] = f"pytest ended with {code!r}: {log.name} says why"
    return Found(watch.passed, watch.failed, watch.skipped, watch.spoilt_by)


def _root(file: str) -> Path:
    """Return what the ids of a file's tests are relative to, whatever folder this runs in."""
    path = Path(file).resolve()
    return ROOT if path.is_relative_to(ROOT) else path.parent


def reason(report: pytest.TestReport) -> str:
    """Return why a test failed, in a line: the first of those that pytest marks, if it does."""
    lines = report.longreprtext.splitlines()
    marked = [line[1:] for line in lines if line.startswith("E ")]
    return (marked or lines or [""])[0].strip()[:300]


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

    def pytest_deselected(self) -> None:  # by this, or because it passed before
        self.left_out = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep this part's; begin behind a test; when its outcome is not known yet, it fails."""
        number, of = self.part.number, self.part.of
        first, end = (len(items) * n // of for n in (number, number + 1))
        ids = [item.nodeid for item in items[:end]]
        if self.part.after in ids:
            first = ids.index(self.part.after)
            if self.part.why:
                failing: Any = items[first]
                failing.runtest = partial(pytest.fail, self.part.why, pytrace=False)
            else:
                first += 1
        others = items[:first] + items[end:]
        items[:] = items[first:end]
        if others:
            config.hook.pytest_deselected(items=others)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        crew.doing(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed[report.nodeid] = reason(report)
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
