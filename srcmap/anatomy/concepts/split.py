"""Split-KV: what a split hands on, and the kernel that combines the splits."""

from __future__ import annotations


from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.concepts.softmax import is_staging_copy, stored_runs
from srcmap.model import Lines
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.tree import Stmt
    from srcmap.anatomy.spans import Place
    from srcmap.anatomy.flow import Access, Event
    from collections.abc import Iterator


def partials(kernel: Kernel) -> Iterator[Found]:
    """The partial log-sum-exp and output, when a later region reads what is stored."""
    handed = kernel.facts.handed_on
    lse = [
        access
        for access in kernel.facts.stores
        if access.name in handed and _is_lse(kernel, access)
    ]
    computed = [event.statement for event in kernel.facts.events("LSE", "LSE-LOG")] if lse else []
    stores = [access.statement for access in lse]
    for place in kernel.spans.places([*computed, *stores]):
        yield kernel.at("partial-lse", place, kernel.facts.events("LSE", "LSE-LOG"))
    outputs = [
        access.statement
        for access in kernel.facts.stores
        if access.name in handed and access.value.keys() & {"acc", "norm"}
    ]
    yield from stored_runs(kernel, "partial-output", outputs)


def _is_lse(kernel: Kernel, access: Access) -> bool:
    return bool(access.value.keys() & {"lse", "logd"})


def combine(kernel: Kernel) -> Iterator[Found]:
    """The combining region as a whole, and its four steps."""
    events = kernel.facts.events("COMBINE-ACC")
    if not events:
        return
    region_keys = {event.region for event in events}
    for region in dict.fromkeys(kernel.facts.launch_of(key) for key in sorted(region_keys)):
        if region is not None and not _also_attention(kernel, region):
            yield Found(
                "combine", kernel.spans.place(region), _without_trailing_noise(kernel, region)
            )
    steps = {
        "combine-max": ("COMBINE-MAX",),
        "combine-logsumexp": ("COMBINE-EXP", "COMBINE-SUM", "COMBINE-LOG", "COMBINE-LSE"),
        "combine-weights": ("COMBINE-WEIGHT",),
        "combine-accumulate": ("COMBINE-ACC", "COMBINE-NORM"),
    }
    for concept, kinds in steps.items():
        mine = [event for event in kernel.facts.events(*kinds) if event.region in region_keys]
        yield from _step(kernel, concept, mine)


def _also_attention(kernel: Kernel, region: Stmt) -> bool:
    return any(
        kernel.context.region_of(event.statement) is region for event in kernel.facts.events("PROB")
    )


def _without_trailing_noise(kernel: Kernel, region: Stmt) -> Lines:
    last = [below for below in region.arms["body"] if not kernel.context.is_noise(below)][-1]
    return Lines(region.lines.first, last.lines.last)


def _step(kernel: Kernel, concept: str, events: list[Event]) -> Iterator[Found]:
    for place in kernel.spans.places(event.statement for event in events):
        taken = place
        if concept == "combine-weights":
            taken = kernel.spans.extend_back(place, lambda s, p=place: _stages(kernel, s, p))
        yield kernel.at(concept, taken, events)


def _stages(kernel: Kernel, statement: Stmt, place: Place) -> bool:
    """A one-line load of what only this step reads."""
    if is_staging_copy(kernel, statement):
        return False
    return kernel.spans._can_feed(statement) and kernel.spans.feeds(
        statement, place.anchor, set(place.core)
    )
