"""Facts of a kernel that concepts rest on.

In layers, each resting only on those beneath: loads and operands, key loops, what moves with the
query and with the key, tables.  `Facts` is the last layer and has everything.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.anatomy.classes import KernelClass, classify
from srcmap.anatomy.context import index_items
from srcmap.anatomy.movement import Movement
from srcmap.anatomy.operands import Operands, tensors

if TYPE_CHECKING:
    from srcmap.anatomy.definitions import Atom
    from srcmap.anatomy.reading import Access, Event, RegionKey
    from srcmap.anatomy.tree import Stmt

__all__ = ["Facts", "KernelClass", "Operands", "tensors"]


class Facts(Movement):
    """What follows from the events of one kernel."""

    @cached_property
    def kernel_class(self) -> KernelClass:
        """What the kernel is for."""
        return classify(self.context, self.deps, self.reading)

    def events(self, *kinds: str, in_loop: bool | None = None) -> list[Event]:
        """Events of some kinds; inside or outside the key loops when asked."""
        found = self.reading.of(*kinds)
        if in_loop is None:
            return found
        return [event for event in found if self.in_kv_loop(event.statement) == in_loop]

    # tables

    @cached_property
    def address_tables(self) -> set[str]:
        """Global tensors whose values, moving with the keys, are part of K's or V's address."""
        accesses = self.loads_of_all(self.key_tensors | self.value_tensors)
        return {table for access in accesses for table in self.tables_of(access)}

    def tables_of(self, access: Access) -> set[str]:
        """Tables that the address of one load looks up, at indices that move with the keys."""
        atoms = self.index_atoms(access, lookups=True)
        named = {atom.name for atom in atoms if atom.origin == "lookup"}
        return {name for name in named if name != access.name and self._moves_with_keys(name)}

    def _moves_with_keys(self, table: str) -> bool:
        """Whether some look-up of a table is indexed by what moves with the keys."""
        accesses = self.loads_of(table)
        return (
            any(self.index_atoms(access, lookups=True) & self.key_moves for access in accesses)
            or any(isinstance(i, ast.Slice) for one in accesses for i in index_items(one.expr))
            or self.is_unrolled(table)
        )

    @cached_property
    def key_moves(self) -> set[Atom]:
        """Key names, and the variables of element-wise loops in K's and V's indices."""
        atoms = self.all_atoms(self.key_tensors | self.value_tensors, lookups=True)
        return self.key_names | {
            atom for atom in atoms if atom.origin == "loop" and self.is_map_atom(atom)
        }

    # stores

    @cached_property
    def stores(self) -> list[Access]:
        """Writes to global memory in reading order."""
        return sorted(self.reading.stores.values(), key=lambda access: access.statement.uid)

    @cached_property
    def handed_on(self) -> set[str]:
        """Tensors that one region writes and a later one reads."""
        written = {(access.name, access.region) for access in self.reading.stores.values()}
        return {
            access.name
            for access in self.reading.loads.values()
            if any(name == access.name and region < access.region for name, region in written)
        }

    def launch_of(self, region: RegionKey) -> Stmt | None:
        """The launch statement of a region."""
        return self.statement(region[0])
