"""Top-k on chip: the statement that chooses, a sort written by hand, a whole selection kernel."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.inline import Inlined
from srcmap.parse.spans import node_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel

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
            yield kernel.outside("top-k", node_lines(node.function), "roles.sorting-network")


def selection(kernel: Kernel) -> Iterator[Found]:
    """A selection kernel as a whole."""
    yield kernel.outside(
        "top-k", node_lines(kernel.context.root.function), "roles.selection-kernel"
    )


def _sorts(function: ast.FunctionDef) -> bool:
    """A sorting network: partners at `i ^ stride`, compared and exchanged."""
    partners = any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor)
        for node in ast.walk(function)
    )
    tests = [node for node in ast.walk(function) if isinstance(node, ast.If)]
    return partners and any(map(_exchanges, tests))


def _exchanges(node: ast.If) -> bool:
    """Whether the body writes two places of one buffer."""
    targets: list[str] = []
    for step in node.body:
        match step:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name)), *_]):
                targets.append(name)
    return len(targets) > len(set(targets))
