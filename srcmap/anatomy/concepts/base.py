"""What a concept function is given and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from srcmap.anatomy.masks import Masks
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.anatomy.context import Context
    from srcmap.anatomy.deps import Dependencies
    from srcmap.anatomy.facts import Facts
    from srcmap.anatomy.feeders import Feeders
    from srcmap.anatomy.reading import Event, Reading
    from srcmap.anatomy.spans import Place, Spans


class Found(NamedTuple):
    """One place of one concept, before it is labelled."""

    concept: str
    place: Place | None
    """None for what stands outside the kernel's statements (builder, signature)."""
    lines: Lines
    operand: str = ""
    """What tells this place from others by its data: `K`, `V`, the number of a flag."""
    detail: str = ""
    """A value that belongs to the concept."""
    events: tuple[Event, ...] = ()
    because: tuple[tuple[str, Lines], ...] = ()
    """Premises that are not events: message id and lines."""


class Kernel:
    """One kernel with everything that was read of it."""

    def __init__(
        self,
        context: Context,
        deps: Dependencies,
        reading: Reading,
        facts: Facts,
        feeders: Feeders,
        spans: Spans,
    ) -> None:
        self.context = context
        self.deps = deps
        self.reading = reading
        self.facts = facts
        self.feeders = feeders
        self.spans = spans

    @cached_property
    def masks(self) -> Masks:
        """Everything that hides scores."""
        return Masks(self)

    def at_events(
        self, concept: str, events: Iterable[Event], operand: str = ""
    ) -> Iterator[Found]:
        """Places of the statements of some events."""
        events = list(events)
        for place in self.spans.places(event.statement for event in events):
            yield self.at(concept, place, events, operand)

    def at(
        self,
        concept: str,
        place: Place,
        events: Iterable[Event] = (),
        operand: str = "",
        detail: str = "",
    ) -> Found:
        """A finding at a place, with the events that happened in it."""
        inside = {statement.place for statement in place.core}
        mine = tuple(event for event in events if event.statement.place in inside)
        return Found(concept, place, place.lines, operand, detail, mine)

    def outside(self, concept: str, lines: Lines, why: str) -> Found:
        """A finding in the builder or the signature; `why` is the id of its premise."""
        return Found(concept, None, lines, because=((why, lines),))

    def parameter_line(self, concept: str, name: str) -> Iterator[Found]:
        """The line of the signature that takes a tensor."""
        line = self.context.parameters.get(name)
        if line is not None:
            yield self.outside(concept, Lines(line, line), "roles.parameter")


Finder = Callable[[Kernel], Iterator[Found]]
