"""What moves with the query, and what moves with the key: atoms of their addresses.

Masks are told apart, and tables found, by which side of a comparison or an index moves with what.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.anatomy.context import index_items
from srcmap.anatomy.definitions import Atom
from srcmap.anatomy.key_loops import KeyLoops
from srcmap.anatomy.tree import loop_variables

if TYPE_CHECKING:
    from collections.abc import Iterable

MOVING = ("grid", "loop")


class Movement(KeyLoops):
    """The names of queries and keys in one kernel."""

    @cached_property
    def query_names(self) -> set[Atom]:
        """What moves with the query and not with the key."""
        query = self.all_atoms(self.query_tensors)
        key = self.common_atoms(self.key_tensors)
        if not any(atom.origin in MOVING for atom in query - key):
            key = self._still_atoms(self.key_tensors)
        return {
            atom
            for atom in query - key
            if atom.origin in (*MOVING, "lookup", "kernel-parameter")
            or (atom.origin == "scalar" and atom.at >= 0)  # not what the builder computes
        }

    @cached_property
    def row_names(self) -> set[Atom]:
        """Grid and loop variables in the query's rows, as far as rows can be told."""
        found = {atom for atom in self.query_names if atom.origin in MOVING}
        if found:
            return found
        return {
            atom
            for access in self.loads_of_all(self.query_tensors)
            for item in index_items(access.expr)
            if isinstance(item, ast.Slice)
            for atom in self.deps.atoms(item, access.statement, lookups=False)
            if atom.origin in MOVING
        }

    @cached_property
    def key_names(self) -> set[Atom]:
        """Variables of the key loops and of loops inside that K's index moves with."""
        moving = self.all_atoms(self.key_tensors, lookups=True)
        query = self.all_atoms(self.query_tensors, lookups=True)
        around = self._loops_around(self.key_tensors | self.value_tensors)
        return self._kv_variables | {
            atom for atom in moving - query if atom.origin == "loop" and atom.at in around
        }

    def address_tiles(self, names: Iterable[str]) -> set[str]:
        """Tiles that the addresses of some tensors are looked up in."""
        return {atom.name for atom in self.all_atoms(names, lookups=True) if atom.origin == "tile"}

    @cached_property
    def _kv_variables(self) -> set[Atom]:
        return {
            Atom("loop", name, loop.uid) for loop in self.kv_loops for name in loop_variables(loop)
        }

    def _loops_around(self, names: set[str]) -> set[int]:
        """Loops in which some tensors are loaded, or tiles that their addresses look up."""
        statements = [access.statement for access in self.loads_of_all(names)]
        for tile in self.address_tiles(names):
            statements += [statement for statement, _ in self.deps.sources(tile)]
        return {
            parent.uid
            for statement in statements
            for parent in statement.ancestors()
            if parent.kind == "loop"
        }

    def _still_atoms(self, names: Iterable[str]) -> set[Atom]:
        """Atoms of the indices that stay while the keys move (head, batch)."""
        sets: list[set[Atom]] = []
        for access in self.loads_of_all(names):
            indices = [
                self.deps.atoms(item, access.statement, lookups=True)
                for item in index_items(access.expr)
            ]
            sets.append({atom for one in indices if not one & self._kv_variables for atom in one})
        return set.intersection(*sets) if sets else set()
