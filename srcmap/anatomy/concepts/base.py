"""What a concept function is given and what it yields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TYPE_CHECKING


if TYPE_CHECKING:
    from srcmap.anatomy.deps import Dependencies
    from srcmap.model import Confidence, Lines
    from srcmap.anatomy.context import Context
    from srcmap.anatomy.tree import Stmt
    from srcmap.anatomy.spans import Place, Spans
    from srcmap.anatomy.flow import Event, Reading
    from srcmap.anatomy.facts import Facts


class Found(NamedTuple):
    """One place of one concept, before it is labelled."""

    concept: str
    place: Place | None
    """None for what stands outside the kernel's statements (builder, signature)."""
    lines: Lines
    operand: str = ""
    detail: str = ""
    events: tuple[Event, ...] = ()
    because: tuple[tuple[str, Lines], ...] = ()
    """Premises that are not events: message id and lines."""
    confidence: Confidence = "high"


class Kernel:
    """One kernel with everything that was read of it."""

    def __init__(
        self, context: Context, deps: Dependencies, reading: Reading, facts: Facts, spans: Spans
    ) -> None:
        self.context = context
        self.deps = deps
        self.reading = reading
        self.facts = facts
        self.spans = spans

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

    def outside(
        self, concept: str, lines: Lines, why: str, *, detail: str = "", operand: str = ""
    ) -> Found:
        """A finding in the builder or the signature."""
        return Found(concept, None, lines, operand, detail, because=((why, lines),))

    def statement_lines(self, statement: Stmt) -> Lines:
        """First to last line of a statement."""
        return statement.lines


Finder = Callable[[Kernel], Iterator[Found]]
