"""From statements that do something to the lines of a location: the span rule as one algorithm.

Start with the statement.  While its block holds nothing else but noise and feeders, take the
parent's header; stop at the key loop, at `with`, at an `if` that has an `else`.  Then join
neighbours of one concept across noise.  Feeders count for growing but never extend the end.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from srcmap.anatomy import ops
from srcmap.anatomy.context import Context, base_name
from srcmap.anatomy.deps import assigned_names
from srcmap.anatomy.tree import Stmt, loop_kind
from srcmap.model import Lines


class Place(NamedTuple):
    """A run of lines and the statement, in one block, that stands for it."""

    first: int
    last: int
    anchor: Stmt
    core: tuple[Stmt, ...]
    """The statements that do the thing."""
    arm: str = ""
    """Set when only one arm of the anchor (an `if` with an `else`) is meant."""

    @property
    def lines(self) -> Lines:
        """First and last line, 1-based."""
        return Lines(self.first, self.last)


STAGING = {"copy", "index_vector", "compare", "bitwise_and", "bitwise_or"}
"""Tile operations that compute nothing of their own: they can feed."""

Backwards = Callable[[Stmt, Place], bool]


class Spans:
    """Grows, joins and merges places of one kernel."""

    def __init__(
        self,
        context: Context,
        lines: list[str],
        stops: set[int],
        doing: set[int],
        lookups: set[int],
    ) -> None:
        self.context = context
        self.doing = doing
        """`uid` of statements that do something of their own: they are never feeders."""
        self.lookups = lookups
        """`uid` of table look-ups: feeders only in an element-wise loop."""
        self.lines = lines
        self.stops = stops
        """`uid` of statements whose header is never taken: the key loops."""

    def places(
        self,
        statements: Iterable[Stmt],
        *,
        grow: bool = True,
        join: bool = True,
        merge: bool = True,
    ) -> list[Place]:
        """Places of one concept, in order: grown, joined, one for two inlinings."""
        unique: dict[tuple[int, int, str], Stmt] = {}
        for statement in statements:
            unique.setdefault(statement.place, statement)
        places = [self.place(one) for one in unique.values()]
        if grow:
            places = [self.grow(place) for place in places]
        places = _without_nested(places)
        if join:
            places = self.join(places)
        if merge:
            places = self.merge_arms(places)
        return sorted(_distinct(places), key=lambda place: (place.first, place.last))

    def place(self, statement: Stmt) -> Place:
        """The lines of one statement."""
        return Place(*_own_lines(statement), statement, (statement,))

    def run(self, statements: list[Stmt]) -> Place:
        """One place from the first to the last of some statements."""
        ordered = sorted(statements, key=lambda statement: statement.lines.first)
        last = max(statement.lines.last for statement in ordered)
        return Place(ordered[0].lines.first, last, ordered[0], tuple(ordered))

    def grow(self, place: Place) -> Place:
        """Take headers that hold nothing else."""
        while True:
            parent = place.anchor.parent
            if parent is None or parent.kind not in ("loop", "if") or parent.uid in self.stops:
                return place
            if not self._alone(place):
                return place
            place = self._with_header(place, parent)
            if place.arm:
                return place

    def _with_header(self, place: Place, parent: Stmt) -> Place:
        has_else = "orelse" in parent.arms and parent.kind == "if"
        if place.anchor.arm == "orelse":
            return Place(self.else_line(parent), place.last, parent, place.core, "orelse")
        return Place(parent.lines.first, place.last, parent, place.core, "body" if has_else else "")

    def else_line(self, statement: Stmt) -> int:
        """The line of the `else:` that begins the other arm."""
        body, orelse = statement.arms["body"], statement.arms["orelse"]
        low, high = body[-1].lines.last, orelse[0].lines.first
        for number in range(high, low, -1):
            if self.lines[number - 1].lstrip().startswith(("else", "elif")):
                return number
        return high

    def _alone(self, place: Place) -> bool:
        block = place.anchor.block
        core = set(place.core)
        parent = place.anchor.parent
        if parent is None or loop_kind(parent, self.context.root.aliases) not in ops.MAP_LOOPS:
            if any(other.uid in self.lookups and other is not place.anchor for other in block):
                return False
        return all(
            other is place.anchor
            or self.context.is_noise(other)
            or self.feeds(other, place.anchor, core)
            for other in block
        )

    def feeds(self, other: Stmt, anchor: Stmt, core: set[Stmt]) -> bool:
        """Whether a statement only sets what the core (or another feeder of it) reads."""
        if other.index > anchor.index or not self._can_feed(other):
            return False
        names = self.written(other)
        return bool(names) and all(
            reader.inside(anchor)
            or reader is anchor
            or (reader is not other and self._feeds_on(reader, other, anchor))
            for name in names
            for reader in self._readers_in(name, anchor.block)
            if reader is not other and not reader.inside(other)
        )

    def _feeds_on(self, reader: Stmt, other: Stmt, anchor: Stmt) -> bool:
        top = self._top_in(reader, anchor.block)
        return (
            top is not None
            and top is not other
            and other.index < top.index < anchor.index
            and self._can_feed(top)
        )

    def _top_in(self, statement: Stmt, block: list[Stmt]) -> Stmt | None:
        if statement in block:
            return statement
        return next((parent for parent in statement.ancestors() if parent in block), None)

    def _can_feed(self, statement: Stmt) -> bool:
        if any(below.uid in self.doing for below in statement.walk()):
            return False
        if statement.kind == "loop":
            body = [below for below in statement.arms["body"] if not self.context.is_noise(below)]
            return len(body) == 1 and body[0].kind == "simple" and self._is_staging(body[0])
        return statement.kind == "simple" and (
            self._is_scalar(statement) or self._is_staging(statement)
        )

    def _is_scalar(self, statement: Stmt) -> bool:
        names = list(assigned_names(statement.node))
        return bool(names) and isinstance(statement.node, (ast.Assign, ast.AnnAssign))

    def _is_staging(self, statement: Stmt) -> bool:
        """A copy or element-wise load that computes nothing."""
        node = statement.node
        if isinstance(node, ast.Assign):
            return isinstance(node.value, (ast.Subscript, ast.Name)) and isinstance(
                node.targets[0], ast.Subscript
            )
        name = self.context.call_name(statement)
        row = ops.TILE_OPS.get(name or "")
        return row is not None and row.kind in STAGING

    def written(self, statement: Stmt) -> set[str]:
        """Names and buffers that a statement (or what is in it) sets."""
        names: set[str] = set()
        for below in statement.walk():
            names |= self._written_here(below)
        return names

    def _written_here(self, statement: Stmt) -> set[str]:
        node = statement.node
        names = {name for name, _, _ in assigned_names(node)}
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {base for target in targets if (base := base_name(target)) is not None}
        call = statement.call
        row = ops.TILE_OPS.get(self.context.name(call) or "") if call is not None else None
        if call is not None and row is not None and row.dst is not None:
            base = base_name(ops.argument(call, row.dst, row.names))
            names |= {base} if base else set()
        return names

    @cached_property
    def readers(self) -> dict[str, list[Stmt]]:
        """Name to the statements that read it."""
        table: dict[str, list[Stmt]] = {}
        for statement in self.context.statements:
            for name in self._read_here(statement):
                table.setdefault(name, []).append(statement)
        return table

    def _read_here(self, statement: Stmt) -> set[str]:
        node = statement.node
        if statement.kind == "inline":
            return set()
        parts: list[ast.AST] = [node]
        if isinstance(node, ast.For):
            parts = [node.iter]
        elif isinstance(node, (ast.If, ast.While)):
            parts = [node.test]
        elif isinstance(node, ast.With):
            parts = [item.context_expr for item in node.items]
        elif isinstance(node, ast.Assign):
            parts = [node.value, *_indices(node.targets)]
        names = {
            n.id
            for part in parts
            for n in ast.walk(part)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
        }
        call = statement.call
        row = ops.TILE_OPS.get(self.context.name(call) or "") if call is not None else None
        if (
            call is not None
            and row is not None
            and row.dst is not None
            and row.kind in ("copy", "fill", "clear")
        ):
            names -= {base_name(ops.argument(call, row.dst, row.names)) or ""} - self._in_sources(
                call, row
            )
        return names

    def _in_sources(self, call: ast.Call, row: ops.Row) -> set[str]:
        sources = [ops.argument(call, operand, row.names) for operand in row.src]
        return {
            n.id
            for source in sources
            if source
            for n in ast.walk(source)
            if isinstance(n, ast.Name)
        }

    def _readers_in(self, name: str, block: list[Stmt]) -> list[Stmt]:
        return [
            reader
            for reader in self.readers.get(name, ())
            if self._top_in(reader, block) is not None
        ]

    def join(self, places: list[Place]) -> list[Place]:
        """Join neighbours in one block that only noise parts."""
        joined: list[Place] = []
        for place in sorted(places, key=lambda one: one.first):
            if joined and self._adjacent(joined[-1], place):
                before = joined.pop()
                core = before.core + place.core
                place = Place(before.first, max(place.last, before.last), place.anchor, core)
            joined.append(place)
        return joined

    def _adjacent(self, one: Place, other: Place) -> bool:
        if one.arm or other.arm:
            return False
        return any(
            low.block is high.block
            and (low is one.anchor or high is other.anchor)
            and low.index < high.index
            and all(self.context.is_noise(part) for part in low.block[low.index + 1 : high.index])
            for low in self._lifted(one.anchor, -1)
            for high in self._lifted(other.anchor, 0)
        )

    def _lifted(self, statement: Stmt, end: int) -> list[Stmt]:
        """A statement, and the blocks around it that it ends (-1) or begins (0)."""
        found = [statement]
        for parent in statement.ancestors():
            body = [below for below in found[-1].block if not self.context.is_noise(below)]
            one_arm = (
                parent.kind in ("loop", "if")
                and "orelse" not in parent.arms
                and parent.uid not in self.stops
            )
            if not one_arm or body[end] is not found[-1]:
                break
            found.append(parent)
        return found

    def merge_arms(self, places: list[Place]) -> list[Place]:
        """Both arms of one `if` that hold the concept and nothing else are one place, the `if`."""
        by_anchor: dict[int, list[Place]] = {}
        for place in places:
            by_anchor.setdefault(place.anchor.uid if place.arm else -1 - len(by_anchor), []).append(
                place
            )
        merged: list[Place] = []
        for group in by_anchor.values():
            if len(group) == 2 and {place.arm for place in group} == {"body", "orelse"}:
                core = group[0].core + group[1].core
                last = max(place.last for place in group)
                merged.append(
                    self.grow(Place(group[0].anchor.lines.first, last, group[0].anchor, core))
                )
            else:
                merged += group
        return merged

    def previous(self, place: Place, *, across_barriers: bool = True) -> Stmt | None:
        """The statement before a place in its block, noise passed over."""
        first = min(
            (c for c in place.core if c.block is place.anchor.block),
            default=place.anchor,
            key=lambda c: c.index,
        )
        start = first if first.block is place.anchor.block else place.anchor
        for statement in start.siblings_before():
            if not self.context.is_noise(statement):
                return statement
            if not across_barriers and self.context.is_barrier(statement):
                return None
        return None

    def extend_back(
        self, place: Place, accept: Callable[[Stmt], bool], *, across_barriers: bool = True
    ) -> Place:
        """Take in statements right before a place as long as they are accepted."""
        while True:
            before = self.previous(place, across_barriers=across_barriers)
            if before is None or place.arm or not accept(before):
                return place
            core = (before, *place.core)
            place = Place(before.lines.first, place.last, place.anchor, core)


def _own_lines(statement: Stmt) -> tuple[int, int]:
    lines = statement.lines
    return lines.first, lines.last


def _indices(targets: list[ast.expr]) -> list[ast.AST]:
    return [target.slice for target in targets if isinstance(target, ast.Subscript)]


def _without_nested(places: list[Place]) -> list[Place]:
    """A place that lies in another one of the same concept is that one."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda one: (one.first, -one.last)):
        inside = next((k for k in kept if k.first <= place.first and place.last <= k.last), None)
        if inside is None:
            kept.append(place)
        else:
            kept[kept.index(inside)] = inside._replace(core=inside.core + place.core)
    return kept


def _distinct(places: list[Place]) -> list[Place]:
    seen: dict[tuple[int, int], Place] = {}
    for place in places:
        seen.setdefault((place.first, place.last), place)
    return list(seen.values())
