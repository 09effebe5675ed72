"""What every reading step of one kernel shares: its statements, names, parameters and tiles."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from srcmap.anatomy import ops
from srcmap.anatomy.kernels import KernelRoot, is_launch, parameters
from srcmap.anatomy.names import canonical
from srcmap.anatomy.tree import Stmt, build


class Context:
    """One kernel on its way from statements to concepts."""

    def __init__(self, root: KernelRoot) -> None:
        self.root = root
        self.top = build(root.body)
        self.statements = [below for statement in self.top for below in statement.walk()]
        self.parameters = parameters(root)
        """Name to line of every parameter."""
        self._names: dict[int, str | None] = {}
        self._walks: dict[int, tuple[ast.AST, ...]] = {}

    def name(self, expr: ast.AST) -> str | None:
        """Canonical tilelang name of a call or a name, remembered."""
        key = id(expr)
        if key not in self._names:
            target = expr.func if isinstance(expr, ast.Call) else expr
            self._names[key] = canonical(target, self.root.aliases)
        return self._names[key]

    def call(self, statement: Stmt) -> ast.Call | None:
        """The call that stands alone in a statement."""
        node = statement.node
        return (
            node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
        )

    def call_name(self, statement: Stmt) -> str | None:
        """Canonical name of the call that stands alone in a statement."""
        call = self.call(statement)
        return None if call is None else self.name(call)

    @cached_property
    def regions(self) -> list[Stmt]:
        """The launches of the kernel, in order."""
        return [
            statement
            for statement in self.statements
            if is_launch(statement.node, self.root.aliases)
        ]

    def region_of(self, statement: Stmt) -> Stmt | None:
        """The launch that a statement runs in."""
        if statement in self.regions:
            return statement
        return next((parent for parent in statement.ancestors() if parent in self.regions), None)

    def launch_call(self, region: Stmt) -> ast.Call:
        """The `T.Kernel(...)` of a launch."""
        assert isinstance(region.node, ast.With)
        calls = [
            item.context_expr
            for item in region.node.items
            if isinstance(item.context_expr, ast.Call)
        ]
        return next(call for call in calls if self.name(call) == "Kernel")

    @cached_property
    def tiles(self) -> dict[str, str]:
        """On-chip buffer to the allocation that made it; `S = K_shared` makes a tile of its own,
        for memory is given another name to hold another thing.
        """
        tiles = {
            name: kind
            for name, kind in self._allocations()
            if kind in ops.ALLOCATIONS and kind not in ops.GLOBAL_ALLOCATIONS
        }
        for statement in self.statements:
            node = statement.node
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Name)
                and node.value.id in tiles
            ):
                kind = tiles[node.value.id]
                if kind != "alloc_var":
                    tiles.update(
                        (target.id, kind) for target in node.targets if isinstance(target, ast.Name)
                    )
        return tiles

    @cached_property
    def globals(self) -> set[str]:
        """Tensors in global memory: parameters that are indexed, and `T.alloc_global` or `T.empty`."""
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
            if (call := self.call(statement)) is not None and self.name(call) in ops.TILE_OPS
            for argument in call.args
            if isinstance(argument, ast.Name)
        }
        return made | {name for name in self.parameters if name in indexed | passed}

    def _allocations(self) -> Iterator[tuple[str, str]]:
        for statement in self.statements:
            node = statement.node
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                kind = self.name(node.value)
                if kind:
                    for target in node.targets:
                        if isinstance(target, ast.Name):
                            yield target.id, kind

    @cached_property
    def aliases(self) -> dict[str, ast.expr]:
        """A view of a buffer (`T.reshape`, `T.view`) to the expression viewed."""
        found: dict[str, list[ast.expr]] = {}
        for statement in self.statements:
            node = statement.node
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                found.setdefault(node.targets[0].id, []).append(node.value)
        return {
            name: viewed
            for name, values in found.items()
            if (viewed := self._viewed(values)) is not None
        }

    def _viewed(self, values: list[ast.expr]) -> ast.expr | None:
        """What the only assignment of a name views."""
        if len(values) != 1:
            return None
        value = values[0]
        is_view = isinstance(value, ast.Call) and value.args and self.name(value) in ops.ALIASES
        return value.args[0] if is_view else None  # type: ignore[attr-defined]

    @cached_property
    def buffers(self) -> set[str]:
        """Tiles and global tensors."""
        return set(self.tiles) | self.globals

    @cached_property
    def local_buffers(self) -> set[str]:
        """Every name that is a tile or a view of one."""
        return set(self.tiles) | set(self.aliases)

    def buffer(self, expr: ast.AST | None) -> str | None:
        """The buffer that an expression names, whole or in part, views followed."""
        base = base_name(expr)
        seen = set()
        while base in self.aliases and base not in seen:
            seen.add(base)
            base = base_name(self.aliases[base])
        return base if base in self.buffers else None

    def is_noise(self, statement: Stmt) -> bool:
        """Barriers, flags, annotations, docstrings, assertions: nothing that a span stops at."""
        node = statement.node
        if isinstance(node, (ast.Pass, ast.Assert, ast.FunctionDef, ast.Import, ast.ImportFrom)):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return True
        name = self.call_name(statement)
        if name is None:
            call = self.call(statement)
            return call is not None and isinstance(call.func, ast.Name) and call.func.id == "print"
        return name in ops.NOISE or name in ops.BARRIERS

    def is_barrier(self, statement: Stmt) -> bool:
        """A synchronisation that parts a product from the load before it."""
        return self.call_name(statement) in ops.BARRIERS


def base_name(expr: ast.AST | None) -> str | None:
    """The name at the bottom of `name`, `name[...]`, `name[...][...]`, `T.access_ptr(name[...])`."""
    while isinstance(expr, (ast.Subscript, ast.Call, ast.Starred, ast.Attribute)):
        if isinstance(expr, ast.Call):
            if not expr.args:
                return None
            expr = expr.args[0]
        else:
            expr = expr.value
    return expr.id if isinstance(expr, ast.Name) else None


def index_items(expr: ast.AST | None) -> list[ast.expr]:
    """The indices of a subscript by position; views of views give the outer ones first."""
    while isinstance(expr, ast.Call) and expr.args:
        expr = expr.args[0]
    if not isinstance(expr, ast.Subscript):
        return []
    inner = index_items(expr.value)
    own = list(expr.slice.elts) if isinstance(expr.slice, ast.Tuple) else [expr.slice]
    return [*inner, *own]
