"""What diff tests came out with, kept in the project with the digests of what they rest on.

A result is stale when upstream's file, our implementation, the case or the engine has changed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from srcmap.checkout.nouns import blob_id
from srcmap.engines.jobs import Comparison, Found, Outcome  # noqa: TC001 - msgspec reads these
from srcmap.verify.home import home
from srcmap.verify.kept import (
    FORMAT,
    is_stale,
    largest,
    method_digest,
    ours_digest,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.verify.plan import Planned

State = Literal["passed", "failed", "diverges", "untested"]


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One set of inputs."""

    name: str
    state: State
    seconds: float = 0.0
    reason: str = ""
    compared: tuple[Comparison, ...] = ()
    theirs: tuple[Comparison, ...] = ()
    theirs_missing: str = ""
    ours: tuple[Comparison, ...] = ()
    ours_missing: str = ""
    findings: tuple[Found, ...] = ()

    @property
    def error(self) -> float | None:
        """The largest absolute error of upstream's kernel; None when there is a NaN, or nothing."""
        return largest([c.error for c in self.compared])

    @property
    def ratio(self) -> float | None:
        """The largest error in units of its budget."""
        return largest([c.ratio for c in self.compared])


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One file of one pin with one engine."""

    variants: tuple[str, ...]
    repo: str
    pin: str
    path: str
    engine: str
    state: State
    reason: str = ""
    upstream: str = ""
    """git's blob id of the file that ran."""
    ours: str = ""
    """SHA-256 of our implementation's files; empty when there is none."""
    ours_variants: tuple[str, ...] = ()
    """The variants whose folders those are."""
    method: str = ""
    """SHA-256 of the engine and the cases."""
    checks: tuple[Checked, ...] = ()


class Store(msgspec.Struct, frozen=True, kw_only=True):
    """The file."""

    format: str = FORMAT
    results: tuple[Result, ...] = ()


def collect(planned: Sequence[Planned], outcomes: Iterable[Outcome]) -> list[Result]:
    """Group outcomes by what was planned; the n-th job is that of the n-th plan that has one."""
    with_job = [p for p in planned if p.job is not None]
    grouped: dict[int, list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault(outcome.job, []).append(outcome)
    by_plan = {id(p): grouped.get(n, []) for n, p in enumerate(with_job)}
    return [_result(p, by_plan.get(id(p), [])) for p in planned]


def _result(planned: Planned, outcomes: list[Outcome]) -> Result:
    checks = tuple(_checked(outcome, planned.engine) for outcome in outcomes)
    state = _state([check.state for check in checks])
    reasons = [c.reason for c in checks if c.reason and c.state == state]
    where = Path(planned.job.root) / planned.path if planned.job else None
    return Result(
        variants=planned.variants,
        repo=planned.repo,
        pin=planned.pin,
        path=planned.path,
        engine=planned.engine,
        state=state,
        reason=reasons[0] if reasons else planned.reason.key if planned.reason else "",
        upstream=blob_id(where.read_bytes()) if where is not None else "",
        ours=ours_digest(planned.ours),
        ours_variants=planned.ours_variants,
        method=method_digest(),
        checks=checks,
    )


def _checked(outcome: Outcome, engine: str) -> Checked:
    failure, reason = outcome.failure, outcome.reason
    state: State = "failed" if outcome.state == "ran" else outcome.state
    if failure is not None:
        place = f"{failure.path}:{failure.line}: " if failure.path else ""
        reason = f"{place}{failure.message}"
        if engine != "interpreter" and failure.kind in ("needs", "time", "died", "memory"):
            state = "untested"  # what a compiler cannot do says nothing of the kernel
    return Checked(
        name=outcome.name or "-",
        state=state,
        seconds=round(outcome.seconds, 4),
        reason=reason,
        compared=outcome.compared,
        theirs=outcome.theirs,
        theirs_missing=outcome.theirs_missing,
        ours=outcome.ours,
        ours_missing=outcome.ours_missing,
        findings=outcome.findings,
    )


def _state(states: Sequence[State]) -> State:
    """A file fails when one check does; a declared difference shows; nothing run is untested."""
    ranked: tuple[State, ...] = ("failed", "diverges", "passed")
    return next((state for state in ranked if state in states), "untested")


def load(project: Path | None) -> tuple[Result, ...]:
    """Return the results of a project. SrcmapError when the file is not one of results."""
    if project is None:
        return ()
    path = home(project)
    try:
        store = msgspec.json.decode(path.read_bytes(), type=Store)
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as error:
        raise unreadable(path, error) from error
    return store.results if store.format == FORMAT else ()


def save(project: Path, new: Sequence[Result]) -> None:
    """Keep results, replacing those of the same file, pin and engine. One process at a time."""
    from filelock import FileLock

    path = home(project)
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        _save(project, path, new)


def _save(project: Path, path: Path, new: Sequence[Result]) -> None:
    kept = {_key(r): r for r in load(project)} | {_key(r): r for r in new}
    data = msgspec.json.encode(Store(results=tuple(kept[key] for key in sorted(kept))))
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.format(data, indent=1) + b"\n")
    Path(name).replace(path)


def _key(result: Result) -> tuple[str, str, str, str]:
    return (result.repo, result.pin, result.path, result.engine)


def shown_state(results: Sequence[Result], repo: str, pin: str, path: str, blob: str) -> str:
    """Return the state of a file in one word, `stale` when it is; empty when it never ran."""
    found = [r for r in results if (r.repo, r.pin, r.path) == (repo, pin, path)]
    if not found:
        return ""
    states = ["stale" if r.upstream and is_stale(r, blob) else r.state for r in found]
    ranked = ("failed", "stale", "diverges", "passed", "untested")
    return min(states, key=ranked.index)
