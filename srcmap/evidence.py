"""A remark of the catalogue and the maps -> the places where it is seen, or that they are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.locate import facets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from srcmap.catalogue import Catalogue, Evidence, Remark, Variant
    from srcmap.mapfile import Entry, SourceMap


def seen(evidence: Evidence, variant: Variant, entries: Iterable[Entry]) -> list[Entry]:
    """Return the places that a piece of evidence names, each file's lines once."""
    site = facets(evidence.site).items()
    found = [
        entry
        for entry in entries
        if entry.status == "found"
        and entry.concept == evidence.concept
        and _speaks_of(evidence, variant, entry)
        and site <= facets(entry.site).items()
    ]
    return list({(e.repo, e.pin, e.path, e.lines): e for e in found}.values())


def _speaks_of(evidence: Evidence, variant: Variant, entry: Entry) -> bool:
    named = entry.variant if evidence.variant == "*" else evidence.variant or variant.id
    return (
        entry.variant == named
        and evidence.repo in ("", entry.repo)
        and evidence.pin in ("", entry.pin)
    )


def gone(catalogue: Catalogue, source_map: SourceMap) -> Iterator[tuple[Variant, Remark, Evidence]]:
    """Yield remarks that this map should prove and does not.

    A map without the variant that the evidence is in has nothing to say about it.
    """
    here = {entry.variant for entry in source_map.entries if entry.status == "found"}
    for variant in catalogue.variants:
        for remark in variant.notes:
            for evidence in remark.evidence:
                wanted = _wanted(evidence, variant, source_map, here)
                if wanted and not seen(evidence, variant, source_map.entries):
                    yield variant, remark, evidence


def _wanted(evidence: Evidence, variant: Variant, source_map: SourceMap, here: set[str]) -> bool:
    if evidence.pin and evidence.pin != source_map.pin:
        return False
    if evidence.repo and evidence.repo != source_map.repo:
        return False
    named = variant.id if evidence.variant in ("", "*") else evidence.variant
    # A pin that the evidence names has to have it, whatever became of the variant.
    return named in here or evidence.pin == source_map.pin


def other_pins(remarks: Sequence[Remark]) -> list[tuple[str, str]]:
    """List repository and version of the pins that remarks name beside those asked about."""
    named = ((e.repo, e.pin) for remark in remarks for e in remark.evidence if e.pin)
    return list(dict.fromkeys(named))
