"""What the tests on a GPU came out with: `kernels/results/<folder>-<device>-tests.json`.

One file for each folder of `kernels/`, with the tests of each test file: all of `test_<folder>.py`
and `test_<folder>_*.py`, and of `test_forward.py` the functions `test_<folder>` and
`test_<folder>_*`. It is written before the first test and after each one, so that a run that breaks
off is seen to be unfinished. `srcmap variant` shows it. SRCMAP_GPU_RESULTS names another folder to
write to. Tests may run in side processes (`-n`) and files apart.
"""

from __future__ import annotations

import ast
import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kernels.gpu import world

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

FORMAT = "srcmap-gpu-tests/1"
USED = "upstream"
"""The property of a report that names the files of upstream's that its test asked for."""
HERE = Path(__file__).resolve().parent
KERNELS = world.ROOT / "kernels"


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
        self.told = False

    def collected(self, ids: Iterable[str]) -> None:
        """Hear which tests will run, by their ids; asked again, as by side processes, once."""
        for one in ids:
            place = place_of(one)
            if place is None or one in self.known:
                continue
            self.known.add(one)
            self.waiting[one] = place
            self._file(*place)["unfinished"] += 1
        if self.narrowed and not self.told:
            for files in self.files.values():
                for kept in files.values():
                    kept["unfinished"] += 1
        self.told = True
        for folder in self.files:
            self.write(folder)

    def ended(self, report: pytest.TestReport) -> None:
        """Count a test when it is over: skipped before it ran, or called, or broken on the way."""
        if report.nodeid not in self.waiting:
            return
        folder, file = self.waiting[report.nodeid]
        used = dict(report.user_properties).get(USED)
        if isinstance(used, list):
            self.upstream.setdefault(folder, set()).update(map(str, used))
        if report.when != "call" and report.passed:
            return
        del self.waiting[report.nodeid]
        kept = self._file(folder, file)
        kept["unfinished"] -= 1
        kept[report.outcome] += 1
        name = report.nodeid.partition("::")[2]
        if report.outcome == "failed":
            kept["failures"].append(f"{name}: {_last_line(report)}"[:300])
        elif report.skipped and isinstance(report.longrepr, tuple):
            kept["skips"].append(f"{name}: {report.longrepr[2]}"[:300])
        self.write(folder)

    def _file(self, folder: str, file: str) -> dict[str, Any]:
        return self.files.setdefault(folder, {}).setdefault(file, _nothing(file))

    def write(self, folder: str) -> None:
        """Write the file of a folder; test files of earlier runs stay if nothing has changed."""
        import fcntl  # where GPUs are; Windows has no such module

        self.out.mkdir(parents=True, exist_ok=True)
        slug = self.about["device"].removeprefix("NVIDIA ").lower().replace(" ", "-")
        path = self.out / f"{folder}-{slug}-tests.json"
        shared = Path(tempfile.gettempdir()) / "srcmap-gpu-results.lock"
        with shared.open("w") as lock:  # test files may run side by side
            fcntl.flock(lock, fcntl.LOCK_EX)
            old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            path.write_text(json.dumps(self.document(folder, old), indent=1) + "\n", "utf-8")

    def document(self, folder: str, old: dict[str, Any]) -> dict[str, Any]:
        files = self.files[folder]
        now = {"format": FORMAT, "folder": folder, **self.about, "ours": _ours(folder)}
        same = all(old.get(name) == value for name, value in now.items() if name != "date")
        expected = expected_files(folder)
        merged = {**_still_true(old.get("files", {}) if same else {}), **files}
        upstream = dict(old.get("upstream", {})) if same else {}
        upstream |= {_named(path): _blob(path) for path in self.upstream.get(folder, ())}
        return {
            **now,
            "upstream": dict(sorted(upstream.items())),
            **{
                name: sum(kept[name] for kept in merged.values())
                for name in ("passed", "failed", "skipped", "unfinished")
            },
            "missing": [name for name in expected if name not in merged],
            "files": {name: merged[name] for name in sorted(merged) if name in expected},
        }


def _still_true(files: dict[str, Any]) -> dict[str, Any]:
    """Return what earlier runs said of test files that are as they were then."""
    return {
        name: kept
        for name, kept in files.items()
        if (HERE / name).is_file() and kept["digest"] == _nothing(name)["digest"]
    }


def _nothing(file: str) -> dict[str, Any]:
    digest = hashlib.sha256((HERE / file).read_bytes()).hexdigest()
    numbers = dict.fromkeys(("passed", "failed", "skipped", "unfinished"), 0)
    return {"digest": digest, **numbers, "failures": [], "skips": []}


def place_of(nodeid: str) -> tuple[str, str] | None:
    """Return the folder and the test file of a test; None when it is about no kernel."""
    path, _, name = nodeid.partition("::")
    file = path.rpartition("/")[2]
    folder = folder_of(file, name)
    return (folder, file) if folder and (HERE / file).is_file() else None


def _last_line(report: pytest.TestReport) -> str:
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return lines[0][1:].strip() if lines else ""


def _ours(folder: str) -> dict[str, str]:
    return {
        f"kernels/{folder}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((KERNELS / folder).glob("tilelang_*.py"))
    }


def _named(path: str) -> str:
    return f"tilelang v0.1.14 examples/{path}"


def _blob(path: str) -> str:
    """Return the id that git gives to a file of upstream's."""
    data = (world.PIN / path).read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


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
