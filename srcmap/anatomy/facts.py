"""Facts of a kernel that concepts rest on: its class, operands, key loops, query and key names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal, NamedTuple

from srcmap.anatomy import ops
from srcmap.anatomy.context import Context, base_name, index_items
from srcmap.anatomy.deps import Atom, Dependencies
from srcmap.anatomy.flow import Access, Event, Product, Reading, RegionKey
from srcmap.anatomy.roles import Value
from srcmap.anatomy.tree import Stmt, loop_kind, loop_variables

KernelClass = Literal[
    "attention", "backward", "indexer", "combine", "cleaner", "selection", "other"
]


class Operands(NamedTuple):
    """Which side of the first product is the query."""

    query: Value
    key: Value
    transposed: bool
    """Keys are the rows of the score tile."""


class Facts:
    """What follows from the events of one kernel."""

    def __init__(self, context: Context, deps: Dependencies, reading: Reading) -> None:
        self.context = context
        self.deps = deps
        self.reading = reading
        self.guessed = False
        """Whether query and key were told apart by their order in the signature alone."""

    # classes

    @cached_property
    def kernel_class(self) -> KernelClass:
        """Softmax attention, its backward, an indexer (scores without softmax), a combine, or other."""
        seen = {kind for kind, _, _ in self.reading.events}
        if "PROB-B" in seen and "PV" not in seen:
            return "backward"
        if {"PROB", "REDUCE-MAX"} <= seen:
            return "attention"
        if "LOGIT" in seen or {"RELU", "INDEX-WEIGHT"} <= seen:
            return "indexer"
        if "COMBINE-ACC" in seen:
            return "combine"
        if self._cleans_scores:
            return "cleaner"
        if self._selects:
            return "selection"
        return "other"

    @cached_property
    def _cleans_scores(self) -> bool:
        """Without a product, stores hidden values under a test of bounds that were loaded."""
        return not self.reading.products and any(
            access.value
            and access.value.keys() <= {"neg"}
            and self._under_loaded_bounds(access.statement)
            for access in self.reading.stores.values()
        )

    @cached_property
    def _selects(self) -> bool:
        """Without a product, stores what passes a threshold at a place that an atomic counter gives."""
        return not self.reading.products and any(
            self._is_counted(access) and self._under_threshold(access.statement)
            for access in self.reading.stores.values()
        )

    def _is_counted(self, access: Access) -> bool:
        names = {
            n.id
            for item in index_items(access.expr)
            for n in ast.walk(item)
            if isinstance(n, ast.Name)
        }
        return any(
            isinstance(call, ast.Call) and (self.context.name(call) or "").startswith("atomic_add")
            for name in names
            for definition in self.deps.definitions(name, access.statement)
            if definition.value is not None
            for call in ast.walk(definition.value)
        )

    def _under_threshold(self, statement: Stmt) -> bool:
        """Under a test that something computed from the input is greater than something else."""
        for parent in statement.ancestors():
            test = parent.node.test if isinstance(parent.node, ast.If) else None
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Gt, ast.GtE)):
                atoms = self.deps.atoms(test.left, parent, lookups=False)
                if any(atom.origin == "lookup" for atom in atoms):
                    return True
        return False

    def _under_loaded_bounds(self, statement: Stmt) -> bool:
        tests = [parent for parent in statement.ancestors() if isinstance(parent.node, ast.If)]
        return any(
            atom.origin == "lookup"
            for parent in tests
            for atom in self.deps.atoms(parent.node.test, parent, lookups=False)  # type: ignore[attr-defined]
        )

    # tiles

    def tiles_with(self, *tags: str) -> set[str]:
        """Tiles that hold one of these roles at some time."""
        wanted = set(tags)
        return {write.buffer for write in self.reading.writes if wanted & write.value.keys()}

    # products and operands

    @cached_property
    def qk_products(self) -> list[Product]:
        """Products of queries and keys, in order."""
        return [product for product in self.reading.products.values() if product.kind == "QK"]

    @cached_property
    def pv_products(self) -> list[Product]:
        """Products of probabilities and values, in order."""
        return [product for product in self.reading.products.values() if product.kind == "PV"]

    def loads_of(self, name: str) -> list[Access]:
        """Reads of one global tensor."""
        return [access for access in self.reading.loads.values() if access.name == name]

    @cached_property
    def operands(self) -> dict[int, Operands]:
        """Per product of queries and keys (by statement), which side is which."""
        return {product.statement.uid: self._operands(product) for product in self.qk_products}

    def _operands(self, product: Product) -> Operands:
        left, right = self._loops_of(product.left), self._loops_of(product.right)
        for loop in product.statement.ancestors():
            sides = [any(atom.at == loop.uid for atom in side) for side in (left, right)]
            if loop.kind == "loop" and sides[0] != sides[1]:
                return self._as_operands(product, key_left=sides[0])
        moves = len(left - right), len(right - left)
        if moves[0] == moves[1]:
            looks_up = self._looks_up(product.left), self._looks_up(product.right)
            if looks_up[0] != looks_up[1]:
                return self._as_operands(product, key_left=looks_up[0])
            self.guessed = True
        key_left = moves[0] > moves[1] or (
            moves[0] == moves[1] and self._first_in_signature(product)
        )
        return self._as_operands(product, key_left=key_left)

    @staticmethod
    def _as_operands(product: Product, *, key_left: bool) -> Operands:
        if key_left:
            return Operands(product.right, product.left, transposed=True)
        return Operands(product.left, product.right, transposed=False)

    def _looks_up(self, value: Value) -> bool:
        """Whether an operand is loaded at an address that a table gives."""
        return any(
            atom.origin == "lookup"
            for name in tensors(value)
            for access in self.loads_of(name)
            for atom in self.index_atoms(access, lookups=False)
        )

    def _first_in_signature(self, product: Product) -> bool:
        """Whether the right operand's tensor comes before the left one's among the parameters."""
        order = list(self.context.parameters)
        left = [order.index(name) for name in tensors(product.left) if name in order]
        right = [order.index(name) for name in tensors(product.right) if name in order]
        return bool(left and right) and min(right) < min(left)

    def _loops_of(self, value: Value) -> set[Atom]:
        return {
            atom
            for name in tensors(value)
            for access in self.loads_of(name)
            for atom in self.index_atoms(access, lookups=True)
            if atom.origin == "loop" and not self.is_map_atom(atom)
        }

    def is_map_atom(self, atom: Atom) -> bool:
        """Whether a loop atom is the variable of an element-wise loop."""
        statement = self.statement(atom.at)
        return (
            statement is not None
            and loop_kind(statement, self.context.root.aliases) in ops.MAP_LOOPS
        )

    @cached_property
    def _by_uid(self) -> dict[int, Stmt]:
        return {statement.uid: statement for statement in self.context.statements}

    def statement(self, uid: int) -> Stmt | None:
        """The statement of a `uid`."""
        return self._by_uid.get(uid)

    def index_atoms(self, access: Access, *, lookups: bool) -> set[Atom]:
        """What the index of a global access rests on."""
        items = index_items(access.expr)
        return {
            atom
            for item in items
            for atom in self.deps.atoms(item, access.statement, lookups=lookups)
        }

    @cached_property
    def query_tensors(self) -> set[str]:
        """Global tensors that the queries come from."""
        return {
            name for one in self.operands.values() for name in tensors(one.query)
        } - self.workspaces

    @cached_property
    def key_tensors(self) -> set[str]:
        """Global tensors that the keys come from."""
        found = {name for one in self.operands.values() for name in tensors(one.key)}
        return found - self.workspaces - (self.query_tensors if len(found) > 1 else set())

    @cached_property
    def value_tensors(self) -> set[str]:
        """Global tensors that the values come from."""
        found: set[str] = set()
        for product in self.pv_products:
            side = product.right if "prob" in product.left else product.left
            found |= tensors(side)
        return found - self.workspaces

    @cached_property
    def workspaces(self) -> set[str]:
        """Global tensors written and read in one region, or named by `workspace_idx`."""
        written = {(access.region, access.name) for access in self.reading.stores.values()}
        read = {(access.region, access.name) for access in self.reading.loads.values()}
        return {name for _, name in written & read} | self.declared_workspaces

    @cached_property
    def declared_workspaces(self) -> set[str]:
        """Parameters at the positions that `workspace_idx` of the jit decorator names."""
        order = [name for name in self.context.parameters]
        found: set[str] = set()
        for scope in self.context.root.scopes[1:]:
            for decorator in getattr(scope, "decorator_list", ()):
                if isinstance(decorator, ast.Call):
                    value = ops.keyword(decorator, "workspace_idx")
                    found |= {order[i] for i in _integers(value) if -len(order) <= i < len(order)}
        return found

    # key loops

    @cached_property
    def kv_loops(self) -> list[Stmt]:
        """The loops over key blocks: per anchor, the outermost that holds neither all fills nor all Q loads."""
        anchors = [event.statement for event in self.reading.of("REDUCE-MAX", "QK")]
        anchors += [event.statement for event in self.reading.of("PV")]
        anchors += [access.statement for name in self.key_tensors for access in self.loads_of(name)]
        found: dict[tuple[int, int, str], Stmt] = {}
        for anchor in anchors:
            loop = self._kv_loop(anchor)
            if loop is not None:
                found.setdefault(loop.place, loop)
        return sorted(found.values(), key=lambda loop: loop.uid)

    def _kv_loop(self, anchor: Stmt) -> Stmt | None:
        loops = [
            parent
            for parent in anchor.ancestors()
            if parent.kind == "loop" and not self._is_map(parent)
        ]
        region = self.context.region_of(anchor)
        good = [loop for loop in loops if not self._holds_all(loop, region)]
        return good[-1] if good else self._outermost_key_loop(loops)

    def _outermost_key_loop(self, loops: list[Stmt]) -> Stmt | None:
        """Where the query is loaded again for every block: the outermost loop that only K moves with."""
        query = {atom.at for atom in self._atoms_of(self.query_tensors, union=True, lookups=True)}
        key = {atom.at for atom in self._atoms_of(self.key_tensors, union=True, lookups=True)}
        moving = [loop for loop in loops if loop.uid in key - query]
        return moving[-1] if moving else None

    def _is_map(self, loop: Stmt) -> bool:
        return loop_kind(loop, self.context.root.aliases) in ops.MAP_LOOPS

    def _holds_all(self, loop: Stmt, region: Stmt | None) -> bool:
        fills = [fill for fill in self.maximum_fills if self.context.region_of(fill) is region]
        loads = [load for load in self.query_loads if self.context.region_of(load) is region]
        return _all_inside(fills, loop) or _all_inside(
            [load for load in loads if not _first_only(load, loop)], loop
        )

    @cached_property
    def maximum_fills(self) -> list[Stmt]:
        """Statements that give the running maximum its initial value."""
        tiles = self.tiles_with("max", "nmax")
        return [
            write.statement
            for write in self.reading.writes
            if write.buffer in tiles and write.value and write.value.keys() <= {"neg", "pos"}
        ]

    @cached_property
    def query_loads(self) -> list[Stmt]:
        """Statements that load queries from global memory."""
        return [access.statement for name in self.query_tensors for access in self.loads_of(name)]

    def in_kv_loop(self, statement: Stmt) -> bool:
        """Whether a statement runs once per key block; true everywhere when the keys are unrolled."""
        return not self.kv_loops or self.kv_loop_of(statement) is not None

    def kv_loop_of(self, statement: Stmt) -> Stmt | None:
        """The key loop around a statement."""
        places = {loop.place for loop in self.kv_loops}
        return next((parent for parent in statement.ancestors() if parent.place in places), None)

    # names

    @cached_property
    def query_names(self) -> set[Atom]:
        """What moves with the query and not with the key: grid, loop and kernel scalars of Q's index."""
        query = self._atoms_of(self.query_tensors, union=True)
        key = self._atoms_of(self.key_tensors, union=False)
        if not any(atom.origin in ("grid", "loop") for atom in query - key):
            key = self._still_atoms(self.key_tensors)
        names = {
            atom
            for atom in query - key
            if atom.origin in ("grid", "loop", "scalar", "lookup", "kernel-parameter")
        }
        return {atom for atom in names if atom.origin != "scalar" or atom.at >= 0}

    @cached_property
    def row_names(self) -> set[Atom]:
        """Grid and loop variables in the query's rows: the part of Q's index that is a slice of blocks."""
        found: set[Atom] = {atom for atom in self.query_names if atom.origin in ("grid", "loop")}
        if found:
            return found
        for name in self.query_tensors:
            for access in self.loads_of(name):
                slices = [item for item in index_items(access.expr) if isinstance(item, ast.Slice)]
                for item in slices:
                    atoms = self.deps.atoms(item, access.statement, lookups=False)
                    found |= {atom for atom in atoms if atom.origin in ("grid", "loop")}
        return found

    @cached_property
    def key_names(self) -> set[Atom]:
        """Variables of the key loops and of loops inside that K's index moves with."""
        loops = {
            Atom("loop", name, loop.uid) for loop in self.kv_loops for name in loop_variables(loop)
        }
        moving = self._atoms_of(self.key_tensors, union=True, lookups=True)
        query = self._atoms_of(self.query_tensors, union=True, lookups=True)
        around = self._loops_around(self.key_tensors | self.value_tensors)
        return loops | {
            atom for atom in moving - query if atom.origin == "loop" and atom.at in around
        }

    def _loops_around(self, names: Iterable[str]) -> set[int]:
        """Loops in which some tensors are loaded, or tiles that their addresses look up."""
        statements = [access.statement for name in names for access in self.loads_of(name)]
        statements += [
            statement
            for tile in self.address_tiles(names)
            for statement, _ in self.deps.sources(tile)
        ]
        return {
            parent.uid
            for statement in statements
            for parent in statement.ancestors()
            if parent.kind == "loop"
        }

    def address_tiles(self, names: Iterable[str]) -> set[str]:
        """Tiles that the addresses of some tensors are looked up in."""
        return {
            atom.name
            for name in names
            for access in self.loads_of(name)
            for atom in self.index_atoms(access, lookups=True)
            if atom.origin == "tile"
        }

    def _still_atoms(self, names: Iterable[str]) -> set[Atom]:
        """Atoms of the indices that stay while the keys move (head, batch)."""
        loops = {
            Atom("loop", name, loop.uid) for loop in self.kv_loops for name in loop_variables(loop)
        }
        sets = []
        for access in (access for name in names for access in self.loads_of(name)):
            atoms = [
                self.deps.atoms(item, access.statement, lookups=True)
                for item in index_items(access.expr)
            ]
            sets.append({atom for one in atoms if not one & loops for atom in one})
        return set.intersection(*sets) if sets else set()

    def _atoms_of(self, names: Iterable[str], *, union: bool, lookups: bool = False) -> set[Atom]:
        sets = [
            self.index_atoms(access, lookups=lookups)
            for name in names
            for access in self.loads_of(name)
        ]
        if not sets:
            return set()
        return set.union(*sets) if union else set.intersection(*sets)

    # tables

    @cached_property
    def address_tables(self) -> set[str]:
        """Global tensors whose values, moving with the keys, are part of K's or V's address."""
        names = self.key_tensors | self.value_tensors
        return {
            table
            for name in names
            for access in self.loads_of(name)
            for table in self.tables_of(access)
        }

    def tables_of(self, access: Access) -> set[str]:
        """Tables that the address of one load looks up, at indices that move with the keys."""
        atoms = {
            atom
            for item in index_items(access.expr)
            for atom in self._address_atoms(item, access.statement)
        }
        named = {atom.name for atom in atoms if atom.origin == "lookup"}
        return {name for name in named if name != access.name and self._moves_with_keys(name)}

    def _address_atoms(self, item: ast.expr, at: Stmt) -> frozenset[Atom]:
        return self.deps.atoms(item, at, lookups=True)

    def _moves_with_keys(self, table: str) -> bool:
        """Whether some look-up of a table is indexed by what moves with the keys."""
        return (
            any(
                self.index_atoms(access, lookups=True) & self.key_moves
                for access in self.loads_of(table)
            )
            or any(
                isinstance(item, ast.Slice)
                for access in self.loads_of(table)
                for item in index_items(access.expr)
            )
            or self.is_unrolled(table)
        )

    def is_unrolled(self, table: str) -> bool:
        """Without a key loop, look-ups of one table at different indices are keys written out by hand."""
        return (
            not self.kv_loops
            and len({ast.dump(access.expr) for access in self.loads_of(table)}) > 1
        )

    @cached_property
    def key_moves(self) -> set[Atom]:
        """Key names, and the variables of element-wise loops in K's and V's indices."""
        atoms = self._atoms_of(self.key_tensors | self.value_tensors, union=True, lookups=True)
        return self.key_names | {
            atom for atom in atoms if atom.origin == "loop" and self.is_map_atom(atom)
        }

    # regions

    def region_of(self, key: RegionKey) -> Stmt | None:
        """The launch statement of a region key."""
        return self.statement(key[0])

    @cached_property
    def stores(self) -> list[Access]:
        """Writes to global memory in reading order."""
        return sorted(self.reading.stores.values(), key=lambda access: access.statement.uid)

    @cached_property
    def handed_on(self) -> set[str]:
        """Tensors that one region writes and another reads."""
        written = {(access.name, access.region) for access in self.reading.stores.values()}
        return {
            access.name
            for access in self.reading.loads.values()
            if any(name == access.name and region != access.region for name, region in written)
        }

    def events(self, *kinds: str, in_loop: bool | None = None) -> list[Event]:
        """Events of some kinds; inside or outside the key loops when asked."""
        found = self.reading.of(*kinds)
        if in_loop is None:
            return found
        return [event for event in found if self.in_kv_loop(event.statement) == in_loop]


