"""Ascend: workspaces, Cube and Vector scopes, cross-core flags."""

from __future__ import annotations

import ast

from srcmap.anatomy import ops
from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.spans import Place
from srcmap.model import Lines
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.tree import Stmt
    from collections.abc import Iterator

SCOPES = {"C": "cube-scope", "V": "vector-scope"}


def workspaces(kernel: Kernel) -> Iterator[Found]:
    """Scratch tensors of the signature, and the copies to and from them."""
    names = kernel.facts.workspaces
    for run in _runs(kernel.context.parameters, names):
        yield kernel.outside("workspace-param", run, "roles.workspace-param")
    if not _is_ascend(kernel):
        return
    for access in kernel.facts.stores:
        if access.name in names:
            for place in kernel.spans.places([access.statement], grow=False):
                yield kernel.at("workspace-write", place, operand=_carried(access.value))
    for load in kernel.reading.loads.values():
        if load.name in names:
            for place in kernel.spans.places([load.statement], grow=False):
                yield kernel.at(
                    "workspace-read", place, operand=_carried(_written_to(kernel, load.name))
                )


def _is_ascend(kernel: Kernel) -> bool:
    kinds = set(kernel.context.tiles.values())
    return bool(kinds & {"alloc_L1", "alloc_L0C", "alloc_ub"}) or any(
        ops.keyword(kernel.context.launch_call(region), "is_npu") is not None
        for region in kernel.context.regions
    )


def _written_to(kernel: Kernel, name: str) -> dict[str, int]:
    merged: dict[str, int] = {}
    for access in kernel.facts.stores:
        if access.name == name:
            merged |= access.value
    return merged


def _carried(value: dict[str, int]) -> str:
    """What a workspace carries: scores, probabilities, partial output, or gathered keys and values."""
    if "prob" in value:
        return "P"
    if "score" in value:
        return "S"
    if value.keys() & {"acc", "norm"}:
        return "O"
    return "KV" if any(tag.startswith("L:") for tag in value) else ""


def _runs(parameters: dict[str, int], names: set[str]) -> list[Lines]:
    """Lines of scratch parameters that are neighbours in the signature."""
    runs: list[Lines] = []
    before = False
    for name, line in parameters.items():
        if name in names:
            if before:
                runs[-1] = Lines(runs[-1].first, line)
            else:
                runs.append(Lines(line, line))
        before = name in names
    return runs


def scopes(kernel: Kernel) -> Iterator[Found]:
    """`with T.Scope("C")` and `with T.Scope("V")`, the whole block."""
    for statement in kernel.context.statements:
        kind = scope_kind(kernel, statement)
        if kind is not None:
            place = _without_trailing_barriers(kernel, statement)
            yield Found(SCOPES[kind], place, place.lines)


def scope_kind(kernel: Kernel, statement: Stmt) -> str | None:
    """`C` or `V` when a statement opens such a scope."""
    node = statement.node
    if not isinstance(node, ast.With):
        return None
    for item in node.items:
        call = item.context_expr
        if isinstance(call, ast.Call) and kernel.context.name(call) == "Scope" and call.args:
            value = call.args[0]
            if isinstance(value, ast.Constant) and value.value in SCOPES:
                return str(value.value)
    return None


def _without_trailing_barriers(kernel: Kernel, statement: Stmt) -> Place:
    """A scope ends at its last statement that is not a plain barrier; a flag is a statement."""
    body = statement.arms["body"]
    kept = [below for below in body if kernel.context.call_name(below) not in _PLAIN_BARRIERS]
    last = (kept or body)[-1]
    return Place(statement.lines.first, last.lines.last, statement, (statement,))


_PLAIN_BARRIERS = {"barrier_all", "pipe_barrier", "sync_all"}


def flags(kernel: Kernel) -> Iterator[Found]:
    """The Cube and Vector hand-shake."""
    for statement in kernel.context.statements:
        name = kernel.context.call_name(statement)
        concept = (
            "cross-flag-set"
            if name in ops.FLAG_SETS
            else "cross-flag-wait"
            if name in ops.FLAG_WAITS
            else None
        )
        if concept:
            for place in kernel.spans.places([statement], grow=False):
                yield kernel.at(concept, place, operand=_flag(kernel, statement))


def _flag(kernel: Kernel, statement: Stmt) -> str:
    """The number of the flag, when it is written as one."""
    call = statement.call
    assert call is not None
    numbers = [kernel.deps.fold(argument, statement) for argument in call.args]
    return next((f"{number:g}" for number in numbers if number is not None), "")
