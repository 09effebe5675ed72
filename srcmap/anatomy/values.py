"""Expressions to values: what an expression holds, and the events that computing it is.

The premise table (`roles.py`) says what an operation on two roles gives; here its rows are applied
to every pair of roles that two operands hold.
"""

from __future__ import annotations

import ast
import functools
import math
from typing import TYPE_CHECKING

from srcmap.anatomy import ops, roles
from srcmap.anatomy.context import Context, base_name, index_items
from srcmap.anatomy.folding import HIDDEN_BELOW
from srcmap.anatomy.roles import Value, merge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.anatomy.deps import Dependencies
    from srcmap.anatomy.run import Run

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
}
BINARY_KINDS = {"add", "sub", "mul", "div", "max", "min"}
UNARY_KINDS = {"exp", "log", "neg", "reciprocal", "relu", "reduce_max", "reduce_sum", "reduce_min"}
PYTHON_CALLS = {"max": "max", "min": "min"}

HUGE = 1e6
"""From here on a positive number stands for infinity."""


class Values:
    """Evaluates expressions where a run stands."""

    def __init__(self, run: Run, deps: Dependencies) -> None:
        self.run = run
        self.deps = deps
        self.context: Context = run.context
        self._outer: dict[str, Value] = {}

    def of(self, expr: ast.AST | None) -> Value:
        """What an expression holds."""
        match expr:
            case ast.Constant():
                return self._constant(expr.value)
            case ast.Name():
                return self._name(expr)
            case ast.Subscript():
                return self._subscript(expr)
            case ast.BinOp():
                return self._bin_op(expr)
            case ast.UnaryOp():
                return self._unary_op(expr)
            case ast.Call():
                return self._call(expr)
        return self._composed(expr)

    def _composed(self, expr: ast.AST | None) -> Value:
        match expr:
            case ast.IfExp():
                return self.choice(expr.test, self.of(expr.body), self.of(expr.orelse))
            case ast.Compare():
                return self._truth([expr.left, *expr.comparators])
            case ast.BoolOp():
                return self._truth(expr.values)
            case ast.Tuple() | ast.List():
                return merge(*(self.of(element) for element in expr.elts))
        return self._invariant()

    def folded(self, expr: ast.expr) -> Value | None:
        """The role of the number that an expression always is."""
        number = self.deps.fold(expr, self.run.now)
        return None if number is None else self._constant(number)

    def _constant(self, value: object) -> Value:
        return {role_of_constant(value): self.run.now.uid}

    def _invariant(self) -> Value:
        return {"inv": self.run.now.uid}

    def _truth(self, parts: Iterable[ast.expr]) -> Value:
        for part in parts:
            self.of(part)  # for the events in it
        return {"zero": self.run.now.uid, "one": self.run.now.uid}

    # names and memory

    def _name(self, expr: ast.Name) -> Value:
        name, held = expr.id, self.run.held
        buffer = self.context.buffer(expr) if name in self.context.aliases else name
        if buffer in self.context.globals and name not in held:
            return self.run.load(buffer, expr)
        if buffer in self.context.tiles:
            return self.run.read_tile(buffer)
        return held[name] if name in held else self._outer_scalar(expr)

    def _outer_scalar(self, expr: ast.Name) -> Value:
        """A scalar that the builder or the module computes; no tile can enter it."""
        if expr.id not in self._outer:
            self._outer[expr.id] = self._invariant()  # a cycle is an invariant
            self._outer[expr.id] = self.folded(expr) or self._computed_outside(expr.id)
        return self._outer[expr.id]

    def _computed_outside(self, name: str) -> Value:
        definitions = self.deps.outer(name)
        value = definitions[0].whole_value if len(definitions) == 1 else None
        roles_of_value = self.of(value) if value is not None else {}
        kept = {tag: maker for tag, maker in roles_of_value.items() if tag in roles.SCALARS}
        return kept or self._invariant()

    def _subscript(self, expr: ast.Subscript) -> Value:
        buffer = self.context.buffer(expr)
        if buffer in self.context.globals:
            value = self.run.load(buffer, expr)
            self._index_lookups(expr)
            return value
        if buffer in self.context.tiles:
            return self.run.read_tile(buffer, expr)
        base = base_name(expr)
        return self.run.held[base] if base in self.run.held else self._invariant()

    def _index_lookups(self, expr: ast.expr) -> None:
        """Tables looked up inside an index are read too."""
        for item in index_items(expr):
            for node in ast.walk(item):
                if isinstance(node, ast.Subscript):
                    self.of(node)

    # operations

    def _bin_op(self, expr: ast.BinOp) -> Value:
        folded = self.folded(expr)
        if folded is not None:
            return folded
        left, right = self.of(expr.left), self.of(expr.right)
        op = OPERATORS.get(type(expr.op))
        return self._loaded_of(left, right) if op is None else self.binary(op, left, right)

    def _unary_op(self, expr: ast.UnaryOp) -> Value:
        if not isinstance(expr.op, ast.USub):
            return self.of(expr.operand)
        folded = self.folded(expr)
        return self.unary("neg", self.of(expr.operand)) if folded is None else folded

    def _loaded_of(self, *values: Value) -> Value:
        """What an operation without premises gives: still something loaded, or an invariant."""
        tables = {tag: uid for tag, uid in merge(*values).items() if tag.startswith("L:")}
        return tables or self._invariant()

    def _call(self, call: ast.Call) -> Value:
        name = self.context.name(call)
        if name in ops.SCALAR_TYPES or name == "dtype":
            return self.of(call.args[0]) if call.args else self._invariant()
        folded = self.folded(call)
        if folded is not None:
            return folded
        if name in ops.ALLOCATIONS and call.args:
            return self.of(call.args[0]) if name == "alloc_var" else {}
        if name in ops.ALIASES and call.args:
            return self.of(call.args[0])
        kind = self.context.expression_kind(call) or PYTHON_CALLS.get(_python_name(call) or "")
        return self._applied(kind, call)

    def _applied(self, kind: str | None, call: ast.Call) -> Value:
        """What a call inside an expression gives, by the kind of its row in the table."""
        choice = self.context.choice(call)
        if choice is not None:
            return self.choice(choice.test, self.of(choice.then), self.of(choice.other))
        values = [self.of(argument) for argument in call.args]
        match kind, values:
            case "fma", [one, other, added, *_]:
                return self.binary("add", self.binary("mul", one, other), added)
            case "shape", [only, *_]:
                return self._shaped(only)
            case ("keep_first", [kept, *_]) | ("keep_second", [_, kept, *_]):
                return kept
            case str() as op, [_, _, *_] if op in BINARY_KINDS:
                return functools.reduce(functools.partial(self.binary, op), values)
            case str() as op, [only, *_] if op in UNARY_KINDS:
                return self.unary(op, only)
        self._count_unknown(kind, call)
        return self._loaded_of(*values)

    def _count_unknown(self, kind: str | None, call: ast.Call) -> None:
        """A call of the language that no row knows, and that is given a tile, is counted."""
        name = self.context.name(call)
        if kind is not None or name is None or ops.is_known(name):
            return
        given = [*call.args, *(item.value for item in call.keywords)]
        tiles = {b for one in given if (b := self.context.buffer(one)) in self.context.tiles}
        if tiles:
            target = {self.run.target} & set(self.context.tiles)
            self.run.unread(name, tiles | target)

    def _shaped(self, value: Value) -> Value:
        """A function of one number: capped scores are scores; other roles do not survive it."""
        scores = _only(value, "score")
        return scores or self._loaded_of(value)

    def binary(self, op: str, left: Value, right: Value) -> Value:
        """Apply the premise table to every pair of roles."""
        if op in ("add", "max", "min") and not (left and right):
            return left or right  # what was not understood takes nothing away
        result: Value = {}
        for one, maker in left.items():
            for other, its in right.items():
                outcome = roles.binary(op, one, other)
                for tag in outcome.tags:
                    kept = maker if tag == one else its if tag == other else self.run.now.uid
                    result.setdefault(tag, kept)
                if outcome.event:
                    self.run.event(outcome.event, {one: maker, other: its})
        return result

    def unary(self, op: str, value: Value) -> Value:
        """Apply the premise table to every role."""
        result: Value = {}
        for tag, maker in value.items():
            outcome = roles.unary(op, tag)
            for made in outcome.tags:
                result.setdefault(made, maker if made == tag else self.run.now.uid)
            if outcome.event:
                self.run.event(outcome.event, {tag: maker})
        if not result and op == "exp" and roles.SCALARS & value.keys():
            return self._invariant()
        return result

    # choices

    def choice(self, test: ast.AST, then: Value, other: Value) -> Value:
        """A value chosen by a test: the union, and what such a choice can mean."""
        tested = self.tested(test)
        for kept, replacement in ((then, other), (other, then)):
            self._choice_events(kept, replacement, tested)
        return merge(then, other)

    def tested(self, test: ast.AST) -> Value:
        """Union of the roles that a test compares."""
        found: list[Value] = []
        for node in ast.walk(test):
            if isinstance(node, ast.Compare):
                found += [self.of(side) for side in (node.left, *node.comparators)]
        return merge(*found)

    def _choice_events(self, kept: Value, other: Value, tested: Value) -> None:
        """A maximum or a result that a test replaces by a number."""
        plain = bool(other) and other.keys() <= roles.SCALARS
        if "max" in kept and plain and "max" in tested and tested.keys() & {"neg", "inv"}:
            self.run.event("CHECK-INF", _only(kept, "max"))
        if "nmax" in kept and plain and tested.keys() & {"nmax", "max"}:
            self.run.event("CHECK-INF", _only(kept, "nmax"))
        if kept.keys() & {"acc", "norm"} and other.keys() == {"zero"}:
            self.run.event("EMPTY-ROW", _only(kept, "acc", "norm"))
        sums = _only(kept, "denom", "lse", "rdenom")
        if sums and plain and tested.keys() & {"denom", "max", "L"}:
            self.run.event("EMPTY-ROW", sums)


def role_of_constant(value: object) -> str:
    """Zero, one, huge, or just a number; anything else is an invariant."""
    if isinstance(value, bool):
        return "one" if value else "zero"
    if not isinstance(value, (int, float)):
        return "inv"
    if value in (0, 1):
        return "one" if value else "zero"
    if value <= HIDDEN_BELOW:
        return "neg"
    if value >= HUGE or math.isinf(value):
        return "pos"
    return "minus" if value < 0 else "num"


def _only(value: Value, *tags: str) -> Value:
    return {tag: value[tag] for tag in tags if tag in value}


def _python_name(call: ast.Call) -> str | None:
    return call.func.id if isinstance(call.func, ast.Name) else None
