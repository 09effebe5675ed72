"""Judged citations as renderers take them: every sentence in the reader's language already."""

from __future__ import annotations

import msgspec

from srcmap.render.interface import CodeLine  # noqa: TC001


class ShownCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Where the right place may be."""

    place: str
    why: str
    code: tuple[CodeLine, ...] = ()


class ShownCitation(msgspec.Struct, frozen=True, kw_only=True):
    """One citation."""

    document: str
    line: int
    text: str
    """As it is written, on one line."""
    target: str
    """What it refers to: `REPO@VERSION:path:lines`."""
    verdict: str = ""
    fault: bool = False
    known: bool = False
    reason: str = ""
    remarks: tuple[str, ...] = ()
    candidates: tuple[ShownCandidate, ...] = ()
