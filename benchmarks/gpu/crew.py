"""Processes that do jobs side by side, and are replaced when a job breaks or outlasts them.

A kernel that deadlocks never ends, and one that writes out of range spoils every later call of its
process. Neither may take another kernel's figures along.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import time
import traceback
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from multiprocessing.connection import Connection
    from types import TracebackType

START = 60.0
"""Seconds that a fresh process may take on top: it imports compilers."""


ENDLESS = "it did not end"
"""Why a job failed that took longer than it may: most likely its kernel hangs."""
LATE = "the time was up"
"""Why a job failed that had not begun, or not ended, when the whole run had to."""
DIED = "its process died"
"""Why a job failed whose process ended, with the exit code behind it."""


class Job(NamedTuple):
    """A call of a function of a module, by name, so that it can be sent."""

    module: str
    function: str
    arguments: tuple[Any, ...]


class Failed(NamedTuple):
    """Why there is no result."""

    why: str


class _Doing(NamedTuple):
    what: str
    times: float


_BUSY = object()
_asked: list[Connection] = []
"""In a side process: where its answers go."""


def doing(what: str, times: float = 1.0) -> None:
    """Say what a job is at, so that it is known when it hangs or dies.

    Its time counts anew from here; `times` as much for what waits for others.
    """
    for pipe in _asked:
        pipe.send((_Doing(what, times), True))


class Crew:
    """Up to `size` processes; leaving the context ends them."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[_Worker] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._idle:
            worker.end()

    def run(self, job: Job, seconds: float) -> Any:
        """Return what a job gives, or Failed."""
        ((_, outcome),) = self.map([job], seconds)
        return outcome

    def map(
        self, jobs: Iterable[Job], seconds: float, until: float = float("inf")
    ) -> Iterator[tuple[Job, Any]]:
        """Yield jobs with what they gave, or Failed, as they end.

        Each may take `seconds`, and none runs on after `until` (of `time.monotonic`).
        """
        waiting = list(reversed(list(jobs)))
        busy: dict[Connection, _Worker] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.size and time.monotonic() < until:
                    worker = self._idle.pop() if self._idle else _Worker()
                    worker.begin(waiting.pop(), seconds)
                    busy[worker.pipe] = worker
                if not busy:  # it is too late for those that are left
                    yield from ((job, Failed(LATE)) for job in reversed(waiting))
                    return
                yield from self._ended(busy, until)
        finally:
            for worker in busy.values():
                worker.end()

    def _ended(self, busy: dict[Connection, _Worker], until: float) -> Iterator[tuple[Job, Any]]:
        """Wait for something to happen, and yield the jobs that are over."""
        first = min(until, *(worker.until for worker in busy.values()))
        for pipe in wait(list(busy), max(0.0, first - time.monotonic())):
            worker = busy[pipe]  # type: ignore[index]
            outcome = worker.hear()
            if outcome is _BUSY:
                continue
            del busy[pipe]  # type: ignore[arg-type]
            if worker.healthy:
                self._idle.append(worker)
            else:
                worker.end()
            yield worker.job, outcome
        now = time.monotonic()
        for pipe, worker in list(busy.items()):
            if now >= min(until, worker.until):
                del busy[pipe]
                worker.end()
                late = LATE if now >= until else ENDLESS
                yield worker.job, Failed(f"{late}: {worker.doing}" if worker.doing else late)


class _Worker:
    """A process, and the job it has."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._fresh = True
        self.healthy = True
        self.job = Job("", "", ())
        self.doing = ""
        self.until = 0.0
        self.seconds = 0.0

    def begin(self, job: Job, seconds: float) -> None:
        self.job = job
        self.doing = ""
        self.seconds = seconds
        self.until = time.monotonic() + seconds + (START if self._fresh else 0.0)
        self._fresh = False
        self.pipe.send(job)

    def hear(self) -> Any:
        """Return the outcome, or that the process is busy with what it says."""
        try:
            found, self.healthy = self.pipe.recv()
        except (EOFError, OSError):
            self.healthy = False
            self._process.join(5)
            why = f"{DIED} (exit code {self._process.exitcode})"
            return Failed(f"{why}: {self.doing}" if self.doing else why)
        if isinstance(found, _Doing):
            self.doing = found.what
            self.until = time.monotonic() + self.seconds * found.times
            return _BUSY
        return found

    def end(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join(10)


def _serve(pipe: Connection) -> None:
    """Do jobs until nobody asks. Ends itself when it cannot be trusted any more."""
    _asked.append(pipe)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            job = pipe.recv()
            module = importlib.import_module(job.module)
            outcome = _attempt(getattr(module, job.function), job.arguments)
            sound: Callable[[], bool] = getattr(module, "sound", lambda: True)
            pipe.send((outcome, sound()))


def _attempt(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is said
        where = traceback.extract_tb(problem.__traceback__)[-1]
        text = " ".join(f"{type(problem).__name__}: {problem}".split())
        return Failed(f"{text[:300]} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})")
