"""Quoted text, table rows, names and digests against the lines of a file.

Each says whether the place agrees, and where the right one is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.compare import norm
from srcmap.cite.nouns import Candidate
from srcmap.model import Lines, Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.cite.compare import FileText
    from srcmap.cite.quoting import Quote

_TELLING = 14
"""Quoted text shorter than this, found elsewhere, proves nothing."""
_CALL = re.compile(r"\s*((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\(.*\w.*\)\s*\Z")
SHOWN = 5
"""How many candidates are given."""


class Finding(NamedTuple):
    """What comparing said: whether the place agrees, and where the right one is."""

    agrees: bool
    reason: Note
    candidates: tuple[Candidate, ...] = ()


def by_quotes(path: str, text: FileText, lines: Lines, quotes: Sequence[Quote]) -> Finding | None:
    """Look for quoted text on the cited lines, then in the whole file."""
    elsewhere: list[tuple[bool, int, Lines]] = []
    for quote in quotes:
        places = _places(text, quote)
        if any(_fits(text, place, lines, quote) for _, place in places):
            return Finding(True, Note("cite.reason.quote"))
        if places and (quote.near or quote.prose):
            most = max(count for count, _ in places)
            if _tells(quote, places):
                elsewhere.extend((quote.prose, most, p) for c, p in places if c == most)
    if not elsewhere:
        return None
    best = max(count for _, count, _ in elsewhere)
    ranked = sorted({p for _, count, p in elsewhere if count == best},
                    key=lambda p: abs(p.first - lines.first))  # fmt: skip
    right = tuple(
        Candidate(path=path, lines=p, why=Note("cite.why.quote"), proven=len(ranked) == 1)
        for p in ranked[:SHOWN]
    )
    return Finding(False, Note("cite.reason.quote-elsewhere", {"lines": str(ranked[0])}), right)


def _tells(quote: Quote, places: Sequence[object]) -> bool:
    """Whether quoted text found elsewhere proves that it is not here: long, or found once."""
    shown = "".join(map(norm, quote.lines))
    return len(shown) >= _TELLING or (len(places) == 1 and "=" in shown and len(shown) >= 8)


def is_exact(text: FileText, lines: Lines, quotes: Sequence[Quote]) -> bool:
    """Whether the code shown beside a citation is just what stands on its lines."""
    near = [q for q in quotes if q.near]
    return any(
        place.overlap(lines) >= (0.5 if q.prose else 0.9)
        for q in near
        for _, place in _places(text, q)
    )


def called_elsewhere(text: FileText, lines: Lines, quotes: Sequence[Quote]) -> frozenset[str]:
    """List the functions of quoted calls that stand elsewhere in the file, and not on the lines.

    That one of them is called on the lines too, with other arguments, says nothing.
    """
    found = set()
    for quote in quotes:
        call = _CALL.match(quote.lines[0]) if len(quote.lines) == 1 and not quote.prose else None
        places = _places(text, quote) if call else []
        if call and places and not any(place.overlap(lines) for _, place in places):
            found.add(call[1])
    return frozenset(found)


def is_sure(finding: Finding) -> bool:
    """Whether a name of the clause itself is defined elsewhere, or cut in two here."""
    why = {c.why.key for c in finding.candidates}
    return finding.reason.key == "cite.reason.cut" or why == {"cite.why.definition"}


def _places(text: FileText, quote: Quote) -> list[tuple[int, Lines]]:
    if quote.prose or len(quote.lines) == 1:
        found = [(1, place) for line in quote.lines for place in _single(text, line)]
        short = sum(len(norm(line)) for line in quote.lines) < _TELLING
        return [] if short and len(found) > 1 and not quote.own else found
    return text.find_block(quote.lines)


def _single(text: FileText, line: str) -> list[Lines]:
    found = text.find_elided(line)
    if found:
        return found
    flat = norm(line)
    return text.find(flat) if len(flat) >= 6 else []


def _fits(text: FileText, place: Lines, lines: Lines, quote: Quote) -> bool:
    """Whether quoted text and cited lines are one inside the other, give or take blank lines."""
    if lines.first <= place.first and place.last <= lines.last:
        return True
    if place.first <= lines.first and lines.last <= place.last:
        return not quote.prose or lines.last - lines.first >= 0
    common = place.overlap(lines)
    if not common:
        return False
    first, last = min(place.first, lines.first), max(place.last, lines.last)
    inner = Lines(max(place.first, lines.first), min(place.last, lines.last))
    outside = [*range(first, inner.first), *range(inner.last + 1, last + 1)]
    return all(not re.search(r"\w", text.lines[n - 1]) for n in outside if n <= text.size)


def by_rows(
    path: str, text: FileText, lines: Lines, rows: Sequence[Sequence[str]]
) -> Finding | None:
    """Look for the rows of a table that the document repeats, in part or whole."""
    hits: list[int] = []
    whole = False
    for row in rows:
        if len(row) < 2:
            continue
        for number, line in enumerate(text.lines, 1):
            if line.count("|") > 1:
                cells = [norm(cell) for cell in line.strip().strip("|").split("|")]
                if cells[:2] == list(row[:2]):
                    hits.append(number)
                whole = whole or (cells == list(row) and len("".join(cells)) >= _TELLING)
    if len(set(hits)) < (1 if whole else 2):
        return None
    inside = [n for n in hits if lines.first <= n <= lines.last]
    if len(inside) * 2 >= len(set(hits)):
        return Finding(True, Note("cite.reason.rows"))
    place = Lines(min(hits), max(hits))
    right = Candidate(path=path, lines=place, why=Note("cite.why.quote"))
    return Finding(False, Note("cite.reason.quote-elsewhere", {"lines": str(place)}), (right,))


def is_telling(name: str) -> bool:
    """Whether a name is no word of the language that documents are written in."""
    return len(name) > 3 and re.search(r"_|[a-z][A-Z]|[a-z]\d", name) is not None


def by_names(
    path: str, text: FileText, lines: Lines, names: Sequence[str],
    placed: frozenset[str] | None = None, taken: frozenset[str] = frozenset(),
) -> Finding | None:  # fmt: skip
    """Look for names of the sentence: defined about these lines, on them, or elsewhere.

    To be inside of what one defines is not enough where that is what another citation shows.
    """
    hit: str | None = None
    defined: list[tuple[str, Lines]] = []
    lone: list[tuple[str, Lines]] = []
    for name in names:
        last = name.rpartition(".")[2].rpartition("::")[2]
        numbers = text.word(last)
        extents = text.defined(last)
        here = any(lines.first <= n <= lines.last for n in numbers)
        if (here or name not in taken) and any(_about(extent, lines) for extent in extents):
            return Finding(True, Note("cite.reason.defined", {"name": name}))
        crossing = [e for e in extents if e.overlap(lines) and not _is_head(text, lines, e)]
        if crossing:
            right = Candidate(path=path, lines=crossing[0], proven=len(extents) == 1,
                              why=Note("cite.why.definition", {"name": name}))  # fmt: skip
            reason = Note("cite.reason.cut", {"name": name, "lines": str(crossing[0])})
            return Finding(False, reason, (right,))
        if here:
            hit = hit or name
        elif placed is not None and name not in placed:
            continue
        elif extents:
            defined.extend((name, extent) for extent in extents)
        elif is_telling(last) and 0 < len(numbers) <= 3 and numbers[-1] - numbers[0] < 12:
            lone.append((name, Lines(numbers[0], numbers[-1])))
    if hit is not None:
        return Finding(True, Note("cite.reason.name", {"name": hit}))
    elsewhere = defined or lone
    if not elsewhere:
        return None
    why = "definition" if defined else "name"
    right_places = tuple(
        Candidate(path=path, lines=extent, why=Note(f"cite.why.{why}", {"name": name}))
        for name, extent in elsewhere[:SHOWN]
    )
    name, extent = elsewhere[0]
    reason = Note("cite.reason.name-elsewhere", {"name": name, "lines": str(extent)})
    return Finding(False, reason, right_places)


def by_words(text: FileText, lines: Lines, words: Sequence[str]) -> Finding | None:
    """Agree when a word of the clause is what the first of these lines defines or sets."""
    head = text.lines[lines.first - 1]
    for word in words:
        sets = re.match(rf"\s*{word}\s*=(?!=)", head)
        if sets or any(e.first == lines.first for e in text.defined(word)):
            return Finding(True, Note("cite.reason.defined", {"name": word}))
    return None


def _is_head(text: FileText, lines: Lines, extent: Lines) -> bool:
    """Whether lines show the head of a definition with the decorators or comments above it."""
    if not lines.first <= extent.first <= lines.last:
        return False
    above = text.lines[lines.first - 1].lstrip()
    return above.startswith(("@", "#", "//", "/*", "template"))


def by_digest(path: str, text: FileText, lines: Lines, digest: str) -> Finding:
    """Compare with lines that are known to have been right: the same here, or found elsewhere."""
    if text.digest(lines) == digest:
        return Finding(True, Note("cite.reason.digest"))
    places = text.like(digest, lines.last - lines.first + 1)
    right = tuple(
        Candidate(path=path, lines=p, why=Note("cite.why.digest"), proven=len(places) == 1)
        for p in places[:SHOWN]
    )
    key = "cite.reason.digest-elsewhere" if places else "cite.reason.digest-gone"
    return Finding(False, Note(key, {"lines": str(places[0]) if places else ""}), right)


def _about(extent: Lines, lines: Lines) -> bool:
    """Whether lines are inside a definition, or the definition is inside them."""
    inside = extent.first <= lines.first and lines.last <= extent.last
    around = lines.first <= extent.first and extent.last <= lines.last
    return inside or around
