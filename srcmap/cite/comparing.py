"""All that a document says about a place against the lines that it cites, the surest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.cite.extents import Extents
from srcmap.cite.findings import (
    Finding,
    by_names,
    by_quotes,
    by_rows,
    by_words,
    called_elsewhere,
    is_exact,
    is_sure,
)
from srcmap.cite.items import begins_elsewhere, by_beside, defined_elsewhere, set_elsewhere
from srcmap.cite.nouns import Candidate
from srcmap.model import Lines, Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.cite.compare import FileText
    from srcmap.cite.evidence import Evidence
    from srcmap.cite.extents import Extent
    from srcmap.cite.shelf import Shelf, Tree

_LARGE = 12
"""Lines of a concept so large that a place inside of it is likely to be one of its parts."""


class Comparing:
    """Compares evidence with the files of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._extents = Extents(shelf)

    def compare(
        self, tree: Tree, path: str, text: FileText, lines: Lines, evidence: Evidence
    ) -> Finding | None:
        """Ask the evidence in order: what stands beside, a named concept, quoted text, names."""
        beside = self._by_beside(path, text, lines, evidence)
        if beside is not None and beside.agrees and beside.reason.key != "cite.reason.name":
            return beside
        concept = self._by_named(tree, path, text, lines, evidence)
        if concept is not None and concept.agrees:
            return concept
        quote = by_quotes(path, text, lines, evidence.quotes)
        if concept is not None:
            if quote and quote.agrees and is_exact(text, lines, evidence.quotes):
                return quote
            if beside and beside.agrees and evidence.concept_is_apart:
                return beside
            more = (*(beside.candidates if beside else ()), *(quote.candidates if quote else ()))
            return concept._replace(candidates=(*concept.candidates, *more))
        hinted = self.by_concept(tree, path, text, lines, evidence.hints)
        agrees = hinted is not None and hinted.agrees
        if beside is not None and not (agrees and evidence.beside_is_word):
            return beside
        if agrees:
            return hinted
        return quote or self._by_text(path, text, lines, evidence)

    def _by_named(
        self, tree: Tree, path: str, text: FileText, lines: Lines, evidence: Evidence
    ) -> Finding | None:
        """Compare with the concept that stands nearest, else with what its clause speaks of."""
        found = self.by_concept(tree, path, text, lines, evidence.concepts, evidence.edge)
        if found is not None and not found.agrees:
            subject = self.by_concept(tree, path, text, lines, evidence.subject, evidence.edge)
            return subject if subject and subject.agrees else found
        return found

    @staticmethod
    def _by_beside(path: str, text: FileText, lines: Lines, evidence: Evidence) -> Finding | None:
        if evidence.beside is None:
            return None
        known = (path, text, lines, evidence.beside)
        found = by_beside(*known)
        if evidence.is_frame:
            return found
        if evidence.edge == "first":
            found = begins_elsewhere(*known) or found
        if not evidence.is_part:
            found = defined_elsewhere(*known) or found
        return (set_elsewhere(*known) if evidence.defines else None) or found

    @staticmethod
    def _by_text(path: str, text: FileText, lines: Lines, evidence: Evidence) -> Finding | None:
        row = by_rows(path, text, lines, evidence.rows)
        if row is not None:
            return row
        called = called_elsewhere(text, lines, evidence.quotes)
        names = [n for n in evidence.names if n not in called]
        found = by_names(path, text, lines, names, evidence.placed)
        if found is None or not found.agrees:
            names = [n for n in evidence.sentence_names if n not in called]
            wide = by_names(path, text, lines, names, taken=evidence.taken)
            found = wide if wide and wide.agrees and not (found and is_sure(found)) else found
        return found or by_words(text, lines, evidence.words)

    def by_concept(
        self, tree: Tree, path: str, text: FileText, lines: Lines, concepts: Sequence[str],
        edge: str = "",
    ) -> Finding | None:  # fmt: skip
        """Compare with the places of the concepts that are named."""
        named = self._extents.named(tree, path, concepts)
        if not named:
            return None
        unique = {(e.concept, e.lines): e for e in named}
        for extent in unique.values():
            if _covers(text, lines, extent) or _is_edge(lines, extent, edge):
                return Finding(True, Note("cite.reason.concept", {"name": extent.concept}))
        if _cover_together(text, lines, list(unique.values())):
            return Finding(True, Note("cite.reason.concept", {"name": named[0].concept}))
        if any(_excused(lines, extent, unique.values()) for extent in unique.values()):
            return None
        return _elsewhere(path, lines, named[0].concept, unique.values())


def _elsewhere(path: str, lines: Lines, first: str, extents: Iterable[Extent]) -> Finding:
    ranked = sorted(extents, key=lambda e: (e.concept != first, abs(e.lines.first - lines.first)))
    right = tuple(
        Candidate(path=path, lines=e.lines, why=Note("cite.why.concept", {"name": e.concept}),
                  proven=len(ranked) == 1)
        for e in ranked
    )  # fmt: skip
    said = {"name": ranked[0].concept, "lines": str(ranked[0].lines)}
    return Finding(False, Note("cite.reason.concept-elsewhere", said), right)


def _covers(text: FileText, lines: Lines, extent: Extent) -> bool:
    """Whether cited lines are a concept's: half of the union, no statement cut in two."""
    if lines in (extent.lines, extent.context):
        return True
    widest = max(extent.lines.overlap(lines), extent.context.overlap(lines))
    return widest >= 0.5 and not text.cuts(lines) - text.cuts(extent.lines)


def _cover_together(text: FileText, lines: Lines, extents: Sequence[Extent]) -> bool:
    """Whether the lines show several places of what is named, one after the other."""
    touched = [e.lines for e in extents if e.lines.overlap(lines)]
    shown = {n for place in touched for n in range(place.first, place.last + 1)}
    cited = set(range(lines.first, lines.last + 1))
    if len(touched) < 2 or 2 * len(shown & cited) < len(shown | cited):
        return False
    return not text.cuts(lines) - {cut for place in touched for cut in text.cuts(place)}


def _excused(lines: Lines, frame: Extent, named: Iterable[Extent]) -> bool:
    """Whether lines may be any part of something large: nothing smaller in it is named."""
    if not _is_part(lines, frame):
        return False
    return not any(e.concept != frame.concept and _is_part(e.lines, frame) for e in named)


def _is_part(lines: Lines, extent: Extent) -> bool:
    """Whether lines are a small part of something large: they may show one thing in it."""
    whole = extent.lines
    inside = whole.first < lines.first and lines.last <= whole.last
    return inside and whole.last - whole.first >= _LARGE


def _is_edge(lines: Lines, extent: Extent, edge: str) -> bool:
    """Whether one line is cited for where a concept begins or ends, and it does so there.

    A kernel or a scope is at the line of its header, too.
    """
    large = extent.lines.last - extent.lines.first >= _LARGE
    at = getattr(extent.lines, edge or ("first" if large else ""), None)
    return at is not None and lines == Lines(at, at)
