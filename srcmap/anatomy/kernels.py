"""Where the kernels of a file are: roots, their builders, their launch regions, their parameters.

A kernel is a function under `@T.prim_func`, or one whose own body launches with `with T.Kernel`
(eager `@tilelang.jit` style).  Reference code, drivers and other languages' kernels are not.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from srcmap.anatomy.inline import Helpers, Scope, decorator_name, expand, helpers_of
from srcmap.anatomy.names import Aliases, aliases_in, all_arguments, canonical

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KERNEL_DECORATORS = {"prim_func"}

Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class KernelRoot(NamedTuple):
    """One kernel function before it is read."""

    function: ast.FunctionDef
    scopes: tuple[Scope, ...]
    """Module, builders from the outside in, and the kernel itself last."""
    aliases: Aliases
    helpers: Helpers
    body: list[ast.stmt]
    """The statements with macros written out."""

    @property
    def builders(self) -> tuple[ast.FunctionDef, ...]:
        """Enclosing functions, outermost first."""
        return tuple(scope for scope in self.scopes[:-1] if isinstance(scope, ast.FunctionDef))


def kernel_roots(
    tree: ast.Module,
    helpers: dict[str, ast.FunctionDef] | None = None,
    aliases: Aliases | None = None,
) -> list[KernelRoot]:
    """All kernels of a file in source order, wherever they are nested.

    `helpers` and `aliases` come from files beside this one; its own win.
    """
    if not imports_tilelang(tree):
        return []
    foreign = helpers or {}, aliases or {}
    roots = [
        _root(function, scopes, *foreign)
        for scopes, function in _functions((tree,))
        if _is_kernel(function, scopes)
    ]
    return [root for root in roots if _launches(root.body, root.aliases)]


def qualnames(tree: ast.Module) -> dict[Named, str]:
    """Qualified name of every definition; `name#2` for the second of one name in one scope."""
    names: dict[Named, str] = {}
    # A stack of our own: a file nested deeply must not end the walk.
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        counts: dict[str, int] = {}
        for child in _definitions_below(node):
            counts[child.name] = counts.get(child.name, 0) + 1
            ordinal = f"#{counts[child.name]}" if counts[child.name] > 1 else ""
            names[child] = f"{prefix}{child.name}{ordinal}"
            pending.append((child, names[child] + "."))
    return names


def parameters(root: KernelRoot) -> dict[str, int]:
    """Name to line of every tensor or scalar that a kernel takes."""
    found = {argument.arg: argument.lineno for argument in all_arguments(root.function)}
    return found | {name: node.lineno for name, node in _annotated_in_body(root.function)}


def annotation_of(root: KernelRoot, parameter: str) -> ast.expr | None:
    """How a parameter is annotated: in the signature, or in the body (`Q: T.Tensor(...)`)."""
    for argument in all_arguments(root.function):
        if argument.arg == parameter and argument.annotation is not None:
            return argument.annotation
    in_body = (node for name, node in _annotated_in_body(root.function) if name == parameter)
    return next((node.annotation for node in in_body), None)


def is_launch(node: ast.AST, aliases: Aliases) -> bool:
    """Whether this is `with T.Kernel(...)`."""
    return isinstance(node, ast.With) and any(
        isinstance(item.context_expr, ast.Call)
        and canonical(item.context_expr.func, aliases) == "Kernel"
        for item in node.items
    )


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement of a tree, however deep; expressions are not entered."""
    pending: list[ast.AST] = [tree]
    while pending:
        for child in _statements_of(pending.pop()):
            yield child
            pending.append(child)


def builder_names(roots: Iterable[KernelRoot]) -> set[str]:
    """Functions that make or are these kernels."""
    return {one.name for root in roots for one in (*root.builders, root.function)}


def imports_tilelang(tree: ast.Module) -> bool:
    """Whether a file imports tilelang anywhere: no kernel can be in one that does not."""
    return any(
        name.startswith("tilelang")
        for node in statements(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
    )


def _annotated_in_body(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    """Parameters in eager style: annotations without a value."""
    for node in function.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.value:
            yield node.target.id, node


def _functions(
    scopes: tuple[Scope, ...],
) -> Iterator[tuple[tuple[Scope, ...], ast.FunctionDef]]:
    """Every function with the scopes down to its own, however deep in functions and classes."""
    for node in _definitions_below(scopes[-1]):
        if isinstance(node, ast.FunctionDef):
            inner = (*scopes, node)
            yield inner, node
            yield from _functions(inner)
        elif isinstance(node, ast.ClassDef):
            yield from _functions((*scopes, ast.Module(body=node.body, type_ignores=[])))


def _is_kernel(function: ast.FunctionDef, scopes: tuple[Scope, ...]) -> bool:
    aliases = aliases_in(scopes)
    names = {decorator_name(decorator, aliases) for decorator in function.decorator_list}
    if "macro" in names:
        return False
    return bool(names & KERNEL_DECORATORS) or _launches_itself(function.body, aliases)


def _launches_itself(body: list[ast.stmt], aliases: Aliases) -> bool:
    pending = list(body)
    while pending:  # a stack of our own: files can nest deeply
        node = pending.pop()
        if is_launch(node, aliases):
            return True
        if isinstance(node, (ast.If, ast.For, ast.While)):
            pending += [*node.body, *node.orelse]
    return False


def _launches(body: list[ast.stmt], aliases: Aliases) -> bool:
    return any(is_launch(node, aliases) for top in body for node in ast.walk(top))


def _root(
    function: ast.FunctionDef,
    scopes: tuple[Scope, ...],
    foreign: dict[str, ast.FunctionDef],
    foreign_aliases: Aliases,
) -> KernelRoot:
    aliases = {**foreign_aliases, **aliases_in(scopes)}
    own = helpers_of(scopes, aliases)
    helpers = Helpers({**foreign, **own.functions}, aliases)
    body = expand(function.body, helpers)
    return KernelRoot(function, scopes, aliases, helpers, body)


def _definitions_below(node: ast.AST) -> Iterator[Named]:
    """Definitions of one scope in source order, through `if`, `try`, `with` and loops."""
    pending = list(reversed(_statements_of(node)))
    while pending:
        child = pending.pop()
        if isinstance(child, Named):
            yield child
        else:
            pending += reversed(_statements_of(child))


def _statements_of(node: ast.AST) -> list[ast.stmt]:
    """The statements right below a node; clauses of `try` and `match` are looked through."""
    found: list[ast.stmt] = []
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        for child in getattr(node, field, None) or ():
            clause = isinstance(child, (ast.excepthandler, ast.match_case))
            found += _statements_of(child) if clause else [child]
    return found
