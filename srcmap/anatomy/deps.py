"""What a scalar rests on: reaching definitions, constants, and two dependency functions.

One dependency function follows table look-ups, the other stops at them; addressing needs both.
An atom is a definition, not a spelling: the `i` of two loops are two atoms.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from srcmap.anatomy import ops
from srcmap.anatomy.context import Context, base_name, index_items
from srcmap.anatomy.names import all_arguments
from srcmap.anatomy.tree import Stmt, loop_variables, target_names

Origin = Literal[
    "scalar", "loop", "grid", "parameter", "kernel-parameter", "lookup", "tile", "thread", "unknown"
]


class Atom(NamedTuple):
    """One thing that an expression rests on."""

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
    node: ast.stmt | None = None
    index: int | None = None
    """Position in a tuple that is unpacked from one value."""


Fold = float | None

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
}


class Dependencies:
    """Answers where scalars of one kernel come from."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._kernel = self._kernel_definitions()
        self._outer = self._outer_definitions()
        self._writers = self._tile_writers()
        self._memo: dict[tuple[int, int, bool], frozenset[Atom]] = {}
        self._kept: list[ast.AST] = []
        self._reaching: dict[tuple[str, int], tuple[Definition, ...]] = {}

    # definitions

    def definitions(self, name: str, at: Stmt) -> tuple[Definition, ...]:
        """Definitions that can reach a use: the nearest enclosing block's first, then outside."""
        key = (name, at.uid)
        if key not in self._reaching:
            found = self._reaching_in_kernel(name, at) if name in self._kernel else []
            self._reaching[key] = tuple(found or self._outer.get(name, ()))
        return self._reaching[key]

    def outer(self, name: str) -> tuple[Definition, ...]:
        """Definitions outside the kernel, innermost scope only."""
        return self._outer.get(name, ())

    def all_of(self, name: str) -> list[Definition]:
        """Every definition of a name inside the kernel."""
        return self._kernel.get(name, [])

    def _reaching_in_kernel(self, name: str, at: Stmt) -> list[Definition]:
        by_statement: dict[int, list[Definition]] = {}
        for definition in self._kernel[name]:
            assert definition.statement is not None
            by_statement.setdefault(definition.statement.uid, []).append(definition)
        found: list[Definition] = []
        place: Stmt | None = at
        while place is not None:
            for before in place.siblings_before():
                inside = [
                    d
                    for below in before.walk()
                    for d in by_statement.get(below.uid, ())
                    if _leaks(d, before)
                ]
                found += inside
                if inside and _covers(before):
                    return found
            parent = place.parent
            if (
                parent is not None
                and parent.uid in by_statement
                and parent.kind in ("loop", "with")
            ):
                return found + by_statement[parent.uid]
            place = parent
        return found

    def _kernel_definitions(self) -> dict[str, list[Definition]]:
        table: dict[str, list[Definition]] = {}
        for statement in self.context.statements:
            for name, definition in self._defined_by(statement):
                table.setdefault(name, []).append(definition)
        return table

    def _defined_by(self, statement: Stmt) -> Iterator[tuple[str, Definition]]:
        node, line = statement.node, statement.lines.first
        if isinstance(node, ast.For):
            for name in loop_variables(statement):
                yield (
                    name,
                    Definition(Atom("loop", name, statement.uid), None, statement, line, node),
                )
        elif isinstance(node, ast.With):
            for item in node.items:
                for name in target_names(item.optional_vars):
                    yield (
                        name,
                        Definition(Atom("grid", name, statement.uid), None, statement, line, node),
                    )
        else:
            for name, value, index in assigned_names(node):
                yield (
                    name,
                    Definition(
                        self._atom(name, value, statement), value, statement, line, node, index
                    ),
                )

    def _atom(self, name: str, value: ast.expr | None, statement: Stmt) -> Atom:
        called = self.context.name(value) if isinstance(value, ast.Call) else None
        return Atom("thread" if called in ops.THREADS else "scalar", name, statement.uid)

    def _outer_definitions(self) -> dict[str, tuple[Definition, ...]]:
        table: dict[str, tuple[Definition, ...]] = {}
        for scope in self.context.root.scopes[:-1]:
            found: dict[str, list[Definition]] = {}
            if isinstance(scope, ast.FunctionDef):
                for argument in all_arguments(scope):
                    atom = Atom("parameter", argument.arg, -argument.lineno)
                    found[argument.arg] = [Definition(atom, None, None, argument.lineno)]
            for node in _plain_statements(scope.body):
                for name, value, index in assigned_names(node):
                    atom = Atom("scalar", name, -node.lineno)
                    found.setdefault(name, []).append(
                        Definition(atom, value, None, node.lineno, node, index)
                    )
            table.update({name: tuple(definitions) for name, definitions in found.items()})
        kernel = self.context.root.function
        for argument in all_arguments(kernel):
            atom = Atom("kernel-parameter", argument.arg, -argument.lineno)
            table[argument.arg] = (Definition(atom, None, None, argument.lineno),)
        return table

    def _tile_writers(self) -> dict[str, list[tuple[Stmt, ast.expr]]]:
        """Tile to the statements and sources that load it from somewhere."""
        table: dict[str, list[tuple[Stmt, ast.expr]]] = {}
        for statement in self.context.statements:
            for target, source in written_pairs(self.context, statement):
                buffer = self.context.buffer(target)
                if buffer in self.context.tiles:
                    table.setdefault(buffer, []).append((statement, source))
        return table

    # dependencies

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
        if name in self.context.tiles and self.context.tiles[name] != "alloc_var":
            yield from self._atoms_of_tile(name, lookups)
            return
        definitions = self.definitions(name, at)
        for definition in definitions:
            yield definition.atom
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
        for statement, source in self._writers.get(buffer, ()):
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

    def sources(self, buffer: str) -> list[tuple[Stmt, ast.expr]]:
        """Statements that copy into a tile, with what they copy."""
        return self._writers.get(buffer, [])

    def expand(self, expr: ast.expr, at: Stmt, depth: int = 6) -> ast.expr:
        """The expression with scalars of one definition replaced by their values."""
        return _Expander(self, at, depth).visit(_copy(expr))

    # constants

    def fold(self, expr: ast.AST | None, at: Stmt, depth: int = 12) -> Fold:
        """The number that an expression always is, named constants followed; else None."""
        if depth < 0 or expr is None:
            return None
        match expr:
            case ast.Constant(value=bool()):
                return float(expr.value)
            case ast.Constant(value=int() | float()):
                return float(expr.value)
            case ast.UnaryOp(op=ast.USub()):
                return _negate(self.fold(expr.operand, at, depth))
            case ast.BinOp():
                return self._fold_binary(expr, at, depth)
            case ast.Name():
                return self._fold_name(expr.id, at, depth)
            case ast.Call():
                return self._fold_call(expr, at, depth)
            case ast.Attribute(attr="inf"):
                return math.inf
        return None

    def _fold_binary(self, expr: ast.BinOp, at: Stmt, depth: int) -> Fold:
        left, right = self.fold(expr.left, at, depth - 1), self.fold(expr.right, at, depth - 1)
        combine = _ARITHMETIC.get(type(expr.op))
        if left is None or right is None or combine is None:
            return None
        try:
            value = combine(left, right)
        except (ArithmeticError, ValueError):
            return None
        return value if isinstance(value, float) else None

    def _fold_name(self, name: str, at: Stmt, depth: int) -> Fold:
        definitions = self.definitions(name, at)
        if len(definitions) != 1 or definitions[0].index is not None:
            return None
        if isinstance(definitions[0].node, ast.AugAssign) or name in self.context.tiles:
            return None
        return self.fold(definitions[0].value, definitions[0].statement or at, depth - 1)

    def _fold_call(self, call: ast.Call, at: Stmt, depth: int) -> Fold:
        name = self.context.name(call)
        if name in ("infinity", "max_value"):
            return math.inf
        if name == "min_value":
            return -math.inf
        if isinstance(call.func, ast.Name) and call.func.id == "float" and call.args:
            text = call.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                try:
                    return float(text.value)
                except ValueError:
                    return None
        if call.args and (name in ops.SCALAR_TYPES or name == "cast" or _is_float(call.func)):
            return self.fold(call.args[0], at, depth - 1)
        return (
            self.fold(call.args[1], at, depth - 1)
            if name == "Cast" and len(call.args) > 1
            else None
        )


