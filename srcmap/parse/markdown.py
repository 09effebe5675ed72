"""Bytes of a Markdown file to a document: its blocks in reading order, under its headings.

Sections are made from the headings, not from the grammar's section nodes: those end one line
late, and know nothing of underlined headings.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from srcmap.model import Lines
from srcmap.parse.treesitter import Parsed, ancestors, parse

if TYPE_CHECKING:
    from tree_sitter import Node

BLANK_ROW = re.compile(rb"^[ \t]*\|[ \t|]*\|[ \t]*\r?$", re.MULTILINE)
QUOTED = re.compile(r"“[^”]*”|\"[^\"]*\"|「[^」]*」")


class Heading(NamedTuple):
    """A heading; `level` is 1 to 6."""

    lines: Lines
    title: str
    level: int


class Table(NamedTuple):
    """A table; cells are plain text, `rows` without the header."""

    lines: Lines
    header: list[str]
    rows: list[list[str]]


class Prose(NamedTuple):
    """A paragraph; `item` says whether it stands in a list."""

    lines: Lines
    text: str
    item: bool


class Bullets(NamedTuple):
    """A whole list that is in no other list; `items` is the text of its items."""

    lines: Lines
    items: list[str]


class Other(NamedTuple):
    """Code, or anything else that takes room between two blocks."""

    lines: Lines


Block = Heading | Table | Prose | Other


def parse_document(data: bytes) -> Document:
    """Parse a document; the grammar ends a table at a row without text, so such rows get some."""
    healed = BLANK_ROW.sub(lambda row: row.group().replace(b" |", b".|"), data)
    parsed = parse(healed, "markdown")
    return Document(Parsed(data, "markdown", parsed.tree))


class Document:
    """The blocks of a document in reading order, and where they stand under its headings."""

    def __init__(self, parsed: Parsed) -> None:
        self.parsed = parsed
        self.lists: list[Bullets] = []
        self.blocks: list[Block] = []
        for match in parsed.find("markdown-blocks"):
            for kind, (node, *_) in match.items():
                self._take(kind, node)
        self.blocks.sort(key=lambda block: block.lines)
        self.lists.sort(key=lambda bullets: bullets.lines)
        self._firsts = [block.lines.first for block in self.blocks]

    def _take(self, kind: str, node: Node) -> None:
        lines = self.parsed.span(node)
        around = {outer.type for outer in ancestors(node)}
        if kind == "heading":
            self.blocks.append(_heading(self.parsed, node, lines))
        elif kind == "table":
            self.blocks.append(_table(self.parsed, node, lines))
        elif kind == "paragraph" and "setext_heading" not in around:
            text = plain(self.parsed.text(node))
            self.blocks.append(Prose(lines, text, item="list" in around))
        elif kind == "list" and "list" not in around:
            items = [n for n in node.named_children if n.type == "list_item"]
            self.lists.append(Bullets(lines, [plain(self.parsed.text(item)) for item in items]))
        elif kind == "other":
            self.blocks.append(Other(lines))

    @cached_property
    def headings(self) -> list[Heading]:
        """All headings, in order."""
        return [block for block in self.blocks if isinstance(block, Heading)]

    @cached_property
    def tables(self) -> list[Table]:
        """All tables, in order."""
        return [block for block in self.blocks if isinstance(block, Table)]

    @cached_property
    def prose(self) -> list[Prose]:
        """All paragraphs, in order, those of list items too."""
        return [block for block in self.blocks if isinstance(block, Prose)]

    def path(self, line: int) -> list[Heading]:
        """List the headings that a line stands under, outermost first; its own if it is one."""
        found: list[Heading] = []
        at: int | None = bisect_right(self._heading_lines, line) - 1
        while at is not None and at >= 0:
            found.append(self.headings[at])
            at = self._outer[at]
        return found[::-1]

    def section(self, heading: Heading) -> Lines:
        """From a heading to the last line before the next of its level or above, not blank."""
        last = self._section_ends[heading.lines.first]
        while last > heading.lines.last and not self.parsed.lines[last - 1].strip():
            last -= 1
        return Lines(heading.lines.first, last)

    @cached_property
    def _heading_lines(self) -> list[int]:
        return [heading.lines.first for heading in self.headings]

    @cached_property
    def _outer(self) -> list[int | None]:
        """For each heading, the index of the one that it stands under."""
        outer: list[int | None] = []
        open_: list[int] = []
        for index, heading in enumerate(self.headings):
            while open_ and self.headings[open_[-1]].level >= heading.level:
                open_.pop()
            outer.append(open_[-1] if open_ else None)
            open_.append(index)
        return outer

    @cached_property
    def _section_ends(self) -> dict[int, int]:
        """First line of each heading to the last line before the next of its level or above."""
        ends: dict[int, int] = {}
        open_: list[Heading] = []
        for heading in self.headings:
            while open_ and open_[-1].level >= heading.level:
                ends[open_.pop().lines.first] = heading.lines.first - 1
            open_.append(heading)
        return ends | {left.lines.first: len(self.parsed.lines) for left in open_}

    def before(self, line: int) -> Block | None:
        """Find the block that begins last before a line."""
        index = bisect_left(self._firsts, line)
        return self.blocks[index - 1] if index else None

    def text(self, lines: Lines) -> str:
        """Give the text of some lines."""
        chosen = self.parsed.lines[lines.first - 1 : lines.last]
        return b"\n".join(chosen).decode("utf-8", "replace")


def _heading(parsed: Parsed, node: Node, lines: Lines) -> Heading:
    levels = re.findall(r"h([1-6])_", " ".join(child.type for child in node.children))
    text = parsed.text(node).strip()
    title = text.strip("#").strip() if node.type == "atx_heading" else text.rpartition("\n")[0]
    return Heading(lines, plain(title), int(levels[0]) if levels else 1)


def _table(parsed: Parsed, node: Node, lines: Lines) -> Table:
    header: list[str] = []
    rows: list[list[str]] = []
    for row in node.named_children:
        cells = [plain(parsed.text(c)) for c in row.named_children if c.type == "pipe_table_cell"]
        if row.type == "pipe_table_header":
            header = cells
        elif row.type == "pipe_table_row":
            rows.append(cells)
    return Table(lines, header, rows)


def spoken(text: str) -> str:
    """Plain text without what it only quotes: words in quotation marks, sentences set as code."""
    inline = parse(text.encode(), "markdown_inline")
    spans = [match["code"][0] for match in inline.find("markdown_inline-code")]
    kept, at = "", 0
    for span in spans:
        quoted = inline.text(span)
        kept += inline.data[at : span.start_byte].decode("utf-8", "replace")
        kept += "" if len(quoted.split()) > 2 else quoted
        at = span.end_byte
    kept += inline.data[at:].decode("utf-8", "replace")
    return QUOTED.sub("", plain(kept))


def plain(text: str) -> str:
    """Text without emphasis, code marks and link targets, on one line."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"[*`$]|(?<!\w)_+|_+(?!\w)", "", text)
    return " ".join(text.split())
