"""Masks: causal, window, padding, boundary, handed in; the value of a hidden score."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import NamedTuple, TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.conditions import Axes, Comparison, Flattener, arms, hidden_leaf
from srcmap.model import Lines

if TYPE_CHECKING:
    from srcmap.anatomy.spans import Place
    from srcmap.anatomy.deps import Definition
    from srcmap.anatomy.tree import Stmt
    from collections.abc import Iterator


class MaskWrite(NamedTuple):
    """A statement that hides scores, with the comparisons that decide."""

    statement: Stmt
    kinds: frozenset[str]
    value: ast.expr
    """The hidden value as written."""
    comparisons: tuple[Comparison, ...]


class Masks:
    """All mask writes of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.flat = Flattener(kernel.facts)

    @cached_property
    def writes(self) -> list[MaskWrite]:
        """Mask writes in reading order."""
        found = [
            write
            for statement in self.kernel.context.statements
            if (write := self._write(statement))
        ]
        return [write for write in found if write.comparisons]

    @cached_property
    def tiles(self) -> set[str]:
        """Score tiles, and tiles of zeros and hidden values that are later added to one."""
        tiles = self.kernel.facts.tiles_with("score", "relu", "logit", "s-m")
        held: dict[str, set[str]] = {}
        for write in self.kernel.reading.writes:
            held.setdefault(write.buffer, set()).update(write.value)
        masks = {
            name
            for name, tags in held.items()
            if "neg" in tags and tags <= {"neg", "zero", "inv", "one", "num"}
        }
        changed = True
        while changed:
            joined = {name for name in masks - tiles if self._flows_into(name, tiles)}
            tiles, changed = tiles | joined, bool(joined)
        return tiles

    def _flows_into(self, name: str, tiles: set[str]) -> bool:
        return any(
            reader.kind == "simple" and self.kernel.spans.written(reader) & tiles
            for reader in self.kernel.spans.readers.get(name, ())
        )

    def _write(self, statement: Stmt) -> MaskWrite | None:
        node = statement.node
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            return self._assigned(statement, node.targets[0], node.value)
        call = statement.call
        row = ops.TILE_OPS.get(self.kernel.context.name(call) or "") if call is not None else None
        if call is None or row is None:
            return None
        if row.kind == "select" and len(call.args) >= 4:
            return self._selected(statement, call)
        if row.kind == "fill" and len(call.args) >= 2:
            return self._guarded(statement, call.args[0], call.args[1])
        return None

    def _assigned(self, statement: Stmt, target: ast.expr, value: ast.expr) -> MaskWrite | None:
        if not self._is_score(target):
            return None
        if hidden_leaf(self.kernel.deps, value, statement):
            return self._guarded(statement, target, value)
        axes = self.flat.axes_of(target, statement)
        pieces = list(self._pieces(value, statement))
        hidden = [leaf for _, leaf in pieces]
        comparisons = [comparison for found, _ in pieces for comparison in found]
        if not hidden:
            return None
        guards = self._guards(statement)
        return self._make(
            statement, hidden[0], comparisons + (guards if not comparisons else []), axes
        )

    def _is_score(self, target: ast.expr) -> bool:
        buffer = self.kernel.context.buffer(target)
        return buffer in self.tiles or self._is_cleaned(buffer)

    def _is_cleaned(self, buffer: str | None) -> bool:
        """A global tensor of scores that a kernel without products only cleans."""
        return buffer in self.kernel.context.globals and not self.kernel.reading.products

    def _pieces(self, value: ast.expr, at: Stmt) -> Iterator[tuple[list[Comparison], ast.expr]]:
        """(comparisons, hidden value) for every choice in an expression that hides a score."""
        for node in ast.walk(value):
            if not isinstance(node, (ast.Call, ast.IfExp)):
                continue
            parts = arms(
                self.kernel.context.name(node) if isinstance(node, ast.Call) else None, node
            )
            if parts is None:
                continue
            test, then, other = parts
            for arm, hides in ((then, True), (other, False)):
                if hidden_leaf(self.kernel.deps, arm, at):
                    yield list(self.flat.comparisons(test, at, hides=hides)), arm

    def _selected(self, statement: Stmt, call: ast.Call) -> MaskWrite | None:
        target, mask, kept, other = call.args[:4]
        if not self._is_score(target):
            return None
        for leaf, hides in ((other, False), (kept, True)):
            if hidden_leaf(self.kernel.deps, leaf, statement):
                comparisons = list(self.flat.comparisons(mask, statement, hides=hides))
                return self._make(
                    statement, leaf, comparisons, self.flat.axes_of(target, statement)
                )
        return None

    def _guarded(self, statement: Stmt, target: ast.expr, value: ast.expr) -> MaskWrite | None:
        """A hidden value written under a test: `if q < k: s = -inf`."""
        if not self._is_score(target) or not hidden_leaf(self.kernel.deps, value, statement):
            return None
        comparisons = self._guards(statement)
        return (
            self._make(statement, value, comparisons, self.flat.axes_of(target, statement))
            if comparisons
            else None
        )

    def _guards(self, statement: Stmt) -> list[Comparison]:
        """Comparisons of the tests around a statement, as far as these hold only the mask."""
        found: list[Comparison] = []
        child = statement
        for parent in statement.ancestors():
            if (
                parent.uid in self.kernel.spans.stops
                or parent.kind == "with"
                or self._does_more(parent)
            ):
                break
            if isinstance(parent.node, ast.If) and self._decides(parent):
                found += self.flat.comparisons(parent.node.test, parent, hides=child.arm == "body")
            child = parent
        return found

    def _does_more(self, statement: Stmt) -> bool:
        return any(below.uid in self.kernel.spans.doing for below in statement.walk())

    def _decides(self, statement: Stmt) -> bool:
        assert isinstance(statement.node, ast.If)
        atoms = self.kernel.deps.atoms(statement.node.test, statement, lookups=True)
        return any(atom.origin in ("grid", "loop", "lookup") for atom in atoms)

    def _make(
        self, statement: Stmt, value: ast.expr, comparisons: list[Comparison], axes: Axes
    ) -> MaskWrite:
        kinds = frozenset(self.flat.classify(comparison, axes) for comparison in comparisons)
        return MaskWrite(statement, kinds, value, tuple(comparisons))


