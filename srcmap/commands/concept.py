"""`srcmap concept [NAME]`: one concept across all variants and repositories, or the list."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.diff import spots
from srcmap.commands.names import known_concept
from srcmap.commands.options import Format, FormatOption, Lang, Pin, Repo
from srcmap.lock import find_project, known_locks
from srcmap.render import contrast_pages as page
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.catalogue import Catalogue, Concept
    from srcmap.mapfile import Entry

_DISABLED = "-disabled"


def register(app: typer.Typer) -> None:
    """Add `srcmap concept`."""

    @app.command("concept", help="concept.help", epilog="concept.examples")
    def command(
        name: Annotated[
            Optional[str],  # noqa: UP045
            typer.Argument(metavar="[NAME]", help="show.concept", show_default=False),
        ] = None,
        pin: Pin = None,
        repo: Repo = None,
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(name, pin=pin, repo=repo, format=format.value, lang=i18n.language())


def run(
    name: str | None,
    *,
    pin: str | None = None,
    repo: str | None = None,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print the list of concepts or the page of one; 1 or 3 when no variant here has it."""
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    pins = collect.chosen_pins(known_locks(project), repo, pin)
    found = collect.entries(pins, project)
    if name is None:
        _list(catalogue, found, format, lang)
        return 0
    concept = known_concept(catalogue, name, lang)
    kin = {concept.id, concept.id + _DISABLED}
    mine = [(lock, p, [e for e in rows if e.concept in kin]) for lock, p, rows in found]
    if format == "json":
        facts = {n: getattr(concept, n) for n in ("id", "theme", "name", "what", "alone")}
        rows = collect.json_entries(mine, lang)
        emit(document("srcmap-concept", {"concept": facts, "entries": rows}))
    else:
        write("concept", _page(catalogue, concept, mine, lang), format, lang)
    return collect.exit_code(mine)


def _page(
    catalogue: Catalogue, concept: Concept, found: Sequence[collect.PinEntries], lang: str
) -> page.ConceptPage:
    facts = [(i18n.text("concept.theme", lang), i18n.text(f"concept.of.{concept.theme}", lang))]
    if concept.alone is not None:
        facts.append((i18n.text("concept.alone", lang), concept.alone.in_language(lang)))
    groups, gone = [], []
    remarks: list[str] = []
    for lock, pin, rows in found:
        name = f"{lock.name} {pin.version}"
        remarks += collect.pin_remarks((lock, pin), lang)
        parts = _parts(catalogue, concept, rows, (lock, pin), lang)
        if parts:
            groups.append((name, parts))
        reasons = _reasons(catalogue, concept, rows, lang)
        if reasons:
            gone.append((i18n.text("concept.not-in", lang, pin=name), reasons))
    if not groups and not gone:
        remarks.append(i18n.text("concept.nowhere", lang))
    return page.ConceptPage(
        title=f"{concept.id}  {concept.name.in_language(lang)}",
        what=concept.what.in_language(lang),
        facts=tuple(facts),
        groups=tuple(groups),
        gone=tuple(gone),
        remarks=tuple(dict.fromkeys(remarks)),
    )


def _parts(
    catalogue: Catalogue, concept: Concept, rows: Sequence[Entry], pin: collect.Pinned, lang: str
) -> tuple[tuple[str, tuple[page.Doing, ...]], ...]:
    live = [e for e in rows if e.concept == concept.id and e.status in ("found", "ambiguous")]
    comments = [e for e in rows if e.concept != concept.id and e.status == "found"]
    parts = (("concept.does", live), ("concept.disabled", comments))
    return tuple(
        (i18n.text(key, lang), _doings(catalogue, entries, pin, lang))
        for key, entries in parts
        if entries
    )


def _doings(
    catalogue: Catalogue, entries: Sequence[Entry], pin: collect.Pinned, lang: str
) -> tuple[page.Doing, ...]:
    doings = []
    for variant in catalogue.variants:
        mine = sorted((e for e in entries if e.variant == variant.id), key=collect.by_line)
        doubts = [e for e in mine if e.status == "ambiguous"]
        if mine:
            doings.append(
                page.Doing(
                    variant=variant.id,
                    spots=(*spots(mine, pin, lang), *_candidates(doubts, pin)),
                    doubt=_doubt(doubts, lang),
                )
            )
    return tuple(doings)


def _doubt(entries: Sequence[Entry], lang: str) -> str:
    reasons = [i18n.say(e.reason, lang) for e in entries if e.reason is not None]
    return i18n.text("page.one-of", lang, why=reasons[0]) if reasons else ""


def _candidates(entries: Sequence[Entry], pin: collect.Pinned) -> tuple[page.Spot, ...]:
    return tuple(
        page.Spot(place=collect.place(e.path, c.lines, *pin), site=c.site)
        for e in entries
        for c in e.candidates
    )


def _reasons(
    catalogue: Catalogue, concept: Concept, rows: Sequence[Entry], lang: str
) -> tuple[tuple[str, str], ...]:
    """Take the variants without it together by reason; what stands only in a comment is marked."""
    has = {e.variant for e in rows if e.concept == concept.id and e.status != "absent"}
    comments = {e.variant for e in rows if e.concept != concept.id and e.status == "found"}
    reasons: dict[str, dict[str, None]] = {}
    for entry in rows:
        gone = entry.status in ("absent", "missing") and entry.concept == concept.id
        if not gone or (entry.status == "absent" and entry.variant in has):
            continue
        name = entry.variant
        if name in comments:
            name = i18n.text("concept.as-comment", lang, name=name)
        reasons.setdefault(_why(catalogue, entry, lang), {})[name] = None
    return tuple((reason, ", ".join(names)) for reason, names in reasons.items())


def _why(catalogue: Catalogue, entry: Entry, lang: str) -> str:
    variant = catalogue.variant(entry.variant)
    lack = variant.lack(entry.concept) if variant is not None else None
    if entry.status == "absent" and lack is not None and lack.why is not None:
        return lack.why.in_language(lang)
    return i18n.say(entry.reason, lang) if entry.reason is not None else ""


# -- the list --------------------------------------------------------------------------------


def _list(
    catalogue: Catalogue,
    found: Sequence[collect.PinEntries],
    format: str,  # noqa: A002
    lang: str,
) -> None:
    has: dict[str, set[str]] = {}
    for *_, rows in found:
        for entry in rows:
            if entry.status == "found":
                has.setdefault(entry.concept, set()).add(entry.variant)
    if format == "json":
        facts: list[dict[str, Any]] = [
            {n: getattr(c, n) for n in ("id", "theme", "name", "what")}
            | {"variants": sorted(has.get(c.id, ()))}
            for c in catalogue.concepts
        ]
        emit(document("srcmap-concepts", {"concepts": facts}))
        return
    groups: dict[str, list[page.ListedConcept]] = {}
    for concept in catalogue.concepts:
        count = i18n.text("concept.count", lang, count=len(has.get(concept.id, ())))
        listed = page.ListedConcept(
            id=concept.id,
            name=concept.name.in_language(lang),
            what=concept.what.in_language(lang),
            count=count,
        )
        groups.setdefault(i18n.text(f"concept.of.{concept.theme}", lang), []).append(listed)
    themes = tuple((heading, tuple(listed)) for heading, listed in groups.items())
    hint = i18n.text("concept.list-hint", lang)
    write("concepts", page.ConceptList(groups=themes, remarks=(hint,)), format, lang)
