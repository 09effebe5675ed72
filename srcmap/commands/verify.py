"""`srcmap verify [VARIANT...]`: the diff test, its kept results, and mutations of upstream."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.names import known_variant
from srcmap.commands.options import Lang, Pin, Repo  # noqa: TC001 - typer evaluates them
from srcmap.commands.pinned import PlainFormat, PlainFormatOption, tell
from srcmap.commands.running import (
    EngineName,
    EngineOption,
    MemoryOption,
    SeedOption,
    TimeoutOption,
    comparison_line,
    finding_line,
    limits,
    number,
    reason_text,
)
from srcmap.errors import SrcmapError
from srcmap.lock import find_project, known_locks
from srcmap.render.as_json import document
from srcmap.render.as_junit import junit
from srcmap.render.console import console_for, emit
from srcmap.render.findings import Finding
from srcmap.render.layout import columns
from srcmap.verify import results as kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.engines.jobs import Outcome
    from srcmap.verify.mutation import Verdict
    from srcmap.verify.results import Checked, Result


def register(app: typer.Typer) -> None:
    """Add `srcmap verify`."""

    @app.command("verify", help="verify.help", epilog="verify.examples")
    def command(
        variants: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Argument(metavar="[VARIANT...]", help="verify.variants", show_default=False),
        ] = None,
        mutate: Annotated[bool, typer.Option("--mutate", help="verify.mutate")] = False,
        engine: EngineOption = EngineName.interpreter,
        pin: Pin = None,
        repo: Repo = None,
        no_theirs: Annotated[bool, typer.Option("--no-theirs", help="verify.no-theirs")] = False,
        stored: Annotated[bool, typer.Option("--kept", help="verify.kept")] = False,
        details: Annotated[bool, typer.Option("--details", help="verify.details")] = False,
        xml: Annotated[
            Optional[Path],  # noqa: UP045
            typer.Option("--junit", metavar="FILE", help="verify.junit", show_default=False),
        ] = None,
        seed: SeedOption = 0,
        timeout: TimeoutOption = 120.0,
        memory: MemoryOption = 12.0,
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        asked = _Asked(
            variants or [],
            engine.value,
            repo,
            pin,
            seed,
            limits(timeout, memory),
            not no_theirs,
            i18n.language(),
        )
        if mutate:
            return run_mutations(asked, format=format.value)
        return run(asked, stored=stored, details=details, xml=xml, format=format.value)


class _Asked:
    """What the command line asks for."""

    def __init__(
        self,
        variants: Sequence[str],
        engine: str,
        repo: str | None,
        pin: str | None,
        seed: int,
        allowed: Any,
        theirs: bool,
        lang: str,
        start: Path | None = None,
    ) -> None:
        self.project = find_project(start or Path.cwd())
        self.catalogue = load_catalogue(self.project)
        self.wanted = [known_variant(self.catalogue, name, lang) for name in variants]
        self.pins = collect.chosen_pins(known_locks(self.project), repo, pin)
        self.engine: Any = engine
        self.seed = seed
        self.allowed = allowed
        self.theirs = theirs
        self.lang = lang


Asked = _Asked


def run(
    asked: Asked,
    *,
    stored: bool = False,
    details: bool = False,
    xml: Path | None = None,
    format: str = "text",  # noqa: A002
) -> int:
    """Run the diff test, or show what is kept of it; 1 when something fails, 3 when nothing ran."""
    started = time.monotonic()
    found = _stored(asked) if stored else _tested(asked)
    stale = [r for r in found if stored and _is_stale(r, asked)]
    if not stored:
        if asked.project is None:
            tell(i18n.text("verify.not-kept", asked.lang))
        else:
            kept.save(asked.project, [r for r in found if r.checks])
    if xml is not None:
        _write_junit(xml, found, asked.lang)
    if format == "json":
        emit(document("srcmap-verify", {"results": found}))
    else:
        seconds = time.monotonic() - started
        emit("\n".join(_table(found, details, asked.lang, stale)))
        fresh = [r for r in found if r not in stale]
        if fresh:
            tell(_counts(fresh, seconds, asked.lang))
        if stale:
            tell(i18n.text("verify.stale", asked.lang, count=len(stale)))
    states = {r.state for r in found if r not in stale}
    return 1 if "failed" in states else 0 if states & {"passed", "diverges"} else 3


def _tested(asked: Asked) -> list[Result]:
    from srcmap.engines.child import require, run_jobs
    from srcmap.verify.plan import plan

    require(asked.engine)
    planned = plan(
        asked.catalogue,
        asked.wanted,
        asked.pins,
        asked.project,
        engines=(asked.engine,),
        seed=asked.seed,
        theirs=asked.theirs,
    )
    jobs = [p.job for p in planned if p.job is not None]

    def heard(outcome: Outcome) -> None:
        if sys.stderr.isatty():
            name = {"path": jobs[outcome.job].path, "name": outcome.name}
            tell(i18n.text("verify.progress", asked.lang, **name))

    return kept.collect(planned, run_jobs(jobs, asked.allowed, heard))


def _stored(asked: Asked) -> list[Result]:
    ids = {variant.id for variant in asked.wanted}
    pins = {(lock.name, pin.version) for lock, pin in asked.pins}
    found = [
        r
        for r in kept.load(asked.project)
        if (r.repo, r.pin) in pins and (not ids or ids & set(r.variants))
    ]
    if not found:
        tell(i18n.text("verify.none-kept", asked.lang))
    return found


def _is_stale(result: Result, asked: _Asked) -> bool:
    """Whether upstream's file, ours, the case or the engine has changed since."""
    from srcmap.checkout import find_checkout
    from srcmap.checkout.nouns import blob_id
    from srcmap.verify import kept as digests

    if not result.upstream:
        return False
    for lock, pin in asked.pins:
        if (lock.name, pin.version) == (result.repo, result.pin):
            checkout = find_checkout(lock, pin, asked.project)
            path = Path(checkout.root) / result.path if checkout is not None else None
            blob = blob_id(path.read_bytes()) if path is not None and path.is_file() else ""
            folders = digests.our_folders(asked.project, result.ours_variants)
            return digests.is_stale(result, blob, digests.ours_digest(folders))
    return False


