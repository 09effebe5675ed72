"""`srcmap diff VARIANT`: what a variant does otherwise than its base, by role and not by text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.names import known_variant
from srcmap.commands.options import Format, FormatOption, Lang, Pin, Repo
from srcmap.contrast import (
    CODE_ONLY,
    Difference,
    FilePair,
    by_file,
    differences,
    partner,
    request_of,
)
from srcmap.errors import UsageError
from srcmap.lock import find_project, known_locks
from srcmap.render import contrast_pages as page
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.catalogue import Catalogue, Text, Variant
    from srcmap.lock import Lock
    from srcmap.mapfile import Entry

MARKS = {
    "added": "+",
    "changed": "~",
    "dropped": "-",
    "rewritten": "=",
    "disabled": "#",
    "unjudged": "?",
}
CHANGES = ("added", "changed", "dropped")
"""The kinds that make the variant another one."""
_SUFFIXES = (".py", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".md")


class Compared(NamedTuple):
    """One file of a variant set against one of its base."""

    pin: collect.Pinned
    base: Variant
    base_pin: collect.Pinned
    pair: FilePair
    found: tuple[Difference, ...]

    @property
    def changes(self) -> list[Difference]:
        """What makes the variant another one: added first, then changed, then dropped."""
        return [d for kind in CHANGES for d in self.found if d.kind == kind]


def register(app: typer.Typer) -> None:
    """Add `srcmap diff`."""

    @app.command("diff", help="diff.help", epilog="diff.examples")
    def command(
        variant: Annotated[str, typer.Argument(metavar="VARIANT|FILE", help="diff.name")],
        base: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--base", metavar="VARIANT|FILE", help="diff.base", show_default=False),
        ] = None,
        pin: Pin = None,
        repo: Repo = None,
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(
            variant, base=base, pin=pin, repo=repo, format=format.value, lang=i18n.language()
        )


def run(
    name: str,
    *,
    base: str | None = None,
    pin: str | None = None,
    repo: str | None = None,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print what differs; 1 or 3 when these pins have none of the variant."""
    if is_path(name) or (base is not None and is_path(base)):
        from srcmap.commands import diff_files  # only who compares files pays for reading them

        pinned = pin is not None or repo is not None
        return diff_files.run(name, base, pinned=pinned, format=format, lang=lang)
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    variant = known_variant(catalogue, name, lang)
    other = _base(catalogue, variant, base, lang)
    locks = known_locks(project)
    found = collect.entries(collect.pins_of(variant, locks, repo, pin, lang), project, variant.id)
    blocks = compared(catalogue, variant, other, found, locks, project)
    if format == "json":
        emit(document("srcmap-diff", _facts(variant, other, blocks, lang)))
    else:
        write("diff", _page(catalogue, variant, other, blocks, found, lang), format, lang)
    return collect.exit_code(found)


def is_path(word: str) -> bool:
    """Whether a word can only be meant as a file: no variant is called so."""
    return "/" in word or os.sep in word or word.endswith(_SUFFIXES)


def _base(catalogue: Catalogue, variant: Variant, asked: str | None, lang: str) -> Variant:
    if asked is not None:
        return known_variant(catalogue, asked, lang)
    base = catalogue.variant(variant.base or "")
    if base is None:
        raise UsageError(
            i18n.text("diff.no-base", lang, name=variant.id),
            slug="no-base",
            hint=i18n.text("diff.name-base", lang, name=variant.id),
        )
    return base


def compared(
    catalogue: Catalogue,
    variant: Variant,
    base: Variant,
    found: Sequence[collect.PinEntries],
    locks: Sequence[Lock],
    project: Path | None,
) -> list[Compared]:
    """Set each file of the variant against the base's, at the same pin where the base is there."""
    blocks = []
    for lock, pin, entries in found:
        base_pin = _base_pin(base, (lock, pin), locks)
        old = _entries_of(base, base_pin, project)
        for after in by_file(entries):
            if not any(e.status == "found" for e in after):
                continue
            whole = _whole_file(catalogue, variant, base, after[0].path)
            before = _entries_of(whole, base_pin, project) if whole is not base else old
            pair = FilePair(partner(after, before), after)
            differing = _in_order(catalogue, variant, differences(variant, whole, pair))
            blocks.append(Compared((lock, pin), whole, base_pin, pair, tuple(differing)))
    return blocks


def _entries_of(variant: Variant, pin: collect.Pinned, project: Path | None) -> Sequence[Entry]:
    return collect.entries([pin], project, variant.id)[0][2]


