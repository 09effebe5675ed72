"""reStructuredText with Sphinx roles and directives: blocks by blank lines and indentation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.page import Block, Include, Page, Region
from srcmap.cite.readers.comments import comments
from srcmap.cite.readers.markdown import ranges_of
from srcmap.cite.source import Mapped

if TYPE_CHECKING:
    from srcmap.cite.source import Source

_JOINT = re.compile(r"(?<![\\\n])\\ (?=\S)")
_DIRECTIVE = re.compile(r"([ \t]*)\.\. ([\w:+-]+)::[ \t]*(.*)")
_COMMENT = re.compile(r"([ \t]*)\.\.(?:[ \t]+(?!_|\[|\|)|[ \t]*$)")
_CODE = {"code-block", "code", "sourcecode", "highlight", "parsed-literal", "prompt", "math", "raw"}
_INCLUDES = {"literalinclude", "include"}
_LITERAL = re.compile(r"``(.+?)``|(?<=:)`([^`<]+)`|(?<![`:])`([^`<]+)`(?![`_])", re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|#\.|\d+\.)[ \t]")
_ROW, _CELL = re.compile(r"[ \t]*\*[ \t]+-[ \t]"), re.compile(r"[ \t]+-[ \t]")
"""Of a `list-table`: the lines of one row are read together."""
_LINES = re.compile(r"^[ \t]*:lines:[ \t]*(.*)$", re.MULTILINE)


def read_rst(source: Source) -> Page:
    """Read a reStructuredText document."""
    return _Reader(_without_joints(source)).page()


def _without_joints(source: Source) -> Source:
    r"""Drop the `\ ` that parts markup from text: it is nothing to a reader."""
    if "\\ " not in source.text:
        return source
    bytes_ = source.table()
    out: list[str] = []
    spans: list[tuple[int, int]] = []
    at = 0
    for match in _JOINT.finditer(source.text):
        kept = range(at, match.start())
        out.extend(source.text[index] for index in kept)
        spans.extend((bytes_[index], bytes_[index + 1]) for index in kept)
        at = match.end()
    kept = range(at, len(source.text))
    out.extend(source.text[index] for index in kept)
    spans.extend((bytes_[index], bytes_[index + 1]) for index in kept)
    return Mapped(source.data, "".join(out), spans)


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source, self._text = source, source.text
        self._blocks: list[Block] = []
        self._regions: list[Region] = []
        self._includes: list[Include] = []

    def page(self) -> Page:
        at = 0
        while at < len(self._text):
            at = self._paragraph(at)
        return Page(self._source, self._blocks, self._regions, self._includes)

    def _end(self, at: int) -> int:
        end = self._text.find("\n", at)
        return len(self._text) if end < 0 else end

    def _paragraph(self, at: int) -> int:
        end = self._end(at)
        line = self._text[at:end]
        if not line.strip():
            return end + 1
        directive = _DIRECTIVE.match(line)
        if directive:
            return self._directive(at, end, directive)
        if _COMMENT.match(line):
            last = self._body(end + 1, len(line) - len(line.lstrip()))
            self._regions.append(Region(at, last, "skip"))
            return last + 1
        return self._prose(at)

    def _prose(self, at: int) -> int:
        """Take lines up to a blank one; `::` at their end makes what is indented below code."""
        first, last, indent = at, at, self._indent(at)
        row = _ROW.match(self._text, at) is not None
        while at < len(self._text):
            end = self._end(at)
            line = self._text[at:end]
            if not line.strip() or (at > first and _DIRECTIVE.match(line)):
                break
            if at > first and _ITEM.match(line) and not (row and _CELL.match(line)):
                break
            last, at = end, end + 1
        self._blocks.append(Block(first, last, "row" if row else "text"))
        for match in _LITERAL.finditer(self._text, first, last):
            self._regions.append(Region(match.start(), match.end(), "code"))
        if self._text[first:last].rstrip().endswith("::"):
            return self._code(at, self._body(at, indent))
        return at

    def _indent(self, at: int) -> int:
        line = self._text[at : self._end(at)]
        return len(line) - len(line.lstrip())

    def _body(self, at: int, indent: int) -> int:
        """Give the end of the lines that are indented deeper than `indent`."""
        last = at - 1
        while at < len(self._text):
            end = self._end(at)
            line = self._text[at:end]
            if line.strip() and len(line) - len(line.lstrip()) <= indent:
                break
            last = end if line.strip() else last
            at = end + 1
        return max(last, 0)

    def _code(self, first: int, last: int) -> int:
        if last <= first:
            return first
        self._regions.append(Region(first, last, "fence"))
        self._regions.extend(comments(self._text, first, last))
        self._blocks.append(Block(first, last, "fence"))
        return last + 1

    def _directive(self, at: int, end: int, match: re.Match[str]) -> int:
        indent, name = len(match[1]), match[2]
        last = max(self._body(end + 1, indent), end)
        if name in _INCLUDES and match[3].strip():
            numbers: list[tuple[tuple[int, int], tuple[int, int]]] = []
            for option in _LINES.finditer(self._text, end, last):
                numbers.extend(ranges_of(self._text, *option.span(1)))
            path = match[3].rstrip()
            start = at + match.start(3)
            self._includes.append(Include((start, start + len(path)), tuple(numbers)))
            self._regions.append(Region(at, last, "skip"))
            return last + 1
        if name in _CODE:
            self._regions.append(Region(at, end, "skip"))
            return self._code(end + 1, last) if last > end + 1 else end + 1
        # Any other directive holds prose: its first line is an argument or text.
        return self._prose_of_directive(at, end)

    def _prose_of_directive(self, at: int, end: int) -> int:
        self._blocks.append(Block(at, end, "text"))
        for match in _LITERAL.finditer(self._text, at, end):
            self._regions.append(Region(match.start(), match.end(), "code"))
        return end + 1
