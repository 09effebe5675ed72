"""`srcmap cite`: citations found, judged, recorded, repaired; tables of them made."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from srcmap import __version__, i18n
from srcmap.commands.options import Lang  # typer reads it at run time  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.commands.citing import Baseline, Setup, Spool


class ScanFormat(str, Enum):
    """What `scan --format` accepts."""

    text = "text"
    json = "json"


class CheckFormat(str, Enum):
    """What `check --format` accepts."""

    text = "text"
    json = "json"
    sarif = "sarif"
    annotations = "annotations"
    junit = "junit"
    baseline = "baseline"


_Files = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Argument(metavar="[FILE|FOLDER]...", help="cite.help.files", show_default=False),
]
_Pins = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--pin", metavar="REPO@VERSION", help="cite.help.pin", show_default=False),
]
_Fences = Annotated[bool, typer.Option("--fences", help="cite.help.fences")]


def register(app: typer.Typer) -> None:
    """Add the group `cite`."""
    group = typer.Typer(no_args_is_help=True, help="cli.about.cite")
    app.add_typer(group, name="cite")

    @group.command("scan", help="cite.help.scan", epilog="cite.examples.scan")
    def scan(
        files: _Files = None,
        fences: _Fences = False,
        format: Annotated[  # noqa: A002
            ScanFormat, typer.Option("--format", help="cli.format")
        ] = ScanFormat.text,
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_scan(files or [], fences=fences, format=format.value, lang=i18n.language())

    @group.command("check", help="cite.help.check", epilog="cite.examples.check")
    def check(
        files: _Files = None,
        pin: _Pins = None,
        every: Annotated[bool, typer.Option("--all", help="cite.help.all")] = False,
        fences: _Fences = False,
        format: Annotated[  # noqa: A002
            CheckFormat, typer.Option("--format", help="cli.format")
        ] = CheckFormat.text,
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_check(files or [], pins=pin or [], every=every, fences=fences,
                         format=format.value, lang=i18n.language())  # fmt: skip

    from srcmap.commands import cite_tables, cite_writing

    cite_writing.register(group)
    cite_tables.register(group)


# -- scan ------------------------------------------------------------------------------------


def run_scan(
    files: Sequence[Path],
    *,
    fences: bool = False,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print what is cited; 3 when nothing was read."""
    from srcmap.commands.citing import Spool, chosen_documents, run_audit, setup, task

    found = setup(start)
    work = task(found, (), fences=fences, judge=False)
    with Spool() as spool:
        run_audit(found, work, chosen_documents(files, found), spool)
        _write(spool, found, format, lang, judged=False, every=True)
        return _ended(spool, lang, faults=0)


# -- check -----------------------------------------------------------------------------------


