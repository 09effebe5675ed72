"""What a run saw that it should not have: kind, statement, buffer, how often, first coordinate."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = (
    *(
        "uninitialised-read",
        "load-out-of-range",
        "store-out-of-range",
        "nan-born",
        "output-unwritten",
    ),
    *(
        "flag-left-set",
        "flag-not-set",
        "barrier-over-arrived",
        "address-overlap",
        "deadlock",
        "race",
        "stale-read",
        "unwaited-read",
        "unwaited-write",
        "unordered",
        "early-wait",
    ),
)


class Finding(msgspec.Struct, kw_only=True):
    """One thing seen at one statement, however often."""

    kind: str
    path: str
    line: int
    """1-based; 0 when it belongs to no statement."""
    buffer: str
    detail: str = ""
    count: int = 0
    where: tuple[int, ...] = ()
    """The first coordinate."""
    block: tuple[int, ...] = ()
    """The block of the grid in which it was seen first."""


class Findings:
    """Collects findings; the same thing at the same statement is counted."""

    def __init__(self, sources: Iterable[str] = ()) -> None:
        self.sources = set(sources)
        """The files whose lines count as statements."""
        self._found: dict[tuple[str, str, int, str], Finding] = {}

    def add(
        self,
        kind: str,
        buffer: str,
        *,
        count: int = 1,
        where: tuple[int, ...] = (),
        block: tuple[int, ...] = (),
        detail: str = "",
    ) -> None:
        """Note something at the statement that runs now."""
        path, line = self.here()
        key = (kind, path, line, buffer)
        found = self._found.get(key)
        if found is None:
            found = Finding(
                kind=kind,
                path=path,
                line=line,
                buffer=buffer,
                detail=detail,
                where=where,
                block=block,
            )
            self._found[key] = found
        found.count += count

    def here(self) -> tuple[str, int]:
        """Return file and line of the upstream statement that runs now."""
        frame: Any = sys._getframe(1)  # noqa: SLF001 - the cheapest way to the line
        while frame is not None:
            if frame.f_code.co_filename in self.sources:
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        return "", 0

    def counts(self) -> dict[tuple[str, str, int, str], int]:
        """Return how often each was seen, to go back to."""
        return {key: found.count for key, found in self._found.items()}

    def back_to(self, counts: dict[tuple[str, str, int, str], int]) -> None:
        """Forget what was seen since: that attempt is made anew."""
        self._found = {key: self._found[key] for key in counts}
        for key, count in counts.items():
            self._found[key].count = count

    def sorted(self) -> list[Finding]:
        """Return all, by file, line and kind."""
        return sorted(self._found.values(), key=lambda f: (f.path, f.line, f.kind, f.buffer))
