"""Whether inequalities between whole numbers contradict each other: Fourier-Motzkin elimination.

A conjunction without a rational solution has none in whole numbers; so "no solution" is a proof,
and "there may be one" is not.
"""

from __future__ import annotations

import ast
from itertools import chain, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Linear = dict[str, int]
"""Coefficients by term; the constant has the term ``""``."""
_MOST = 400
"""Inequalities above which the answer is that there may be a solution."""


class NotLinearError(ValueError):
    """An expression that is no sum of terms."""


def linear(expression: ast.expr, meaning: Callable[[str], ast.expr | None]) -> Linear:
    """Read an expression; `meaning` gives the definition of a name, if it is known."""
    match expression:
        case ast.Constant(value=int(value)):
            return {"": value}
        case ast.Name(id=name):
            defined = meaning(name)
            return {name: 1} if defined is None else linear(defined, meaning)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return scaled(linear(operand, meaning), -1)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return added(linear(left, meaning), linear(right, meaning))
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return added(linear(left, meaning), scaled(linear(right, meaning), -1))
        case ast.BinOp(op=ast.Mult()) if _is_plain(expression):
            return {ast.unparse(expression): 1}
    raise NotLinearError(ast.unparse(expression))


def _is_plain(expression: ast.expr) -> bool:
    """Whether a product is of names and numbers: one term, whatever its value."""
    plain = (ast.BinOp, ast.Mult, ast.Add, ast.Name, ast.Constant, ast.Load)
    return all(isinstance(node, plain) for node in ast.walk(expression))


def added(one: Linear, other: Linear) -> Linear:
    """The sum."""
    total = {term: one.get(term, 0) + other.get(term, 0) for term in one.keys() | other.keys()}
    return {term: factor for term, factor in total.items() if factor}


def scaled(one: Linear, by: int) -> Linear:
    """The multiple."""
    return {term: factor * by for term, factor in one.items()}


# -- conditions ------------------------------------------------------------------------------------

Cases = list[list[Linear]]
"""Alternatives, each a list of what must be at most 0."""


def cases(test: ast.expr, holds: bool, meaning: Callable[[str], ast.expr | None]) -> Cases:
    """Return when a condition holds, or does not. NotLinearError when it is of another kind."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return cases(operand, not holds, meaning)
        case ast.BoolOp(op=op, values=values):
            parts = [cases(value, holds, meaning) for value in values]
            return all_of(parts) if isinstance(op, ast.And) is holds else list(chain(*parts))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            difference = added(linear(left, meaning), scaled(linear(right, meaning), -1))
            return _compared(type(op), difference, holds)
    raise NotLinearError(ast.unparse(test))


_NOT: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}


def _compared(op: type[ast.cmpop], difference: Linear, holds: bool) -> Cases:
    """Left minus right is compared with 0."""
    less, more = difference, scaled(difference, -1)
    one = {"": 1}
    known: dict[type[ast.cmpop], Cases] = {
        ast.LtE: [[less]],
        ast.GtE: [[more]],
        ast.Lt: [[added(less, one)]],
        ast.Gt: [[added(more, one)]],
        ast.Eq: [[less, more]],
        ast.NotEq: [[added(less, one)], [added(more, one)]],
    }
    found = known.get(op if holds else _NOT.get(op, op))
    if found is None:
        raise NotLinearError(op.__name__)
    return found


def all_of(parts: Iterable[Cases]) -> Cases:
    """Return the cases in which all conditions hold."""
    return [[one for case in chosen for one in case] for chosen in product(*parts)]


def impossible(conditions: list[Linear]) -> bool:
    """Whether no numbers make all of these at most 0."""
    left = conditions
    while True:
        terms = {term for one in left for term in one if term}
        if any(not one.keys() - {""} and one.get("", 0) > 0 for one in left):
            return True
        if not terms or len(left) > _MOST:
            return False
        left = _without(min(terms), left)


def _without(term: str, conditions: list[Linear]) -> list[Linear]:
    """Eliminate a term: every lower bound of it is at most every upper bound."""
    above = [one for one in conditions if one.get(term, 0) > 0]
    below = [one for one in conditions if one.get(term, 0) < 0]
    rest = [one for one in conditions if not one.get(term, 0)]
    return rest + [
        added(scaled(one, -other[term]), scaled(other, one[term]))
        for one, other in product(above, below)
    ]
