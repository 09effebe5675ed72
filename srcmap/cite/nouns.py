"""The nouns of citations. Spans are half open, 0-based, in raw bytes of the document."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from srcmap.model import Lines, Note  # noqa: TC001

Verdict = Literal[
    "unknown-repo", "unpinned", "malformed", "no-such-file", "out-of-range", "blank",
    "ambiguous", "off", "ok", "plausible",
]  # fmt: skip
VERDICTS: tuple[Verdict, ...] = Verdict.__args__  # type: ignore[attr-defined]
BAD = frozenset(VERDICTS) - {"ok", "plausible"}
"""The verdicts that are faults."""

Rule = Literal["lines", "url", "continuation", "comment", "section", "path", "directory", "include"]
"""How the reference is written."""

Span = tuple[int, int]


class Place(NamedTuple):
    """A file or directory of a repository."""

    repo: str
    path: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a citation refers to; without repo and path while nothing decides between several."""

    repo: str | None
    pin: str | None
    """The version that the document names, in its words; None when it names none."""
    path: str | None
    lines: Lines | None = None
    section: str | None = None


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """One reference: where it stands and what it refers to, before anything is judged."""

    span: Span
    text: str
    rule: Rule
    written: str
    """The path as it is written, without what is around it; empty for a continuation."""
    target: Target
    digits: tuple[Span, ...] = ()
    """The bytes of the line numbers, first and last: all that `fix` may touch."""
    commit: Span | None = None
    """The bytes of the commit in a link."""
    line: int = 1
    """Where it stands in the document, 1-based."""
    at: Span = (0, 0)
    """Its place in the text, in characters."""
    options: tuple[Place, ...] = ()
    """Repository and path of every file that may be meant, when several may."""
    pinned: Literal["", "pin", "branch", "unknown"] = ""
    """What the written version is: a pin, a branch, or neither."""
    foreign: bool = False
    """A link into a repository that nobody pinned."""
    plain: bool = True
    """False for a link to a rendered page whose line numbers lead nowhere."""
    same: bool = False
    """Written as "same file"."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """Where the right place may be."""

    path: str
    lines: Lines | None
    why: Note
    repo: str = ""
    proven: bool = False
    """The text or the concept stands there and nowhere else: `fix` may write it."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A citation with its verdict."""

    document: str
    citation: Citation
    verdict: Verdict
    judged_at: str | None
    """`REPO@VERSION`."""
    reason: Note
    flags: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    warnings: tuple[Note, ...] = ()
    digest: str = ""
    """Of the cited lines at `judged_at`; empty when there are none."""
    known: bool = False
    """Listed in the baseline: shown, and no reason to fail."""
