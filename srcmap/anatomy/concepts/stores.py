"""Results on their way out: stores to global memory, back over the copies that lead to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.tree import Stmt

RESULTS = {"acc", "norm", "wacc", "lse", "denom"}


def epilogue(kernel: Kernel) -> Iterator[Found]:
    """The normalised accumulator to the output, from the first copy to the store."""
    elsewhere = kernel.facts.workspaces | kernel.facts.handed_on
    stores = [
        access.statement
        for access in kernel.facts.stores
        if access.value.keys() & {"acc", "norm", "wacc"}
        and access.name not in elsewhere
        and ("norm" in access.value or kernel.facts.kv_loop_of(access.statement) is None)
    ]
    yield from stored_runs(kernel, "epilogue-store", stores)


def stored_runs(kernel: Kernel, concept: str, statements: list[Stmt]) -> Iterator[Found]:
    """Stores, back over the copies that lead to them."""

    def leads_here(statement: Stmt) -> bool:
        return is_staging_copy(kernel, statement)

    for place in kernel.spans.places(statements):
        yield kernel.at(concept, kernel.spans.extend_back(place, leads_here))


def is_staging_copy(kernel: Kernel, statement: Stmt) -> bool:
    """A copy (or one-line copying loop) from tile to tile of an accumulator or its like."""
    inner = [
        below
        for below in statement.walk()
        if below.kind == "simple" and not kernel.context.is_noise(below)
    ]
    if len(inner) != 1 or not kernel.feeders.is_staging(inner[0]):
        return False
    writes = [write for write in kernel.reading.writes if write.statement is inner[0]]
    return any(write.value.keys() & RESULTS for write in writes)
