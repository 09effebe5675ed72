"""Jupyter notebooks: the source of every cell, each character with its bytes in the JSON.

The JSON is scanned and not parsed, because a parser forgets where a string stood.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.page import Block, Include, Page, Region
from srcmap.cite.readers.markdown import read_markdown
from srcmap.cite.readers.python import python_parts
from srcmap.cite.source import Mapped, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_Spans = list[tuple[int, int]]


def read_notebook(data: bytes) -> Page:
    """Read the cells of a notebook; what is no notebook has none."""
    raw = Source(data)
    text: list[str] = []
    spans: _Spans = []
    cells: list[tuple[int, int, str]] = []
    table = raw.table()
    for kind, strings in _cells(raw.text):
        first = len(spans)
        for start, end in strings:
            _unescape(raw.text, table, (start, end), text, spans)
        cells.append((first, len(spans), kind))
        edge = spans[-1][1] if spans else 0
        text.append("\n\n")
        spans.extend([(edge, edge)] * 2)
    return _page(Mapped(data, "".join(text), spans), cells)


def _page(source: Mapped, cells: list[tuple[int, int, str]]) -> Page:
    blocks: list[Block] = []
    regions: list[Region] = []
    includes: list[Include] = []
    for first, last, kind in cells:
        if kind == "code":
            more, parts = python_parts(source.text, first, last)
            blocks += more
            regions += parts
        else:
            part = read_markdown(_Part(source.text[first:last]))
            blocks += [Block(b.first + first, b.last + first, b.kind) for b in part.blocks]
            regions += [Region(r.first + first, r.last + first, r.kind) for r in part.regions]
    return Page(source, blocks, regions, includes)


class _Part(Source):
    """The text of one cell; its bytes are known to the whole."""

    def __init__(self, text: str) -> None:
        self.data, self.text = b"", text


def _cells(text: str) -> Iterator[tuple[str, _Spans]]:  # noqa: C901
    """Yield the kind of every cell and the insides of its source strings."""
    stack: list[str] = []
    keys: list[str] = []
    key, kind, strings = "", "", _Spans()
    depth_of_cell = -1
    expecting = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":  # noqa: S105
            stack.append(token)
            keys.append(key)
            if token == "{" and len(stack) >= 2 and stack[-2] == "[" and keys[-2:-1] == ["cells"]:  # noqa: S105
                kind, strings, depth_of_cell = "", _Spans(), len(stack)
            key = key if token == "[" else ""  # noqa: S105
        elif token in "}]":  # noqa: S105
            if token == "}" and len(stack) == depth_of_cell:  # noqa: S105
                yield kind, strings
                depth_of_cell = -1
            if stack:
                stack.pop()
                keys.pop()
            expecting = False
        elif token == ":":  # noqa: S105
            expecting = True
        elif token == ",":  # noqa: S105
            expecting = False
        elif token[0] == '"':
            inside = bool(stack) and stack[-1] == "["
            if inside or expecting:
                at_cell = len(stack) == depth_of_cell + (1 if inside else 0)
                owner = keys[-1] if inside and keys else key
                if at_cell and depth_of_cell > 0 and owner == "source":
                    strings.append((match.start() + 1, match.end() - 1))
                elif at_cell and not inside and key == "cell_type":
                    kind = token[1:-1]
            else:
                key = token[1:-1]


def _unescape(
    raw: str, table: list[int], inside: tuple[int, int], text: list[str], spans: _Spans
) -> None:
    """Append the characters of a JSON string, with the bytes of each."""
    at, last = inside
    while at < last:
        if raw[at] == "\\":
            match = _ESCAPE.match(raw, at)
            end = min(match.end() if match else at + 1, last)
            char = _char(match) if match else "\\"
        else:
            end, char = at + 1, raw[at]
        text.append(char)
        spans.append((table[at], table[end]))
        at = end


def _char(match: re.Match[str]) -> str:
    if match[1]:
        return chr(int(match[1], 16))
    return _PLAIN.get(match[2], match[2])
