"""The interpreter as an engine of the worker: load, run, say what was seen."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srcmap.engines.interpreter import loader
from srcmap.engines.interpreter.findings import Findings
from srcmap.engines.interpreter.kernels import options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from srcmap.engines.jobs import Found, Job

_prepared: list[str] = []


def load(job: Job) -> Any:
    """Load the file of a job. A process serves one dialect after another."""
    dialect = "ascend" if job.repo == "tilelang-ascend" else "nvidia"
    if _prepared != [dialect]:
        loader.prepare(dialect)
        _prepared[:] = [dialect]
    return loader.load(Path(job.root) / job.path, job.source)


def begin(job: Job) -> None:
    """Forget the findings of the last check."""
    options.findings = Findings(options.findings.sources)
    options.watcher = None
    options.names = ([], [])
    options.waits = {} if job.extra.get("waits") else None
    if job.kind == "trace":
        from srcmap.engines.interpreter.tracing import Watcher

        options.watcher = Watcher(job.row, options.findings)


def refuses(_check: Any) -> str:
    """Return why a check cannot run here: none is refused."""
    return ""


def unable(_error: BaseException) -> str:
    """Return what the engine could not do: here every error is a verdict."""
    return ""


def execute(module: Any, run: Any, runner: Callable[[Any, Any], Any]) -> Any:
    """Run one kernel."""
    watcher = options.watcher
    options.backwards = run.backwards
    if watcher is None:
        return runner(module, run)
    outputs = runner(module, run)
    watcher.choose()
    if not watcher.missing:
        runner(module, run)
    return outputs


def names() -> tuple[list[str], list[str]]:
    """Return what the kernel calls its inputs and outputs."""
    return options.names


def findings(job: Job) -> Iterator[Found]:
    """Yield what was seen, relative to the checkout."""
    from srcmap.engines.worker import relative

    for found in options.findings.sorted():
        yield relative(found, job)


def trace(_job: Job) -> Any:
    """Return what the watcher wrote down, or which waits were of use."""
    if options.waits is not None:
        return {"waits": options.waits}
    return options.watcher.record() if options.watcher is not None else None


def forget(names: set[str]) -> None:
    """Unload modules."""
    for name in names:
        sys.modules.pop(name, None)
