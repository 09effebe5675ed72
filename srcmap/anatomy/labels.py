"""Labels that tell several places of one concept apart, from what the code does and not from names.

Kernel role (split, combine), Ascend scope, warp role, branch, operand; an ordinal comes last.
"""

from __future__ import annotations

import ast
from functools import cached_property

from srcmap.anatomy.concepts.ascend import scope_kind
from srcmap.anatomy.concepts.masking import Masks, concepts_of
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.tree import Stmt
    from srcmap.anatomy.concepts.base import Found, Kernel

WHOLE = {"cube-scope", "vector-scope", "combine", "kernel-grid"}
"""Concepts that are as large as what a label would name."""


class Labeller:
    """Labels the findings of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def label(self, found: list[Found]) -> list[str]:
        """One label per finding, in order."""
        parts = [self._parts(one) for one in found]
        labels = [" ".join(part) for part in parts]
        return _numbered([one.concept for one in found], labels, found)

    def _parts(self, one: Found) -> list[str]:
        statement = one.place.anchor if one.place is not None else None
        parts = []
        if statement is not None:
            parts += self._kernel(statement, one.concept)
            if one.concept not in WHOLE:
                parts += [*self._scope(statement), *self._role(statement), *self._branch(one)]
        if one.operand:
            parts.append(
                f"operand={one.operand}"
                if not one.concept.startswith("cross-flag")
                else f"flag={one.operand}"
            )
        return parts

    def _kernel(self, statement: Stmt, concept: str) -> list[str]:
        if len(self.kernel.context.regions) < 2 or concept.startswith("combine"):
            return []
        region = self.kernel.context.region_of(statement)
        return (
            [f"kernel={self._roles[region.uid]}"]
            if region is not None and region.uid in self._roles
            else []
        )

    @cached_property
    def _roles(self) -> dict[int, str]:
        """What each launch is for."""
        roles: dict[int, str] = {}
        combining = {event.region[0] for event in self.kernel.facts.events("COMBINE-ACC")}
        attending = {event.region[0] for event in self.kernel.facts.events("PROB")}
        for number, region in enumerate(self.kernel.context.regions, 1):
            if region.uid in attending:
                roles[region.uid] = "split" if combining - {region.uid} else "main"
            else:
                roles[region.uid] = "combine" if region.uid in combining else f"launch{number}"
        return roles

    def _scope(self, statement: Stmt) -> list[str]:
        for parent in (statement, *statement.ancestors()):
            kind = scope_kind(self.kernel, parent)
            if kind is not None:
                return [f"scope={kind}"]
        return []

    def _role(self, statement: Stmt) -> list[str]:
        """The warp role: the products, the softmax or the loads run in it."""
        arm = self._role_arm(statement)
        if arm is None:
            return []
        parent, side = arm
        inside = {below.uid for below in parent.arms.get(side, ()) for below in below.walk()}
        events = {e.kind for e in self.kernel.reading.events.values() if e.statement.uid in inside}
        if "PROB" in events:
            return ["role=softmax"] if "QK" not in events else ["role=consumer"]
        if events & {"QK", "PV"}:
            return ["role=products"]
        return ["role=producer"]

    def _role_arm(self, statement: Stmt) -> tuple[Stmt, str] | None:
        child = statement
        for parent in statement.ancestors():
            if isinstance(parent.node, ast.If):
                atoms = self.kernel.deps.atoms(parent.node.test, parent, lookups=False)
                if any(atom.origin == "thread" for atom in atoms):
                    return parent, child.arm
            child = parent
        return None

    def _branch(self, one: Found) -> list[str]:
        assert one.place is not None
        place, parts = one.place, []
        child, arm = place.anchor, place.arm
        chain = [(place.anchor, arm)] if arm else []
        for parent in child.ancestors():
            if parent.kind == "if":
                chain.append((parent, child.arm))
            child = parent
        for statement, side in chain:
            name = self._branch_name(statement)
            if name:
                parts.append(f"{'' if side == 'body' else 'not-'}{name}")
        return [f"branch={'+'.join(reversed(parts))}"] if parts else []

    def _branch_name(self, statement: Stmt) -> str | None:
        """What a builder-time branch is about, when a mask tells: `causal` or `window`."""
        if not self._is_builder_test(statement):
            return None
        kinds = {
            concept
            for write in self._masks
            if write.statement.inside(statement)
            for concept in [write]
        }
        body = {
            c
            for w in kinds
            if self._in_arm(w.statement, statement, "body")
            for c in concepts_of(w.kinds)
        }
        orelse = {
            c
            for w in kinds
            if self._in_arm(w.statement, statement, "orelse")
            for c in concepts_of(w.kinds)
        }
        causal = {
            "causal" in w.kinds for w in kinds if self._in_arm(w.statement, statement, "body")
        }
        plain = {
            "causal" in w.kinds for w in kinds if self._in_arm(w.statement, statement, "orelse")
        }
        if "window-mask" in body and "window-mask" not in orelse:
            return "window"
        return "causal" if True in causal and True not in plain else None

    def _in_arm(self, statement: Stmt, parent: Stmt, arm: str) -> bool:
        child = statement
        for above in statement.ancestors():
            if above is parent:
                return child.arm == arm
            child = above
        return False

    @cached_property
    def _masks(self) -> list:  # type: ignore[type-arg]
        return Masks(self.kernel).writes

    def _is_builder_test(self, statement: Stmt) -> bool:
        assert isinstance(statement.node, ast.If)
        atoms = self.kernel.deps.atoms(statement.node.test, statement, lookups=True)
        return bool(atoms) and all(
            atom.origin in ("parameter", "scalar", "unknown") for atom in atoms
        )


def _numbered(concepts: list[str], labels: list[str], found: list[Found]) -> list[str]:
    """Add an ordinal where concept and label repeat, in the order of lines."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, key in enumerate(zip(concepts, labels, strict=True)):
        groups.setdefault(key, []).append(index)
    result = list(labels)
    for (_, label), members in groups.items():
        if len(members) > 1:
            for number, index in enumerate(sorted(members, key=lambda i: found[i].lines), 1):
                result[index] = f"{label} n={number}".strip()
    return result
