"""Who feeds whom: what statements read and write, and whether one only serves another.

A feeder sets what only its neighbour reads: a scalar, or a copy that computes nothing.  A span may
grow over feeders, for they are part of what the neighbour does.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.anatomy.context import Context, base_name
from srcmap.anatomy.definitions import assigned_names, scalar_value
from srcmap.anatomy.names import names_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.anatomy.tree import Stmt

STAGING = {"copy", "index_vector", "compare", "bitwise_and", "bitwise_or"}
"""Tile operations that compute nothing of their own: they can feed."""

REPLACING = {"copy", "fill", "clear"}
"""Tile operations that do not read what they write, though it stands in their argument list."""


class Feeders:
    """Reads and writes of the statements of one kernel."""

    def __init__(self, context: Context, doing: set[int]) -> None:
        self.context = context
        self.doing = doing
        """`uid` of statements that do something of their own: they are never feeders."""
        self._can_feed: dict[int, bool] = {}

    def feeds(self, other: Stmt, anchor: Stmt) -> bool:
        """Whether a statement only sets what the anchor (or another feeder of it) reads."""
        if not self.can_feed(other):
            return False
        names = self.written(other)
        if other.index > anchor.index:  # order means nothing to a scalar not read here
            return scalar_value(other) is not None and not any(
                self._read_in(name, anchor.block) for name in names
            )
        return bool(names) and all(
            self._serves(reader, other, anchor)
            for name in names
            for reader in self.readers.get(name, ())
            if reader is not other and not reader.inside(other)
        )

    def _read_in(self, name: str, block: list[Stmt]) -> bool:
        readers = self.readers.get(name, ())
        return any(reader.ancestor_in(block) is not None for reader in readers)

    def _serves(self, reader: Stmt, other: Stmt, anchor: Stmt) -> bool:
        """Whether a reader of what `other` sets is no stranger to the anchor."""
        if reader is anchor or reader.inside(anchor):
            return True
        top = reader.ancestor_in(anchor.block)
        if top is None:
            return True  # in another block
        return top is not other and other.index < top.index < anchor.index and self.can_feed(top)

    def can_feed(self, statement: Stmt) -> bool:
        """Whether a statement, or a loop around one, only sets a scalar or stages a copy."""
        if statement.uid not in self._can_feed:
            self._can_feed[statement.uid] = self._judge(statement)
        return self._can_feed[statement.uid]

    def _judge(self, statement: Stmt) -> bool:
        if any(below.uid in self.doing for below in statement.walk()):
            return False
        if statement.kind == "loop":
            body = [below for below in statement.arms["body"] if not self.context.is_noise(below)]
            return len(body) == 1 and body[0].kind == "simple" and self.is_staging(body[0])
        if statement.kind != "simple":
            return False
        return scalar_value(statement) is not None or self.is_staging(statement)

    def is_staging(self, statement: Stmt) -> bool:
        """Whether a statement is a copy or element-wise load that computes nothing."""
        match statement.node:
            case ast.Assign(targets=[target, *_], value=value):
                return isinstance(value, (ast.Subscript, ast.Name)) and isinstance(
                    target, ast.Subscript
                )
        operation = self.context.operation(statement)
        return operation is not None and operation.kind in STAGING

    # reads and writes

    def written(self, statement: Stmt) -> set[str]:
        """Names and buffers that a statement (or what is in it) sets."""
        return {name for below in statement.walk() for name in self._written_here(below)}

    def _written_here(self, statement: Stmt) -> set[str]:
        node = statement.node
        targets: list[ast.expr | None] = []
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AugAssign):
            targets.append(node.target)
        operation = self.context.operation(statement)
        if operation is not None:
            targets.append(operation.target)
        bases = {base for target in targets if (base := base_name(target)) is not None}
        return bases | {name for name, _, _ in assigned_names(node)}

    @cached_property
    def readers(self) -> dict[str, list[Stmt]]:
        """Name to the statements that read it."""
        table: dict[str, list[Stmt]] = {}
        for statement in self.context.statements:
            for name in self._read_here(statement):
                table.setdefault(name, []).append(statement)
        return table

    def _read_here(self, statement: Stmt) -> set[str]:
        names = {
            node.id
            for part in _read_parts(statement)
            for node in ast.walk(part)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        operation = self.context.operation(statement)
        if operation is not None and operation.kind in REPLACING:
            target = base_name(operation.target)
            if not any(target in names_in(source) for source in operation.sources):
                names.discard(target or "")
        return names


def _read_parts(statement: Stmt) -> Iterable[ast.AST]:
    """The parts of a statement itself that can read; blocks below speak for themselves."""
    match statement.node:
        case _ if statement.kind == "inline":
            return []
        case ast.For(iter=part) | ast.If(test=part) | ast.While(test=part):
            return [part]
        case ast.With(items=items):
            return [item.context_expr for item in items]
        case ast.Assign(targets=targets, value=value):
            return [value, *(one.slice for one in targets if isinstance(one, ast.Subscript))]
    return [statement.node]
