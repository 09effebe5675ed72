"""Split-KV: the keys of one split, a grid variable in K's rows that the query does not know."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.concepts.kv_heads import key_value_loads
from srcmap.anatomy.context import index_items

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.definitions import Atom
    from srcmap.anatomy.reading import Access
    from srcmap.anatomy.tree import Stmt
    from srcmap.model import Lines


def split_range(kernel: Kernel) -> Iterator[Found]:
    """The assignments that carry the split into the address of the keys."""
    if kernel.facts.kernel_class != "attention":
        return
    query = kernel.facts.all_atoms(kernel.facts.query_tensors, lookups=True)
    seen: set[Lines] = set()
    for operand, access in key_value_loads(kernel):
        for item in index_items(access.expr):
            split = _split_atoms(kernel, item, access, query)
            for found in _places(kernel, operand, item, access, split) if split else ():
                if found.lines not in seen:
                    seen.add(found.lines)
                    yield found


def _split_atoms(kernel: Kernel, item: ast.expr, access: Access, query: set[Atom]) -> set[Atom]:
    """What numbers the splits in an index that moves with the keys."""
    atoms = kernel.deps.atoms(item, access.statement, lookups=True)
    if not atoms & kernel.facts.key_names:
        return set()
    unknown = atoms - query
    grid = {atom for atom in unknown if atom.origin == "grid" and not _is_subcore(kernel, atom)}
    return grid or {atom for atom in unknown if _is_tile_split(kernel, atom)}


def _is_tile_split(kernel: Kernel, atom: Atom) -> bool:
    """In a persistent kernel the split is a scalar cut from the tile number: `tile % splits`."""
    if atom.origin != "scalar" or not kernel.facts.events("COMBINE-ACC"):
        return False
    statement = kernel.facts.statement(atom.at)
    value = getattr(statement.node, "value", None) if statement is not None else None
    if statement is None or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mod):
        return False
    return not kernel.deps.atoms(value, statement, lookups=True) & kernel.facts.key_names


def _is_subcore(kernel: Kernel, atom: Atom) -> bool:
    """Ascend's last grid variable numbers the vector cores of one block."""
    region = kernel.facts.statement(atom.at)
    if region is None or region not in kernel.context.regions:
        return False
    if ops.keyword(kernel.context.launch_call(region), "is_npu") is None:
        return False
    names = [
        element.id
        for item in region.with_items
        if isinstance(item.optional_vars, ast.Tuple)
        for element in item.optional_vars.elts
        if isinstance(element, ast.Name)
    ]
    return names[-1:] == [atom.name]


def _places(
    kernel: Kernel, operand: str, item: ast.expr, access: Access, split: set[Atom]
) -> Iterator[Found]:
    """Assignments that carry the split into the address, else the load that inlines it."""
    statements = list(_carriers(kernel, item, access.statement, split))
    for place in kernel.spans.places(statements, grow=False):
        yield kernel.at("split-range", place)
    if not statements:
        yield kernel.at("split-range", kernel.spans.place(access.statement), operand=operand)


def _carriers(
    kernel: Kernel, expr: ast.AST, at: Stmt, split: set[Atom], depth: int = 3
) -> Iterator[Stmt]:
    """Definitions on the way from an address to the split, the first that compute with it."""
    for statement, value in _computed(kernel, expr, at):
        if kernel.deps.atoms(value, statement, lookups=False) & split:
            yield statement
        elif depth and kernel.deps.atoms(value, statement, lookups=True) & split:
            yield from _carriers(kernel, value, statement, split, depth - 1)


def _computed(kernel: Kernel, expr: ast.AST, at: Stmt) -> Iterator[tuple[Stmt, ast.expr]]:
    """Scalars in an expression that the kernel computes, other than by renaming."""
    for node in ast.walk(expr):
        if isinstance(node, ast.Name):
            for found in kernel.deps.definitions(node.id, at):
                if found.statement is None or found.atom.origin != "scalar":
                    continue
                if found.value is not None and not isinstance(found.value, ast.Name):
                    yield found.statement, found.value
