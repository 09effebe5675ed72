"""`srcmap run FILE[::FUNCTION] | VARIANT`: run an upstream kernel, and say what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands.options import Lang, Pin, Repo  # noqa: TC001 - typer evaluates them
from srcmap.commands.pinned import PlainFormat, PlainFormatOption, tell
from srcmap.commands.running import (
    EngineName,
    EngineOption,
    MemoryOption,
    SeedOption,
    Target,
    TimeoutOption,
    array_line,
    comparison_line,
    failure_line,
    finding_line,
    limits,
    reason_text,
    target_of,
    worst,
)
from srcmap.errors import UsageError
from srcmap.lock import find_project, known_locks
from srcmap.render.as_json import document
from srcmap.render.console import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.engines.jobs import Outcome


def register(app: typer.Typer) -> None:
    """Add `srcmap run`."""

    @app.command("run", help="run.help", epilog="run.examples")
    def command(
        target: Annotated[
            str, typer.Argument(metavar="FILE[::FUNCTION]|VARIANT", help="run.target")
        ],
        shape: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Option("--shape", metavar="NAME=VALUE", help="run.shape", show_default=False),
        ] = None,
        input: Annotated[  # noqa: A002
            Optional[list[str]],  # noqa: UP045
            typer.Option("--input", metavar="NAME=HOW", help="run.input", show_default=False),
        ] = None,
        engine: EngineOption = EngineName.interpreter,
        pin: Pin = None,
        repo: Repo = None,
        seed: SeedOption = 0,
        timeout: TimeoutOption = 120.0,
        memory: MemoryOption = 12.0,
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(
            target,
            shape=shape or [],
            inputs=input or [],
            engine=engine.value,
            pin=pin,
            repo=repo,
            seed=seed,
            timeout=timeout,
            memory=memory,
            format=format.value,
            lang=i18n.language(),
        )


def run(
    target: str,
    *,
    shape: Sequence[str] = (),
    inputs: Sequence[str] = (),
    engine: str = "interpreter",
    pin: str | None = None,
    repo: str | None = None,
    seed: int = 0,
    timeout: float = 120.0,
    memory: float = 12.0,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Run one file; 1 when it differs from the reference, 3 when it cannot run."""
    from srcmap.engines.child import require, run_jobs
    from srcmap.engines.jobs import Job

    require(engine)
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    meant = target_of(target, catalogue, known_locks(project), project, repo, pin, lang)
    made_up = bool(shape or inputs or meant.function or not meant.case)
    job = Job(
        kind="run" if made_up else "check",
        repo=meant.repo,
        root=str(meant.root),
        path=meant.path,
        engine=engine,  # type: ignore[arg-type]
        case="" if made_up else meant.case,
        function=meant.function,
        shape=pairs(shape, "--shape", lang),
        inputs=pairs(inputs, "--input", lang),
        seed=seed,
        theirs=not made_up and engine == "interpreter",
    )
    outcomes = run_jobs([job], limits(timeout, memory))
    if format == "json":
        facts = {"repo": meant.repo, "pin": meant.pin, "path": meant.path, "engine": engine}
        emit(document("srcmap-run", {**facts, "outcomes": outcomes}))
    else:
        emit("\n".join(line for o in outcomes for line in _lines(o, meant, lang)))
        if any(o.compared for o in outcomes):
            tell(_counts(outcomes, lang))
    return worst(outcomes)


def pairs(given: Sequence[str], option: str, lang: str) -> dict[str, str]:
    """Return `NAME=VALUE,NAME=VALUE` as a dictionary; UsageError when it is not that."""
    found: dict[str, str] = {}
    for word in given:
        parts = _parts(word)
        for part in parts:
            name, sign, value = part.partition("=")
            if not sign or not name.strip():
                message = i18n.text("run.bad-pair", lang, option=option, word=word)
                raise UsageError(message, slug="usage")
            found[name.strip()] = value.strip()
    return found


def _parts(word: str) -> list[str]:
    """Cut at commas that stand between pairs, not inside brackets."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(word):
        depth += (char in "[(") - (char in "])")
        if char == "," and not depth:
            parts.append(word[start:place])
            start = place + 1
    return [*parts, word[start:]]


def _counts(outcomes: Sequence[Outcome], lang: str) -> str:
    states = [outcome.state for outcome in outcomes]
    facts = {"passed": states.count("passed"), "diverges": states.count("diverges")}
    return i18n.text("run.counts", lang, total=len(states), **facts)


def _lines(outcome: Outcome, target: Target, lang: str) -> list[str]:
    state = i18n.text(f"run.state.{outcome.state}", lang)
    words = (target.path, outcome.name, state, f"{outcome.seconds:.2f} s")
    lines = ["  ".join(word for word in words if word)]
    if outcome.reason:
        key = "run.guessed" if outcome.state == "ran" else "run.because"
        lines.append("  " + i18n.text(key, lang, reason=reason_text(outcome.reason, lang)))
    lines += [f"  {array_line(a, lang)}" for a in (*outcome.inputs, *outcome.outputs)]
    lines += [f"  {comparison_line(c, lang)}" for c in outcome.compared]
    lines += [f"  {comparison_line(c, lang, 'run.theirs')}" for c in outcome.theirs]
    if outcome.theirs_missing:
        lines.append("  " + i18n.text("run.theirs-missing", lang, why=outcome.theirs_missing))
    if outcome.failure is not None:
        lines.append(f"  {failure_line(outcome.failure, lang)}")
    return lines + [f"  {finding_line(f, lang)}" for f in outcome.findings]