def masks(kernel: Kernel) -> Iterator[Found]:
    """Causal, window, padding and boundary masks, and the hidden values."""
    known = Masks(kernel)
    for concept in ("causal-mask", "window-mask", "padding-mask", "boundary-mask"):
        statements = [
            write.statement for write in known.writes if concept in concepts_of(write.kinds)
        ]
        for place in kernel.spans.places(statements, join=False, merge=False):
            yield kernel.at(concept, place)
    for write in known.writes:
        yield from _value(kernel, write)
    yield from _input_masks(kernel, known)


def concepts_of(kinds: frozenset[str]) -> set[str]:
    """Concepts of one mask write: padding joins the others, the window takes the causal edge in."""
    found: set[str] = set()
    if "padding" in kinds:
        found.add("padding-mask")
    if "window" in kinds:
        found.add("window-mask")
    elif "causal" in kinds:
        found.add("causal-mask")
    return found or ({"boundary-mask"} if "boundary" in kinds else set())


def _value(kernel: Kernel, write: MaskWrite) -> Iterator[Found]:
    """The named constant's assignment, or the statement that writes the value."""
    number = kernel.deps.fold(write.value, write.statement)
    detail = "-inf" if number == float("-inf") else f"{number:g}"
    if isinstance(write.value, ast.Name):
        for definition in kernel.deps.definitions(write.value.id, write.statement)[-1:]:
            yield Found("mask-value", None, _definition_lines(definition), detail=detail)
        return
    place = kernel.spans.place(write.statement)
    yield kernel.at("mask-value", place, detail=detail)


def _definition_lines(definition: Definition) -> Lines:
    node = definition.node
    return Lines(
        definition.line,
        (node.end_lineno or definition.line) if node is not None else definition.line,
    )


def _input_masks(kernel: Kernel, known: Masks) -> Iterator[Found]:
    """A mask handed in: its parameter line and its load."""
    tables: dict[tuple[str, str], list[Stmt]] = {}
    for write in known.writes:
        for comparison in write.comparisons:
            table = known.flat._mask_table(comparison)
            if table is not None:
                kind = "block-mask" if "block-mask" in write.kinds else "mask"
                tables.setdefault((kind, table), []).append(write.statement)
    for event in kernel.facts.events("MASK-AFTER-EXP"):
        for tag, _ in event.because:
            if (
                tag.startswith("L:")
                and tag[2:] not in kernel.facts.value_tensors | kernel.facts.key_tensors
            ):
                tables.setdefault(("mask", tag[2:]), []).append(event.statement)
    for (kind, table), users in tables.items():
        yield from parameter_line(kernel, f"{kind}-param", table)
        for place in _load_places(kernel, table, users):
            yield kernel.at("mask-load" if kind == "mask" else "block-mask", place)


def parameter_line(kernel: Kernel, concept: str, name: str) -> Iterator[Found]:
    """The line of the signature that takes a tensor."""
    line = kernel.context.parameters.get(name)
    if line is not None:
        yield kernel.outside(concept, Lines(line, line), "roles.parameter", operand="")


def _load_places(kernel: Kernel, table: str, users: list[Stmt]) -> list[Place]:
    loads = [access.statement for access in kernel.facts.loads_of(table)]
    return kernel.spans.places(loads or users)
