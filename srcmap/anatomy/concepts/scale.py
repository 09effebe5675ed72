"""The softmax scale: the factor that scores or the maximum are multiplied with."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.parse.spans import node_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.definitions import Definition
    from srcmap.anatomy.reading import Event
    from srcmap.anatomy.tree import Stmt
    from srcmap.model import Lines

SCALED = {"score", "max", "s-m", "m-m", "nmax"}


def softmax_scale(kernel: Kernel) -> Iterator[Found]:
    """The assignment of the factor, in the kernel or around it."""
    seen: set[Lines] = set()
    for event in kernel.facts.events("SCALE", "MAX-NEG"):
        if not _scales_scores(kernel, event):
            continue
        for name in _factors(kernel, event.statement):
            lines = _assignment(kernel, name, event.statement)
            if lines is not None and lines not in seen:
                seen.add(lines)
                yield Found("softmax-scale", None, lines, events=(event,))


def _scales_scores(kernel: Kernel, event: Event) -> bool:
    """Scaling the queries scales the scores."""
    queries = {f"L:{name}" for name in kernel.facts.query_tensors}
    return any(tag in SCALED | queries for tag, _ in event.because)


def _factors(kernel: Kernel, statement: Stmt) -> list[str]:
    """Names of scalars that a statement multiplies or divides by, in order."""
    names = map(_bare_name, _operands(kernel, statement))
    buffers = kernel.context.buffers
    return [name for name in dict.fromkeys(names) if name and name not in buffers]


def _operands(kernel: Kernel, statement: Stmt) -> list[ast.expr]:
    if statement.call is not None:
        operation = kernel.context.operation(statement)
        return list(operation.sources) if operation is not None else []
    operands = [
        side
        for node in ast.walk(statement.node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div))
        for side in (node.left, node.right)
    ]
    if isinstance(statement.node, ast.AugAssign):
        operands.append(statement.node.value)
    return operands


def _bare_name(expr: ast.expr) -> str | None:
    while isinstance(expr, ast.UnaryOp):
        expr = expr.operand
    return expr.id if isinstance(expr, ast.Name) else None


def _assignment(kernel: Kernel, name: str, at: Stmt) -> Lines | None:
    """Lines of the last assignment of a factor; the whole `if` when both arms set it."""
    definitions = [
        definition
        for definition in kernel.deps.definitions(name, at)
        if definition.node is not None and definition.atom.origin == "scalar"
    ]
    if not definitions:
        return None
    value = definitions[-1].value
    if len(definitions) == 1 and isinstance(value, ast.Name) and value.id != name:
        behind = _assignment(kernel, value.id, definitions[-1].statement or at)
        if behind is not None:  # only another name for the factor
            return behind
    return _common_if(kernel, definitions) or definitions[-1].lines


def _common_if(kernel: Kernel, definitions: list[Definition]) -> Lines | None:
    """The `if` whose two arms both hold a definition, when nothing later redefines the name."""
    nodes = {id(definition.node) for definition in definitions}
    for scope in kernel.context.root.scopes:
        for node in ast.walk(scope):
            if isinstance(node, ast.If) and definitions[-1].line <= node_lines(node).last:
                arms = (node.body, node.orelse)
                if all(any(id(below) in nodes for below in _below(arm)) for arm in arms):
                    return node_lines(node)
    return None


def _below(block: list[ast.stmt]) -> Iterator[ast.AST]:
    for statement in block:
        yield from ast.walk(statement)
