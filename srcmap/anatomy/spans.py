"""From statements that do something to the lines of a location: the span rule as one algorithm.

Start with the statement.  While its block holds nothing else but noise and feeders, take the
parent's header; stop at the key loop, at `with`, at an `if` that has an `else`.  Then join
neighbours of one concept across noise.  Feeders count for growing but never extend the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from srcmap.anatomy.context import Context
    from srcmap.anatomy.feeders import Feeders
    from srcmap.anatomy.tree import Stmt


class Place(NamedTuple):
    """A run of lines and the statement, in one block, that stands for it."""

    first: int
    """1-based, as is `last`, which is inclusive."""
    last: int
    anchor: Stmt
    core: tuple[Stmt, ...]
    """The statements that do the thing."""
    arm: str = ""
    """Set when only one arm of the anchor (an `if` with an `else`) is meant."""

    @property
    def lines(self) -> Lines:
        """First and last line."""
        return Lines(self.first, self.last)


class Spans:
    """Grows, joins and merges places of one kernel."""

    def __init__(
        self,
        context: Context,
        feeders: Feeders,
        lines: list[str],
        *,
        stops: set[int],
        lookups: set[int],
    ) -> None:
        self.context = context
        self.feeders = feeders
        self.lines = lines
        """Lines of the file; line n is at n - 1."""
        self.stops = stops
        """`uid` of statements whose header is never taken: the key loops."""
        self.lookups = lookups
        """`uid` of table look-ups: feeders only in an element-wise loop."""

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
            places = self._joined(places)
        while merge:  # an `elif` chain has one more pair of arms each time
            fewer = self._merged_arms(places)
            merge, places = len(fewer) < len(places), fewer
        by_lines: dict[Lines, Place] = {}
        for place in places:
            by_lines.setdefault(place.lines, place)
        return [by_lines[lines] for lines in sorted(by_lines)]

    def place(self, statement: Stmt) -> Place:
        """The lines of one statement."""
        lines = statement.lines
        return Place(lines.first, lines.last, statement, (statement,))

    def run(self, statements: list[Stmt]) -> Place:
        """One place from the first to the last of some statements."""
        ordered = sorted(statements, key=lambda statement: statement.lines.first)
        last = max(statement.lines.last for statement in ordered)
        return Place(ordered[0].lines.first, last, ordered[0], tuple(ordered))

    # growing

    def grow(self, place: Place) -> Place:
        """Take headers that hold nothing else."""
        while not place.arm:
            parent = place.anchor.parent
            if parent is None or parent.kind not in ("loop", "if") or parent.uid in self.stops:
                break
            if not self._is_alone(place.anchor, parent):
                break
            place = self._with_header(place, parent)
        return place

    def _with_header(self, place: Place, parent: Stmt) -> Place:
        if place.anchor.arm == "orelse":
            return Place(self._else_line(parent), place.last, parent, place.core, "orelse")
        has_else = "orelse" in parent.arms and parent.kind == "if"
        return Place(parent.lines.first, place.last, parent, place.core, "body" if has_else else "")

    def _else_line(self, statement: Stmt) -> int:
        """The line of the `else:` that begins the other arm."""
        body, orelse = statement.arms["body"], statement.arms["orelse"]
        low, high = body[-1].lines.last, orelse[0].lines.first
        for number in range(high, low, -1):
            if self.lines[number - 1].lstrip().startswith(("else", "elif")):
                return number
        return high

    def _is_alone(self, anchor: Stmt, parent: Stmt) -> bool:
        """Whether the block of a statement holds nothing else but noise and feeders."""
        others = [other for other in anchor.block if other is not anchor]
        if any(one.uid in self.lookups for one in others) and not self.context.is_map_loop(parent):
            return False
        return all(
            self.context.is_noise(other) or self.feeders.feeds(other, anchor) for other in others
        )

    # joining

    def _joined(self, places: list[Place]) -> list[Place]:
        """Join neighbours in one block that only noise parts."""
        joined: list[Place] = []
        for place in sorted(places, key=lambda one: one.first):
            if joined and self._adjacent(joined[-1], place):
                before = joined.pop()
                core, last = before.core + place.core, max(place.last, before.last)
                joined.append(Place(before.first, last, place.anchor, core))
            else:
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

    def _merged_arms(self, places: list[Place]) -> list[Place]:
        """Both arms of one `if` that hold the concept and nothing else are one place, the `if`."""
        groups: dict[int, list[Place]] = {}
        for place in places:
            key = place.anchor.uid if place.arm else -1 - len(groups)  # else a group of its own
            groups.setdefault(key, []).append(place)
        merged: list[Place] = []
        for group in groups.values():
            if len(group) == 2 and {place.arm for place in group} == {"body", "orelse"}:
                one, other = group
                first, last = one.anchor.lines.first, max(one.last, other.last)
                merged.append(self.grow(Place(first, last, one.anchor, one.core + other.core)))
            else:
                merged += group
        return merged

    # extending

    def previous(self, place: Place, *, across_barriers: bool = True) -> Stmt | None:
        """The statement before a place in its block, noise passed over."""
        for statement in self._start(place).siblings_before():
            if not self.context.is_noise(statement):
                return statement
            if not across_barriers and self.context.is_barrier(statement):
                return None
        return None

    def _start(self, place: Place) -> Stmt:
        """The statement that a place begins with; places that were joined are of two blocks."""
        first = min(place.core, key=lambda one: (one.lines.first, one.index))
        if first is place.anchor or first.inside(place.anchor):
            return place.anchor
        for parent in first.ancestors():
            if parent.kind not in ("loop", "if") or parent.uid in self.stops:
                break
            if parent.lines.first < place.first:
                break
            first = parent
        return first

    def extend_back(
        self, place: Place, accept: Callable[[Stmt], bool], *, across_barriers: bool = True
    ) -> Place:
        """Take in statements right before a place as long as they are accepted."""
        while not place.arm:
            before = self.previous(place, across_barriers=across_barriers)
            if before is None or not accept(before):
                break
            core = (before, *place.core)
            place = Place(before.lines.first, place.last, place.anchor, core)
        return place


def _without_nested(places: list[Place]) -> list[Place]:
    """A place that lies in another one of the same concept is that one."""
    kept: list[Place] = []
    for place in sorted(places, key=lambda one: (one.first, -one.last)):
        around = (
            at for at, k in enumerate(kept) if k.first <= place.first and place.last <= k.last
        )
        at = next(around, None)
        if at is None:
            kept.append(place)
        else:
            kept[at] = kept[at]._replace(core=kept[at].core + place.core)
    return kept
