"""Launch grid, key loop, its range and its start."""

from __future__ import annotations

import ast

from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.spans import Place
from srcmap.anatomy.tree import Stmt, loop_call
from srcmap.model import Lines
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.deps import Definition
    from collections.abc import Iterator


def kernel_grid(kernel: Kernel) -> Iterator[Found]:
    """The header of each launch."""
    for region in kernel.context.regions:
        node = region.node
        assert isinstance(node, ast.With)
        last = max(_end(item.optional_vars or item.context_expr) for item in node.items)
        yield Found(
            "kernel-grid", Place(node.lineno, last, region, (region,)), Lines(node.lineno, last)
        )


def kv_loop(kernel: Kernel) -> Iterator[Found]:
    """The header of each loop over key blocks."""
    for loop in kernel.facts.kv_loops:
        node = loop.node
        last = _end(node.iter) if isinstance(node, ast.For) else node.lineno
        yield Found("kv-loop", Place(node.lineno, last, loop, (loop,)), Lines(node.lineno, last))


def loop_range(kernel: Kernel) -> Iterator[Found]:
    """The assignment of the loop's stop, with what feeds it and moves with the query."""
    seen: set[Lines] = set()
    for loop in kernel.facts.kv_loops:
        place = _bound_place(kernel, loop, 1)
        lines = place.lines if isinstance(place, Place) else place
        if place is not None and lines is not None and lines not in seen:
            seen.add(lines)
            if isinstance(place, Place):
                yield kernel.at("loop-range", place)
            else:
                yield kernel.outside("loop-range", lines, "roles.loop-range")


def window_start(kernel: Kernel) -> Iterator[Found]:
    """The assignment of the loop's start, when it moves with the query."""
    seen: set[Lines] = set()
    for loop in kernel.facts.kv_loops:
        start = bounds(loop)[0]
        for definition in _start_definitions(kernel, loop, start):
            statement = definition.statement
            assert statement is not None
            place = _with_feeders(kernel, kernel.spans.place(statement))
            if place.lines not in seen:
                seen.add(place.lines)
                yield kernel.at("window-start", place)


def bounds(loop: Stmt) -> tuple[ast.expr | None, ast.expr | None]:
    """Start and stop of a loop as written; start is None when it is zero by default."""
    call = loop_call(loop)
    if call is None or not call.args:
        return None, None
    if len(call.args) == 1:
        return None, call.args[0]
    return call.args[0], call.args[1]


def _bound_place(kernel: Kernel, loop: Stmt, which: int) -> Place | Lines | None:
    """Where the bound is assigned: in the kernel, or before it."""
    name = _bound_name(kernel, loop, bounds(loop)[which])
    definitions = kernel.deps.definitions(name, loop) if name else ()
    if not definitions or definitions[-1].atom.origin != "scalar":
        return None
    statements = [d.statement for d in definitions if d.statement is not None]
    if not statements:
        return _outer_lines(kernel, definitions[-1])
    if len(statements) == 1:
        return _with_feeders(kernel, kernel.spans.place(statements[0]))
    tree = _common_tree(statements)
    return (
        _with_feeders(kernel, kernel.spans.place(tree))
        if tree is not None
        else kernel.spans.run(statements)
    )


def _outer_lines(kernel: Kernel, definition: Definition) -> Lines | None:
    """A stop counted in the builder: a number of blocks, not a plain length."""
    if (
        definition.value is None
        or definition.node is None
        or not _counts_blocks(kernel, definition.value)
    ):
        return None
    return Lines(definition.line, definition.node.end_lineno or definition.line)


def _bound_name(kernel: Kernel, loop: Stmt, bound: ast.expr | None) -> str | None:
    """The scalar that a bound is, or that it only divides into rounds: `ceildiv(NI, 2)`."""
    if isinstance(bound, ast.Name):
        return bound.id
    first = bound.args[0] if isinstance(bound, ast.Call) and bound.args else None
    if (
        isinstance(first, ast.Name)
        and isinstance(bound, ast.Call)
        and kernel.context.name(bound) == "ceildiv"
    ):
        values = [d.value for d in kernel.deps.definitions(first.id, loop) if d.value is not None]
        if any(_counts_blocks(kernel, value) for value in values):
            return first.id
    return None


