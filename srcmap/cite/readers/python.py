"""Python: its comments and docstrings are prose, all else is skipped. Never parses: it scans."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.page import Block, Page, Region

if TYPE_CHECKING:
    from srcmap.cite.source import Source

_TOKEN = re.compile(
    r"(?P<comment>\#[^\n]*)"
    r"|(?P<string>[rbfuRBFU]{0,2}(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\""
    r"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"))",
    re.DOTALL,
)
_SPAN = re.compile(r"``(.+?)``|`([^`\n]+)`")


def read_python(source: Source) -> Page:
    """Read the comments and docstrings of a Python file."""
    blocks, regions = python_parts(source.text, 0, len(source.text))
    return Page(source, blocks, regions)


def python_parts(text: str, first: int, last: int) -> tuple[list[Block], list[Region]]:
    """Give the prose blocks of the code between two offsets, and the regions that are not prose."""
    prose = [m.span() for m in _TOKEN.finditer(text, first, last) if _is_prose(text, m)]
    blocks: list[Block] = []
    regions: list[Region] = []
    at = first
    for start, end in prose:
        if start > at:
            regions.append(Region(at, start, "skip"))
        at = end
    if last > at:
        regions.append(Region(at, last, "skip"))
    for start, end in _joined(text, prose):
        blocks.extend(_paragraphs(text, start, end))
        regions.extend(Region(m.start(), m.end(), "code") for m in _SPAN.finditer(text, start, end))
    return blocks, regions


def _is_prose(text: str, match: re.Match[str]) -> bool:
    """Whether it is a comment, or a string that is a statement of its own."""
    if match["comment"] is not None:
        return True
    line = text.rfind("\n", 0, match.start()) + 1
    if text[line : match.start()].strip("\ufeff \t"):
        return False
    before = text[:line].rstrip()
    after = text[match.end() : match.end() + 80].partition("\n")[0].strip()
    return (not before or before[-1] not in "=([{,+\\") and after in ("", ";")


def _joined(text: str, prose: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join comments on lines that follow each other."""
    found: list[tuple[int, int]] = []
    for start, end in prose:
        if found and text[start] == "#":
            gap = text[found[-1][1] : start]
            if not gap.strip() and gap.count("\n") == 1 and text[found[-1][0]] == "#":
                found[-1] = (found[-1][0], end)
                continue
        found.append((start, end))
    return found


def _paragraphs(text: str, first: int, last: int) -> list[Block]:
    found, at = [], first
    for cut in re.compile(r"\n[ \t#]*\n").finditer(text, first, last):
        found.append(Block(at, cut.start(), "text"))
        at = cut.end()
    return [*found, Block(at, last, "text")]
