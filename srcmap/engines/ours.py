"""Our implementations on the inputs of a check: `like_upstream(run)` gives upstream's outputs.

Plain ones compute with NumPy. Those in TileLang run in the interpreter as upstream's do, with
findings of their own: what nobody waited for is an error here, whatever came out.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from srcmap.engines.cases.judging import compare_all

if TYPE_CHECKING:
    from srcmap.engines.jobs import Comparison, Job

LEFT_OUT = "it may read what upstream's loops leave out, and that is infinite here"
_WRONG = {
    *("uninitialised-read", "output-unwritten", "race", "barrier-over-arrived"),
    *("unwaited-read", "unwaited-write", "unordered", "early-wait"),
}
"""Findings that are defects of a kernel of ours."""


class Ours(NamedTuple):
    """What ours came out with."""

    compared: tuple[Comparison, ...] = ()
    missing: str = ""
    """What did not run, and why."""
    wrong: str = ""
    """Why ours fails; empty when it does not."""


def compare(job: Job, check: Any) -> Ours:
    """Run every module of ours that answers for the file of a job."""
    if not job.ours:
        return Ours()
    if check.left_out:
        return Ours(missing=LEFT_OUT)
    folder, *modules = job.ours
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found = [_one(name, job, check) for name in modules]
    return Ours(
        tuple(c for one in found for c in one.compared),
        "; ".join(one.missing for one in found if one.missing),
        "; ".join(one.wrong for one in found if one.wrong),
    )


def _one(name: str, job: Job, check: Any) -> Ours:
    label = name.partition(".")[2]
    if _is_tilelang(name) and (job.repo != "tilelang" or job.engine != "interpreter"):
        return Ours()  # written for NVIDIA, and compared on the inputs of NVIDIA's files
    try:
        outputs, seen = _outputs(name, check.run)
    except NotImplementedError as error:
        return Ours(missing=f"{label}: {error}")
    except Exception as error:  # noqa: BLE001 - a failure of ours is an answer, not a crash
        why = f"{label}: {type(error).__name__}: {error}".splitlines()[0][:200]
        return Ours(missing=why, wrong=why)
    compared = compare_all(check._replace(want=check.want[: len(outputs)]), outputs, label)
    wrong = [f"{label} is outside the budget"] if any(c.bad for c in compared) else []
    wrong += [f"{label}:{f.line}: {f.kind} {f.buffer}" for f in seen if f.kind in _WRONG]
    return Ours(compared, wrong="; ".join(wrong))


def _is_tilelang(name: str) -> bool:
    return name.rpartition(".")[2].startswith("tilelang")


def _outputs(name: str, run: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the outputs, and what the interpreter saw in a kernel of ours."""
    if not _is_tilelang(name):
        return import_module(name).like_upstream(run), []
    from srcmap.engines.interpreter.findings import Findings
    from srcmap.engines.interpreter.kernels import options

    kept = options.findings, options.watcher
    options.findings, options.watcher = Findings(), None
    try:
        outputs = import_module(name).like_upstream(run)
        return outputs, options.findings.sorted()
    finally:
        options.findings, options.watcher = kept
