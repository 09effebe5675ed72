"""Two maps and two trees in, what became of every location of the old map out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from srcmap.drift.classify import classify
from srcmap.drift.nouns import Answer, Guess, Item, Spot
from srcmap.lock import Pin
from srcmap.model import Lines, Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.catalogue import Catalogue
    from srcmap.drift.nouns import Verdict
    from srcmap.drift.sides import Side
    from srcmap.drift.trees import Trees
    from srcmap.lock import Lock
    from srcmap.mapfile import Entry, SourceMap


class SideTree:
    """A side as `mapping.build_map` wants a checkout to be."""

    def __init__(self, lock: Lock, pin: Pin | None, side: Side) -> None:
        self.lock = lock
        label = "".join(c if c.isalnum() or c in "._+-" else "-" for c in side.label)
        self.pin = pin or Pin(version=label, requested=side.label, commit=side.commit)
        self.partial = side.partial
        self._side = side

    def paths(self) -> tuple[str, ...]:
        """List every file of text."""
        return tuple(sorted(self._side.blobs))

    def read(self, path: str) -> bytes:
        """Give the bytes of a file."""
        return self._side.read(path)


def map_of(catalogue: Catalogue, lock: Lock, pin: Pin | None, side: Side) -> SourceMap:
    """Build the map of a tree that need not be a pin."""
    from srcmap.mapping import build_map, default_workers

    return build_map(catalogue, SideTree(lock, pin, side), workers=default_workers())


def chosen(source: SourceMap, variant: str | None, concept: str | None) -> list[Entry]:
    """List the locations of a map that are asked about."""
    return [
        e
        for e in source.entries
        if e.status == "found"
        and e.lines is not None
        and variant in (None, e.variant)
        and concept in (None, e.concept)
    ]


def spot_of(entry: Entry) -> Spot:
    """Give the lines of a location."""
    return Spot(path=entry.path, lines=entry.lines or Lines(1, 1))


# -- with both trees ------------------------------------------------------------------------


class Anatomy:
    """The new map as an opinion of its own."""

    def __init__(self, trees: Trees, after: SourceMap) -> None:
        self._trees = trees
        self._found: dict[tuple[str, str, str], list[Entry]] = {}
        for entry in after.entries:
            if entry.status == "found" and entry.lines is not None:
                self._found.setdefault(_name(entry), []).append(entry)
        self.used: set[tuple[str, str, str, str]] = set()

    def item(self, entry: Entry, answer: Answer) -> Item:
        """Weigh what tracking says of a location against what the new tree's anatomy says."""
        there = self._counterpart(entry, answer)
        if there is not None:
            self.used.add(there.key)
        judged = self._weighed(answer, there)
        return Item(
            kind="entry",
            answer=judged,
            variant=entry.variant,
            concept=entry.concept,
            site=entry.site,
        )

    def _counterpart(self, entry: Entry, answer: Answer) -> Entry | None:
        homes = [
            answer.new.path if answer.new is not None else "",
            self._trees.counterpart(entry.path) or "",
        ]
        found = [e for e in self._found.get(_name(entry), ()) if e.path in homes]
        if not found and answer.new is not None:
            # Halves that became one, or a kernel more: the label is another, the place is not.
            found = [e for e in self._kin(entry) if _meets(spot_of(e), answer.new)]
        if not found:
            alike = [e for e in self._kin(entry) if e.path in homes and _same_but_number(e, entry)]
            found = alike if len(alike) == 1 else []
        if answer.new is not None:
            place = answer.new
            found.sort(key=lambda e: (e.path != place.path, abs(spot_of(e).lines.first
                       - place.lines.first)))  # fmt: skip
        return found[0] if found else None

    def _kin(self, entry: Entry) -> list[Entry]:
        named = self._found.items()
        kin = [rows for name, rows in named if name[:2] == (entry.variant, entry.concept)]
        return [e for rows in kin for e in rows]

    def _weighed(self, answer: Answer, there: Entry | None) -> Answer:
        if answer.methods == ("identical",) or answer.verdict == "unjudged":
            return answer
        if there is None:
            return self._lost(answer)
        place = spot_of(there)
        if answer.new is None or (answer.methods == ("gap",) and answer.new != place):
            return self._found_again(answer, place)
        if answer.new == place:
            methods = (*answer.methods, "anatomy")
            grade = "proposed" if answer.against else "proven"
            return msgspec.structs.replace(
                answer, methods=methods, grade=grade, candidates=() if grade == "proven" else
                answer.candidates)  # fmt: skip
        if answer.new.path == place.path and answer.new.lines.overlap(place.lines) > 0:
            note = Note("drift.anatomy-edges", {"place": str(place)})
            return msgspec.structs.replace(answer, grade="proposed", reason=(*answer.reason, note))
        note = Note("drift.anatomy-elsewhere", {"place": str(place)})
        return _doubted(answer, note)

    def _lost(self, answer: Answer) -> Answer:
        if answer.new is None:
            return answer
        return _doubted(answer, Note("drift.anatomy-lost"))

    def _found_again(self, answer: Answer, place: Spot) -> Answer:
        """Give the place that anatomy alone, or anatomy and a candidate, say."""
        old, new = self._trees.old_text(answer.old.path), self._trees.new_text(place.path)
        text = classify(old, answer.old.lines, new, place.lines)
        agreed = any(g.spot == place for g in answer.candidates)
        verdict: Verdict = "changed"
        if text.kind != "changed":
            verdict = "moved" if text.kind == "exact" else "cosmetic"
            verdict = "moved-file" if place.path != answer.old.path else verdict
        note = Note("drift.anatomy-alone", {"said": answer.verdict})
        return Answer(
            old=answer.old,
            new=place,
            verdict=verdict,
            grade="proposed",
            methods=("lines", "anatomy") if agreed else ("anatomy",),
            against=() if agreed else ("lines",),
            similarity=answer.similarity,
            candidates=answer.candidates,
            reason=(*answer.reason, note),
            what=text.what,
        )

    def new(self, entries: Sequence[Entry]) -> list[Item]:
        """List the locations that only the new map has."""
        return [_new_item(e) for e in entries if e.key not in self.used]