def _whole_file(catalogue: Catalogue, variant: Variant, base: Variant, path: str) -> Variant:
    """Return what one arm of a test is compared with: a variant that is the whole of its file."""
    request = request_of(variant, path)
    if variant.base != base.id or request is None or not request.branch:
        return base
    if any(path in (f.path, *f.also) for f in base.files):
        return base
    others = (v for v in catalogue.variants for f in v.files if f.path == path and not f.branch)
    return next(others, base)


def _base_pin(base: Variant, pin: collect.Pinned, locks: Sequence[Lock]) -> collect.Pinned:
    repos = {request.repo for request in base.files}
    if pin[0].name in repos:
        return pin
    return next(((lock, lock.current_pin) for lock in locks if lock.name in repos), pin)


def _in_order(
    catalogue: Catalogue, variant: Variant, found: Iterable[Difference]
) -> list[Difference]:
    by_concept = {difference.concept: difference for difference in found}
    return [by_concept[concept] for concept in catalogue.in_order(variant, by_concept)]


# -- saying it -------------------------------------------------------------------------------


def summary(block: Compared, lang: str) -> str:
    """Say in one line what changed: how many places, and which."""
    base = block.base
    changes = block.changes
    if not changes:
        return i18n.text("diff.summary-none", lang, base=base.id)
    parts = []
    for kind in CHANGES:
        names = [d.concept for d in changes if d.kind == kind]
        if names:
            parts.append(f"{MARKS[kind]} {', '.join(names)}")
    places = "; ".join(parts)
    return i18n.text("diff.summary", lang, count=len(changes), base=base.id, places=places)


def _page(
    catalogue: Catalogue,
    variant: Variant,
    base: Variant,
    blocks: Sequence[Compared],
    found: Sequence[collect.PinEntries],
    lang: str,
) -> page.DiffPage:
    remarks = [] if blocks else _nothing(variant, found, lang)
    return page.DiffPage(
        title=i18n.text("diff.title", lang, name=variant.id, base=base.id),
        what=variant.summary.in_language(lang),
        blocks=tuple(_block(catalogue, variant, block, lang) for block in blocks),
        remarks=tuple(remarks),
    )


def _nothing(variant: Variant, found: Sequence[collect.PinEntries], lang: str) -> list[str]:
    """Say why there is nothing to compare: the reasons of the map, or that there is no map."""
    remarks = []
    for lock, pin, entries in found:
        reasons = [i18n.say(e.reason, lang) for e in entries if e.reason is not None]
        said = reasons or [collect.no_map((lock, pin), lang)]
        where = f"{lock.name} {pin.version}"
        remarks += [i18n.text("diff.nothing", lang, name=variant.id, where=where, why=said[0])]
    return remarks


def _block(catalogue: Catalogue, variant: Variant, block: Compared, lang: str) -> page.DiffBlock:
    said = _Voice(catalogue, variant, block, lang)
    parts = [
        (i18n.text("diff.differs", lang, count=len(block.changes)), said.changes(block.changes)),
        (i18n.text("diff.rewritten", lang), said.changes(said.of("rewritten"))),
        (i18n.text("diff.disabled", lang), said.changes(said.of("disabled"))),
        (i18n.text("diff.unjudged", lang), said.changes(said.of("unjudged"))),
    ]
    same = [d.concept for d in said.of("same")]
    remarks = [*collect.pin_remarks(block.pin, lang)]
    if not block.pair.before:
        remarks.append(i18n.text("diff.base-missing", lang, base=block.base.id))
    heading = "  ".join(
        f"{lock.name} {pin.version}" for lock, pin in dict.fromkeys((block.pin, block.base_pin))
    )
    return page.DiffBlock(
        heading=heading,
        names=(variant.id, block.base.id),
        paths=(block.pair.after[0].path, block.pair.before[0].path if block.pair.before else ""),
        parts=tuple((head, rows) for head, rows in parts if rows),
        same=i18n.text(_alike(block), lang, concepts=", ".join(same)) if same else "",
        remarks=tuple(remarks),
    )


def _alike(block: Compared) -> str:
    """Say no more of two dialects than that the roles are the same."""
    foreign = block.pin[0].name != block.base_pin[0].name
    return "diff.same-role" if foreign else "diff.same"


