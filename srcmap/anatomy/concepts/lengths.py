"""Sequences of different lengths: prefix sums, the shift of the causal diagonal, guarded stores."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.context import index_items
from srcmap.anatomy.definitions import scalar_value
from srcmap.anatomy.masks import concepts_of
from srcmap.anatomy.names import names_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.definitions import Definition
    from srcmap.anatomy.tree import Stmt
    from srcmap.model import Lines

SMALL = 3
"""An `if` with at most this many simple statements holds a store and not the whole kernel."""


def prefix_sums(kernel: Kernel) -> Iterator[Found]:
    """Start, end and length of a sample: scalars looked up at `i` and `i + 1` of one tensor."""
    tensors = _prefix_tensors(kernel)
    bounds = [one for one in kernel.context.statements if _looks_up(kernel, one, tensors)]
    names = {name for statement in bounds for name in kernel.feeders.written(statement)}
    lengths = [
        one for one in kernel.context.statements if one not in bounds and _is_length(one, names)
    ]
    for place in kernel.spans.places([*bounds, *lengths], grow=False):
        if any(core in bounds for core in place.core):
            yield kernel.at("cu-seqlens", place)


def _prefix_tensors(kernel: Kernel) -> set[str]:
    """Tensors that are looked up at an index and at the next one."""
    indices: dict[str, set[str]] = {}
    for access in kernel.reading.loads.values():
        items = index_items(access.expr)
        if len(items) == 1 and not isinstance(items[0], ast.Slice):
            expanded = kernel.deps.expand(items[0], access.statement)
            indices.setdefault(access.name, set()).add(ast.dump(expanded))
    return {name for name, seen in indices.items() if _at_next_of(kernel, name, seen)}


def _at_next_of(kernel: Kernel, name: str, seen: set[str]) -> bool:
    for access in kernel.facts.loads_of(name):
        match index_items(access.expr):
            case [ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1)), *_]:
                if ast.dump(kernel.deps.expand(left, access.statement)) in seen:
                    return True
    return False


def _looks_up(kernel: Kernel, statement: Stmt, tensors: set[str]) -> bool:
    value = scalar_value(statement)
    return value is not None and any(
        isinstance(node, ast.Subscript) and kernel.context.buffer(node) in tensors
        for node in ast.walk(value)
    )


def _is_length(statement: Stmt, names: set[str]) -> bool:
    match statement.node:
        case ast.Assign(value=ast.BinOp(op=ast.Sub()) as difference):
            used = names_in(difference)
            return bool(used) and used <= names
    return False


def query_offset(kernel: Kernel) -> Iterator[Found]:
    """A difference of two lengths that shifts the causal diagonal."""
    seen: set[Lines] = set()
    for expr, at in _diagonals(kernel):
        for definition in _added_up(kernel, expr, at):
            if definition.lines in seen or not _is_shift(kernel, definition):
                continue
            seen.add(definition.lines)
            if definition.statement is None:
                yield kernel.outside("query-offset", definition.lines, "roles.query-offset")
            else:
                yield kernel.at("query-offset", kernel.spans.place(definition.statement))


def _diagonals(kernel: Kernel) -> Iterator[tuple[ast.expr, Stmt]]:
    """Both sides of every comparison that compares a query's position."""
    for write in kernel.masks.writes:
        if concepts_of(write.kinds) & {"causal-mask", "window-mask", "padding-mask"}:
            for comparison in write.comparisons:
                yield comparison.left, comparison.statement
                if comparison.right is not None:
                    yield comparison.right, comparison.statement


def _added_up(kernel: Kernel, expr: ast.expr, at: Stmt, depth: int = 4) -> Iterator[Definition]:
    """Definitions of the scalars that are added up in an expression, casts followed."""
    for term in _terms(expr):
        if isinstance(term, ast.Name) and depth:
            for definition in kernel.deps.definitions(term.id, at):
                yield definition
                if definition.whole_value is not None:
                    where = definition.statement or at
                    yield from _added_up(kernel, definition.whole_value, where, depth - 1)


def _terms(expr: ast.expr) -> Iterator[ast.expr]:
    if isinstance(expr, ast.BinOp):
        yield from _terms(expr.left)
        if isinstance(expr.op, (ast.Add, ast.Sub)):
            yield from _terms(expr.right)
    elif isinstance(expr, ast.Call) and len(expr.args) == 1:
        yield from _terms(expr.args[0])
    else:
        yield expr


def _is_shift(kernel: Kernel, definition: Definition) -> bool:
    """A difference of two lengths, or a start that was handed in and added."""
    value = definition.value
    if not isinstance(value, ast.BinOp) or definition.node is None:
        return False
    at = definition.statement or kernel.context.top[0]
    if isinstance(value.op, ast.Add):
        return _adds_loaded_start(kernel, value, at)
    if not isinstance(value.op, ast.Sub) or kernel.deps.rests_on(value, at, "grid", "loop"):
        return False
    if any(kernel.deps.fold(side, at) is not None for side in (value.left, value.right)):
        return False
    ends, starts = (kernel.deps.looked_up(side, at) for side in (value.left, value.right))
    return not ends or ends != starts  # end minus start of one prefix sum is a length


def _adds_loaded_start(kernel: Kernel, value: ast.BinOp, at: Stmt) -> bool:
    """The query's position plus a start that was handed in: `q_start[0] + s_i`."""
    terms = list(_terms(value))
    loaded = [term for term in terms if kernel.context.buffer(term) in kernel.context.globals]
    moving = [t for t in terms if kernel.deps.atoms(t, at, lookups=False) & kernel.facts.row_names]
    return len(terms) == 2 and len(loaded) == 1 and len(moving) == 1 and loaded[0] is not moving[0]


def varlen_guard(kernel: Kernel) -> Iterator[Found]:
    """A store of the output under a test of the query row against this sample's length."""
    stores = [
        access.statement
        for access in kernel.facts.stores
        if access.value.keys() & {"acc", "norm"}
        and kernel.facts.kv_loop_of(access.statement) is None
    ]
    guarded = [statement for statement in stores if _is_guarded(kernel, statement)]
    yield from (kernel.at("varlen-guard", place) for place in kernel.spans.places(guarded))


def _is_guarded(kernel: Kernel, statement: Stmt) -> bool:
    return any(
        kernel.deps.rests_on(side, parent, "lookup")
        for parent, test in statement.tests()
        if sum(below.kind == "simple" for below in parent.walk()) <= SMALL
        for comparison in kernel.masks.flattener.comparisons(test, parent, hides=False)
        for side in (comparison.left, comparison.right)
    )
