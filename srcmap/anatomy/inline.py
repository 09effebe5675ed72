"""Macros and value helpers written out where they are called, positions kept.

A `@T.macro` (or an undecorated helper made of tilelang statements) becomes an `Inlined` block at
its call, formals replaced by the actual expressions and own locals renamed apart.
A helper that only returns a value is replaced by that value.
The statements keep the lines of the definition, so two calls give one location.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from srcmap.anatomy.names import Aliases, all_arguments, canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_DEPTH = 8
"""How deep helpers of helpers are written out; a helper may call itself."""

Node = TypeVar("Node", bound=ast.AST)

Scope = ast.Module | ast.FunctionDef


class Inlined(ast.stmt):
    """The body of a macro at the place of one call. `lineno` is the call's."""

    _fields = ("body",)
    body: list[ast.stmt]
    function: ast.FunctionDef
    """The macro."""


class Helpers(NamedTuple):
    """What can be inlined inside one kernel."""

    functions: dict[str, ast.FunctionDef]
    aliases: Aliases

    def called(self, call: ast.AST) -> ast.FunctionDef | None:
        """The definition that a call names, if it is one of ours."""
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            return self.functions.get(call.func.id)
        return None


def helpers_of(scopes: Sequence[Scope], aliases: Aliases) -> Helpers:
    """Functions that a kernel can call, the innermost of one name; kernels are not among them."""
    functions: dict[str, ast.FunctionDef] = {}
    for scope in scopes:
        for node in _definitions(scope.body):
            if _can_inline(node, aliases):
                functions[node.name] = node
    return Helpers(functions, aliases)


def expand(body: list[ast.stmt], helpers: Helpers, depth: int = 0) -> list[ast.stmt]:
    """The statements of a kernel with every helper written out."""
    if not helpers.functions:
        return body
    return [_expand_statement(node, helpers, depth) for node in body]


def _definitions(body: list[ast.stmt]) -> list[ast.FunctionDef]:
    """Functions of one scope in source order, with a stack of our own: files can nest deeply."""
    found: list[ast.FunctionDef] = []
    pending = list(reversed(body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef):
            found.append(node)
        elif isinstance(node, (ast.If, ast.With, ast.Try, ast.For)):
            pending += reversed([*node.body, *getattr(node, "orelse", ())])
    return found


def _can_inline(node: ast.FunctionDef, aliases: Aliases) -> bool:
    names = [decorator_name(decorator, aliases) for decorator in node.decorator_list]
    if "macro" in names:
        return True
    return not names and (helper_value(node) is not None or _has_tile_statement(node.body, aliases))


def decorator_name(decorator: ast.expr, aliases: Aliases) -> str | None:
    """Canonical name of a decorator, called or not."""
    return canonical(decorator.func if isinstance(decorator, ast.Call) else decorator, aliases)


def _has_tile_statement(body: list[ast.stmt], aliases: Aliases) -> bool:
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if canonical(node.value.func, aliases):
                return True
        elif isinstance(node, (ast.For, ast.If, ast.With)) and _has_tile_statement(
            node.body, aliases
        ):
            return True
    return False


def helper_value(node: ast.FunctionDef) -> ast.expr | None:
    """The value of a helper that assigns scalars and returns one expression."""
    *before, last = node.body or [ast.Pass()]
    if not isinstance(last, ast.Return) or not all(_computes_nothing_else(step) for step in before):
        return None
    return last.value


def _computes_nothing_else(step: ast.stmt) -> bool:
    """Whether a step only names a value or documents."""
    if isinstance(step, ast.Expr):
        return isinstance(step.value, ast.Constant)
    return isinstance(step, (ast.Assign, ast.AnnAssign, ast.FunctionDef))


def _expand_statement(node: ast.stmt, helpers: Helpers, depth: int) -> ast.stmt:
    if depth > MAX_DEPTH:
        return node
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = helpers.called(node.value)
        if function is not None and helper_value(function) is None:
            return _inline_macro(node.value, function, helpers, depth)
    if isinstance(node, (ast.For, ast.If, ast.With, ast.While)):
        return _expand_block(node, helpers, depth)
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)):
        return _ValueInliner(helpers, depth).expand(node)
    return node


