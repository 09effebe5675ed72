"""Whether a name was only replaced by another: a local one, or one that the whole bump renamed."""

from __future__ import annotations

import ast
import re
import warnings
from functools import cache
from typing import TYPE_CHECKING

from srcmap.drift.classify import code_words
from srcmap.drift.scopes import CPP

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.drift.text import Text
    from srcmap.drift.trees import Trees
    from srcmap.model import Lines

_MANY = 20
"""From so many occurrences on, a name that vanished for another was renamed on purpose."""
_DECLARED = r"(?:[\w>&*\]]\s*[\s&*]\s*){name}\s*(?:[=;,:)\[{{]|$)"
_DEFINES = re.compile(r"(?:async\s+)?def\s|class\s")
_NO_TYPE = re.compile(r"\b(?:return|else|case|goto|delete|new|throw|co_return)\s+\Z")


def replaced(
    trees: Trees, old: Text, lines: Lines, new: Text, place: Lines
) -> Callable[[str, str], bool]:
    """Give a judge of pairs of names: True where the second only replaced the first."""

    @cache
    def known(before: str, after: str) -> bool:
        return _local(old, lines, new, place, before, after) or trees.renamed(before, after)

    return known


def _local(old: Text, lines: Lines, new: Text, place: Lines, before: str, after: str) -> bool:
    """Whether a variable of the definition around got another name everywhere in it."""
    left, right = _body(old, lines), _body(new, place)
    if left is None or right is None:
        return False
    gone = not _has(new, right, before)
    fresh = not _has(old, left, after)
    return gone and fresh and _binds(old, left, before) and _binds(new, right, after)


def _body(text: Text, lines: Lines) -> tuple[int, int] | None:
    """Give the lines of the outermost function around; classes and namespaces are no functions."""
    number = text.scope_of(lines)
    found = None
    while number >= 0:
        scope = text.scopes[number]
        if _is_function(text, scope.first, scope.last):
            found = (scope.first, scope.last)
        number = scope.parent
    return found


def _is_function(text: Text, first: int, last: int) -> bool:
    if text.path.endswith(CPP):
        head = " ".join(text.bare[first - 1 : min(first + 8, last)])
        start = re.split(r"[{]", head, maxsplit=1)[0]
        return "(" in start and not re.match(r"(?:namespace|class|struct|enum)\b", start)
    # Decorators first, however long they are.
    heads = (row for row in text.bare[first - 1 : last] if _DEFINES.match(row))
    return not next(heads, "class").startswith("class")


def _has(text: Text, body: tuple[int, int], name: str) -> bool:
    if not text.path.endswith(CPP):
        return name in _used(text).get(body, frozenset())
    known: dict[tuple[int, int], frozenset[str]] = text.__dict__.setdefault("_code_words", {})
    if body not in known:
        known[body] = code_words(text, *body)
    return name in known[body]


def _binds(text: Text, body: tuple[int, int], name: str) -> bool:
    if text.path.endswith(CPP):
        pattern = re.compile(_DECLARED.format(name=re.escape(name)))
        return any(
            not _NO_TYPE.search(line[: match.end()].partition(name)[0])
            for line in text.lines[body[0] - 1 : body[1]]
            if (match := pattern.search(line))
        )
    return name in _bound(text).get(body, frozenset())


_Names = dict[tuple[int, int], frozenset[str]]


def _bound(text: Text) -> _Names:
    """List the names that each function of a Python file binds: parameters and targets."""
    return _names(text)[0]


def _used(text: Text) -> _Names:
    """List the names that each function of a Python file has; attributes are no names."""
    return _names(text)[1]


def _names(text: Text) -> tuple[_Names, _Names]:
    known: tuple[_Names, _Names] | None = text.__dict__.get("_local_names")
    if known is None:
        known = text.__dict__["_local_names"] = _read_names(text)
    return known


def _read_names(text: Text) -> tuple[_Names, _Names]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(text.lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}, {}
    bound: _Names = {}
    used: _Names = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            body = (first, node.end_lineno or node.lineno)
            targets = _targets(node)
            bound[body] = frozenset(targets)
            used[body] = frozenset(
                targets | {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            )
    return bound, used


def _targets(function: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names


def vanished(old: list[bytes], new: list[bytes], before: str, after: str) -> bool:
    """Whether one name took the place of another in a whole tree."""
    counts = [_count(files, name) for name in (before, after) for files in (old, new)]
    was, is_left, came_from, is_now = counts
    return (
        was >= _MANY
        and is_left <= 0.02 * was
        and is_now >= 0.5 * was
        and came_from <= 0.02 * is_now
    )


def _count(files: list[bytes], name: str) -> int:
    pattern = re.compile(rb"\b" + re.escape(name.encode("utf-8", "surrogateescape")) + rb"\b")
    return sum(len(pattern.findall(data)) for data in files)
