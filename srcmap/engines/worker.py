"""The child process: runs jobs and writes one line of JSON for each outcome.

`python -m srcmap.engines.worker JOBS ANSWERS START MEMORY`; only `child` starts it.
"""

from __future__ import annotations

import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from srcmap.engines.jobs import Failure, Found, Job, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(argv: list[str]) -> int:
    """Run the jobs from START on."""
    asked, answers, start, memory = argv
    jobs = msgspec.json.decode(Path(asked).read_bytes(), type=list[Job])
    _limit(int(memory), jobs)
    with Path(answers).open("ab") as out:
        for number in range(int(start), len(jobs)):
            _say(out, b"at %d" % number)
            for outcome in _outcomes(number, jobs[number]):
                _say(out, b"out " + msgspec.json.encode(outcome))
        _say(out, b"end")
    return 0


def _say(out: BinaryIO, line: bytes) -> None:
    out.write(line + b"\n")
    out.flush()


def _limit(memory: int, jobs: list[Job]) -> None:
    if any(job.engine == "cuda" for job in jobs):
        from srcmap.engines.cuda import host

        host.limit(memory)
        return
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _outcomes(number: int, job: Job) -> Iterator[Outcome]:
    try:
        host = _host(job)
        module = host.load(job)
    except Exception as error:  # noqa: BLE001 - foreign code: whatever it raises is an answer
        yield Outcome(job=number, name="", state="failed", failure=failure_of(error, job))
        return
    if job.kind == "run" and not job.case:
        if job.engine != "interpreter":
            from srcmap.engines.compiled import run_compiled

            yield run_compiled(number, job, module, host)
            return
        from srcmap.engines.generic import run_generic

        yield run_generic(number, job, module, host)
        return
    from srcmap.engines.cases.registry import checks_of

    for check in checks_of(job):
        outcome = _checked(number, job, module, host, check)
        yield outcome
        if outcome.failure is not None and job.engine == "cuda":
            host.after_failure()
        if job.stop_early and outcome.state == "failed":
            return


def _host(job: Job) -> Any:
    """Return what loads and runs modules for an engine."""
    from importlib import import_module

    return import_module(f"srcmap.engines.{job.engine.replace('-', '_')}.host")


def _checked(number: int, job: Job, module: Any, host: Any, check: Any) -> Outcome:
    from srcmap.engines.cases.checks import execute
    from srcmap.engines.cases.judging import compare_all, summary
    from srcmap.engines.ours import compare

    host.begin(job)
    started = time.perf_counter()
    try:
        refused = host.refuses(check)
        if refused:
            return Outcome(job=number, name=check.name, state="untested", reason=refused)
        outputs = host.execute(module, check.run, execute)
    except Exception as error:  # noqa: BLE001 - foreign code
        unable = host.unable(error)
        if unable:
            return Outcome(job=number, name=check.name, state="untested", reason=unable)
        return Outcome(
            job=number,
            name=check.name,
            state="failed",
            failure=failure_of(error, job),
            seconds=time.perf_counter() - started,
            findings=tuple(host.findings(job)),
        )
    seconds = time.perf_counter() - started
    compared = compare_all(check, outputs, cut=getattr(host, "CUT", 0.0))
    good = all(c.bad == 0 for c in compared)
    state, reason = _state(check, good)
    labels = _labels(host, check.run, len(outputs))
    theirs, missing = _theirs(job, module, check)
    ours = compare(job, check)
    if state == "passed" and ours.wrong:
        state, reason = "failed", ours.wrong
    return Outcome(
        job=number,
        name=check.name,
        state=state,
        reason=reason,
        seconds=seconds,
        inputs=tuple(map(summary, labels[0], check.run.inputs)),
        outputs=tuple(map(summary, labels[1], outputs)),
        compared=compared,
        theirs=theirs,
        theirs_missing=missing,
        ours=ours.compared,
        ours_missing=ours.missing,
        findings=tuple(host.findings(job)),
        trace=host.trace(job),
    )


def _labels(host: Any, run: Any, count: int) -> tuple[list[str], list[str]]:
    """Return how inputs and outputs are called: as the kernel calls them, if that is known."""
    taken, given = host.names() if hasattr(host, "names") else ([], [])
    inputs = [taken[n] if n < len(taken) else f"input {n}" for n in range(len(run.inputs))]
    made = [inputs[place] for place in run.filled] or given
    made = [made[place] for place in run.only if place < len(made)] or made
    named = made if len(made) == count and run.finish is None else [""] * count
    return inputs, [f"output {n} {name}".strip() for n, name in enumerate(named)]


def _state(check: Any, good: bool) -> tuple[Any, str]:
    if not check.diverges:
        return ("passed" if good else "failed"), ""
    if good:
        return "failed", "run.no-divergence"
    return "diverges", check.diverges


def _theirs(job: Job, module: Any, check: Any) -> tuple[Any, str]:
    """Run upstream's own reference, when that is asked for and can be done."""
    from srcmap.engines.cases.checks import execute_theirs
    from srcmap.engines.cases.judging import compare_all

    if not job.theirs or check.theirs is None:
        return (), ""
    if not _is_installed("torch"):
        return (), "needs torch"
    try:
        outputs = execute_theirs(module, check.theirs)
    except Exception as error:  # noqa: BLE001 - foreign code
        return (), f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return compare_all(check._replace(want=check.want[: len(outputs)]), outputs), ""


def _is_installed(name: str) -> bool:
    """Whether a library is here, and not only a stand-in for it."""
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(name) is not None


def failure_of(error: BaseException, job: Job) -> Failure:
    """Return what stopped a kernel, with the upstream line it stopped at."""
    from srcmap.engines.interpreter.machine import DeadlockError, KernelError, UnsupportedError

    kinds = (
        (UnsupportedError, "unsupported"),
        (DeadlockError, "deadlock"),
        (KernelError, "kernel"),
        (ModuleNotFoundError, "needs"),
        (MemoryError, "memory"),
    )
    kind = next((name for cls, name in kinds if isinstance(error, cls)), "crash")
    path, line = _place(error, job)
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    message = text if kind != "crash" else f"{type(error).__name__}: {text}"
    return Failure(
        kind=kind,
        message=message[:400],
        operation=getattr(error, "operation", ""),
        path=path,
        line=line,
    )


def _place(error: BaseException, job: Job) -> tuple[str, int]:
    """Return the innermost upstream line of a traceback."""
    root = str(Path(job.root))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(root):
            return str(Path(frame.filename).relative_to(root)), frame.lineno or 0
    return "", 0


def relative(found: Any, job: Job) -> Found:
    """Return a finding with its path relative to the root."""
    root = str(Path(job.root))
    path = found.path
    if path.startswith(root):
        path = str(Path(path).relative_to(root))
    return Found(
        kind=found.kind,
        path=path,
        line=found.line,
        buffer=found.buffer,
        count=found.count,
        detail=found.detail,
        where=found.where,
        block=found.block,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
