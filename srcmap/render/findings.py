"""What machines read: findings with a place each, for SARIF, annotations and JUnit."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["error", "warning", "note", "ok", "skipped"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One result of a check. Everything in it is in the reader's language already."""

    rule: str
    """A stable id, such as `drift/changed`."""
    level: Level
    """`ok` and `skipped` are shown by JUnit alone."""
    message: str
    path: str
    """A file of the user's repository, with forward slashes. Never empty: GitHub rejects those."""
    line: int = 1
    last_line: int = 0
    """0: the same as `line`."""
    name: str = ""
    """What was checked, for JUnit; the place when empty."""
    group: str = ""
    """What it belongs to, for JUnit: a document, a variant."""

    @property
    def end(self) -> int:
        """The last line."""
        return self.last_line or self.line

    @property
    def called(self) -> str:
        """What was checked."""
        return self.name or f"{self.path}:{self.line}"
