"""Comparisons of masks told apart by which side moves with what.

`q >= k` visible is causal; `q < k + w` visible is the window's lower edge; a query row against an
invariant is padding; a key against an invariant is the boundary; a table value that is not part of
K's address is a mask handed in.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, NamedTuple

from srcmap.anatomy.comparisons import Comparison, Flattener
from srcmap.anatomy.context import index_items
from srcmap.anatomy.folding import is_hidden

if TYPE_CHECKING:
    from srcmap.anatomy.definitions import Atom
    from srcmap.anatomy.facts import Facts
    from srcmap.anatomy.tree import Stmt

__all__ = ["Axes", "Classifier", "Comparison", "Flattener", "Kind", "is_hidden"]

Kind = Literal["causal", "window", "padding", "boundary", "input-mask", "block-mask", "other"]

_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Axes(NamedTuple):
    """The element-wise variables of a score tile."""

    rows: frozenset[Atom]
    """They count queries."""
    columns: frozenset[Atom]
    """They count keys."""


class Side(NamedTuple):
    """What one side of a comparison moves with."""

    query: bool
    key: bool


class Classifier:
    """Tells the comparisons of one kernel apart."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.context = facts.context
        self.deps = facts.deps

    def classify(self, comparison: Comparison, axes: Axes) -> Kind:
        """What a comparison is about."""
        at = comparison.statement
        if self.mask_table(comparison) is not None:
            deep = self.deps.atoms(comparison.left, at, lookups=True)
            return "input-mask" if deep & (axes.columns | axes.rows) else "block-mask"
        visible = _NEGATED[comparison.op] if comparison.hides else comparison.op
        left = self._side(comparison.left, at, axes)
        right = self._side(comparison.right, at, axes)
        if left.query and right.key and not left.key:
            return _direction(visible)
        if right.query and left.key and not right.key:
            return _direction(_FLIPPED[visible])
        if left.query and left.key:
            return self._difference(comparison.left, visible, at, axes)
        if right.query and right.key:
            return self._difference(comparison.right, _FLIPPED[visible], at, axes)
        return _one_sided(left, right)

    def _side(self, expr: ast.expr | None, at: Stmt, axes: Axes) -> Side:
        """A key may come out of a table at a moving index; a query does not."""
        plain = self.deps.atoms(expr, at, lookups=False)
        deep = self.deps.atoms(expr, at, lookups=True)
        moving = {
            atom for atom in self.facts.query_names if atom.origin in ("grid", "loop", "scalar")
        }
        keys = self.facts.key_names | axes.columns
        return Side(query=bool(plain & (moving | axes.rows)), key=bool(deep & keys))

    def _difference(self, expr: ast.expr | None, op: str, at: Stmt, axes: Axes) -> Kind:
        """`q - k op w`: the side that is subtracted tells the direction."""
        whole = None if expr is None else self.deps.expand(expr, at)
        if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Sub):
            first = self._side(whole.left, at, axes)
            return _direction(op if first.query and not first.key else _FLIPPED[op])
        return "other"

    def mask_table(self, comparison: Comparison) -> str | None:
        """The global tensor of a 0/1 mask that a comparison tests, if it does."""
        if comparison.right is not None:
            number = self.deps.fold(comparison.right, comparison.statement)
            if number not in (0.0, 1.0) or comparison.op not in ("==", "!=", ">"):
                return None
        return self._table_of(comparison.left)

    def _table_of(self, expr: ast.expr) -> str | None:
        """The tensor that a value (staged or not) was loaded from, unless it feeds K's address."""
        if not isinstance(expr, (ast.Subscript, ast.Name)):
            return None
        buffer = self.context.buffer(expr)
        seen: set[str] = set()
        while buffer in self.context.tiles and buffer not in seen:
            seen.add(buffer)
            sources = [self.context.buffer(source) for _, source in self.deps.sources(buffer)]
            buffer = next((source for source in sources if source is not None), None)
        is_mask = buffer in self.context.globals and buffer not in self.facts.address_tables
        return buffer if is_mask else None

    def axes_of(self, target: ast.expr, at: Stmt) -> Axes:
        """Row and column variables of an element-wise write; keys may be the rows."""
        items = index_items(target)
        first = self._element_atoms(items[0], at) if len(items) > 1 else frozenset()
        last = self._element_atoms(items[-1], at) if items else frozenset()
        transposed = any(one.transposed for one in self.facts.operands.values())
        return Axes(last, first) if transposed else Axes(first, last)

    def _element_atoms(self, item: ast.expr, at: Stmt) -> frozenset[Atom]:
        """Variables in an index whose loops run inside the key loop."""
        return frozenset(
            atom
            for atom in self.deps.atoms(item, at, lookups=False)
            if atom.origin == "loop"
            and (loop := self.facts.statement(atom.at)) is not None
            and at.inside(loop)
            and loop not in self.facts.kv_loops
        )


def _one_sided(left: Side, right: Side) -> Kind:
    """A comparison with something that moves with neither."""
    if left.key or right.key:
        return "boundary"
    return "padding" if left.query or right.query else "other"


def _direction(visible: str) -> Kind:
    """What `q op k` means when it makes a key visible."""
    if visible in (">=", ">", "=="):
        return "causal"
    return "window" if visible in ("<", "<=") else "other"
