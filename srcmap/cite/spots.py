"""Where the text about a citation stands: its sentence, its clause, the lines above it."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.words import is_code, shown_lines, telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.cite.nouns import Citation
    from srcmap.cite.page import Page

_SHORTENED = "".join(
    rf"(?<!\b{word})" for word in ("[Ii]bid", "e\\.g", "i\\.e", "[Cc]f", "vs", "[Ff]ig", "[Ss]ec")
)
_END = re.compile(
    rf"[。！？](?![」』”])|(?:[!?]|{_SHORTENED}\.)(?=\s|\Z)"
    r"|[:：][ \t*]*\r?\n(?!\s*[`\\])|\n[ \t]*\r?\n|；\s*\n"
)
_CLOSED = re.compile(r"[`*)）\]」。.]+\s*\n")
"""A reference at the end of its line: what follows is about something else."""
_COMMA = re.compile(r"[,，、;；]\s*(?:and\s+|而\s?|then\s+)?(?:第|[Ll]ines?\s|行\s?)?[\s`*\\]*\Z")
_LISTED = re.compile(r"[`*]*\s*(?:[:：]|–|—|->|→)\s*\S")
_PIECE = re.compile(r"[,，;；。、]|\.(?:\s|\Z)|\n")
_QUOTATION = re.compile(
    r"“[^”]{12,400}”|「[^」]{8,400}」|『[^』]{8,400}』|(?<!\w)\"[^\"\n]{12,200}\"(?!\w)"
    r"|(?<!`)``[^`]{12,400}?''"
)
_MARKUP = re.compile(r":\w+:(?=`)|\\\w+\*?\{|\\verb\W")
_TITLE = re.compile(r"\s*#{1,6}\s")
"""A heading, when nothing is between it and a citation; else a comment in code."""
_GOES_ON = re.compile(
    r"\W*(?:(?:(?:that|this|it|which|these)(?:\s(?:line|code|loop|block|statement|one|is))?\s)?"
    r"(?:is|are|stands?|sits?|comes?|lives?)(?:\s(?:at|in|from|on|found\s(?:at|in)))?|at|in|on"
    r"|(?:这|以上|上面)?(?:一?[段行句]|几行)?(?:代码)?(?:就?在|位于|来自|出自|是|即|取自|摘自|对应|的位置是))\W*(?::\w+:)?\W*\Z",
    re.IGNORECASE,
)
"""Between code and a reference that goes on with its sentence."""
_PARTING = re.compile(r"[,，;；。]|\b(?:and|while|then|followed by)\b|[与和而及]|然后|再到?")
_GROUP = re.compile(r"[`*]{0,2}\s?(?:行\s?)?[(（][^()（）\n]{1,60}[)）]")
"""Brackets right behind a reference say what is there."""
_IN_LINK = re.compile(r"[`*\s]*(?:\]\(\s*<?|\s<|\}\s*\{(?:\\\w+\s*\{)*)\Z")


class Spot(NamedTuple):
    """Where to look for evidence about one citation: runs of characters, half open."""

    sentence: tuple[int, int]
    before: tuple[int, int]
    """Its clause, up to the citation."""
    after: tuple[int, int]
    lead: tuple[int, int] | None
    """The text above, for a citation that begins its line."""
    begins: bool


class Spots:
    """Finds the text about the citations of one page."""

    def __init__(self, page: Page, citations: Sequence[Citation]) -> None:
        self.page, self.text = page, page.text
        self.places = sorted(c.at for c in citations)
        self.starts = [start for start, _ in self.places]
        self._beginning: dict[tuple[int, int], bool] = {}
        self._ends = sorted(end for _, end in self.places)
        self._labels = self._labelled()
        self.lines_at = {c.at: c.target.lines for c in citations if c.target.lines}
        self._lined = sorted(c.at for c in citations if c.target.lines or c.target.section)

    def spot(self, citation: Citation) -> Spot:
        """Find the sentence, the clause and the lead of a citation."""
        if citation.rule == "include":
            return self._of_include(citation)
        first, last = self._sentence(*citation.at)
        label = self._labels.get(citation.at, citation.at)
        start = self.edge_before(label[0])
        group = _GROUP.match(self.text, start, label[0])
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
            before = self._first_cell(citation) or self._heading(citation) or before
        return Spot((first, last), before, after, self._lead(citation) if begins else None, begins)

    def _first_cell(self, citation: Citation) -> tuple[int, int] | None:
        """Give the cell that a table row begins with, for the citations of its other columns."""
        block = self.page.blocks[self.page.block_at(citation.at[0])] if self.page.blocks else None
        if block is None or block.kind != "row":
            return None
        match = re.compile(r"\s*\|?\s*([^|\n]+?)\s*\|").match(self.text, block.first, citation.at[0])
        if match is None or self.edge_before(match.end(1)) > block.first:
            return None
        return match.span(1)

    def _heading(self, citation: Citation) -> tuple[int, int] | None:
        """Give the heading, or the label, above a paragraph that holds nothing but citations."""
        index = self.page.block_at(citation.at[0])
        if index < 1:
            return None
        block, above = self.page.blocks[index], self.page.blocks[index - 1]
        rest = self.without_places(block.first, citation.at[0])
        shown = self.text[above.first : above.last].strip()
        if re.search(r"\w", rest) or self.edge_before(citation.at[0]) > above.first:
            return None
        label = len(shown) < 60 and (
            shown.endswith((":", "：")) or re.fullmatch(r"\*\*.+\*\*", shown)
        )
        return above[:2] if above.kind == "heading" or label else None

    def _of_include(self, citation: Citation) -> Spot:
        """Read the caption of a directive, else the sentence that announces it."""
        first, last = citation.at
        region = self.page.region_at(first)
        told = self.page.caption(first)
        if told is None:
            at = region.first if region else first
            end = len(self.text[:at].rstrip())
            announced = self.text[:end].endswith((":", "：")) and at - end < 4
            low, _ = self._sentence(end - 1, end - 1) if announced else (end, end)
            told = (max(low, self.edge_before(end)), end)
        return Spot(told, told, (last, last), None, False)

    def _after(self, citation: Citation, before: tuple[int, int], last: int) -> tuple[int, int]:
        """Give the rest of the sentence, where nothing before the citation says what is there."""
        at = citation.at[1]
        edge = self.edge_after(at)
        group = _GROUP.match(self.text, at, edge)
        if group:
            return (at, group.end())
        shared = edge < last and telling(self.text[slice(*before)])
        if not citation.same and (shared or _CLOSED.match(self.text, at)):
            return (at, at)
        if edge < last:
            edge = self._parted(at, edge)
        return (at, max(at, min(last, edge)))

    def _parted(self, at: int, edge: int) -> int:
        """Give where the text between two citations goes over from the one to the other."""
        parts = [m.start() for m in _PARTING.finditer(self.text, at, edge)]
        code = [c[:2] for c in self.codes(at, edge)]
        free = [p for p in parts if not any(first < p < last for first, last in code)]
        return free[-1] if free else edge

    @cached_property
    def _quotations(self) -> list[tuple[int, int]]:
        return [match.span() for match in _QUOTATION.finditer(self.text)]

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
        if "\n" in gap and _LISTED.match(rest):
            return not re.search(r"\w", gap)
        piece = _PIECE.search(rest, 1)
        return _COMMA.search(gap) is not None and telling(rest[: piece.start() if piece else None])

    def _opens(self, citation: Citation) -> bool:
        """Whether it is the first thing in brackets."""
        head = self.text[max(citation.at[0] - 16, 0) : citation.at[0]]
        return re.search(r"[(（]\s*(?:同一?文件|[Ss]ame file)\s*\Z", head) is not None

    def _labelled(self) -> dict[tuple[int, int], tuple[int, int]]:
        """For the target of a link, the reference that is its label, and the other way round."""
        return {
            other: one
            for one, other in pairwise(self.places)
            if other[0] - one[1] < 24 and _IN_LINK.match(self.text[one[1] : other[0]])
        }

    def _sentence(self, first: int, last: int) -> tuple[int, int]:
        block = self.page.blocks[self.page.block_at(first)] if self.page.blocks else None
        low, high = (block.first, max(block.last, last)) if block else (0, len(self.text))
        low = max(min(low, first), first - 700)
        start = low
        for match in _END.finditer(self.text, low, first):
            start = match.end()
        end = _END.search(self.text, last, min(high, last + 700))
        return (start, end.start() if end else min(high, last + 700))

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
        head = _MARKUP.sub("", head)
        if not re.search(r"\w", head):
            return True
        return _GOES_ON.match(head) is not None and self._under_code(first)

    def _under_code(self, first: int) -> bool:
        """Whether a line is the first below a code block or a quotation."""
        index = self.page.block_at(first)
        if index < 1 or self.page.blocks[index].first < first - 1:
            return False
        above = self.page.blocks[index - 1]
        return above.kind in ("fence", "quote") and self.text[above.last : first].count("\n") <= 3

    def above(self, citation: Citation) -> list[str]:
        """The code block or the lines of code that end above a citation's line."""
        first, _ = self.line_of(citation.at[0])
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
            if line.strip() and (not is_code(line) or (not found and _TITLE.match(line))):
                break
            if line.strip():
                found.insert(0, line)
            at = begin - 1
        return found

    def codes(self, first: int, last: int) -> list[tuple[int, int, str]]:
        """List the code spans that begin between two offsets, without their marks."""
        found = []
        for region in self.page.regions_in(first, last):
            if region.kind == "code":
                body = self.text[region.first : region.last]
                body = re.sub(r"\A\\\w+\*?[{|!+]|[}|!+]\Z", "", body).strip("` \n")
                found.append((region.first, region.last, body))
        return found

    def without_places(self, first: int, last: int) -> str:
        parts, at = [], first
        for index in range(bisect_left(self.starts, first), bisect_left(self.starts, last)):
            start, end = self.places[index]
            parts.append(self.text[at:start])
            at = max(end, at)
        return " ".join([*parts, self.text[at:last]])
