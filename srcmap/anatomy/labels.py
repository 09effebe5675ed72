"""Labels that tell several places of one concept apart, from what the code does and not from names.

Kernel role (split, combine), Ascend scope, warp role, branch, operand; an ordinal comes last.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.anatomy.concepts.ascend import scope_kind
from srcmap.anatomy.masks import concepts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.masks import MaskWrite
    from srcmap.anatomy.spans import Place
    from srcmap.anatomy.tree import Stmt

WHOLE = {"cube-scope", "vector-scope", "combine", "kernel-grid"}
"""Concepts that are as large as what a label would name."""

BUILDER_ORIGINS = ("parameter", "scalar", "unknown")
"""What a test rests on that is decided when the kernel is built."""


class Labeller:
    """Labels the findings of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def label(self, found: list[Found]) -> list[str]:
        """One label per finding, in order."""
        return _numbered(found, [" ".join(self._parts(one)) for one in found])

    def _parts(self, one: Found) -> Iterator[str]:
        if one.place is not None:
            statement = one.place.anchor
            yield from self._kernel(statement, one.concept)
            if one.concept not in WHOLE:
                yield from self._scope(statement)
                yield from self._warp_role(statement)
                yield from self._branch(one.place)
        if one.operand:
            key = "flag" if one.concept.startswith("cross-flag") else "operand"
            yield f"{key}={one.operand}"

    # launches and scopes

    def _kernel(self, statement: Stmt, concept: str) -> Iterator[str]:
        if len(self.kernel.context.regions) > 1 and not concept.startswith("combine"):
            region = self.kernel.context.region_of(statement)
            if region is not None and region.uid in self._launch_roles:
                yield f"kernel={self._launch_roles[region.uid]}"

    @cached_property
    def _launch_roles(self) -> dict[int, str]:
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

    def _scope(self, statement: Stmt) -> Iterator[str]:
        around = (scope_kind(self.kernel, one) for one in (statement, *statement.ancestors()))
        kind = next((kind for kind in around if kind is not None), None)
        if kind is not None:
            yield f"scope={kind}"

    # warp roles

    def _warp_role(self, statement: Stmt) -> Iterator[str]:
        """What the warps do that run a statement: the products, the softmax or the loads."""
        for parent, arm in _arms_around(statement):
            if self.kernel.deps.rests_on(parent.test, parent, "thread"):
                role = self._role_of(parent, arm)
                if role:
                    yield f"role={role}"
                return

    def _role_of(self, parent: Stmt, arm: str) -> str:
        inside = {below.uid for below in parent.walk_arm(arm)}
        events = self.kernel.reading.events.values()
        kinds = {event.kind for event in events if event.statement.uid in inside}
        if "PROB" in kinds:
            return "consumer" if "QK" in kinds else "softmax"
        if kinds & {"QK", "PV"}:
            return "products"
        loaded = {
            one.name for one in self.kernel.reading.loads.values() if one.statement.uid in inside
        }
        facts = self.kernel.facts
        return "producer" if loaded & (facts.key_tensors | facts.value_tensors) else ""

    # branches

    def _branch(self, place: Place) -> Iterator[str]:
        arms = list(_arms_around(place.anchor))
        if place.arm:
            arms.insert(0, (place.anchor, place.arm))
        parts = [
            name if arm == "body" else f"not-{name}"
            for statement, arm in arms
            if (name := self._branch_name(statement)) is not None
        ]
        if parts:
            yield f"branch={'+'.join(reversed(parts))}"

    def _branch_name(self, statement: Stmt) -> str | None:
        """What a builder-time branch is about: `causal` or `window`."""
        return None if statement.test is None else self._tests.get(ast.dump(statement.test))

    @cached_property
    def _tests(self) -> dict[str, str]:
        """Tests that a mask gives a name to; the same test names what stands far from the mask."""
        branches = (one for one in self.kernel.context.statements if one.kind == "if")
        named = ((one, self._told_by_masks(one)) for one in branches)
        return {ast.dump(one.test): name for one, name in named if one.test and name}

    def _told_by_masks(self, statement: Stmt) -> str | None:
        if not self._is_builder_test(statement):
            return None
        then, other = (self._masks_in(statement, arm) for arm in ("body", "orelse"))
        if _has_window(then) and not _has_window(other):
            return "window"
        return "causal" if _is_causal(then) and not _is_causal(other) else None

    def _masks_in(self, statement: Stmt, arm: str) -> list[MaskWrite]:
        inside = set(statement.walk_arm(arm))
        return [write for write in self.kernel.masks.writes if write.statement in inside]

    def _is_builder_test(self, statement: Stmt) -> bool:
        atoms = self.kernel.deps.atoms(statement.test, statement, lookups=True)
        return bool(atoms) and all(atom.origin in BUILDER_ORIGINS for atom in atoms)


def _arms_around(statement: Stmt) -> Iterator[tuple[Stmt, str]]:
    """Every `if` around a statement with the arm that holds it, innermost first."""
    child = statement
    for parent in statement.ancestors():
        if parent.kind == "if":
            yield parent, child.arm
        child = parent


def _has_window(writes: list[MaskWrite]) -> bool:
    return any("window-mask" in concepts_of(write.kinds) for write in writes)


def _is_causal(writes: list[MaskWrite]) -> bool:
    return any("causal" in write.kinds for write in writes)


def _numbered(found: list[Found], labels: list[str]) -> list[str]:
    """Add an ordinal where concept and label repeat, in the order of lines."""
    groups: dict[tuple[str, str], list[int]] = {}
    for index, (one, label) in enumerate(zip(found, labels, strict=True)):
        groups.setdefault((one.concept, label), []).append(index)
    result = list(labels)
    for (_, label), members in groups.items():
        if len(members) > 1:
            for number, index in enumerate(sorted(members, key=lambda i: found[i].lines), 1):
                result[index] = f"{label} n={number}".strip()
    return result
