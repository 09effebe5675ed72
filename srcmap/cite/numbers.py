"""The numbers of a reference: how a line, a range and several of them are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.cite.page import RegionKind

Span = tuple[int, int]
Range = tuple[Span, Span]
"""The places of the first and of the last number of a range; the same place twice for one line."""
N = r"\d{1,7}"
_END = r"(?![\d_A-Za-z]|\.\d|[-–—/]\d)"
_DASH = r"(?:\s?(?:--?|[–—‐‑−－~～]|至|到)\s?|\.{2,3}|\s+to\s+|\s+through\s+)"
R = rf"(?P<a>{N})(?:{_DASH}L?(?P<b>{N}))?{_END}"
CLOSE = r"[`*\"'\]”’』》〉}]{0,4}"
WRAP = r"(?:\r?\n[ \t>#*]*)?"
_COLON = re.compile(rf"{CLOSE}[ \t]?{WRAP}(?P<mark>:[ \t]?{WRAP}|：)L?{R}(?::\d+{_END})?")
_MORE = re.compile(rf"(?:,|、|，|;)(?P<space>[ \t]?(?:and[ \t])?)L?{R}")
_HASH = re.compile(rf"(?:\?plain=1)?#L?(?P<a>{N})(?:C\d+)?(?:-L?(?P<b>{N})(?:C\d+)?)?(?![\w])")
_LEAD = (
    rf"{CLOSE}\s?[,，]?\s?[(（\[]?\s?(?:at|on|in|around|near|里的|中的|里|中|的|在)?\s?(?:the\s)?"
)
_L = re.compile(
    rf"{CLOSE}(?:[,，]?\s|[ \t]?[(（\[]|:)\s?#?L(?P<a>{N})(?:C\d+)?"
    rf"(?:\s?(?:--?|[–—])\s?L?(?P<b>{N})(?:C\d+)?)?(?![\w])"
)
WORD = re.compile(rf"(?:lines?|Lines?|LINES?|ll?\.|行)[ \t~]*{WRAP}{R}")
ZH = re.compile(
    rf"第\s?{WRAP}(?P<a>{N})\s?(?:行\s?(?:--?|[–—－~～]|至|到)\s?第?\s?(?P<c>{N})\s?行"
    rf"|(?:(?:--?|[–—‐‑−－~～]|至|到)\s?第?\s?(?P<b>{N}))?(?P<list>(?:\s?[、,，和与及]\s?{N}"
    rf"(?:\s?[-–—]\s?{N})?)*)\s?行)"
)
ZH_BARE = re.compile(rf"(?P<a>{N})\s?(?:(?:--?|[–—‐‑−－~～]|至|到)\s?(?P<b>{N}))?\s?行(?!业|列)")
_AND = re.compile(
    rf"\s?(?:,|、|，|and|&|和|与|及|,\s?and)\s?(?:lines?\s?)?{R}(?!\s?[%°]|\s?(?!and\b|or\b|in\b|of\b)[A-Za-z]{{1,2}}\b)"
)
_PAREN = re.compile(
    rf"\((?P<a>{N})(?:-(?P<b>{N}))?\)|[（【［](?P<c>{N})\s?[-–—－~～]\s?(?P<d>{N})[）】］]"
)
"""`a.py(12)`, as compilers write it; a range in wide brackets."""
_LEADING = re.compile(_LEAD)


def range_of(match: re.Match[str]) -> Range:
    one = match.span("a")
    return (one, match.span("b") if match["b"] else one)


def ranges_after(text: str, at: int, region: RegionKind | None) -> tuple[tuple[Range, ...], int]:
    """Read the lines that are written behind a path, and where the reference ends."""
    hashed = _HASH.match(text, at)
    if hashed and "L" in hashed[0]:
        return (range_of(hashed),), hashed.end()
    colon = _COLON.match(text, at)
    if colon and _is_place(text, colon, region):
        more = more_ranges(text, colon.end(), region)
        return (range_of(colon), *more), more[-1][1][1] if more else colon.end()
    ell = _L.match(text, at)
    if ell:
        more = tuple(_ells(text, ell.end()))
        return (range_of(ell), *more), more[-1][1][1] if more else ell.end()
    paren = _PAREN.match(text, at)
    if paren:
        wide = (paren.span("c"), paren.span("d"))
        return ((wide if paren["c"] else range_of(paren)),), paren.end()
    lead = _LEADING.match(text, at)
    begin = lead.end() if lead else at
    for pattern, read in ((WORD, listed_ranges), (ZH, chinese_ranges)):
        found = pattern.match(text, begin)
        if found and not found[0].startswith("行"):
            ranges = read(text, found)
            return ranges, ranges[-1][1][1]
    bare = ZH_BARE.match(text, begin)
    if bare and begin > at:
        ranges = (range_of(bare),)
        return ranges, ranges[-1][1][1]
    cell = _cell_after(text, at)
    return ((range_of(cell),), cell.end("b" if cell["b"] else "a")) if cell else ((), at)


_CELL = re.compile(
    rf"[^|&\n]{{0,40}}[|&][ \t]*[`*:L]{{0,3}}{R}[`*]{{0,2}}[ \t]*(?=[|&]|\\\\|\r?\n)"
)
_LINES_HEAD = re.compile(
    r"[`* ]*(?:lines?|line numbers?|行号?|行数|行范围|行区间)[`* ]*", re.IGNORECASE
)


def _cell_after(text: str, at: int) -> re.Match[str] | None:
    """Read the next cell of a table row, when its column is headed "lines"."""
    cell = _CELL.match(text, at)
    if cell is None:
        return None
    first = text.rfind("\n", 0, at) + 1
    column = len(re.findall(r"[|&]", text[first : cell.start("a")]))
    while first > 0:
        above = text.rfind("\n", 0, first - 1) + 1
        cells = re.split(r"[|&]|\\\\", text[above : first - 1])
        if len(cells) == 1 and not text[above:first].strip().startswith("\\"):
            return None
        if column < len(cells) and _LINES_HEAD.fullmatch(cells[column].strip()):
            return cell
        first = above
    return None


def _ells(text: str, at: int) -> Iterator[Range]:
    more = re.compile(rf"\s?(?:,|、|and|和|与)\s?L(?P<a>{N})(?:\s?[-–—]\s?L?(?P<b>{N}))?(?!\w)")
    while match := more.match(text, at):
        yield range_of(match)
        at = match.end()


_UNIT = re.compile(r"\s?(?:个|条|种|次|段|项|处|步|类|张|份|位|字|倍|年|月|日|%|％|[A-Za-z])")


def _is_place(text: str, match: re.Match[str], region: RegionKind | None) -> bool:
    """Whether a number behind a colon is a line: `a.py: 12 files` is a sentence."""
    mark = match["mark"]
    if len(mark) > 1 and region != "code":
        return "\n" in mark and match["b"] is not None
    return not (mark == "：" and _UNIT.match(text, match.end()))


def more_ranges(text: str, at: int, region: RegionKind | None) -> tuple[Range, ...]:
    """Read the ranges behind the first: `:19-24,50-52`."""
    found: list[Range] = []
    while match := _MORE.match(text, at):
        spoken = "and" in match["space"] and not re.match(r"\s?[A-Za-z]", text[match.end() :][:3])
        listed = _goes_on(text, at, match)
        sure = not match["space"] or region == "code" or match["b"] or spoken or listed
        if not sure or (not listed and _UNIT.match(text, match.end())):
            break
        found.append(range_of(match))
        at = match.end()
    return tuple(found)


_LISTED = re.compile(
    r"[`\"'*]{0,3}(?:\s*\Z|[ \t]*\r?\n|[)）\]】|。，、；]|[,.;](?=\s|\Z)"
    r"|[ \t]+(?:as|and|are|is|in|of|for|to|on|or|where|with|when|which)\b)"
)
"""What may follow a number that is one more line, and no count of something."""


def _goes_on(text: str, at: int, match: re.Match[str]) -> bool:
    """Whether `a.py:68, 71` goes on: the numbers ascend, and no noun follows."""
    before = re.search(r"\d+\Z", text[max(at - 8, 0) : at])
    ascends = before is not None and int(before[0]) < int(match["a"])
    return ascends and _LISTED.match(text, match.end()) is not None


def between_lines(text: str, match: re.Match[str]) -> tuple[Range, ...]:
    """Read `between lines 67 and 78`: one range."""
    if match["b"] or not re.search(
        r"\b[Bb]etween\s\Z", text[max(match.start() - 9, 0) : match.start()]
    ):
        return ()
    other = re.compile(rf"\s+and\s+({N}){_END}").match(text, match.end())
    return ((match.span("a"), other.span(1)),) if other else ()


def listed_ranges(text: str, match: re.Match[str]) -> tuple[Range, ...]:
    """Read `lines 12, 15 and 20-30`."""
    found, at = [range_of(match)], match.end()
    plural = "ines" in match[0] or "INES" in match[0]
    while plural and (more := _AND.match(text, at)):
        found.append(range_of(more))
        at = more.end()
    return tuple(found)


def chinese_ranges(text: str, match: re.Match[str]) -> tuple[Range, ...]:
    """Read 第 12、15–20 行, and 第 3 行到第 5 行."""
    one = match.span("a")
    if match["c"]:
        return ((one, match.span("c")),)
    found: list[Range] = [(one, match.span("b") if match["b"] else one)]
    first, last = match.span("list")
    for more in re.compile(rf"({N})(?:\s?[-–—]\s?({N}))?").finditer(text, first, last):
        start = more.span(1)
        found.append((start, more.span(2) if more[2] else start))
    return tuple(found)
