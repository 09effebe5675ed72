"""Bytes of a document -> text whose every character knows its bytes.

Nothing is lost on the way: bytes that are no UTF-8 become lone surrogates and a byte order mark
stays a character, so that a span of characters is always a span of the bytes it was read from.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UTF16 = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Source:
    """Text and, for every offset in it, the offset of its first byte."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._identity = data.isascii()
        if self._identity:
            self.text = data.decode("ascii")
            return
        self._lines = _decoded_lines(data)
        self.text = "".join(text for text, _ in self._lines)
        self._chars, self._bytes = _starts(self._lines)

    def byte(self, offset: int) -> int:
        """Give the byte at which the character at `offset` begins."""
        if self._identity:
            return offset
        line = min(bisect_right(self._chars, offset), len(self._lines)) - 1
        text, codec = self._lines[line]
        head = text[: offset - self._chars[line]]
        return self._bytes[line] + len(head.encode(codec, _errors(codec)))

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Give the bytes of the characters from `first` up to `last`."""
        return (self.byte(first), self.byte(last))

    def table(self) -> list[int]:
        """Give the first byte of every character, and where the last one ends."""
        if self._identity:
            return list(range(len(self.data) + 1))
        found, at = [0], 0
        for text, codec in self._lines:
            for char in text:
                at += 1 if char < "\x80" and codec[:5] != "utf-1" else _size(char, codec)
                found.append(at)
        return found


class Mapped(Source):
    """Text that was unescaped: every character with the bytes it was written in."""

    def __init__(self, data: bytes, text: str, spans: Sequence[tuple[int, int]]) -> None:
        self.data, self.text, self._spans = data, text, spans

    def byte(self, offset: int) -> int:
        if offset < len(self._spans):
            return self._spans[offset][0]
        return self._spans[-1][1] if self._spans else 0

    def span(self, first: int, last: int) -> tuple[int, int]:
        if first >= last:
            return (self.byte(first), self.byte(first))
        return (self._spans[first][0], self._spans[last - 1][1])


def _size(char: str, codec: str) -> int:
    return len(char.encode(codec, _errors(codec)))


def _errors(codec: str) -> str:
    return "surrogateescape" if codec == "utf-8" else "surrogatepass"


def _decoded_lines(data: bytes) -> list[tuple[str, str]]:
    """Decode line by line: a document may have been pasted together from several encodings."""
    codec = wide_codec(data)
    if codec is not None:
        return [(data.decode(codec), codec)]
    return [_decoded(line) for line in data.splitlines(keepends=True) or [b""]]


def wide_codec(data: bytes) -> str | None:
    """Name the UTF-16 that a document is in: by its mark, and the zeros that ASCII has there."""
    for mark, codec in _UTF16:
        # A marker of ours in single bytes says that the document is not what its first two say.
        if data.startswith(mark) and 20 * data.count(0) >= len(data) and b"srcmap" not in data:
            try:
                data.decode(codec)
            except UnicodeDecodeError:
                return None
            return codec
    return None


def _decoded(line: bytes) -> tuple[str, str]:
    try:
        return (line.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        pass
    try:
        text = line.decode("gb18030")
        if text.encode("gb18030") == line:
            return (text, "gb18030")
    except UnicodeError:
        pass
    return (line.decode("utf-8", "surrogateescape"), "utf-8")


def _starts(lines: Sequence[tuple[str, str]]) -> tuple[list[int], list[int]]:
    chars, bytes_ = [0], [0]
    for text, codec in lines:
        chars.append(chars[-1] + len(text))
        bytes_.append(bytes_[-1] + len(text.encode(codec, _errors(codec))))
    return chars, bytes_