def _meets(one: Spot, other: Spot) -> bool:
    return one.path == other.path and one.lines.overlap(other.lines) > 0


def _same_but_number(one: Entry, other: Entry) -> bool:
    """Whether two sites differ only in the ordinal, which changes as places come and go."""
    words = [[w for w in e.site.split() if not w.startswith("n=")] for e in (one, other)]
    return words[0] == words[1]


def _doubted(answer: Answer, note: Note) -> Answer:
    return msgspec.structs.replace(
        answer,
        grade="proposed",
        against=(*answer.against, "anatomy"),
        reason=(*answer.reason, note),
    )


def _new_item(entry: Entry) -> Item:
    place = spot_of(entry)
    answer = Answer(
        old=place, new=place, verdict="new", grade="proposed", methods=("anatomy",), similarity=0.0
    )
    return Item(
        kind="entry", answer=answer, variant=entry.variant, concept=entry.concept, site=entry.site
    )


def _name(entry: Entry) -> tuple[str, str, str]:
    return (entry.variant, entry.concept, entry.site)


# -- from the maps alone --------------------------------------------------------------------


def from_maps(before: Sequence[Entry], after: SourceMap) -> list[Item]:
    """Compare two maps by their digests, where no tree is at hand."""
    there: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in after.entries:
        there.setdefault(_name(entry), []).append(entry)
    used: set[tuple[str, str, str, str]] = set()
    items = []
    for entry in before:
        answer, match = _by_digest(entry, there.get(_name(entry), []))
        if match is not None:
            used.add(match.key)
        items.append(
            Item(
                kind="entry",
                answer=answer,
                variant=entry.variant,
                concept=entry.concept,
                site=entry.site,
            )
        )
    wanted = {(e.variant, e.concept) for e in before}
    fresh = [e for e in chosen(after, None, None) if e.key not in used
             and e.variant in {v for v, _ in wanted}]  # fmt: skip
    return [*items, *map(_new_item, fresh)]


def _by_digest(entry: Entry, rows: list[Entry]) -> tuple[Answer, Entry | None]:
    place = spot_of(entry)
    found = [e for e in rows if e.status == "found"]
    found.sort(key=lambda e: (e.path != entry.path, e.digest != entry.digest))
    if not found:
        return _not_there(entry, place, rows), None
    match = found[0]
    new = spot_of(match)
    if match.path == entry.path and match.blob == entry.blob:
        return Answer(old=place, new=new, verdict="same", grade="proven",
                      methods=("identical",), similarity=1.0), match  # fmt: skip
    verdict: Verdict
    if match.digest == entry.digest:
        verdict = "same" if new.lines == place.lines else "moved"
    elif match.code_digest == entry.code_digest:
        verdict = "cosmetic"
    else:
        verdict = "changed"
    if match.path != entry.path and verdict != "changed":
        verdict = "moved-file"
    sure = verdict != "changed"
    answer = Answer(
        old=place,
        new=new,
        verdict=verdict,
        grade="proposed",
        methods=("anatomy", "digest") if sure else ("anatomy",),
        similarity=1.0 if match.digest == entry.digest else 0.0,
        reason=() if sure else (Note("drift.maps-only"),),
    )
    return answer, match


def _not_there(entry: Entry, place: Spot, rows: list[Entry]) -> Answer:
    row = next((e for e in rows if e.path == entry.path), rows[0] if rows else None)
    if row is None or row.status == "missing":
        reason = row.reason if row is not None and row.reason is not None else None
        notes = (Note("drift.maps-missing"), *((reason,) if reason else ()))
        return Answer(old=place, new=None, verdict="unjudged", grade="", reason=notes)
    if row.status == "ambiguous":
        near = tuple(
            Guess(spot=Spot(path=row.path, lines=c.lines), score=0.0) for c in row.candidates
        )
        return Answer(old=place, new=None, verdict="ambiguous", candidates=near,
                      methods=("anatomy",))  # fmt: skip
    notes = (row.reason,) if row.reason is not None else ()
    return Answer(old=place, new=None, verdict="removed", methods=("anatomy",), reason=notes)
