"""The page of `srcmap drift`: plain data, every sentence in the reader's language."""

from __future__ import annotations

import msgspec


class DriftRow(msgspec.Struct, frozen=True, kw_only=True):
    """One location and what became of it."""

    subject: str
    old: str
    """`path:lines`; empty for a location that is new."""
    new: str
    """Empty: it has no place now."""
    old_url: str | None = None
    new_url: str | None = None
    verdict: str
    """The word for it."""
    grade: str
    """The word for it; empty when nothing was judged."""
    methods: str
    similarity: str
    details: tuple[str, ...] = ()
    """What differs, why, and which places come near."""


class DriftPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a bump does."""

    title: str
    summary: tuple[tuple[str, int, int, str], ...]
    """Verdict, how many, how many of them proven, and what the verdict means."""
    head: tuple[str, ...]
    """The words above the columns of the summary."""
    groups: tuple[tuple[str, tuple[DriftRow, ...]], ...]
    """By verdict; what is not shown one by one has no group."""
    documents: tuple[str, ...] = ()
    """The documents that break, each with how many of its citations."""
    documents_title: str = ""
    remarks: tuple[str, ...] = ()
    row_head: tuple[str, ...] = ()
    """The words above the columns of a table of rows."""
