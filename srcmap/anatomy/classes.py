"""What a kernel is for, from its events: attention, its backward, an indexer, a combine, other."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal

from srcmap.anatomy.context import Context, index_items
from srcmap.anatomy.names import names_in

if TYPE_CHECKING:
    from srcmap.anatomy.deps import Dependencies
    from srcmap.anatomy.reading import Access, Reading
    from srcmap.anatomy.tree import Stmt

KernelClass = Literal[
    "attention", "backward", "indexer", "combine", "cleaner", "selection", "other"
]


def classify(context: Context, deps: Dependencies, reading: Reading) -> KernelClass:
    """The class of a kernel; an indexer has scores without a softmax."""
    seen = {kind for kind, _, _ in reading.events}
    if "PROB-B" in seen and "PV" not in seen:
        return "backward"
    if {"PROB", "REDUCE-MAX"} <= seen:
        return "attention"
    if "LOGIT" in seen or {"RELU", "INDEX-WEIGHT"} <= seen:
        return "indexer"
    if "COMBINE-ACC" in seen:
        return "combine"
    return "other" if reading.products else _without_products(context, deps, reading)


def _without_products(context: Context, deps: Dependencies, reading: Reading) -> KernelClass:
    """A kernel that multiplies nothing can still clean scores or select from them."""
    stores = reading.stores.values()
    if any(_cleans(deps, access) for access in stores):
        return "cleaner"
    if any(_selects(context, deps, access) for access in stores):
        return "selection"
    return "other"


def _cleans(deps: Dependencies, access: Access) -> bool:
    """Whether a store writes hidden values under a test of bounds that were loaded."""
    return access.value.keys() == {"neg"} and any(
        deps.rests_on(test, parent, "lookup") for parent, test in access.statement.tests()
    )


def _selects(context: Context, deps: Dependencies, access: Access) -> bool:
    """Whether what passes a threshold is stored at a place that an atomic counter gives."""
    return _is_counted(context, deps, access) and _under_threshold(deps, access.statement)


def _is_counted(context: Context, deps: Dependencies, access: Access) -> bool:
    names = {name for item in index_items(access.expr) for name in names_in(item)}
    return any(
        isinstance(call, ast.Call) and (context.name(call) or "").startswith("atomic_add")
        for name in names
        for definition in deps.definitions(name, access.statement)
        if definition.value is not None
        for call in ast.walk(definition.value)
    )


def _under_threshold(deps: Dependencies, statement: Stmt) -> bool:
    """Under a test that something computed from the input is greater than something else."""
    return any(
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], (ast.Gt, ast.GtE))
        and deps.rests_on(test.left, parent, "lookup")
        for parent, test in statement.tests()
    )
