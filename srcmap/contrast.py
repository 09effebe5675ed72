"""Map entries of two variants -> what one does that the other does not, by role and not by text.

Two places are alike when they have one concept, one value and one form; what is known beyond that
(another value, another number of places, a statement that has taken on a second role) is named.
Where only the code differs and its role does not, that is said, and no more is claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from srcmap.locate import facets
from srcmap.model import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from srcmap.catalogue import FileRequest, Variant
    from srcmap.mapfile import Entry

Kind = Literal["added", "changed", "dropped", "rewritten", "disabled", "same", "unjudged"]
"""rewritten: the same role in other code; disabled: on one side only, and there as a comment;
unjudged: one side is missing or ambiguous."""
_DISABLED = "-disabled"
"""How the ids of concepts end that stand in the code as a comment."""
_WHOLES = frozenset({"combine", "cube-scope", "vector-scope"})
"""Concepts that are a whole kernel or scope: nothing is learnt from what they contain."""
_SETTING = frozenset({"kernel", "scope", "n"})
"""Parts of a label that say where a place is, and not what it does."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One concept in two variants."""

    kind: Kind
    concept: str
    before: tuple[Entry, ...] = ()
    """The places of the base that differ."""
    after: tuple[Entry, ...] = ()
    """The places of the variant that differ."""
    aspects: tuple[Note, ...] = ()
    """What is known about the difference."""


class FilePair(NamedTuple):
    """All entries of one file of a variant, and of the file of its base that they go with."""

    before: list[Entry]
    after: list[Entry]


