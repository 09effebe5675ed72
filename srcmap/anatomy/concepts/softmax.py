"""Online softmax: state, products, maximum, rescaling, denominator, normalising, sink.

Milakov and Gimelshein 2018; Dao and others 2022 to 2024 (FlashAttention 1 to 3).  The sink is a
logit per head that takes part in the softmax and has no value (StreamingLLM, gpt-oss).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy import roles
from srcmap.anatomy.operands import tensors
from srcmap.anatomy.spans import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.reading import Event
    from srcmap.anatomy.tree import Stmt

CONSTANTS = roles.SCALARS - {"inv", "ninv"}

BROADCASTS = {"tile.broadcast", "tile.brcb", "tile.brcb_experiment"}


def state_init(kernel: Kernel) -> Iterator[Found]:
    """The fills of accumulator, denominator and maximum before the key loop."""
    tiles = kernel.facts.tiles_with("max", "nmax", "denom", "acc")
    statements = [
        write.statement
        for write in kernel.reading.writes
        if write.buffer in tiles
        and write.is_only(CONSTANTS)
        and not _copies(kernel, write.statement)
        and _before_loops(kernel, write.statement)
    ]
    yield from (kernel.at("state-init", place) for place in kernel.spans.places(statements))


def _copies(kernel: Kernel, statement: Stmt) -> bool:
    """Whether a tile is moved; npuir broadcasts a number with an operation that also copies."""
    operation = kernel.context.operation(statement)
    return (
        operation is not None
        and operation.kind == "copy"
        and any(kernel.deps.fold(source, statement) is None for source in operation.sources)
    )


def _before_loops(kernel: Kernel, statement: Stmt) -> bool:
    """Whether a statement runs before some key loop of its launch; always when there is none."""
    if kernel.facts.kv_loop_of(statement) is not None:
        return False
    region = kernel.context.region_of(statement)
    loops = [loop for loop in kernel.facts.kv_loops if kernel.context.region_of(loop) is region]
    return any(statement.uid < loop.uid for loop in loops) or not kernel.facts.kv_loops


def products(kernel: Kernel) -> Iterator[Found]:
    """The two matrix products; the second with the load of the values right before it."""
    queries = [product.statement for product in kernel.facts.qk_products]
    for place in kernel.spans.places(queries):
        yield kernel.at("qk-gemm", place, kernel.facts.events("QK"))
    for place in _by_probabilities(kernel):
        taken = _with_value_load(kernel, place)
        yield kernel.at("pv-gemm", taken, kernel.facts.events("PV"))


def _by_probabilities(kernel: Kernel) -> list[Place]:
    """Products of one probability tile side by side are one place; of two tiles, two."""
    groups: dict[str, list[Stmt]] = {}
    for product in kernel.facts.pv_products:
        groups.setdefault(ast.dump(product.weights), []).append(product.statement)
    return [place for statements in groups.values() for place in kernel.spans.places(statements)]


def _with_value_load(kernel: Kernel, place: Place) -> Place:
    inside = [one for one in kernel.facts.pv_products if one.statement in place.core]
    values = {name for product in inside for name in tensors(product.loaded_side)}

    def loads_values(statement: Stmt) -> bool:
        return _only_loads(kernel, statement, values)

    return kernel.spans.extend_back(place, loads_values, across_barriers=False)


def _only_loads(kernel: Kernel, statement: Stmt, names: set[str]) -> bool:
    """Whether a statement (with everything in it) loads one of these tensors and does no more."""
    loaded = {
        access.name
        for access in kernel.reading.loads.values()
        if access.statement is statement or access.statement.inside(statement)
    }
    return bool(loaded & names) and all(
        kernel.feeders.is_staging(below) or kernel.context.is_noise(below)
        for below in statement.walk()
        if below.kind == "simple"
    )


def row_max(kernel: Kernel) -> Iterator[Found]:
    """Save the old maximum, reduce, merge; on Ascend the negated, scaled maximum may be kept."""
    facts = kernel.facts
    negated = facts.tiles_with("nmax")
    events = facts.events("REDUCE-MAX", "MAX-MERGE", in_loop=True)
    events += [one for one in facts.events("MAX-NEG", in_loop=True) if one.target in negated]
    before = {event.statement for event in facts.events("SAVE-MAX")} | set(facts.maximum_fills)
    reducing = {event.statement.place for event in events}
    steps = [event.statement for event in events] + _saves_between(kernel, events)
    for place in kernel.spans.places(steps):
        if reducing & {one.place for one in place.core}:
            taken = kernel.spans.extend_back(place, before.__contains__)
            yield kernel.at("row-max", taken, events)


def _saves_between(kernel: Kernel, events: list[Event]) -> list[Stmt]:
    """Saves of the old maximum that stand between its reduction and its merge."""
    reduced = {event.statement for event in events}
    found: list[Stmt] = []
    for event in kernel.facts.events("SAVE-MAX", in_loop=True):
        save = event.statement
        beside = [one for one in save.block if one is save or not kernel.context.is_noise(one)]
        at = beside.index(save)
        around = [*beside[max(at - 1, 0) : at], *beside[at + 1 : at + 2]]
        if len(around) == 2 and all(reduced & set(one.walk()) for one in around):
            found.append(save)
    return found


def rescaling(kernel: Kernel) -> Iterator[Found]:
    """Rescale factor, probabilities, row sum, denominator and the rescaled accumulator."""

    def in_loop(*kinds: str) -> list[Event]:
        return kernel.facts.events(*kinds, in_loop=True)

    yield from _with_broadcast(kernel, "rescale-factor", in_loop("M-M", "RESCALE"))
    yield from _with_broadcast(kernel, "probability", in_loop("S-M", "PROB"))
    yield from kernel.at_events("row-sum", in_loop("ROWSUM"))
    yield from _with_broadcast(kernel, "denominator", in_loop("DENOM-RESCALE", "DENOM-ADD"))
    yield from _with_broadcast(kernel, "acc-rescale", in_loop("ACC-RESCALE"))
    yield from kernel.at_events("check-inf", kernel.facts.events("CHECK-INF"))
    yield from kernel.at_events("mask-after-exp", kernel.facts.events("MASK-AFTER-EXP"))


def normalising(kernel: Kernel) -> Iterator[Found]:
    """Division by the denominator, and what a row that sees no key returns."""
    events = kernel.facts.events("NORM")
    dividing = {event.statement for event in events}
    for place in kernel.spans.places(
        event.statement for event in kernel.facts.events("NORM", "RECIPROCAL")
    ):
        if dividing & set(place.core):  # a reciprocal counts where the product follows at once
            yield kernel.at("normalise", _take_broadcast(kernel, place), events)
    yield from kernel.at_events("empty-row", kernel.facts.events("EMPTY-ROW"))


def sink(kernel: Kernel) -> Iterator[Found]:
    """The sink logit's load, and its term in the denominator."""
    if not kernel.facts.events("SINK-ADD"):
        return
    events = kernel.facts.events("SINK-DIFF", "SINKEXP", "SINK-ADD", "MAX-SINK")
    if kernel.facts.kv_loops:  # in the loop a sink that began as the maximum looks like one too
        events = [one for one in events if kernel.facts.kv_loop_of(one.statement) is None]
    makers = {maker for event in events for tag, maker in event.because if tag.startswith("L:")}
    loads = [statement for statement in kernel.context.statements if statement.uid in makers]
    yield from (kernel.at("sink-load", place) for place in kernel.spans.places(loads))
    yield from _with_broadcast(kernel, "sink-epilogue", events)


def _with_broadcast(kernel: Kernel, concept: str, events: Iterable[Event]) -> Iterator[Found]:
    """Places, with the one broadcast right before that they read (Ascend has no implicit one)."""
    events = list(events)
    for place in kernel.spans.places(event.statement for event in events):
        yield kernel.at(concept, _take_broadcast(kernel, place), events)


def _take_broadcast(kernel: Kernel, place: Place) -> Place:
    before = kernel.spans.previous(place)
    if before is None or place.arm or kernel.context.call_name(before) not in BROADCASTS:
        return place
    feeds = kernel.feeders.feeds(before, place.anchor) or _is_read_by(kernel, before, place)
    if not feeds:
        return place
    return Place(before.lines.first, place.last, place.anchor, (before, *place.core))


def _is_read_by(kernel: Kernel, before: Stmt, place: Place) -> bool:
    written = kernel.feeders.written(before)
    return any(
        core in kernel.feeders.readers.get(name, ()) for name in written for core in place.core
    )
