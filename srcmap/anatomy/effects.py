"""Tile operations and assignments: what a simple statement writes, and the events that it is."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy import ops, roles
from srcmap.anatomy.context import Context, base_name
from srcmap.anatomy.reading import Product
from srcmap.anatomy.roles import Value, merge
from srcmap.anatomy.values import BINARY_KINDS, OPERATORS, UNARY_KINDS, Values

if TYPE_CHECKING:
    from srcmap.anatomy.deps import Dependencies
    from srcmap.anatomy.ops import Operation
    from srcmap.anatomy.run import Run

OVERWRITING = ("init", "initC", "clear_accum", "zero_init", "clear")
"""Flags under which a matrix product replaces its target instead of adding to it."""


class Effects:
    """Runs simple statements."""

    def __init__(self, run: Run, deps: Dependencies, values: Values) -> None:
        self.run = run
        self.deps = deps
        self.values = values
        self.context: Context = run.context

    def simple(self, node: ast.stmt) -> None:
        """Run a statement that holds no other."""
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value)
            case ast.AnnAssign(value=ast.expr() as value):
                self._assign(node.target, value)
            case ast.AugAssign():
                self._augment(node)
            case ast.Expr(value=ast.Call() as call):
                self._call(call)

    # assignments

    def _assign(self, target: ast.expr, source: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            parts = source.elts if isinstance(source, (ast.Tuple, ast.List)) else None
            sources = parts or [source] * len(target.elts)
            for one, its in zip(target.elts, sources, strict=False):
                self._assign(one, its)
            return
        if isinstance(source, ast.Call) and self._is_allocation(source):
            return
        self.run.target = base_name(target)
        if self.run.target in self.context.globals and isinstance(source, ast.Name):
            return
        value = self.values.of(source)
        self._note_copy(source, value)
        self.run.write(target, value)

    def _is_allocation(self, call: ast.Call) -> bool:
        name = self.context.name(call) or ""
        if name == "alloc_var":
            return not call.args
        return name in ops.ALL_ALLOCATIONS or name in ops.ALIASES

    def _augment(self, node: ast.AugAssign) -> None:
        op = OPERATORS.get(type(node.op))
        self.run.target = base_name(node.target)
        left, right = self.values.of(node.target), self.values.of(node.value)
        self.run.write(node.target, self.values.binary(op, left, right) if op else {})

    # calls

    def _call(self, call: ast.Call) -> None:
        operation = self.context.operation(self.run.now)
        name = self.context.name(call)
        if operation is not None:
            self._operate(operation)
        elif name in ops.GRID_BARRIERS:
            self.run.synchronise_grid()
        elif name is None or not ops.is_known(name):
            self._unknown(call, name)

    def _unknown(self, call: ast.Call, name: str | None) -> None:
        """Count a call that no row knows, unless it is plain Python that touches no buffer."""
        arguments = [*call.args, *(item.value for item in call.keywords)]
        buffers = {b for a in arguments if (b := self.context.buffer(a)) is not None}
        if name is not None or buffers:
            self.run.unread(name or ast.unparse(call.func), buffers)

    def _operate(self, operation: Operation) -> None:
        self.run.target = base_name(operation.target)
        if operation.target is None:
            return
        if operation.kind == "gemm":
            value = self._product(operation)
        elif operation.kind.startswith("reduce"):
            value = self._reduction(operation)
        else:
            value = self._rectified(operation, self._result(operation))
        self.run.write(operation.target, value)

    def _result(self, operation: Operation) -> Value:
        """What an operation writes that is neither a product nor a reduction."""
        uid, of = self.run.now.uid, self.values.of
        match operation.kind, operation.sources:
            case (("copy" | "atomic" | "alias"), sources):
                return self._copied(sources[0]) if sources else {}
            case "clear", _:
                return {"zero": uid}
            case "fill", sources:
                value = of(sources[0]) if sources else {}
                self.run.event("FILL", value)
                return value
            case (("axpy" | "mul_add"), (one, other, *_)):
                product = self.values.binary("mul", of(one), of(other))
                return self.values.binary("add", of(operation.target), product)
            case "select", (test, then, other, *_):
                return self.values.choice(test, of(then), of(other))
            case kind, (one, other, *_) if kind in BINARY_KINDS:
                return self.values.binary(kind, of(one), of(other))
            case kind, (only, *_) if kind in UNARY_KINDS:
                return self.values.unary(kind, of(only))
        return self._opaque(operation)

    def _opaque(self, operation: Operation) -> Value:
        """Operations whose result says nothing of their operands."""
        uid = self.run.now.uid
        values = [self.values.of(source) for source in operation.sources]
        if operation.kind == "topk":
            self.run.event("TOPK", merge(*values))
            return {"topk": uid}
        if operation.kind == "index_vector":
            return {"inv": uid}
        if operation.kind.startswith(("bitwise", "compare")):
            return {"zero": uid, "one": uid}
        return {}

    def _copied(self, source: ast.expr) -> Value:
        value = self.values.of(source)
        self._note_copy(source, value)
        return value

    def _note_copy(self, source: ast.expr, value: Value) -> None:
        """The running maximum put aside under another name."""
        if "max" not in value or not isinstance(source, (ast.Name, ast.Subscript, ast.Call)):
            return
        if base_name(source) not in (None, self.run.target) and self._is_reference(source):
            self.run.event("SAVE-MAX", {"max": value["max"]})

    def _is_reference(self, expr: ast.expr) -> bool:
        if isinstance(expr, ast.Call):
            return self.context.name(expr) in ops.ALIASES | {"access_ptr", "cast"}
        return True

    def _rectified(self, operation: Operation, value: Value) -> Value:
        """A copy out of the matrix unit can take the relu along (Ascend)."""
        relu = ops.keyword(operation.call, "enable_relu")
        if "score" not in value or relu is None or self.deps.fold(relu, self.run.now) == 0.0:
            return value
        return self.values.unary("relu", value)

    # products and reductions

    def _product(self, operation: Operation) -> Value:
        if len(operation.sources) < 2:
            return {}
        left, right = (self.values.of(source) for source in operation.sources[:2])
        kind, made = _product_of(left, right)
        now = self.run.now
        self.run.reading.products[now.uid] = Product(
            kind,
            now,
            self.run.region,
            operation.call,
            operation.sources[:2],
            left,
            right,
            self.context.buffer(operation.target),
        )
        if kind in ("QK", "PV"):
            self.run.event(kind, merge(left, right))
        old = {} if self._overwrites(operation.call) else self.values.of(operation.target)
        if made == "score":
            kept = roles.SCALARS | {"score"}
            old = {tag: maker for tag, maker in old.items() if tag in kept}
        return merge({made: now.uid} if made else {}, old)

    def _overwrites(self, call: ast.Call) -> bool:
        flags = (ops.keyword(call, name) for name in OVERWRITING)
        return any(self.deps.fold(flag, self.run.now) == 1.0 for flag in flags)

    def _reduction(self, operation: Operation) -> Value:
        sources, kind = operation.sources, operation.kind
        value = self.values.unary(kind, self.values.of(sources[0])) if sources else {}
        clear = ops.argument(operation.call, 3, ops.REDUCTION_NAMES)
        if self.deps.fold(clear, self.run.now) != 0.0:
            return value
        old = self.values.of(operation.target)  # `clear=False`: the target is an operand too
        if kind == "reduce_max" and "max" in value and "max" in old:
            self.run.event("MAX-MERGE", old)
        if kind == "reduce_sum":
            added = self.values.binary("add", old, value)
            return added if "rowsum" in value else merge(added, value)
        return value


def _product_of(left: Value, right: Value) -> tuple[str, str | None]:
    """What a matrix product is, and the role of its result."""
    both = left.keys() | right.keys()
    if "prob" in both:
        return "PV", "acc"
    if "prob-b" in both or "ds" in both:
        return "GRAD", "grad"
    loaded = [any(tag.startswith("L:") for tag in side) for side in (left, right)]
    if all(loaded) and not both & {"score", "acc"}:
        return "QK", "score"
    return "OTHER", None
