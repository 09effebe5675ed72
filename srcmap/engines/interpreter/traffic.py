"""Who touched what, and what orders it: reads and writes that run beside each other are told.

What a role does follows in order. Between roles only barriers order, and what a role starts without
waiting (a product of its warp group, a copy of the tensor memory accelerator, a product of the
tensor cores into tensor memory) is over for it once it has waited. Each of these is an actor with a
time of its own; a clock says up to which time of each actor one knows that it is over (vector
clocks, as race detectors for threads keep them). So a wait that is missing is seen whichever way
the roles happened to take turns here.

Only boxes that are exact are kept. Statements that all threads run are left out: there the compiler
sees who reads and writes, and puts barriers in.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from srcmap.engines.interpreter.machine import Clock, Role, here, join

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

Box = tuple[tuple[int, int], ...]
"""Start and end along each dimension."""


class Flight(NamedTuple):
    """Something that runs beside the role that started it."""

    actor: Hashable
    time: int
    clock: Clock
    """What is over when it starts."""
    what: str
    """How it is named in findings."""
    reads: bool = True
    """Whether it also reads later; else only what it writes comes late."""


ATOMIC = Flight(None, 0, {}, "")
"""Atomic operations need no order among themselves."""


class Touch(NamedTuple):
    """The last time that an actor read or wrote a box."""

    time: int
    what: str
    flying: bool


class Traffic:
    """The reads and writes of one buffer that may still matter."""

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        """Whether several roles see it: what they do at once is kept too."""
        self.touches: dict[tuple[Hashable, Box, bool], Touch] = {}

    def touch(self, name: str, box: Box, write: bool) -> None:
        """Note a read or a write, and tell if something that it depends on may not be over."""
        run = here.run
        role, flight = run.role, run.role.flight
        if flight is ATOMIC:
            return
        if flight is not None and not (write or flight.reads):
            flight = None
        if flight is None and _all_take_part(role):
            self.touches.clear()
            return
        actor: Hashable = role if flight is None else flight.actor
        clock = role.clock if flight is None else flight.clock
        for (other, place, wrote), past in self.touches.items():
            if (
                other != actor
                and (write or wrote)
                and clock.get(other, 0) < past.time
                and _meet(box, place)
            ):
                _tell(name, past, write, wrote, flight)
        if flight is not None or self.shared:
            if write:
                self._forget(box, clock)
            if flight is None:
                what = Touch(role.clock[role], role.name, flying=False)
            else:
                what = Touch(flight.time, flight.what, flying=True)
            self.touches[actor, box, write] = what

    def _forget(self, box: Box, clock: Clock) -> None:
        """What lies in a box that is written, and is over, can be in nobody's way any more."""
        gone = [
            key
            for key, past in self.touches.items()
            if clock.get(key[0], 0) >= past.time and _lies_in(key[1], box)
        ]
        for key in gone:
            del self.touches[key]


def _all_take_part(role: Role) -> bool:
    return not role.parted and len(here.run.block.roles) > 1


def _meet(one: Box, other: Box) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))


def _lies_in(inner: Box, outer: Box) -> bool:
    return all(c <= a and b <= d for (a, b), (c, d) in zip(inner, outer, strict=True))


def _tell(name: str, past: Touch, write: bool, wrote: bool, flight: Flight | None) -> None:
    if not past.flying and flight is None:
        kind = "unordered"
    elif past.flying and wrote and not write:
        kind = "unwaited-read"
    else:
        kind = "unwaited-write"
    here.run.note(kind, name, detail=past.what)


# -- what runs beside its role -------------------------------------------------------------------


class Pipe:
    """Operations of one kind that a role starts, and that end in order."""

    def __init__(self, role: Role, name: str) -> None:
        self.actor = (role, name)
        self.started = 0
        self.groups: list[int] = []
        """How many had been started when each group was closed."""

    def start(self, what: str, *, reads: bool = True) -> Flight:
        """Start one more."""
        self.started += 1
        clock = {**here.run.role.clock, self.actor: self.started}
        return Flight(self.actor, self.started, clock, what, reads)

    def close(self) -> None:
        """End a group."""
        self.groups.append(self.started)

    def over(self, left: int = 0) -> int:
        """Return how many are over when no more than `left` groups may still run."""
        closed = self.groups[: len(self.groups) - left]
        return closed[-1] if closed else 0


def pipe(name: str) -> Pipe:
    """Return a pipe of the role that runs now."""
    role = here.run.role
    if name not in role.pipes:
        role.pipes[name] = Pipe(role, name)
    found: Pipe = role.pipes[name]
    return found


def waited(name: str, left: int = 0) -> None:
    """The role waits until no more than `left` groups of a pipe still run."""
    role = here.run.role
    if name in role.pipes:
        join(role.clock, {role.pipes[name].actor: role.pipes[name].over(left)})


@contextmanager
def flying(flight: Flight | None) -> Iterator[None]:
    """What is read and written inside is read and written by the flight."""
    role = here.run.role
    outer, role.flight = role.flight, flight
    try:
        yield
    finally:
        role.flight = outer


def line_of(what: str) -> str:
    """Return how an operation is named: with the line that starts it."""
    _, line = here.run.findings.here()
    return f"{what}, line {line}" if line else what
