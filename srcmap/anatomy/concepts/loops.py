"""Launch grid, key loop, its range and its start."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.definitions import scalar_value
from srcmap.anatomy.spans import Place
from srcmap.anatomy.tree import loop_call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.definitions import Definition
    from srcmap.anatomy.tree import Stmt
    from srcmap.model import Lines

BLOCK_COUNTS = {"ceildiv", "tilelang.cdiv", "tilelang.math.cdiv", "floordiv"}
"""Calls that turn a length into a number of blocks."""


def kernel_grid(kernel: Kernel) -> Iterator[Found]:
    """The header of each launch."""
    for region in kernel.context.regions:
        yield _header("kernel-grid", region)


def kv_loop(kernel: Kernel) -> Iterator[Found]:
    """The header of each loop over key blocks."""
    for loop in kernel.facts.kv_loops:
        yield _header("kv-loop", loop)


def _header(concept: str, statement: Stmt) -> Found:
    lines = statement.header_lines
    place = Place(lines.first, lines.last, statement, (statement,))
    return Found(concept, place, lines)


def loop_range(kernel: Kernel) -> Iterator[Found]:
    """The assignment of the loop's stop, with what feeds it and moves with the query."""
    seen: set[Lines] = set()
    for loop in kernel.facts.kv_loops:
        found = _stop(kernel, loop)
        if found is not None and found.lines not in seen:
            seen.add(found.lines)
            yield found


def window_start(kernel: Kernel) -> Iterator[Found]:
    """The assignment of the loop's start, when it moves with the query."""
    seen: set[Lines] = set()
    for loop in kernel.facts.kv_loops:
        for statement in _start_statements(kernel, loop):
            place = _with_feeders(kernel, kernel.spans.place(statement))
            if place.lines not in seen:
                seen.add(place.lines)
                yield kernel.at("window-start", place)


def _bounds(loop: Stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """Start and stop of a loop as written; start is None when it is zero by default."""
    call = loop_call(loop)
    if call is None:
        return None, None
    named_start, named_stop = ops.keyword(call, "start"), ops.keyword(call, "stop")
    match call.args:
        case []:
            return named_start, named_stop
        case [only]:
            return (only, named_stop) if named_stop is not None else (named_start, only)
    return call.args[0], call.args[1]


# the stop


def _stop(kernel: Kernel, loop: Stmt) -> Found | None:
    """Where the stop is assigned: in the kernel, or before it."""
    _, stop = _bounds(loop)
    name = _counted_name(kernel, loop, stop)
    definitions = kernel.deps.definitions(name, loop) if name else ()
    if not definitions or definitions[-1].atom.origin != "scalar":
        return None
    statements = [one.statement for one in definitions if one.statement is not None]
    if statements:
        return kernel.at("loop-range", _assignment(kernel, statements))
    value = definitions[-1].value
    if value is None or not _counts_blocks(kernel, value):
        return None  # a plain length
    return kernel.outside("loop-range", definitions[-1].lines, "roles.loop-range")


def _assignment(kernel: Kernel, statements: list[Stmt]) -> Place:
    """One assignment, the `if` around several, or the run of them; with what feeds it."""
    whole = statements[0] if len(statements) == 1 else _common_if(statements)
    if whole is None:
        return kernel.spans.run(statements)
    return _with_feeders(kernel, kernel.spans.place(whole))


def _common_if(statements: list[Stmt]) -> Stmt | None:
    """The innermost `if` around all of some statements."""
    for parent in statements[0].ancestors():
        if parent.kind == "if" and all(statement.inside(parent) for statement in statements):
            return parent
    return None


def _counted_name(kernel: Kernel, loop: Stmt, bound: ast.expr | None) -> str | None:
    """The scalar that a bound is, or that it only divides into rounds: `ceildiv(NI, 2)`."""
    match bound:
        case ast.Name(id=name):
            return name
        case ast.Call(args=[ast.Name(id=name), *_]) if kernel.context.name(bound) == "ceildiv":
            values = [one.value for one in kernel.deps.definitions(name, loop)]
            if any(value is not None and _counts_blocks(kernel, value) for value in values):
                return name
    return None


def _counts_blocks(kernel: Kernel, value: ast.expr) -> bool:
    names = {kernel.context.name(node) for node in ast.walk(value) if isinstance(node, ast.Call)}
    return bool(names & BLOCK_COUNTS)


# feeders of a bound


def _with_feeders(kernel: Kernel, place: Place) -> Place:
    """Take in scalar assignments right before that only feed this and move with the query."""

    def accepts(statement: Stmt) -> bool:
        if statement.kind == "if":
            feeds = _sets_only_scalars(kernel, statement)
        else:
            feeds = statement.kind == "simple" and _moves_with_query(kernel, statement)
        return feeds and _is_read_only_here(kernel, statement, place)

    return kernel.spans.extend_back(place, accepts)


def _moves_with_query(kernel: Kernel, statement: Stmt) -> bool:
    value = scalar_value(statement)
    return value is not None and _rests_on_rows(kernel, value, statement)


def _rests_on_rows(kernel: Kernel, value: ast.expr, at: Stmt) -> bool:
    atoms = kernel.deps.atoms(value, at, lookups=False) & kernel.facts.row_names
    return any(atom.origin in ("grid", "loop") for atom in atoms)


def _is_read_only_here(kernel: Kernel, statement: Stmt, place: Place) -> bool:
    """Whether what a statement sets is read by the place, directly or by another feeder of it."""
    readers = {
        reader
        for name in kernel.feeders.written(statement)
        for reader in kernel.feeders.readers.get(name, ())
    }
    tops = {one.ancestor_in(place.anchor.block) for one in readers if one is not statement}
    tops.discard(statement)
    low, high = statement.index, place.anchor.index
    return bool(tops) and all(top is not None and low < top.index <= high for top in tops)


def _sets_only_scalars(kernel: Kernel, statement: Stmt) -> bool:
    return all(
        below.kind == "if" or kernel.context.is_noise(below) or scalar_value(below) is not None
        for below in statement.walk()
    )


# the start


def _start_statements(kernel: Kernel, loop: Stmt) -> list[Stmt]:
    start, _ = _bounds(loop)
    names = _names_in_order(start) or _names_in_key_address(kernel, loop)
    return [
        definition.statement
        for name in names
        for definition in kernel.deps.definitions(name, loop)
        if definition.statement is not None
        and definition.atom.origin == "scalar"
        and _is_window_start(kernel, definition, definition.statement)
    ]


def _names_in_order(expr: ast.expr | None) -> list[str]:
    nodes = ast.walk(expr) if expr is not None else ()
    return [node.id for node in nodes if isinstance(node, ast.Name)]


def _names_in_key_address(kernel: Kernel, loop: Stmt) -> list[str]:
    """Scalars in K's index, definitions inside the loop written out; the start is added there."""
    names: list[str] = []
    for access in kernel.facts.loads_of_all(kernel.facts.key_tensors):
        if access.statement.inside(loop):
            names += _names_in_order(kernel.deps.expand(access.expr, access.statement))
    return list(dict.fromkeys(names))


def _is_window_start(kernel: Kernel, definition: Definition, at: Stmt) -> bool:
    """Moves with the query, and is cut off below: a maximum with zero."""
    value = definition.value
    return (
        value is not None
        and _rests_on_rows(kernel, value, at)
        and any(_is_maximum(kernel, node) for node in ast.walk(value))
    )


def _is_maximum(kernel: Kernel, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    return kernel.context.name(node) == "max" or _is_python_max(node)


def _is_python_max(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "max"
