"""`check-inf` that is present only as a comment: the one place where comments are read."""

from __future__ import annotations

import ast
import textwrap

from srcmap.anatomy import ops
from srcmap.model import Lines
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Kernel
    from collections.abc import Iterator

MAX_RUN = 12


def disabled_checks(kernel: Kernel, lines: list[str]) -> Iterator[Lines]:
    """Runs of own-line comments in a key loop, some tail of which is `check-inf` on the current roles."""
    tiles = kernel.facts.tiles_with("max", "nmax")
    for loop in kernel.facts.kv_loops:
        for first, last in _comment_runs(lines, loop.lines):
            if any(_is_check(kernel, text, tiles) for text in _tails(lines[first - 1 : last])):
                yield Lines(first, last)


def _comment_runs(lines: list[str], around: Lines) -> Iterator[tuple[int, int]]:
    """Runs of consecutive lines that hold only a comment."""
    start = None
    for number in range(around.first, around.last + 2):
        text = lines[number - 1].strip() if number <= around.last else ""
        if text.startswith("#"):
            start = start or number
        elif start is not None:
            yield start, number - 1
            start = None


def _tails(run: list[str]) -> Iterator[str]:
    """Sub-runs with the comment marks taken off."""
    bare = [text.strip()[1:] for text in run]
    for first in range(max(0, len(bare) - MAX_RUN), len(bare)):
        for last in range(first + 1, len(bare) + 1):
            yield textwrap.dedent("\n".join(bare[first:last]))


def _is_check(kernel: Kernel, text: str, tiles: set[str]) -> bool:
    """Whether commented-out code sets the running maximum to a number where it is minus infinity."""
    try:
        body = ast.parse(text.strip("\n")).body
    except (SyntaxError, ValueError):
        return False
    return any(_replaces_infinity(kernel, node, tiles) for step in body for node in ast.walk(step))


def _replaces_infinity(kernel: Kernel, node: ast.AST, tiles: set[str]) -> bool:
    if isinstance(node, ast.Assign) and kernel.context.buffer(node.targets[0]) in tiles:
        for choice in ast.walk(node.value):
            test = _test_of(kernel, choice)
            if test is not None and _tests_maximum(kernel, test, tiles):
                return True
    if isinstance(node, ast.If) and _tests_maximum(kernel, node.test, tiles):
        return any(
            isinstance(below, ast.Assign) and kernel.context.buffer(below.targets[0]) in tiles
            for below in node.body
        )
    return False


def _test_of(kernel: Kernel, node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.IfExp):
        return node.test
    if (
        isinstance(node, ast.Call)
        and ops.EXPRESSIONS.get(kernel.context.name(node) or "") == "choice"
        and node.args
    ):
        return node.args[0]
    return None


def _tests_maximum(kernel: Kernel, test: ast.expr, tiles: set[str]) -> bool:
    if not isinstance(test, ast.Compare):
        return False
    sides = (test.left, *test.comparators)
    at = kernel.context.top[0]
    huge = any(
        (value := kernel.deps.fold(side, at)) is not None and value <= -1e4 for side in sides
    )
    return huge and any(kernel.context.buffer(side) in tiles for side in sides)