# -- text ----------------------------------------------------------------------------------------


def _table(
    found: Sequence[Result], details: bool, lang: str, stale: Sequence[Result] = ()
) -> list[str]:
    names = ("file", "engine", "state", "error", "budget", "why")
    rows = [[i18n.text(f"verify.column.{name}", lang) for name in names]]
    rows += [_row(result, lang, "stale" if result in stale else "") for result in found]
    width = console_for(sys.stdout, lang).width
    lines = list(columns(rows, width, indent=""))
    if not details:
        return lines
    return lines + [line for result in found for line in _details(result, lang)]


def _row(result: Result, lang: str, state: str = "") -> list[str]:
    errors = [c.error for c in result.checks if c.compared]
    ratios = [c.ratio for c in result.checks if c.compared]
    facts = {"path": result.path, "pin": f"{result.repo}@{result.pin}"}
    reason = reason_text(result.reason, lang, **facts)
    return [
        f"{result.repo}@{result.pin}:{result.path}",
        result.engine,
        i18n.text(f"run.state.{state or result.state}", lang),
        number(_most(errors)) if errors else "",
        number(_most(ratios)) if ratios else "",
        reason,
    ]


def _most(values: Sequence[float | None]) -> float | None:
    """Return the largest; None, which is NaN, is larger than all."""
    known = [v for v in values if v is not None]
    return max(known) if len(known) == len(values) else None


def _details(result: Result, lang: str) -> list[str]:
    lines = ["", f"{result.path}"]
    for check in result.checks:
        state = i18n.text(f"run.state.{check.state}", lang)
        why = reason_text(check.reason, lang)
        lines.append(f"  {check.name}  {state}  {check.seconds:.2f} s  {why}".rstrip())
        lines += [f"    {line}" for line in _said(check, lang)]
    return lines


def _said(check: Checked, lang: str) -> list[str]:
    lines = [comparison_line(c, lang) for c in check.compared]
    lines += [comparison_line(c, lang, "run.theirs") for c in check.theirs]
    lines += [comparison_line(c, lang, "run.ours") for c in check.ours]
    for key, why in (("theirs", check.theirs_missing), ("ours", check.ours_missing)):
        if why:
            lines.append(i18n.text(f"run.{key}-missing", lang, why=why))
    return lines + [finding_line(f, lang) for f in check.findings]


def _counts(found: Sequence[Result], seconds: float, lang: str) -> str:
    states = [r.state for r in found]
    counts = {name: states.count(name) for name in ("passed", "failed", "diverges", "untested")}
    checks = sum(len(r.checks) for r in found)
    return i18n.text("verify.counts", lang, **counts, checks=checks, seconds=f"{seconds:.1f}")


