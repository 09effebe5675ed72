"""Markers in a document -> the same document with their blocks filled, every other byte kept.

A block stands between a marker and its end, each in a comment of the document's language:

    <!-- srcmap:table variant=sink lang=zh -->    .. srcmap:table variant=sink    % srcmap:table ...
    <!-- /srcmap -->                              .. /srcmap                      % /srcmap

`srcmap:ref sink/check-inf` is a single reference. Its end may stand on the same line; where it is
missing it is written behind the reference at the first run.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.readers import kind_of
from srcmap.cite.source import Source, wide_codec
from srcmap.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPEN = {
    "html": r"<!--[ \t]*srcmap:(?P<verb>\w+)(?P<words>[^\n]*?)-->",
    "rst": r"(?P<lead>^[ \t]*)\.\.[ \t]+srcmap:(?P<verb>\w+)(?P<words>[^\n\r]*)",
    "latex": r"(?P<lead>^[ \t]*)%[ \t]*srcmap:(?P<verb>\w+)(?P<words>[^\n\r]*)",
}
_CLOSE = {
    "html": r"<!--[ \t]*/srcmap[ \t]*-->",
    "rst": r"^[ \t]*\.\.[ \t]+/srcmap[ \t]*\r?$",
    "latex": r"^[ \t]*%[ \t]*/srcmap[ \t]*\r?$",
}
_FORMATS = {"markdown": "markdown", "rst": "rst", "latex": "latex", "plain": "markdown"}
_FENCE = re.compile(
    r"^[ \t>]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*\1[`~]*[ \t]*\r?$|\Z)", re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_VERBATIM = re.compile(r"\\begin\{(verbatim|lstlisting|minted)\}.*?\\end\{\1\}", re.DOTALL)
_LITERAL = re.compile(
    r"^([ \t]*)\.\. (?:code-block|code|sourcecode)::[^\n]*\n(?:(?:\1[ \t]+[^\n]*|[ \t\r]*)\n)*",
    re.MULTILINE,
)


class Marker(NamedTuple):
    """What a marker asks for."""

    verb: str
    subject: str
    """The word of a `ref`: `sink/check-inf`."""
    options: dict[str, str]
    first: int
    last: int
    """Of the marker itself, as characters."""


def injected(data: bytes, name: str, fill: Callable[[Marker, str], str]) -> tuple[bytes, int]:
    """Fill every marker of a document; gives its new bytes and how many markers there are.

    UsageError for a table without an end, and for what `fill` refuses.
    """
    source = Source(data)
    language, format_ = _language(name)
    parts: list[bytes] = []
    at = count = 0
    for marker, first, last, tail in _blocks(source.text, language):
        count += 1
        newline = "\r\n" if source.text[marker.last : marker.last + 2] == "\r\n" else "\n"
        body = fill(marker, format_).rstrip("\r\n").replace("\r\n", "\n").replace("\n", newline)
        new = _framed(marker, body, newline, language, _indent(source.text, marker.first)) + tail
        start, end = source.span(first, last)
        parts += [data[at:start], _encoded(data, new)]
        at = end
    return (b"".join([*parts, data[at:]]), count)


def _language(name: str) -> tuple[str, str]:
    if name.lower().endswith((".html", ".htm", ".xhtml", ".svg")):
        return "html", "html"
    kind = kind_of(name)
    if kind in ("rst", "latex"):
        return kind, kind
    return "html", _FORMATS.get(kind, "markdown")


def _blocks(text: str, language: str) -> Iterator[tuple[Marker, int, int, str]]:
    """Yield each marker, the characters that its block has now, and what to write behind it."""
    opening = re.compile(_OPEN[language], re.MULTILINE)
    closing = re.compile(_CLOSE[language], re.MULTILINE)
    shown = _shown(text, language)
    at = 0
    while match := opening.search(text, at):
        at = match.end()
        if any(first <= match.start() < last for first, last in shown):
            continue
        marker = _marker(match)
        limit = _line_end(text, at) if marker.verb == "ref" and language == "html" else len(text)
        following = opening.search(text, at)
        limit = min(limit, following.start() if following else limit)
        end = closing.search(text, at, limit)
        if end is not None:
            yield marker, match.end(), end.start(), ""
            at = end.end()
        elif marker.verb == "ref":
            yield marker, match.end(), match.end(), _ending(match, language)
        else:
            line = text.count("\n", 0, match.start()) + 1
            raise UsageError(f"line {line}: srcmap:table has no end (/srcmap)", slug="cite-marker")


def _marker(match: re.Match[str]) -> Marker:
    verb, words = match["verb"], match["words"].split()
    if verb not in ("table", "ref"):
        raise UsageError(f"unknown marker srcmap:{verb}", slug="cite-marker", hint="table, ref")
    subject = next((word for word in words if "=" not in word), "")
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return Marker(verb, subject, options, match.start(), match.end())


def _framed(marker: Marker, body: str, newline: str, language: str, indent: str) -> str:
    """Put line breaks about a block; a reference in HTML comments stays in its line."""
    if marker.verb == "ref" and language == "html":
        return body
    lines = [indent + line if line else line for line in body.split(newline)]
    if language == "rst":
        return newline * 2 + newline.join(lines) + newline * 2
    blank = newline if language == "html" else ""
    edge = indent if language == "html" else ""
    return newline + blank + newline.join(lines) + newline + blank + edge


def _ending(match: re.Match[str], language: str) -> str:
    """Write the end of a reference that has none."""
    if language == "html":
        return "<!-- /srcmap -->"
    lead = match["lead"]
    return f"{lead}.. /srcmap" if language == "rst" else f"{lead}% /srcmap"


def _indent(text: str, first: int) -> str:
    start = text.rfind("\n", 0, first) + 1
    head = text[start:first]
    whole = re.match(r"[ \t]*", text[start:])
    return whole[0] if whole and not head.strip() else ""


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _shown(text: str, language: str) -> list[tuple[int, int]]:
    """Where markers are only shown: code blocks and code spans."""
    if language == "latex":
        return [m.span() for m in _VERBATIM.finditer(text)]
    if language == "rst":
        return [m.span() for m in _LITERAL.finditer(text)]
    fences = [m.span() for m in _FENCE.finditer(text)]
    return fences + [m.span() for m in _INLINE.finditer(text)]


def _encoded(data: bytes, text: str) -> bytes:
    """Write text as the document is written."""
    return text.encode(wide_codec(data) or "utf-8")
