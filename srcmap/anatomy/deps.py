"""What a scalar rests on: two dependency functions over reaching definitions.

One dependency function follows table look-ups, the other stops at them; addressing needs both.
An atom is a definition, not a spelling: the `i` of two loops are two atoms.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

from srcmap.anatomy.context import Context, base_name, index_items
from srcmap.anatomy.definitions import (
    Atom,
    Definition,
    Origin,
    ReachingDefinitions,
    assigned_names,
)
from srcmap.anatomy.folding import Fold, Folder
from srcmap.anatomy.names import names_in
from srcmap.anatomy.tree import loop_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.tree import Stmt

__all__ = ["Atom", "Definition", "Dependencies", "Fold", "Origin", "assigned_names"]

MAX_EXPANSION = 6
"""How many definitions deep an expression is written out."""

COPYING = {"copy", "topk", "alias", "index_vector"}
"""Tile operations whose target holds what their sources hold."""


class Dependencies:
    """Answers where scalars of one kernel come from."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._reaching = ReachingDefinitions(context)
        self._folder = Folder(context, self._reaching)
        self._writers = self._tile_writers()
        self._memo: dict[tuple[int, int, bool], frozenset[Atom]] = {}
        self._kept: list[ast.AST] = []

    # definitions

    def definitions(self, name: str, at: Stmt) -> tuple[Definition, ...]:
        """Definitions that can reach a use: the nearest enclosing block's first, then outside."""
        return self._reaching.of(name, at)

    def outer(self, name: str) -> tuple[Definition, ...]:
        """Definitions outside the kernel, innermost scope only."""
        return self._reaching.outside.get(name, ())

    def all_of(self, name: str) -> list[Definition]:
        """Every definition of a name inside the kernel."""
        return self._reaching.inside.get(name, [])

    def sources(self, buffer: str) -> list[tuple[Stmt, ast.expr]]:
        """Statements that copy into a tile, with what they copy."""
        return self._writers.get(buffer, [])

    def fold(self, expr: ast.AST | None, at: Stmt) -> Fold:
        """The number that an expression always is, named constants followed; else None."""
        return self._folder.fold(expr, at)

    def expand(self, expr: ast.expr, at: Stmt, depth: int = MAX_EXPANSION) -> ast.expr:
        """A copy of the expression with scalars of one definition replaced by their values."""
        expanded: ast.expr = _Expander(self, at, depth).visit(copy.deepcopy(expr))
        return expanded

    def _tile_writers(self) -> dict[str, list[tuple[Stmt, ast.expr]]]:
        """Tile to the statements and sources that load it from somewhere."""
        table: dict[str, list[tuple[Stmt, ast.expr]]] = {}
        for statement in self.context.statements:
            for target, source in written_pairs(self.context, statement):
                buffer = self.context.buffer(target)
                if buffer in self.context.tiles:
                    table.setdefault(buffer, []).append((statement, source))
        return table

    # what an expression rests on

    def atoms(self, expr: ast.AST | None, at: Stmt, *, lookups: bool) -> frozenset[Atom]:
        """Everything that an expression rests on; `lookups` follows indices of tables too."""
        if expr is None:
            return frozenset()
        key = (id(expr), at.uid, lookups)
        if key not in self._memo:
            self._memo[key] = frozenset()  # a cycle rests on nothing new
            self._kept.append(expr)  # keeps the id from being given to another node
            self._memo[key] = frozenset(self._atoms(expr, at, lookups))
        return self._memo[key]

    def looked_up(self, expr: ast.AST | None, at: Stmt) -> set[str]:
        """Names of the global tensors that an expression looks up, tables in tables left out."""
        return {
            atom.name for atom in self.atoms(expr, at, lookups=False) if atom.origin == "lookup"
        }

    def rests_on(self, expr: ast.AST | None, at: Stmt, *origins: Origin) -> bool:
        """Whether something of these origins is in an expression, look-ups not followed."""
        return any(atom.origin in origins for atom in self.atoms(expr, at, lookups=False))

    def _atoms(self, expr: ast.AST, at: Stmt, lookups: bool) -> Iterator[Atom]:
        if isinstance(expr, ast.Name):
            yield from self._atoms_of_name(expr.id, at, lookups)
        elif isinstance(expr, ast.Subscript):
            yield from self._atoms_of_lookup(expr, at, lookups)
        else:
            for child in ast.iter_child_nodes(expr):
                if isinstance(child, (ast.expr, ast.keyword)):
                    yield from self.atoms(child, at, lookups=lookups)

    def _atoms_of_name(self, name: str, at: Stmt, lookups: bool) -> Iterator[Atom]:
        if self.context.tiles.get(name, "alloc_var") != "alloc_var":
            yield from self._atoms_of_tile(name, lookups)
            return
        definitions = self.definitions(name, at)
        for definition in definitions:
            yield definition.atom
            yield from _counted_round(definition)
            if definition.value is not None:
                where = definition.statement or self.context.top[0]
                yield from self.atoms(definition.value, where, lookups=lookups)
        if not definitions:
            yield Atom("unknown", name, 0)

    def _atoms_of_lookup(self, expr: ast.Subscript, at: Stmt, lookups: bool) -> Iterator[Atom]:
        base = base_name(expr)
        if base in self.context.globals:
            yield Atom("lookup", base, 0)
        elif base in self.context.tiles:
            yield from self._atoms_of_tile(base, lookups)
        elif base is not None:
            yield from self.atoms(expr.value, at, lookups=lookups)
            yield from self.atoms(expr.slice, at, lookups=lookups)
            return
        if lookups:
            for item in index_items(expr):
                yield from self.atoms(item, at, lookups=lookups)

    def _atoms_of_tile(
        self, buffer: str, lookups: bool, seen: frozenset[str] = frozenset()
    ) -> Iterator[Atom]:
        """A staged table is the table: global -> tile -> use."""
        if buffer in seen:
            return
        seen |= {buffer}
        if self.context.tiles.get(buffer) != "alloc_var":
            yield Atom("tile", buffer, 0)
        for statement, source in self.sources(buffer):
            base = self.context.buffer(source)
            if base in self.context.globals:
                yield Atom("lookup", base, 0)
                if lookups:
                    for item in index_items(source):
                        yield from self.atoms(item, statement, lookups=lookups)
            elif base is not None and base != buffer:
                yield from self._atoms_of_tile(base, lookups, seen)
            elif base != buffer:
                yield from self.atoms(source, statement, lookups=lookups)


