"""Names and concepts in the text about a citation, the nearest first."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.cite.concepts import CJK, Concepts
from srcmap.cite.page import Region
from srcmap.cite.words import NAME, PROSE_NAME, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.cite.spots import Spot, Spots

_WORD = re.compile(
    rf"(?<![A-Za-z0-9_./-])[A-Za-z_][A-Za-z0-9_]{{2,}}(?![A-Za-z0-9_/-])(?=\s?[（{CJK}])"
)
"""A word in Chinese text: more often a name than a word in English text is."""
_PATH = re.compile(r"\S+/\S+\.\w{1,5}(?:[:#]\S*)?")


class Naming:
    """Finds every name and concept of one page once, and says which stand about a citation."""

    def __init__(self, spots: Spots, concepts: Concepts) -> None:
        self._spots, self._page, self._text = spots, spots.page, spots.text
        self._concepts = concepts

    def concepts(self, spot: Spot) -> tuple[tuple[str, ...], bool]:
        """List the concepts that are named about a citation."""
        distant = spot.begins and spot.lead is not None
        near = spot.lead if spot.begins and spot.lead else spot.before
        found = self._named(*near)[::-1]
        return (tuple(found or self._named(*spot.after)), distant and bool(found))

    def hints(self, spot: Spot) -> tuple[str, ...]:
        """List the concepts that common words of the clause may mean."""
        end = max(spot.after[0], min(spot.sentence[1], self._spots.edge_after(spot.after[0])))
        behind = self._named(spot.after[0], end)
        text = self._text[slice(*spot.before)] + " " + self._text[spot.after[0] : end]
        return (*behind, *self._concepts.hinted(text))

    def names(self, spot: Spot) -> tuple[str, ...]:
        """List the names about a citation, its clause first."""
        lead = [spot.lead] if spot.lead else []
        return self._names([spot.before, spot.after, *lead])

    def all_names(self, span: tuple[int, int]) -> tuple[str, ...]:
        """List the names between two offsets."""
        return self._names([span])

    def words(self, spot: Spot) -> tuple[str, ...]:
        """List the words that Chinese text follows in a clause, the last first."""
        found = [match[0] for match in _WORD.finditer(self._text, *spot.before)]
        return tuple(dict.fromkeys(found[::-1]))

    def marked(self, first: int, last: int) -> Iterator[str]:
        """Yield the names that are set as code between two offsets."""
        for *_, body in self._spots.codes(first, last):
            if re.fullmatch(r"(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_]\w*(?:\(\))?", body):
                yield body.removesuffix("()")

    def _names(self, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
        """Names that may stand on the cited lines, the nearest first."""
        found: dict[str, None] = {}
        for first, last in spans:
            low, high = bisect_left(self._name_places, first), bisect_left(self._name_places, last)
            found.update(dict.fromkeys(self._all_names[1][low:high]))
        return tuple(found)

    @cached_property
    def _all_names(self) -> tuple[list[int], list[str]]:
        """Find every name of the page once: where it stands, and the name."""
        found: dict[int, str] = {}
        at = 0
        for region in [*self._page.regions, Region(len(self._text), len(self._text), "skip")]:
            if region.kind in ("fence", "skip") and region.first >= at:
                found.update(names_of(PROSE_NAME, self._text, at, region.first))
                at = region.last
        for first, last, body in self._spots.codes(0, len(self._text)):
            if _PATH.fullmatch(body):  # the parts of a path are no names
                continue
            found.update(names_of(NAME, self._text, first, last))
        places = [at for at in sorted(found) if not self._is_cited(at)]
        return (places, [found[place] for place in places])

    def _is_cited(self, at: int) -> bool:
        index = bisect_right(self._spots.starts, at) - 1
        return index >= 0 and at < self._spots.places[index][1]

    @property
    def _name_places(self) -> list[int]:
        return self._all_names[0]

    @cached_property
    def _mentions(self) -> tuple[list[int], list[str]]:
        found: list[tuple[int, str]] = []
        for first, last in self._prose_runs():
            found += [(at + first, c) for at, c in self._concepts.mentions(self._text[first:last])]
        return ([at for at, _ in found], [concept for _, concept in found])

    def _prose_runs(self) -> Iterator[tuple[int, int]]:
        """Yield the text between code blocks, in pieces that are not too small."""
        start = 0
        for region in self._page.regions:
            if region.kind in ("fence", "skip") and region.first > start + 3:
                yield start, region.first
            if region.kind in ("fence", "skip"):
                start = max(start, region.last)
        if start < len(self._text):
            yield start, len(self._text)

    def _named(self, first: int, last: int) -> list[str]:
        """List the concepts that are named between two offsets, in order."""
        places, concepts = self._mentions
        part = concepts[bisect_left(places, first) : bisect_left(places, last)]
        return list(dict.fromkeys(part))
