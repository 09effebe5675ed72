"""Runs jobs in a child process with limits on time and memory; nothing heavy is imported here.

The child (`worker`) appends one line of JSON for each outcome to a file. When it dies or overruns,
the job that it was at has failed, and a new child goes on with the rest.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from srcmap.engines.jobs import Failure, Job, Limits, Outcome
from srcmap.errors import SrcmapError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class EngineError(SrcmapError):
    """An engine that cannot run here."""


def require(engine: str) -> None:
    """Raise EngineError, with what to install, when an engine lacks its libraries."""
    needed = {"interpreter": ("numpy", "ml_dtypes"), "tilelang-cpu": ("tilelang", "torch", "numpy")}
    if engine == "cuda":
        from srcmap.engines.cuda import why_not

        reason = why_not()
        if reason:
            raise EngineError(reason, slug="engine", hint="--engine interpreter")
        return
    missing = [name for name in needed[engine] if find_spec(name) is None]
    if missing:
        extra = "run" if engine == "interpreter" else "tilelang"
        raise EngineError(
            f"the engine {engine} needs what is not installed here: {', '.join(missing)}",
            slug="engine",
            hint=f"pip install 'tile-srcmap[{extra}]'",
        )


def run_jobs(
    jobs: Sequence[Job],
    limits: Limits | None = None,
    heard: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Run jobs one after another and return their outcomes, in order."""
    limits = limits or Limits()
    outcomes: list[Outcome] = []
    start = 0
    with tempfile.TemporaryDirectory(prefix="srcmap-") as folder:
        while start < len(jobs):
            found, reached, failure = _one_child(jobs, start, limits, Path(folder), heard)
            outcomes += found
            if failure is not None:
                lost = Outcome(job=reached, name="", state="failed", failure=failure)
                outcomes.append(lost)
                if heard is not None:
                    heard(lost)
            start = reached + 1
    return outcomes


def _one_child(
    jobs: Sequence[Job],
    start: int,
    limits: Limits,
    folder: Path,
    heard: Callable[[Outcome], None] | None,
) -> tuple[list[Outcome], int, Failure | None]:
    """Run jobs from `start` on; give outcomes, the last job reached, and why it ended if it did."""
    asked, answers, log = (folder / f"{start}.{name}" for name in ("jobs", "answers", "log"))
    asked.write_bytes(msgspec.json.encode(list(jobs)))
    answers.write_bytes(b"")
    argv = [sys.executable, "-m", "srcmap.engines.worker", str(asked), str(answers), str(start)]
    argv.append(str(limits.memory))
    with log.open("wb") as said:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            env=_environment(),
        )
        reader = _Reader(answers, start, heard)
        try:
            ended = _watch(process, reader, limits.seconds)
        finally:
            _end(process)
    reader.read()
    if reader.finished:
        return reader.outcomes, len(jobs) - 1, None
    failure = _failure(ended, limits, log)
    return reader.outcomes, reader.reached, failure


def _environment() -> dict[str, str]:
    package = Path(__file__).resolve().parents[2]
    paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH", "")])]
    # Tiles are small: threads of a matrix library would only get in each other's way.
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**single, **os.environ, **own}


class _Reader:
    """Reads answers as they come."""

    def __init__(self, path: Path, start: int, heard: Callable[[Outcome], None] | None) -> None:
        self.path = path
        self.outcomes: list[Outcome] = []
        self.reached = start
        self.finished = False
        self.moved = time.monotonic()
        self._heard = heard
        self._offset = 0

    def read(self) -> None:
        """Take in whole lines that are new."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            self._take(line)

    def _take(self, line: bytes) -> None:
        self.moved = time.monotonic()
        word, _, rest = line.partition(b" ")
        if word == b"at":
            self.reached = int(rest)
        elif word == b"end":
            self.finished = True
        else:
            outcome = msgspec.json.decode(rest, type=Outcome)
            self.outcomes.append(outcome)
            if self._heard is not None:
                self._heard(outcome)


def _watch(process: subprocess.Popen[bytes], reader: _Reader, seconds: float) -> str:
    """Wait for the child; `time` when one job takes too long."""
    while process.poll() is None:
        reader.read()
        if time.monotonic() - reader.moved > seconds:
            return "time"
        time.sleep(0.01)
    return "ended"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    process.wait()


def _failure(ended: str, limits: Limits, log: Path) -> Failure:
    if ended == "time":
        return Failure(kind="time", message=f"stopped after {limits.seconds:g} s")
    tail = log.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
    message = tail[-1] if tail else "the process ended without a word"
    kind = "memory" if "MemoryError" in message else "died"
    return Failure(kind=kind, message=message)