def _counts_blocks(kernel: Kernel, value: ast.expr) -> bool:
    names = {kernel.context.name(node) for node in ast.walk(value) if isinstance(node, ast.Call)}
    return bool(names & {"ceildiv", "tilelang.cdiv", "tilelang.math.cdiv", "floordiv"})


def _common_tree(statements: list[Stmt]) -> Stmt | None:
    """The innermost `if` around all of some statements."""
    for parent in statements[0].ancestors():
        if parent.kind == "if" and all(statement.inside(parent) for statement in statements):
            return parent
    return None


def _with_feeders(kernel: Kernel, place: Place) -> Place:
    """Take in scalar assignments right before that only feed this and move with the query."""

    def accepts(statement: Stmt) -> bool:
        if statement.kind == "if":
            return _sets_only_scalars(kernel, statement) and _read_only_here(
                kernel, statement, place
            )
        return (
            statement.kind == "simple"
            and isinstance(statement.node, (ast.Assign, ast.AnnAssign))
            and kernel.spans._is_scalar(statement)
            and _moves_with_query(kernel, statement)
            and _read_only_here(kernel, statement, place)
        )

    return kernel.spans.extend_back(place, accepts)


def _moves_with_query(kernel: Kernel, statement: Stmt) -> bool:
    node = statement.node
    assert isinstance(node, (ast.Assign, ast.AnnAssign))
    atoms = kernel.deps.atoms(node.value, statement, lookups=False)
    return any(atom in kernel.facts.row_names and atom.origin in ("grid", "loop") for atom in atoms)


def _read_only_here(kernel: Kernel, statement: Stmt, place: Place) -> bool:
    """Whether what a statement sets is read by the place (directly or by another feeder) and nowhere else."""
    block = place.anchor.block
    low, high = statement.index, place.anchor.index
    readers = {
        r for name in kernel.spans.written(statement) for r in kernel.spans.readers.get(name, ())
    }
    tops = {kernel.spans._top_in(reader, block) for reader in readers if reader is not statement}
    tops = {top for top in tops if top is not statement}
    return bool(tops) and all(top is not None and low < top.index <= high for top in tops)


def _sets_only_scalars(kernel: Kernel, statement: Stmt) -> bool:
    return all(
        below.kind == "if" or kernel.context.is_noise(below) or kernel.spans._is_scalar(below)
        for below in statement.walk()
    )


def _start_definitions(kernel: Kernel, loop: Stmt, start: ast.expr | None) -> list[Definition]:
    names = (
        [node.id for node in ast.walk(start) if isinstance(node, ast.Name)]
        if start is not None
        else []
    )
    if not names:
        names = _starts_in_key_address(kernel, loop)
    found = [
        d for name in names for d in kernel.deps.definitions(name, loop) if d.statement is not None
    ]
    return [d for d in found if d.atom.origin == "scalar" and _is_window_start(kernel, d)]


def _starts_in_key_address(kernel: Kernel, loop: Stmt) -> list[str]:
    """Scalars added to the loop variable in K's index, through definitions inside the loop."""
    names: list[str] = []
    for tensor in kernel.facts.key_tensors:
        for access in kernel.facts.loads_of(tensor):
            if access.statement.inside(loop):
                whole = kernel.deps.expand(access.expr, access.statement)
                names += [node.id for node in ast.walk(whole) if isinstance(node, ast.Name)]
    return list(dict.fromkeys(names))


def _is_window_start(kernel: Kernel, definition: Definition) -> bool:
    """Moves with the query, and is cut off below: a maximum with zero."""
    assert definition.statement is not None
    if definition.value is None:
        return False
    atoms = kernel.deps.atoms(definition.value, definition.statement, lookups=False)
    moves = any(atom in kernel.facts.row_names for atom in atoms if atom.origin in ("grid", "loop"))
    return moves and any(
        isinstance(node, ast.Call) and (kernel.context.name(node) == "max" or _is_python_max(node))
        for node in ast.walk(definition.value)
    )


def _is_python_max(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "max"


def _end(node: ast.expr) -> int:
    return node.end_lineno or node.lineno
