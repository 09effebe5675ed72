"""Masks: causal, window, padding, boundary, handed in; the value of a hidden score."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.masks import Masks, MaskWrite, concepts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.tree import Stmt

__all__ = ["MaskWrite", "Masks", "concepts_of", "masks"]

POSITIONAL = ("causal-mask", "window-mask", "padding-mask", "boundary-mask")


def masks(kernel: Kernel) -> Iterator[Found]:
    """Causal, window, padding and boundary masks, and the hidden values."""
    writes = kernel.masks.writes
    for concept in POSITIONAL:
        statements = [write.statement for write in writes if concept in concepts_of(write.kinds)]
        for place in kernel.spans.places(statements, join=False, merge=False):
            yield kernel.at(concept, place)
    for write in writes:
        yield from _value(kernel, write)
    yield from _input_masks(kernel)


def _value(kernel: Kernel, write: MaskWrite) -> Iterator[Found]:
    """The named constant's assignment, or the statement that writes the value."""
    number = kernel.deps.fold(write.value, write.statement)
    detail = "-inf" if number == float("-inf") else f"{number:g}"
    if isinstance(write.value, ast.Name):
        for definition in kernel.deps.definitions(write.value.id, write.statement)[-1:]:
            yield Found("mask-value", None, definition.lines, detail=detail)
    else:
        yield kernel.at("mask-value", kernel.spans.place(write.statement), detail=detail)


def _input_masks(kernel: Kernel) -> Iterator[Found]:
    """A mask handed in: its parameter line and its load."""
    for (kind, table), users in _handed_in(kernel).items():
        yield from kernel.parameter_line(f"{kind}-param", table)
        loads = [access.statement for access in kernel.facts.loads_of(table)]
        for place in kernel.spans.places(loads or users):
            yield kernel.at("mask-load" if kind == "mask" else "block-mask", place)


def _handed_in(kernel: Kernel) -> dict[tuple[str, str], list[Stmt]]:
    """(`mask` or `block-mask`, tensor) to the statements that hide scores with it."""
    tables: dict[tuple[str, str], list[Stmt]] = {}
    for write in kernel.masks.writes:
        for comparison in write.comparisons:
            table = kernel.masks.classifier.mask_table(comparison)
            if table is not None:
                kind = "block-mask" if "block-mask" in write.kinds else "mask"
                tables.setdefault((kind, table), []).append(write.statement)
    operands = kernel.facts.value_tensors | kernel.facts.key_tensors
    for event in kernel.facts.events("MASK-AFTER-EXP"):
        for table in _loaded(event.because):
            if table not in operands:
                tables.setdefault(("mask", table), []).append(event.statement)
    return tables


def _loaded(because: tuple[tuple[str, int], ...]) -> list[str]:
    return [tag.removeprefix("L:") for tag, _ in because if tag.startswith("L:")]
