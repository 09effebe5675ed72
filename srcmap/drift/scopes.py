"""The definitions of a Python or C++ file and the headings of a document, as runs of lines.

Made for files of any kind of health: what cannot be parsed is read by indentation or braces.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CPP = (".cc", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".c", ".inl")
MARKDOWN = (".md", ".markdown")


class Scope(NamedTuple):
    """One definition: its own name, the chain of names, its lines, and the number of its parent."""

    name: str
    qualname: str
    first: int
    last: int
    parent: int


class _Raw(NamedTuple):
    name: str
    first: int
    last: int


def scopes_of(path: str, lines: Sequence[str]) -> list[Scope]:
    """Find the scopes of a file by its suffix; none for a kind that has none."""
    if path.endswith((".py", ".pyi")):
        return _nested(_python(lines))
    if path.endswith(CPP):
        return _nested(_cpp("\n".join(lines)))
    if path.endswith(MARKDOWN):
        return _nested(_headings(lines))
    return []


def _nested(raw: list[_Raw]) -> list[Scope]:
    scopes: list[Scope] = []
    stack: list[int] = []
    for item in sorted(raw, key=lambda r: (r.first, -r.last)):
        while stack and scopes[stack[-1]].last < item.first:
            stack.pop()
        parent = stack[-1] if stack else -1
        prefix = f"{scopes[parent].qualname}." if parent >= 0 else ""
        last = min(item.last, scopes[parent].last) if parent >= 0 else item.last
        scopes.append(Scope(item.name, prefix + item.name, item.first, last, parent))
        stack.append(len(scopes) - 1)
    return scopes


# -- Python ---------------------------------------------------------------------------------

_DEFINITION = re.compile(r"(\s*)(?:async\s+)?(?:def|class)\s+(\w+)")


def _python(lines: Sequence[str]) -> list[_Raw]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(lines).replace("\x00", " ").replace("\r", " "))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return list(_by_indentation(lines))
    return list(_definitions(tree))


def _definitions(tree: ast.AST) -> Iterator[_Raw]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield _Raw(node.name, first, node.end_lineno or node.lineno)


def _by_indentation(lines: Sequence[str]) -> Iterator[_Raw]:
    for number, line in enumerate(lines, 1):
        if not (found := _DEFINITION.match(line)):
            continue
        indent, last = len(found[1]), number
        for below in range(number, len(lines)):
            text = lines[below].strip()
            if not text or text.startswith(("#", ")")):
                continue
            if len(lines[below]) - len(lines[below].lstrip()) <= indent:
                break
            last = below + 1
        yield _Raw(found[2], number, last)


# -- C++ ------------------------------------------------------------------------------------

_SILENT = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|^[ \t]*\#(?:[^\n\\]|\\.)*',
    re.DOTALL | re.MULTILINE,
)
_BRACE = re.compile(r"[{};]")
_TYPE = re.compile(r"\b(?:class|struct|namespace|enum(?:\s+class)?|union)\s+(?:\w+\s+)*?([\w:]+)")
_CALLED = re.compile(r"([\w:~]+(?:\s*<[^<>()]*>)?|operator\s*\S+)\s*\(")
_CONTROL = frozenset(
    ("if", "for", "while", "switch", "catch", "return", "else", "do", "sizeof", "defined")
)


def _cpp(text: str) -> list[_Raw]:
    # Masked with blanks of the same length, so that offsets stay.
    text = _SILENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    ends = [m.start() for m in re.finditer("\n", text)]
    found: list[_Raw] = []
    stack: list[tuple[str, int]] = []
    begin = 0
    for brace in _BRACE.finditer(text):
        at = brace.start()
        if brace[0] == "{":
            name = _header(text[max(begin, at - 2000) : at])
            start = begin + len(text[begin:at]) - len(text[begin:at].lstrip())
            stack.append((name, start))
        elif brace[0] == "}" and stack:
            name, start = stack.pop()
            if name:
                found.append(_Raw(name, _line(ends, start), _line(ends, at)))
        if brace[0] != ";" or not _in_parens(text[begin:at]):
            begin = at + 1
    return found


def _in_parens(text: str) -> bool:
    """Whether a semicolon ends a part of `for (;;)` and not a statement."""
    return len(text) < 400 and text.count("(") > text.count(")")


def _header(text: str) -> str:
    """Name what a brace opens: a function, a type, a namespace; empty for a block."""
    text = text.strip()
    kind = _TYPE.search(text)
    if kind is not None and "(" not in text[: kind.start()] and "=" not in text:
        return kind[1]
    if text.endswith(("=", ",", "(", "return")) or not text:
        return ""
    for call in _CALLED.finditer(text):
        name = re.sub(r"\s", "", call[1])
        bare = name.partition("<")[0]
        if bare in _CONTROL or "=" in text[: call.start()].replace("==", ""):
            return ""
        if bare.isupper() and "__" in bare:  # an attribute macro
            continue
        if bare in ("__attribute__", "__launch_bounds__", "alignas", "decltype", "noexcept"):
            continue
        return bare
    return ""


def _line(ends: list[int], offset: int) -> int:
    from bisect import bisect_left

    return bisect_left(ends, offset) + 1


# -- Markdown -------------------------------------------------------------------------------

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*$")


def _headings(lines: Sequence[str]) -> list[_Raw]:
    found: list[tuple[int, str, int]] = []
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and (heading := _HEADING.match(line)):
            found.append((len(heading[1]), heading[2], number))
    ends = []
    for at, (depth, _, _) in enumerate(found):
        following = (line for level, _, line in found[at + 1 :] if level <= depth)
        ends.append(next(following, len(lines) + 1) - 1)
    return [_Raw(title, line, end) for (_, title, line), end in zip(found, ends, strict=True)]