def _expand_block(node: ast.stmt, helpers: Helpers, depth: int) -> ast.stmt:
    changed = copy.copy(node)
    for field in ("body", "orelse"):
        block = getattr(node, field, None)
        if block:
            setattr(changed, field, expand(block, helpers, depth))
    if isinstance(changed, (ast.If, ast.While)):
        changed.test = _ValueInliner(helpers, depth).expand(changed.test)
    return changed


def _inline_macro(
    call: ast.Call, function: ast.FunctionDef, helpers: Helpers, depth: int
) -> Inlined:
    substitution = _bind(function, call)
    inner = helpers_of_function(function, helpers)
    block = Inlined()
    block.function = function
    steps = [substitution.applied(step) for step in function.body]
    block.body = expand(steps, inner, depth + 1)
    return ast.copy_location(block, call)


def helpers_of_function(function: ast.FunctionDef, helpers: Helpers) -> Helpers:
    """Helpers seen inside a function: those around it and those that it defines."""
    own = {
        node.name: node
        for node in _definitions(function.body)
        if _can_inline(node, helpers.aliases)
    }
    return Helpers({**helpers.functions, **own}, helpers.aliases) if own else helpers


def _bind(function: ast.FunctionDef, call: ast.Call) -> _Substitution:
    """The substitution that a call makes in the body of the function it calls."""
    formals = (formal.arg for formal in all_arguments(function))
    actual = _defaults(function)
    actual |= zip(formals, call.args, strict=False)
    actual |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    mark = f"@{function.name}:{call.lineno}"
    assigned = _assigned_names(function)
    renamed = {name: name + mark for name in assigned if name not in actual}
    return _Substitution({k: v for k, v in actual.items() if k not in assigned}, renamed)


def _defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults = function.args.defaults
    optional = positional[len(positional) - len(defaults) :]
    return {formal.arg: value for formal, value in zip(optional, defaults, strict=True)}


def _assigned_names(function: ast.FunctionDef) -> set[str]:
    return {
        node.id
        for step in function.body
        for node in ast.walk(step)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


class _Substitution(ast.NodeTransformer):
    """Replaces formals by actual expressions and renames the locals of one inlining apart."""

    def __init__(self, actual: dict[str, ast.expr], renamed: dict[str, str]) -> None:
        self.actual = actual
        self.renamed = renamed

    def applied(self, node: Node) -> Node:
        """A copy of a node with everything put in."""
        changed: Node = self.visit(copy.deepcopy(node))
        return changed

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.renamed:
            return ast.copy_location(ast.Name(self.renamed[node.id], node.ctx), node)
        value = self.actual.get(node.id)
        return node if value is None else value


class _ValueInliner(ast.NodeTransformer):
    """Replaces calls of value helpers by the value that they return."""

    def __init__(self, helpers: Helpers, depth: int) -> None:
        self.helpers = helpers
        self.depth = depth

    def expand(self, node: Node) -> Node:
        """The node itself when it calls no helper, else a rewritten copy."""
        if not any(self.helpers.called(part) for part in ast.walk(node)):
            return node
        changed: Node = self.visit(copy.deepcopy(node))
        return changed

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = self.helpers.called(node)
        returned = None if function is None else helper_value(function)
        if function is None or returned is None or self.depth > MAX_DEPTH:
            return node
        value = _returned(function, returned, node)
        inner = _ValueInliner(helpers_of_function(function, self.helpers), self.depth + 1)
        return ast.copy_location(inner.expand(value), node)


def _returned(function: ast.FunctionDef, returned: ast.expr, call: ast.Call) -> ast.expr:
    """The returned expression with arguments and the helper's own scalars put in."""
    known = dict(_bind(function, call).actual)
    for step in function.body:
        if isinstance(step, ast.Assign) and isinstance(step.targets[0], ast.Name):
            known[step.targets[0].id] = _Substitution(known, {}).applied(step.value)
    return _Substitution(known, {}).applied(returned)
