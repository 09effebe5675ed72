"""Where the kernels of a file are: roots, their builders, their launch regions, their parameters.

A kernel is a function under `@T.prim_func`, or one whose own body launches with `with T.Kernel`
(eager `@tilelang.jit` style).  Reference code, drivers and other languages' kernels are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from srcmap.anatomy.inline import Helpers, Scope, decorator_name, expand, helpers_of
from srcmap.anatomy.names import Aliases, aliases_in, all_arguments, canonical

KERNEL_DECORATORS = {"prim_func"}
JIT_DECORATORS = {"tilelang.jit", "tilelang.lazy_jit", "jit"}


class KernelRoot(NamedTuple):
    """One kernel function before it is read."""

    function: ast.FunctionDef
    scopes: tuple[Scope, ...]
    """Module, builders from the outside in, and the kernel itself last."""
    qualname: str
    aliases: Aliases
    helpers: Helpers
    body: list[ast.stmt]
    """The statements with macros written out."""

    @property
    def builders(self) -> tuple[ast.FunctionDef, ...]:
        """Enclosing functions, outermost first."""
        return tuple(scope for scope in self.scopes[:-1] if isinstance(scope, ast.FunctionDef))


def kernel_roots(tree: ast.Module) -> list[KernelRoot]:
    """All kernels of a file in source order, wherever they are nested."""
    if not _mentions_tilelang(tree):
        return []
    roots = [_root(scopes) for scopes in _functions((tree,)) if _is_kernel(scopes)]
    return [root for root in roots if _launches(root.body, root.aliases)]


def qualnames(tree: ast.Module) -> dict[ast.AST, str]:
    """Qualified name of every definition; `name#2` for the second of one name in one scope."""
    names: dict[ast.AST, str] = {}
    _name_definitions(tree, "", names)
    return names


def parameters(root: KernelRoot) -> dict[str, int]:
    """Name to line of every tensor or scalar that a kernel takes, annotated in place or in its body."""
    found = {argument.arg: argument.lineno for argument in all_arguments(root.function)}
    for node in root.function.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is None:
            found[node.target.id] = node.lineno
    return found


def is_launch(node: ast.AST, aliases: Aliases) -> bool:
    """Whether this is `with T.Kernel(...)`."""
    return isinstance(node, ast.With) and any(
        isinstance(item.context_expr, ast.Call) and canonical(item.context_expr.func, aliases) == "Kernel"
        for item in node.items
    )


def _mentions_tilelang(tree: ast.Module) -> bool:
    return any(
        name.startswith("tilelang")
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    )


def _functions(scopes: tuple[Scope, ...]) -> Iterator[tuple[Scope, ...]]:
    for node in _nested(scopes[-1].body):
        inner = (*scopes, node) if isinstance(node, ast.FunctionDef) else (*scopes, _as_scope(node))
        if isinstance(node, ast.FunctionDef):
            yield inner
        yield from _functions(inner)


def _as_scope(node: ast.ClassDef) -> ast.Module:
    return ast.Module(body=node.body, type_ignores=[])


def _nested(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.If, ast.With, ast.Try, ast.For, ast.While)):
            yield from _nested(node.body)
            yield from _nested(getattr(node, "orelse", []))


def _is_kernel(scopes: tuple[Scope, ...]) -> bool:
    function = scopes[-1]
    assert isinstance(function, ast.FunctionDef)
    aliases = aliases_in(scopes)
    names = {decorator_name(decorator, aliases) for decorator in function.decorator_list}
    if "macro" in names:
        return False
    return bool(names & KERNEL_DECORATORS) or _launches_itself(function.body, aliases)


def _launches_itself(body: list[ast.stmt], aliases: Aliases) -> bool:
    return any(
        is_launch(node, aliases)
        or (isinstance(node, (ast.If, ast.For, ast.While)) and _launches_itself(node.body, aliases))
        or (isinstance(node, ast.If) and _launches_itself(node.orelse, aliases))
        for node in body
    )


def _launches(body: list[ast.stmt], aliases: Aliases) -> bool:
    return any(is_launch(node, aliases) for top in body for node in ast.walk(top))


def _root(scopes: tuple[Scope, ...]) -> KernelRoot:
    function = scopes[-1]
    assert isinstance(function, ast.FunctionDef)
    aliases = aliases_in(scopes)
    helpers = helpers_of(scopes, aliases)
    body = expand(function.body, helpers)
    return KernelRoot(function, scopes, "", aliases, helpers, body)


def _name_definitions(node: ast.AST, prefix: str, names: dict[ast.AST, str]) -> None:
    counts: dict[str, int] = {}
    for child in _definitions_below(node):
        counts[child.name] = counts.get(child.name, 0) + 1
        ordinal = f"#{counts[child.name]}" if counts[child.name] > 1 else ""
        names[child] = f"{prefix}{child.name}{ordinal}"
        _name_definitions(child, names[child] + ".", names)


def _definitions_below(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child
        elif isinstance(child, (ast.stmt, ast.excepthandler)):
            yield from _definitions_below(child)
