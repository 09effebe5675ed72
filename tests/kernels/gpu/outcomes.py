"""What the tests on a GPU came out with: `kernels/results/<folder>-<device>-tests.json`.

One file for each folder of `kernels/`, with the tests of each test file: all of `test_<folder>.py`
and `test_<folder>_*.py`, and of `test_forward.py` the functions `test_<folder>` and
`test_<folder>_*`. It is written before the first test and after each one, so that a run that breaks
off is seen to be unfinished. `srcmap variant` shows it. SRCMAP_GPU_RESULTS names another folder to
write to. `errors` has, for each test that has float64 beside it, the largest of our errors over
upstream's. Tests may run in side processes (`-n`), files apart, all in several runs: outcomes with
the same sources, versions and device are joined, and with SRCMAP_GPU_REST=1 those that passed
before are left out.
"""

from __future__ import annotations

import ast
import hashlib
import json
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import results
from benchmarks.gpu.tests import reason
from benchmarks.gpu.upstream import VERSION
from benchmarks.gpu.variants import imported
from tests.kernels.gpu import world

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

FORMAT = "srcmap-gpu-tests/1"
USED = "upstream"
"""The property of a report that names the files of upstream's that its test asked for."""
ERRORS = "errors"
"""The property of a report that has our errors over upstream's."""
HERE = Path(__file__).resolve().parent
KERNELS = world.ROOT / "kernels"
PACKAGES = ("tests.", "benchmarks.", "kernels.")
"""What tests import and depend on: the compilers' interpreter is not at work on a GPU."""


def folder_of(file: str, function: str) -> str:
    """Return the folder of `kernels/` that a test is about; empty when it is about none."""
    stem = file.removeprefix("test_").removesuffix(".py")
    words = function.partition("[")[0].removeprefix("test_") if stem == "forward" else stem
    found = [name for name in _folders() if f"{words}_".startswith(f"{name}_")]
    return max(found, key=len, default="")


def _folders() -> list[str]:
    return [path.parent.name for path in KERNELS.glob("*/tilelang_*.py")]


def expected_files(folder: str) -> list[str]:
    """Return the test files that have tests of a folder, run or not."""
    found = []
    for file in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        tests = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
        if any(n.startswith("test_") and folder_of(file.name, n) == folder for n in tests):
            found.append(file.name)
    return found


