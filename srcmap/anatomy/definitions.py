"""Reaching definitions: a name and the statement that uses it in, its possible definitions out.

Two scopes may define one name, so the nearest enclosing block is asked first; what the builder and
the module define comes last.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, NamedTuple

from srcmap.anatomy import ops
from srcmap.anatomy.names import all_arguments
from srcmap.anatomy.tree import Stmt, loop_variables, target_names
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.context import Context

Origin = Literal[
    "scalar", "loop", "grid", "parameter", "kernel-parameter", "lookup", "tile", "thread", "unknown"
]

Assigned = tuple[str, ast.expr, int | None]
"""Name, value, and position in the value when it is unpacked from a tuple."""


class Atom(NamedTuple):
    """One thing that an expression rests on; a definition, not a spelling."""

    origin: Origin
    name: str
    at: int
    """`uid` of the defining statement; minus the line for what the builder or module defines."""


class Definition(NamedTuple):
    """Where a name gets its value."""

    atom: Atom
    value: ast.expr | None
    statement: Stmt | None
    """None outside the kernel."""
    line: int
    """1-based."""
    node: ast.stmt | None = None
    """None for a parameter."""
    unpacked: int | None = None
    """Position in a tuple that is unpacked from one value."""

    @property
    def lines(self) -> Lines:
        """The lines that it is written on."""
        last = self.node.end_lineno if self.node is not None else None
        return Lines(self.line, last or self.line)

    @property
    def whole_value(self) -> ast.expr | None:
        """The value, unless the name gets only a part of it."""
        return self.value if self.unpacked is None else None


class ReachingDefinitions:
    """All definitions that one kernel can see."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.inside = self._inside()
        """Name to its definitions in the kernel, in reading order."""
        self.outside = self._outside()
        """Name to its definitions around the kernel, innermost scope only."""
        self._reaching: dict[tuple[str, int], tuple[Definition, ...]] = {}

    def of(self, name: str, at: Stmt) -> tuple[Definition, ...]:
        """Definitions that can reach a use: the nearest enclosing block's first, then outside."""
        key = (name, at.uid)
        if key not in self._reaching:
            found = self._in_kernel(name, at) if name in self.inside else []
            self._reaching[key] = tuple(found or self.outside.get(name, ()))
        return self._reaching[key]

    def _in_kernel(self, name: str, at: Stmt) -> list[Definition]:
        """Walk backwards and outwards until something certainly defines the name."""
        by_statement: dict[int, list[Definition]] = {}
        for definition in self.inside[name]:
            by_statement.setdefault(definition.atom.at, []).append(definition)
        found: list[Definition] = []
        place: Stmt | None = at
        while place is not None:
            for before in place.siblings_before():
                passed = [
                    definition
                    for below in before.walk()
                    for definition in by_statement.get(below.uid, ())
                    if definition.atom.origin not in ("loop", "grid")  # gone with their block
                ]
                found += passed
                if passed and _always_defines(before):
                    return found
            place = place.parent
            if place is not None and place.kind in ("loop", "with") and place.uid in by_statement:
                return found + by_statement[place.uid]
            if place is not None and place.kind == "loop":
                found += self._carried_round(name, place, at, found)
        return found

    def _carried_round(
        self, name: str, loop: Stmt, at: Stmt, found: list[Definition]
    ) -> list[Definition]:
        """Definitions further down in a loop: they reach the use in the next turn."""
        return [
            one
            for one in self.inside[name]
            if one.statement is not None
            and one.statement.uid >= at.uid
            and one.statement.inside(loop)
            and one not in found
        ]

    def _inside(self) -> dict[str, list[Definition]]:
        table: dict[str, list[Definition]] = {}
        for statement in self.context.statements:
            for definition in self._made_by(statement):
                table.setdefault(definition.atom.name, []).append(definition)
        return table

    def _made_by(self, statement: Stmt) -> Iterator[Definition]:
        node, line = statement.node, statement.node.lineno
        if isinstance(node, ast.For):
            for name in loop_variables(statement):
                yield Definition(Atom("loop", name, statement.uid), None, statement, line, node)
        elif isinstance(node, ast.With):
            for item in node.items:
                for name in target_names(item.optional_vars):
                    yield Definition(Atom("grid", name, statement.uid), None, statement, line, node)
        else:
            for name, value, unpacked in assigned_names(node):
                atom = Atom(self._origin(value), name, statement.uid)
                yield Definition(atom, value, statement, line, node, unpacked)

    def _origin(self, value: ast.expr) -> Origin:
        called = self.context.name(value) if isinstance(value, ast.Call) else None
        return "thread" if called in ops.THREADS else "scalar"

    def _outside(self) -> dict[str, tuple[Definition, ...]]:
        table: dict[str, tuple[Definition, ...]] = {}
        for scope in self.context.root.scopes[:-1]:
            found: dict[str, list[Definition]] = {}
            if isinstance(scope, ast.FunctionDef):
                for definition in _arguments(scope, "parameter"):
                    found[definition.atom.name] = [definition]
            for node in _plain_statements(scope.body):
                for name, value, unpacked in assigned_names(node):
                    atom = Atom("scalar", name, -node.lineno)
                    definition = Definition(atom, value, None, node.lineno, node, unpacked)
                    found.setdefault(name, []).append(definition)
            table.update({name: tuple(definitions) for name, definitions in found.items()})
        for definition in _arguments(self.context.root.function, "kernel-parameter"):
            table[definition.atom.name] = (definition,)
        return table


def assigned_names(node: ast.stmt) -> Iterator[Assigned]:
    """Every plain name that a statement assigns, with its value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _pairs(target, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield name, value, None
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            yield name, value, None


def scalar_value(statement: Stmt) -> ast.expr | None:
    """What a statement assigns to plain names; None when it assigns none, or adds to one."""
    node = statement.node
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return None
    return node.value if any(True for _ in assigned_names(node)) else None


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[Assigned]:
    if isinstance(target, ast.Name):
        yield target.id, value, None
    elif isinstance(target, (ast.Tuple, ast.List)):
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            for one, its in zip(target.elts, value.elts, strict=True):
                yield from _pairs(one, its)
        else:
            for index, one in enumerate(target.elts):
                if isinstance(one, ast.Name):
                    yield one.id, value, index


def _arguments(function: ast.FunctionDef, origin: Origin) -> Iterator[Definition]:
    for argument in all_arguments(function):
        atom = Atom(origin, argument.arg, -argument.lineno)
        yield Definition(atom, None, None, argument.lineno)


def _always_defines(statement: Stmt) -> bool:
    """Whether passing this statement always defines what it can define."""
    return statement.kind in ("simple", "inline", "with") or (
        statement.kind == "if" and "orelse" in statement.arms
    )


def _plain_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    pending = list(reversed(body))
    while pending:  # a stack of our own: files can nest deeply
        node = pending.pop()
        if isinstance(node, (ast.If, ast.With, ast.Try, ast.For, ast.While)):
            pending += reversed([*node.body, *getattr(node, "orelse", ())])
        elif not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node