class _Voice:
    """Says the differences of one block."""

    def __init__(self, catalogue: Catalogue, variant: Variant, block: Compared, lang: str) -> None:
        self._catalogue, self._variant = catalogue, variant
        self._block, self._lang = block, lang

    def of(self, kind: str) -> list[Difference]:
        return [d for d in self._block.found if d.kind == kind]

    def changes(self, found: Iterable[Difference]) -> tuple[page.Change, ...]:
        return tuple(map(self._change, found))

    def _change(self, found: Difference) -> page.Change:
        return page.Change(
            mark=MARKS[found.kind],
            concept=found.concept,
            why=why(found, self._catalogue, self._variant, self._block, self._lang),
            after=spots(found.after, self._block.pin, self._lang),
            before=spots(found.before, self._block.base_pin, self._lang),
        )


def spots(entries: Iterable[Entry], pin: collect.Pinned, lang: str) -> tuple[page.Spot, ...]:
    """Return the places of entries that were found."""
    return tuple(
        page.Spot(
            place=collect.place(e.path, e.lines, *pin),
            site=e.site,
            detail=e.detail,
            unsure=collect.unsure(e.confidence, lang),
        )
        for e in entries
        if e.lines is not None
    )


def why(
    found: Difference, catalogue: Catalogue, variant: Variant, block: Compared, lang: str
) -> str:
    """Say in one line why: the catalogue's word, else what is known, else what the concept is."""
    if found.kind == "dropped":
        return _why_dropped(found, variant, block, lang)
    if found.kind == "unjudged":
        return _why_unjudged(found, block, lang)
    told = _told(found, variant, block)
    known = [i18n.say(a, lang) for a in found.aspects if a.key not in CODE_ONLY]
    if told is not None:
        return _joined([told.in_language(lang), *known], lang)
    if found.kind == "changed" and not known:
        known = [i18n.say(aspect, lang) for aspect in found.aspects]
    concept = catalogue.concept(found.concept)
    return _joined(known, lang) or (concept.what.in_language(lang) if concept else "")


def _told(found: Difference, variant: Variant, block: Compared) -> Text | None:
    """Return the catalogue's word, which is about the variant's own base."""
    if found.kind not in ("added", "changed"):
        return None
    pair = block.pair
    same_file = bool(pair.before) and pair.before[0].path == pair.after[0].path
    own = same_file or variant.base == block.base.id
    return variant.why.get(found.concept) if own else None


def _joined(sentences: Sequence[str], lang: str) -> str:
    return ("" if lang == "zh" else " ").join(s for s in sentences if s)


def _why_dropped(found: Difference, variant: Variant, block: Compared, lang: str) -> str:
    entry = next((e for e in block.pair.after if e.concept == found.concept), None)
    lack = variant.lack(found.concept)
    if lack is not None and lack.why is not None:
        return lack.why.in_language(lang)
    if entry is not None and entry.reason is not None:
        return i18n.say(entry.reason, lang)
    return i18n.text("diff.not-in-variant", lang)


def _why_unjudged(found: Difference, block: Compared, lang: str) -> str:
    entries = (*block.pair.after, *block.pair.before)
    doubtful = (e for e in entries if e.concept == found.concept and e.reason is not None)
    return next((i18n.say(e.reason, lang) for e in doubtful if e.reason is not None), "")


# -- JSON ------------------------------------------------------------------------------------


def _facts(
    variant: Variant, base: Variant, blocks: Sequence[Compared], lang: str
) -> dict[str, Any]:
    return {
        "variant": variant.id,
        "base": base.id,
        "files": [_file_facts(variant, block, lang) for block in blocks],
    }


def _file_facts(variant: Variant, block: Compared, lang: str) -> dict[str, Any]:
    def side(entries: Sequence[Entry], pin: collect.Pinned) -> dict[str, Any]:
        path = entries[0].path if entries else None
        return {"repo": pin[0].name, "pin": pin[1].version, "path": path}

    def fact(found: Difference) -> dict[str, Any]:
        return {
            "concept": found.concept,
            "kind": found.kind,
            "why": _told(found, variant, block),
            "aspects": [
                {"key": a.key, "args": a.args, "text": i18n.say(a, lang)} for a in found.aspects
            ],
            "after": collect.json_entries([(*block.pin, found.after)], lang),
            "before": collect.json_entries([(*block.base_pin, found.before)], lang),
        }

    return {
        "base": block.base.id,
        "after": side(block.pair.after, block.pin),
        "before": side(block.pair.before, block.base_pin),
        "changed": len(block.changes),
        "differences": [fact(found) for found in block.found],
    }
