"""Constant folding: an expression in, the number that it always is out, or None.

Named constants of the kernel, its builders and its module are followed; tiles never are.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import TYPE_CHECKING

from srcmap.anatomy import ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.anatomy.context import Context
    from srcmap.anatomy.definitions import ReachingDefinitions
    from srcmap.anatomy.tree import Stmt

Fold = float | None

HIDDEN_BELOW = -1e4
"""A score at or below this is hidden: its exponential is zero in every floating-point type."""

MAX_DEPTH = 12

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
}


class Folder:
    """Folds the constants of one kernel."""

    def __init__(self, context: Context, reaching: ReachingDefinitions) -> None:
        self.context = context
        self.reaching = reaching

    def fold(self, expr: ast.AST | None, at: Stmt, depth: int = MAX_DEPTH) -> Fold:
        """The number that an expression always is at a statement."""
        if depth < 0:
            return None
        match expr:
            case ast.Constant(value=bool() | int() | float() as value):
                return float(value)
            case ast.UnaryOp(op=ast.USub()):
                operand = self.fold(expr.operand, at, depth)
                return None if operand is None else -operand
            case ast.BinOp():
                return self._binary(expr, at, depth)
            case ast.Name():
                return self._name(expr.id, at, depth)
            case ast.Call():
                return self._call(expr, at, depth)
            case ast.Attribute(attr="inf"):
                return math.inf
        return None

    def _binary(self, expr: ast.BinOp, at: Stmt, depth: int) -> Fold:
        left, right = self.fold(expr.left, at, depth - 1), self.fold(expr.right, at, depth - 1)
        combine = _ARITHMETIC.get(type(expr.op))
        if left is None or right is None or combine is None:
            return None
        try:
            value = combine(left, right)
        except (ArithmeticError, ValueError):
            return None
        return value if isinstance(value, float) else None  # a negative base gives a complex

    def _name(self, name: str, at: Stmt, depth: int) -> Fold:
        definitions = self.reaching.of(name, at)
        if len(definitions) != 1 or name in self.context.tiles:
            return None
        only = definitions[0]
        if isinstance(only.node, ast.AugAssign):
            return None
        return self.fold(only.whole_value, only.statement or at, depth - 1)

    def _call(self, call: ast.Call, at: Stmt, depth: int) -> Fold:
        name = self.context.name(call)
        if name in ("infinity", "max_value"):
            return math.inf
        if name == "min_value":
            return -math.inf
        builtin = call.func.id if isinstance(call.func, ast.Name) else None
        match call.args:
            case [ast.Constant(value=str() as text), *_] if builtin == "float":
                return _number_in(text)
        if call.args and (name in ops.SCALAR_TYPES or name == "cast" or builtin in _NUMBER_TYPES):
            return self.fold(call.args[0], at, depth - 1)
        if name == "Cast" and len(call.args) > 1:
            return self.fold(call.args[1], at, depth - 1)
        return None


_NUMBER_TYPES = ("float", "int")


def _number_in(text: str) -> Fold:
    """The number that a string spells: `float("-inf")`."""
    try:
        return float(text)
    except ValueError:
        return None


def is_hidden(value: Fold) -> bool:
    """Whether a number hides a score: minus infinity or close enough to it."""
    return value is not None and value <= HIDDEN_BELOW
