"""Mask writes: statements that hide scores, with the comparisons that decide.

A mask is a choice with a hidden value (`if_then_else`, `T.tile.select`), a hidden value written
under a test, or a tile of zeros and hidden values that is added to the scores later.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from srcmap.anatomy.comparisons import Comparison, Flattener
from srcmap.anatomy.conditions import Classifier, Kind
from srcmap.anatomy.folding import is_hidden

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Kernel
    from srcmap.anatomy.ops import Operation
    from srcmap.anatomy.tree import Stmt

ADDITIVE = frozenset({"neg", "zero", "inv", "one", "num"})
"""What a tile may hold that is a mask to be added."""


class MaskWrite(NamedTuple):
    """A statement that hides scores, with the comparisons that decide."""

    statement: Stmt
    kinds: frozenset[Kind]
    value: ast.expr
    """The hidden value as written."""
    comparisons: tuple[Comparison, ...]


class Masks:
    """All mask writes of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.flattener = Flattener(kernel.context, kernel.deps)
        self.classifier = Classifier(kernel.facts)

    @cached_property
    def writes(self) -> list[MaskWrite]:
        """Mask writes in reading order."""
        found = [self._write(statement) for statement in self.kernel.context.statements]
        return [write for write in found if write is not None and write.comparisons]

    @cached_property
    def tiles(self) -> set[str]:
        """Score tiles, and tiles of zeros and hidden values that are later added to one."""
        tiles = self.kernel.facts.tiles_with("score", "relu", "logit", "s-m")
        held: dict[str, set[str]] = {}
        for write in self.kernel.reading.writes:
            held.setdefault(write.buffer, set()).update(write.value)
        masks = {name for name, tags in held.items() if "neg" in tags and tags <= ADDITIVE}
        while joined := {name for name in masks - tiles if self._flows_into(name, tiles)}:
            tiles |= joined
        return tiles

    def _flows_into(self, name: str, tiles: set[str]) -> bool:
        return any(
            reader.kind == "simple" and self.kernel.feeders.written(reader) & tiles
            for reader in self.kernel.feeders.readers.get(name, ())
        )

    def _write(self, statement: Stmt) -> MaskWrite | None:
        match statement.node:
            case ast.Assign(targets=[ast.Subscript() as target, *_], value=value):
                return self._assigned(statement, target, value)
            case ast.AugAssign(target=ast.Subscript() as target, op=ast.Add(), value=value):
                return self._assigned(statement, target, value)
        operation = self.kernel.context.operation(statement)
        if operation is None or operation.target is None or not self._is_score(operation.target):
            return None
        match operation.kind, operation.sources:
            case "select", (_, _, _):
                return self._selected(statement, operation)
            case "fill", (value, *_):
                return self._guarded(statement, operation.target, value)
        return None

    def _assigned(self, statement: Stmt, target: ast.expr, value: ast.expr) -> MaskWrite | None:
        """`s[i, j] = choice`, or a hidden value under a test."""
        if not self._is_score(target):
            return None
        if self._hides(value, statement):
            return self._guarded(statement, target, value)
        pieces = list(self._pieces(value, statement))
        if not pieces:
            return None
        comparisons = [comparison for found, _ in pieces for comparison in found]
        _, hidden = pieces[0]
        return self._make(statement, target, hidden, comparisons or self._guards(statement))

    def _is_score(self, target: ast.expr) -> bool:
        """A score tile, or a global tensor that a kernel without products only cleans."""
        buffer = self.kernel.context.buffer(target)
        cleaned = buffer in self.kernel.context.globals and not self.kernel.reading.products
        return cleaned or buffer in self.tiles

    def _hides(self, expr: ast.expr, at: Stmt) -> bool:
        return is_hidden(self.kernel.deps.fold(expr, at))

    def _pieces(self, value: ast.expr, at: Stmt) -> Iterator[tuple[list[Comparison], ast.expr]]:
        """(comparisons, hidden value) for every choice in an expression that hides a score."""
        for node in ast.walk(value):
            choice = self.kernel.context.choice(node)
            if choice is not None:
                for arm, hides in ((choice.then, True), (choice.other, False)):
                    if self._hides(arm, at):
                        yield self.flattener.comparisons(choice.test, at, hides=hides), arm

    def _selected(self, statement: Stmt, operation: Operation) -> MaskWrite | None:
        """`T.tile.select(target, mask, kept, other, ...)`."""
        mask, kept, other = operation.sources
        for value, hides in ((other, False), (kept, True)):
            if operation.target is not None and self._hides(value, statement):
                comparisons = self.flattener.comparisons(mask, statement, hides=hides)
                return self._make(statement, operation.target, value, comparisons)
        return None

    def _guarded(self, statement: Stmt, target: ast.expr, value: ast.expr) -> MaskWrite | None:
        """A hidden value written under a test: `if q < k: s = -inf`."""
        comparisons = self._guards(statement) if self._hides(value, statement) else []
        return self._make(statement, target, value, comparisons) if comparisons else None

    def _guards(self, statement: Stmt) -> list[Comparison]:
        """Comparisons of the tests around a statement, as far as these hold only the mask."""
        found: list[Comparison] = []
        child = statement
        for parent in statement.ancestors():
            if (
                parent.uid in self.kernel.spans.stops
                or parent.kind == "with"
                or any(below.uid in self.kernel.feeders.doing for below in parent.walk())
            ):
                break
            if parent.test is not None and self._decides(parent, parent.test):
                hides = child.arm == "body"
                found += self.flattener.comparisons(parent.test, parent, hides=hides)
            child = parent
        return found

    def _decides(self, statement: Stmt, test: ast.expr) -> bool:
        """Whether a test is about positions, and not about what the builder was asked for."""
        atoms = self.kernel.deps.atoms(test, statement, lookups=True)
        return any(atom.origin in ("grid", "loop", "lookup") for atom in atoms)

    def _make(
        self, statement: Stmt, target: ast.expr, value: ast.expr, comparisons: list[Comparison]
    ) -> MaskWrite:
        axes = self.classifier.axes_of(target, statement)
        kinds = frozenset(self.classifier.classify(one, axes) for one in comparisons)
        return MaskWrite(statement, kinds, value, tuple(comparisons))


def concepts_of(kinds: frozenset[Kind]) -> set[str]:
    """Concepts of one mask write: padding joins the others, the window takes the causal edge in."""
    found: set[str] = set()
    if "padding" in kinds:
        found.add("padding-mask")
    if "window" in kinds:
        found.add("window-mask")
    elif "causal" in kinds:
        found.add("causal-mask")
    return found or ({"boundary-mask"} if "boundary" in kinds else set())
