"""Names that a user typed -> the variant or concept that is meant, or an error that helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap import i18n
from srcmap.catalogue import Variant, resolve
from srcmap.errors import UsageError

if TYPE_CHECKING:
    from srcmap.catalogue import Catalogue, Concept


def known_variant(catalogue: Catalogue, name: str, lang: str) -> Variant:
    """Return the variant that a user means; UsageError with what it may have been."""
    found = resolve(catalogue, name)
    if isinstance(found, Variant):
        return found
    ids = ", ".join(variant.id for variant in found.variants)
    key = "variant.shared" if found.shared else "variant.unknown"
    hint = i18n.text("variant.near" if ids else "variant.see-list", lang, near=ids)
    raise UsageError(i18n.text(key, lang, name=name), slug="no-such-variant", hint=hint)


def known_concept(catalogue: Catalogue, name: str, lang: str) -> Concept:
    """Return the concept with this id or name; UsageError with near misses."""
    folded = name.strip().casefold().replace(" ", "-").replace("_", "-")
    for concept in catalogue.concepts:
        names = (concept.id, concept.name.en.casefold().replace(" ", "-"), concept.name.zh)
        if folded in names:
            return concept
    from rapidfuzz import process

    near = process.extract(folded, [c.id for c in catalogue.concepts], limit=3, score_cutoff=55)
    ids = ", ".join(found for found, *_ in near)
    hint = i18n.text("variant.near" if ids else "show.see-concepts", lang, near=ids)
    message = i18n.text("show.unknown-concept", lang, name=name)
    raise UsageError(message, slug="no-such-concept", hint=hint)
