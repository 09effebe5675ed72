"""Text in terminal cells: widths, padding, wrapping and columns, with wide characters counted.

A Chinese character takes two cells and a combining mark none, so `len` is not a width.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from unicodedata import category, east_asian_width

if TYPE_CHECKING:
    from collections.abc import Sequence

# A line does not begin with closing punctuation nor end with opening punctuation.
_NOT_FIRST = frozenset("，。、；：？！）】》」』”’…,.;:?!)]}")
_NOT_LAST = frozenset("（【《「『“‘([{")

_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\")
"""The escape sequences that `console` writes: colours and links take no cells."""


def cells(text: str) -> int:
    """How many terminal cells `text` takes; our own colour and link sequences take none."""
    if text.isascii() and "\x1b" not in text:
        return len(text)
    return sum(_cell(char) for char in _SEQUENCE.sub("", text))


def pad(text: str, width: int) -> str:
    """`text` followed by the spaces that bring it to `width` cells; longer text is kept whole."""
    return text + " " * (width - cells(text))


def wrap(text: str, width: int | None) -> list[str]:
    """Lines of at most `width` cells, cut at spaces and between wide characters.

    A single word longer than `width` (a path) is kept whole: cut, it could not be copied.
    `None` wraps nothing. At least one line comes back.
    """
    if width is None or cells(text) <= width:
        return [text]
    lines = [""]
    for piece in _pieces(text):
        if cells((lines[-1] + piece).rstrip()) > width and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        if lines[-1] or not piece.isspace():
            lines[-1] += piece
    lines[-1] = lines[-1].rstrip()
    return lines


def indented(text: str, width: int | None, first: str, rest: str | None = None) -> list[str]:
    """`wrap`, with `first` before the first line and `rest` (else as many spaces) before others."""
    rest = " " * cells(first) if rest is None else rest
    room = None if width is None else max(width - cells(first), 12)
    lines = wrap(text, room)
    return [first + lines[0], *(rest + line for line in lines[1:])]


def columns(rows: Sequence[Sequence[str]], width: int | None, indent: str = "  ") -> list[str]:
    """Rows as aligned columns two spaces apart; only the last column is wrapped.

    Nothing is cut, so a row may be longer than `width` when its first columns are.
    """
    if not rows:
        return []
    widths = [max(cells(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        head = indent + "".join(pad(text, w) + "  " for text, w in zip(row, widths, strict=False))
        lines += [line.rstrip() for line in indented(row[-1], width, head)]
    return lines


def visible(text: str, tab: int = 4) -> str:
    """One source line made safe to print: tabs expanded, control characters as pictures.

    Source text can hold escape sequences, and bidirectional marks can make it lie; neither may
    reach the terminal.
    """
    text = text.rstrip("\r\n")
    if text.isascii() and text.isprintable():
        return text
    return "".join(_picture(char) for char in text.expandtabs(tab))


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
        return "\ufffd"
    return char


def _cell(char: str) -> int:
    if east_asian_width(char) in "WF":
        return 2
    return 0 if category(char) in ("Mn", "Me", "Cf", "Cc") else 1


def _pieces(text: str) -> list[str]:
    """Cut `text` where a line may break: runs of spaces, words, single wide characters."""
    pieces: list[str] = []
    for part in re.findall(r"\s+|\S+", text):
        if part.isspace():
            pieces.append(part)
        else:
            pieces += _word_pieces(part)
    return pieces


def _word_pieces(word: str) -> list[str]:
    pieces: list[str] = []
    for char in word:
        wide = _cell(char) == 2
        joined = pieces and (
            (not wide and not _ends_wide(pieces[-1]))
            or char in _NOT_FIRST
            or pieces[-1][-1] in _NOT_LAST
        )
        if joined:
            pieces[-1] += char
        else:
            pieces.append(char)
    return pieces


def _ends_wide(piece: str) -> bool:
    return _cell(piece[-1]) == 2
