"""Variants and concepts: TOML files -> Catalogue, and names that a user types -> Variant.

The shipped TOML files are compiled into one JSON file, because a command that answers in a few
milliseconds cannot parse forty TOML files first; `srcmap.variantfile` reads and compiles them.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

COMPILED = Path(__file__).parent / "data" / "catalogue.json"
FORMAT = 1
"""Major version of the TOML files and of the compiled catalogue."""

Theme = Literal[
    "masking", "softmax", "loops", "addressing", "split", "sparse", "blackwell", "ascend",
    "compiler", "documents",
]  # fmt: skip
KernelKind = Literal[
    "attention", "backward", "indexer", "combine", "selection", "other", "file"
]  # fmt: skip
_Identifier = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing said in both languages."""

    en: str
    zh: str

    def in_language(self, lang: str) -> str:
        return self.zh if lang == "zh" else self.en


class Concept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that code can do; the id means the same in every variant."""

    id: str
    theme: Theme
    name: Text
    what: Text
    alone: Text | None = None
    """Why the other kind of machine has nothing like it."""


class Lack(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A concept that a variant does not have, and why a reader might expect it."""

    concept: str
    why: Text | None = None


class FileRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one file of a variant is asked for. Kernels are chosen by what they do, not by name."""

    repo: str
    path: str
    also: tuple[str, ...] = ()
    """Where other pins keep the same file, tried in order."""
    kernels: tuple[KernelKind, ...] = ("attention", "combine")
    having: tuple[str, ...] = ()
    """Only kernels that do all of these concepts."""
    without: tuple[str, ...] = ()
    """Only kernels that do none of these concepts."""
    branch: str = ""
    """The variant is one arm of a test: sites of other arms (label `branch=...`) are not its."""
    only: tuple[str, ...] = ()
    """The variant is only these concepts of the file; empty: all that the kernels do."""
    beyond: tuple[str, ...] = ()
    """What the file's kernels do beyond the variant: another variant's business."""
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()
    not_in: tuple[str, ...] = ()
    """Pins (version labels) that are known not to have the file."""


class Evidence(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Where a remark can be seen: entries of the maps, named by what they are."""

    concept: str
    variant: str = ""
    """Empty: the variant that the remark is about; `*`: every variant."""
    site: str = ""
    """Only places whose label has these parts; empty: all."""
    repo: str = ""
    pin: str = ""
    """A pin that is not the current one; empty: the pins that are asked about."""


class Remark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to know about a variant, and the places where it can be seen."""

    text: Text
    evidence: tuple[Evidence, ...] = ()
    corrects_chapter: bool = False
    """The sources say otherwise than the chapter does."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way of computing attention, or one piece of a compiler or document."""

    id: str
    name: Text
    summary: Text
    aliases: tuple[str, ...] = ()
    base: str | None = None
    """What it was made from, and is compared with."""
    counterparts: tuple[str, ...] = ()
    """The same idea in the other repository."""
    own: tuple[str, ...] = ()
    """The concepts that make the variant what it is: shown first."""
    why: dict[str, Text] = {}
    """By concept: what is different from the base, and why."""
    files: tuple[FileRequest, ...] = ()
    notes: tuple[Remark, ...] = ()

    def lack(self, concept: str) -> Lack | None:
        """Return the entry about a concept that the variant does not have."""
        return next((x for f in self.files for x in f.lacks if x.concept == concept), None)


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Concepts in reading order, variants by id."""

    format: int
    concepts: tuple[Concept, ...]
    variants: tuple[Variant, ...]
    sets: dict[str, tuple[str, ...]] = {}

    def concept(self, name: str) -> Concept | None:
        return next((c for c in self.concepts if c.id == name), None)

    def variant(self, name: str) -> Variant | None:
        return next((v for v in self.variants if v.id == name), None)

    def repos(self) -> tuple[str, ...]:
        return tuple(sorted({f.repo for v in self.variants for f in v.files}))

    def concept_order(self) -> dict[str, int]:
        return {c.id: number for number, c in enumerate(self.concepts)}

    def in_order(self, variant: Variant, concepts: Iterable[str]) -> list[str]:
        """Concepts as the variant's page lists them: its own first, then in reading order."""
        own = {name: number - len(variant.own) for number, name in enumerate(variant.own)}
        order = {**self.concept_order(), **own}
        return sorted(set(concepts), key=lambda name: (order.get(name, len(order)), name))


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """No single variant has this name."""

    word: str
    variants: tuple[Variant, ...]
    """Best first; empty when nothing comes near."""
    shared: bool
    """True: all of them bear the name; False: near misses."""


def load_catalogue(project: Path | None = None) -> Catalogue:
    """Load the shipped catalogue, joined by the variant files of `project`."""
    try:
        shipped = msgspec.json.decode(COMPILED.read_bytes(), type=Catalogue)
    except (OSError, msgspec.DecodeError):
        from srcmap.variantfile import read_catalogue

        shipped = read_catalogue(COMPILED.parent)
    return _with_project(shipped, project) if project is not None else shipped


def _with_project(shipped: Catalogue, project: Path) -> Catalogue:
    if not (project / "srcmap-variants").is_dir() and not (project / ".srcmap.toml").is_file():
        return shipped
    from srcmap.variantfile import joined, project_files

    return joined(shipped, project_files(project))


# -- names ----------------------------------------------------------------------------------


def resolve(catalogue: Catalogue, word: str) -> Variant | Choice:
    """Find the variant that a user means.

    An id wins; then a name or alias, whatever its case, spaces and dashes. A name that several
    bear, all words of one, and near misses are offered in that order.
    """
    exact = catalogue.variant(word)
    if exact is not None:
        return exact
    sought = _folded(word)
    bearers = [v for v in catalogue.variants if sought == _folded(v.id)] or [
        v for v in catalogue.variants if sought and sought in map(_folded, _all_names(v))
    ]
    if len(bearers) == 1:
        return bearers[0]
    if bearers:
        return Choice(word=word, variants=tuple(bearers), shared=True)
    return Choice(word=word, variants=tuple(_near(catalogue, word)), shared=False)


def _all_names(variant: Variant) -> tuple[str, ...]:
    return (variant.id, variant.name.en, variant.name.zh, *variant.aliases)


def _folded(word: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", word).casefold())


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def _near(catalogue: Catalogue, word: str, limit: int = 6, cutoff: float = 62.0) -> list[Variant]:
    from rapidfuzz import fuzz

    sought, words = _folded(word), _words(word)
    if not sought:
        return []
    ranked = []
    for variant in catalogue.variants:
        names = _all_names(variant)
        score = max(fuzz.ratio(sought, _folded(name)) for name in names)
        if words <= set().union(*map(_words, names)):
            score = max(score, 95.0)
        elif len(sought) > 2 and any(sought in _folded(name) for name in names):
            score = max(score, 80.0)
        ranked.append((-score, variant.id, variant))
    return [variant for score, _, variant in sorted(ranked)[:limit] if -score >= cutoff]
