"""Code that can run: a tree in, the same tree without what no execution reaches out.

Statements after `return`, `raise`, `break` or `continue`, and arms of `if` and `while` whose test
is a constant, are dead: they must give no location and stand in no location's way.
"""

from __future__ import annotations

import ast

BLOCKS = ("body", "orelse", "finalbody")
LEAVING = (ast.Return, ast.Raise, ast.Break, ast.Continue)


def without_dead_code(tree: ast.Module) -> ast.Module:
    """Take dead statements out of a tree, in place; a block that loses all keeps a `pass`."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        for field in BLOCKS:
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                live = _live(block)
                setattr(node, field, live if live or field != "body" else [_pass_at(block[0])])
                pending += live
        pending += [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    return tree


def _live(block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block that can run; a constant `if` gives way to the arm it takes."""
    found: list[ast.stmt] = []
    pending = list(reversed(block))
    while pending:
        statement = pending.pop()
        taken = _taken(statement)
        if taken is not None:
            pending += reversed(taken)
            continue
        found.append(statement)
        if isinstance(statement, LEAVING):
            break
    return found


def _taken(statement: ast.stmt) -> list[ast.stmt] | None:
    """What a statement with a constant test comes to; None when its test is not constant."""
    if not isinstance(statement, (ast.If, ast.While)):
        return None
    truth = _constant_truth(statement.test)
    if truth is None or (truth and isinstance(statement, ast.While)):
        return None
    return statement.body if truth else statement.orelse


def _constant_truth(test: ast.expr) -> bool | None:
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _constant_truth(test.operand)
        return None if inner is None else not inner
    return None


def _pass_at(statement: ast.stmt) -> ast.Pass:
    return ast.copy_location(ast.Pass(), statement)
