"""Conditions of masks, flattened to comparisons and told apart by which side moves with what.

`q >= k` visible is causal; `q < k + w` visible is the window's lower edge; a query row against an
invariant is padding; a key against an invariant is the boundary; a table value that is not part of
K's address is a mask handed in.
"""

from __future__ import annotations

import ast
from typing import Literal, NamedTuple, TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.context import base_name, index_items

if TYPE_CHECKING:
    from srcmap.anatomy.tree import Stmt
    from srcmap.anatomy.facts import Facts
    from srcmap.anatomy.deps import Atom, Dependencies, Fold
    from collections.abc import Iterator

Kind = Literal["causal", "window", "padding", "boundary", "input-mask", "block-mask", "other"]

MAX_DEPTH = 8


class Comparison(NamedTuple):
    """`left op right`, and whether the score is hidden when it holds."""

    left: ast.expr
    op: str
    right: ast.expr | None
    """None for a bare truth value."""
    hides: bool
    statement: Stmt
    """Where the comparison is written."""


class Axes(NamedTuple):
    """The element-wise variables of a score tile."""

    rows: frozenset[Atom]
    columns: frozenset[Atom]


_OPS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_MODES = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Flattener:
    """Takes conditions apart through boolean scalars, mask buffers and choices of 0 and 1."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.context = facts.context
        self.deps: Dependencies = facts.deps

    def comparisons(
        self, test: ast.expr | None, at: Stmt, *, hides: bool, depth: int = 0
    ) -> Iterator[Comparison]:
        """Every comparison that a test rests on."""
        if test is None or depth > MAX_DEPTH:
            return
        match test:
            case ast.BoolOp():
                for part in test.values:
                    yield from self.comparisons(part, at, hides=hides, depth=depth)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                for part in (test.left, test.right):
                    yield from self.comparisons(part, at, hides=hides, depth=depth)
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                yield from self.comparisons(test.operand, at, hides=not hides, depth=depth)
            case ast.Compare():
                yield from self._compare(test, at, hides, depth)
            case ast.Call():
                yield from self._call(test, at, hides, depth)
            case ast.Name():
                yield from self._name(test, at, hides, depth)
            case ast.Subscript():
                yield from self._buffer(test, at, hides, depth)
            case ast.IfExp():
                yield from self._choice(test.test, test.body, test.orelse, at, hides, depth)

    def _compare(
        self, test: ast.Compare, at: Stmt, hides: bool, depth: int
    ) -> Iterator[Comparison]:
        left = test.left
        for op, right in zip(test.ops, test.comparators, strict=True):
            name = _OPS.get(type(op))
            inner = self._as_flag(left, name, right, at)
            if inner is not None:
                expr, negated = inner
                yield from self.comparisons(expr, at, hides=hides != negated, depth=depth + 1)
            elif name is not None:
                yield Comparison(left, name, right, hides, at)
            left = right

    def _as_flag(
        self, left: ast.expr, op: str | None, right: ast.expr, at: Stmt
    ) -> tuple[ast.expr, bool] | None:
        """`allowed > 0` of a choice between 1 and 0 is the choice; `== 0` its negation."""
        number = self.deps.fold(right, at)
        if number is None or op is None or not self._is_choice(left, at):
            return None
        if (op, number) in ((">", 0.0), ("!=", 0.0), ("==", 1.0), (">=", 1.0)):
            return left, False
        return (
            (left, True)
            if (op, number) in (("==", 0.0), ("!=", 1.0), ("<", 1.0), ("<=", 0.0))
            else None
        )

    def _is_choice(self, expr: ast.expr, at: Stmt) -> bool:
        if isinstance(expr, ast.Name):
            values = [d.value for d in self.deps.definitions(expr.id, at)]
            return len(values) == 1 and values[0] is not None and self._is_choice(values[0], at)
        if isinstance(expr, ast.Call):
            return ops.EXPRESSIONS.get(self.context.name(expr) or "") == "choice"
        return isinstance(expr, (ast.IfExp, ast.BoolOp, ast.Compare))

    def _call(self, test: ast.Call, at: Stmt, hides: bool, depth: int) -> Iterator[Comparison]:
        name = self.context.name(test)
        if ops.EXPRESSIONS.get(name or "") == "choice" and len(test.args) >= 3:
            yield from self._choice(*test.args[:3], at, hides, depth)
        elif name in ("And", "Or", "all_of", "any_of"):
            for part in test.args:
                yield from self.comparisons(part, at, hides=hides, depth=depth)
        elif name in ("Not", "not_") and test.args:
            yield from self.comparisons(test.args[0], at, hides=not hides, depth=depth)
        elif test.args and (name in ops.SCALAR_TYPES or name in ("cast", "likely")):
            yield from self.comparisons(test.args[0], at, hides=hides, depth=depth)

    def _choice(
        self, test: ast.expr, then: ast.expr, other: ast.expr, at: Stmt, hides: bool, depth: int
    ) -> Iterator[Comparison]:
        """A choice of 1 and 0 (or of further choices) used as a truth value."""
        yes, no = self.deps.fold(then, at), self.deps.fold(other, at)
        if yes is not None and no is not None:
            yield from self.comparisons(
                test, at, hides=hides if yes else not hides, depth=depth + 1
            )
            return
        for arm in (then, other):
            yield from self.comparisons(arm, at, hides=hides, depth=depth + 1)

    def _name(self, test: ast.Name, at: Stmt, hides: bool, depth: int) -> Iterator[Comparison]:
        if test.id in self.context.tiles and self.context.tiles[test.id] != "alloc_var":
            yield from self._buffer(test, at, hides, depth)
            return
        for definition in self.deps.definitions(test.id, at):
            where = definition.statement or at
            if definition.value is not None and definition.unpacked is None:
                yield from self.comparisons(definition.value, where, hides=hides, depth=depth + 1)

    def _buffer(self, test: ast.expr, at: Stmt, hides: bool, depth: int) -> Iterator[Comparison]:
        """A mask buffer is what was written to it; one that was loaded is a mask handed in."""
        buffer = self.context.buffer(test)
        if buffer in self.context.globals:
            yield Comparison(test, "!=", None, hides, at)
            return
        found = False
        for statement, source in self.writers(buffer):
            inner = list(self._source(source, statement, hides, depth))
            found = found or bool(inner)
            yield from inner
        if not found:
            yield Comparison(test, "!=", None, hides, at)

    def _source(
        self, source: ast.expr, statement: Stmt, hides: bool, depth: int
    ) -> Iterator[Comparison]:
        call = statement.call
        row = ops.TILE_OPS.get(self.context.name(call) or "") if call is not None else None
        if call is not None and row is not None and row.kind == "compare":
            yield from _tile_compare(call, statement, hides)
        elif call is not None and row is not None and row.kind.startswith("bitwise"):
            if self.context.buffer(source) != self.context.buffer(call.args[0]):
                yield from self.comparisons(source, statement, hides=hides, depth=depth + 1)
        elif (
            self.context.buffer(source) is None or self.context.buffer(source) in self.context.tiles
        ):
            yield from self.comparisons(source, statement, hides=hides, depth=depth + 1)

    def writers(self, buffer: str | None) -> list[tuple[Stmt, ast.expr]]:
        """Statements that set a mask buffer, with their sources."""
        if buffer is None:
            return []
        found = list(self.deps.sources(buffer))
        for statement in self.context.statements:
            call = statement.call
            row = ops.TILE_OPS.get(self.context.name(call) or "") if call is not None else None
            if (
                call is None
                or row is None
                or row.dst is None
                or not row.kind.startswith(("compare", "bitwise"))
            ):
                continue
            if self.context.buffer(ops.argument(call, row.dst, row.names)) == buffer:
                found += [(statement, call.args[operand]) for operand in _positions(row, call)]
        return found

    # telling comparisons apart

    def classify(self, comparison: Comparison, axes: Axes) -> Kind:
        """What a comparison is about."""
        left = self._side(comparison.left, comparison.statement, axes)
        right = self._side(comparison.right, comparison.statement, axes)
        if self._mask_table(comparison) is not None:
            deep = self.deps.atoms(comparison.left, comparison.statement, lookups=True)
            return "input-mask" if deep & (axes.columns | axes.rows) else "block-mask"
        op = comparison.op if not comparison.hides else _NEGATED[comparison.op]
        if left[0] and right[1] and not left[1]:
            return _direction(op)
        if right[0] and left[1] and not right[1]:
            return _direction(_FLIPPED[op])
        if left[0] and left[1]:
            return self._difference(comparison.left, op, comparison.statement, axes)
        if right[0] and right[1]:
            return self._difference(comparison.right, _FLIPPED[op], comparison.statement, axes)
        if left[1] or right[1]:
            return "boundary"
        if left[0] or right[0]:
            return "padding"
        return "other"

    def _side(self, expr: ast.expr | None, at: Stmt, axes: Axes) -> tuple[bool, bool]:
        """(moves with the query, moves with the key)."""
        plain = self.deps.atoms(expr, at, lookups=False)
        deep = self.deps.atoms(expr, at, lookups=True)
        moving = {
            atom for atom in self.facts.query_names if atom.origin in ("grid", "loop", "scalar")
        }
        return bool(plain & (moving | axes.rows)), bool(
            deep & (self.facts.key_names | axes.columns)
        )

    def _difference(self, expr: ast.expr, op: str, at: Stmt, axes: Axes) -> Kind:
        """`q - k op w`: the side that is subtracted tells the direction."""
        whole = self.deps.expand(expr, at)
        if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Sub):
            first = self._side(whole.left, at, axes)
            return _direction(op if first[0] and not first[1] else _FLIPPED[op])
        return "other"

    def _mask_table(self, comparison: Comparison) -> str | None:
        """The tensor of a 0/1 mask that a comparison tests, if it does."""
        number = self.deps.fold(comparison.right, comparison.statement)
        if comparison.right is not None and (
            number is None or comparison.op not in ("==", "!=", ">")
        ):
            return None
        if number not in (None, 0.0, 1.0):
            return None
        return self.table_of(comparison.left)

    def table_of(self, expr: ast.expr) -> str | None:
        """The global tensor that a value (staged or not) was loaded from, unless it feeds K's address."""
        if not isinstance(expr, (ast.Subscript, ast.Name)):
            return None
        buffer = self.context.buffer(expr)
        seen: set[str] = set()
        while buffer in self.context.tiles and buffer not in seen:
            seen.add(buffer)
            sources = [self.context.buffer(source) for _, source in self.deps.sources(buffer)]
            buffer = next((source for source in sources if source is not None), None)
        if buffer not in self.context.globals or buffer in self.facts.address_tables:
            return None
        return buffer

    def axes_of(self, target: ast.expr, at: Stmt) -> Axes:
        """Row and column variables of an element-wise write; keys may be the rows."""
        items = index_items(target)
        first = self._loop_atoms(items[0], at) if len(items) > 1 else frozenset()
        last = self._loop_atoms(items[-1], at) if items else frozenset()
        transposed = any(one.transposed for one in self.facts.operands.values())
        return Axes(last, first) if transposed else Axes(first, last)

    def _loop_atoms(self, item: ast.expr, at: Stmt) -> frozenset[Atom]:
        atoms = self.deps.atoms(item, at, lookups=False)
        return frozenset(
            atom for atom in atoms if atom.origin == "loop" and self._is_inner(atom, at)
        )

    def _is_inner(self, atom: Atom, at: Stmt) -> bool:
        loop = self.facts.statement(atom.at)
        return loop is not None and at.inside(loop) and loop not in self.facts.kv_loops