class _Expander(ast.NodeTransformer):
    """Writes scalars out in place."""

    def __init__(self, deps: Dependencies, at: Stmt, depth: int) -> None:
        self.deps, self.at, self.depth = deps, at, depth

    def visit_Name(self, node: ast.Name) -> ast.expr:
        definitions = self.deps.definitions(node.id, self.at)
        if self.depth <= 0 or len(definitions) != 1 or node.id in self.deps.context.buffers:
            return node
        only = definitions[0]
        if only.whole_value is None or isinstance(only.node, ast.AugAssign):
            return node
        return self.deps.expand(only.whole_value, only.statement or self.at, self.depth - 1)


def written_pairs(context: Context, statement: Stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, source) for every copy or element-wise assignment of a statement."""
    node = statement.node
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) or (
            isinstance(target, ast.Name) and context.tiles.get(target.id) == "alloc_var"
        ):
            yield target, node.value
    operation = context.operation(statement)
    if operation is not None and operation.kind in COPYING and operation.target is not None:
        yield from ((operation.target, source) for source in operation.sources)


def _counted_round(definition: Definition) -> Iterator[Atom]:
    """A scalar that a loop counts up by hand (`at = at + 1`) moves with that loop's variable."""
    statement, value = definition.statement, definition.value
    if statement is None or value is None:
        return
    if isinstance(definition.node, ast.AugAssign) or definition.atom.name in names_in(value):
        for parent in statement.ancestors():
            if parent.kind == "loop":
                yield from (Atom("loop", name, parent.uid) for name in loop_variables(parent))
                return
