"""Split-KV: what a split hands on, and the kernel that combines the splits.

Flash-Decoding (Dao and others 2023): partial outputs weighted by exp(lse - total lse).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.concepts.stores import is_staging_copy, stored_runs
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.reading import Event
    from srcmap.anatomy.spans import Place
    from srcmap.anatomy.tree import Stmt

STEPS = {
    "combine-max": ("COMBINE-MAX",),
    "combine-logsumexp": ("COMBINE-EXP", "COMBINE-SUM", "COMBINE-LOG", "COMBINE-LSE"),
    "combine-weights": ("COMBINE-WEIGHT",),
    "combine-accumulate": ("COMBINE-ACC", "COMBINE-NORM"),
}
"""Concept to the events that it is made of."""


def partials(kernel: Kernel) -> Iterator[Found]:
    """The partial log-sum-exp and output, when a later region reads what is stored."""
    handed = kernel.facts.handed_on
    stores = [access for access in kernel.facts.stores if access.name in handed]
    sums = [access.statement for access in stores if access.value.keys() & {"lse", "logd"}]
    if sums:
        events = kernel.facts.events("LSE", "LSE-LOG")
        for place in kernel.spans.places([*(event.statement for event in events), *sums]):
            yield kernel.at("partial-lse", place, events)
    outputs = [access.statement for access in stores if access.value.keys() & {"acc", "norm"}]
    yield from stored_runs(kernel, "partial-output", outputs)


def combine(kernel: Kernel) -> Iterator[Found]:
    """The combining region as a whole, and its four steps."""
    regions = {event.region for event in kernel.facts.events("COMBINE-ACC")}
    for launch in dict.fromkeys(map(kernel.facts.launch_of, sorted(regions))):
        if launch is not None and not _also_attends(kernel, launch):
            lines = _without_trailing_noise(kernel, launch)
            yield Found("combine", kernel.spans.place(launch), lines)
    for concept, kinds in STEPS.items():
        events = [event for event in kernel.facts.events(*kinds) if event.region in regions]
        yield from _step(kernel, concept, events)


def _also_attends(kernel: Kernel, launch: Stmt) -> bool:
    events = kernel.facts.events("PROB")
    return any(kernel.context.region_of(event.statement) is launch for event in events)


def _without_trailing_noise(kernel: Kernel, launch: Stmt) -> Lines:
    last = [below for below in launch.arms["body"] if not kernel.context.is_noise(below)][-1]
    return Lines(launch.lines.first, last.lines.last)


def _step(kernel: Kernel, concept: str, events: list[Event]) -> Iterator[Found]:
    for place in kernel.spans.places(event.statement for event in events):
        taken = _with_staging(kernel, place) if concept == "combine-weights" else place
        yield kernel.at(concept, taken, events)


def _with_staging(kernel: Kernel, place: Place) -> Place:
    """Take in one-line loads of what only this step reads."""

    def stages(statement: Stmt) -> bool:
        return not is_staging_copy(kernel, statement) and kernel.feeders.feeds(
            statement, place.anchor
        )

    return kernel.spans.extend_back(place, stages)
