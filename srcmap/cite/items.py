"""What stands right beside a citation against the lines of a file: there, elsewhere, or nowhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.compare import norm
from srcmap.cite.findings import SHOWN, Finding, is_telling
from srcmap.cite.nouns import Candidate
from srcmap.cite.words import HAS_CJK
from srcmap.model import Lines, Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.cite.beside import Beside
    from srcmap.cite.compare import FileText

_LONG = 14
"""Code of so many characters is found whatever its layout; shorter code, word by word."""
_NAME = re.compile(r"(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_]\w*(?:\(\))?\Z")
_NUMBER = re.compile(r"-?(?:\d[\d.]*e[-+]?\d+|\d+\.\d{3,}|\d{4,})")
"""A number that is no count of something, and stands where it is meant."""
_RARE = 3
_FEW = 40
"""What stands in so many places is a word of the language, and says nothing."""


def by_beside(path: str, text: FileText, lines: Lines, beside: Beside) -> Finding | None:
    """Look for what is named beside a citation: on its lines, else elsewhere in the file."""
    found = [(item, _places(text, item)) for item in beside.items]
    known = [(item, places) for item, places in found if places]
    if not known:
        return None
    for item, places in known:
        place = next((p for p in places if _agrees(text, item, p, lines, beside)), None)
        if place is not None:
            return Finding(True, _agreement(text, item, place, lines))
    if (
        len(known) < len(found)
        or not beside.sure
        or not all(_disagrees(text, *one) for one in known)
    ):
        return None
    if beside.among and any(
        _agrees(text, i, p, beside.among, beside) for i, ps in known for p in ps
    ):
        return None
    if not beside.verbatim and any(
        _heads(text, place, lines) for _, places in known for place in places
    ):
        return None
    return _elsewhere(path, text, lines, known)


def begins_elsewhere(path: str, text: FileText, lines: Lines, beside: Beside) -> Finding | None:
    """Say where the one name beside a line is defined, when the text says: on that line."""
    item = beside.items[0]
    if len(beside.items) > 1 or not beside.sure or lines.first != lines.last:
        return None
    last = item.rpartition(".")[2].rpartition("::")[2].removesuffix("()")
    extents = text.defined(last) if _NAME.match(item) else ()
    near = any(abs(e.first - lines.first) < 2 or _above_near(text, lines, e) for e in extents)
    if not extents or near or lines.first in text.word(last):
        return None
    return _elsewhere(path, text, lines, [(item, list(extents))])


def defined_elsewhere(path: str, text: FileText, lines: Lines, beside: Beside) -> Finding | None:
    """Say where the one name beside a range is defined, when the range begins further down."""
    item = beside.items[0]
    if len(beside.items) > 1 or not beside.sure or lines.first == lines.last:
        return None
    last = item.rpartition(".")[2].rpartition("::")[2].removesuffix("()")
    extents = text.defined(last) if _NAME.match(item) else ()
    inside = [e for e in extents if e.first < lines.first and lines.last <= e.last]
    there = any(lines.first <= n <= lines.last for n in text.word(last))
    if len(extents) != 1 or not inside or there:
        return None
    return _elsewhere(path, text, lines, [(item, inside)])


def set_elsewhere(path: str, text: FileText, lines: Lines, beside: Beside) -> Finding | None:
    """Say where the one variable beside a line is set, when the text says: on that line."""
    item = beside.items[0]
    if len(beside.items) > 1 or not beside.sure or lines.first != lines.last:
        return None
    if _NAME.match(item) is None or "." in item or "(" in item or text.defined(item):
        return None
    sets = _sets(item)
    there = [n for n in text.word(item) if sets.match(text.lines[n - 1])]
    here = re.search(
        rf"(?<!\w){item}(?:\[[^\]]*\])?\s*(?:[-+*/|&]?=(?!=)|:)", text.lines[lines.first - 1]
    )
    if len(there) != 1 or there[0] == lines.first or here or not is_telling(item):
        return None
    return _elsewhere(path, text, lines, [(item, [Lines(there[0], there[0])])])


def _above_near(text: FileText, lines: Lines, extent: Lines) -> bool:
    return 0 < extent.first - lines.first < 6 and _above(text, lines, extent)


def _agreement(text: FileText, item: str, place: Lines, lines: Lines) -> Note:
    """Say how: a name that is defined or set there is surer than one that merely stands there."""
    if not _NAME.match(item):
        return Note("cite.reason.quote")
    last = item.rpartition(".")[2].removesuffix("()")
    sets = lines.first <= place.first and _sets(last).match(text.lines[place.first - 1])
    key = "defined" if sets or place.last > place.first else "name"
    return Note(f"cite.reason.{key}", {"name": item})


def _sets(name: str) -> re.Pattern[str]:
    head = r"\s*(?:(?:async\s+)?(?:def|class)\s+)?"
    return re.compile(rf"{head}{re.escape(name)}\s*(?:[:(]|=(?!=))")


def _elsewhere(
    path: str, text: FileText, lines: Lines, known: Sequence[tuple[str, list[Lines]]]
) -> Finding:
    item, places = known[0]
    ranked = _ranked(text, item, places, lines)
    name = _NAME.match(item) is not None
    why = Note("cite.why.name", {"name": item}) if name else Note("cite.why.quote")
    right = tuple(
        Candidate(path=path, lines=p, why=why, proven=len(places) == 1 and not name)
        for p in ranked[:SHOWN]
    )
    key = "name-elsewhere" if name else "quote-elsewhere"
    args = {"lines": str(ranked[0])} | ({"name": item} if name else {})
    return Finding(False, Note(f"cite.reason.{key}", args), right)


def _places(text: FileText, item: str) -> list[Lines]:
    if _NAME.match(item):
        return _named(text, item.removesuffix("()"))
    flat = norm(item)
    if len(flat) >= _LONG:
        return text.find_elided(item) or text.find(flat)
    return _short(text, item) if len(flat) >= 2 and re.search(r"\w", flat) else []


def _named(text: FileText, name: str) -> list[Lines]:
    last = name.rpartition(".")[2].rpartition("::")[2]
    numbers = text.word(last)
    extents = [e for e in text.defined(last) if e.first in numbers]
    inside = {n for e in extents for n in numbers if e.first <= n <= e.last}
    return sorted(
        [*extents, *(Lines(n, n) for n in numbers if n not in inside or len(extents) > 1)]
    )


def _short(text: FileText, item: str) -> list[Lines]:
    """Find a few words of code, whole words only, whatever blanks are between."""
    words = re.findall(r"\w+|[^\w\s]", item)
    edges = (
        r"(?<!\w)" if words[0][0].isalnum() else "",
        r"(?!\w)" if words[-1][-1].isalnum() else "",
    )
    pattern = re.compile(edges[0] + r"\s*".join(map(re.escape, words)) + edges[1])
    return [Lines(n, n) for n, line in enumerate(text.lines, 1) if pattern.search(line)]


def _agrees(text: FileText, item: str, place: Lines, lines: Lines, beside: Beside) -> bool:
    """Whether the item stands on the lines, or they are inside of what it defines or quotes."""
    if place.first <= lines.first and lines.last <= place.last:
        return not (beside.verbatim and _is_inside(item, place, lines))
    if lines.first <= place.first and place.last <= lines.last:
        return True
    if _NAME.match(item) and place.last > place.first:
        return lines.first <= place.first <= lines.last and _above(text, lines, place)
    return bool(place.overlap(lines)) and place.last - place.first < 3


def _is_inside(item: str, place: Lines, lines: Lines) -> bool:
    """Whether one line is cited inside of what a name defines: its name is not there."""
    one = lines.first == lines.last and place.first < lines.first
    return one and _NAME.match(item) is not None


def _above(text: FileText, lines: Lines, place: Lines) -> bool:
    """Whether only decorators and comments are cited above a definition's head."""
    above = text.lines[lines.first - 1].lstrip()
    return lines.first == place.first or above.startswith(("@", "#", "//", "/*", "template"))


