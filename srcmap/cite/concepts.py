"""The names by which a document may call a concept of the catalogue, in both languages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


CJK = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f"


class Concepts:
    """The names by which a document may call a concept, in both languages."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        found: dict[str, str] = {}
        for concept, said in names.items():
            for name in (*said, *_ALSO_CALLED.get(concept, ())):
                if _is_telling(name):
                    found.setdefault(_folded(name), concept)
        self._ids = sorted(found.items(), key=lambda item: -len(item[0]))
        exact = [re.escape(concept) for concept in names if "-" in concept]
        self._exact = re.compile(rf"(?<![\w-])(?:{'|'.join(exact)})(?![\w-])" if exact else r"(?!)")
        self._common = [
            (name.casefold(), concept)
            for concept, said in names.items()
            for name in said
            if not _is_telling(name) and name.casefold() not in _TOO_COMMON
        ]
        self.names = {concept: tuple(said) for concept, said in names.items()}

    def named(self, text: str) -> list[str]:
        """List the concepts that a text names, in order."""
        return list(dict.fromkeys(concept for _, concept in self.mentions(text)))

    def hinted(self, text: str) -> list[str]:
        """List the concepts whose name is a common word that stands in a text."""
        lower = text.casefold().replace("normalization", "normalisation")
        return [concept for name, concept in self._common if name in lower]

    def mentions(self, text: str) -> list[tuple[int, str]]:
        """List the concepts that a text names, and where, in order; a longer name wins."""
        folded = _folded(text)
        hits = [
            (at, at + len(name), concept)
            for name, concept in self._ids
            if name in folded
            for at in _occurrences(folded, name)
        ]
        found = [(m.start(), m[0]) for m in self._exact.finditer(text)]
        if hits:
            found.extend(_unfolded(text, hits))
        return sorted(found)


def _occurrences(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _unfolded(text: str, hits: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, str]]:
    """Give the places of hits in the text itself, those that are whole words."""
    places = [at for at, char in enumerate(text) if char not in _FOLDED_AWAY]
    taken: list[tuple[int, int]] = []
    for first, last, concept in hits:
        if any(a < last and first < b for a, b in taken):
            continue
        start, end = places[first], places[last - 1] + 1
        if _is_whole(text, start, end):
            taken.append((first, last))
            yield start, concept


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether Latin letters at either end are the ends of words; a plural is one too."""
    if re.match(r"[A-Za-z0-9_]", text[start]) and re.match(
        r"[A-Za-z0-9_]", text[start - 1 : start]
    ):
        return False
    if not re.match(r"[A-Za-z0-9_]", text[end - 1]):
        return True
    return re.match(r"(?:s|es)?(?![A-Za-z0-9_])", text[end : end + 3]) is not None


_TOO_COMMON = frozenset({"combine", "概率", "probability"})
_ALSO_CALLED = {
    "combine": ("combine 段", "combine 阶段", "combine 内核", "combine stage"),
    "check-inf": ("check_inf",),
    "kv-loop": ("loop over the keys", "KV loop", "KV 循环"),
    "causal-mask": ("causal masking", "causal 掩码", "因果掩码"),
    "window-mask": ("sliding window mask", "滑动窗口 mask"),
    "rescale-factor": ("rescaling factor", "重缩放因子"),
    "row-max": ("row maximum", "行最大值"),
}


def _is_telling(name: str) -> bool:
    """Whether naming it is no accident: 概率 and "probability" are words of every sentence."""
    latin = re.findall(r"[A-Za-z_]+", name)
    wide = len(re.findall(rf"[{CJK}]", name))
    return wide >= 4 or (wide >= 1 and bool(latin)) or len(latin) >= 2 or "_" in name


_FOLDED_AWAY = frozenset(" \t\r\n`-\u3000")
_FOLD = dict.fromkeys(map(ord, _FOLDED_AWAY))


def _folded(text: str) -> str:
    """Text without what may stand between the words of a name, in lower case."""
    kept = text.translate(_FOLD)
    lower = kept.lower()
    return lower if len(lower) == len(kept) else kept
