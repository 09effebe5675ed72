"""Statements of a kernel with their place: block, index, parents, arm.

This is the tree on which flow, dependence and spans work.
A statement is known by (line, column, type), so two inlinings of one macro give one location.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from srcmap.anatomy.inline import Inlined
from srcmap.anatomy.names import Aliases, canonical
from srcmap.model import Lines

Kind = Literal["loop", "if", "with", "inline", "def", "simple"]


class Stmt:
    """One statement of a kernel."""

    __slots__ = ("arm", "arms", "block", "index", "kind", "node", "parent", "uid")

    def __init__(
        self, node: ast.stmt, parent: Stmt | None, arm: str, block: list[Stmt], uid: int
    ) -> None:
        self.node = node
        self.parent = parent
        """The compound statement around this one."""
        self.arm = arm
        """Which block of the parent: `body` or `orelse`."""
        self.block = block
        """The statements beside this one, itself included."""
        self.index = len(block)
        self.uid = uid
        """Order of reading, unique in one kernel."""
        self.kind = _kind(node)
        self.arms: dict[str, list[Stmt]] = {}
        """The blocks below, by arm."""

    @property
    def lines(self) -> Lines:
        """First to last line, 1-based."""
        return Lines(self.node.lineno, self.node.end_lineno or self.node.lineno)

    @property
    def place(self) -> tuple[int, int, str]:
        """What makes this statement the same in two inlinings."""
        return (self.node.lineno, self.node.col_offset, type(self.node).__name__)

    def ancestors(self) -> Iterator[Stmt]:
        """Enclosing compound statements, innermost first."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    def inside(self, other: Stmt) -> bool:
        """Whether `other` encloses this one."""
        return any(parent is other for parent in self.ancestors())

    def walk(self) -> Iterator[Stmt]:
        """This statement and all below, in reading order."""
        yield self
        for block in self.arms.values():
            for child in block:
                yield from child.walk()

    def siblings_before(self) -> Iterator[Stmt]:
        """Earlier statements of the same block, nearest first."""
        return reversed(self.block[: self.index])


def build(body: list[ast.stmt]) -> list[Stmt]:
    """The statement tree of a kernel body."""
    counter = iter(range(1_000_000_000))
    return _build(body, None, "body", counter)


def _build(
    body: list[ast.stmt], parent: Stmt | None, arm: str, counter: Iterator[int]
) -> list[Stmt]:
    block: list[Stmt] = []
    for node in body:
        statement = Stmt(node, parent, arm, block, next(counter))
        block.append(statement)
        if statement.kind not in ("simple", "def"):
            for field in ("body", "orelse"):
                inner = getattr(node, field, None)
                if inner:
                    statement.arms[field] = _build(inner, statement, field, counter)
    return block


def _kind(node: ast.stmt) -> Kind:
    match node:
        case ast.For() | ast.While():
            return "loop"
        case ast.If():
            return "if"
        case ast.With():
            return "with"
        case Inlined():
            return "inline"
        case ast.FunctionDef() | ast.ClassDef():
            return "def"
    return "simple"


def loop_variables(statement: Stmt) -> list[str]:
    """Names that a loop binds, in order."""
    node = statement.node
    return target_names(node.target) if isinstance(node, ast.For) else []


def target_names(target: ast.expr | None) -> list[str]:
    """Names bound by an assignment target."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for element in target.elts for name in target_names(element)]
    return []


def loop_call(statement: Stmt) -> ast.Call | None:
    """The iterator call of a `for`: `T.Pipelined(...)`, `range(...)`."""
    node = statement.node
    return node.iter if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) else None


def loop_kind(statement: Stmt, aliases: Aliases) -> str:
    """`Parallel`, `Pipelined`, `serial`, `unroll`, `range`, `while` or another iterator's name."""
    call = loop_call(statement)
    if call is None:
        return "while" if isinstance(statement.node, ast.While) else "other"
    name = canonical(call.func, aliases)
    if name is None:
        name = call.func.id if isinstance(call.func, ast.Name) else "other"
    return name
