"""What a clause points back to: "upstream computes it, C", "the same line in C", "V 的在 C"."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from srcmap.cite.glue import GLUE
from srcmap.cite.words import PROSE_NAME, names_of

if TYPE_CHECKING:
    from srcmap.cite.nouns import Span
    from srcmap.cite.spots import Spots

_MARKS = r"[\s`*(（\[{\\]*(?:\\?\w+\{)?(?::\w+:)?[`*]*\Z"
_IT = re.compile(
    r"(?:\b(?:has|have|had|computes?|derives?|calculates?|defines?|declares?|sets?|does|keeps?"
    r"|reads?|stores?|loads?|implements?|performs?|writes?)\s(?:it|them)"
    r"|(?:算|计算|有|定义|声明|实现|保留|写|读)了?它们?)[,，]?\s?(?:in|at|on|see|在|见|的是)?"
    + _MARKS
)
"""The clause before a citation ends with the object that was named before."""
_SAME = re.compile(
    r"(?:同样的?一?[句行段条]|同一[句行段条]|一样的一?[句行段条]"
    r"|\bthe\s(?:very\s)?same\s(?:line|statement|code|expression|call|assignment))"
    r"[^,;，；。.]{0,20}\Z"
)
_TOO = re.compile(
    r"[`*}|)\s]*\s(?:for|in)\s(?:the\s)?[\w-]+(?:\s[\w-]+){0,3},?\s(?:and|or)\s(?:in|at)\s?"
    + _MARKS
)
"""From one of two places that share what they show to the other: "in A for x and in B for y"."""
_ITS = re.compile(
    r"[`*\s行]*[，,、；;和与]\s?(?:[A-Za-z]\w*|[\u4e00-\u9fff]{1,3})\s?的(?:则|也|就)?[在是]\s?第?\s?"
    + _MARKS
)
_OF_ITS = re.compile(rf"的([^的，。；\n]{{2,14}}?)(?:就|则|也)?[在是]\s?第?\s?{_MARKS}")
"""Chinese leaves out what is said of the second thing, too: "K 的加载在 A，V 的在 B"."""


def referent(spots: Spots, at: int) -> Span | None:
    """Give what the clause that ends at an offset points back to, if it does."""
    edge = spots.edge_before(at)
    gap = spots.text[edge:at] if at - edge < 300 else ""
    if gap and "\n\n" not in gap and (_SAME.search(gap) or _TOO.fullmatch(gap)):
        return _shared(spots, edge)
    if gap and _ITS.fullmatch(gap):
        begin = _begin(spots, edge)
        low = max(spots.edge_before(begin), begin - 60)
        match = _OF_ITS.search(spots.text, low, begin)
        return match.span(1) if match else None
    low = max(edge, at - 300, spots.text.rfind("\n\n", 0, at))
    it = _IT.search(spots.text, low, at)
    return _only_name(spots, low, it.start()) if it else None


def _begin(spots: Spots, end: int) -> int:
    """Give where the citation begins that ends at an offset."""
    index = bisect_right(spots.places, (end, 0)) - 1
    return spots.places[index][0] if index >= 0 and spots.places[index][1] == end else end


def _shared(spots: Spots, edge: int) -> Span | None:
    """Give the code right before the citation that ends at an offset."""
    begin = _begin(spots, edge)
    codes = [c for c in spots.codes(max(begin - 300, 0), begin) if c[1] <= begin]
    if not codes or not GLUE.fullmatch(spots.text, codes[-1][1], begin):
        return None
    return codes[-1][:2]


def _only_name(spots: Spots, low: int, end: int) -> Span | None:
    """Give the one name, or the one piece of code, between two offsets."""
    found = {body: (first, last) for first, last, body in spots.codes(low, end) if last <= end}
    if not found:
        found = {
            name: (at, at + len(name)) for at, name in names_of(PROSE_NAME, spots.text, low, end)
        }
    return next(iter(found.values())) if len(found) == 1 else None