def _tile_compare(call: ast.Call, statement: Stmt, hides: bool) -> Iterator[Comparison]:
    mode = next(
        (a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)),
        None,
    )
    op = _MODES.get(str(mode))
    if op is not None and len(call.args) >= 3:
        yield Comparison(call.args[1], op, call.args[2], hides, statement)


def _positions(row: ops.Row, call: ast.Call) -> list[int]:
    positions = [
        operand for operand in row.src if isinstance(operand, int) and operand < len(call.args)
    ]
    return positions[:1] if row.kind == "compare" else positions


def _direction(visible: str) -> Kind:
    """What `q op k` means when it makes a key visible."""
    if visible in (">=", ">", "=="):
        return "causal"
    return "window" if visible in ("<", "<=") else "other"


def is_hidden(value: Fold) -> bool:
    """Whether a number hides a score: minus infinity or close enough to it."""
    return value is not None and value <= -1e4


def hidden_leaf(deps: Dependencies, expr: ast.expr, at: Stmt) -> bool:
    """Whether an expression is the value of a hidden score."""
    return is_hidden(deps.fold(expr, at))


def arms(context_name: str | None, expr: ast.expr) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """(test, then, otherwise) of a choice."""
    if isinstance(expr, ast.IfExp):
        return expr.test, expr.body, expr.orelse
    if (
        isinstance(expr, ast.Call)
        and ops.EXPRESSIONS.get(context_name or "") == "choice"
        and len(expr.args) >= 3
    ):
        return expr.args[0], expr.args[1], expr.args[2]
    return None


def bases(expr: ast.AST) -> set[str]:
    """Names of everything that an expression subscripts."""
    return {
        base
        for node in ast.walk(expr)
        if isinstance(node, ast.Subscript) and (base := base_name(node))
    }
