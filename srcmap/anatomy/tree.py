"""Statements of a kernel with their place: block, index, parents, arm.

This is the tree on which flow, dependence and spans work.
A statement is known by (line, column, type), so two inlinings of one macro give one location.
"""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, Literal

from srcmap.anatomy.inline import Inlined
from srcmap.anatomy.names import Aliases, canonical
from srcmap.model import Lines
from srcmap.parse.spans import node_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["loop", "if", "with", "inline", "def", "simple"]

Block = list["Stmt"]


class Stmt:
    """One statement of a kernel."""

    __slots__ = ("arm", "arms", "block", "index", "kind", "node", "parent", "uid")

    def __init__(
        self, node: ast.stmt, parent: Stmt | None, arm: str, block: Block, uid: int
    ) -> None:
        self.node = node
        self.parent = parent
        """The compound statement around this one."""
        self.arm = arm
        """Which block of the parent: `body` or `orelse`."""
        self.block = block
        """The statements beside this one, itself included."""
        self.index = len(block)
        """Position in the block, from 0."""
        self.uid = uid
        """Order of reading, unique in one kernel."""
        self.kind = _kind(node)
        self.arms: dict[str, Block] = {}
        """The blocks below, by arm."""

    @property
    def lines(self) -> Lines:
        """First to last line, 1-based."""
        return node_lines(self.node)

    @property
    def header_lines(self) -> Lines:
        """The statement down to the end of its condition, iterator or context; no block."""
        match self.node:
            case ast.If(test=last) | ast.For(iter=last):
                return Lines(self.node.lineno, node_lines(last).last)
            case ast.With(items=items):
                ends = [node_lines(item.optional_vars or item.context_expr).last for item in items]
                return Lines(self.node.lineno, max(ends))
        return Lines(self.node.lineno, self.node.lineno)

    @property
    def place(self) -> tuple[int, int, str]:
        """What makes this statement the same in two inlinings."""
        return (self.node.lineno, self.node.col_offset, type(self.node).__name__)

    @property
    def test(self) -> ast.expr | None:
        """The condition of an `if`."""
        return self.node.test if isinstance(self.node, ast.If) else None

    @property
    def with_items(self) -> list[ast.withitem]:
        """What a `with` opens."""
        return self.node.items if isinstance(self.node, ast.With) else []

    @property
    def call(self) -> ast.Call | None:
        """The call that stands alone in a statement."""
        value = self.node.value if isinstance(self.node, ast.Expr) else None
        return value if isinstance(value, ast.Call) else None

    def ancestors(self) -> Iterator[Stmt]:
        """Enclosing compound statements, innermost first."""
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    def tests(self) -> Iterator[tuple[Stmt, ast.expr]]:
        """Every `if` around this statement with its condition, innermost first."""
        for parent in self.ancestors():
            if parent.test is not None:
                yield parent, parent.test

    def inside(self, other: Stmt) -> bool:
        """Whether `other` encloses this one."""
        return any(parent is other for parent in self.ancestors())

    def ancestor_in(self, block: Block) -> Stmt | None:
        """The statement of a block that this one is or stands in."""
        if self in block:
            return self
        return next((parent for parent in self.ancestors() if parent in block), None)

    def walk(self) -> Iterator[Stmt]:
        """The statement and all below, in reading order."""
        yield self
        for block in self.arms.values():
            for child in block:
                yield from child.walk()

    def walk_arm(self, arm: str) -> Iterator[Stmt]:
        """All statements of one arm, in reading order; none when there is no such arm."""
        for child in self.arms.get(arm, ()):
            yield from child.walk()

    def siblings_before(self) -> Iterator[Stmt]:
        """Earlier statements of the same block, nearest first."""
        return reversed(self.block[: self.index])


def build(body: list[ast.stmt]) -> Block:
    """The statement tree of a kernel body."""
    return _build(body, None, "body", itertools.count())


def _build(body: list[ast.stmt], parent: Stmt | None, arm: str, uids: Iterator[int]) -> Block:
    block: Block = []
    for node in body:
        statement = Stmt(node, parent, arm, block, next(uids))
        block.append(statement)
        if statement.kind not in ("simple", "def"):
            for field in ("body", "orelse"):
                inner = getattr(node, field, None)
                if inner:
                    statement.arms[field] = _build(inner, statement, field, uids)
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