def tensors(value: Value) -> set[str]:
    """The global tensors that a value was loaded from."""
    return {tag[2:] for tag in value if tag.startswith("L:")}


def _integers(value: ast.expr | None) -> Iterator[int]:
    if isinstance(value, (ast.List, ast.Tuple)):
        for element in value.elts:
            yield from _integers(element)
    elif isinstance(value, ast.Constant) and isinstance(value.value, int):
        yield value.value
    elif isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
        yield -value.operand.value  # type: ignore[operator]


def _all_inside(statements: list[Stmt], loop: Stmt) -> bool:
    return bool(statements) and all(statement.inside(loop) for statement in statements)


def _first_only(statement: Stmt, loop: Stmt) -> bool:
    """Whether a load runs only in the first turn of a loop: `if k == 0`."""
    variables = set(loop_variables(loop))
    for parent in statement.ancestors():
        if parent is loop:
            return False
        if isinstance(parent.node, ast.If) and isinstance(parent.node.test, ast.Compare):
            test = parent.node.test
            names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
            if names & variables and isinstance(test.ops[0], ast.Eq):
                return True
    return False


def read_bases(expr: ast.AST) -> set[str]:
    """Names of everything subscripted in an expression."""
    return {
        b
        for node in ast.walk(expr)
        if isinstance(node, ast.Subscript) and (b := base_name(node)) is not None
    }
