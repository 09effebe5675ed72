"""A trace as a page: source lines, and beside each what it produced at every iteration."""

from __future__ import annotations

import msgspec


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One source line."""

    number: int
    text: str
    concept: str = ""
    """What the line is for, when the map knows."""


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """What a statement stored."""

    line: int
    buffer: str
    step: int | None
    """The iteration, by its place; None before the loop, -1 after it."""
    text: str
    """The numbers in short."""
    role: str = ""
    times: int = 1
    """How often it stored during this iteration; the last store is shown."""
    number: float | None = None
    """The value, when it is one number: what is tabled over the iterations."""
    values: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()


class TracePage(msgspec.Struct, frozen=True, kw_only=True):
    """A trace."""

    title: str
    path: str
    check: str
    row: int
    block: tuple[int, ...]
    steps: tuple[str, ...]
    """What each iteration is called: the value of its loop variable."""
    lines: tuple[TraceLine, ...]
    values: tuple[Value, ...]
    url: str = ""
    remarks: tuple[str, ...] = ()

    def at(self, step: int) -> list[Value]:
        """Return what is in force at an iteration: before the loop, in it, and after it."""
        last = len(self.steps) - 1
        return [
            v
            for v in self.values
            if v.step is None or v.step == step or (v.step < 0 and step == last)
        ]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the single numbers that change over the iterations: names, and a row for each."""
        names = list(
            dict.fromkeys(v.buffer for v in self.values if v.number is not None and _in(v))
        )
        rows = []
        for step, label in enumerate(self.steps):
            last = {
                v.buffer: v.text for v in self.values if v.step == step and v.number is not None
            }
            rows.append([label, *(last.get(name, "") for name in names)])
        return names, rows


def _in(value: Value) -> bool:
    return value.step is not None and value.step >= 0
