"""Ascend: workspaces, Cube and Vector scopes, cross-core flags."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.spans import Place
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.reading import Access
    from srcmap.anatomy.roles import Value
    from srcmap.anatomy.tree import Stmt

SCOPES = {"C": "cube-scope", "V": "vector-scope"}
SCOPE_NAMES = {"C": "C", "V": "V", "Cube": "C", "Vector": "V"}

PLAIN_BARRIERS = {"barrier_all", "pipe_barrier", "sync_all"}
"""Barriers that belong to no data: a scope may end before one."""


def workspaces(kernel: Kernel) -> Iterator[Found]:
    """Scratch tensors of the signature, and the copies to and from them."""
    names = kernel.facts.workspaces
    for run in _runs(kernel.context.parameters, names):
        yield kernel.outside("workspace-param", run, "roles.workspace-param")
    if not kernel.context.is_ascend:
        return
    stores = [access for access in kernel.facts.stores if access.name in names]
    held: dict[str, Value] = {}
    for access in stores:
        held.setdefault(access.name, {}).update(access.value)
        yield from _copy(kernel, "workspace-write", access, access.value)
    for access in kernel.reading.loads.values():
        if access.name in names:
            yield from _copy(kernel, "workspace-read", access, held.get(access.name, {}))


def _copy(kernel: Kernel, concept: str, access: Access, value: Value) -> Iterator[Found]:
    for place in kernel.spans.places([access.statement], grow=False):
        yield kernel.at(concept, place, operand=_carried(value))


def _carried(value: Value) -> str:
    """What a workspace carries: scores, probabilities, an output, gathered keys and values."""
    if "prob" in value:
        return "P"
    if "score" in value:
        return "S"
    if value.keys() & {"acc", "norm"}:
        return "O"
    return "KV" if any(tag.startswith("L:") for tag in value) else ""


def _runs(parameters: dict[str, int], names: set[str]) -> Iterator[Lines]:
    """Lines of scratch parameters that are neighbours in the signature."""
    for scratch, run in itertools.groupby(parameters, names.__contains__):
        if scratch:
            lines = [parameters[name] for name in run]
            yield Lines(lines[0], lines[-1])


def scopes(kernel: Kernel) -> Iterator[Found]:
    """`with T.Scope("C")` and `with T.Scope("V")`, the whole block."""
    for statement in kernel.context.statements:
        kind = scope_kind(kernel, statement)
        if kind is not None:
            place = _without_trailing_barriers(kernel, statement)
            yield Found(SCOPES[kind], place, place.lines)


def scope_kind(kernel: Kernel, statement: Stmt) -> str | None:
    """`C` or `V` when a statement opens such a scope; the npuir branch spells them out."""
    for item in statement.with_items:
        match item.context_expr:
            case ast.Call(args=[ast.Constant(value=str() as name), *_]) as call:
                if kernel.context.name(call) == "Scope" and name in SCOPE_NAMES:
                    return SCOPE_NAMES[name]
    return None


def _without_trailing_barriers(kernel: Kernel, statement: Stmt) -> Place:
    """A scope ends at its last statement that is not a plain barrier; a flag is a statement."""
    body = statement.arms["body"]
    kept = [
        below
        for below in body
        if kernel.context.call_name(below) not in PLAIN_BARRIERS and not _is_text(below)
    ]
    last = (kept or body)[-1]
    return Place(statement.lines.first, last.lines.last, statement, (statement,))


def _is_text(statement: Stmt) -> bool:
    node = statement.node
    return isinstance(node, ast.Pass) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def flags(kernel: Kernel) -> Iterator[Found]:
    """The Cube and Vector hand-shake."""
    for statement in kernel.context.statements:
        name = kernel.context.call_name(statement)
        if name in ops.FLAG_SETS or name in ops.FLAG_WAITS:
            concept = "cross-flag-set" if name in ops.FLAG_SETS else "cross-flag-wait"
            for place in kernel.spans.places([statement], grow=False):
                yield kernel.at(concept, place, operand=_flag(kernel, statement))


def _flag(kernel: Kernel, statement: Stmt) -> str:
    """The number of the flag, when it is written as one."""
    arguments = statement.call.args if statement.call is not None else []
    numbers = [kernel.deps.fold(argument, statement) for argument in arguments]
    return next((f"{number:g}" for number in numbers if number is not None), "")