def _write_junit(path: Path, found: Sequence[Result], lang: str) -> None:
    findings = [_finding(result, check, lang) for result in found for check in result.checks]
    findings += [_untested(result, lang) for result in found if not result.checks]
    try:
        path.write_text(junit("srcmap verify", findings) + "\n", encoding="utf-8")
    except OSError as error:
        raise SrcmapError(f"{path}: cannot be written: {error.strerror}", slug="disk") from error


def _finding(result: Result, check: Checked, lang: str) -> Finding:
    level: Any = {"failed": "error", "untested": "skipped"}.get(check.state, "ok")
    said = "\n".join([reason_text(check.reason, lang), *_said(check, lang)]).strip()
    return Finding(
        rule=f"verify/{check.state}",
        level=level,
        message=said or check.state,
        path=result.path,
        name=check.name,
        group=f"{result.repo}.{result.engine}.{result.path.removesuffix('.py').replace('/', '.')}",
    )


def _untested(result: Result, lang: str) -> Finding:
    return Finding(
        rule="verify/untested",
        level="skipped",
        message=_row(result, lang)[-1] or result.state,
        path=result.path,
        name=result.path,
        group=f"{result.repo}.{result.engine}",
    )


# -- mutations -------------------------------------------------------------------------------------


def run_mutations(asked: Asked, *, format: str = "text") -> int:  # noqa: A002
    """Mutate the variants; 1 when a mutant survives without a known reason, 3 without mutants."""
    from srcmap.engines.child import require
    from srcmap.verify.mutation import mutate

    require("interpreter")
    verdicts: list[Verdict] = []
    seen: set[tuple[str, str]] = set()
    for variant in asked.wanted or asked.catalogue.variants:

        def heard(count: int, of: str = variant.id) -> None:
            if sys.stderr.isatty():
                tell(i18n.text("verify.mutating", asked.lang, variant=of, count=count))

        pins, project = asked.pins, asked.project
        verdicts += mutate(variant, pins, project, asked.seed, asked.allowed, seen, heard)
    if not verdicts:
        names = ", ".join(v.id for v in asked.wanted) or i18n.text("verify.all", asked.lang)
        tell(i18n.text("verify.mutant.no-lines", asked.lang, variant=names))
        return 3
    if format == "json":
        emit(document("srcmap-mutants", {"mutants": verdicts, "counts": _scores(verdicts)}))
    else:
        emit("\n".join(_by_file(verdicts, asked.lang)))
    scores = _scores(verdicts)
    tell(i18n.text("verify.mutants", asked.lang, **scores))
    return 1 if scores["open"] else 0


def _scores(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Count: noticed of all mutants, and of those that are not proven to compute the same."""
    noticed = sum(v.noticed_by != "" for v in verdicts)
    proven = sum(v.proven is not None for v in verdicts)
    left = sum(v.explained is not None for v in verdicts)
    rest = len(verdicts) - proven
    return {
        "noticed": noticed,
        "total": len(verdicts),
        "share": round(100 * noticed / len(verdicts), 1),
        "proven": proven,
        "rest": rest,
        "share_of_rest": round(100 * noticed / rest, 1) if rest else 100.0,
        "left": left,
        "open": rest - noticed - left,
    }


def _by_file(verdicts: Sequence[Verdict], lang: str) -> list[str]:
    """Return two lines for each mutant, under the name of its file."""
    lines: list[str] = []
    path = ""
    for found in verdicts:
        if found.path != path:
            path = found.path
            lines += ["", path] if lines else [path]
        what = f"{found.concept} {found.site}".strip()
        change = (
            i18n.text(_CHANGES[found.change], lang) if found.change in _CHANGES else found.change
        )
        lines += [f"  {found.lines}  {what}: {change}", f"      {_verdict(found, lang)}"]
    return lines


_CHANGES = {
    "drop": "verify.mutant.drop",
    "sides of the choice swapped": "verify.mutant.swapped",
    "one block less": "verify.mutant.shorter",
    "one block later": "verify.mutant.later",
}
"""Changes that are told in words; others show the code before and after."""


def _verdict(found: Verdict, lang: str) -> str:
    if found.noticed_by:
        said = i18n.text("verify.mutant.noticed", lang, check=found.noticed_by)
    elif found.proven is not None:
        why = i18n.say(found.proven, lang)
        said = i18n.text("verify.mutant.equivalent", lang, why=why)
    elif found.explained is not None:
        why = i18n.say(found.explained, lang)
        said = i18n.text("verify.mutant.explained", lang, why=why)
    else:
        said = i18n.text("verify.mutant.survived", lang)
    return said
