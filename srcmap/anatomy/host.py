"""Choosing on the host: `torch.topk` whose result reaches a kernel, and helpers that only choose.

A router of experts chooses too; so a choice counts only when what it chose, or what it chose from,
passes through a kernel of this file or of a file beside it that attends or indexes.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.kernels import statements
from srcmap.anatomy.names import names_in
from srcmap.anatomy.tree import target_names
from srcmap.parse.spans import node_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.model import Lines

DRAWS = {"randn", "rand", "randint", "randperm", "manual_seed", "randn_like", "rand_like"}
"""Functions of torch that only a driver calls: they make up the inputs of a kernel."""

MAX_HELPER = 24
"""Statements of a function that still is a helper and not an orchestration."""


def choices(tree: ast.Module, kernels: set[str]) -> Iterator[Lines]:
    """Lines of statements and helpers that choose for a kernel.

    `kernels` are the callables that run one.
    """
    functions = [node for node in statements(tree) if isinstance(node, ast.FunctionDef)]
    helpers = {f.name: f for f in functions if f.name not in kernels and _is_helper(f, kernels)}
    for function in functions:
        if function.name in helpers or function.name in kernels:
            continue
        yield from _ChosenIn(function, kernels, helpers).lines()


def _is_helper(function: ast.FunctionDef, kernels: set[str]) -> bool:
    """Short, chooses, returns, and runs no kernel itself."""
    body = list(statements(function))
    returns = any(isinstance(node, ast.Return) and node.value is not None for node in body)
    return (
        len(body) <= MAX_HELPER and returns and _topk_in(function) and not _calls(function, kernels)
    )


def _makes_inputs(function: ast.FunctionDef) -> bool:
    """A driver: it draws the tensors that it then hands to a kernel."""
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr in DRAWS
        for call in _calls_in(function)
    )


class _ChosenIn:
    """What one function chooses for a kernel."""

    def __init__(
        self, function: ast.FunctionDef, kernels: set[str], helpers: dict[str, ast.FunctionDef]
    ) -> None:
        self.helpers = helpers
        self.runners = kernels | _made_by(function, kernels)
        self.own_choices_count = not _makes_inputs(function)
        plain = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)
        self.steps = [node for node in statements(function) if isinstance(node, plain)]

    def lines(self) -> Iterator[Lines]:
        """The helper that a step calls to choose, or the step that chooses itself."""
        for position, node in enumerate(self.steps):
            called = sorted(_names_called(node) & set(self.helpers))
            chooses = called or (self.own_choices_count and _topk_in(node))
            if not chooses or not self._meets_kernel(position):
                continue
            if called:
                yield from (node_lines(self.helpers[name]) for name in called)
            else:
                yield node_lines(node)

    def _meets_kernel(self, position: int) -> bool:
        """Whether what a step binds reaches a kernel, or what it reads came out of one."""
        return _reaches_kernel(self.steps[position:], self.runners) or _comes_from_kernel(
            self.steps[: position + 1], self.runners
        )


def _made_by(function: ast.FunctionDef, kernels: set[str]) -> set[str]:
    """Names that hold a compiled kernel: `kernel = builder(...)`."""
    return {
        name
        for node in statements(function)
        if isinstance(node, ast.Assign) and _names_called(node) & kernels
        for target in node.targets
        for name in target_names(target)
    }


def _reaches_kernel(following: Sequence[ast.stmt], runners: set[str]) -> bool:
    """Whether what the first statement binds is handed to a kernel later."""
    tainted = set(_bound(following[0]))
    for node in following[1:]:
        if any(_hands_over(call, tainted, runners) for call in _calls_in(node)):
            return True
        if names_in(node) & tainted:
            tainted |= set(_bound(node))
    return False


def _comes_from_kernel(preceding: Sequence[ast.stmt], runners: set[str]) -> bool:
    """Whether what the last statement chooses from came out of a kernel."""
    tainted: set[str] = set()
    for node in preceding[:-1]:
        if _names_called(node) & runners or names_in(node) & tainted:
            tainted |= set(_bound(node)) | _handed(node, runners)
    return bool(names_in(preceding[-1]) & tainted)


def _handed(node: ast.stmt, runners: set[str]) -> set[str]:
    """Names given to a kernel whose result is not bound: it writes what it was given."""
    if not isinstance(node, ast.Expr):
        return set()
    calls = [call for call in _calls_in(node) if _called_name(call) in runners]
    return {name for call in calls for argument in call.args for name in names_in(argument)}


def _hands_over(call: ast.Call, tainted: set[str], runners: set[str]) -> bool:
    """Whether a call of a kernel, or of what a builder returns, is given something tainted."""
    made = call.func if isinstance(call.func, ast.Call) else call
    if _called_name(call) not in runners and _called_name(made) not in runners:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(names_in(one) & tainted for one in given)


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


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [name for target in node.targets for name in target_names(target)]
    return target_names(node.target) if isinstance(node, ast.AnnAssign) else []
