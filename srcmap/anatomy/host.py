"""Choosing on the host: `torch.topk` whose result reaches a kernel, and helpers that only choose.

A router of experts chooses too; so a choice counts only when what it chose, or what it chose from,
passes through a kernel of this file or of a file beside it that attends or indexes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from srcmap.anatomy.kernels import statements
from srcmap.anatomy.tree import target_names
from srcmap.model import Lines

MAX_HELPER = 24
"""Statements of a function that still is a helper and not an orchestration."""


def choices(tree: ast.Module, kernels: set[str]) -> Iterator[Lines]:
    """Lines of statements and helpers that choose for a kernel; `kernels` are callables that run one."""
    functions = [node for node in statements(tree) if isinstance(node, ast.FunctionDef)]
    helpers = {f.name: f for f in functions if f.name not in kernels and _is_helper(f, kernels)}
    for function in functions:
        if function.name in helpers or function.name in kernels:
            continue
        makes_inputs = _makes_inputs(function)
        yield from _chosen_in(function, kernels, helpers, statements_count=not makes_inputs)


def _is_helper(function: ast.FunctionDef, kernels: set[str]) -> bool:
    """Short, chooses, returns, and runs no kernel itself."""
    body = list(statements(function))
    returns = any(isinstance(node, ast.Return) and node.value is not None for node in body)
    return (
        len(body) <= MAX_HELPER and returns and _topk_in(function) and not _calls(function, kernels)
    )


def _makes_inputs(function: ast.FunctionDef) -> bool:
    """A driver: it draws the tensors that it then hands to a kernel."""
    draws = {"randn", "rand", "randint", "randperm", "manual_seed", "randn_like", "rand_like"}
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr in draws
        for call in _calls_in(function)
    )


def _chosen_in(
    function: ast.FunctionDef,
    kernels: set[str],
    helpers: dict[str, ast.FunctionDef],
    *,
    statements_count: bool,
) -> Iterator[Lines]:
    runners = kernels | _made_by(function, kernels)
    simple = [
        node
        for node in statements(function)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return))
    ]
    for position, node in enumerate(simple):
        called = _names_called(node)
        chosen = called & set(helpers)
        if not chosen and not (statements_count and _topk_in(node)):
            continue
        if _reaches_kernel(simple[position:], runners) or _comes_from_kernel(
            simple[: position + 1], runners
        ):
            if chosen:
                for name in sorted(chosen):
                    helper = helpers[name]
                    yield Lines(helper.lineno, helper.end_lineno or helper.lineno)
            else:
                yield Lines(node.lineno, node.end_lineno or node.lineno)


def _made_by(function: ast.FunctionDef, kernels: set[str]) -> set[str]:
    """Names that hold a compiled kernel: `kernel = builder(...)`."""
    return {
        name
        for node in statements(function)
        if isinstance(node, ast.Assign) and _names_called(node) & kernels
        for target in node.targets
        for name in target_names(target)
    }


def _reaches_kernel(following: list[ast.stmt], runners: set[str]) -> bool:
    """Whether what the first statement binds is handed to a kernel later."""
    tainted = set(_bound(following[0]))
    for node in following[1:]:
        if any(_hands_over(call, tainted, runners) for call in _calls_in(node)):
            return True
        if _names(node) & tainted:
            tainted |= set(_bound(node))
    return False


def _comes_from_kernel(preceding: list[ast.stmt], runners: set[str]) -> bool:
    """Whether what the last statement chooses from came out of a kernel."""
    tainted: set[str] = set()
    for node in preceding[:-1]:
        if _names_called(node) & runners or _names(node) & tainted:
            tainted |= set(_bound(node)) | _handed(node, runners)
    return bool(_names(preceding[-1]) & tainted)


def _handed(node: ast.stmt, runners: set[str]) -> set[str]:
    """Names given to a kernel whose result is not bound: it writes what it was given."""
    found: set[str] = set()
    if not isinstance(node, ast.Expr):
        return found
    for call in _calls_in(node):
        if _called_name(call) in runners:
            found |= {n.id for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name)}
    return found


def _hands_over(call: ast.Call, tainted: set[str], runners: set[str]) -> bool:
    if _called_name(call) not in runners and not (
        isinstance(call.func, ast.Call) and _called_name(call.func) in runners
    ):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        isinstance(node, ast.Name) and node.id in tainted for one in given for node in ast.walk(one)
    )


def _topk_in(node: ast.AST) -> bool:
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "topk"
        for call in _calls_in(node)
    )


def _calls(node: ast.AST, names: set[str]) -> bool:
    return any(_called_name(call) in names for call in _calls_in(node))


def _calls_in(node: ast.AST) -> list[ast.Call]:
    return [below for below in ast.walk(node) if isinstance(below, ast.Call)]


def _called_name(call: ast.Call) -> str | None:
    return call.func.id if isinstance(call.func, ast.Name) else None


def _names_called(node: ast.AST) -> set[str]:
    return {name for call in _calls_in(node) if (name := _called_name(call)) is not None}


def _names(node: ast.AST) -> set[str]:
    return {below.id for below in ast.walk(node) if isinstance(below, ast.Name)}


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [name for target in node.targets for name in target_names(target)]
    return target_names(node.target) if isinstance(node, ast.AnnAssign) else []
