"""Words -> what in the catalogue and the maps is like them, best first, typing errors forgiven.

Everything is looked for in both languages. Chinese is matched by characters, for it has no spaces;
rapidfuzz is imported only when nothing contains the words as they are.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Literal

import msgspec

from srcmap.catalogue import Text  # noqa: TC001 - msgspec reads the annotations
from srcmap.mapfile import Entry  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from srcmap.catalogue import Catalogue

Kind = Literal["variant", "concept", "file", "function", "note"]
_RANK: dict[str, int] = {"variant": 0, "concept": 1, "file": 2, "function": 3, "note": 4}
_FUZZY = 74.0
"""From this similarity on, two words may be one word mistyped."""


class Field(msgspec.Struct, frozen=True):
    """A text that is looked through."""

    text: str
    weight: float
    prose: Text | None = None
    """The explanation that this is one language of; shown when it is what matched."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that can be found."""

    kind: Kind
    name: str
    fields: tuple[Field, ...]
    entries: tuple[Entry, ...] = ()
    """Where it is: of a function, its first place."""


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """An item with how well it matches, of 100, and the explanation that did, if one did."""

    item: Item
    score: float
    prose: Text | None = None


def items(catalogue: Catalogue, entries: Iterable[Entry]) -> list[Item]:
    """List what can be found: variants and their notes, concepts, files and functions."""
    found = [*_variants(catalogue), *_concepts(catalogue)]
    return [*found, *_places(entries)]


def _variants(catalogue: Catalogue) -> Iterator[Item]:
    for variant in catalogue.variants:
        names = (variant.id, *variant.aliases, variant.name.en, variant.name.zh)
        prose = [*_both(variant.summary, 0.75)]
        for told in variant.why.values():
            prose += _both(told, 0.6)
        fields = (*(Field(name, 1.0) for name in names), *prose)
        yield Item(kind="variant", name=variant.id, fields=fields)
        for note in variant.notes:
            yield Item(kind="note", name=variant.id, fields=tuple(_both(note.text, 0.7)))


def _concepts(catalogue: Catalogue) -> Iterator[Item]:
    for concept in catalogue.concepts:
        names = (concept.id, concept.name.en, concept.name.zh)
        fields = (*(Field(name, 1.0) for name in names), *_both(concept.what, 0.75))
        yield Item(kind="concept", name=concept.id, fields=fields)


def _both(text: Text, weight: float) -> list[Field]:
    return [Field(text.en, weight, text), Field(text.zh, weight, text)]


def _places(entries: Iterable[Entry]) -> Iterator[Item]:
    files: dict[str, Entry] = {}
    functions: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        if entry.status != "found":
            continue
        files.setdefault(entry.path, entry)
        if entry.qualname:
            functions.setdefault((entry.path, entry.qualname), entry)
    for path in files:
        fields = (Field(path.rpartition("/")[2], 0.95), Field(path, 0.9))
        yield Item(kind="file", name=path, fields=fields)
    for (_, name), entry in functions.items():
        fields = (Field(name, 0.85), Field(name.rpartition(".")[2], 0.85))
        yield Item(kind="function", name=name, fields=fields, entries=(entry,))


def search(asked: str, among: Sequence[Item]) -> list[Match]:
    """Rank what is like `asked`; with nothing that contains it, what may have been meant."""
    sought = _Words(asked)
    if not sought.folded:
        return []
    found = _ranked(among, lambda text: _contains(sought, _Words(text)))
    return found or _ranked(among, lambda text: _resembles(sought, _Words(text)))


def _ranked(among: Sequence[Item], score: Callable[[str], float]) -> list[Match]:
    found = []
    for item in among:
        best, prose = 0.0, None
        for field in item.fields:
            value = score(field.text) * field.weight
            if value > best:
                best, prose = value, field.prose
        if best > 0:
            found.append(Match(item=item, score=best, prose=prose))
    return sorted(found, key=lambda m: (-m.score, _RANK[m.item.kind], m.item.name))


class _Words:
    """A text as it is compared: without case, width, spaces and punctuation."""

    def __init__(self, text: str) -> None:
        plain = unicodedata.normalize("NFKC", text).casefold()
        self.list = re.findall(r"[^\W_]+", plain)
        self.folded = "".join(self.list)
        self.set = frozenset(self.list)


def _contains(sought: _Words, text: _Words) -> float:
    """Give 100 for the very words, less for a part of the text, 0 when they are not in it."""
    if sought.folded == text.folded:
        return 100.0
    if sought.set <= text.set:
        # Of two names that have all words, the shorter one is nearer.
        return 80.0 + 15.0 * len(sought.folded) / max(len(text.folded), 1)
    if sought.folded in text.folded:
        return 65.0 + 15.0 * len(sought.folded) / max(len(text.folded), 1)
    if len(sought.list) > 1 and all(word in text.folded for word in sought.list):
        return 64.0
    return 0.0


def _resembles(sought: _Words, text: _Words) -> float:
    """Give up to 60 for a text that the words may be a misspelling of, or a part of."""
    from rapidfuzz import fuzz

    whole = fuzz.ratio(sought.folded, text.folded)
    if _is_wide(sought.folded):
        best = max(whole, 100.0 * _shared_pairs(sought.folded, text.folded))
        return 0.6 * best if best >= 50.0 else 0.0
    words = [max((fuzz.ratio(w, t) for t in text.list), default=0.0) for w in sought.list]
    within = 4 < len(sought.folded) <= len(text.folded) < 80
    part = fuzz.partial_ratio(sought.folded, text.folded) if within else 0.0
    near = max(whole, min(words), 0.95 * part)
    return 0.6 * near if near >= _FUZZY else 0.0


def _is_wide(text: str) -> bool:
    return any("\u3400" <= char <= "\u9fff" for char in text)


def _shared_pairs(sought: str, text: str) -> float:
    """Say how many of the pairs of neighbouring characters are in the text, from 0 to 1."""
    pairs = {sought[i : i + 2] for i in range(len(sought) - 1)} or {sought}
    return sum(pair in text for pair in pairs) / len(pairs)
