"""Top-k on chip: the statement that chooses, a sort written by hand, a selection kernel as a whole."""

from __future__ import annotations

import ast

from srcmap.anatomy.inline import Inlined
from srcmap.model import Lines
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Found, Kernel
    from collections.abc import Iterator

CHOOSERS = {"tile.topk", "topk"}


def top_k(kernel: Kernel) -> Iterator[Found]:
    """`T.tile.topk` and its like, or a sorting macro, in a kernel that scores or attends."""
    statements = [s for s in kernel.context.statements if kernel.context.call_name(s) in CHOOSERS]
    yield from (kernel.at("top-k", place) for place in kernel.spans.places(statements, grow=False))
    seen: set[int] = set()
    for statement in kernel.context.statements:
        node = statement.node
        if isinstance(node, Inlined) and node.function.lineno not in seen and _sorts(node.function):
            seen.add(node.function.lineno)
            yield kernel.outside("top-k", _whole(node.function), "roles.sorting-network")


def selection(kernel: Kernel) -> Iterator[Found]:
    """A selection kernel as a whole."""
    yield kernel.outside("top-k", _whole(kernel.context.root.function), "roles.selection-kernel")


def _whole(function: ast.FunctionDef) -> Lines:
    return Lines(function.lineno, function.end_lineno or function.lineno)


def _sorts(function: ast.FunctionDef) -> bool:
    """A sorting network: partners at `i ^ stride`, compared and exchanged."""
    partners = any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor)
        for node in ast.walk(function)
    )
    return partners and any(
        isinstance(node, ast.If) and _exchanges(node) for node in ast.walk(function)
    )


def _exchanges(node: ast.If) -> bool:
    """Whether the body writes two places of one buffer."""
    targets = [
        step.targets[0].value.id
        for step in node.body
        if isinstance(step, ast.Assign)
        and isinstance(step.targets[0], ast.Subscript)
        and isinstance(step.targets[0].value, ast.Name)
    ]
    return len(targets) > len(set(targets))
