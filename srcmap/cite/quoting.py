"""Quoted code and prose about a citation, the surest first."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.ahead import BARE, Ahead
from srcmap.cite.compare import norm, without_comment
from srcmap.cite.concepts import CJK
from srcmap.cite.placing import Placing
from srcmap.cite.words import HAS_CJK, is_code, is_path, shown_lines, telling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.cite.nouns import Citation
    from srcmap.cite.page import Block
    from srcmap.cite.spots import Spot, Spots

_LATIN_RUN = re.compile(rf"[^{CJK}\n|]+(?:\n[^{CJK}\n|]+)*")
_QUOTED = re.compile(
    r"“([^”]{6,400})”|「([^」]{4,400})」|\"([^\"\n]{12,400})\"|『([^』]{4,400})』"
    r"|(?<=[\s(（])\"(?![\s\"])([^\"\n]{1,200}\n(?!\s*\n)[^\"\n]{1,200}(?<![\s(]))\"(?![\w\"])"
)


class Quote(NamedTuple):
    """Text that the document shows as the place's own."""

    lines: tuple[str, ...]
    near: bool
    """Belongs to this citation and to no other."""
    prose: bool = False
    own: bool = False
    """The line of code that the citation is a comment of."""


class Quoting:
    """Collects what the document shows as the text of a place."""

    def __init__(self, spots: Spots) -> None:
        self._spots, self._page, self._text = spots, spots.page, spots.text
        self._placing, self._ahead = Placing(spots), Ahead(spots)

    def quotes(self, citation: Citation, spot: Spot) -> Iterator[Quote]:
        """Yield quoted code, then what the sentence quotes, then prose."""
        yield from self._code_quotes(citation)
        if citation.rule == "comment":
            return
        low = max(spot.before[0], self._ahead.owned(spot.before[1]))
        yield from self._inline(low, citation.at[0], citation, near=True)
        near = not telling(self._text[slice(*spot.before)])
        yield from self._inline(*spot.after, citation, near=near)
        yield from self._prose(citation)

    def _code_quotes(self, citation: Citation) -> list[Quote]:
        if citation.rule == "comment" or self._spots.in_comment(citation):
            return self._own_line(citation)
        quotes = []
        if self._spots.begins(citation):
            above = self._spots.above(citation)
            if above:
                quotes.append(Quote(tuple(above), near=True))
        below, announced = self._below(citation)
        if below:
            quotes.append(Quote(tuple(below), near=announced and not quotes))
        return quotes

    def _own_line(self, citation: Citation) -> list[Quote]:
        first, last = self._spots.line_of(citation.at[0])
        code = without_comment(" " + self._text[first:last]).strip()
        lines = citation.target.lines
        count = lines.last - lines.first if lines and lines.last >= lines.first else 0
        above: list[str] = []
        at = first - 1
        while at > 0 and len(above) < min(count, 40):
            begin = self._text.rfind("\n", 0, at) + 1
            line = self._text[begin:at]
            if not is_code(line) or re.search(r"(?:line|第)\s?\d+", line):
                break
            above.insert(0, without_comment(line))
            at = begin - 1
        whole = [*above, code] if code else self._commented(citation, last)
        shown = tuple(line for line in whole if line.strip())
        return [Quote(shown, near=True, own=True)] if shown else []

    def _commented(self, citation: Citation, at: int) -> list[str]:
        """List the code below a comment that has its own line, up to a gap or the next such one."""
        region = self._page.region_at(citation.at[0])
        fence = next((b for b in self._page.blocks if b.first <= at <= b.last), None)
        stop = fence.last if fence and fence.kind == "fence" else len(self._text)
        marked = region is not None and region.kind == "comment"
        found: list[str] = []
        for line in self._text[at + 1 : stop].split("\n") if marked else ():
            code = without_comment(" " + line).strip()
            placed = not code and re.search(r"(?:[Ll]ines?|第)\s?\d+", line)
            if not line.strip() or placed or len(found) == 60:
                break
            if code:
                found.append(without_comment(line))
        return found

    def _below(self, citation: Citation) -> tuple[list[str], bool]:
        """The code below a citation, and whether a colon announces it."""
        _, end = self._spots.line_of(citation.at[1])
        index = self._page.block_at(citation.at[0])
        blocks = self._page.blocks[index : index + 2]
        if len(blocks) == 2 and blocks[1].kind == "fence":
            return self._fence_below(citation, *blocks)
        if not self._text[citation.at[1] : end].rstrip().endswith((":", "：")):
            return [], False
        found: list[str] = []
        at = end + 1
        while at < len(self._text) and len(found) < 60:
            _, stop = self._spots.line_of(at)
            line = self._text[at:stop].rstrip("\r")
            if not line.strip() or not is_code(line):
                break
            found.append(line)
            at = stop + 1
        return ([], False) if self._claimed(at) else (found, True)

    def _fence_below(
        self, citation: Citation, block: Block, fence: Block
    ) -> tuple[list[str], bool]:
        if self._spots.edge_after(citation.at[1]) < fence.first:
            return [], False
        closing = self._text.find("\n", fence.last)
        behind = re.compile(r"[`~ \t\r]*\n\s*").match(self._text, fence.last)
        if self._claimed(behind.end() if behind else closing + 1):
            return [], False
        closes = self._text[citation.at[1] : block.last].rstrip()
        return shown_lines(self._text[fence.first : fence.last]), closes.endswith((":", "："))

    def _claimed(self, at: int) -> bool:
        """Whether a reference that begins the next line is the one that code above belongs to."""
        _, stop = self._spots.line_of(at)
        index = bisect_left(self._spots.places, (at, 0))
        if index == len(self._spots.places) or self._spots.places[index][0] >= stop:
            return False
        head = self._text[at : self._spots.places[index][0]]
        return not re.search(r"\w", re.sub(r"同一?文件|见|[Ss]ame file|[Ss]ee", "", head))

    def _inline(self, first: int, last: int, citation: Citation, *, near: bool) -> Iterator[Quote]:
        """Code spans that are more than a name, quotations, and runs of code between Chinese."""
        text = self._text[first:last]
        spans = self._spots.codes(first, last)
        for start, end, body in reversed(spans):
            if len(norm(body)) >= 8 and re.search(r"[=(\[+*/<>-]|\s", body) and not is_path(body):
                yield Quote((body,), near and self._placing.gives(start, end, citation.at))
        for match in _QUOTED.finditer(text):
            body = next(group for group in match.groups() if group)
            placed = self._placing.gives(match.start() + first, match.end() + first, citation.at)
            yield Quote((body,), near and placed, prose=True)
        if not spans and HAS_CJK.search(text):
            for match in _LATIN_RUN.finditer(text):
                body = match[0].strip(" ()[]:;,.")
                if len(norm(body)) >= 9 and re.search(r"[=(\[<>]", body):
                    yield Quote((body,), near)

    def _prose(self, citation: Citation) -> Iterator[Quote]:
        """Quoted prose: a block quote beside the citation, or foreign sentences before it."""
        index = self._page.block_at(citation.at[0])
        for near in (index, index - 1, index + 1):
            if 0 <= near < len(self._page.blocks) and self._page.blocks[near].kind == "quote":
                block = self._page.blocks[near]
                body = re.sub(
                    r"^[ \t]*>[ \t]?", "", self._text[block.first : block.last], flags=re.MULTILINE
                )
                yield Quote((self._cut_places(body, block.first),), near == index, prose=True)
        yield from self._line_above(citation)
        low = self._code_before(citation.at[0], self._spots.edge_before(citation.at[0]))
        for match in _LATIN_RUN.finditer(self._text, low, citation.at[0]):
            for part in re.split(r"(?<=[.!?])\s+", match[0]):
                for text in dict.fromkeys((part, *part.split("\n"))):
                    if len(norm(text)) >= 30 and not BARE.fullmatch(text.strip()):
                        yield Quote((text,), near=False, prose=True)

    def _code_before(self, at: int, low: int) -> int:
        """Give where prose begins again above an offset: behind code, and not far."""
        low = max(low, at - 700)
        kinds = ("skip", "fence")
        behind = (r.last for r in self._page.regions_in(low, at) if r.kind in kinds)
        return max((last for last in behind if last <= at), default=low)

    def _line_above(self, citation: Citation) -> Iterator[Quote]:
        """The line above one that a citation begins: quoted prose stands there, in any script."""
        first, _ = self._spots.line_of(citation.at[0])
        if first > 1 and self._spots.begins(citation):
            above, stop = self._spots.line_of(first - 2)
            line = self._text[above:stop].lstrip(" \t>-*").rstrip()
            if HAS_CJK.search(line) and len(norm(line)) >= 8:
                yield Quote((line,), near=False, prose=True)

    def _cut_places(self, body: str, base: int) -> str:
        for start, end in self._spots.places:
            shown = self._text[start:end]
            if start >= base and shown in body:
                body = body.replace(shown, "...")
        return re.sub(r"(?:——|--|—)\s*\.\.\.", "", body).strip(" \n`.()（）—-")

    def rows(self, citation: Citation) -> tuple[tuple[str, ...], ...]:
        """Rows of a table beside the citation."""
        index = self._page.block_at(citation.at[0])
        found = []
        for number in range(index + 1, min(index + 16, len(self._page.blocks))):
            block = self._page.blocks[number]
            if block.kind != "row":
                break
            cells = [
                norm(c) for c in self._text[block.first : block.last].strip().strip("|").split("|")
            ]
            if not all(re.fullmatch(r":?-*:?", cell) for cell in cells):
                found.append(tuple(cell for cell in cells if cell))
        return tuple(found[:12])
