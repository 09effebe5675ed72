"""What goes into a comparison and what comes out of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from srcmap.model import Lines, Note  # noqa: TC001 - msgspec reads the annotations

Verdict = Literal[
    "same", "moved", "cosmetic", "changed", "moved-file", "removed", "ambiguous", "new", "unjudged"
]
VERDICTS: tuple[Verdict, ...] = (
    "same", "moved", "cosmetic", "changed", "moved-file", "removed", "ambiguous", "new", "unjudged",
)  # fmt: skip
Grade = Literal["proven", "proposed", ""]


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a file of one tree."""

    path: str
    lines: Lines

    def __str__(self) -> str:
        return f"{self.path}:{self.lines}"


class Guess(msgspec.Struct, frozen=True, kw_only=True):
    """A place that may be meant, and how good it is, from 0 to 1."""

    spot: Spot
    score: float


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one range."""

    old: Spot
    new: Spot | None
    verdict: Verdict
    grade: Grade = "proposed"
    methods: tuple[str, ...] = ()
    """Those that agree with the place: identical, lines, scope, move, history, anatomy."""
    against: tuple[str, ...] = ()
    """Those that say another place."""
    similarity: float = 0.0
    candidates: tuple[Guess, ...] = ()
    reason: tuple[Note, ...] = ()
    what: tuple[str, ...] = ()
    """For `changed`: the tokens that differ, `old -> new`."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was asked about, and its answer."""

    kind: Literal["entry", "lines", "citation"]
    answer: Answer
    variant: str = ""
    concept: str = ""
    site: str = ""
    document: str = ""
    """For a citation: where it stands, `path:line`."""

    @property
    def subject(self) -> str:
        """What a reader calls it."""
        if self.kind == "entry":
            return " ".join(part for part in (self.variant, self.concept, self.site) if part)
        return self.document or str(self.answer.old)


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two things that were compared."""

    name: str
    commit: str | None
    source: Literal["checkout", "clone", "folder", "map"]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a bump does."""

    repo: str
    url: str
    old: Version
    new: Version
    items: tuple[Item, ...]
    notes: tuple[Note, ...] = ()
    """How it was judged, and what more would tell more."""

    @property
    def counts(self) -> dict[str, int]:
        """How many items have each verdict; every verdict is there."""
        found: dict[str, int] = dict.fromkeys(VERDICTS, 0)
        for item in self.items:
            found[item.answer.verdict] += 1
        return found
