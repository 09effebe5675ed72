"""`srcmap search TEXT`: variants, concepts, files, functions and notes, found by words."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.diff import spots
from srcmap.commands.options import Format, FormatOption, Lang, Pin, Repo
from srcmap.errors import UsageError
from srcmap.lock import find_project, known_locks
from srcmap.render import contrast_pages as page
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.write import write
from srcmap.searching import items, search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.catalogue import Catalogue, Text
    from srcmap.searching import Match


def register(app: typer.Typer) -> None:
    """Add `srcmap search`."""

    @app.command("search", help="search.help", epilog="search.examples")
    def command(
        text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="search.text")],
        pin: Pin = None,
        repo: Repo = None,
        limit: Annotated[
            int, typer.Option("--limit", metavar="N", min=1, max=1000, help="search.limit")
        ] = 12,
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        asked = " ".join(text)
        return run(
            asked, pin=pin, repo=repo, limit=limit, format=format.value, lang=i18n.language()
        )


def run(
    asked: str,
    *,
    pin: str | None = None,
    repo: str | None = None,
    limit: int = 12,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print what is like the words; 1 when nothing is."""
    if not asked.strip():
        raise UsageError(i18n.text("search.empty", lang), slug="usage")
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    pins = collect.chosen_pins(known_locks(project), repo, pin)
    found = collect.entries(pins, project)
    places = [entry for *_, rows in found for entry in rows]
    matches = search(asked, items(catalogue, places))
    if format == "json":
        facts = [_fact(match, pins, lang) for match in matches[:limit]]
        emit(document("srcmap-search", {"asked": asked, "all": len(matches), "hits": facts}))
    else:
        write("search", _page(asked, matches, limit, catalogue, pins, lang), format, lang)
    return 0 if matches else 1


def _page(
    asked: str,
    matches: Sequence[Match],
    limit: int,
    catalogue: Catalogue,
    pins: Sequence[collect.Pinned],
    lang: str,
) -> page.SearchPage:
    shown = matches[:limit]
    counts = {"count": len(shown), "all": len(matches), "text": asked}
    remarks = []
    if not matches:
        remarks.append(i18n.text("search.nothing", lang, text=asked))
    elif len(matches) > limit:
        remarks.append(i18n.text("search.more-hits", lang))
    return page.SearchPage(
        title=i18n.text("search.title", lang, **counts),
        hits=tuple(_hit(match, catalogue, pins, lang) for match in shown),
        remarks=tuple(remarks),
    )


def _hit(match: Match, catalogue: Catalogue, pins: Sequence[collect.Pinned], lang: str) -> page.Hit:
    item = match.item
    pin = next((p for p in pins for e in item.entries if _of(e.repo, e.pin, p)), None)
    return page.Hit(
        kind=i18n.text(f"search.{item.kind}", lang),
        name=item.name,
        text=match.prose.in_language(lang) if match.prose else _about(match, catalogue, lang),
        command=_command(match),
        spots=spots(item.entries, pin, lang) if pin is not None else (),
    )


def _of(repo: str, version: str, pin: collect.Pinned) -> bool:
    return (repo, version) == (pin[0].name, pin[1].version)


def _about(match: Match, catalogue: Catalogue, lang: str) -> str:
    """Say what it is, when it was found by its name."""
    item = match.item
    variant = catalogue.variant(item.name) if item.kind == "variant" else None
    concept = catalogue.concept(item.name) if item.kind == "concept" else None
    if variant is not None:
        return _titled(variant.name, variant.summary, lang)
    if concept is not None:
        return _titled(concept.name, concept.what, lang)
    return ""


def _titled(name: Text, prose: Text, lang: str) -> str:
    colon = "：" if lang == "zh" else ": "
    return f"{name.in_language(lang)}{colon}{prose.in_language(lang)}"


def _command(match: Match) -> str:
    item = match.item
    if item.kind == "file":
        return f"srcmap where {shlex.quote(item.name)}"
    if item.kind == "function":
        return ""
    return f"srcmap {'concept' if item.kind == 'concept' else 'variant'} {item.name}"


def _fact(match: Match, pins: Sequence[collect.Pinned], lang: str) -> dict[str, Any]:
    item = match.item
    entries = [
        row
        for pin in pins
        for row in collect.json_entries(
            [(*pin, [e for e in item.entries if _of(e.repo, e.pin, pin)])], lang
        )
    ]
    return {
        "kind": item.kind,
        "name": item.name,
        "score": round(match.score, 1),
        "text": match.prose,
        "entries": entries,
    }
