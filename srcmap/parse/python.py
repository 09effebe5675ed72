"""Bytes of a Python file to its `ast` tree and lines, surviving what real files hold.

Reading uses the fast tree; LibCST is only used where code is rewritten (`parse/rewrite`).
A top-level statement that does not parse is set aside and named, and the rest is read.
"""

from __future__ import annotations

import ast
import warnings
from typing import NamedTuple

from srcmap.errors import ParseError
from srcmap.model import Note
from srcmap.parse.spans import git_lines, line_map

MAX_RETRIES = 16
"""How many broken top-level statements are set aside before the file is given up."""


class PythonFile(NamedTuple):
    """One parsed file; `lines[n - 1]` is line n as git counts, without its line end."""

    path: str
    tree: ast.Module
    lines: list[str]
    problems: tuple[Note, ...]

    def comment_on(self, line: int) -> str | None:
        """The text of a comment that has this line to itself, without its `#`."""
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        return text[1:] if text.startswith("#") else None


def decode(data: bytes) -> tuple[str, tuple[Note, ...]]:
    """Text of a source file: UTF-8 with or without a byte order mark, else Latin-1, and said so."""
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return data.decode("latin-1"), (Note("parse.not-utf8", {"line": str(line)}),)


def parse_python(data: bytes, path: str) -> PythonFile:
    """Read a Python file.

    Raises ParseError when no top-level statement of it can be read.
    """
    text, problems = decode(data)
    tree, broken = _parse_with_recovery(text.replace("\x00", " "), path)
    if "\r" in text:
        _renumber(tree, line_map(text))
    return PythonFile(path, tree, git_lines(text), problems + broken)


def _parse_with_recovery(text: str, path: str) -> tuple[ast.Module, tuple[Note, ...]]:
    problems: list[Note] = []
    for _ in range(MAX_RETRIES):
        parsed = _parse(text, path)
        if isinstance(parsed, ast.Module):
            return parsed, tuple(problems)
        line = parsed.lineno or 1
        problems.append(Note("parse.syntax", {"line": str(line), "message": parsed.msg}))
        text, blanked = _blank_statement(text, line)
        if not blanked:
            break
    first = problems[0].args
    raise ParseError(
        f"{path}:{first['line']}: this is not Python that can be read: {first['message']}",
        slug="parse",
        hint="run `python -m py_compile` on it to see what Python says",
    )


def _parse(text: str, path: str) -> ast.Module | SyntaxError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes are upstream's business
        try:
            return ast.parse(text)
        except SyntaxError as error:
            return error
        except (RecursionError, MemoryError) as error:
            return _too_deep(text, str(error))
        except ValueError as error:
            raise ParseError(f"{path}: not to be read ({error})", slug="parse") from error


def _too_deep(text: str, message: str) -> SyntaxError:
    """Where the nesting is that Python gives up on, which it does not say itself."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _starts_statement(line)]
    statements = zip(starts, [*starts[1:], len(lines)], strict=True)
    deep = (first for first, end in statements if _is_too_deep("\n".join(lines[first:end])))
    return SyntaxError(message, ("", next(deep, 0) + 1, 0, None))


def _is_too_deep(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:  # half of a statement, as when a string has text at the margin
        return False
    except (RecursionError, MemoryError):
        return True
    return False


def _blank_statement(text: str, line: int) -> tuple[str, bool]:
    """Blank the top-level statement around `line`, keeping every line number."""
    lines = text.split("\n")
    at = min(line, len(lines)) - 1
    first = at
    while first > 0 and not _starts_statement(lines[first]):
        first -= 1
    last = max(at, first)
    while last + 1 < len(lines) and not _starts_statement(lines[last + 1]):
        last += 1
    if not any(text.strip() for text in lines[first : last + 1]):
        return text, False
    lines[first : last + 1] = [""] * (last + 1 - first)
    return "\n".join(lines), any(text.strip() for text in lines)


def _starts_statement(line: str) -> bool:
    return bool(line) and not line[0].isspace() and line[0] not in "#)]}"


def _renumber(tree: ast.Module, lines: list[int]) -> None:
    """Give every node the line that git would: Python ends lines on a lone CR too."""
    for node in ast.walk(tree):
        if isinstance(
            node, (ast.stmt, ast.expr, ast.arg, ast.excepthandler, ast.alias, ast.keyword)
        ):
            node.lineno = lines[node.lineno - 1]
            if node.end_lineno is not None:
                node.end_lineno = lines[node.end_lineno - 1]
