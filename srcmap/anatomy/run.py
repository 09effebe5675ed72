"""The state of an interpreter that runs one kernel: what everything holds, and what was seen.

Global memory and shared tiles of one pass are read in the next, so that what one half of a kernel
hands to the other (workspaces, tiles of another warp role) arrives, and early wrong roles die out.
"""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING

from srcmap.anatomy.context import Context, index_items
from srcmap.anatomy.reading import Access, Event, Reading, RegionKey, Unread, Write
from srcmap.anatomy.roles import Value, merge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from srcmap.anatomy.tree import Stmt

ArmPath = tuple[tuple[int, str], ...]
"""The warp roles that a statement runs in, outermost first: `uid` of the test, and the arm."""

SHARED_TILES = {"alloc_shared", "alloc_tmem"}
"""Tiles that other warps see too."""

BEFORE_LAUNCH: RegionKey = (-1, 0)


class Run:
    """Where the interpreter stands in one kernel."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.reading = Reading()
        self.now: Stmt = context.top[0]
        """The statement that runs."""
        self.target: str | None = None
        """What it writes."""
        self.region: RegionKey = BEFORE_LAUNCH
        self.held: dict[str, Value] = {}
        """What tiles (by slot) and scalars hold."""
        self._arm: ArmPath = ()
        self._memory: dict[tuple[RegionKey, str], Value] = {}
        self._memory_before: dict[tuple[RegionKey, str], Value] = {}
        self._shared: dict[str, dict[ArmPath, Value]] = {}
        self._shared_before: dict[str, dict[ArmPath, Value]] = {}

    # passes, launches, warp roles

    def begin_pass(self) -> None:
        """Start at the top again; keep what the last pass left in memory."""
        self.reading = Reading()
        self.held, self.region = {}, BEFORE_LAUNCH
        self._memory_before, self._memory = self._memory, {}
        self._shared_before, self._shared = self._shared, {}

    def enter_launch(self, launch: Stmt) -> None:
        """Nothing on the chip outlives a launch."""
        self.region, self.held = (launch.uid, 0), {}

    def synchronise_grid(self) -> None:
        """What follows runs after all blocks, like another launch."""
        self.region = (self.region[0], self.region[1] + 1)

    @contextmanager
    def warp_role(self, test: Stmt, arm: str) -> Iterator[None]:
        """Run a warp role: shared tiles that other roles wrote in the last pass are visible."""
        outer = self._arm
        self._arm = (*outer, (test.uid, arm))
        for slot, by_arm in self._shared_before.items():
            others = [value for other, value in by_arm.items() if _exclusive(other, self._arm)]
            if others:
                self.held[slot] = merge(self.held.get(slot, {}), *others)
        yield
        self._arm = outer

    # tiles and scalars

    def read_tile(self, buffer: str, expr: ast.expr | None = None) -> Value:
        """What a tile holds, or its slot when the subscript names one."""
        slot = slot_of(buffer, expr)
        if slot != buffer:
            return self.held[slot] if slot in self.held else self.held.get(buffer, {})
        prefix = buffer + "#"
        parts = [
            value for name, value in self.held.items() if name == buffer or name.startswith(prefix)
        ]
        return merge(*parts)

    def write(self, target: ast.expr, value: Value) -> None:
        """Give a value to a tile, a scalar or a global tensor; whole writes forget the slots."""
        buffer = self.context.buffer(target)
        is_scalar = isinstance(target, ast.Name) and target.id in self.held
        if buffer in self.context.globals and not is_scalar:
            self._store(buffer, target, value)
        elif buffer in self.context.tiles:
            self._write_tile(buffer, slot_of(buffer, target), value)
        elif isinstance(target, ast.Name):
            self._replace(target.id, target.id, value)

    def _write_tile(self, buffer: str, slot: str, value: Value) -> None:
        self._replace(buffer, slot, value)
        self.reading.writes.append(Write(self.now, buffer, value))
        if self._arm and self.context.tiles[buffer] in SHARED_TILES:
            by_arm = self._shared.setdefault(slot, {})
            by_arm[self._arm] = merge(by_arm.get(self._arm, {}), value)

    def _replace(self, name: str, slot: str, value: Value) -> None:
        self.held[slot] = value
        if slot == name:
            for part in [part for part in self.held if part.startswith(name + "#")]:
                del self.held[part]

    def restore(self, slot: str, value: Value | None) -> None:
        """Put a tile back to what it held before; None when it held nothing."""
        if value is None:
            self.held.pop(slot, None)
        else:
            self.held[slot] = value

    # global memory

    def load(self, name: str, expr: ast.expr) -> Value:
        """Read a global tensor: what was stored in this region, in this pass or the last."""
        subscript = id(expr) if isinstance(expr, ast.Subscript) else 0
        access = Access(name, self.now, self.region, expr, {})
        self.reading.loads[self.now.uid, name, subscript] = access
        key = (self.region, name)
        written = [self._memory.get(key), self._memory_before.get(key)]
        stored = [value for value in written if value]
        return merge(*stored) if stored else {f"L:{name}": self.now.uid}

    def _store(self, name: str, target: ast.expr, value: Value) -> None:
        key = (self.region, name)
        self._memory[key] = merge(self._memory.get(key, {}), value)
        access = Access(name, self.now, self.region, target, value)
        self.reading.stores[self.now.uid, name] = access

    # events

    def unread(self, name: str, buffers: Iterable[str | None]) -> None:
        """Note a call that the table of operations does not know, and what it touches."""
        named = tuple(sorted(buffer for buffer in buffers if buffer is not None))
        self.reading.unread[self.now.uid] = Unread(name, self.now, named)

    def event(self, kind: str, because: Value) -> None:
        """Note what happens at this statement; the first maker of a role is kept."""
        key = (kind, self.now.uid, self.target)
        seen = self.reading.events.get(key)
        makers = dict(seen.because) if seen else {}
        merged = tuple(sorted({**because, **makers}.items()))
        self.reading.events[key] = Event(kind, self.now, self.region, self.target, merged)


def slot_of(buffer: str, expr: ast.AST | None) -> str:
    """A constant leading index of a tile names a slot of its own (ring buffers)."""
    items = index_items(expr) if expr is not None else []
    if items and isinstance(items[0], ast.Constant) and isinstance(items[0].value, int):
        return f"{buffer}#{items[0].value}"
    return buffer


def _exclusive(one: ArmPath, other: ArmPath) -> bool:
    """Two arms that no thread runs both of."""
    shorter = min(len(one), len(other))
    return one[:shorter] != other[:shorter]
