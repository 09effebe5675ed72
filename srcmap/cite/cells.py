"""The rows of tables: which cell of code belongs to the one citation of a row.

Rows stand in Markdown, in the list tables of reStructuredText, and in text that a table was copied
to, where a row may be broken over lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from srcmap.cite.compare import norm
from srcmap.cite.words import is_code, is_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.cite.nouns import Span
    from srcmap.cite.page import Page

_LIST_ROW = re.compile(r"^[ \t]*\*[ \t]+-[ \t]", re.MULTILINE)
_LIST_CELL = re.compile(r"^[ \t]*(?:\*[ \t]+)?-[ \t]+", re.MULTILINE)
_NAME = re.compile(r"\W*`+(?=\w*[a-z]\w*_|\w*[a-z][A-Z]|\w+\.)[A-Za-z_][\w.]*(?:\(\))?`+\W*\Z")
_WORDS = re.compile(
    r"\b(?:words?|code|text|statement|verbatim|source|content|what it says|reads)\b"
    r"|代码|原文|内容|语句|写法|文字|那一行",
    re.IGNORECASE,
)
"""The head of a column that shows what stands on the lines, word by word."""
_OURS = re.compile(
    r"\b(?:ours?|we|replac\w+|instead|suggest\w*|propos\w+|fix|port(?:ed)?)\b"
    r"|我们|本项目|改成|改为|改后|替换|换成|建议|移植",
    re.IGNORECASE,
)
_DASHES = re.compile(r"[\s|:+-]*\Z")


_Row: TypeAlias = "Sequence[Span]"


class _Line(NamedTuple):
    first: int
    last: int
    text: str
    cited: tuple[Span, ...]


def cells_of(page: Page, places: Sequence[Span]) -> tuple[dict[Span, Span], list[Span]]:
    """For the only citation of a row the only cell of its row that is code; and cells of others.

    What stands in a column such as "ours" or "replace with" is not the code of the cited place.
    """
    found: dict[Span, Span] = {}
    others: list[Span] = []
    for top_row, whole in (*_markdown(page), *_listed(page.text)):
        head, row = top_row, whole
        if len(head) == len(whole):
            apart = [_OURS.search(page.text[slice(*top)]) is not None for top in head]
            others += [one for one, away in zip(whole, apart, strict=True) if away]
            row = [one for one, away in zip(whole, apart, strict=True) if not away]
            head = [top for top, away in zip(head, apart, strict=True) if not away]
        _take(found, page.text, head, row, places)
    found.update(_broken(page, places))
    return found, sorted(others)


def _take(
    found: dict[Span, Span], text: str, head: _Row, cells: _Row, places: Sequence[Span]
) -> None:
    cited = [p for first, last in cells for p in _within(places, first, last)]
    if len(cited) != 1:
        return
    others = [(a, b) for a, b in cells if not _within(places, a, b)]
    shown = [(a, b) for a, b in others if _is_code(text[a:b])]
    if not shown and len(head) == len(cells):
        worded = [
            one for one, top in zip(cells, head, strict=True) if _WORDS.search(text[slice(*top)])
        ]
        shown = [(a, b) for a, b in others if (a, b) in worded and _NAME.match(text[a:b])]
    if len(shown) == 1:
        found[cited[0]] = shown[0]


def _within(places: Sequence[Span], first: int, last: int) -> Sequence[Span]:
    return places[bisect_left(places, (first, 0)) : bisect_left(places, (last, 0))]


def _is_code(cell: str) -> bool:
    """Whether a cell holds a statement or a call, and nothing else."""
    body = cell.strip().strip("|").strip()
    marked = re.fullmatch(r"(`+)\s?([^`]+?)\s?\1", body)
    code = marked[2] if marked else body
    if len(norm(code)) < 8 or is_path(code) or not re.search(r"[=(\[+*/<>-]", code):
        return False
    return (
        marked is not None
        or (not re.match(r"[A-Za-z ]+\(", code) and is_code(code))
        or (re.match(r"[A-Za-z_][\w.]*\(", code) is not None and is_code(code))
    )


def _markdown(page: Page) -> Iterator[tuple[_Row, _Row]]:
    head: _Row | None = None
    for block in page.blocks:
        if block.kind != "row":
            head = None
            continue
        row = _split(page, block.first, block.last)
        head = head or row
        yield head, row


def _split(page: Page, first: int, last: int) -> list[Span]:
    """Cut a row at its bars, but not at those inside of code."""
    codes = [r for r in page.regions_in(first, last) if r.kind == "code"]
    cells, at = [], first
    for match in re.finditer(r"(?<!\\)\|", page.text[first:last]):
        bar = first + match.start()
        if not any(r.first < bar < r.last for r in codes):
            cells.append((at, bar))
            at = bar + 1
    return [cell for cell in (*cells, (at, last)) if page.text[slice(*cell)].strip()]


def _listed(text: str) -> Iterator[tuple[_Row, _Row]]:
    """Yield the rows of list tables, of reStructuredText and of MyST."""
    if "list-table" not in text:
        return
    starts = [m.start() for m in _LIST_ROW.finditer(text)]
    head: _Row | None = None
    for index, first in enumerate(starts):
        gap = text.find("\n\n", first)
        stop = gap if gap >= 0 else len(text)
        if index and text.find("\n\n", starts[index - 1], first) >= 0:
            head = None
        if index + 1 < len(starts):
            stop = min(stop, starts[index + 1])
        heads = [m.span() for m in _LIST_CELL.finditer(text, first, stop)]
        ends = [*(start for start, _ in heads[1:]), stop]
        row = [(begin, end) for (_, begin), end in zip(heads, ends, strict=True)]
        head = head or row
        yield head, row


def _broken(page: Page, places: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield the code that has the line below the one that ends its row's citation."""
    run: list[_Line] = []
    for line in (*_lines(page, places), None):
        if line is not None and (line.text.rstrip().endswith("|") or (run and _shows(line))):
            run.append(line)
            continue
        yield from _pairs(run)
        run = []


def _lines(page: Page, places: Sequence[Span]) -> Iterator[_Line]:
    if "|\n" not in page.text and "|\r\n" not in page.text:
        return
    at = 0
    for text in page.text.split("\n"):
        last = at + len(text)
        yield _Line(at, last, text, tuple(_within(places, at, last)))
        at = last + 1


def _shows(line: _Line) -> bool:
    return not line.cited and not line.text.lstrip().startswith("|") and _is_code(line.text)


def _pairs(run: Sequence[_Line]) -> Iterator[tuple[Span, Span]]:
    said = [line for line in run if line.cited or _shows(line)]
    if not said or not said[0].cited:
        return
    for line, below in pairwise(run):
        if len(line.cited) == 1 and _shows(below) and _closes(line):
            yield line.cited[0], (below.first, below.last)


def _closes(line: _Line) -> bool:
    """Whether no cell follows the citation in its line."""
    return _DASHES.match(line.text[line.cited[0][1] - line.first :].strip("` ")) is not None
