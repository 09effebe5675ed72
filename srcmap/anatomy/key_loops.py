"""The loops over key blocks: not the persistent loop around them, nor the element-wise ones inside.

From a product or a maximum outwards, the outermost loop that holds neither the fill of the maximum
nor all loads of the query.  So there is one per scope (Cube and Vector on Ascend).
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.anatomy.context import index_items
from srcmap.anatomy.names import names_in
from srcmap.anatomy.operands import Tensors
from srcmap.anatomy.tree import loop_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.tree import Stmt

UNSET = frozenset({"neg", "pos"})
"""Initial values of a running maximum, or of its negative."""
HANDED = {"score", "prob", "acc"}
"""What the two halves of a kernel hand each other block for block."""


class KeyLoops(Tensors):
    """The key loops of one kernel."""

    @cached_property
    def kv_loops(self) -> list[Stmt]:
        """The loops over key blocks, in reading order, each once."""
        anchors = [event.statement for event in self.reading.of("REDUCE-MAX", "QK")]
        anchors += [event.statement for event in self.reading.of("PV")]
        anchors += [access.statement for access in self.loads_of_all(self.key_tensors)]
        found: dict[tuple[int, int, str], Stmt] = {}
        for anchor in anchors:
            loop = self._kv_loop(anchor)
            if loop is not None:
                found.setdefault(loop.place, loop)
        for loop in self._reading_back(list(found.values())):
            found.setdefault(loop.place, loop)
        return sorted(found.values(), key=lambda loop: loop.uid)

    def _reading_back(self, known: list[Stmt]) -> Iterator[Stmt]:
        """Further loops that read back, block for block, what a key loop has handed over."""
        for access in self.reading.loads.values():
            if access.name not in self.workspaces or any(map(access.statement.inside, known)):
                continue
            items, moving = index_items(access.expr), self._moving_items(access.name, known)
            atoms = {
                atom.at
                for item in (items[at] for at in moving if at < len(items))
                for atom in self.deps.atoms(item, access.statement, lookups=False)
            }
            around = [p for p in access.statement.ancestors() if p.kind == "loop"]
            yield from [loop for loop in around if loop.uid in atoms][-1:]

    def _moving_items(self, workspace: str, known: list[Stmt]) -> set[int]:
        """Positions of the indices that move where the key loops write to a workspace."""
        return {
            position
            for store in self.reading.stores.values()
            if store.name == workspace and store.value.keys() & HANDED
            for position, item in enumerate(index_items(store.expr))
            for atom in self.deps.atoms(item, store.statement, lookups=False)
            if any(loop.uid == atom.at and store.statement.inside(loop) for loop in known)
        }

    def in_kv_loop(self, statement: Stmt) -> bool:
        """Whether a statement runs once per key block; always when the keys are unrolled."""
        return not self.kv_loops or self.kv_loop_of(statement) is not None

    def kv_loop_of(self, statement: Stmt) -> Stmt | None:
        """The key loop around a statement."""
        return next((p for p in statement.ancestors() if p.place in self._kv_places), None)

    def is_unrolled(self, table: str) -> bool:
        """Whether keys are written out by hand: no key loop, look-ups at different indices."""
        written = {ast.dump(access.expr) for access in self.loads_of(table)}
        return not self.kv_loops and len(written) > 1

    @cached_property
    def _kv_places(self) -> set[tuple[int, int, str]]:
        return {loop.place for loop in self.kv_loops}

    @cached_property
    def maximum_fills(self) -> list[Stmt]:
        """Statements that give the running maximum its initial value."""
        tiles = self.tiles_with("max", "nmax")
        return [
            write.statement
            for write in self.reading.writes
            if write.buffer in tiles and write.is_only(UNSET)
        ]

    def _kv_loop(self, anchor: Stmt) -> Stmt | None:
        loops = [
            parent
            for parent in anchor.ancestors()
            if parent.kind == "loop" and not self.context.is_map_loop(parent)
        ]
        region = self.context.region_of(anchor)
        good = [loop for loop in loops if not self._is_around_everything(loop, region)]
        return good[-1] if good else self._outermost_key_loop(loops)

    def _is_around_everything(self, loop: Stmt, region: Stmt | None) -> bool:
        """Whether all fills of the maximum, or all loads of the query, run inside a loop."""
        fills = [one for one in self.maximum_fills if self.context.region_of(one) is region]
        loads = [one for one in self.query_loads if self.context.region_of(one) is region]
        every_turn = [load for load in loads if not _first_turn_only(load, loop)]
        return _all_inside(fills, loop) or _all_inside(every_turn, loop)

    def _outermost_key_loop(self, loops: list[Stmt]) -> Stmt | None:
        """Where the query is loaded again for every block: the outermost that only K moves with."""
        query = {atom.at for atom in self.all_atoms(self.query_tensors, lookups=True)}
        key = {atom.at for atom in self.all_atoms(self.key_tensors, lookups=True)}
        moving = [loop for loop in loops if loop.uid in key - query]
        return moving[-1] if moving else None


def _all_inside(statements: list[Stmt], loop: Stmt) -> bool:
    return bool(statements) and all(statement.inside(loop) for statement in statements)


def _first_turn_only(statement: Stmt, loop: Stmt) -> bool:
    """Whether a load runs only in the first turn of a loop: `if k == 0`."""
    variables = set(loop_variables(loop))
    return any(
        parent.inside(loop)
        and isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and bool(names_in(test) & variables)
        for parent, test in statement.tests()
    )
