"""Where the text about a citation stands: its sentence, its clause, the lines above it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.cells import cells_of
from srcmap.cite.glue import TOGETHER
from srcmap.cite.labels import first_cell, heading, of_include, question, variants
from srcmap.cite.referring import referent
from srcmap.cite.seams import (
    CELLS,
    CLOSED,
    CLOSES,
    COMMA,
    END,
    GOES_ON,
    GROUP,
    IN_LINK,
    ITEM,
    LISTED,
    MARKUP,
    PARTING,
    PIECE,
    QUOTATION,
    SHOWN,
    TITLE,
)
from srcmap.cite.words import is_code, shown_lines, speaks, telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.cite.nouns import Citation, Span
    from srcmap.cite.page import Page


class Spot(NamedTuple):
    """Where to look for evidence about one citation: runs of characters, half open."""

    sentence: tuple[int, int]
    before: tuple[int, int]
    """Its clause, up to the citation."""
    after: tuple[int, int]
    lead: tuple[int, int] | None
    """The text above, for a citation that begins its line."""
    begins: bool
    group: tuple[Span, ...] = ()
    """The citations that stand together with this one: "a.py:19,52"."""
    nth: int = 0
    """Which of them it is."""
    head: tuple[int, int] = (0, 0)
    """The clause of the first of them."""


class Spots:
    """Finds the text about the citations of one page."""

    def __init__(self, page: Page, citations: Sequence[Citation]) -> None:
        self.page, self.text = page, page.text
        self.places = sorted(c.at for c in citations)
        self.starts = [start for start, _ in self.places]
        self._beginning: dict[tuple[int, int], bool] = {}
        self.cells, self._others = cells_of(page, self.places)
        """The code cell of a citation's row."""
        self._ends = sorted(
            [*(end for _, end in self.places), *(self._line_end(c[1]) for c in self.cells.values())]
        )
        self._labels = self._labelled()
        self._targets = {label: target for target, label in self._labels.items()}
        self.lines_at = {c.at: c.target.lines for c in citations if c.target.lines}
        self._lined = sorted(c.at for c in citations if c.target.lines or c.target.section)

    def spot(self, citation: Citation) -> Spot:
        """Find the sentence, the clause and the lead of a citation."""
        return self._grouped(self._spot(citation), citation)

    def _spot(self, citation: Citation) -> Spot:
        if citation.rule == "include":
            return Spot(*of_include(self, citation))
        first, last = self.sentence(*citation.at)
        label = self._labels.get(citation.at, citation.at)
        start = self.edge_before(label[0])
        group = GROUP.match(self.text, start, label[0])
        before = (min(max(first, group.end() if group and start else start), label[0]), label[0])
        after = self._after(citation, before, last)
        inside = not re.match(r"[`*\s]*[)）\]]", self.text[after[0] : after[0] + 4])
        if citation.same and inside and telling(self.text[slice(*after)]) and self._opens(citation):
            before = (citation.at[0], citation.at[0])
        if self.in_comment(citation) or citation.rule == "comment":
            line = self.line_of(citation.at[0])
            return Spot(line, line, (citation.at[1], citation.at[1]), None, False)
        begins = self.begins(citation) and bool(self.above(citation))
        if not begins and not any(telling(self.text[slice(*part)]) for part in (before, after)):
            before = self._named_above(citation) or before
        before = variants(self, label[0]) or referent(self, label[0]) or before
        return Spot((first, last), before, after, self._lead(citation) if begins else None, begins)

    def _named_above(self, citation: Citation) -> tuple[int, int] | None:
        return first_cell(self, citation) or heading(self, citation) or question(self, citation)

    def _grouped(self, spot: Spot, citation: Citation) -> Spot:
        here = bisect_left(self.places, citation.at)
        first = last = here
        while first > 0 and self._together(self.places[first - 1], self.places[first]):
            first -= 1
        while last + 1 < len(self.places) and self._together(*self.places[last : last + 2]):
            last += 1
        start = self.places[first][0]
        head = spot.before
        if first < here:
            head = (max(self.edge_before(start), min(spot.sentence[0], start)), start)
        return spot._replace(
            group=tuple(self.places[first : last + 1]), nth=here - first, head=head
        )

    def _together(self, one: Span, other: Span) -> bool:
        if not 0 <= other[0] - one[1] <= 24:
            return False
        between = self.text[one[1] : other[0]]
        return (
            "\n\n" not in between and "|" not in between and TOGETHER.fullmatch(between) is not None
        )

    def _after(self, citation: Citation, before: tuple[int, int], last: int) -> tuple[int, int]:
        """Give the rest of the sentence, where nothing before the citation says what is there."""
        at = self._targets.get(citation.at, citation.at)[1]
        edge = self.edge_after(at)
        group = GROUP.match(self.text, at, edge)
        if group:
            return (at, group.end())
        shared = edge < last and telling(self.text[slice(*before)])
        if not citation.same and (shared or CLOSED.match(self.text, at)):
            return (at, at)
        if edge < last:
            edge = self._parted(at, edge)
        return (at, max(at, min(last, edge)))

    def _parted(self, at: int, edge: int) -> int:
        """Give where the text between two citations goes over from the one to the other."""
        parts = [m.start() for m in PARTING.finditer(self.text, at, edge)]
        code = [c[:2] for c in self.codes(at, edge)]
        free = [p for p in parts if not any(first < p < last for first, last in code)]
        return free[-1] if free else edge

    @cached_property
    def _quotations(self) -> list[tuple[int, int]]:
        return [match.span() for match in QUOTATION.finditer(self.text)]

    def in_quotation(self, first: int, last: int) -> bool:
        """Whether something is a part of text in quotation marks."""
        index = bisect_right(self._quotations, (first, len(self.text))) - 1
        return index >= 0 and last <= self._quotations[index][1]

    def is_ahead(self, last: int, at: int, end: int) -> bool:
        """Whether a citation is told by what follows: what ends at `last` is about one before."""
        gap = self.text[last:at]
        if self.edge_before(at) < max(last - 200, 1):
            return False
        rest = self.text[end : min(self.edge_after(end), end + 80)]
        if "\n" in gap and LISTED.match(rest):
            return not re.search(r"\w", gap)
        piece = PIECE.search(rest, 0 if CLOSES.match(rest) else 1)
        return COMMA.search(gap) is not None and speaks(rest[: piece.start() if piece else None])

    def _opens(self, citation: Citation) -> bool:
        """Whether it is the first thing in brackets."""
        head = self.text[max(citation.at[0] - 16, 0) : citation.at[0]]
        return re.search(r"[(（]\s*(?:同一?文件|[Ss]ame file)\s*\Z", head) is not None

    def _labelled(self) -> dict[tuple[int, int], tuple[int, int]]:
        """For the target of a link, the reference that is its label, and the other way round."""
        return {
            other: one
            for one, other in pairwise(self.places)
            if other[0] - one[1] < 24 and IN_LINK.match(self.text[one[1] : other[0]])
        }

    def sentence(self, first: int, last: int) -> tuple[int, int]:
        block = self.page.blocks[self.page.block_at(first)] if self.page.blocks else None
        low, high = (block.first, max(block.last, last)) if block else (0, len(self.text))
        low = max(min(low, first), first - 700)
        start = low
        for match in END.finditer(self.text, low, first):
            if not self._announces(match.start(), match.end(), first):
                start = match.end()
        high = min(high, last + 700, self._next_item(low, first, last))
        end = END.search(self.text, last, high)
        return (start, end.start() if end else high)

    def _next_item(self, low: int, first: int, last: int) -> int:
        """Give where the next item of the same list begins, when a paragraph holds several."""
        begin, stop = self.line_of(first)[0], self.line_of(last)[1]
        item = ITEM.match(self.text, begin)
        following = ITEM.match(self.text, stop + 1) if item else None
        same = item and following and item[1] == following[1]
        return stop if same and not CELLS.search(self.text, low, first) else len(self.text)

    def _announces(self, seam: int, begin: int, at: int) -> bool:
        """Whether a colon at the end of a line ends in nothing but a citation."""
        head = MARKUP.sub("", self.text[begin:at])
        return self.text[seam] in ":：" and "\n" not in head.strip() and not re.search(r"\w", head)

    def edge_before(self, at: int) -> int:
        index = bisect_right(self._ends, at)
        return self._ends[index - 1] if index else 0

    def edge_after(self, at: int) -> int:
        index = bisect_left(self.starts, at)
        return self.starts[index] if index < len(self.starts) else len(self.text)

    def _lead(self, citation: Citation) -> tuple[int, int]:
        """The text above a citation that begins its line, down from the one before it."""
        low = max(self._lined_before(citation.at[0]), citation.at[0] - 900)
        index = self.page.block_at(citation.at[0])
        for block in reversed(self.page.blocks[max(index - 12, 0) : index]):
            if block.last < low:
                break
            following = self.text[slice(*self.line_of(block.last + 1))]
            if block.kind == "heading" and not is_code(following):
                low = block.last
                break
        return (low, citation.at[0])

    def _lined_before(self, at: int) -> int:
        return max((e for _, e in self._lined if e <= at), default=0)

    def _line_end(self, at: int) -> int:
        """Give the end of the cell that ends at an offset."""
        return self.line_of(at)[1]

    def line_of(self, at: int) -> tuple[int, int]:
        first = self.text.rfind("\n", 0, at) + 1
        last = self.text.find("\n", at)
        return first, len(self.text) if last < 0 else last

    def in_comment(self, citation: Citation) -> bool:
        """Whether it is the comment of a line of code, in text that has lost its fences."""
        if citation.written or citation.rule not in ("continuation", "comment"):
            return False
        first, _ = self.line_of(citation.at[0])
        head = self.text[first : citation.at[0]]
        mark = re.search(r"(?:#|(?:[;{})]|\A)\s*//|←)[^#]*\Z", head)
        return mark is not None and bool(head[: mark.start()].strip()) and is_code(head)

    def begins(self, citation: Citation) -> bool:
        """Whether nothing but brackets stands before it in its line."""
        known = self._beginning.get(citation.at)
        if known is None:
            known = self._beginning[citation.at] = self._begins_line(citation)
        return known

    def _begins_line(self, citation: Citation) -> bool:
        first, _ = self.line_of(citation.at[0])
        head = re.sub(r"(?:同一?文件|见|源码|来源|出处|[Ss]ource|[Ff]rom|[Ss]ee|[Ss]ame file)", "",
                      self.text[first : citation.at[0]])  # fmt: skip
        head = MARKUP.sub("", head)
        if not re.search(r"\w", head):
            return True
        told = SHOWN.match(head)
        if told and not re.search(r"\w", head[told.end() :]):
            return bool(self._shown_last(first))
        return GOES_ON.match(head) is not None and self._under_code(first)

    def _under_code(self, first: int) -> bool:
        """Whether a line is the first below a code block or a quotation."""
        index = self.page.block_at(first)
        if index < 1 or self.page.blocks[index].first < first - 1:
            return False
        above = self.page.blocks[index - 1]
        return above.kind in ("fence", "quote") and self.text[above.last : first].count("\n") <= 3

    def _shown_last(self, first: int) -> list[str]:
        """Give the last code block above a line that speaks of it, if no citation is between."""
        if SHOWN.match(self.text, first) is None:
            return []
        index = self.page.block_at(first)
        for block in reversed(self.page.blocks[max(index - 4, 0) : index]):
            lines = shown_lines(self.text[block.first : block.last])
            if self._lined_before(first) > block.last:
                return []
            if block.kind == "fence" and any(map(is_code, lines)):
                return lines
        return []

    def above(self, citation: Citation) -> list[str]:
        """The code block or the lines of code that end above a citation's line."""
        first, _ = self.line_of(citation.at[0])
        if shown := self._shown_last(first):
            return shown
        index = self.page.block_at(max(first - 1, 0))
        for back in range(index, max(index - 2, -1), -1):
            block = self.page.blocks[back] if self.page.blocks else None
            if block and block.last <= citation.at[0]:
                if block.kind == "fence" and not self.text[block.last : first].strip("`~ \r\n\t>"):
                    return shown_lines(self.text[block.first : block.last])
                if block.kind == "fence":
                    break
        found: list[str] = []
        at = first - 1
        while at > 0 and len(found) < 60:
            begin = self.text.rfind("\n", 0, at) + 1
            line = self.text[begin:at].rstrip("\r")
            if not line.strip() and found:
                break
            if line.strip() and (not is_code(line) or (not found and TITLE.match(line))):
                break
            if line.strip():
                found.insert(0, line)
            at = begin - 1
        return found

    def codes(self, first: int, last: int) -> list[tuple[int, int, str]]:
        """List the code spans that begin between two offsets, without their marks."""
        found = []
        for region in self.page.regions_in(first, last):
            if region.kind == "code" and not self._is_other(region.first):
                body = self.text[region.first : region.last]
                body = re.sub(r"\A\\\w+\*?[{|!+]|[}|!+]\Z", "", body).strip("` \n")
                found.append((region.first, region.last, body))
        return found

    def _is_other(self, at: int) -> bool:
        """Whether a cell shows other code than that of the citation of its row."""
        index = bisect_right(self._others, (at, len(self.text))) - 1
        return index >= 0 and at < self._others[index][1]

    def without_places(self, first: int, last: int) -> str:
        parts, at = [], first
        for index in range(bisect_left(self.starts, first), bisect_left(self.starts, last)):
            start, end = self.places[index]
            parts.append(self.text[at:start])
            at = max(end, at)
        return " ".join([*parts, self.text[at:last]])
