"""What one run over a kernel finds: events, products, accesses of global memory, tile writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ast

    from srcmap.anatomy.roles import Value
    from srcmap.anatomy.tree import Stmt

RegionKey = tuple[int, int]
"""`uid` of the launch, and the part of it: a grid synchronisation begins another part."""


class Event(NamedTuple):
    """Something that the premise table recognised at a statement."""

    kind: str
    """In capitals, as in `roles.py`: `QK`, `REDUCE-MAX`, `PROB`, ..."""
    statement: Stmt
    region: RegionKey
    target: str | None
    """The buffer or scalar that the statement writes."""
    because: tuple[tuple[str, int], ...]
    """The roles of the operands and the `uid` of the statements that made them."""


class Product(NamedTuple):
    """One matrix product: operands with their roles, before it ran."""

    kind: str
    """`QK`, `PV`, `GRAD` or `OTHER`."""
    statement: Stmt
    region: RegionKey
    call: ast.Call
    operands: tuple[ast.expr, ...]
    """Left and right as written, whether by position or by keyword."""
    left: Value
    right: Value
    target: str | None

    @property
    def weights(self) -> ast.expr:
        """In a product with probabilities, the operand that holds them, as written."""
        return self.operands[0 if "prob" in self.left else 1]

    @property
    def loaded_side(self) -> Value:
        """In a product with probabilities, the operand that they weigh."""
        return self.right if "prob" in self.left else self.left


class Access(NamedTuple):
    """A read or a write of global memory."""

    name: str
    statement: Stmt
    region: RegionKey
    expr: ast.expr
    """The subscript (or whole tensor) as written."""
    value: Value
    """What is written; empty for a read."""


class Write(NamedTuple):
    """A value that a tile received."""

    statement: Stmt
    buffer: str
    value: Value

    def is_only(self, tags: frozenset[str]) -> bool:
        """Whether something was understood, and nothing beside these roles."""
        return bool(self.value) and self.value.keys() <= tags


class Unread(NamedTuple):
    """A call that the table of operations does not know."""

    name: str
    statement: Stmt
    buffers: tuple[str, ...]
    """Buffers that it is given, sorted."""


class Reading:
    """What one run over a kernel found."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, int, str | None], Event] = {}
        """By kind, statement and target."""
        self.products: dict[int, Product] = {}
        """By statement."""
        self.loads: dict[tuple[int, str, int], Access] = {}
        """By statement, tensor and subscript."""
        self.stores: dict[tuple[int, str], Access] = {}
        """By statement and tensor."""
        self.writes: list[Write] = []
        """In the order of the run; a loop that runs twice writes twice."""
        self.unread: dict[int, Unread] = {}
        """By statement."""

    def of(self, *kinds: str) -> list[Event]:
        """Events of some kinds, in reading order."""
        found = [event for event in self.events.values() if event.kind in kinds]
        return sorted(found, key=lambda event: event.statement.uid)

    def signature(self) -> frozenset[tuple[str, int]]:
        """Equal when two passes saw the same."""
        kinds = {(event.kind, event.statement.uid) for event in self.events.values()}
        return frozenset(kinds | {(p.kind, p.statement.uid) for p in self.products.values()})
