"""`check-inf` that is present only as a comment: the one place where comments are read."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from srcmap.anatomy.folding import is_hidden
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Kernel

MAX_RUN = 12
"""So many last lines of a run of comments are tried as code."""


def disabled_checks(kernel: Kernel, lines: list[str]) -> Iterator[Lines]:
    """Runs of own-line comments in a key loop, some part of which is `check-inf` on its roles."""
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
    """Whether commented-out code replaces a running maximum that is minus infinity."""
    try:
        body = ast.parse(text.strip("\n")).body
    except (SyntaxError, ValueError):
        return False
    return any(_replaces_infinity(kernel, node, tiles) for step in body for node in ast.walk(step))


def _replaces_infinity(kernel: Kernel, node: ast.AST, tiles: set[str]) -> bool:
    """`m = choice of a test of m`, or `if` a test of m: set m."""
    match node:
        case ast.Assign(targets=[target, *_], value=value):
            choices = (kernel.context.choice(part) for part in ast.walk(value))
            return kernel.context.buffer(target) in tiles and any(
                choice is not None and _tests_maximum(kernel, choice.test, tiles)
                for choice in choices
            )
        case ast.If(test=test, body=body):
            return _tests_maximum(kernel, test, tiles) and any(
                isinstance(step, ast.Assign) and kernel.context.buffer(step.targets[0]) in tiles
                for step in body
            )
    return False


def _tests_maximum(kernel: Kernel, test: ast.expr, tiles: set[str]) -> bool:
    if not isinstance(test, ast.Compare):
        return False
    sides = (test.left, *test.comparators)
    at = kernel.context.top[0]
    return any(is_hidden(kernel.deps.fold(side, at)) for side in sides) and any(
        kernel.context.buffer(side) in tiles for side in sides
    )
