"""Macros and value helpers written out where they are called, positions kept.

A `@T.macro` (or an undecorated helper made of tilelang statements) becomes an `Inlined` block at
its call, formals replaced by the actual expressions and own locals renamed apart.
A helper that only returns a value is replaced by that value.
The statements keep the lines of the definition, so two calls give one location.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import NamedTuple

from srcmap.anatomy.names import Aliases, all_arguments, canonical

MAX_DEPTH = 8

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
    """Functions that a kernel can call, innermost definition winning; kernels themselves are not."""
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
    found: list[ast.FunctionDef] = []
    for node in body:
        if isinstance(node, ast.FunctionDef):
            found.append(node)
        elif isinstance(node, (ast.If, ast.With, ast.Try, ast.For)):
            found += _definitions(node.body)
            found += _definitions(getattr(node, "orelse", []))
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
    plain = all(
        (isinstance(step, ast.Expr)
        and isinstance(step.value, ast.Constant))
        or isinstance(step, (ast.Assign, ast.AnnAssign))
        or isinstance(step, ast.FunctionDef)
        for step in before
    )
    return last.value if plain and isinstance(last, ast.Return) else None


def _expand_statement(node: ast.stmt, helpers: Helpers, depth: int) -> ast.stmt:
    if depth > MAX_DEPTH:
        return node
    if isinstance(node, ast.Expr):
        function = helpers.called(node.value)
        if function is not None and helper_value(function) is None:
            return _inline_macro(node, function, helpers, depth)
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
    node: ast.Expr, function: ast.FunctionDef, helpers: Helpers, depth: int
) -> Inlined:
    assert isinstance(node.value, ast.Call)
    substitution = _bind(function, node.value)
    inner = helpers_of_function(function, helpers)
    block = Inlined()
    block.function = function
    block.body = expand(
        [substitution.visit(copy.deepcopy(step)) for step in function.body], inner, depth + 1
    )
    ast.copy_location(block, node)
    return block


def helpers_of_function(function: ast.FunctionDef, helpers: Helpers) -> Helpers:
    """Helpers seen inside a function: those around it and those that it defines."""
    own = {
        node.name: node
        for node in _definitions(function.body)
        if _can_inline(node, helpers.aliases)
    }
    return Helpers({**helpers.functions, **own}, helpers.aliases) if own else helpers


def _bind(function: ast.FunctionDef, call: ast.Call) -> _Substitution:
    formals = all_arguments(function)
    actual: dict[str, ast.expr] = dict(
        zip((formal.arg for formal in formals), call.args, strict=False)
    )
    actual |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    defaults = function.args.defaults
    positional = [*function.args.posonlyargs, *function.args.args]
    for formal, default in zip(
        positional[len(positional) - len(defaults) :], defaults, strict=True
    ):
        actual.setdefault(formal.arg, default)
    mark = f"@{function.name}:{call.lineno}"
    assigned = _assigned_names(function)
    renamed = {name: name + mark for name in assigned if name not in actual}
    return _Substitution({k: v for k, v in actual.items() if k not in assigned}, renamed)


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

    def expand(self, node):  # type: ignore[no-untyped-def]
        """The node itself when it calls no helper, else a rewritten copy."""
        if not any(self.helpers.called(part) for part in ast.walk(node)):
            return node
        return self.visit(copy.deepcopy(node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = self.helpers.called(node)
        if function is None or helper_value(function) is None or self.depth > MAX_DEPTH:
            return node
        value = _value_of(function, node)
        inner = _ValueInliner(helpers_of_function(function, self.helpers), self.depth + 1)
        return ast.copy_location(inner.visit(value), node)


def _value_of(function: ast.FunctionDef, call: ast.Call) -> ast.expr:
    """The returned expression with arguments and the helper's own scalars put in."""
    binding = _bind(function, call)
    known: dict[str, ast.expr] = dict(binding.actual)
    for step in function.body:
        if isinstance(step, ast.Assign) and isinstance(step.targets[0], ast.Name):
            known[step.targets[0].id] = _Substitution(known, {}).visit(copy.deepcopy(step.value))
    returned = helper_value(function)
    assert returned is not None
    return _Substitution(known, {}).visit(copy.deepcopy(returned))
