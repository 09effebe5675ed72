"""What each statement of a kernel does, for the gutter."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.definitions import scalar_value
from srcmap.model import Deed, Lines

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Kernel
    from srcmap.anatomy.facts import Facts
    from srcmap.anatomy.tree import Stmt

EVENT_ROLES = {
    "QK": "scores", "PV": "output", "REDUCE-MAX": "row-max", "MAX-MERGE": "row-max", "SAVE-MAX":
    "save-max", "CHECK-INF": "check-inf", "RESCALE": "rescale-factor", "M-M": "max-difference",
    "S-M": "shifted-scores", "PROB": "probability", "ROWSUM": "row-sum", "DENOM-ADD":
    "denominator", "DENOM-RESCALE": "denominator", "ACC-RESCALE": "acc-rescale", "ACC-ADD":
    "output-add", "NORM": "normalise", "EMPTY-ROW": "empty-row", "SINKEXP": "sink-term",
    "SINK-ADD": "sink-add", "LSE": "log-sum-exp", "MASK-AFTER-EXP": "mask-after-exp",
    "COMBINE-MAX": "combine-max", "COMBINE-SUM": "combine-sum", "COMBINE-LSE":
    "combine-logsumexp", "COMBINE-WEIGHT": "combine-weight", "COMBINE-ACC": "combine-accumulate",
    "RELU": "relu", "LOGIT": "index-score", "TOPK": "top-k", "PROB-B": "recomputed-probability",
}  # fmt: skip
"""Kind of event to role; kinds without a row say nothing of their own."""
KIND_ROLES = {
    "copy": "copy",
    "fill": "fill",
    "clear": "fill",
    "gemm": "product",
    "topk": "top-k",
    "atomic": "atomic",
}


def deeds(kernel: Kernel) -> tuple[Deed, ...]:
    """One deed per statement that does something, in order of lines."""
    by_statement = _event_roles(kernel)
    _add_accesses(kernel, by_statement)
    found: dict[Lines, set[str]] = {}
    for statement in kernel.context.statements:
        roles = by_statement.get(statement.uid) or _plain_roles(kernel, statement)
        if roles:
            found.setdefault(_lines(statement), set()).update(roles)
    return tuple(
        Deed(lines=lines, roles=tuple(sorted(roles))) for lines, roles in sorted(found.items())
    )


def _lines(statement: Stmt) -> Lines:
    """A compound statement does what its header says."""
    if statement.kind in ("simple", "inline"):
        return statement.lines
    return Lines(statement.lines.first, statement.lines.first)


def _event_roles(kernel: Kernel) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for event in kernel.reading.events.values():
        if event.kind in EVENT_ROLES:
            found.setdefault(event.statement.uid, set()).add(EVENT_ROLES[event.kind])
    return found


def _add_accesses(kernel: Kernel, found: dict[int, set[str]]) -> None:
    """Loads and stores, with what is loaded."""
    facts = kernel.facts
    for access in kernel.reading.loads.values():
        found.setdefault(access.statement.uid, set()).add(_load_role(facts, access.name))
    for access in kernel.reading.stores.values():
        role = "workspace-write" if access.name in facts.workspaces else "store"
        found.setdefault(access.statement.uid, set()).add(role)


def _load_role(facts: Facts, name: str) -> str:
    if name in facts.workspaces:
        return "workspace-read"
    operands = (
        ("load-q", facts.query_tensors),
        ("load-k", facts.key_tensors),
        ("load-v", facts.value_tensors),
    )
    return next((role for role, names in operands if name in names), "load")


def _plain_roles(kernel: Kernel, statement: Stmt) -> set[str]:
    """What the table of operations alone says."""
    if statement in kernel.context.regions:
        return {"launch"}
    if statement.kind == "loop":
        return {"key-loop"} if statement in kernel.facts.kv_loops else set()
    operation = kernel.context.operation(statement)
    if operation is not None:
        return {KIND_ROLES.get(operation.kind, "compute")}
    if isinstance(statement.node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return {_assignment_role(kernel, statement)}
    return _synchronising(kernel.context.call_name(statement) or "")


def _assignment_role(kernel: Kernel, statement: Stmt) -> str:
    match statement.node:
        case ast.Assign(value=ast.Call() as call):
            if kernel.context.name(call) in ops.ALL_ALLOCATIONS:
                return "allocate"
    return "compute" if scalar_value(statement) is None else "scalar"


def _synchronising(name: str) -> set[str]:
    if name in ops.FLAG_SETS | ops.FLAG_WAITS:
        return {"flag"}
    if name in ops.BARRIERS:
        return {"wait" if name in ops.BARRIER_WAITS else "barrier"}
    return set()
