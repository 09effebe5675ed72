"""`srcmap drift REPO OLD NEW`: what a version bump does to locations, documents and any lines."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from srcmap import __version__, i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import drifting
from srcmap.commands.names import known_concept, known_variant
from srcmap.commands.options import Lang  # noqa: TC001  # typer reads it at run time
from srcmap.drift.nouns import VERDICTS, Spot
from srcmap.drift.report import Question, report
from srcmap.drift.sources import Sources
from srcmap.errors import UsageError
from srcmap.lock import find_project, known_locks, pick
from srcmap.model import Lines
from srcmap.render.console import Console, console_for, emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.drift.nouns import Report
    from srcmap.drift.sources import Tree
    from srcmap.lock import Lock

FAILING = "changed,removed,ambiguous"


class DriftFormat(str, Enum):
    """What `--format` accepts."""

    text = "text"
    json = "json"
    markdown = "markdown"
    sarif = "sarif"
    annotations = "annotations"
    junit = "junit"


FormatOption = Annotated[DriftFormat, typer.Option("--format", help="drift.help.format")]


def register(app: typer.Typer) -> None:
    """Add `srcmap drift`."""

    @app.command("drift", help="drift.help", epilog="drift.examples")
    def command(
        repo: Annotated[str, typer.Argument(metavar="REPO", help="drift.help.repo")],
        old: Annotated[str, typer.Argument(metavar="OLD", help="drift.help.old")],
        new: Annotated[str, typer.Argument(metavar="NEW", help="drift.help.new")],
        lines: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Option("--lines", metavar="PATH:A-B", help="drift.help.lines"),
        ] = None,
        docs: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Option("--docs", metavar="FILE", help="drift.help.docs"),
        ] = None,
        variant: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--variant", metavar="VARIANT", help="drift.help.variant"),
        ] = None,
        concept: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--concept", metavar="CONCEPT", help="drift.help.concept"),
        ] = None,
        history: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--history", metavar="CLONE", help="drift.help.history"),
        ] = None,
        fail_on: Annotated[
            str, typer.Option("--fail-on", metavar="VERDICTS", help="drift.help.fail-on")
        ] = FAILING,
        everything: Annotated[bool, typer.Option("--all", help="drift.help.all")] = False,
        format: FormatOption = DriftFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(
            repo,
            old,
            new,
            lines=lines or [],
            docs=docs or [],
            variant=variant,
            concept=concept,
            history=history,
            fail_on=fail_on,
            everything=everything,
            format=format.value,
            lang=i18n.language(),
        )


def run(
    repo: str,
    old: str,
    new: str,
    *,
    lines: Sequence[str] = (),
    docs: Sequence[str] = (),
    variant: str | None = None,
    concept: str | None = None,
    history: str | None = None,
    fail_on: str = FAILING,
    everything: bool = False,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print what a bump does; 1 for a verdict of `fail_on`, 3 where something was not judged."""
    failing = verdicts(fail_on)
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    lock, _ = pick(known_locks(project), repo)
    # Lines and documents alone are an answer of their own: the map is not asked along.
    entries = (not lines and not docs) or variant is not None or concept is not None
    with Sources(lock, project, history) as sources:
        before, after = sources.find(old), sources.find(new)
        question = Question(
            entries=entries,
            variant=known_variant(catalogue, variant, lang).id if variant else None,
            concept=known_concept(catalogue, concept, lang).id if concept else None,
            lines=tuple(spots(lines)),
            citations=_citations(docs, lock, before, start),
        )
        found = report(lock, before, after, sources, catalogue, project, question)
    show(found, failing, format, lang, everything=everything)
    return drifting.code(found, failing)


def _citations(
    docs: Sequence[str], lock: Lock, old: Tree, start: Path | None
) -> tuple[tuple[str, Spot], ...]:
    """Find what documents cite of the old version, which must be a pin that is here."""
    if not docs:
        return ()
    from srcmap.commands import carrying

    if old.pin is None or old.version.source != "checkout":
        raise UsageError(
            f"--docs: {lock.name} {old.version.name} is no pin that is here, so nothing cites it",
            slug="usage",
            hint=f"srcmap sync {lock.name}@{old.version.name}",
        )
    found = carrying.citations(docs, lock, old.pin, start)
    return tuple((one.place, one.spot) for one in found)


def verdicts(text: str) -> frozenset[str]:
    """Read `changed,removed`. UsageError for a word that is no verdict."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if words == ["none"]:
        return frozenset()
    for word in words:
        if word not in VERDICTS:
            known = ", ".join(VERDICTS)
            raise UsageError(f"--fail-on: '{word}' is no verdict", slug="usage", hint=known)
    return frozenset(words)


_SPOT = re.compile(r"(?P<path>.+?):(?P<first>\d+)(?:[-–](?P<last>\d+))?")


def spots(asked: Sequence[str]) -> list[Spot]:
    """Read `PATH:A-B`, `PATH:A` and `@FILE`. UsageError for what is neither."""
    found: list[Spot] = []
    for text in asked:
        if text.startswith("@"):
            rows = _rows(text[1:])
            found += spots([row for row in rows if row and not row.startswith("#")])
            continue
        match = _SPOT.fullmatch(text.strip())
        first = int(match["first"]) if match else 0
        last = int(match["last"] or first) if match else 0
        if match is None or not 0 < first <= last:
            message = f"--lines '{text}': expected PATH:A-B with 0 < A <= B, or @FILE"
            raise UsageError(message, slug="usage")
        found.append(Spot(path=match["path"], lines=Lines(first, last)))
    return found


def _rows(name: str) -> list[str]:
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--lines @{name}: cannot be read: {error}", slug="usage") from error
    return [row.strip() for row in text.splitlines()]


def show(
    found: Report, failing: frozenset[str], format: str, lang: str, *, everything: bool = False  # noqa: A002
) -> None:  # fmt: skip
    """Write a report in one of the formats to stdout."""
    emit(rendered(found, failing, format, lang, everything=everything))


def rendered(
    found: Report, failing: frozenset[str], format: str, lang: str, *, everything: bool = False  # noqa: A002
) -> str:  # fmt: skip
    """Write a report in one of the formats."""
    if format == "json":
        from srcmap.render.as_json import document

        return document("srcmap-drift", drifting.as_plain(found, lang))
    if format in ("sarif", "annotations", "junit"):
        return _for_ci(found, failing, format, lang)
    page = drifting.page(found, lang, everything=everything)
    if not found.items:
        return i18n.text("drift.nothing", lang)
    if format == "markdown":
        from srcmap.render import drift_markdown

        return drift_markdown.page(page, Console(lang=lang))
    import sys

    from srcmap.render import drift_text

    return drift_text.page(page, console_for(sys.stdout, lang))


def _for_ci(found: Report, failing: frozenset[str], format: str, lang: str) -> str:  # noqa: A002
    results = drifting.findings(found, failing, lang)
    if format == "sarif":
        from srcmap.render.as_sarif import sarif

        return sarif(results, drifting.rules(lang), __version__)
    if format == "annotations":
        from srcmap.render.as_annotations import workflow_commands

        return workflow_commands(results)
    from srcmap.render.as_junit import junit

    return junit(f"srcmap drift {found.repo} {found.old.name} {found.new.name}", results)
