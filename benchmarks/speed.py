"""How long the usual questions take, as ratios in one run on one machine.

    python benchmarks/speed.py            the whole table; exit code 1 when a limit is passed
    python benchmarks/speed.py --rounds 5 fewer repetitions, for a first look

Run it in a clone with both current pins synced (`srcmap sync`), on a machine with nothing else to
do.
`ctags` is universal-ctags; without it that ratio is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROJECT = Path(__file__).parents[1]
PINS = ("tilelang@v0.1.14", "tilelang-ascend@95acbd7")

_SCRIPT = Path(sys.executable).with_name("srcmap")
SRCMAP = [str(_SCRIPT)] if _SCRIPT.is_file() else [sys.executable, "-m", "srcmap"]
VARIANT = [*SRCMAP, "variant", "sink"]
RICH = [sys.executable, "-c", "import rich.table, rich.console"]

MEGABYTE = 1024 * 1024


class Row(NamedTuple):
    """One line of the table: what was measured, what came out, what is allowed."""

    what: str
    value: float | None
    limit: float
    unit: str
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        return "ok" if self.value <= self.limit else "TOO MUCH"


class Run(NamedTuple):
    """What one command took."""

    seconds: float
    peak: int
    """The most bytes that its processes held at one moment, shared pages counted for each."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time srcmap against its limits.")
    parser.add_argument("--rounds", type=int, default=30, help="repetitions of the quick commands")
    rounds = parser.parse_args(argv).rounds
    with _two_cores() as cores:
        rows = [*_start_up(rounds), *_maps(max(1, rounds // 10))]
    _print(rows, cores)
    return int(any(row.verdict == "TOO MUCH" for row in rows))


def _start_up(rounds: int) -> Iterator[Row]:
    """Measure `srcmap variant sink` against importing rich, in turn so that noise hits both."""
    ours, theirs = list[float](), list[float]()
    for _ in range(rounds + 2):
        ours.append(_run(VARIANT).seconds)
        theirs.append(_run(RICH).seconds)
    variant, rich = statistics.median(ours[2:]), statistics.median(theirs[2:])
    note = f"{variant * 1000:.0f} ms / {rich * 1000:.0f} ms, medians of {rounds}"
    yield Row("srcmap variant sink / import rich", variant / rich, 2.0, "x", note)


def _maps(rounds: int) -> Iterator[Row]:
    """Measure the maps of both current pins without a cache, with one, and against ctags."""
    cold, warm = list[Run](), list[Run]()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_build(Path(folder)))
            warm.append(_build(Path(folder)))
    slow, quick = (statistics.median(run.seconds for run in runs) for runs in (cold, warm))
    times = f"median of {rounds}"
    yield Row("maps of both current pins, cold cache", slow, 8.0, "s", times)
    yield _against_ctags(slow, rounds)
    yield Row("maps of both current pins, warm cache", quick, 1.0, "s", times)
    peak = max(run.peak for run in (*cold, *warm)) / MEGABYTE
    yield Row("peak memory, all processes together", peak, 400.0, "MB")


def _build(folder: Path) -> Run:
    command = [*SRCMAP, "map", "build", *PINS, "--out", str(folder / "maps")]
    return _run(command, {"SRCMAP_CACHE": str(folder / "cache")})


def _against_ctags(ours: float, rounds: int) -> Row:
    what = "maps, cold cache / ctags -R over the same trees"
    if shutil.which("ctags") is None:
        return Row(what, None, 10.0, "x", "universal-ctags is not installed")
    trees = [str(PROJECT / "_vendor" / pin.replace("@", "-")) for pin in PINS]
    missing = [tree for tree in trees if not Path(tree).is_dir()]
    if missing:
        return Row(what, None, 10.0, "x", "the pins are not synced: srcmap sync")
    command = ["ctags", "-R", "-f", os.devnull, *trees]
    theirs = statistics.median(_run(command).seconds for _ in range(max(3, rounds)))
    return Row(what, ours / theirs, 10.0, "x", f"{ours:.2f} s / {theirs:.2f} s")


def _run(command: list[str], extra: dict[str, str] | None = None) -> Run:
    """Run a command in the project; stop when it fails, since its time would mean nothing."""
    environment = {**os.environ, **(extra or {})}
    begun = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watch = _Watch(process.pid)
        _, said = process.communicate()
        seconds = time.perf_counter() - begun
        peak = watch.stop()
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
    return Run(seconds, peak)


class _Watch:
    """Adds up the memory of a process and its descendants while they run (Linux)."""

    def __init__(self, pid: int) -> None:
        self._pid, self._peak, self._done = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return self._peak

    def _look(self) -> None:
        # Rarely enough not to slow down what is measured on the same two cores.
        while not self._done.wait(0.05):
            self._peak = max(self._peak, sum(map(_resident, _family(self._pid))))


def _family(pid: int) -> list[int]:
    """The process and its descendants."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [c for t in tasks for c in (t / "children").read_text().split()]
    except OSError:
        return []
    return [pid, *(p for child in children for p in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


@contextmanager
def _two_cores() -> Iterator[int]:
    """Keep to two cores, where the system can be asked to, and say how many there were."""
    if not hasattr(os, "sched_setaffinity"):
        yield os.cpu_count() or 1
        return
    before = os.sched_getaffinity(0)
    chosen = set(sorted(before)[:2])
    os.sched_setaffinity(0, chosen)
    try:
        yield len(chosen)
    finally:
        os.sched_setaffinity(0, before)


def _print(rows: Sequence[Row], cores: int) -> None:
    system = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    print(f"{system}, {cores} cores\n")
    print(f"{'what':<50} {'measured':>9} {'allowed':>9}  verdict")
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.2f} {row.unit}"
        limit = f"{row.limit:g} {row.unit}"
        note = f" ({row.note})" if row.note else ""
        print(f"{row.what:<50} {value:>9} {limit:>9}  {row.verdict}{note}")


if __name__ == "__main__":
    sys.exit(main())
