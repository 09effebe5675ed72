r"""LaTeX: text with its escapes undone (`\_`, `\#`, `--`), every character with its bytes."""

from __future__ import annotations

import re

from srcmap.cite.page import Block, Include, Page, Region
from srcmap.cite.readers.comments import comments
from srcmap.cite.source import Mapped, Source

_ESCAPE = re.compile(
    r"\\(?P<char>[_#%&${} ])|(?P<dash>---?)|(?P<tie>~)|\\textasciitilde\s*(?:\{\})?"
    r"|\\textunderscore\s*(?:\{\})?|\\-|\\allowbreak\s*(?:\{\})?|\\slash\s*(?:\{\})?"
    r"|\\discretionary\{\}\{\}\{\}"
)
_VERBATIM = re.compile(
    r"\\begin\{(lstlisting|verbatim\*?|minted|Verbatim|alltt|pycode)\}.*?\\end\{\1\}", re.DOTALL
)
_CODE = re.compile(
    r"\\(?:texttt|code|path|nolinkurl|lstinline|mintinline(?:\{\w+\})?|file|url)\*?"
    r"\{((?:[^{}]|\{[^{}]*\})*)\}|\\(?:verb|lstinline)\*?([^\w\s{])(.+?)\2"
)
_INPUT = re.compile(
    r"\\(?:lstinputlisting|inputminted|verbatiminput|VerbatimInput)\s*(?:\[(?P<options>[^\]]*)\])?"
    r"\s*(?:\{\w+\}\s*(?=\{))?\{(?P<path>[^{}]*)\}"
)
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_GENERATED = re.compile(r"%[ \t]*/?srcmap")
_HREF = re.compile(r"\\href\{([^{}]*)\}")


def read_latex(data: bytes) -> Page:
    """Read a LaTeX document."""
    raw = Source(data)
    source = _unescaped(raw)
    text = source.text
    regions = [Region(m.start(), m.end(), "skip") for m in _COMMENT.finditer(text)]
    blocks, includes = [], []
    fences = [m.span() for m in _VERBATIM.finditer(text)]
    for first, last in fences:
        regions = [r for r in regions if not first <= r.first < last]
        regions.append(Region(first, last, "fence"))
        regions.extend(comments(text, first, last))
        blocks.append(Block(first, last, "fence"))
    for match in _CODE.finditer(text):
        group = 1 if match[1] is not None else 3
        regions.append(Region(match.start(), match.end(group) + 1, "code"))
    regions.extend(Region(m.start(1), m.end(1), "target") for m in _HREF.finditer(text))
    for match in _INPUT.finditer(text):
        includes.append(Include(match.span("path"), _range(match)))
        regions.append(Region(match.start(), match.end(), "skip"))
    blocks.extend(_paragraphs(text, fences))
    return Page(source, blocks, regions, includes)


def _range(match: re.Match[str]) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
    options, base = match["options"] or "", match.start("options")
    listed = re.search(r"linerange\s*=\s*\{?([\d\s,–-]+)", options)
    if listed:
        pairs = re.compile(r"(\d+)\s*[–-]\s*(\d+)").finditer(options, *listed.span(1))
        return tuple(
            ((base + p.start(1), base + p.end(1)), (base + p.start(2), base + p.end(2)))
            for p in pairs
        )
    first = re.search(r"firstline\s*=\s*(\d+)", options)
    last = re.search(r"lastline\s*=\s*(\d+)", options)
    one, other = first or last, last or first
    if one is None or other is None:
        return ()
    return (
        (
            (base + one.start(1), base + one.end(1)),
            (base + other.start(1), base + other.end(1)),
        ),
    )


def _paragraphs(text: str, fences: list[tuple[int, int]]) -> list[Block]:
    r"""Cut at blank lines, `\item`, headings and code blocks."""
    found, at = [], 0
    cuts = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*\\(?:item|section|subsection|chapter|paragraph)\b)")
    for first, last in [*fences, (len(text), len(text))]:
        begin = at
        for cut in cuts.finditer(text, at, first):
            if cut.start() > begin:
                found.append(Block(begin, cut.start(), "text"))
            begin = cut.end()
        if first > begin:
            found.append(Block(begin, first, "text"))
        at = max(at, last)
    return found


def _unescaped(raw: Source) -> Source:
    """Undo the escapes. Without any, the text is its own."""
    text = raw.text
    if not _ESCAPE.search(text):
        return raw
    out: list[str] = []
    spans: list[tuple[int, int]] = []
    bytes_ = raw.table()
    at = 0
    verbatim = [m.span() for m in _VERBATIM.finditer(text)]
    for match in _ESCAPE.finditer(text):
        if any(first <= match.start() < last for first, last in verbatim):
            continue
        for index in range(at, match.start()):
            out.append(text[index])
            spans.append((bytes_[index], bytes_[index + 1]))
        shown = _shown(match)
        if shown:
            out.append(shown)
            spans.append((bytes_[match.start()], bytes_[match.end()]))
        at = match.end()
    for index in range(at, len(text)):
        out.append(text[index])
        spans.append((bytes_[index], bytes_[index + 1]))
    return Mapped(raw.data, "".join(out), spans)


def _shown(match: re.Match[str]) -> str:
    if match["char"]:
        return "\ue000" if match["char"] == "%" else match["char"]
    if match["dash"]:
        return "–"
    if match["tie"]:
        return " "
    word = match[0]
    if "tilde" in word:
        return "~"
    if "underscore" in word:
        return "_"
    return "/" if "slash" in word else ""
