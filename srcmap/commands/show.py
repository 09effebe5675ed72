"""`srcmap show VARIANT CONCEPT`: the code of one concept, with what each statement does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.names import known_concept, known_variant
from srcmap.commands.options import Format, FormatOption, Lang, Pin, Repo
from srcmap.lock import find_project, known_locks
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.interface import ShowPage
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.catalogue import Catalogue, Concept, Variant
    from srcmap.render.interface import Excerpt, Row


def register(app: typer.Typer) -> None:
    """Add `srcmap show`."""

    @app.command("show", help="show.help", epilog="show.examples")
    def command(
        variant: Annotated[str, typer.Argument(metavar="VARIANT", help="variant.name")],
        concept: Annotated[str, typer.Argument(metavar="CONCEPT", help="show.concept")],
        pin: Pin = None,
        repo: Repo = None,
        context: Annotated[
            int, typer.Option("--context", metavar="N", min=0, max=1000, help="show.context")
        ] = 2,
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(
            variant,
            concept,
            pin=pin,
            repo=repo,
            context=context,
            format=format.value,
            lang=i18n.language(),
        )


def run(
    variant: str,
    concept: str,
    *,
    pin: str | None = None,
    repo: str | None = None,
    context: int = 2,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print the code; 1 when the variant does not do this, 3 when no map knows."""
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    meant = known_variant(catalogue, variant, lang)
    thing = known_concept(catalogue, concept, lang)
    chosen = collect.pins_of(meant, known_locks(project), repo, pin, lang)
    found = [
        (lock, p, [e for e in rows if e.concept == thing.id])
        for lock, p, rows in collect.entries(chosen, project, meant.id)
    ]
    reader = collect.Reader(project)
    if format == "json":
        rows = collect.json_entries(found, lang, reader)
        emit(document("srcmap-show", {"entries": rows}))
    else:
        write("show", _page(meant, thing, found, reader, catalogue, context, lang), format, lang)
    return collect.exit_code(found)


def _page(
    variant: Variant,
    concept: Concept,
    found: Sequence[collect.PinEntries],
    reader: collect.Reader,
    catalogue: Catalogue,
    context: int,
    lang: str,
) -> ShowPage:
    excerpts: list[Excerpt] = []
    remarks: list[str] = []
    for lock, pin, entries in found:
        remarks += collect.pin_remarks((lock, pin), lang)
        for entry in sorted(entries, key=collect.by_line):
            row = collect.row(entry, variant, catalogue, (lock, pin), lang)
            excerpts += _excerpts(row, reader, (lock, pin), context, lang)
            remarks += _absences(row, (lock, pin), lang)
    if not excerpts and not remarks:
        asked = {"variant": variant.id, "concept": concept.id}
        remarks = [i18n.text("show.never-asked", lang, **asked)]
    return ShowPage(
        title=f"{variant.id} {concept.id}  {concept.name.in_language(lang)}",
        what=concept.what.in_language(lang),
        excerpts=tuple(excerpts),
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _excerpts(
    row: Row, reader: collect.Reader, pin: collect.Pinned, context: int, lang: str
) -> list[Excerpt]:
    title = " ".join(part for part in (f"{pin[0].name} {pin[1].version}", row.site) if part)
    if row.status == "ambiguous":
        doubt = i18n.text("page.ambiguous", lang)
        return [
            reader.excerpt(pin, place, f"{title} {doubt}", lang, context)
            for place in row.candidates
        ]
    if row.status != "found" or row.place is None:
        return []
    return [reader.excerpt(pin, row.place, title, lang, context)]


def _absences(row: Row, pin: collect.Pinned, lang: str) -> list[str]:
    if row.status not in ("absent", "missing"):
        return []
    where = f"{pin[0].name} {pin[1].version}"
    word = i18n.text(f"page.{row.status}", lang)
    return [i18n.text("show.not-there", lang, where=where, word=word, why=row.reason)]
