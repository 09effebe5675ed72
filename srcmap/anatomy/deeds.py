"""What each statement of a kernel does, for the gutter."""

from __future__ import annotations

import ast

from srcmap.anatomy import ops
from srcmap.model import Deed, Lines
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.tree import Stmt
    from srcmap.anatomy.concepts.base import Kernel

EVENT_ROLES = {
    "QK": "scores", "PV": "output", "REDUCE-MAX": "row-max", "MAX-MERGE": "row-max", "SAVE-MAX": "save-max",
    "CHECK-INF": "check-inf", "RESCALE": "rescale-factor", "M-M": "max-difference", "S-M": "shifted-scores",
    "PROB": "probability", "ROWSUM": "row-sum", "DENOM-ADD": "denominator", "DENOM-RESCALE": "denominator",
    "ACC-RESCALE": "acc-rescale", "ACC-ADD": "output-add", "NORM": "normalise", "EMPTY-ROW": "empty-row",
    "SINKEXP": "sink-term", "SINK-ADD": "sink-add", "LSE": "log-sum-exp", "MASK-AFTER-EXP": "mask-after-exp",
    "COMBINE-MAX": "combine-max", "COMBINE-SUM": "combine-sum", "COMBINE-LSE": "combine-logsumexp",
    "COMBINE-WEIGHT": "combine-weight", "COMBINE-ACC": "combine-accumulate", "RELU": "relu", "LOGIT": "index-score",
    "TOPK": "top-k", "PROB-B": "recomputed-probability",
}  # fmt: skip
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
    found: dict[Lines, set[str]] = {}
    events: dict[int, set[str]] = {}
    for event in kernel.reading.events.values():
        role = EVENT_ROLES.get(event.kind)
        if role:
            events.setdefault(event.statement.uid, set()).add(role)
    loads = _loads(kernel)
    for statement in kernel.context.statements:
        roles = events.get(statement.uid, set()) | loads.get(statement.uid, set()) or _plain(
            kernel, statement
        )
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


def _loads(kernel: Kernel) -> dict[int, set[str]]:
    """`load-q`, `load-k`, `load-v`, `load`, `store`, `workspace-write` and `workspace-read` by statement."""
    facts, found = kernel.facts, {}  # type: ignore[var-annotated]
    for access in kernel.reading.loads.values():
        name = access.name
        role = "workspace-read" if name in facts.workspaces else "load"
        for operand, names in (
            ("q", facts.query_tensors),
            ("k", facts.key_tensors),
            ("v", facts.value_tensors),
        ):
            role = f"load-{operand}" if name in names and role == "load" else role
        found.setdefault(access.statement.uid, set()).add(role)
    for access in kernel.reading.stores.values():
        role = "workspace-write" if access.name in facts.workspaces else "store"
        found.setdefault(access.statement.uid, set()).add(role)
    return found


def _plain(kernel: Kernel, statement: Stmt) -> set[str]:
    """What the table of operations alone says."""
    if statement in kernel.context.regions:
        return {"launch"}
    if statement.kind == "loop":
        return {"key-loop"} if statement in kernel.facts.kv_loops else set()
    name = kernel.context.call_name(statement) or ""
    row = ops.TILE_OPS.get(name)
    if row is not None:
        return {KIND_ROLES[row.kind]} if row.kind in KIND_ROLES else {"compute"}
    if name in ops.FLAG_SETS | ops.FLAG_WAITS:
        return {"flag"}
    if name in ops.BARRIERS:
        return {"wait" if name in ops.BARRIER_WAITS else "barrier"}
    node = statement.node
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        made = kernel.context.name(node.value) or ""
        if made in ops.ALLOCATIONS | ops.GLOBAL_ALLOCATIONS | ops.BARRIER_ALLOCATIONS:
            return {"allocate"}
    if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        return {"scalar"} if kernel.spans._is_scalar(statement) else {"compute"}
    return set()
