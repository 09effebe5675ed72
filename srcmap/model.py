r"""The nouns shared by two or more stages.

Lines are 1-based and inclusive everywhere, and only `\n` ends a line, as git and GitHub count.
All nouns are frozen msgspec structs: cheap to import, to make and to write as JSON.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["found", "absent", "missing", "ambiguous"]
"""found: proven; absent: this code does not do it; missing: expected or not judged; ambiguous."""

Confidence = Literal["high", "medium", "low"]


class Lines(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A run of lines, 1-based, both ends included. Written `[first, last]` in JSON."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"

    def overlap(self, other: Lines) -> float:
        """Intersection over union, the measure of CONCEPTS.md."""
        common = min(self.last, other.last) - max(self.first, other.first) + 1
        if common <= 0:
            return 0.0
        union = max(self.last, other.last) - min(self.first, other.first) + 1
        return common / union


class Note(msgspec.Struct, frozen=True):
    """A sentence to be said in the reader's language: the id of a message and its values.

    The sentences stand in `data/text/<lang>.json`.
    """

    key: str
    args: dict[str, str] = {}


class Premise(msgspec.Struct, frozen=True, kw_only=True):
    """One link of the chain that proves a location: what was seen, and on which lines."""

    note: Note
    lines: Lines


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """One place that does one concept, inside one file."""

    concept: str
    """An id of CONCEPTS.md."""
    label: str
    """Tells several places of one concept apart: `operand=K`, `branch=causal`; else empty."""
    lines: Lines
    """The shortest run of whole statements that does it."""
    context: Lines
    """`lines` with the leading comments that explain it."""
    qualname: str
    """The innermost enclosing definition, `outer.inner`; `name#2` for the second of that name."""
    confidence: Confidence = "high"
    detail: str = ""
    """A value that belongs to the concept, such as the number a hidden score is set to."""
    proof: tuple[Premise, ...] = ()


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """A concept that this kernel does not have, and the premise that failed."""

    concept: str
    reason: Note
    judged: bool = True
    """False: an operation that could matter was not understood, so nothing is claimed."""


class Ambiguity(msgspec.Struct, frozen=True, kw_only=True):
    """Several places of equal rank for a concept that has one; best candidate first."""

    concept: str
    label: str
    reason: Note
    candidates: tuple[Site, ...]


class UnreadCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tilelang operation that the table of operations does not know."""

    name: str
    lines: Lines


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """What one statement does, for the gutter: role ids such as `score`, `row-max`, `copy`."""

    lines: Lines
    roles: tuple[str, ...]


class KernelAnatomy(msgspec.Struct, frozen=True, kw_only=True):
    """What one kernel does. C++ and Markdown files have one, named after the file."""

    qualname: str
    kind: Literal["attention", "backward", "indexer", "combine", "selection", "other", "file"]
    lines: Lines
    sites: tuple[Site, ...]
    """Sorted by first line, concept, label."""
    absences: tuple[Absence, ...] = ()
    ambiguities: tuple[Ambiguity, ...] = ()
    unread: tuple[UnreadCall, ...] = ()
    deeds: tuple[Deed, ...] = ()


class FileAnatomy(msgspec.Struct, frozen=True, kw_only=True):
    """What one file does."""

    path: str
    language: Literal["python", "cpp", "markdown"]
    kernels: tuple[KernelAnatomy, ...]
    problems: tuple[Note, ...] = ()
    """What could not be read (parse errors, odd encodings); shown, never hidden."""
