"""`srcmap trace VARIANT`: upstream's source beside the values it produced for one query row."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from msgspec import structs

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands.options import Lang, Pin, Repo  # noqa: TC001 - typer evaluates them
from srcmap.commands.running import (
    MemoryOption,
    SeedOption,
    Target,
    TimeoutOption,
    failure_line,
    limits,
    number,
    target_of,
)
from srcmap.engines.caselist import SHOWN_BY
from srcmap.errors import SrcmapError, UsageError
from srcmap.lock import find_project, known_locks
from srcmap.render.as_json import document
from srcmap.render.console import console_for, emit
from srcmap.render.links import permalink
from srcmap.render.trace_html import trace_html
from srcmap.render.trace_pages import TraceLine, TracePage, Value
from srcmap.render.trace_text import trace_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.engines.jobs import Outcome
    from srcmap.mapfile import Entry

_FEW = 6


class TraceFormat(str, Enum):
    """What `--format` accepts."""

    text = "text"
    json = "json"
    html = "html"


def register(app: typer.Typer) -> None:
    """Add `srcmap trace`."""

    @app.command("trace", help="trace.help", epilog="trace.examples")
    def command(
        target: Annotated[str, typer.Argument(metavar="VARIANT|FILE", help="run.target")],
        row: Annotated[
            Optional[int],  # noqa: UP045
            typer.Option("--row", metavar="I", min=0, help="trace.row", show_default=False),
        ] = None,
        block: Annotated[
            Optional[int],  # noqa: UP045
            typer.Option("--block", metavar="K", min=0, help="trace.block", show_default=False),
        ] = None,
        check: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--check", metavar="NAME", help="trace.check", show_default=False),
        ] = None,
        format: Annotated[  # noqa: A002
            TraceFormat, typer.Option("--format", help="trace.format")
        ] = TraceFormat.text,
        output: Annotated[
            Optional[Path],  # noqa: UP045
            typer.Option("--output", metavar="FILE", help="trace.output", show_default=False),
        ] = None,
        pin: Pin = None,
        repo: Repo = None,
        seed: SeedOption = 0,
        timeout: TimeoutOption = 120.0,
        memory: MemoryOption = 12.0,
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(
            target,
            row=row,
            block=block,
            check=check,
            format=format.value,
            output=output,
            pin=pin,
            repo=repo,
            seed=seed,
            timeout=timeout,
            memory=memory,
            lang=i18n.language(),
        )


def run(
    target: str,
    *,
    row: int | None = None,
    block: int | None = None,
    check: str | None = None,
    format: str = "text",  # noqa: A002
    output: Path | None = None,
    pin: str | None = None,
    repo: str | None = None,
    seed: int = 0,
    timeout: float = 120.0,
    memory: float = 12.0,
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Trace one check; 3 when it cannot run."""
    project = find_project(start or Path.cwd())
    locks = known_locks(project)
    meant = target_of(target, load_catalogue(project), locks, project, repo, pin, lang)
    if not meant.case:
        raise SrcmapError(i18n.text("run.no-case", lang, path=meant.path), slug="no-case")
    outcome = _traced(meant, row, check, seed, limits(timeout, memory), lang)
    if outcome.failure is not None or not outcome.trace:
        why = failure_line(outcome.failure, lang) if outcome.failure else ""
        raise SrcmapError(why or i18n.text("trace.nothing", lang), slug="trace")
    if _lacks_row(outcome):
        first, last = outcome.trace["rows"]
        message = i18n.text("run.no-row", lang, row=row, first=first, last=last)
        raise UsageError(message, slug="usage")
    entries = _entries(meant, project)
    url = _url(meant, locks)
    page = page_of(meant, outcome, entries, url)
    step = _step(page, block)
    _write(page, outcome, step, format, output, lang)
    return 0


def _traced(
    meant: Target, row: int | None, check: str | None, seed: int, allowed: Any, lang: str
) -> Outcome:
    """Run the check that is meant, and watch it."""
    from srcmap.engines.child import require, run_jobs
    from srcmap.engines.jobs import Job

    require("interpreter")
    common = {
        "repo": meant.repo,
        "root": str(meant.root),
        "path": meant.path,
        "case": meant.case,
        "seed": seed,
    }
    part = SHOWN_BY.get(meant.variant, "") if check is None else check
    job = Job(kind="trace", row=row, **common, extra={"part": part, "first": True})  # type: ignore[arg-type]
    outcomes = run_jobs([job], allowed)
    if check is None and outcomes and _lacks_row(outcomes[0]):
        rest = run_jobs([structs.replace(job, extra={"part": part})], allowed)
        outcomes = [o for o in rest if o.trace and not _lacks_row(o)] or [_widest(rest)]
    if not outcomes:
        known = [o.name for o in run_jobs([Job(kind="check", **common)], allowed)]  # type: ignore[arg-type]
        message = i18n.text(
            "trace.no-check", lang, path=meant.path, name=check, known="; ".join(known)
        )
        raise UsageError(message, slug="usage")
    return outcomes[0]


def _lacks_row(outcome: Outcome) -> bool:
    return bool(outcome.trace and outcome.trace.get("missing"))