def _disagrees(text: FileText, item: str, places: Sequence[Lines]) -> bool:
    """Whether an item that is elsewhere can only mean what is there."""
    if len(places) > _FEW:
        return False
    if _NAME.match(item) is None:
        if _NUMBER.fullmatch(item):
            return len(places) <= _RARE
        return (
            len(norm(item)) + len(HAS_CJK.findall(item)) >= _LONG
            or re.search(r"[^\w\s.,-]", item) is not None
        )
    if is_telling(item) or "." in item:
        return True
    return any(_sets(item).match(text.lines[place.first - 1]) for place in places)


def _heads(text: FileText, place: Lines, lines: Lines) -> bool:
    """Whether it is the head of a statement that the lines are inside of."""
    return any(
        whole.first == place.first and whole.first <= lines.first and lines.last <= whole.last
        for whole in text.compound
    )


def _ranked(text: FileText, item: str, places: Sequence[Lines], lines: Lines) -> list[Lines]:
    """Order places: where a name is defined or set first, then by distance."""
    last = item.rpartition(".")[2].removesuffix("()")
    sets = _sets(last)

    def order(place: Lines) -> tuple[bool, int]:
        return (not sets.match(text.lines[place.first - 1]), abs(place.first - lines.first))

    return sorted(places, key=order)
