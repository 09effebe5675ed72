"""What every reading step of one kernel shares: its statements, names, parameters and tiles."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from srcmap.anatomy import ops
from srcmap.anatomy.kernels import KernelRoot, is_launch, parameters
from srcmap.anatomy.names import canonical
from srcmap.anatomy.tree import Stmt, build, loop_kind

if TYPE_CHECKING:
    from collections.abc import Iterator


class Choice(NamedTuple):
    """`T.if_then_else(test, then, other)` or `then if test else other`."""

    test: ast.expr
    then: ast.expr
    other: ast.expr


class Context:
    """One kernel on its way from statements to concepts."""

    def __init__(self, root: KernelRoot) -> None:
        self.root = root
        self.top = build(root.body)
        """The outermost statements."""
        self.statements = [below for statement in self.top for below in statement.walk()]
        """All statements, in reading order."""
        self.parameters = parameters(root)
        """Name to line of every parameter."""
        self._names: dict[int, str | None] = {}
        self._operations: dict[int, ops.Operation | None] = {}
        self._map_loops: dict[int, bool] = {}

    # what code means

    def name(self, expr: ast.AST) -> str | None:
        """Canonical tilelang name of a call or a name, remembered."""
        key = id(expr)
        if key not in self._names:
            target = expr.func if isinstance(expr, ast.Call) else expr
            self._names[key] = canonical(target, self.root.aliases)
        return self._names[key]

    def call_name(self, statement: Stmt) -> str | None:
        """Canonical name of the call that stands alone in a statement."""
        call = statement.call
        return None if call is None else self.name(call)

    def operation(self, statement: Stmt) -> ops.Operation | None:
        """The tile operation that a statement is, if the table of operations has a row for it."""
        if statement.uid not in self._operations:
            call = statement.call
            found = None if call is None else ops.operation_of(self.name(call), call)
            self._operations[statement.uid] = found
        return self._operations[statement.uid]

    def choice(self, expr: ast.AST) -> Choice | None:
        """A value that is one of two by a test, in either spelling."""
        if isinstance(expr, ast.IfExp):
            return Choice(expr.test, expr.body, expr.orelse)
        if isinstance(expr, ast.Call) and self.expression_kind(expr) == "choice":
            parts = [ops.argument(expr, place, ops.CHOICE_NAMES) for place in range(3)]
            test, then, other = parts
            return Choice(test, then, other) if test and then and other else None
        return None

    def expression_kind(self, call: ast.Call) -> str | None:
        """What a call inside an expression does with its arguments, by the table of operations."""
        return ops.EXPRESSIONS.get(self.name(call) or "")

    def is_map_loop(self, statement: Stmt) -> bool:
        """Whether a statement is an element-wise loop, such as `T.Parallel`."""
        if statement.kind != "loop":
            return False
        if statement.uid not in self._map_loops:
            kind = loop_kind(statement, self.root.aliases)
            self._map_loops[statement.uid] = kind in ops.MAP_LOOPS
        return self._map_loops[statement.uid]

    def is_noise(self, statement: Stmt) -> bool:
        """Barriers, flags, annotations, docstrings, assertions: nothing that a span stops at."""
        node = statement.node
        if isinstance(node, (ast.Pass, ast.Assert, ast.FunctionDef, ast.Import, ast.ImportFrom)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return True
        call = statement.call
        if call is None:
            return False
        name = self.name(call)
        if name is None:
            return isinstance(call.func, ast.Name) and call.func.id == "print"
        return name in ops.NOISE or name in ops.BARRIERS

    def is_barrier(self, statement: Stmt) -> bool:
        """A synchronisation that parts a product from the load before it."""
        return self.call_name(statement) in ops.BARRIERS

    # launches

    @cached_property
    def regions(self) -> list[Stmt]:
        """The launches of the kernel, in order."""
        aliases = self.root.aliases
        return [statement for statement in self.statements if is_launch(statement.node, aliases)]

    def region_of(self, statement: Stmt) -> Stmt | None:
        """The launch that a statement runs in."""
        if statement in self.regions:
            return statement
        return next((parent for parent in statement.ancestors() if parent in self.regions), None)

    def launch_call(self, region: Stmt) -> ast.Call:
        """The `T.Kernel(...)` of a launch."""
        calls = (item.context_expr for item in region.with_items)
        return next(
            call for call in calls if isinstance(call, ast.Call) and self.name(call) == "Kernel"
        )

    # buffers

    @cached_property
    def tiles(self) -> dict[str, str]:
        """On-chip buffer to the allocation that made it.

        `S = K_shared` makes a tile of its own, for memory is given another name to hold another
        thing.
        """
        on_chip = ops.ALLOCATIONS - ops.GLOBAL_ALLOCATIONS
        tiles = {name: kind for name, kind in self._allocations() if kind in on_chip}
        for statement in self.statements:
            node = statement.node
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                kind = tiles.get(node.value.id, "alloc_var")
                if kind != "alloc_var":
                    tiles.update((name, kind) for name in _plain_targets(node))
        return tiles

    @cached_property
    def globals(self) -> set[str]:
        """Tensors in global memory: parameters that are indexed, `T.alloc_global`, `T.empty`."""
        made = {name for name, kind in self._allocations() if kind in ops.GLOBAL_ALLOCATIONS}
        indexed = {
            node.value.id
            for statement in self.top
            for node in ast.walk(statement.node)
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        }
        passed = {
            argument.id
            for statement in self.statements
            if (operation := self.operation(statement)) is not None
            for argument in operation.call.args
            if isinstance(argument, ast.Name)
        }
        return made | {name for name in self.parameters if name in indexed | passed}

    def _allocations(self) -> Iterator[tuple[str, str]]:
        for statement in self.statements:
            node = statement.node
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                kind = self.name(node.value)
                if kind:
                    yield from ((name, kind) for name in _plain_targets(node))

    @cached_property
    def aliases(self) -> dict[str, ast.expr]:
        """A view of a buffer (`T.reshape`, `T.view`) to the expression viewed."""
        found: dict[str, list[ast.expr]] = {}
        for statement in self.statements:
            node = statement.node
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, []).append(node.value)
        views = {name: self._viewed(values) for name, values in found.items()}
        return {name: viewed for name, viewed in views.items() if viewed is not None}

    def _viewed(self, values: list[ast.expr]) -> ast.expr | None:
        """What the only assignment of a name views."""
        value = values[0]
        if len(values) != 1 or not isinstance(value, ast.Call) or not value.args:
            return None
        return value.args[0] if self.name(value) in ops.ALIASES else None

    @cached_property
    def buffers(self) -> set[str]:
        """Tiles and global tensors."""
        return set(self.tiles) | self.globals

    def buffer(self, expr: ast.AST | None) -> str | None:
        """The buffer that an expression names, whole or in part, views followed."""
        base = base_name(expr)
        seen = set()
        while base in self.aliases and base not in seen:
            seen.add(base)
            base = base_name(self.aliases[base])
        return base if base in self.buffers else None

    @cached_property
    def uses_ascend_memories(self) -> bool:
        """Whether the kernel places its tiles in the memories of an NPU itself."""
        return bool(set(self.tiles.values()) & ops.ASCEND_MEMORIES)

    @cached_property
    def is_ascend(self) -> bool:
        """Whether the kernel is written for an NPU: by its memories, or as its launch says."""
        return self.uses_ascend_memories or any(
            ops.keyword(self.launch_call(region), "is_npu") is not None for region in self.regions
        )


def base_name(expr: ast.AST | None) -> str | None:
    """The name at the bottom of `name`, `name[...][...]`, `name.T`, `T.access_ptr(name[...])`."""
    while isinstance(expr, (ast.Subscript, ast.Call, ast.Starred, ast.Attribute)):
        if not isinstance(expr, ast.Call):
            expr = expr.value
        elif expr.args:
            expr = expr.args[0]
        else:
            return None
    return expr.id if isinstance(expr, ast.Name) else None


def index_items(expr: ast.AST | None) -> list[ast.expr]:
    """The indices of a subscript by position; views of views give the outer ones first."""
    while isinstance(expr, ast.Call) and expr.args:
        expr = expr.args[0]
    if not isinstance(expr, ast.Subscript):
        return []
    own = list(expr.slice.elts) if isinstance(expr.slice, ast.Tuple) else [expr.slice]
    return [*index_items(expr.value), *own]


def _plain_targets(node: ast.Assign) -> Iterator[str]:
    return (target.id for target in node.targets if isinstance(target, ast.Name))
