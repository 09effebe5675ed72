"""Conditions taken apart: a test in, the comparisons that it rests on out.

Boolean scalars, mask buffers, `T.tile.compare`, negations, and choices of 0 and 1 are followed.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from srcmap.anatomy import ops

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from srcmap.anatomy.context import Choice, Context
    from srcmap.anatomy.deps import Dependencies
    from srcmap.anatomy.ops import Operation
    from srcmap.anatomy.tree import Stmt

MAX_DEPTH = 8

_OPS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_MODES = {"LT": "<", "LE": "<=", "GT": ">", "GE": ">=", "EQ": "==", "NE": "!="}
"""How `T.tile.compare` spells them."""

IS_SET = {(">", 0.0), ("!=", 0.0), ("==", 1.0), (">=", 1.0)}
IS_UNSET = {("==", 0.0), ("!=", 1.0), ("<", 1.0), ("<=", 0.0)}
"""Comparisons that ask whether a flag of 0 or 1 is set."""


class Comparison(NamedTuple):
    """`left op right`, and whether the score is hidden when it holds."""

    left: ast.expr
    op: str
    right: ast.expr | None
    """None for a bare truth value."""
    hides: bool
    statement: Stmt
    """Where the comparison is written."""


class View(NamedTuple):
    """From where a condition is looked at, and what it means when it holds."""

    at: Stmt
    hides: bool
    depth: int = 0
    """How many definitions were followed."""

    def deeper(self, at: Stmt | None = None, *, negated: bool = False) -> View:
        """The view on a definition behind this one."""
        return View(at or self.at, self.hides != negated, self.depth + 1)


class Flattener:
    """Takes the conditions of one kernel apart."""

    def __init__(self, context: Context, deps: Dependencies) -> None:
        self.context = context
        self.deps = deps

    def comparisons(self, test: ast.expr | None, at: Stmt, *, hides: bool) -> list[Comparison]:
        """Every comparison that a test rests on; `hides` says what it means when the test holds."""
        return list(self._parts(test, View(at, hides)))

    def _parts(self, test: ast.expr | None, view: View) -> Iterator[Comparison]:
        if test is None or view.depth > MAX_DEPTH:
            return
        match test:
            case ast.BoolOp(values=parts):
                yield from self._each(parts, view)
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                yield from self._each((test.left, test.right), view)
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                yield from self._parts(test.operand, view._replace(hides=not view.hides))
            case ast.Compare():
                yield from self._compare(test, view)
            case ast.Name():
                yield from self._name(test, view)
            case ast.Subscript():
                yield from self._buffer(test, view)
            case ast.Call() | ast.IfExp():
                yield from self._call(test, view)

    def _each(self, parts: Iterable[ast.expr], view: View) -> Iterator[Comparison]:
        for part in parts:
            yield from self._parts(part, view)

    def _compare(self, test: ast.Compare, view: View) -> Iterator[Comparison]:
        left = test.left
        for op, right in zip(test.ops, test.comparators, strict=True):
            name = _OPS.get(type(op))
            if name is not None:
                asked = self._asks_for_flag(left, name, right, view.at)
                if asked is None:
                    yield Comparison(left, name, right, view.hides, view.at)
                else:
                    yield from self._parts(left, view.deeper(negated=not asked))
            left = right

    def _asks_for_flag(self, left: ast.expr, op: str, right: ast.expr, at: Stmt) -> bool | None:
        """`allowed > 0` of a choice between 1 and 0 is the choice, `== 0` its negation."""
        number = self.deps.fold(right, at)
        if number is None or not self._is_flag(left, at):
            return None
        if (op, number) in IS_SET:
            return True
        return False if (op, number) in IS_UNSET else None

    def _is_flag(self, expr: ast.expr, at: Stmt) -> bool:
        if isinstance(expr, ast.Name):
            values = [definition.value for definition in self.deps.definitions(expr.id, at)]
            return len(values) == 1 and values[0] is not None and self._is_flag(values[0], at)
        if isinstance(expr, ast.Call):
            return self.context.expression_kind(expr) == "choice"
        return isinstance(expr, (ast.IfExp, ast.BoolOp, ast.Compare))

    def _call(self, test: ast.Call | ast.IfExp, view: View) -> Iterator[Comparison]:
        choice = self.context.choice(test)
        if choice is not None:
            yield from self._choice(choice, view)
        elif isinstance(test, ast.Call) and test.args:
            name, first = self.context.name(test), test.args[0]
            if name in ("And", "Or", "all_of", "any_of"):
                yield from self._each(test.args, view)
            elif name in ("Not", "not_"):
                yield from self._parts(first, view._replace(hides=not view.hides))
            elif name in ops.SCALAR_TYPES or name in ("cast", "likely"):
                yield from self._parts(first, view)

    def _choice(self, choice: Choice, view: View) -> Iterator[Comparison]:
        """A choice of 1 and 0 (or of further choices) used as a truth value."""
        then, other = self.deps.fold(choice.then, view.at), self.deps.fold(choice.other, view.at)
        if then is None or other is None:
            yield from self._each((choice.then, choice.other), view.deeper())
        else:
            yield from self._parts(choice.test, view.deeper(negated=not then))

    def _name(self, test: ast.Name, view: View) -> Iterator[Comparison]:
        if self.context.tiles.get(test.id, "alloc_var") != "alloc_var":
            yield from self._buffer(test, view)
            return
        for definition in self.deps.definitions(test.id, view.at):
            yield from self._parts(definition.whole_value, view.deeper(definition.statement))

    # mask buffers

    def _buffer(self, test: ast.expr, view: View) -> Iterator[Comparison]:
        """A mask buffer is what was written to it; one that was loaded is a mask handed in."""
        buffer = self.context.buffer(test)
        found: list[Comparison] = []
        if buffer is not None and buffer not in self.context.globals:
            for statement, source in self._writers(buffer):
                found += self._source(source, view.deeper(statement))
        yield from found or [Comparison(test, "!=", None, view.hides, view.at)]

    def _source(self, source: ast.expr, view: View) -> Iterator[Comparison]:
        """What one source of a mask buffer adds to it."""
        operation = self.context.operation(view.at)
        kind = operation.kind if operation is not None else ""
        buffer = self.context.buffer(source)
        if operation is not None and kind == "compare":
            yield from _tile_compare(operation, view)
        elif operation is not None and kind.startswith("bitwise"):
            if buffer != self.context.buffer(operation.target):
                yield from self._parts(source, view)
        elif buffer is None or buffer in self.context.tiles:
            yield from self._parts(source, view)

    def _writers(self, buffer: str) -> list[tuple[Stmt, ast.expr]]:
        """Statements that set a mask buffer, with their sources."""
        found = list(self.deps.sources(buffer))
        for statement in self.context.statements:
            operation = self.context.operation(statement)
            if operation is None or not operation.kind.startswith(("compare", "bitwise")):
                continue
            if self.context.buffer(operation.target) == buffer:
                once = operation.sources[:1] if operation.kind == "compare" else operation.sources
                found += [(statement, source) for source in once]
        return found


def _tile_compare(operation: Operation, view: View) -> Iterator[Comparison]:
    """`T.tile.compare(mask, left, right, "GE")`."""
    modes = (
        argument.value
        for argument in operation.call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    )
    op = _MODES.get(next(modes, ""))
    if op is not None and len(operation.sources) >= 2:
        left, right, *_ = operation.sources
        yield Comparison(left, op, right, view.hides, view.at)
