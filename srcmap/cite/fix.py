"""Judged citations -> the bytes to change: digits and commits in place, and nothing around them.

Only what is proven is written: one candidate whose text, concept or recorded lines stand there and
nowhere else. A link whose lines are not proven keeps its old commit, which still works.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.cite.nouns import Candidate, Judged
    from srcmap.model import Lines

_MENDABLE = frozenset({"off", "out-of-range", "blank"})


class Change(NamedTuple):
    """Bytes of the document, half open, and what goes in their place."""

    first: int
    last: int
    new: bytes


def proven(judged: Judged) -> Candidate | None:
    """Give the one candidate in the cited file that is sure; None when there is a choice."""
    if judged.verdict not in _MENDABLE:
        return None
    sure = [c for c in judged.candidates if c.proven and c.lines]
    places = {(c.repo or judged.citation.target.repo, c.path, c.lines) for c in sure}
    if len(places) != 1 or sure[0].path != judged.citation.target.path:
        return None
    return sure[0]


def changes(judged: Judged, lines: Lines | None, commit: str | None, data: bytes) -> list[Change]:
    """Write new lines and a new commit into one citation; [] when its form cannot hold them."""
    found: list[Change] = []
    citation = judged.citation
    if lines is not None and citation.target.lines != lines:
        digits = _digits(citation.digits, lines, data)
        if digits is None:
            return []
        found.extend(digits)
    if commit is not None and citation.commit is not None:
        first, last = citation.commit
        new = commit[: last - first].encode()
        if data[first:last] != new:
            found.append(Change(first, last, new))
    return found


def _digits(spans: Sequence[tuple[int, int]], lines: Lines, data: bytes) -> list[Change] | None:
    """Two numbers take any range; one number takes a range where the form has room for it."""
    if not spans or any(not data[a:b].isdigit() for a, b in spans):
        return None
    first = str(lines.first).encode()
    last = str(lines.last).encode()
    if len(spans) == 2:
        return [Change(*spans[0], first), Change(*spans[1], last)]
    if first == last:
        return [Change(*spans[0], first)]
    mark = b"-L" if data[spans[0][0] - 1 : spans[0][0]] == b"L" else b"-"
    return [Change(*spans[0], first + mark + last)]


def apply(data: bytes, found: Iterable[Change]) -> bytes:
    """Make the changes. Overlapping ones are refused: two citations never share a byte."""
    parts, at = [], 0
    for change in sorted(set(found)):
        if change.first < at:
            continue
        parts += [data[at : change.first], change.new]
        at = change.last
    return b"".join([*parts, data[at:]])


def patch(name: str, before: bytes, after: bytes) -> bytes:
    """Write a patch that `git apply` takes: lines are bytes, and a missing last newline is told."""
    import difflib

    old, new = _lines(before), _lines(after)
    raw = name.encode("utf-8", "surrogateescape")
    tab = b"\t" if b" " in raw else b""  # where a name with blanks ends
    out = [
        b"diff --git a/%s b/%s\n" % (raw, raw),
        b"--- a/%s%s\n" % (raw, tab),
        b"+++ b/%s%s\n" % (raw, tab),
    ]
    body = difflib.diff_bytes(difflib.unified_diff, old, new, b"", b"", n=3)
    for number, line in enumerate(body):
        if number < 2:
            continue
        out.append(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n")
    return b"".join(out)


def _lines(data: bytes) -> list[bytes]:
    parts = data.split(b"\n")
    whole = [part + b"\n" for part in parts[:-1]]
    return [*whole, parts[-1]] if parts[-1] else whole
