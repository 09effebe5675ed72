"""Text compared as a reader compares it: layout, quotation marks, dashes and elisions ignored.

A flattened document has lost its spaces, back-ticks and line breaks, so both sides are brought to
one form without any of them, and every place found is a run of lines again.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_TOO_MANY = 12
"""A quoted line that stands in so many places says nothing about where it is from."""
_CHARS = str.maketrans(
    {
        "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "“": "'", "”": "'", "‘": "'", "’": "'",
        '"': "'", "：": ":", "（": "(", "）": ")", "，": None, "；": ";", "！": "!", "？": "?",
        "`": None, ",": None, "…": "...", "\u00a0": None, "\ufeff": None, "\u200b": None,
        "\ue000": "%", " ": None, "\t": None, "\r": None, "\n": None, "\f": None, "\v": None,
        "\u3000": None, "、": None, "。": ".", "\\": None,
    }
)  # fmt: skip
_MARKS = re.compile(r"[ \t]*(?:(?:\\?#+|//+|/\*+|\*+|%+|>+|\"\"\"|'''|[-+•](?=\s))[ \t]*)*")
_TRAILING = re.compile(r"\s(?:#|//|←|%)\s?.*$|\s*←.*$")


def norm(line: str) -> str:
    """Bring one line to the form in which lines are compared."""
    body = line[_MARKS.match(line).end() :]  # type: ignore[union-attr]  # matches always
    return body.replace("**", "").translate(_CHARS).replace("--", "-")


def without_comment(line: str) -> str:
    """Cut a trailing comment off."""
    return _TRAILING.sub("", line)


def pieces(text: str, least: int = 4) -> list[str]:
    """Cut text at its elisions and bring the pieces to the form of `norm`."""
    flat = "".join(norm(line) for line in text.split("\n"))
    return [part for part in re.split(r"\.{3,}|\[\.*\]", flat) if len(part) >= least]


def _is_cut(whole: Lines, lines: Lines, has_body: bool) -> bool:
    if lines.last < whole.first or whole.last < lines.first or _inside(whole, lines):
        return False
    return not has_body or not (whole.first < lines.first and lines.last <= whole.last)


def _inside(inner: Lines, outer: Lines) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


class FileText:
    """One file of a pin: its lines, and questions about where things are in it."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.text = data.decode("utf-8-sig", "replace")
        self.lines = self.text.split("\n")
        if len(self.lines) > 1 and not self.lines[-1]:
            self.lines.pop()
        self._words: dict[str, tuple[int, ...]] = {}

    @property
    def size(self) -> int:
        """The number of lines; a last line feed begins no further line."""
        return len(self.lines)

    def blank(self, lines: Lines) -> bool:
        """Whether nothing is on any of these lines."""
        return not any(line.strip() for line in self.lines[lines.first - 1 : lines.last])

    def digest(self, lines: Lines) -> str:
        """SHA-256 over the lines."""
        from srcmap.digest import lines_digest

        return lines_digest(self.lines, lines)

    def like(self, digest: str, count: int) -> list[Lines]:
        """List the runs of `count` lines that have a digest."""
        runs = (Lines(n, n + count - 1) for n in range(1, self.size - count + 2))
        return [run for run in runs if self.digest(run) == digest]

    # -- quoted text ---------------------------------------------------------------------

    @cached_property
    def _norm(self) -> tuple[str, list[int]]:
        starts, parts, at = [], [], 0
        for line in self.lines:
            part = norm(line)
            starts.append(at)
            parts.append(part)
            at += len(part)
        return "".join(parts), starts

    def find(self, quoted: str, limit: int = 50) -> list[Lines]:
        """List where text in the form of `norm` stands; a place may begin and end inside a line."""
        text, starts = self._norm
        found: list[Lines] = []
        at = text.find(quoted)
        while at >= 0 and len(found) < limit:
            first = bisect_right(starts, at)
            last = bisect_right(starts, at + len(quoted) - 1)
            found.append(Lines(first, last))
            at = text.find(quoted, at + max(len(quoted), 1))
        return found

    def find_elided(self, text: str) -> list[Lines]:
        """List where text with elisions stands: all its pieces in order, near each other."""
        parts = pieces(text)
        if not parts or sum(map(len, parts)) < 8:
            return []
        found = []
        for start in self.find(parts[0]):
            end = start
            for part in parts[1:]:
                later = [p for p in self.find(part) if end.first <= p.first <= end.last + 40]
                if not later:
                    break
                end = later[0]
            else:
                found.append(Lines(start.first, max(start.last, end.last)))
        return found

    def find_block(self, quoted: Sequence[str]) -> list[tuple[int, Lines]]:
        """List where most of some quoted lines stand: how many were found there, and the place."""
        places: list[list[Lines]] = []
        for line in quoted:
            where = self.find_elided(line) if "..." in line or "…" in line else []
            flat = norm(line)
            if not where and len(flat) >= 6:
                where = self.find(flat)
            if not where and len(norm(without_comment(line))) >= 6:
                where = self.find(norm(without_comment(line)))
            places.append(where)
        reach = 3 * len(quoted) + 8
        found: dict[Lines, int] = {}
        for anchor, where in enumerate(places):
            for start in where if len(where) <= _TOO_MANY else ():
                count, place = self._around(places, anchor, start, reach)
                found[place] = max(count, found.get(place, 0))
        return [
            (count, place)
            for place, count in found.items()
            if not any(c >= count and p != place and _inside(p, place) for p, c in found.items())
        ]

    def _around(
        self, places: list[list[Lines]], anchor: int, start: Lines, reach: int
    ) -> tuple[int, Lines]:
        first, last, count = start.first, start.last, 1
        for where in places[anchor + 1 :]:
            later = [p for p in where if last <= p.first <= last + reach and p.last >= last]
            if later:
                last, count = later[0].last, count + 1
        for where in reversed(places[:anchor]):
            before = [p for p in where if first - reach <= p.last <= first and p.first <= first]
            if before:
                first, count = before[-1].first, count + 1
        return (count, Lines(first, last))

    # -- names ---------------------------------------------------------------------------

    def word(self, name: str) -> tuple[int, ...]:
        """List the lines on which a name stands as a whole word."""
        found = self._words.get(name)
        if found is None:
            found = self._words[name] = tuple(self._find_word(name))
        return found

    def _find_word(self, name: str) -> Iterable[int]:
        if name not in self.text:
            return ()
        pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])")
        starts = self._line_starts
        return sorted({bisect_right(starts, m.start()) for m in pattern.finditer(self.text)})

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, at = [], 0
        for line in self.lines:
            starts.append(at)
            at += len(line) + 1
        return starts

    def defined(self, name: str) -> tuple[Lines, ...]:
        """List the extents of the definitions of a name."""
        return tuple(self._definitions.get(name, ()))

    @cached_property
    def _definitions(self) -> dict[str, list[Lines]]:
        if self.path.endswith((".py", ".pyi")):
            return _python_definitions(self.lines)
        if self.path.endswith((".cc", ".cpp", ".cxx", ".c", ".h", ".hpp", ".cu", ".cuh")):
            return _brace_definitions(self.lines)
        return {}

    # -- statements ----------------------------------------------------------------------

    @cached_property
    def _statements(self) -> list[tuple[Lines, bool]]:
        """Every statement of more than one line, and whether it has a body of its own."""
        import ast
        import warnings

        if not self.path.endswith((".py", ".pyi")):
            return []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
        found = []
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt) and node.end_lineno != node.lineno:
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                whole = Lines(first, node.end_lineno or node.lineno)
                found.append((whole, hasattr(node, "body")))
        return found

    def cuts(self, lines: Lines) -> set[Lines]:
        """Find the statements that the borders of `lines` cut in two.

        Lines inside a body cut nothing; lines with a head and a part of its body do.
        """
        return {whole for whole, has_body in self._statements if _is_cut(whole, lines, has_body)}

    @property
    def compound(self) -> list[Lines]:
        """List the statements that have a body of their own."""
        return [whole for whole, has_body in self._statements if has_body]

    # -- sections ------------------------------------------------------------------------

    @cached_property
    def headings(self) -> list[tuple[int, int, str]]:
        """Line, level and title of every heading of a Markdown or RST file."""
        if self.path.lower().endswith((".rst", ".rest")):
            return _underlined(self.lines)
        return _hashed(self.lines)

    def section(self, number: str) -> Lines | None:
        """Find the section with a number (`5.2`, `4`, and `四、` for 4) or a title."""
        for index, (line, level, title) in enumerate(self.headings):
            if _numbered(title, number):
                later = (n for n, deep, _ in self.headings[index + 1 :] if deep <= level)
                last = next(later, self.size + 1) - 1
                while last > line and not self.lines[last - 1].strip():
                    last -= 1
                return Lines(line, last)
        return None


