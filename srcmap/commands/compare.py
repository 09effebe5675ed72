"""`srcmap compare VARIANT`: NVIDIA and Ascend side by side, concept by concept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.diff import spots
from srcmap.commands.names import known_variant
from srcmap.commands.options import Format, FormatOption, Lang
from srcmap.contrast import by_file
from srcmap.errors import UsageError
from srcmap.lock import find_project, known_locks
from srcmap.render import contrast_pages as page
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.catalogue import Catalogue, Variant
    from srcmap.lock import Lock
    from srcmap.mapfile import Entry

MACHINES = {"tilelang": "nvidia", "tilelang-ascend": "ascend"}
"""By repository; what is in neither (a fork) stands under its own name."""


class Side(NamedTuple):
    """One file of a variant at one pin."""

    variant: Variant
    pin: collect.Pinned
    entries: list[Entry]

    def does(self) -> set[str]:
        """Return the concepts that are found in it."""
        return {e.concept for e in self.entries if e.status == "found"}

    def places(self, concept: str) -> tuple[Entry, ...]:
        """Return the places that do it, in the order of the file."""
        found = [e for e in self.entries if e.concept == concept and e.lines is not None]
        return tuple(sorted(found, key=collect.by_line))


class Faced(NamedTuple):
    """A variant and its counterpart."""

    left: Side
    right: Side
    remarks: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Add `srcmap compare`."""

    @app.command("compare", help="compare.help", epilog="compare.examples")
    def command(
        variant: Annotated[str, typer.Argument(metavar="VARIANT", help="variant.name")],
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(variant, format=format.value, lang=i18n.language())


def run(
    name: str,
    *,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print both sides; 1 when one of them is known not to have it, 3 when no map knows."""
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    variant = known_variant(catalogue, name, lang)
    meeting = _Meeting(catalogue, known_locks(project), project, lang)
    pairs = [pair for pair in meeting.pairs(variant) if pair is not None]
    if format == "json":
        emit(document("srcmap-compare", _facts(catalogue, variant, pairs, lang)))
    else:
        write("compare", _page(catalogue, variant, pairs, meeting, lang), format, lang)
    return 0 if pairs else 1


class _Meeting:
    """Finds what stands on the other side."""

    def __init__(
        self, catalogue: Catalogue, locks: Sequence[Lock], project: Path | None, lang: str
    ) -> None:
        self._catalogue, self._locks = catalogue, locks
        self._project, self._lang = project, lang
        self.missed: list[str] = []

    def pairs(self, variant: Variant) -> Iterator[Faced | None]:
        """Yield the variant beside each of its counterparts, or beside what its base faces.

        UsageError for a variant that has nothing on the other side, nor any of its bases.
        """
        asked, remarks = variant, []
        while not (others := self._counterparts(asked)):
            base = self._catalogue.variant(asked.base or "")
            if base is None:
                raise UsageError(
                    i18n.text("compare.none", self._lang, name=variant.id),
                    slug="no-counterpart",
                    hint=i18n.text("compare.those-with", self._lang, names=self._those_with()),
                )
            remarks = [self._say("compare.by-base", name=variant.id, base=base.id)]
            asked = base
        for other in others:
            yield self._pair(variant, other, remarks)

    def _counterparts(self, variant: Variant) -> list[Variant]:
        named = [v for name in variant.counterparts if (v := self._catalogue.variant(name))]
        naming = [v for v in self._catalogue.variants if variant.id in v.counterparts]
        return list({v.id: v for v in (*named, *naming)}.values())

    def _those_with(self) -> str:
        return ", ".join(v.id for v in self._catalogue.variants if v.counterparts)

    def _pair(self, variant: Variant, other: Variant, remarks: list[str]) -> Faced | None:
        mine = self._files(variant)
        if not mine:
            self._miss([self._not_there(variant)])
            return None
        met, gone = self._there(other)
        if met is None:
            self._miss(gone)
            return None
        theirs = self._files(met)
        left, right = _most_alike(mine, theirs)
        notes = [*remarks, *gone]
        notes += self._others(variant, mine, left) + self._others(met, theirs, right)
        sides = sorted((left, right), key=lambda side: side.pin[0].name != "tilelang")
        return Faced(sides[0], sides[1], tuple(notes))

    def _miss(self, reasons: list[str]) -> None:
        self.missed += [reason for reason in reasons if reason not in self.missed]

    def _there(self, other: Variant) -> tuple[Variant | None, list[str]]:
        """Return the counterpart, or the next of its bases that these pins have."""
        gone: list[str] = []
        met: Variant | None = other
        repos = {request.repo for request in other.files}
        while met is not None and not self._files(met):
            gone.append(self._not_there(met))
            met = self._catalogue.variant(met.base or "")
            if met is not None and not repos & {request.repo for request in met.files}:
                met = None
        if met is not None and gone:
            gone.append(self._say("compare.instead", name=met.id))
        return met, gone

    def _not_there(self, variant: Variant) -> str:
        for lock, pin, entries in self._entries(variant):
            reason = next((e.reason for e in entries if e.reason is not None), None)
            if reason is not None:
                where = f"{lock.name} {pin.version}"
                why = i18n.say(reason, self._lang)
                return self._say("compare.not-there", name=variant.id, where=where, why=why)
        return self._say("compare.not-mapped", name=variant.id)

    def _files(self, variant: Variant) -> list[Side]:
        """Return the variant's files that do something, those with most concepts first."""
        sides = [
            Side(variant, (lock, pin), entries)
            for lock, pin, found in self._entries(variant)
            for entries in by_file(found)
            if any(e.status == "found" for e in entries)
        ]
        order = [path for f in variant.files for path in (f.path, *f.also)]
        return sorted(sides, key=lambda s: order.index(s.entries[0].path)
                      if s.entries[0].path in order else len(order))  # fmt: skip

    def _entries(self, variant: Variant) -> list[collect.PinEntries]:
        pins = collect.pins_of(variant, self._locks, None, None, self._lang)
        return collect.entries(pins, self._project, variant.id)

    def _others(self, variant: Variant, sides: list[Side], shown: Side) -> list[str]:
        paths = [s.entries[0].path for s in sides if s is not shown]
        if not paths:
            return []
        return [self._say("compare.also", name=variant.id, paths=", ".join(paths))]

    def _say(self, key: str, **args: str) -> str:
        return i18n.text(key, self._lang, **args)


def _most_alike(mine: list[Side], theirs: list[Side]) -> tuple[Side, Side]:
    """Choose the two files that do most of the same; of equals the first of the catalogue."""
    pairs = [(left, right) for left in mine for right in theirs]
    return max(pairs, key=lambda pair: len(pair[0].does() & pair[1].does()))


# -- saying it -------------------------------------------------------------------------------


def _page(
    catalogue: Catalogue,
    variant: Variant,
    pairs: Sequence[Faced],
    meeting: _Meeting,
    lang: str,
) -> page.ComparePage:
    repos = [side.pin[0].name for side in (pairs[0].left, pairs[0].right)] if pairs else ["", ""]
    left, right = (machine(repo, lang) for repo in repos)
    return page.ComparePage(
        title=f"{variant.id}  {variant.name.in_language(lang)}",
        what=variant.summary.in_language(lang),
        machines=(left, right),
        pairs=tuple(_pair(catalogue, pair, lang) for pair in pairs),
        remarks=tuple(meeting.missed),
    )


def machine(repo: str, lang: str) -> str:
    """Say for which machine a repository is."""
    known = MACHINES.get(repo)
    return i18n.text(f"compare.{known}", lang) if known else repo


def _pair(catalogue: Catalogue, pair: Faced, lang: str) -> page.Pair:
    left, right = pair.left, pair.right
    rows = [_row(catalogue, pair, concept, lang) for concept in _concepts(catalogue, pair)]
    parts = [
        ("compare.both", "", [r for r in rows if r.left and r.right]),
        ("compare.only", left.pin[0].name, [r for r in rows if not r.right]),
        ("compare.only", right.pin[0].name, [r for r in rows if not r.left]),
    ]
    remarks = [*pair.remarks]
    for side in (left, right):
        remarks += collect.pin_remarks(side.pin, lang)
    return page.Pair(
        names=(left.variant.id, right.variant.id),
        pins=(_pin(left), _pin(right)),
        paths=(left.entries[0].path, right.entries[0].path),
        parts=tuple(
            (i18n.text(key, lang, machine=machine(repo, lang)), tuple(below))
            for key, repo, below in parts
            if below
        ),
        remarks=tuple(remarks),
    )


def _pin(side: Side) -> str:
    return f"{side.pin[0].name} {side.pin[1].version}"


def _concepts(catalogue: Catalogue, pair: Faced) -> list[str]:
    """List what either side does, in reading order."""
    found = [e.concept for side in (pair.left, pair.right) for e in side.entries if e.lines]
    order = catalogue.concept_order()
    return sorted(set(found), key=lambda name: order.get(name, len(order)))


def _row(catalogue: Catalogue, pair: Faced, concept: str, lang: str) -> page.Facing:
    left, right = (side.places(concept) for side in (pair.left, pair.right))
    empty = pair.right if not right else pair.left if not left else None
    known = catalogue.concept(concept)
    return page.Facing(
        concept=concept,
        what=known.what.in_language(lang) if known else "",
        left=spots(left, pair.left.pin, lang),
        right=spots(right, pair.right.pin, lang),
        why=_why_not(catalogue, empty, concept, lang) if empty is not None else "",
    )


def _why_not(catalogue: Catalogue, side: Side, concept: str, lang: str) -> str:
    """Say why a side has none: the variant's word, the machine's, or the premise that failed."""
    lack = side.variant.lack(concept)
    if lack is not None and lack.why is not None:
        return lack.why.in_language(lang)
    known = catalogue.concept(concept)
    if known is not None and known.alone is not None:
        return known.alone.in_language(lang)
    entry = next((e for e in side.entries if e.concept == concept), None)
    if entry is not None and entry.reason is not None:
        return i18n.say(entry.reason, lang)
    return i18n.text("compare.never-asked", lang, name=side.variant.id)


# -- JSON ------------------------------------------------------------------------------------


def _facts(
    catalogue: Catalogue, variant: Variant, pairs: Sequence[Faced], lang: str
) -> dict[str, Any]:
    def side(one: Side) -> dict[str, Any]:
        repo, version = one.pin[0].name, one.pin[1].version
        path = one.entries[0].path
        return {"variant": one.variant.id, "repo": repo, "pin": version, "path": path}

    def rows(pair: Faced) -> Iterator[dict[str, Any]]:
        for concept in _concepts(catalogue, pair):
            places = {"left": pair.left, "right": pair.right}
            yield {
                "concept": concept,
                **{
                    name: collect.json_entries([(*one.pin, one.places(concept))], lang)
                    for name, one in places.items()
                },
                "why": _row(catalogue, pair, concept, lang).why or None,
            }

    return {
        "variant": variant.id,
        "pairs": [
            {
                "left": side(pair.left),
                "right": side(pair.right),
                "remarks": pair.remarks,
                "concepts": list(rows(pair)),
            }
            for pair in pairs
        ],
    }
