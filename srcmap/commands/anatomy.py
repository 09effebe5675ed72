"""`srcmap anatomy FILE...`: what each statement of any TileLang file does."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeAlias

import msgspec
import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.names import known_concept
from srcmap.commands.options import Format, FormatOption, Lang
from srcmap.errors import ParseError
from srcmap.lock import find_project
from srcmap.model import FileAnatomy, Lines, Note
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.interface import CodeLine, Place, ReadFile, ReadKernel, Row
from srcmap.render.layout import visible
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.catalogue import Catalogue
    from srcmap.model import Absence, Ambiguity, KernelAnatomy, Site

SUFFIXES = (".py", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".md")
"""What is looked for in a folder; a file that is named is read whatever it is called."""


class Read(msgspec.Struct, frozen=True):
    """A file that was read."""

    path: str
    anatomy: FileAnatomy
    lines: list[str]


class Unread(msgspec.Struct, frozen=True):
    """A file that was not, and why."""

    path: str
    why: Note


Outcome: TypeAlias = "Read | Unread"


def register(app: typer.Typer) -> None:
    """Add `srcmap anatomy`."""

    @app.command("anatomy", help="anatomy.help", epilog="anatomy.examples")
    def command(
        # `readable=False`: Typer would end at the first file that may not be read.
        files: Annotated[
            list[Path],
            typer.Argument(metavar="FILE...", help="anatomy.files", readable=False),
        ],
        why: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--why", metavar="CONCEPT", help="anatomy.why", show_default=False),
        ] = None,
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(files, why=why, format=format.value, lang=i18n.language())


def run(
    files: Sequence[Path],
    *,
    why: str | None = None,
    format: str = "text",  # noqa: A002
    lang: str = "en",
) -> int:
    """Print what the files do. 3 when a file that was named, or every file, was not read."""
    catalogue = load_catalogue(find_project(Path.cwd()))
    concept = known_concept(catalogue, why, lang).id if why else None
    outcomes: list[Outcome] = []
    for outcome in read_all(files):
        outcomes.append(outcome)
        if isinstance(outcome, Unread):
            _complain(outcome, lang)
        elif format != "json":
            if len(outcomes) > 1:
                emit("")
            write("anatomy", assemble(outcome, catalogue, concept, lang), format, lang)
    if format == "json":
        emit(document("srcmap-anatomy", as_values(outcomes, concept, lang)))
    emit(_counts(outcomes, lang), sys.stderr)
    read = sum(isinstance(outcome, Read) for outcome in outcomes)
    return 0 if read == len(outcomes) and read else 3


# -- reading ---------------------------------------------------------------------------------


def read_all(files: Sequence[Path]) -> Iterator[Outcome]:
    """Read files, and those in folders; what cannot be read is an outcome and stops nothing."""
    seen: set[str] = set()
    for start in files:
        for path in _files_in(start):
            if isinstance(path, Unread):
                yield path
            elif (real := os.path.realpath(path)) not in seen:
                seen.add(real)
                yield _read(path)


def _files_in(start: Path) -> Iterator[Path | Unread]:
    shown = _shown(start)
    try:
        mode = start.stat().st_mode
    except (OSError, ValueError) as error:
        yield Unread(shown, _why(error))
        return
    if stat.S_ISREG(mode):
        yield start
    elif not stat.S_ISDIR(mode):
        yield Unread(shown, Note("anatomy.not-a-file"))
    else:
        yield from _walk(start)


def _walk(folder: Path) -> Iterator[Path | Unread]:
    """Look through a folder; links to folders are not followed, so there is no cycle."""
    problems: list[OSError] = []
    found = 0
    for parent, folders, names in os.walk(folder, onerror=problems.append):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in sorted(names):
            if name.endswith(SUFFIXES):
                found += 1
                yield Path(parent, name)
    for problem in problems:
        yield Unread(_shown(Path(str(problem.filename))), _why(problem))
    if not found and not problems:
        yield Unread(_shown(folder), Note("anatomy.empty-folder"))


def _read(path: Path) -> Outcome:
    from srcmap.anatomy import read_source

    shown = _shown(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe or a device may never end
            return Unread(shown, Note("anatomy.not-a-file"))
        data = path.read_bytes()
        return Read(
            shown, read_source(data, shown, collect.neighbour_of(path)), collect.source_lines(data)
        )
    except OSError as error:
        return Unread(shown, _why(error))
    except ParseError as error:
        return Unread(shown, Note("anatomy.unreadable", {"why": _short(error.message)}))
    except (RecursionError, MemoryError) as error:
        return Unread(shown, Note("anatomy.unreadable", {"why": type(error).__name__}))


def _why(error: OSError | ValueError) -> Note:
    if isinstance(error, FileNotFoundError):
        return Note("anatomy.no-such")
    text = getattr(error, "strerror", None) or str(error)
    return Note("anatomy.unreadable", {"why": text})


def _shown(path: Path) -> str:
    """Write a path as text: file names are bytes and need not be UTF-8."""
    return os.fsencode(path).decode("utf-8", errors="replace")


def _short(message: str, limit: int = 300) -> str:
    text = " ".join(message.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _complain(outcome: Unread, lang: str) -> None:
    why = i18n.say(outcome.why, lang)
    line = i18n.text("anatomy.problem", lang, path=visible(outcome.path), why=visible(why))
    emit(i18n.text("cli.error", lang) + line, sys.stderr)


def _counts(outcomes: Sequence[Outcome], lang: str) -> str:
    read = [outcome for outcome in outcomes if isinstance(outcome, Read)]
    kernels = [k for outcome in read for k in outcome.anatomy.kernels]
    line = i18n.text(
        "anatomy.counts",
        lang,
        read=len(read),
        all=len(outcomes),
        kernels=sum(k.kind != "file" for k in kernels),
        concepts=sum(len(k.sites) for k in kernels),
    )
    skipped = len(outcomes) - len(read)
    return line + (i18n.text("anatomy.counts-skipped", lang, skipped=skipped) if skipped else "")


# -- JSON ------------------------------------------------------------------------------------


def as_values(outcomes: Sequence[Outcome], concept: str | None, lang: str) -> dict[str, Any]:
    """Return the JSON: kernels of all files in one list, and each file with what ailed it."""
    return {
        "kernels": [
            _kernel_values(kernel, outcome.path, concept, lang)
            for outcome in outcomes
            if isinstance(outcome, Read)
            for kernel in outcome.anatomy.kernels
        ],
        "files": [_file_values(outcome, lang) for outcome in outcomes],
    }


def _file_values(outcome: Outcome, lang: str) -> dict[str, Any]:
    if isinstance(outcome, Unread):
        return {"path": outcome.path, "read": False, "problems": [_said(outcome.why, lang)]}
    problems = [_said(note, lang) for note in outcome.anatomy.problems]
    language = outcome.anatomy.language
    return {"path": outcome.path, "read": True, "language": language, "problems": problems}


def _kernel_values(
    kernel: KernelAnatomy, path: str, concept: str | None, lang: str
) -> dict[str, Any]:
    return {
        "qualname": kernel.qualname,
        "path": path,
        "kind": kernel.kind,
        "lines": kernel.lines,
        "concepts": [_site_values(site, concept, lang) for site in kernel.sites],
        "absent": [
            {"concept": a.concept, "judged": a.judged, "reason": _said(a.reason, lang)}
            for a in kernel.absences
        ],
        "ambiguous": [
            {
                "concept": a.concept,
                "site": a.label,
                "reason": _said(a.reason, lang),
                "candidates": [_site_values(site, None, lang) for site in a.candidates],
            }
            for a in kernel.ambiguities
        ],
        "unread": [{"name": call.name, "lines": call.lines} for call in kernel.unread],
        "statements": [{"lines": deed.lines, "roles": deed.roles} for deed in kernel.deeds],
    }


def _site_values(site: Site, concept: str | None, lang: str) -> dict[str, Any]:
    values = {
        "concept": site.concept,
        "site": site.label,
        "lines": site.lines,
        "context": site.context,
        "qualname": site.qualname,
        "confidence": site.confidence,
        "detail": site.detail,
    }
    if site.concept == concept:
        values["proof"] = [{**_said(p.note, lang), "lines": p.lines} for p in site.proof]
    return values


def _said(note: Note, lang: str) -> dict[str, Any]:
    return {"key": note.key, "args": note.args, "text": i18n.say(note, lang)}


# -- the page --------------------------------------------------------------------------------


def assemble(read: Read, catalogue: Catalogue, concept: str | None, lang: str) -> ReadFile:
    """Return the page of one file; with `concept`, only what proves it."""
    anatomy = read.anatomy
    roles = collect.roles_by_line(anatomy, lang)
    page = _Page(read, catalogue, concept, lang, roles)
    problems = [i18n.say(note, lang) for note in anatomy.problems]
    kernels = sum(kernel.kind != "file" for kernel in anatomy.kernels)
    if not anatomy.kernels:
        problems.append(i18n.text("anatomy.none", lang))
    return ReadFile(
        path=read.path,
        title=i18n.text("anatomy.file", lang, language=anatomy.language, count=kernels),
        kernels=tuple(page.kernel(kernel) for kernel in anatomy.kernels),
        problems=tuple(problems),
    )


class _Page:
    """Kernels of one file, turned into what renderers take."""

    def __init__(
        self,
        read: Read,
        catalogue: Catalogue,
        concept: str | None,
        lang: str,
        roles: dict[int, tuple[str, ...]],
    ) -> None:
        self._read = read
        self._catalogue = catalogue
        self._concept = concept
        self._lang = lang
        self._roles = roles

    def kernel(self, kernel: KernelAnatomy) -> ReadKernel:
        rows = [
            *(self._site(site) for site in kernel.sites),
            *(self._ambiguity(doubt) for doubt in kernel.ambiguities),
            *(self._absence(absence) for absence in kernel.absences),
        ]
        if self._concept is not None:
            rows = [row for row in rows if row.concept == self._concept] or [self._silence()]
        kind = i18n.text(f"anatomy.kind.{kernel.kind}", self._lang)
        named = {"name": kernel.qualname, "kind": kind, "lines": kernel.lines}
        return ReadKernel(
            title=i18n.text("anatomy.kernel", self._lang, **named),
            code=() if self._concept else self._code(kernel),
            rows=tuple(rows),
            unread=tuple(f"{self._place(call.lines)}  {call.name}" for call in kernel.unread),
            proofs=tuple(self._proofs(kernel)),
        )

    def _code(self, kernel: KernelAnatomy) -> tuple[CodeLine, ...]:
        """Show the kernel, and what belongs to it elsewhere; of a whole file only the places."""
        own = [] if kernel.kind == "file" else [kernel.lines]
        runs = [*own, *(site.lines for site in kernel.sites)]
        return collect.code(self._read.lines, self._roles, runs)

    def _place(self, lines: Lines) -> Place:
        return Place(path=self._read.path, lines=lines)

    def _what(self, concept: str) -> str:
        found = self._catalogue.concept(concept)
        return found.what.in_language(self._lang) if found else ""

    def _site(self, site: Site) -> Row:
        return Row(
            concept=site.concept,
            site=site.label,
            status="found",
            what=self._what(site.concept),
            place=self._place(site.lines),
            detail=site.detail,
            unsure=collect.unsure(site.confidence, self._lang),
        )

    def _ambiguity(self, doubt: Ambiguity) -> Row:
        return Row(
            concept=doubt.concept,
            site=doubt.label,
            status="ambiguous",
            what=self._what(doubt.concept),
            candidates=tuple(self._place(site.lines) for site in doubt.candidates),
            reason=i18n.say(doubt.reason, self._lang),
        )

    def _absence(self, absence: Absence) -> Row:
        why = i18n.say(absence.reason, self._lang)
        if not absence.judged:
            why = i18n.text("anatomy.not-judged", self._lang, why=why)
        status: Any = "absent" if absence.judged else "missing"
        return Row(concept=absence.concept, site="", status=status, what="", reason=why)

    def _silence(self) -> Row:
        why = i18n.text("anatomy.silent", self._lang)
        return Row(concept=self._concept or "", site="", status="missing", what="", reason=why)

    def _proofs(self, kernel: KernelAnatomy) -> Iterator[tuple[str, tuple[str, ...]]]:
        if self._concept is None:
            return
        for site in kernel.sites:
            if site.concept == self._concept:
                chain = [
                    f"{self._place(p.lines)}  {i18n.say(p.note, self._lang)}" for p in site.proof
                ]
                none = i18n.text("anatomy.no-premise", self._lang)
                yield str(self._place(site.lines)), tuple(chain or [none])
