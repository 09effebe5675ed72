"""Names and concepts in the text about a citation, the nearest first."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.concepts import CJK, Concepts, Named
from srcmap.cite.glue import GLUE, JOIN
from srcmap.cite.labels import item_label
from srcmap.cite.page import Region
from srcmap.cite.placing import (
    AWAY_AFTER,
    AWAY_BEFORE,
    FRAME_AFTER,
    FRAME_BEFORE,
    Placing,
)
from srcmap.cite.words import NAME, PROSE_NAME, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.cite.spots import Spot, Spots

_WORD = re.compile(
    rf"(?<![A-Za-z0-9_./-])[A-Za-z_][A-Za-z0-9_]{{2,}}(?![A-Za-z0-9_/-])(?=\s?[（{CJK}])"
)
"""A word in Chinese text: more often a name than a word in English text is."""
_PART = re.compile(
    r"(?<!code )(?<!place )(?<!location )(?<!implementation )\b(?:of|for|from|with|under|given)\s+"
    r"(?:(?:the|an?|its|this)\s+)?(?:sliding\s+)?[`*]*\Z"
)
_UNDER = re.compile(r"[`*]*\s?(?:之?下|情况下|的?时候?)(?![标界限一方面])")
"""Behind what makes a case: 滑动窗口下循环从哪里开始."""
_AND = re.compile(rf"(?:{JOIN.pattern})(?:the\s)?")
_COMPOUND = re.compile(
    r"[\u4e00-\u9fff](?<![的与和是做求再后先把、或及行于在看讲说算见为用到有])\Z"
)
"""What makes a short name in Chinese the end of a longer word."""
_PATH = re.compile(r"\S+/\S+\.\w{1,5}(?:[:#]\S*)?")


_PARTED = re.compile(r"[,，;；。:：、|—–「」“”]|\b(?:and|then|before|after)\b|\.\s|\n\s*\n|再|然后")
_PARTED_CELLS = re.compile(r"[;；。:：]|\n")
_READS = re.compile(
    r"读|加载|查|局部|拷|搬|\b(?:loads?|loaded|loading|reads?|look\w*|local|cop(?:y|ied))\b"
)
_READ = {
    "mask-param": ("mask-load",), "block-mask-param": ("block-mask",),
    "block-indices-param": ("block-index", "gather"),
    "block-table-param": ("block-table", "paged-load"),
    "workspace-param": ("workspace-read", "workspace-write"),
}  # fmt: skip
_HOLDS = re.compile(r"\b(?:alloc\w*|buffers?|fragments?)\b|缓冲|分配")
_HELD = frozenset({"tmem-alloc", "workspace-param", "workspace-write", "workspace-read"})
"""What is itself about buffers; of others the buffer is not where they happen."""
_HOLDERS = frozenset({"kv-loop", "kernel-grid", "combine", "cube-scope", "vector-scope"})
"""What other concepts are parts of: as a label it may only say where they are."""


class Said(NamedTuple):
    """The concepts that a citation is said to be, the nearest first."""

    concepts: tuple[str, ...]
    distant: bool = False
    """Said above the code that the citation closes, not in its own sentence."""
    last: int = 0
    """Where the nearest ends, when it stands before."""
    subject: tuple[str, ...] = ()
    """What the clause speaks of, when the nearest is only its object."""


def _concepts(named: Sequence[Named]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(m.concept for m in named))


class Naming:
    """Finds every name and concept of one page once, and says which stand about a citation."""

    def __init__(self, spots: Spots, concepts: Concepts) -> None:
        self._spots, self._page, self._text = spots, spots.page, spots.text
        self._concepts, self._placing = concepts, Placing(spots)

    def concepts(self, spot: Spot) -> Said:
        """List the concepts that a citation is said to be."""
        if spot.begins and spot.lead is not None:
            above = [m for m in self._named(*spot.lead)[::-1] if self._is_above(m)]
            if above:
                return Said(_concepts(above), distant=True, last=above[0].last)
        named = self._named(*spot.head)
        at = spot.head[1]
        label = self._label(named, spot)
        if label is not None:
            return label
        found = [m for m in named[::-1] if self._is_said(m, spot, at)]
        if found and self._spots.is_ahead(found[0].last, at, spot.after[0]):
            found = []
        if found:
            chain = self._joined(named, at) if found[0].last == named[-1].last else []
            if len(chain) == len(spot.group) > 1:
                return Said(chain[spot.nth], last=found[0].last)
            subject = _concepts(self._subject(named, found[0]))
            beside = [m for m in found if GLUE.fullmatch(self._text, m.last, at)]
            joined = tuple(concept for one in reversed(chain) for concept in one)
            told = joined or _concepts(beside or found)
            subject += self._read_too(told, spot)
            return Said(told, last=found[0].last, subject=subject)
        behind = [
            m
            for m in self._named(*spot.after)
            if self._placing.behind(m.first, m.last, spot.after[0]) and not self._in_quotation(m)
        ]
        return Said(_concepts(behind))

    def _label(self, named: Sequence[Named], spot: Spot) -> Said | None:
        """Say what an item is called that explains itself and ends with its citation."""
        place = item_label(self._spots, spot)
        if place is None:
            return None
        if self._spots.codes(*place):
            return Said(())
        found = [one for one in named if one[:2] == place]
        holds = all(one.concept in _HOLDERS for one in found) and len(found) < len(named)
        return Said(_concepts(found), last=place[1]) if found and not holds else None

    def _read_too(self, told: Sequence[str], spot: Spot) -> tuple[str, ...]:
        """List what is read of the parameters that are named, when the sentence speaks of that."""
        reads = _READS.search(self._text, spot.head[0], spot.after[0] + 24)
        return tuple(c for one in told for c in _READ.get(one, ())) if reads else ()

    def _subject(self, named: Sequence[Named], nearest: Named) -> list[Named]:
        """List what a clause speaks of whose object is the concept that stands nearest.

        "The accumulator is multiplied by the rescale factor at a.py:91": either may be meant.
        """
        row = self._page.blocks and self._page.blocks[self._page.block_at(nearest.first)].kind
        parted = _PARTED_CELLS if row == "row" else _PARTED
        found = []
        for one in named:
            gap = self._text[one.last : nearest.first]
            head = self._text[max(one.first - 28, 0) : one.first]
            away = AWAY_BEFORE.search(head) or AWAY_AFTER.match(self._text, one.last)
            if one.last <= nearest.first and not (
                away or parted.search(gap) or _AND.fullmatch(gap)
            ):
                found.append(one)
        return [
            one for one in found if one.first == found[0].first and one.concept != nearest.concept
        ]

    def _joined(self, named: Sequence[Named], at: int) -> list[tuple[str, ...]]:
        """List the concepts that are joined to each other right before a citation.

        A word may mean several of them.
        """
        chain: list[tuple[str, ...]] = []
        between = GLUE
        for place, same in groupby(reversed(named), key=lambda one: (one.first, one.last)):
            if not between.fullmatch(self._text, place[1], at):
                break
            head = self._text[max(place[0] - 28, 0) : place[0]]
            if chain and AWAY_BEFORE.search(head):
                break
            chain.insert(0, tuple(one.concept for one in same))
            at, between = place[0], _AND
        return chain

    def told(self, spot: Spot) -> tuple[str, ...]:
        """List the concepts whose full names stand before a citation, whatever is said of them."""
        near = spot.lead if spot.begins and spot.lead else spot.before
        return tuple(dict.fromkeys(m.concept for m in self._named(*near) if not m.short))

    def hints(self, spot: Spot) -> tuple[str, ...]:
        """List the concepts that words of the clause may mean: enough to agree."""
        end = max(spot.after[0], min(spot.sentence[1], self._spots.edge_after(spot.after[0])))
        lead = self._named(*spot.lead) if spot.lead else []
        found = [*self._named(spot.after[0], end), *self._named(*spot.before), *lead]
        return _concepts(found)

    def _is_said(self, named: Named, spot: Spot, at: int) -> bool:
        """Whether the citation gives the place of a concept that stands before it."""
        head = self._text[max(named.first - 24, 0) : named.first]
        if self._in_quotation(named) or (named.short and _COMPOUND.search(head)):
            return False
        if named.short and _UNDER.match(self._text, named.last):
            return False
        if named.concept not in _HELD and _HOLDS.search(self._text, named.last, at):
            return False
        placed = self._placing.before(named.first, named.last, at, spot.after[0])
        if named.short:
            return placed == "beside" and not _PART.search(head)
        return placed != ""

    def _is_above(self, named: Named) -> bool:
        """Whether a concept in the text above code may be what the code is."""
        head = self._text[max(named.first - 28, 0) : named.first]
        away = AWAY_BEFORE.search(head) or AWAY_AFTER.match(self._text, named.last)
        framed = FRAME_BEFORE.search(head) or FRAME_AFTER.match(self._text, named.last)
        return not (named.short or away or framed or self._in_quotation(named))

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

    def goes_on(self, end: int) -> bool:
        """Whether a clause goes on behind a citation."""
        return self._placing.goes_on(end)

    def names(self, spot: Spot) -> tuple[str, ...]:
        """List the names about a citation, its clause first."""
        lead = [spot.lead] if spot.lead else []
        return self._names([spot.before, spot.after, *lead])

    def placed(self, spot: Spot) -> frozenset[str]:
        """Give the names whose place a citation gives: those that may be in the wrong one."""
        last = spot.before[1]
        low, high = (bisect_left(self._name_places, at) for at in spot.before)
        names = zip(self._name_places[low:high], self._all_names[1][low:high], strict=True)
        return frozenset(
            name
            for at, name in names
            if self._placing.before(*self._whole(at, name), last, spot.after[0])
        )

    def _whole(self, at: int, name: str) -> tuple[int, int]:
        """Give the bounds of a name, or those of the code that it is a part of."""
        region = self._page.region_at(at)
        inside = region is not None and region.kind == "code"
        return region[:2] if inside and region else (at, at + len(name))

    def all_names(self, span: tuple[int, int]) -> tuple[str, ...]:
        """List the names between two offsets."""
        return self._names([span])

    def taken(self, spot: Spot) -> frozenset[str]:
        """List the names of a sentence that stand right before another citation."""
        low, high = (bisect_left(self._name_places, at) for at in spot.sentence)
        names = zip(self._name_places[low:high], self._all_names[1][low:high], strict=True)
        return frozenset(name for at, name in names if self._is_taken(at, name, spot))

    def _is_taken(self, at: int, name: str, spot: Spot) -> bool:
        """Whether a name stands right before a citation that is not of this one's group."""
        end = at + len(name)
        place = self._spots.edge_after(end)
        ours = spot.group[0][0] <= place <= spot.group[-1][0] if spot.group else False
        return not ours and GLUE.fullmatch(self._text, end, min(place, end + 60)) is not None

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
