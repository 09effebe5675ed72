"""Files beside the one that is read: the helpers and kernels that it imports from them.

`from block_causal import _allowed` names a mask helper that only the neighbour defines.
Only helpers that return a value are taken over; statements of another file have no line here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NamedTuple

from srcmap.anatomy.inline import helper_value
from srcmap.anatomy.kernels import builder_names, imports_tilelang, kernel_roots, statements
from srcmap.anatomy.live import without_dead_code
from srcmap.anatomy.names import Aliases, imports_of
from srcmap.errors import ParseError

Sibling = Callable[[str], "bytes | None"]
"""File name in the folder of the file that is read, to its bytes; None when there is none."""


class Beside(NamedTuple):
    """What is imported from the neighbours of one file."""

    functions: dict[str, ast.FunctionDef]
    aliases: Aliases
    runners: frozenset[str]
    """Imported callables that run a kernel, straight or through functions of their file."""


NOTHING = Beside({}, {}, frozenset())


def read_beside(tree: ast.Module, sibling: Sibling | None) -> Beside:
    """The helpers and kernel runners that a file imports from its own folder."""
    if sibling is None:
        return NOTHING
    functions: dict[str, ast.FunctionDef] = {}
    aliases: Aliases = {}
    runners: set[str] = set()
    for module, names in _local_imports(tree).items():
        neighbour = _parse(sibling(f"{module}.py"))
        if neighbour is None:
            continue
        own = {node.name: node for node in neighbour.body if isinstance(node, ast.FunctionDef)}
        values = {name: node for name, node in own.items() if helper_value(node) is not None}
        # A helper may call others of its file; what is imported goes by its name here.
        functions |= values
        functions |= {here: values[there] for here, there in names.items() if there in values}
        aliases.update(imports_of(neighbour.body))
        runners |= {here for here, there in names.items() if there in _runners(neighbour, own)}
    return Beside(functions, aliases, frozenset(runners))


_IMPORT = re.compile(rb"^[ \t]*from[ \t]+\.?(\w+)[ \t]+import\b", re.MULTILINE)


def neighbours_wanted(data: bytes) -> list[str]:
    """File names that `read_beside` may ask for, without parsing: sorted, some may not exist."""
    names = {f"{name.decode()}.py" for name in _IMPORT.findall(data)}
    return sorted(names - {"torch.py", "tilelang.py"})


def _local_imports(tree: ast.Module) -> dict[str, dict[str, str]]:
    """Module beside the file to {local name: name there}."""
    found: dict[str, dict[str, str]] = {}
    for node in statements(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level <= 1:
            if "." in node.module or node.module.startswith(("torch", "tilelang")):
                continue
            names = {alias.asname or alias.name: alias.name for alias in node.names}
            found.setdefault(node.module, {}).update(names)
    return found


def _parse(data: bytes | None) -> ast.Module | None:
    from srcmap.parse.python import parse_python

    if data is None:
        return None
    try:
        return without_dead_code(parse_python(data, "").tree)
    except ParseError:
        return None


def _runners(tree: ast.Module, own: dict[str, ast.FunctionDef]) -> set[str]:
    """Builders of kernels, and functions of the file that call one."""
    if not imports_tilelang(tree):
        return set()
    found = builder_names(kernel_roots(tree))
    while True:
        more = {name for name, node in own.items() if name not in found and _calls_any(node, found)}
        if not more:
            return found
        found |= more


def _calls_any(node: ast.AST, names: set[str]) -> bool:
    return any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names
        for call in ast.walk(node)
    )
