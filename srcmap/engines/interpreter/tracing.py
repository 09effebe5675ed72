"""Writes down what each statement of one block produced for one query row.

The kernel runs twice: first to see which block of the grid writes which rows of the outputs, then
that block alone, with every store recorded at the row. The record holds numbers and line numbers,
no upstream text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter.lanes import Lane
from srcmap.engines.interpreter.machine import here
from srcmap.engines.interpreter.memory import GLOBAL, Buffer

if TYPE_CHECKING:
    from srcmap.engines.interpreter.findings import Findings

_MOST_VALUES = 128
_MOST_EVENTS = 20_000


class Watcher:
    """Told of every store; see the module."""

    def __init__(self, row: int | None, findings: Findings) -> None:
        self.asked = row
        self.findings = findings
        self.written: dict[tuple[int, ...], list[tuple[str, int, int, int]]] = {}
        """Block -> output, dimension, first and last row of what it stores there."""
        self.rows_of_output = 0
        self.missing = False
        """Whether no block stores the row that is asked for."""
        self.chosen: tuple[int, ...] | None = None
        self.recording = False
        self.first = 0
        self.rows = 1
        self.events: list[dict[str, Any]] = []
        self.row = row

    def wants_block(self, index: tuple[int, ...]) -> bool:
        """Whether a block runs: all in the first pass, one in the second."""
        return not self.recording or self.chosen is None or index == self.chosen

    def stored(self, name: str, place: Any, where: Any, value: Any, box: Any = None) -> None:
        """Take note of a store; `box` is what it was meant to go over, inside or not."""
        spans = [_span(item) for item in where] if box is None else box
        if not self.recording:
            if isinstance(place, Buffer) and place.scope == GLOBAL:
                self._mark(place, spans)
            return
        if len(self.events) < _MOST_EVENTS:
            self._record(name, place, spans, value)

    # -- first pass ----------------------------------------------------------------------------

    def _mark(self, buffer: Buffer, spans: list[tuple[int, int]]) -> None:
        long = [n for n, (a, b) in enumerate(spans) if b - a > 1]
        # The rows are the first dimension that moves; in a single row it is the one before.
        axis = long[0] if len(long) > 1 else max((long[0] if long else 1) - 1, 0)
        first, last = spans[axis] if spans else (0, 1)
        size = buffer.data.shape[axis] if spans else 1
        self.rows_of_output = max(self.rows_of_output, min(last, size))
        block = here.run.block.index
        self.written.setdefault(block, []).append((buffer.name, axis, first, last))

    def choose(self) -> None:
        """End the first pass: choose the block that stores the row that is asked for."""
        found = self._candidates()
        if self.asked is None:
            rows = sorted({first for _, first, _ in found})
            middle = rows[len(rows) // 2] if rows else 0
            spans = [(first, last) for _, first, last in found if first == middle]
            self.row = middle + (spans[0][1] - middle) // 2 if spans else 0
        for block, first, last in found:
            if first <= (self.row or 0) < last:
                self.chosen, self.first, self.rows = block, first, last - first
                break
        else:
            self.missing = bool(found)
        self.recording = True

    def _candidates(self) -> list[tuple[tuple[int, ...], int, int]]:
        found = []
        for block, stores in self.written.items():
            widest = max(last - first for _, _, first, last in stores)
            for _, _, first, last in stores:
                if last - first == widest:
                    found.append((block, first, last))
                    break
        return found

    # -- second pass ---------------------------------------------------------------------------

    def _record(self, name: str, place: Any, where: Any, value: Any) -> None:
        _, line = self.findings.here()
        run = here.run
        local = (self.row or 0) - self.first
        values, rows = _at_row(place, where, value, local, self.rows)
        self.events.append(
            {
                "line": line,
                "loops": [[n, _plain(v)] for n, v in run.role.loops],
                "role": run.role.name,
                "buffer": name,
                "scope": getattr(place, "scope", "local"),
                "row": rows,
                "values": values,
            }
        )

    def record(self) -> dict[str, Any]:
        """Return everything, as plain data."""
        if self.missing:
            return {"row": self.row, "missing": True, "rows": [0, self.rows_of_output - 1]}
        return {
            "row": self.row,
            "block": list(self.chosen or ()),
            "rows": [self.first, self.first + self.rows - 1],
            "events": self.events,
            "complete": len(self.events) < _MOST_EVENTS,
        }


def _span(item: Any) -> tuple[int, int]:
    if isinstance(item, slice):
        return int(item.start or 0), int(item.stop or 0)
    if isinstance(item, Lane):
        return item.start, item.start + item.extent
    numbers = np.asarray(item)
    return int(numbers.min()), int(numbers.max()) + 1


def _at_row(place: Any, where: Any, value: Any, local: int, rows: int) -> tuple[Any, bool]:
    """Return what a store put at the row, if the buffer has rows of this block; else all of it."""
    if not isinstance(place, Buffer):
        array = np.asarray(place.held if hasattr(place, "held") else value)
        return _numbers(array), False
    data = place.data
    if place.scope == GLOBAL:
        return _global(place, where, local, rows)
    if here.run.moving_from == GLOBAL and here.run.role.loops:
        return _numbers(data), False  # keys and values: their rows are not the query's
    # On Ascend each Vector has half of the rows.
    for size, shift in ((rows, 0), (rows // 2, here.run.role.vid * (rows // 2))):
        axis = next((n for n, s in enumerate(data.shape) if s == size and size > 1), None)
        inside = 0 <= local - shift < size
        if axis is not None and inside and axis < max(data.ndim - 1, 1):
            return _numbers(np.take(data, local - shift, axis=axis)), True
    return _numbers(data), False


def _global(place: Buffer, where: Any, local: int, rows: int) -> tuple[Any, bool]:
    """Return a store to global memory: the row of its box, when it has as many rows."""
    seen = place.data[tuple(slice(max(a, 0), b) for a, b in where)]
    for size, shift in ((rows, 0), (rows // 2, here.run.role.vid * (rows // 2))):
        for axis, (first, last) in enumerate(where):
            if last - first == size and size > 1 and 0 <= local - shift < seen.shape[axis]:
                return _numbers(np.take(seen, local - shift, axis=axis)), True
    return _numbers(seen), False


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | bool) else str(value)


def _numbers(array: Any) -> dict[str, Any]:
    """Return an array as its first numbers and a few about all of them."""
    flat = np.asarray(array)
    shape = list(flat.shape)
    numbers = flat.reshape(-1).astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return {
        "shape": shape,
        "low": float(finite.min()) if finite.size else None,
        "high": float(finite.max()) if finite.size else None,
        "nan": int(np.isnan(numbers).sum()),
        "minus_infinite": int(np.isneginf(numbers).sum()),
        "first": [_json(v) for v in numbers[:_MOST_VALUES]],
    }


def _json(value: float) -> Any:
    """JSON has no infinities: they travel as words."""
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.7g}")
