"""The names by which a document may call a concept of the catalogue, in both languages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.vocabulary import ALSO, SHORT, handed_in, signed, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


CJK = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f"


_LONG = 7
"""So many first characters of a name are looked up; three where it is shorter."""


class Named(NamedTuple):
    """A concept that a text names: where, half open, and whether the name is a common word."""

    first: int
    last: int
    concept: str
    short: bool


class Concepts:
    """Finds the names of concepts in text."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        self.names = {concept: tuple(said) for concept, said in names.items()}
        self._ids: dict[str, list[tuple[str, bool]]] = {}
        """For a folded name the concepts that it may mean, and whether it is short."""
        for concept, said in self.names.items():
            long = [*(n for n in said if _is_telling(n)), *ALSO.get(concept, ())]
            long += handed_in(concept)
            short = [*(n for n in said if not _is_telling(n)), *SHORT.get(concept, ())]
            self._add(concept, long, short=False)
            self._add(concept, short, short=True)
        self._by_head: dict[str, list[str]] = {}
        for name in self._ids:
            self._by_head.setdefault(name[: _LONG if len(name) >= _LONG else 3], []).append(name)
        self._short_heads = {head for head in self._by_head if len(head) < 3}
        exact = [re.escape(concept) for concept in names if "-" in concept]
        self._exact = re.compile(rf"(?<![\w-])(?:{'|'.join(exact)})(?![\w-])" if exact else r"(?!)")

    def _add(self, concept: str, names: Iterable[str], *, short: bool) -> None:
        for name in {_folded(way) for said in names for way in spelled(said)}:
            known = self._ids.setdefault(name, [])
            if len(name) > 1 and not any(c == concept for c, _ in known) and (short or not known):
                known.append((concept, short))

    def mentions(self, text: str) -> list[Named]:
        """List the concepts that a text names, in order; a longer name wins."""
        folded = _folded(text)
        heads = {folded[at : at + 3] for at in range(len(folded) - 2)}
        heads |= {folded[at : at + _LONG] for at in range(len(folded) - _LONG + 1)}
        heads = (heads & self._by_head.keys()) | self._short_heads
        names = [name for head in heads for name in self._by_head[head] if name in folded]
        hits = [
            (at, at + len(name), name)
            for name in sorted(names, key=lambda name: (-len(name), name))
            for at in _occurrences(folded, name)
        ]
        exact = [Named(*m.span(), m[0], short=False) for m in self._exact.finditer(text)]
        placed = self._placed(text, hits) if hits else ()
        inside = (one for one in placed
                  if not any(e.first < one.last and one.first < e.last for e in exact))  # fmt: skip
        known = [*exact, *inside]
        given = [one for one in signed(text) if not any(
            m.first < one[1] and one[0] < m.last and not m.short for m in known)]  # fmt: skip
        known = [m for m in known if not any(g[0] <= m.first < g[1] for g in given)]
        return sorted([*known, *(Named(*one, short=False) for one in given)])

    def _placed(self, text: str, hits: Iterable[tuple[int, int, str]]) -> Iterator[Named]:
        """Give the places of hits in the text itself, those that are whole words."""
        places = [at for at, char in enumerate(text) if char not in _FOLDED_AWAY]
        taken: list[tuple[int, int]] = []
        for first, last, name in hits:
            if any(a < last and first < b for a, b in taken):
                continue
            start, end = places[first], places[last - 1] + 1
            if _is_whole(text, start, end):
                taken.append((first, last))
                for concept, short in self._ids[name]:
                    yield Named(start, end, concept, short)


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


_LATIN = re.compile(r"[A-Za-z0-9_]")
_PLURAL = re.compile(r"(?:s|es)?(?![A-Za-z0-9_])")
_OTHER_WORD = {"行": "并执进运现履并同举", "写": "改重编手抄复", "分": "部细划区", "求": "要请需"}
"""What before a first character makes it the end of another word: 并行和串行."""


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether Latin letters at either end are the ends of words; a plural is one too."""
    before = text[start - 1 : start]
    if before and before in _OTHER_WORD.get(text[start], ""):
        return False
    if _LATIN.match(text[start]) and _LATIN.match(before):
        return False
    return not _LATIN.match(text[end - 1]) or _PLURAL.match(text, end) is not None


def _is_telling(name: str) -> bool:
    """Whether naming it is no accident: 概率 and "probability" are words of every sentence."""
    latin = re.findall(r"[A-Za-z_]+", name)
    wide = len(re.findall(rf"[{CJK}]", name))
    return wide >= 4 or (wide >= 1 and bool(latin)) or len(latin) >= 2 or "_" in name


_FOLDED_AWAY = frozenset(" \t\r\n`-*\\{}$\u3000")
_FOLD = dict.fromkeys(map(ord, _FOLDED_AWAY))


def _folded(text: str) -> str:
    """Text without what may stand between the words of a name, in lower case."""
    kept = text.translate(_FOLD)
    lower = kept.lower()
    return lower if len(lower) == len(kept) else kept
