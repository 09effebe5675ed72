r"""The one place where positions are converted.

Lines are 1-based and only `\n` ends one, as git and GitHub count.
Columns are 0-based code points; `ast` and tree-sitter count UTF-8 bytes, LibCST code points.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.model import Lines

if TYPE_CHECKING:
    import ast

_PYTHON_LINE_END = re.compile(r"\r\n|\r|\n")


def node_lines(node: ast.stmt | ast.expr) -> Lines:
    """Lines of a syntax node; the decorators of a definition are outside, as `ast` has it."""
    return Lines(node.lineno, node.end_lineno or node.lineno)


def git_lines(text: str) -> list[str]:
    r"""Split at `\n` only; a CR before it stays out; a last line without an end counts."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def line_map(text: str) -> list[int]:
    """For each line as Python counts (a lone CR ends one), the line as git counts; 1-based."""
    numbers, line = [1], 1
    for end in _PYTHON_LINE_END.finditer(text):
        line += end.group() != "\r"
        numbers.append(line)
    return numbers


def from_rows(first_row: int, last_row: int, last_column: int) -> Lines:
    """Lines of a tree-sitter node: rows are 0-based, and an end at column 0 is the line before."""
    last = last_row if last_column == 0 and last_row > first_row else last_row + 1
    return Lines(first_row + 1, last)
