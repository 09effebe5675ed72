"""The abstract interpreter: statements of a kernel in, a `Reading` out, by what flows where.

Values are sets of roles (`roles.Value`).  Fills, copies and full writes are strong updates; serial
loops run twice, loops whose every write is indexed by their variable once; `if` joins are unions.
Arms under a thread-index test are warp roles and run side by side.
Passes are repeated until nothing changes; events are kept from the last pass only.
No variable name, comment, line number or source text is looked at.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.effects import Effects
from srcmap.anatomy.map_loops import MapLoops
from srcmap.anatomy.reading import Access, Event, Product, Reading, RegionKey, Unread, Write
from srcmap.anatomy.roles import SCALARS, Value, merge
from srcmap.anatomy.run import Run, slot_of
from srcmap.anatomy.tree import Stmt, loop_variables
from srcmap.anatomy.values import Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from srcmap.anatomy.context import Context
    from srcmap.anatomy.deps import Dependencies

__all__ = ["Access", "Event", "Flow", "Product", "Reading", "RegionKey", "Unread", "Write"]

MIN_PASSES, MAX_PASSES = 2, 4
MAX_TURNS = 4
"""A serial loop is run until another turn changes no role, at most this often."""


class Flow:
    """Runs one kernel to a fixpoint."""

    def __init__(self, context: Context, deps: Dependencies) -> None:
        self.context = context
        self.deps = deps
        self._run = Run(context)
        self._values = Values(self._run, deps)
        self._effects = Effects(self._run, deps, self._values)
        self._loops = MapLoops(context)
        self._handlers: dict[str, Callable[[Stmt], None]] = {
            "loop": self._loop,
            "if": self._if,
            "with": self._with,
            "inline": self._body,
            "simple": self._simple,
        }

    def run(self) -> Reading:
        """The events of the last pass, when another pass would see the same."""
        before: object = None
        for count in range(1, MAX_PASSES + 1):
            self._run.begin_pass()
            self._block(self.context.top)
            seen = self._run.reading.signature()
            if count >= MIN_PASSES and seen == before:
                break
            before = seen
        return self._run.reading

    def _block(self, block: Iterable[Stmt]) -> None:
        for statement in block:
            self._run.now = statement
            self._run.target = None
            handler = self._handlers.get(statement.kind)
            if handler is not None:
                handler(statement)

    def _body(self, statement: Stmt) -> None:
        self._block(statement.arms.get("body", ()))

    def _simple(self, statement: Stmt) -> None:
        self._effects.simple(statement.node)

    # loops

    def _loop(self, loop: Stmt) -> None:
        for name in loop_variables(loop):
            self._run.held[name] = {"inv": loop.uid}
        if self._loops.runs_once(loop):
            self._body(loop)
        else:
            self._turns(loop)

    def _turns(self, loop: Stmt) -> None:
        """Run a serial loop until another turn changes no role."""
        fresh = {slot: self._run.held.get(slot) for slot in self._loops.fresh_tiles(loop)}
        seen: dict[str, frozenset[str]] | None = None
        for _ in range(MAX_TURNS):
            if seen is not None:
                for slot, value in fresh.items():
                    self._run.restore(slot, value)
            self._body(loop)
            after = {name: frozenset(value) for name, value in self._run.held.items()}
            if after == seen:
                break
            seen = after

    # launches and warp roles

    def _with(self, statement: Stmt) -> None:
        if statement in self.context.regions:
            self._run.enter_launch(statement)
            self._body(statement)
        elif self._is_role_scope(statement):
            with self._run.warp_role(statement, "body"):
                self._body(statement)
        else:
            self._body(statement)

    def _is_role_scope(self, statement: Stmt) -> bool:
        names = {self.context.name(item.context_expr) for item in statement.with_items}
        return bool(names & ops.ROLE_SCOPES)

    def _role_arms(self, statement: Stmt) -> None:
        """Run the arms of a thread-index test side by side."""
        before = dict(self._run.held)
        after: list[dict[str, Value]] = []
        for arm in ("body", "orelse"):
            self._run.held = dict(before)
            with self._run.warp_role(statement, arm):
                self._block(statement.arms.get(arm, ()))
            after.append(self._run.held)
        names = {**after[0], **after[1]}
        self._run.held = {name: merge(*(held.get(name, {}) for held in after)) for name in names}

    # branches

    def _if(self, statement: Stmt) -> None:
        test = statement.test
        self._guard_events(statement, test)
        if self.deps.rests_on(test, statement, "thread"):
            self._role_arms(statement)
            return
        before = dict(self._run.held)
        self._body(statement)
        then, self._run.held = self._run.held, before
        self._block(statement.arms.get("orelse", ()))
        reloaded = set() if "orelse" in statement.arms else self._reloaded(statement)
        for name, value in then.items():
            other = {} if name in reloaded else self._run.held.get(name, {})
            self._run.held[name] = merge(value, other)

    def _reloaded(self, statement: Stmt) -> set[str]:
        """Tiles that a one-armed `if` loads again from memory keep only what was loaded."""
        found: set[str] = set()
        for below in statement.arms.get("body", ()):
            operation = self.context.operation(below)
            if operation is not None and operation.kind == "copy":
                buffer = self.context.buffer(operation.target)
                if buffer in self.context.tiles:
                    found.add(slot_of(buffer, operation.target))
                elif isinstance(operation.target, ast.Name):
                    found.add(operation.target.id)
        return found

    def _guard_events(self, statement: Stmt, test: ast.expr | None) -> None:
        """An `if` that tests the maximum or the denominator, and sets it."""
        if test is None:
            return
        self._values.of(test)
        tested = self._values.tested(test)
        if "max" in tested and "neg" in tested and self._assigns_number(statement):
            self._run.event("CHECK-INF", {"max": tested["max"]})
        if "denom" in tested and tested.keys() & SCALARS:
            self._run.event("EMPTY-ROW", {"denom": tested["denom"]})

    def _assigns_number(self, statement: Stmt) -> bool:
        """Whether the body of an `if` sets something to a number."""
        return any(
            isinstance(below.node, ast.Assign)
            and self.deps.fold(below.node.value, below) is not None
            for below in statement.arms.get("body", ())
        )