def _widest(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the one with most rows, of those that lack the row that is asked for."""
    return max(outcomes, key=lambda o: o.trace["rows"][1] if o.trace else -1)


def _entries(meant: Target, project: Path | None) -> list[Entry]:
    from srcmap.mapfile import find_map

    source_map = find_map(meant.repo, meant.pin, project) if meant.pin else None
    found = source_map.entries if source_map is not None else ()
    return [e for e in found if e.path == meant.path and e.lines and e.status == "found"]


def _url(meant: Target, locks: Sequence[Any]) -> str:
    from srcmap.model import Lines

    for lock in locks:
        pin = lock.find(meant.pin) if lock.name == meant.repo else None
        if pin is not None:
            link = permalink(lock.url, pin.commit, meant.path, Lines(1, 1))
            return (link or "").partition("#")[0]
    return ""


def page_of(meant: Target, outcome: Outcome, entries: Sequence[Entry], url: str) -> TracePage:
    """Return the page of a trace: lines from the source, values from the record."""
    record = outcome.trace
    events = record["events"]
    text = (meant.root / meant.path).read_text(encoding="utf-8").split("\n")
    steps = _steps(events)
    values = _values(events, steps)
    concepts = _concepts(entries, meant.variant)
    numbers = sorted({e["line"] for e in events if e["line"]})
    first, last = (numbers[0], numbers[-1]) if numbers else (1, 0)
    lines = tuple(
        TraceLine(number=n, text=text[n - 1], concept=concepts.get(n, ""))
        for n in range(first, min(last, len(text)) + 1)
    )
    return TracePage(
        title=f"{meant.variant or meant.path}  {outcome.name}",
        path=meant.path,
        check=outcome.name,
        row=record["row"] or 0,
        block=tuple(record["block"]),
        steps=tuple(steps),
        lines=lines,
        values=tuple(values),
        url=url,
    )


def _main_loops(events: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the loop of each role whose iterations are shown: the one with most statements.

    Others go over the rows of a tile, before or after it.
    """
    lines: dict[str, dict[str, set[int]]] = {}
    for event in events:
        if event["loops"]:
            loops = lines.setdefault(event["role"], {})
            loops.setdefault(event["loops"][0][0], set()).add(event["line"])
    return {role: max(loops, key=lambda name: len(loops[name])) for role, loops in lines.items()}


def _iteration(event: dict[str, Any], main: dict[str, str]) -> str | None:
    loops = event["loops"]
    return str(loops[0][1]) if loops and loops[0][0] == main[event["role"]] else None


def _steps(events: Sequence[dict[str, Any]]) -> list[str]:
    """Return the iterations of the main loop, in order."""
    main = _main_loops(events)
    found = (_iteration(event, main) for event in events)
    return list(dict.fromkeys(step for step in found if step is not None))


def _values(events: Sequence[dict[str, Any]], steps: Sequence[str]) -> list[Value]:
    """Return the last store of each statement at each iteration."""
    main = _main_loops(events)
    inside: set[str] = set()
    last: dict[tuple[Any, ...], tuple[dict[str, Any], int]] = {}
    for event in events:
        iteration, role = _iteration(event, main), event["role"]
        if iteration is not None:
            inside.add(role)
            step: int | None = steps.index(iteration)
        else:
            step = -1 if role in inside else None
        key = (event["line"], event["buffer"], step, role)
        times = last[key][1] + 1 if key in last else 1
        last[key] = (event, times)
    several = len({e["role"] for e in events}) > 1
    return [_value(key, event, times, several) for key, (event, times) in last.items()]


def _value(key: tuple[Any, ...], event: dict[str, Any], times: int, several: bool) -> Value:
    line, buffer, step, role = key
    held = event["values"]
    first = held["first"]
    single = first[0] if len(first) == 1 and event["scope"] != "global" else None
    return Value(
        line=line,
        buffer=buffer,
        step=step,
        text=_short(held),
        role=role if several else "",
        times=times,
        number=float(single) if single is not None else None,
        values=tuple(map(str, first)),
        shape=tuple(held["shape"]),
    )


def _short(held: dict[str, Any]) -> str:
    """Return a value in short: the number, or the first few with the range."""
    first = held["first"]
    if len(first) == 1:
        return _said(first[0])
    few = ", ".join(map(_said, first[:_FEW])) + (", ..." if len(first) > _FEW else "")
    shape = "x".join(map(str, held["shape"]))
    spread = "" if held["low"] is None else f"  {number(held['low'])} .. {number(held['high'])}"
    hidden = f"  -inf ×{held['minus_infinite']}" if held["minus_infinite"] else ""
    broken = f"  NaN ×{held['nan']}" if held["nan"] else ""
    return f"[{few}]  {shape}{spread}{hidden}{broken}"


def _said(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.5g}"


def _concepts(entries: Sequence[Entry], variant: str) -> dict[int, str]:
    """Return the concept of each line: the narrowest place that it lies in."""
    chosen = [e for e in entries if not variant or e.variant == variant] or list(entries)
    found: dict[int, str] = {}
    for entry in sorted(chosen, key=lambda e: -_length(e)):
        if entry.lines is not None and _length(entry) <= 12:
            for line in range(entry.lines.first, entry.lines.last + 1):
                found[line] = f"{entry.concept} {entry.site}".strip()
    return found


def _length(entry: Entry) -> int:
    return entry.lines.last - entry.lines.first + 1 if entry.lines else 0


def _step(page: TracePage, block: int | None) -> int:
    if not page.steps:
        return 0
    if block is None:
        return len(page.steps) - 1
    if str(block) not in page.steps:
        shown = ", ".join(page.steps)
        raise UsageError(f"--block {block}: the iterations are {shown}", slug="usage")
    return page.steps.index(str(block))


def _write(
    page: TracePage,
    outcome: Outcome,
    step: int,
    format: str,  # noqa: A002
    output: Path | None,
    lang: str,
) -> None:
    if format == "json":
        text = document("srcmap-trace", {"trace": page, "findings": outcome.findings})
    elif format == "html":
        text = trace_html(page, step, lang)
    else:
        text = trace_text(page, step, console_for(sys.stdout, lang))
    if output is None:
        emit(text)
        return
    try:
        output.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    except OSError as error:
        message = f"{output}: cannot be written: {error.strerror}"
        raise SrcmapError(message, slug="disk") from error