def by_file(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Take the entries of each file together."""
    files: dict[str, list[Entry]] = {}
    for entry in entries:
        files.setdefault(entry.path, []).append(entry)
    return list(files.values())


def partner(after: Sequence[Entry], before: Sequence[Entry]) -> list[Entry]:
    """Return the base's entries in the same file, else in the file that does most of the same."""
    files = by_file(before)
    for entries in files:
        if entries[0].path == after[0].path:
            return entries
    mine = _found_concepts(after)
    return max(files, key=lambda other: len(mine & _found_concepts(other)), default=[])


def _found_concepts(entries: Iterable[Entry]) -> set[str]:
    return {entry.concept for entry in entries if entry.status == "found"}


def request_of(variant: Variant, path: str) -> FileRequest | None:
    """Return what the variant asks of the file that a map keeps under this path."""
    known = (f for f in variant.files if path in (f.path, *f.also))
    return next(known, variant.files[0] if len(variant.files) == 1 else None)


def differences(variant: Variant, base: Variant, pair: FilePair) -> list[Difference]:
    """Compare one file of the variant with one of the base, concept by concept."""
    branch, old_branch = _branch(variant, pair.after), _branch(base, pair.before)
    same_file = bool(pair.after and pair.before) and pair.after[0].path == pair.before[0].path
    arm = branch if same_file and branch != old_branch else ""
    # The base of one arm of a test is the other arm, and not the file as a whole.
    before = [e for e in pair.before if not arm or facets(e.site).get("branch") != arm]
    told = frozenset({*variant.why, *variant.own} - ({*base.own} - {*variant.why}))
    return _Contrast(variant, before, pair.after, told, arm=bool(arm)).all()


def _branch(variant: Variant, entries: Sequence[Entry]) -> str:
    request = request_of(variant, entries[0].path) if entries else None
    return request.branch if request is not None else ""


class _Contrast:
    """One file of a variant against one of its base."""

    def __init__(
        self,
        variant: Variant,
        before: Sequence[Entry],
        after: Sequence[Entry],
        told: frozenset[str],
        *,
        arm: bool,
    ) -> None:
        self._told = told
        self._explained = frozenset(variant.why)
        self._before, self._after, self._arm = before, after, arm
        self._further = (_further(before, after), _further(after, before))
        old, new = _found_concepts(before), _found_concepts(after)
        self._gained = [e for e in after if e.status == "found" and e.concept in new - old]
        self._lost = [e for e in before if e.status == "found" and e.concept in old - new]
        self._foreign = bool(before and after) and before[0].repo != after[0].repo

    def all(self) -> list[Difference]:
        concepts = dict.fromkeys(e.concept for e in (*self._after, *self._before))
        found = (self._one(concept) for concept in concepts)
        return [difference for difference in found if difference is not None]

    def _one(self, concept: str) -> Difference | None:
        before, after = self._places(self._before, concept), self._places(self._after, concept)
        if not before and not after:
            return None
        if not before or not after:
            kind = self._one_sided(concept, after)
            return Difference(kind=kind, concept=concept, before=before, after=after)
        return self._both(concept, before, after)

    def _one_sided(self, concept: str, after: tuple[Entry, ...]) -> Kind:
        other = self._before if after else self._after
        if any(e.concept == concept and e.status in ("missing", "ambiguous") for e in other):
            return "unjudged"
        if concept.endswith(_DISABLED):
            return "disabled"
        return "added" if after else "dropped"

    def _places(self, entries: Sequence[Entry], concept: str) -> tuple[Entry, ...]:
        found = (e for e in entries if e.concept == concept and e.lines is not None)
        return tuple(sorted(found, key=lambda e: (e.lines or (), e.site)))

    def _both(
        self, concept: str, before: tuple[Entry, ...], after: tuple[Entry, ...]
    ) -> Difference | None:
        if concept != "kernel-grid":
            before, after = self._matched(before, 0), self._matched(after, 1)
        pairs, old, new = _paired(before, after)
        aspects = [*_values(pairs), *self._roles(concept, before, after)]
        if len(before) != len(after):
            counts = {"before": str(len(before)), "after": str(len(after))}
            aspects.append(Note("diff.places", counts))
        differing = [(a, b) for a, b in pairs if not self._alike(a, b)]
        shared = self._arm and concept in self._explained and not differing
        if shared:
            aspects.append(Note("diff.one-statement"))
            differing = pairs
        elif differing and not self._foreign:
            aspects.append(_what_code(differing))
        kind = self._kind(concept, aspects, differing)
        if kind == "same":
            return Difference(kind=kind, concept=concept, before=before, after=after)
        shown = (tuple(a for a, _ in differing) + old, tuple(b for _, b in differing) + new)
        old, new = shown if any(shown) else (before, after)
        return Difference(kind=kind, concept=concept, before=old, after=new, aspects=tuple(aspects))

    def _matched(self, places: tuple[Entry, ...], side: int) -> tuple[Entry, ...]:
        """Leave out what a further kernel does once more: that there is one, its grid says."""
        found = tuple(e for e in places if _kernel(e) not in self._further[side])
        return found or places

    def _kind(self, concept: str, aspects: list[Note], differing: Sequence[object]) -> Kind:
        known = [a for a in aspects if a.key not in CODE_ONLY]
        if known or (differing and concept in self._told and not self._foreign):
            return "changed"
        return "rewritten" if differing and not self._foreign else "same"

    def _alike(self, before: Entry, after: Entry) -> bool:
        if before.detail != after.detail:
            return False
        if self._foreign:
            return True
        if before.form and after.form:
            return before.form == after.form
        return before.code_digest == after.code_digest

    def _roles(
        self, concept: str, before: tuple[Entry, ...], after: tuple[Entry, ...]
    ) -> Iterator[Note]:
        """Name what these statements have come to do besides, or do no more."""
        if concept in _WHOLES:
            return
        for key, others, places in (
            ("diff.also", self._gained, after),
            ("diff.no-longer", self._lost, before),
        ):
            live = [o for o in others if not o.concept.endswith(_DISABLED)]
            names = {o.concept for o in live for place in places if _inside(o, place)}
            if names:
                yield Note(key, {"concepts": ", ".join(sorted(names))})


CODE_ONLY = frozenset({"diff.code", "diff.code-unknown"})
"""Aspects that say that the code differs, and nothing of how."""


def _inside(part: Entry, whole: Entry) -> bool:
    if part.lines is None or whole.lines is None or part.path != whole.path:
        return False
    return whole.lines.first <= part.lines.first and part.lines.last <= whole.lines.last


def _kernel(entry: Entry) -> str:
    return facets(entry.site).get("kernel", "")


def _further(entries: Sequence[Entry], other: Sequence[Entry]) -> frozenset[str]:
    """Name the kernels for which the other side has none left: it has fewer."""
    mine, theirs = _kernels(entries), _kernels(other)
    left = list(mine)
    for label, splits in theirs.items():
        if not left:
            break
        # The same name first, then one that divides the keys likewise, then the first.
        alike = (label, *(k for k in left if mine[k] == splits), left[0])
        left.remove(next(k for k in alike if k in left))
    return frozenset(left) if len(mine) > len(theirs) else frozenset()


def _kernels(entries: Sequence[Entry]) -> dict[str, bool]:
    """List the kernels that attend, in the order of the file, and whether each divides the keys."""
    found = sorted((e for e in entries if e.lines), key=lambda e: e.lines or ())
    labels = dict.fromkeys(_kernel(e) for e in found if e.concept == "row-max")
    splitting = {_kernel(e) for e in found if e.concept in ("split-range", "partial-output")}
    return {label: label in splitting for label in labels}


def _what_code(differing: Sequence[tuple[Entry, Entry]]) -> Note:
    known = all(before.form and after.form for before, after in differing)
    return Note("diff.code" if known else "diff.code-unknown")


def _values(pairs: Iterable[tuple[Entry, Entry]]) -> Iterator[Note]:
    seen = {(a.detail, b.detail): None for a, b in pairs if a.detail != b.detail}
    for before, after in seen:
        yield Note("diff.value", {"before": before or "?", "after": after or "?"})


def _paired(
    before: tuple[Entry, ...], after: tuple[Entry, ...]
) -> tuple[list[tuple[Entry, Entry]], tuple[Entry, ...], tuple[Entry, ...]]:
    """Pair places by what their labels say they do, the rest in order; and what is left over."""
    old, new = list(before), list(after)
    pairs = []
    for label in dict.fromkeys(map(_deed, new)):
        while True:
            a = next((e for e in old if _deed(e) == label), None)
            b = next((e for e in new if _deed(e) == label), None)
            if a is None or b is None:
                break
            old.remove(a)
            new.remove(b)
            pairs.append((a, b))
    count = min(len(old), len(new))
    pairs += zip(old[:count], new[:count], strict=True)
    return pairs, tuple(old[count:]), tuple(new[count:])


def _deed(entry: Entry) -> tuple[tuple[str, str], ...]:
    parts = facets(entry.site).items()
    return tuple(sorted((key, value) for key, value in parts if key not in _SETTING))
