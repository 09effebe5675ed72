"""Proof that a changed mask changes nothing but rows that are never stored.

Two steps. The conditions before and after differ only where the guard of the stores does not hold:
that is arithmetic (`linear`). And what a row of the tile computes stays in that row up to the
stores: every statement that meets the changed tile works row by row.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from srcmap.verify.linear import NotLinearError, all_of, cases, impossible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHOICES = {"if_then_else", "Select"}
_ROW = "@row"


class _Mask(NamedTuple):
    """`for i, j in T.Parallel(...): tile[i, j] = T.if_then_else(test, ..., ...)`."""

    loop: ast.For
    assign: ast.Assign
    choice: ast.Call
    tile: str


def proven(old: ast.Module, new: ast.Module, line: int) -> bool:
    """Whether a change of a mask on this line cannot reach what is stored."""
    before, after = _mask(old, line), _mask(new, line)
    function = _function(old, line)
    if before is None or after is None or function is None or not _same_but_test(old, new, line):
        return False
    try:
        guards = list(_Rows(function, before.tile).guards())
        meaning = _definitions(function, before)
        return bool(guards) and all(_agree(before, after, guard, meaning) for guard in guards)
    except (_Elsewhere, NotLinearError):
        return False


def _mask(tree: ast.Module, line: int) -> _Mask | None:
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For) or _name(loop.iter) != "Parallel":
            continue
        if loop.lineno <= line <= (loop.end_lineno or 0):
            found = [mask for statement in loop.body if (mask := _choice(loop, statement))]
            here = [mask for mask in found if mask.assign.lineno <= line] or found[:1]
            return here[-1] if here else None
    return None


def _choice(loop: ast.For, statement: ast.stmt) -> _Mask | None:
    match statement:
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Name(id=tile))], value=ast.Call() as choice
        ) if _name(choice) in _CHOICES:
            return _Mask(loop, statement, choice, tile)
    return None


def _name(call: ast.expr) -> str:
    return getattr(call.func, "attr", "") if isinstance(call, ast.Call) else ""


def _function(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """Return the innermost function around a line."""
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return found[-1] if found else None


def _same_but_test(old: ast.Module, new: ast.Module, line: int) -> bool:
    texts = []
    for tree in (old, new):
        made = copy.deepcopy(tree)
        mask = _mask(made, line)
        if mask is None:
            return False
        mask.choice.args[0] = ast.Constant(0)
        texts.append(ast.dump(made))
    return texts[0] == texts[1]


# -- arithmetic ------------------------------------------------------------------------------------


class _Guard(NamedTuple):
    """A condition under which rows are stored, and the name of the row in it."""

    test: ast.expr
    row: str


def _agree(
    before: _Mask, after: _Mask, guard: _Guard, meaning: Callable[[str], ast.expr | None]
) -> bool:
    """Whether both masks say the same wherever the guard holds."""
    row = _first_name(before.loop)
    old, new = (_renamed(mask.choice.args[0], row) for mask in (before, after))
    stored = cases(_renamed(guard.test, guard.row), True, meaning)
    return all(
        impossible(case)
        for was in (True, False)
        for case in all_of([stored, cases(old, was, meaning), cases(new, not was, meaning)])
    )


def _first_name(loop: ast.For) -> str:
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    return target.id if isinstance(target, ast.Name) else ""


def _renamed(test: ast.expr, row: str) -> ast.expr:
    made = copy.deepcopy(test)
    for node in ast.walk(made):
        if isinstance(node, ast.Name) and node.id == row:
            node.id = _ROW
    return made


def _definitions(function: ast.FunctionDef, mask: _Mask) -> Callable[[str], ast.expr | None]:
    """Return what names mean: those of the loop itself, and those that never change."""
    row, bound = _first_name(mask.loop), _bound(function)
    own = _bound(mask.loop)
    inside = {id(node) for node in ast.walk(mask.loop)}
    known: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _is_sum(node.value):
            names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            alone = id(node) in inside and all(own[name] <= 1 for name in names)
            if alone or all(bound[name] <= 1 for name in names):
                known.update((ast.unparse(target), node.value) for target in node.targets)

    def meaning(name: str) -> ast.expr | None:
        return _renamed(known[name], row) if name in known else None

    return meaning


def _bound(function: ast.AST) -> Counter[str]:
    """Return how often each name is bound."""
    return Counter(
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )


def _is_sum(value: ast.expr) -> bool:
    allowed = (ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Name, ast.Constant, ast.Load, ast.USub)
    return isinstance(value, ast.BinOp) and all(
        isinstance(node, (*allowed, ast.UnaryOp)) for node in ast.walk(value)
    )


# -- rows stay rows --------------------------------------------------------------------------------


class _Elsewhere(Exception):  # noqa: N818 - the end of a search, no error
    """A row reaches another one, or a store that is not guarded."""


class _Rows:
    """Follows a tile through a kernel: which buffers have its rows, and who stores them."""

    def __init__(self, function: ast.FunctionDef, tile: str) -> None:
        self.function = _without_types(function)
        self.touched = {tile}
        self.stores: list[_Guard] = []

    def guards(self) -> Iterator[_Guard]:
        """Return the guards of all stores. _Elsewhere when the rows do not stay apart."""
        known = 0
        while known != len(self.touched):
            known, self.stores = len(self.touched), []
            self._body(self.function.body)
        self._check_guards()
        yield from self.stores

    def _check_guards(self) -> None:
        """What a guard rests on must mean the same where the mask is: names bound just once."""
        bound = _bound(self.function)
        for guard in self.stores:
            for node in ast.walk(guard.test):
                if isinstance(node, ast.Name) and node.id != guard.row and bound[node.id] > 1:
                    raise _Elsewhere(node.id)

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _meets(self, node: ast.AST) -> bool:
        return any(isinstance(n, ast.Name) and n.id in self.touched for n in ast.walk(node))

    def _statement(self, statement: ast.stmt) -> None:
        if not self._meets(statement) or _allocates(statement):
            return
        match statement:
            case ast.With(body=body):
                self._body(body)
            case ast.If(test=test, body=body, orelse=other) if not self._meets(test):
                self._body(body)
                self._body(other)
            case ast.For(iter=over) if _name(over) == "Parallel":
                self._parallel(statement)
            case ast.For(iter=over, body=body) if not self._meets(over):
                self._body(body)
            case ast.Expr(value=ast.Call() as call):
                self._operation(call)
            case _:
                raise _Elsewhere(ast.unparse(statement))

    def _operation(self, call: ast.Call) -> None:
        names = [arg.id if isinstance(arg, ast.Name) else "" for arg in call.args]
        options = {k.arg: ast.unparse(k.value) for k in call.keywords}
        whole = all(n for n, arg in zip(names, call.args, strict=True) if self._meets(arg))
        named = _name(call)
        if named in ("fill", "clear") and names[0] and not self._meets_any(call.args[1:]):
            return
        if named == "copy" and len(names) == 2 and all(names):
            self.touched.update(names)
        elif named in ("reduce_max", "reduce_sum") and whole and options.get("dim") == "1":
            self.touched.update(names[:2])
        elif named == "gemm" and whole and self._by_rows(call, names, options):
            self.touched.add(names[2])
        else:
            raise _Elsewhere(ast.unparse(call))

    def _meets_any(self, nodes: list[ast.expr]) -> bool:
        return any(self._meets(node) for node in nodes)

    def _by_rows(self, call: ast.Call, names: list[str], options: dict[str | None, str]) -> bool:
        """A product keeps rows apart when the tile is on the left, as it is."""
        straight = options.get("transpose_A", "False") == "False" and len(call.args) == 3
        return straight and not self._meets(call.args[1]) and bool(names[2])

    def _parallel(self, loop: ast.For) -> None:
        row = _first_name(loop)
        for statement in loop.body:
            self._element(statement, row, None)

    def _element(self, statement: ast.stmt, row: str, guard: ast.expr | None) -> None:
        """One statement of a parallel loop: buffers of rows are met at the loop's own row."""
        if isinstance(statement, ast.If) and not statement.orelse and guard is None:
            if self._meets(statement.test):
                raise _Elsewhere(ast.unparse(statement.test))
            for inner in statement.body:
                self._element(inner, row, statement.test)
            return
        if not isinstance(statement, ast.Assign | ast.AugAssign):
            raise _Elsewhere(ast.unparse(statement))
        if not self._meets(statement):
            return
        self._at_own_row(statement, row)
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            self._stored(target, row, guard)

    def _at_own_row(self, statement: ast.stmt, row: str) -> None:
        met = Counter(
            n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id in self.touched
        )
        own = Counter(
            node.value.id
            for node in ast.walk(statement)
            if isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and _first_index(node) == row
        )
        if any(own[name] < count for name, count in met.items()):
            raise _Elsewhere(ast.unparse(statement))

    def _stored(self, target: ast.expr, row: str, guard: ast.expr | None) -> None:
        if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
            raise _Elsewhere(ast.unparse(target))
        if _first_index(target) == row and self._is_local(target.value.id):
            self.touched.add(target.value.id)
        elif guard is not None:
            self.stores.append(_Guard(guard, row))
        else:
            raise _Elsewhere(ast.unparse(target))

    def _is_local(self, name: str) -> bool:
        return any(
            _allocates(node) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
            for node in ast.walk(self.function)
            if isinstance(node, ast.Assign)
        )


def _without_types(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return a copy in which `tile.dtype` does not mention the tile."""

    class Types(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
            return ast.Constant("type") if node.attr == "dtype" else node

    made: ast.FunctionDef = Types().visit(copy.deepcopy(function))
    return ast.fix_missing_locations(made)


def _allocates(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Assign) and _name(statement.value).startswith("alloc_")


def _first_index(node: ast.Subscript) -> str:
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
    return first.id if isinstance(first, ast.Name) else ""
