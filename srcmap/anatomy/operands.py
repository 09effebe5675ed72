"""Which global tensors are the queries, the keys, the values and the workspaces of a kernel.

Buffer names say nothing (Ascend reuses one buffer for both products), so an operand is known by the
loads that flow into a product; the key is the operand whose address moves more.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from srcmap.anatomy import ops
from srcmap.anatomy.context import Context, index_items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from srcmap.anatomy.definitions import Atom
    from srcmap.anatomy.deps import Dependencies
    from srcmap.anatomy.reading import Access, Product, Reading
    from srcmap.anatomy.roles import Value
    from srcmap.anatomy.tree import Stmt


class Operands(NamedTuple):
    """Which side of the first product is the query."""

    query: Value
    key: Value
    transposed: bool
    """Keys are the rows of the score tile."""


class Tensors:
    """The global tensors of one kernel, by what is done with them."""

    def __init__(self, context: Context, deps: Dependencies, reading: Reading) -> None:
        self.context = context
        self.deps = deps
        self.reading = reading
        self.guessed = False
        """Whether query and key were told apart by their order in the signature alone."""
        self._by_uid = {statement.uid: statement for statement in context.statements}

    # looking things up

    def statement(self, uid: int) -> Stmt | None:
        """The statement of a `uid`."""
        return self._by_uid.get(uid)

    def tiles_with(self, *tags: str) -> set[str]:
        """Tiles that hold one of these roles at some time."""
        wanted = set(tags)
        return {write.buffer for write in self.reading.writes if wanted & write.value.keys()}

    @cached_property
    def _loads_by_name(self) -> dict[str, list[Access]]:
        table: dict[str, list[Access]] = {}
        for access in self.reading.loads.values():
            table.setdefault(access.name, []).append(access)
        return table

    def loads_of(self, name: str) -> list[Access]:
        """Reads of one global tensor."""
        return self._loads_by_name.get(name, [])

    def loads_of_all(self, names: Iterable[str]) -> list[Access]:
        """Reads of some global tensors."""
        return [access for name in names for access in self.loads_of(name)]

    def index_atoms(self, access: Access, *, lookups: bool) -> set[Atom]:
        """What the index of a global access rests on."""
        return {
            atom
            for item in index_items(access.expr)
            for atom in self.deps.atoms(item, access.statement, lookups=lookups)
        }

    def all_atoms(self, names: Iterable[str], *, lookups: bool = False) -> set[Atom]:
        """What the indices of some tensors rest on, in any of their loads."""
        accesses = self.loads_of_all(names)
        return {atom for access in accesses for atom in self.index_atoms(access, lookups=lookups)}

    def common_atoms(self, names: Iterable[str]) -> set[Atom]:
        """What the indices of some tensors rest on in every load, tables not followed."""
        sets = [self.index_atoms(access, lookups=False) for access in self.loads_of_all(names)]
        return set.intersection(*sets) if sets else set()

    def is_map_atom(self, atom: Atom) -> bool:
        """Whether a loop atom is the variable of an element-wise loop."""
        statement = self.statement(atom.at)
        return statement is not None and self.context.is_map_loop(statement)

    # products and their operands

    @cached_property
    def qk_products(self) -> list[Product]:
        """Products of queries and keys, in order."""
        return [product for product in self.reading.products.values() if product.kind == "QK"]

    @cached_property
    def pv_products(self) -> list[Product]:
        """Products of probabilities and values, in order."""
        return [product for product in self.reading.products.values() if product.kind == "PV"]

    @cached_property
    def operands(self) -> dict[int, Operands]:
        """Per product of queries and keys (by statement), which side is which."""
        return {product.statement.uid: self._operands(product) for product in self.qk_products}

    @cached_property
    def query_tensors(self) -> set[str]:
        """Global tensors that the queries come from."""
        found = {name for one in self.operands.values() for name in tensors(one.query)}
        return found - self.workspaces

    @cached_property
    def key_tensors(self) -> set[str]:
        """Global tensors that the keys come from."""
        found = {name for one in self.operands.values() for name in tensors(one.key)}
        return found - self.workspaces - (self.query_tensors if len(found) > 1 else set())

    @cached_property
    def value_tensors(self) -> set[str]:
        """Global tensors that the values come from."""
        found = {name for product in self.pv_products for name in tensors(product.loaded_side)}
        return found - self.workspaces

    def _operands(self, product: Product) -> Operands:
        """Tell the sides apart: by the innermost loop that moves one, by a table, by the order."""
        left, right = self._loops_of(product.left), self._loops_of(product.right)
        for loop in product.statement.ancestors():
            in_left, in_right = (any(atom.at == loop.uid for atom in one) for one in (left, right))
            if loop.kind == "loop" and in_left != in_right:
                return _with_key(product, left=in_left)
        if len(left - right) != len(right - left):
            return _with_key(product, left=len(left - right) > len(right - left))
        left_looks_up, right_looks_up = map(self._looks_up, (product.left, product.right))
        if left_looks_up != right_looks_up:
            return _with_key(product, left=left_looks_up)
        self.guessed = True
        return _with_key(product, left=self._right_is_first(product))

    def _loops_of(self, value: Value) -> set[Atom]:
        """Serial loops that an operand's address moves with."""
        atoms = self.all_atoms(tensors(value), lookups=True)
        return {atom for atom in atoms if atom.origin == "loop" and not self.is_map_atom(atom)}

    def _looks_up(self, value: Value) -> bool:
        """Whether an operand is loaded at an address that a table gives."""
        return any(atom.origin == "lookup" for atom in self.all_atoms(tensors(value)))

    def _right_is_first(self, product: Product) -> bool:
        """Whether the right operand's tensor comes before the left one's among the parameters."""
        order = list(self.context.parameters)
        left = [order.index(name) for name in tensors(product.left) if name in order]
        right = [order.index(name) for name in tensors(product.right) if name in order]
        return bool(left and right) and min(right) < min(left)

    @cached_property
    def query_loads(self) -> list[Stmt]:
        """Statements that load queries from global memory."""
        return [access.statement for access in self.loads_of_all(self.query_tensors)]

    # workspaces

    @cached_property
    def workspaces(self) -> set[str]:
        """Global tensors written and read in one region, or named by `workspace_idx`."""
        written = {(access.region, access.name) for access in self.reading.stores.values()}
        read = {(access.region, access.name) for access in self.reading.loads.values()}
        return {name for _, name in written & read} | self._declared_workspaces()

    def _declared_workspaces(self) -> set[str]:
        """Parameters at the positions that `workspace_idx` of the jit decorator names."""
        order = list(self.context.parameters)
        positions = (
            position
            for scope in self.context.root.scopes[1:]
            for decorator in getattr(scope, "decorator_list", ())
            if isinstance(decorator, ast.Call)
            for position in _integers(ops.keyword(decorator, "workspace_idx"))
        )
        return {order[at] for at in positions if -len(order) <= at < len(order)}


def tensors(value: Value) -> set[str]:
    """The global tensors that a value was loaded from."""
    return {tag[2:] for tag in value if tag.startswith("L:")}


def _with_key(product: Product, *, left: bool) -> Operands:
    if left:
        return Operands(product.right, product.left, transposed=True)
    return Operands(product.left, product.right, transposed=False)


def _integers(value: ast.expr | None) -> Iterator[int]:
    match value:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _integers(element)
        case ast.Constant(value=int() as number):
            yield number
        case ast.UnaryOp(operand=ast.Constant(value=int() as number)):
            yield -number
