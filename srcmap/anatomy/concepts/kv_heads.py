"""Grouped-query attention: how many KV heads there are, and which one a query head reads.

Ainslie and others 2023 (GQA): query head h reads KV head h // (H / H_kv).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.context import index_items
from srcmap.anatomy.kernels import annotation_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.definitions import Atom, Definition
    from srcmap.anatomy.reading import Access
    from srcmap.anatomy.tree import Stmt
    from srcmap.model import Lines


def kv_heads(kernel: Kernel) -> Iterator[Found]:
    """How many KV heads there are, and which one a query head reads."""
    yield from _kv_head_count(kernel)
    seen: set[Lines] = set()
    for operand, access in key_value_loads(kernel):
        for found in _kv_head(kernel, operand, access):
            if found.lines not in seen:
                seen.add(found.lines)
                yield found


def key_value_loads(kernel: Kernel) -> Iterator[tuple[str, Access]]:
    """Loads of keys and values, with the operand that they are: `K` or `V`."""
    for operand, names in (("K", kernel.facts.key_tensors), ("V", kernel.facts.value_tensors)):
        for access in kernel.facts.loads_of_all(sorted(names)):
            yield operand, access


def _kv_head_count(kernel: Kernel) -> Iterator[Found]:
    """An extent of the keys that the queries do not have, defined by a division."""
    key = {name for tensor in kernel.facts.key_tensors for name in _extents(kernel, tensor)}
    query = {name for tensor in kernel.facts.query_tensors for name in _extents(kernel, tensor)}
    for name in sorted(key - query):
        for definition in _scalar_definitions(kernel, name)[-1:]:
            if definition.value is not None and _divides(kernel, definition.value):
                yield kernel.outside("kv-head-count", definition.lines, "roles.kv-head-count")


def _extents(kernel: Kernel, tensor: str) -> set[str]:
    """Names of the extents in a parameter's annotation, a named shape followed."""
    annotation = annotation_of(kernel.context.root, tensor)
    if not isinstance(annotation, ast.Call) or not annotation.args:
        return set()
    shape: ast.expr | None = annotation.args[0]
    if isinstance(shape, ast.Name):
        values = [definition.value for definition in _scalar_definitions(kernel, shape.id)]
        shape = values[-1] if values else None
    elements = shape.elts if isinstance(shape, (ast.List, ast.Tuple)) else []
    return {element.id for element in elements if isinstance(element, ast.Name)}


def _scalar_definitions(kernel: Kernel, name: str) -> list[Definition]:
    """Definitions in the kernel (eager style), else around it."""
    return kernel.deps.all_of(name) or list(kernel.deps.outer(name))


def _kv_head(kernel: Kernel, operand: str, access: Access) -> Iterator[Found]:
    """An index of one load that divides a grid variable: a scalar's assignment, or in place."""
    at = access.statement
    query = kernel.facts.all_atoms(kernel.facts.query_tensors)
    for item in index_items(access.expr):
        moves = kernel.deps.atoms(item, at, lookups=True) & kernel.facts.key_names
        if moves or isinstance(item, ast.Slice):
            continue
        if isinstance(item, ast.Name):
            for definition in kernel.deps.definitions(item.id, at):
                if definition.statement is not None and _is_kv_head(kernel, definition, query):
                    yield kernel.at("kv-head", kernel.spans.place(definition.statement))
        elif _divides_grid(kernel, item, at):
            yield kernel.at("kv-head", kernel.spans.place(at), operand=operand)


def _is_kv_head(kernel: Kernel, definition: Definition, query: set[Atom]) -> bool:
    return (
        definition.value is not None
        and definition.statement is not None
        and definition.atom not in query
        and _divides_grid(kernel, definition.value, definition.statement)
    )


def _divides_grid(kernel: Kernel, expr: ast.expr, at: Stmt) -> bool:
    return _divides(kernel, expr) and kernel.deps.rests_on(expr, at, "grid", "loop")


def _divides(kernel: Kernel, expr: ast.expr) -> bool:
    for node in ast.walk(expr):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            return True
        if isinstance(node, ast.Call) and kernel.context.name(node) in ("floordiv", "truncdiv"):
            return True
    return False
