"""Names and concepts in the text about a citation, the nearest first."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.concepts import CJK, Concepts, Named
from srcmap.cite.glue import GLUE, SAYS
from srcmap.cite.page import Region
from srcmap.cite.words import NAME, PROSE_NAME, names_of, telling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.cite.spots import Spot, Spots

_WORD = re.compile(
    rf"(?<![A-Za-z0-9_./-])[A-Za-z_][A-Za-z0-9_]{{2,}}(?![A-Za-z0-9_/-])(?=\s?[（{CJK}])"
)
"""A word in Chinese text: more often a name than a word in English text is."""
_AWAY_BEFORE = re.compile(
    r"(?:\b(?:before|after|behind|above|below|outside|without|unlike|no|not|than|until|except|besides"
    r"|instead of|follows|precedes|replaces|like)\s+(?:(?:the|an?|its|this|each|any)\s+)?"
    r"|(?:非|non-?|除了|没有|并非|不是|不同于|无需|不需要|不用|区别于|替代|代替|而非|不像|未|不)\s?)[`*]*\Z"
)
_AWAY_AFTER = re.compile(
    r"[`*]*\s?(?:body\b|的?\s?(?:之前|之后|以前|以后|前面|后面|前的|后的|之外|以外|体|内部|上面|下面|上方|下方|上一行|下一行|旁边|附近))"
)
"""What is near something named, and is not it."""
_FRAME_BEFORE = re.compile(
    r"\b(?:in|inside|within|of|for|from|to|with|by|under|into|on|at|and its|per)\s+"
    r"(?:(?:the|an?|its|this|that|each|every|our|their)\s+)?[`*]*\Z|(?:由|给|按|每个)\s?[`*]*\Z"
)
_FRAME_AFTER = re.compile(r"[`*]*\s?的?\s?(?:里|中|内|时|所|使用|需要|用到|依赖|读取的|之间)")
"""What something named is a part or a purpose of."""
_PART = re.compile(r"(?<!code )(?<!place )(?<!location )(?<!implementation )\b(?:of|for|from|with)\s+(?:(?:the|an?|its|this)\s+)?[`*]*\Z")
_PATH = re.compile(r"\S+/\S+\.\w{1,5}(?:[:#]\S*)?")


class Said(NamedTuple):
    """The concepts that a citation is said to be, the nearest first."""

    concepts: tuple[str, ...]
    distant: bool = False
    """Said above the code that the citation closes, not in its own sentence."""
    last: int = 0
    """Where the nearest ends, when it stands before."""


class Naming:
    """Finds every name and concept of one page once, and says which stand about a citation."""

    def __init__(self, spots: Spots, concepts: Concepts) -> None:
        self._spots, self._page, self._text = spots, spots.page, spots.text
        self._concepts = concepts

    def concepts(self, spot: Spot) -> Said:
        """List the concepts that a citation is said to be."""
        distant = spot.begins and spot.lead is not None
        near = spot.lead if spot.begins and spot.lead else spot.before
        found = [m for m in self._named(*near)[::-1] if self._is_said(m, near[1])]
        if found and self._spots.is_ahead(found[0].last, near[1], spot.after[0]):
            found = []
        if found:
            beside = [m for m in found if self._is_beside(m, near[1])]
            names = tuple(dict.fromkeys(m.concept for m in beside or found))
            return Said(names, distant, found[0].last)
        behind = [m for m in self._named(*spot.after) if self._is_said_behind(m, spot)]
        return Said(tuple(dict.fromkeys(m.concept for m in behind)))

    def told(self, spot: Spot) -> tuple[str, ...]:
        """List the concepts whose full names stand before a citation, whatever is said of them."""
        near = spot.lead if spot.begins and spot.lead else spot.before
        return tuple(dict.fromkeys(m.concept for m in self._named(*near) if not m.short))

    def hints(self, spot: Spot) -> tuple[str, ...]:
        """List the concepts that words of the clause may mean: enough to agree."""
        end = max(spot.after[0], min(spot.sentence[1], self._spots.edge_after(spot.after[0])))
        lead = self._named(*spot.lead) if spot.lead else []
        found = [*self._named(spot.after[0], end), *self._named(*spot.before), *lead]
        return tuple(dict.fromkeys(m.concept for m in found))

    def _is_beside(self, named: Named, at: int) -> bool:
        return at - named.last <= 60 and GLUE.fullmatch(self._text, named.last, at) is not None

    def _is_said(self, named: Named, at: int) -> bool:
        """Whether a concept before a citation is what it is about, and no word on the way."""
        head = self._text[max(named.first - 24, 0) : named.first]
        if _AWAY_BEFORE.search(head) or _AWAY_AFTER.match(self._text, named.last):
            return False
        if self._is_beside(named, at):
            return not named.short or not (_PART.search(head) or self._in_quotation(named))
        framed = _FRAME_BEFORE.search(head) or _FRAME_AFTER.match(self._text, named.last)
        return not named.short and not framed and not self._in_quotation(named)

    def _is_said_behind(self, named: Named, spot: Spot) -> bool:
        at = spot.after[0]
        if _AWAY_AFTER.match(self._text, named.last) or self._in_quotation(named):
            return False
        gap = self._text[at : named.first]
        if len(gap) <= 40 and SAYS.fullmatch(gap):
            return True
        return not named.short and not telling(self._text[slice(*spot.before)])

    def _in_quotation(self, named: Named) -> bool:
        """Whether it is a part of longer code, or of quoted text."""
        if self._spots.in_quotation(named.first, named.last):
            return True
        region = self._page.region_at(named.first)
        inside = region is not None and region.kind == "code" and region.last >= named.last
        if inside and named.short:
            return True
        return (
            inside
            and region is not None
            and (region.last - region.first > named.last - named.first + 8)
        )

    def names(self, spot: Spot) -> tuple[str, ...]:
        """List the names about a citation, its clause first."""
        lead = [spot.lead] if spot.lead else []
        return self._names([spot.before, spot.after, *lead])

    def framed(self, span: tuple[int, int]) -> frozenset[str]:
        """Give the names that are but a part or a means of what a clause is about."""
        low, high = (bisect_left(self._name_places, at) for at in span)
        places = self._name_places[low:high]
        return frozenset(
            name
            for at, name in zip(places, self._all_names[1][low:high], strict=True)
            if _FRAME_BEFORE.search(self._text[max(at - 24, 0) : at])
        )

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
        for first, last in self._page.captions:
            found.update(names_of(PROSE_NAME, self._text, first, last))
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
    def _mentions(self) -> tuple[list[int], list[Named]]:
        found = [
            m._replace(first=m.first + first, last=m.last + first)
            for first, last in self._prose_runs()
            for m in self._concepts.mentions(self._text[first:last])
        ]
        found.sort()
        return ([m.first for m in found], found)

    def _prose_runs(self) -> Iterator[tuple[int, int]]:
        """Yield the text between code blocks, in pieces that are not too small."""
        start = 0
        yield from self._page.captions
        for region in self._page.regions:
            if region.kind in ("fence", "skip") and region.first > start + 3:
                yield start, region.first
            if region.kind in ("fence", "skip"):
                start = max(start, region.last)
        if start < len(self._text):
            yield start, len(self._text)

    def _named(self, first: int, last: int) -> list[Named]:
        """List the concepts that are named between two offsets, in order."""
        places, named = self._mentions
        return named[bisect_left(places, first) : bisect_left(places, last)]
