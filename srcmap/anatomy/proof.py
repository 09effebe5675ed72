"""The chain of premises that proves a finding, for `--why`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.model import Note, Premise

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.flow import Event

MAX_CHAIN = 24


def premises(kernel: Kernel, found: Found) -> tuple[Premise, ...]:
    """What was seen, from the first product to the finding, each premise once."""
    chain: dict[tuple[str, int], Premise] = {}
    for why, lines in found.because:
        chain[why, lines.first] = Premise(note=Note(why), lines=lines)
    pending = list(found.events)
    seen: set[tuple[str, int]] = set()
    while pending and len(chain) < MAX_CHAIN:
        event = pending.pop(0)
        key = (event.kind, event.statement.uid)
        if key in seen:
            continue
        seen.add(key)
        chain[event.kind, event.statement.lines.first] = _premise(event)
        pending += _makers(kernel, event)
    if not chain:
        rule = f"roles.rule-{found.concept}"
        chain[rule, found.lines.first] = Premise(note=Note(rule), lines=found.lines)
    return tuple(sorted(chain.values(), key=lambda premise: (premise.lines, premise.note.key)))


def _premise(event: Event) -> Premise:
    roles = ", ".join(sorted({tag for tag, _ in event.because}))
    return Premise(
        note=Note(f"roles.event-{event.kind.lower()}", {"roles": roles}),
        lines=event.statement.lines,
    )


def _makers(kernel: Kernel, event: Event) -> list[Event]:
    """Events at the statements that made the roles of the operands."""
    uids = {uid for tag, uid in event.because if not tag.startswith("L:")}
    return [
        other
        for other in kernel.reading.events.values()
        if other.statement.uid in uids and other.kind != "FILL"
    ]
