"""Markdown (CommonMark and MyST) and plain text, also what is left of Markdown after copying.

A line scanner, not a grammar: it runs over ten thousand files in seconds, and text that was
flattened by a web page has lost what a grammar needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.page import Block, BlockKind, Include, Page, Region
from srcmap.cite.readers.comments import comments

if TYPE_CHECKING:
    from srcmap.cite.source import Source

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,}|:{3,})[ \t]*(.*)")
_LIST = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)、]|[①-⑳]|（\d+）|\(\d+\))[ \t]*(?=\S)")
_HEADING = re.compile(r"\ufeff?(?:#{1,6}[ \t]|\d+(?:\.\d+)*\.?[ \t]\S)")
_INDENTED = re.compile(r"(?: {4}|\t)")
_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(\s*(<[^<>\n]*>|[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)")
_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
_INCLUDE = re.compile(r"\{(?:literalinclude|include)\}[ \t]*(\S.*?)[ \t]*\Z")
_LINES = re.compile(r"[ \t>]*:?lines:[ \t]*(.*)")


def read_markdown(source: Source) -> Page:
    """Read a Markdown or plain document."""
    return _Reader(source).page()


def ranges_of(
    text: str, first: int, last: int
) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    """Give the places of the numbers in `1,3-5,10`; an open end is its own first number."""
    found = []
    for match in re.compile(r"(\d+)(?:\s*-\s*(\d+))?").finditer(text, first, last):
        one = match.span(1)
        found.append((one, match.span(2) if match[2] else one))
    return tuple(found)


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source, self._text = source, source.text
        self._blocks: list[Block] = []
        self._regions: list[Region] = []
        self._includes: list[Include] = []
        self._open: tuple[int, int, BlockKind] | None = None  # a block that may go on

    def page(self) -> Page:
        at = self._front_matter()
        while at < len(self._text):
            at = self._line(at)
        self._close()
        for block in self._blocks:
            if block.kind != "fence":
                self._inline(block)
        return Page(self._source, self._blocks, self._regions, self._includes)

    def _front_matter(self) -> int:
        match = re.match(
            r"\ufeff?---[ \t]*\r?\n.*?^---[ \t]*$", self._text, re.DOTALL | re.MULTILINE
        )
        if match is None:
            return 0
        self._regions.append(Region(0, match.end(), "skip"))
        return match.end()

    def _end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _line(self, at: int) -> int:
        """Take one line (or a whole code block) and give where the next begins."""
        end = self._end(at)
        line = self._text[at:end]
        stripped = line.strip("\r \t\ufeff")
        if not stripped:
            self._close()
            return end + 1
        fence = _FENCE.match(line)
        if fence and not (fence[1][0] == "`" and "`" in fence[2]):
            return self._fence(at, end, fence[1], fence[2].strip())
        if self._open is None and _INDENTED.match(line) and not self._in_list():
            return self._indented(at)
        self._text_line(at, end, stripped, line)
        return end + 1

    def _text_line(self, at: int, end: int, stripped: str, line: str) -> None:
        if _HEADING.match(stripped) and len(stripped) < 90 and not self._goes_on(stripped, end):
            self._one(at, end, "heading")
        elif stripped.startswith("|") or stripped.endswith("|"):
            self._row(at, end, stripped)
        elif stripped.startswith(">"):
            self._grow(at, end, "quote")
        elif _LIST.match(line):
            self._close()
            self._open = (at, end, "item")
        else:
            self._grow(at, end, "text")

    def _goes_on(self, stripped: str, end: int) -> bool:
        """Whether a numbered line is the first of a paragraph, and no heading."""
        if stripped[0] == "#" or not stripped[0].isdigit():
            return False
        following = self._text[end + 1 : self._end(end + 1)].strip()
        if not following:
            return False
        broken = re.search(r"[,，、;；(（]\Z|\.\s+\S.*[a-z]\Z", stripped) is not None
        return broken or following[0].islower() or following[0] in ",，。、)）"

    def _row(self, at: int, end: int, stripped: str) -> None:
        """Take a table row; copied from a web page, each of its cells is on a line of its own."""
        before = self._blocks[-1] if self._blocks and self._open is None else None
        cell = stripped.count("|") == 1 and stripped.endswith("|")
        if cell and before and before.kind == "row" and before.last + 1 == at:
            self._blocks[-1] = Block(before.first, end, "row")
        else:
            self._one(at, end, "row")

    def _one(self, at: int, end: int, kind: BlockKind) -> None:
        self._close()
        self._blocks.append(Block(at, end, kind))

    def _grow(self, at: int, end: int, kind: BlockKind) -> None:
        if self._open is None or (kind == "quote") != (self._open[2] == "quote"):
            self._close()
            self._open = (at, end, kind)
        else:
            self._open = (self._open[0], end, self._open[2])

    def _close(self) -> None:
        if self._open is not None:
            self._blocks.append(Block(*self._open))
            self._open = None

    def _in_list(self) -> bool:
        return bool(self._blocks) and self._blocks[-1].kind == "item"

    def _fence(self, at: int, end: int, mark: str, info: str) -> int:
        """Take a fenced block. A colon fence holds prose: only its lines of colons are markup."""
        self._close()
        if mark[0] == ":":
            self._regions.append(Region(at, end, "skip"))
            return end + 1
        closing = re.compile(
            rf"^[ \t>]*{re.escape(mark[0])}{{{len(mark)},}}[ \t]*\r?$", re.MULTILINE
        )
        first = min(end + 1, len(self._text))
        match = closing.search(self._text, first)
        last = match.start() if match else len(self._text)
        if not self._directive(at, first, last, info):
            self._regions.append(Region(at, last, "fence"))
            self._regions.extend(comments(self._text, first, last))
        self._blocks.append(Block(first, last, "fence"))
        return (match.end() + 1) if match else len(self._text)

    def _directive(self, at: int, first: int, last: int, info: str) -> bool:
        """Read a MyST directive; True when it is one whose body is not code."""
        include = _INCLUDE.match(info)
        if include:
            start = self._text.index(include[1], at)
            numbers: list[tuple[tuple[int, int], tuple[int, int]]] = []
            for option in re.compile(_LINES.pattern, re.MULTILINE).finditer(
                self._text, first, last
            ):
                numbers.extend(ranges_of(self._text, *option.span(1)))
            path = (start, start + len(include[1]))
            self._includes.append(Include(path, tuple(numbers)))
            self._regions.append(Region(at, last, "skip"))
            return True
        return info.startswith("{") and not re.match(r"\{(code|sourcecode|prompt|eval)", info)

    def _indented(self, at: int) -> int:
        """Take an indented code block: lines of four spaces, with blank ones between."""
        last = at
        while at < len(self._text):
            end = self._end(at)
            line = self._text[at:end]
            if line.strip() and not _INDENTED.match(line):
                break
            last = end if line.strip() else last
            at = end + 1
        first = self._text.rfind("\n", 0, last) + 1
        begin = min(first, last)
        while begin > 0 and self._indented_before(begin):
            begin = self._text.rfind("\n", 0, begin - 1) + 1
        self._regions.append(Region(begin, last, "fence"))
        self._regions.extend(comments(self._text, begin, last))
        self._blocks.append(Block(begin, last, "fence"))
        return max(at, last + 1)

    def _indented_before(self, begin: int) -> bool:
        previous = self._text.rfind("\n", 0, begin - 1) + 1
        line = self._text[previous : begin - 1]
        covered = self._blocks and self._blocks[-1].last > previous
        return not covered and (not line.strip() or bool(_INDENTED.match(line)))

    def _inline(self, block: Block) -> None:
        """Find the code spans, link targets and hidden comments of a block."""
        text, first, last = self._text, block.first, block.last
        if "`" in text[first:last]:
            for match in _SPAN.finditer(text, first, last):
                self._regions.append(Region(match.start(), match.end(), "code"))
        if "](" in text[first:last]:
            for match in _LINK.finditer(text, first, last):
                self._regions.append(Region(match.start(1), match.end(1), "target"))
        if "<!--" in text[first:last]:
            for match in _HIDDEN.finditer(text, first, last):
                self._regions.append(Region(match.start(), match.end(), "skip"))