def run_check(
    files: Sequence[Path],
    *,
    pins: Sequence[str] = (),
    every: bool = False,
    fences: bool = False,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print the verdicts; 1 for faults that are not known, 3 when nothing was read."""
    from srcmap.commands.citing import Spool, chosen_documents, run_audit, setup, task

    found = setup(start)
    work = task(found, pins, fences=fences)
    with Spool() as spool:
        baseline = run_audit(found, work, chosen_documents(files, found), spool)
        if format == "baseline":
            _write_baseline(spool, found)
            return _ended(spool, lang, faults=0)
        _write(spool, found, format, lang, judged=True, every=every)
        fixed = _tell_fixed(baseline, lang)
        return _ended(spool, lang, faults=spool.faults + fixed)


def _ended(spool: Spool, lang: str, *, faults: int) -> int:
    from srcmap.commands.citing import tell
    from srcmap.model import Note

    for document, problem in spool.problems:
        tell(Note("cite.unread", {"document": document, "why": problem}), lang)
    if not spool.citations:
        tell(Note("cite.none", {"documents": str(spool.documents)}), lang)
        return 3
    if spool.problems:
        return 3
    return 1 if faults else 0


def _tell_fixed(baseline: Baseline, lang: str) -> int:
    from srcmap.commands.citing import tell
    from srcmap.model import Note

    fixed = baseline.fixed()
    for document, text, verdict in fixed:
        tell(Note("cite.fixed", {"document": document, "text": text, "verdict": verdict}), lang)
    return len(fixed)


# -- pages -----------------------------------------------------------------------------------


def _write(
    spool: Spool, found: Setup, format: str, lang: str, *, judged: bool, every: bool  # noqa: A002
) -> None:  # fmt: skip
    if format == "text":
        _write_text(spool, lang, judged=judged, every=every)
    elif format == "json":
        _write_json(spool, found, lang, judged=judged)
    else:
        _write_for_ci(spool, format, lang)


def _write_text(spool: Spool, lang: str, *, judged: bool, every: bool) -> None:
    from srcmap.commands.citing import shown
    from srcmap.render import cite_text
    from srcmap.render.console import console_for, emit

    console = console_for(sys.stdout, lang)
    pages = (
        shown(found, lang, verdict=judged)
        for found in spool
        if every or found.verdict not in ("ok", "plausible") or found.warnings
    )
    for chunk in _chunks(cite_text.citation(page, console) for page in pages):
        emit(chunk)
    numbers = {i18n.text(f"cite.count.{name}", lang): n
               for name, n in spool.counts(judged=judged).items()
               if n or name in ("citations", "documents")}  # fmt: skip
    emit(cite_text.counts(numbers, console))
    if judged:
        emit(i18n.text("cite.of-place", lang), sys.stderr)


def _chunks(parts: Iterator[str], size: int = 200) -> Iterator[str]:
    found: list[str] = []
    for part in parts:
        found.append(part)
        if len(found) >= size:
            yield "\n".join(found)
            found.clear()
    if found:
        yield "\n".join(found)


def _write_json(spool: Spool, found: Setup, lang: str, *, judged: bool) -> None:
    """Write one citation a line: the whole never has to be in memory."""
    import msgspec

    from srcmap.commands.citing import as_plain
    from srcmap.render.console import emit

    locks = {lock.name: lock for lock in found.locks}
    name = "srcmap-cite-check/1" if judged else "srcmap-cite-scan/1"
    counts = msgspec.json.encode(spool.counts(judged=judged)).decode()
    remark = (
        f',\n"about": {msgspec.json.encode(i18n.text("cite.of-place", lang)).decode()}'
        if judged
        else ""
    )
    emit(f'{{"format": "{name}",\n"counts": {counts}{remark},\n"citations": [')
    last = spool.citations - 1
    lines = (
        msgspec.json.encode(as_plain(one, lang, locks, verdict=judged)).decode()
        + ("" if number == last else ",")
        for number, one in enumerate(spool)
    )
    for chunk in _chunks(lines):
        emit(chunk)
    emit("]}")


def _write_for_ci(spool: Spool, format: str, lang: str) -> None:  # noqa: A002
    from srcmap.commands.citing import finding, rules
    from srcmap.render.console import emit

    results = [finding(one, lang) for one in spool]
    if format == "sarif":
        from srcmap.render.as_sarif import sarif

        emit(sarif(results, rules(lang), __version__))
    elif format == "annotations":
        from srcmap.render.as_annotations import workflow_commands

        emit(workflow_commands(results))
    else:
        from srcmap.render.as_junit import junit

        emit(junit("srcmap cite check", results))
    numbers = spool.counts(judged=True)
    emit("  ".join(f"{name} {n}" for name, n in numbers.items()), sys.stderr)


def _write_baseline(spool: Spool, found: Setup) -> None:
    """Write the faults of today as entries for `.srcmap.toml`."""
    from srcmap.cite.nouns import BAD
    from srcmap.cite.record import toml_string
    from srcmap.commands.citing import known_name
    from srcmap.render.console import emit

    for one in spool:
        if one.verdict in BAD:
            text = " ".join(one.citation.text.split())
            name = known_name(Path(one.document), found.project)
            emit(f"[[cite.baseline]]\ndocument = {toml_string(name)}\n"
                 f"text = {toml_string(text)}\nverdict = {toml_string(one.verdict)}\n")  # fmt: skip