_CHINESE = "〇一二三四五六七八九十"


def chinese_number(number: str) -> str:
    """Write a number up to 99 in Chinese numerals; empty for others."""
    if not number.isdigit() or not 0 < int(number) < 100:
        return ""
    tens, ones = divmod(int(number), 10)
    head = ("" if tens == 1 else _CHINESE[tens]) + "十" if tens else ""
    return head + (_CHINESE[ones] if ones else "")


def _numbered(title: str, number: str) -> bool:
    title = title.strip().strip("*").strip()
    if re.match(rf"(?:第\s*)?{re.escape(number)}(?![\d.]*\d)[.、:：)）\s章节]*", title):
        return True
    word = chinese_number(number)
    if word and re.match(rf"(?:第)?{word}[、.:：)）章节\s]", title):
        return True
    return not number[:1].isdigit() and norm(number) != "" and norm(number) == norm(title)


def _hashed(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    found, fence = [], ""
    for number, line in enumerate(lines, 1):
        mark = re.match(r"[ \t>]*(`{3,}|~{3,})", line)
        if mark:
            if not fence:
                fence = mark[1][0] * 3
            elif mark[1].startswith(fence):
                fence = ""
            continue
        match = None if fence else re.match(r"[ ]{0,3}(#{1,6})[ \t]+(.*)", line)
        if match:
            found.append((number, len(match[1]), match[2].strip().rstrip("#").strip()))
    return found


def _underlined(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    levels: list[str] = []
    for number, line in enumerate(lines[1:], 2):
        title = lines[number - 2].strip()
        under = line.rstrip()
        if title and re.fullmatch(r"([=\-~^\"'#*+.:_`])\1{2,}", under) and len(under) >= len(title):
            if under[0] not in levels:
                levels.append(under[0])
            found.append((number - 1, levels.index(under[0]) + 1, title))
    return found


_DEF = re.compile(r"([ \t]*)(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")


def _python_definitions(lines: Sequence[str]) -> dict[str, list[Lines]]:
    """Read the extents off the indentation: a file that does not parse has them too."""
    found: dict[str, list[Lines]] = {}
    for number, line in enumerate(lines, 1):
        match = _DEF.match(line)
        if match:
            last = _end_of_block(lines, number, len(match[1]))
            found.setdefault(match[2], []).append(Lines(number, last))
    return found


def _end_of_block(lines: Sequence[str], number: int, indent: int) -> int:
    last, in_header = number, not lines[number - 1].split("#")[0].rstrip().endswith(":")
    for index in range(number, len(lines)):
        line = lines[index]
        if not line.strip():
            continue
        deep = len(line) - len(line.lstrip())
        if in_header and re.match(r"\s*\).*:\s*(#.*)?$", line):
            in_header = False
        elif deep <= indent and not in_header:
            break
        last = index + 1
    return last


_FUNCTION = re.compile(r"(?![ \t#}/*])(?:[\w:<>,&*~\s\[\]]+?[\s&*])?(?:\w+::)*(~?\w+)[ \t]*\(")
_TYPE = re.compile(r"[ \t]*(?:class|struct|enum(?:[ \t]+class)?)[ \t]+(\w+)[^;]*$")


def _brace_definitions(lines: Sequence[str]) -> dict[str, list[Lines]]:
    found: dict[str, list[Lines]] = {}
    for number, line in enumerate(lines, 1):
        match = _FUNCTION.match(line) or _TYPE.match(line)
        if match is None or line.rstrip().endswith(";"):
            continue
        head = next((i for i in range(number, min(number + 8, len(lines) + 1))
                     if "{" in lines[i - 1] or ";" in lines[i - 1]), 0)  # fmt: skip
        if head and "{" in lines[head - 1]:
            indent = len(line) - len(line.lstrip())
            close = (i for i in range(head, len(lines) + 1)
                     if re.match(rf"[ \t]{{{indent}}}\}}", lines[i - 1])
                     or (i == head and lines[i - 1].rstrip().endswith("}")))  # fmt: skip
            found.setdefault(match[1], []).append(Lines(number, next(close, head)))
    return found
