"""Which loops run once: those of which every turn writes another part of its tiles.

Otherwise `s = exp(s - m)` in an element-wise loop would be evaluated on its own result.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.context import Context, index_items
from srcmap.anatomy.names import names_in
from srcmap.anatomy.tree import Stmt, loop_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

WRAPPING = (ast.Mod, ast.FloorDiv, ast.BitAnd)
"""Operators that bring a loop variable back to where it was: a ring, not a part for each turn."""


class MapLoops:
    """Tells the loops of one kernel apart, each once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._once: dict[int, bool] = {}
        self._fresh: dict[int, set[str]] = {}
        self._written: dict[int, list[tuple[ast.expr, bool]]] = {}

    def runs_once(self, loop: Stmt) -> bool:
        """Whether every tile write of a loop is indexed by its variable, so one run tells all."""
        if loop.uid not in self._once:
            self._once[loop.uid] = self.context.is_map_loop(loop) or self._maps(loop)
        return self._once[loop.uid]

    def _maps(self, loop: Stmt) -> bool:
        verdicts = [indexed for _, indexed in self._writes(loop)]
        return bool(verdicts) and all(verdicts)

    def fresh_tiles(self, loop: Stmt) -> set[str]:
        """Tiles of which every turn of a loop touches another part: they start each turn anew."""
        if loop.uid not in self._fresh:
            verdicts: dict[str, bool] = {}
            for target, indexed in self._writes(loop):
                buffer = self.context.buffer(target)
                if buffer in self.context.tiles:
                    verdicts[buffer] = verdicts.get(buffer, True) and indexed
            self._fresh[loop.uid] = {buffer for buffer, indexed in verdicts.items() if indexed}
        return self._fresh[loop.uid]

    def _writes(self, loop: Stmt) -> list[tuple[ast.expr, bool]]:
        """Every write in a loop, and whether the loop's own variable is in its index."""
        if loop.uid not in self._written:
            self._written[loop.uid] = list(self._judged(loop))
        return self._written[loop.uid]

    def _judged(self, loop: Stmt) -> Iterator[tuple[ast.expr, bool]]:
        with_offsets: dict[frozenset[str], set[str]] = {}
        for below in loop.walk():
            own = _own_variables(loop, below)
            for target in self._targets(below):
                if own not in with_offsets:
                    with_offsets[own] = _with_offsets(loop, own)
                names = with_offsets[own]
                yield target, any(names_in(item) & names for item in index_items(target))

    def _targets(self, statement: Stmt) -> list[ast.expr]:
        node = statement.node
        if isinstance(node, ast.Assign):
            return [target for target in node.targets if not isinstance(target, ast.Name)]
        if isinstance(node, ast.AugAssign):
            return [node.target]
        operation = self.context.operation(statement)
        return [operation.target] if operation is not None and operation.target is not None else []


def _own_variables(loop: Stmt, below: Stmt) -> frozenset[str]:
    """Variables of a loop that no inner loop around a statement binds again."""
    variables = frozenset(loop_variables(loop))
    for parent in (below, *below.ancestors()):
        if parent is loop:
            break
        variables -= set(loop_variables(parent))
    return variables


def _with_offsets(loop: Stmt, variables: frozenset[str]) -> set[str]:
    """Scalars that a loop computes from its variable, one for each turn: not a ring (`i % 2`)."""
    names = set(variables)
    for below in loop.walk():
        match below.node:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=ast.BinOp() as value):
                wraps = any(isinstance(part, WRAPPING) for part in ast.walk(value))
                if names_in(value) & names and not wraps:
                    names.add(name)
    return names