class Outcomes:
    """What is known of this run's tests, by folder and test file."""

    def __init__(self, out: Path, about: dict[str, Any], narrowed: bool) -> None:
        self.out = out
        self.about = about
        self.narrowed = narrowed
        """Whether single tests were chosen: then the others of their files did not run."""
        self.upstream: dict[str, set[str]] = {}
        self.files: dict[str, dict[str, dict[str, Any]]] = {}
        self.waiting: dict[str, tuple[str, str]] = {}
        self.known: set[str] = set()
        self.others: dict[tuple[str, str], set[str]] = {}
        """Tests of the files that this run leaves out: some other has or had them, or nobody."""

    def collected(self, ids: Iterable[str]) -> None:
        """Hear which tests will run, by their ids; asked again, as by side processes, once."""
        for one in ids:
            place = place_of(one)
            if place is None or one in self.known:
                continue
            self.known.add(one)
            self.waiting[one] = place
            self._file(*place)["tests"][_name(one)] = "unfinished"
        for folder in self.files:
            self.write(folder)

    def left_out(self, ids: Iterable[str]) -> None:
        """Hear which tests of its files a run does not run."""
        for one in ids:
            place = place_of(one)
            if place:
                self.others.setdefault(place, set()).add(_name(one))

    def ended(self, report: pytest.TestReport) -> None:
        """Note a test when it is over: skipped before it ran, or called, or broken on the way."""
        if report.nodeid not in self.waiting:
            return
        folder, file = self.waiting[report.nodeid]
        told: dict[str, Any] = dict(report.user_properties)
        self.upstream.setdefault(folder, set()).update(map(str, told.get(USED, ())))
        if report.when != "call" and report.passed:
            return
        del self.waiting[report.nodeid]
        kept, name = self._file(folder, file), _name(report.nodeid)
        kept["tests"][name] = report.outcome
        if ratios := told.get(ERRORS):
            kept["errors"][name] = float(f"{max(ratios):.3g}")
        if report.outcome == "failed":
            kept["why"][name] = reason(report)
        elif report.skipped and isinstance(report.longrepr, tuple):
            kept["why"][name] = str(report.longrepr[2])[:300]
        self.write(folder)

    def _file(self, folder: str, file: str) -> dict[str, Any]:
        return self.files.setdefault(folder, {}).setdefault(file, _nothing(file, self.narrowed))

    def write(self, folder: str) -> None:
        """Write the file of a folder, with what earlier runs said that still holds."""
        import fcntl  # where GPUs are; Windows has no such module

        self.out.mkdir(parents=True, exist_ok=True)
        shared = Path(tempfile.gettempdir()) / "srcmap-gpu-results.lock"
        with shared.open("w") as lock:  # test files may run side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            text = json.dumps(self.document(folder), indent=1) + "\n"
            (self.out / self._file_name(folder)).write_text(text, "utf-8")

    def _file_name(self, folder: str) -> str:
        return results.name(folder, self.about["device"], "-tests")

    def document(self, folder: str) -> dict[str, Any]:
        """Return what is kept of a folder."""
        files, upstream = self.before(folder)
        for name, kept in self.files.get(folder, {}).items():
            files[name] = _joined(files.get(name), kept)
            for other in sorted(self.others.get((folder, name), ())):
                files[name]["tests"].setdefault(other, "unfinished")
        upstream |= {
            _named(path): results.blob(world.PIN / path) for path in self.upstream.get(folder, ())
        }
        outcomes = [one for kept in files.values() for one in kept["tests"].values()]
        counts = {one: outcomes.count(one) for one in ("passed", "failed", "skipped", "unfinished")}
        counts["unfinished"] += sum(kept["partial"] for kept in files.values())
        expected = expected_files(folder)
        return {
            **self._now(folder),
            "upstream": dict(sorted(upstream.items())),
            **counts,
            "missing": [name for name in expected if name not in files],
            "files": {name: files[name] for name in sorted(files) if name in expected},
        }

    def _now(self, folder: str) -> dict[str, Any]:
        return {"format": FORMAT, "folder": folder, **self.about, "ours": _ours(folder)}

    def before(self, folder: str) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Return test files, and files of upstream's, of earlier runs with the same sources.

        Those kept in the repository come first, those of the folder of results over them.
        """
        files: dict[str, dict[str, Any]] = {}
        upstream: dict[str, str] = {}
        for home in dict.fromkeys((KERNELS / "results", self.out)):
            old = _read(home / self._file_name(folder))
            now = self._now(folder)
            if any(old.get(name) != value for name, value in now.items() if name != "date"):
                continue
            upstream |= old.get("upstream", {})
            for name, kept in old.get("files", {}).items():
                if _still_true(name, kept):
                    files[name] = _joined(files.get(name), kept)
        return files, upstream

    def passed_before(self) -> list[str]:
        """Return the ids of all tests that earlier runs with the same sources passed."""
        return [
            f"{HERE.relative_to(world.ROOT).as_posix()}/{file}::{name}"
            for folder in _folders()
            for file, kept in self.before(folder)[0].items()
            for name, outcome in kept["tests"].items()
            if outcome == "passed"
        ]


def _joined(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return what two runs of one test file say together; the newer one of a test counts."""
    old = old or {"partial": True, "tests": {}, "why": {}}
    why = {name: text for name, text in old["why"].items() if name not in new["tests"]}
    return {
        "digest": new["digest"],
        "partial": old["partial"] and new["partial"],
        "tests": {**old["tests"], **new["tests"]},
        "errors": {**old.get("errors", {}), **new["errors"]},
        "why": {**why, **new["why"]},
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def _still_true(file: str, kept: dict[str, Any]) -> bool:
    """Say whether a test file, and what it shares with others, is as it was then."""
    return (HERE / file).is_file() and "tests" in kept and kept["digest"] == digest_of(file)


def digest_of(file: str) -> str:
    """Return the digest of a test file and of what it imports of this repository.

    Our kernels are not among that: a result names them, and is forgotten when one changes.
    """
    digest = hashlib.sha256()
    for path in sorted(_imported(HERE / file)):
        digest.update(path.relative_to(world.ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _imported(path: Path) -> frozenset[Path]:
    found = {path}
    left = [path]
    while left:
        tree = ast.parse(left.pop().read_text(encoding="utf-8"))
        new = {file for node in ast.walk(tree) for file in _files(node)} - found
        found |= new
        left += new
    return frozenset(found)


def _files(node: ast.AST) -> Iterator[Path]:
    """Yield the files of `from a.b import c` that are in the repository and no kernels of ours."""
    for name in imported(node):
        path = (world.ROOT / name.replace(".", "/")).with_suffix(".py")
        if name.startswith(PACKAGES) and path.is_file() and not path.match("tilelang_*.py"):
            yield path


def _nothing(file: str, narrowed: bool) -> dict[str, Any]:
    return {"digest": digest_of(file), "partial": narrowed, "tests": {}, "errors": {}, "why": {}}


def _name(nodeid: str) -> str:
    return nodeid.partition("::")[2]


def place_of(nodeid: str) -> tuple[str, str] | None:
    """Return the folder and the test file of a test; None when it is about no kernel."""
    path, _, name = nodeid.partition("::")
    file = path.rpartition("/")[2]
    folder = folder_of(file, name)
    return (folder, file) if folder and (HERE / file).is_file() else None


def _ours(folder: str) -> dict[str, str]:
    return {
        f"kernels/{folder}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((KERNELS / folder).glob("tilelang_*.py"))
    }


def _named(path: str) -> str:
    return f"{VERSION} examples/{path}"


def about() -> dict[str, Any]:
    import tilelang
    import torch

    return {
        "device": torch.cuda.get_device_name(),
        "date": time.strftime("%Y-%m-%d"),
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "tilelang": tilelang.__version__,
    }