class _Expander(ast.NodeTransformer):
    def __init__(self, deps: Dependencies, at: Stmt, depth: int) -> None:
        self.deps, self.at, self.depth = deps, at, depth

    def visit_Name(self, node: ast.Name) -> ast.expr:
        definitions = self.deps.definitions(node.id, self.at)
        if self.depth <= 0 or len(definitions) != 1 or definitions[0].value is None:
            return node
        if definitions[0].index is not None or isinstance(definitions[0].node, ast.AugAssign):
            return node
        if node.id in self.deps.context.tiles or node.id in self.deps.context.globals:
            return node
        where = definitions[0].statement or self.at
        return self.deps.expand(definitions[0].value, where, self.depth - 1)


def assigned_names(node: ast.stmt) -> Iterator[tuple[str, ast.expr | None, int | None]]:
    """(name, value, index in an unpacked value) for every plain name that a statement assigns."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _pairs(target, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            yield name, value, None
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            yield name, value, None


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr | None, int | None]]:
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


def written_pairs(context: Context, statement: Stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, source) for every copy or element-wise assignment of a statement."""
    node = statement.node
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield node.targets[0], node.value
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        if context.tiles.get(node.targets[0].id) == "alloc_var":
            yield node.targets[0], node.value
    call = context.call(statement)
    row = ops.TILE_OPS.get(context.name(call) or "") if call is not None else None
    if (
        call is not None
        and row is not None
        and row.kind in ("copy", "topk", "alias", "index_vector")
        and row.dst is not None
    ):
        target = ops.argument(call, row.dst, row.names)
        for operand in row.src:
            source = ops.argument(call, operand, row.names)
            if target is not None and source is not None:
                yield target, source


def _leaks(definition: Definition, sibling: Stmt) -> bool:
    """Loop and launch variables are not visible after their block."""
    statement = definition.statement
    if statement is None or definition.atom.origin not in ("loop", "grid"):
        return True
    return False


def _covers(statement: Stmt) -> bool:
    """Whether passing this statement always defines what it can define."""
    return statement.kind in ("simple", "inline", "with") or (
        statement.kind == "if" and "orelse" in statement.arms
    )


def _plain_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, (ast.If, ast.With, ast.Try, ast.For, ast.While)):
            yield from _plain_statements(node.body)
            yield from _plain_statements(getattr(node, "orelse", []))
        elif not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node


def _negate(value: Fold) -> Fold:
    return None if value is None else -value


def _is_float(func: ast.expr) -> bool:
    return isinstance(func, ast.Name) and func.id in ("float", "int")


def _copy(expr: ast.expr) -> ast.expr:
    import copy

    return copy.deepcopy(expr)
