"""Import table: which expression means which name of tilelang, by scope and never by spelling.

`T.copy`, `tilelang.language.copy` and `from tilelang.language import copy` are all `copy`;
`T.tile.fill` is `tile.fill`; `tl.jit` is `tilelang.jit`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.ops import LANGUAGE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

Aliases = dict[str, str]
"""Local name to dotted name."""


def imports_of(body: Iterable[ast.stmt]) -> Aliases:
    """Names that the imports of one body bind, and plain aliases of them (`L = T`)."""
    aliases: Aliases = {}
    pending = list(reversed(list(body)))
    while pending:  # a stack of our own: files can nest deeply
        node = pending.pop()
        match node:
            case ast.Import():
                aliases.update(_import(node))
            case ast.ImportFrom():
                aliases.update(_import_from(node))
            case ast.Assign(
                targets=[ast.Name(id=name)], value=(ast.Name() | ast.Attribute()) as value
            ):
                dotted = _dotted(value, aliases)
                if dotted and dotted.startswith("tilelang"):
                    aliases[name] = dotted
            case ast.If() | ast.Try() | ast.With():
                handled = [step for one in getattr(node, "handlers", ()) for step in one.body]
                pending += reversed([*node.body, *getattr(node, "orelse", ()), *handled])
    return aliases


def aliases_in(scopes: Iterable[ast.Module | ast.FunctionDef]) -> Aliases:
    """Aliases visible inside the last of nested scopes; a parameter shadows an outer import."""
    aliases: Aliases = {}
    for scope in scopes:
        if isinstance(scope, ast.FunctionDef):
            for argument in all_arguments(scope):
                aliases.pop(argument.arg, None)
        aliases.update(imports_of(scope.body))
    return aliases


def canonical(expr: ast.AST, aliases: Aliases) -> str | None:
    """The tilelang name that an expression means (`copy`, `tile.fill`, `tilelang.jit`) or None."""
    dotted = _dotted(expr, aliases)
    if dotted is None or not dotted.startswith("tilelang"):
        return None
    package, _, rest = dotted.partition(".")
    if rest.startswith("language."):
        return rest.removeprefix("language.")
    return f"tilelang.{rest}" if rest else package


def all_arguments(function: ast.FunctionDef) -> list[ast.arg]:
    """Every parameter, in the order in which it is written."""
    spec = function.args
    rest = [extra for extra in (spec.vararg, spec.kwarg) if extra is not None]
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *rest]


def names_in(node: ast.AST) -> set[str]:
    """Every plain name that stands in a node, read or written."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


STAR = "*"
"""The alias that `from tilelang.language import *` leaves: names that nothing else binds."""


def _dotted(expr: ast.AST, aliases: Aliases) -> str | None:
    if isinstance(expr, ast.Name):
        if expr.id not in aliases and STAR in aliases and expr.id in LANGUAGE_NAMES:
            return f"tilelang.language.{expr.id}"
        return aliases.get(expr.id)
    if isinstance(expr, ast.Attribute):
        base = _dotted(expr.value, aliases)
        return None if base is None else f"{base}.{expr.attr}"
    return None


def _import(node: ast.Import) -> Aliases:
    """`import a.b` binds `a`; `import a.b as c` binds `c` to `a.b`."""
    aliases: Aliases = {}
    for name in node.names:
        if name.name.startswith("tilelang"):
            top = name.name.split(".")[0]
            aliases[name.asname or top] = name.name if name.asname else top
    return aliases


def _import_from(node: ast.ImportFrom) -> Aliases:
    module = node.module or ""
    if node.level or not module.startswith("tilelang"):
        return {}
    if any(name.name == STAR for name in node.names):
        return {STAR: module} if module == "tilelang.language" else {}
    return {name.asname or name.name: f"{module}.{name.name}" for name in node.names}
