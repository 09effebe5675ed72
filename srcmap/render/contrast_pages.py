"""The pages that set things side by side: plain data, every sentence in the reader's language."""

from __future__ import annotations

import msgspec

from srcmap.render.interface import Place  # noqa: TC001 - msgspec reads the annotations


class Spot(msgspec.Struct, frozen=True, kw_only=True):
    """A place with what tells it apart from others of its concept."""

    place: Place
    site: str = ""
    detail: str = ""
    unsure: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a variant does otherwise than its base, in one concept."""

    mark: str
    """`+` added, `~` changed, `-` dropped, `=` the same role in other code,
    `#` a comment on one side, `?` not judged."""
    concept: str
    why: str
    after: tuple[Spot, ...] = ()
    before: tuple[Spot, ...] = ()


class DiffBlock(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a variant against one of its base."""

    heading: str
    names: tuple[str, str]
    """The variant and what this file of it is compared with."""
    paths: tuple[str, str]
    parts: tuple[tuple[str, tuple[Change, ...]], ...] = ()
    """Headings with the differences below them."""
    same: str = ""
    """Which concepts are alike, as a sentence."""
    remarks: tuple[str, ...] = ()


class DiffPage(msgspec.Struct, frozen=True, kw_only=True):
    """A variant against its base."""

    title: str
    what: str
    blocks: tuple[DiffBlock, ...]
    remarks: tuple[str, ...] = ()


class Facing(msgspec.Struct, frozen=True, kw_only=True):
    """One concept on two machines."""

    concept: str
    what: str
    left: tuple[Spot, ...] = ()
    right: tuple[Spot, ...] = ()
    why: str = ""
    """Why one side has none."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A variant and its counterpart, one file each."""

    names: tuple[str, str]
    """The variants."""
    pins: tuple[str, str]
    paths: tuple[str, str]
    parts: tuple[tuple[str, tuple[Facing, ...]], ...] = ()
    """Headings with the concepts below them."""
    remarks: tuple[str, ...] = ()


class ComparePage(msgspec.Struct, frozen=True, kw_only=True):
    """NVIDIA and Ascend side by side."""

    title: str
    what: str
    machines: tuple[str, str]
    pairs: tuple[Pair, ...]
    remarks: tuple[str, ...] = ()


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """What one variant has of a concept, in one file or in none."""

    variant: str
    spots: tuple[Spot, ...] = ()
    doubt: str = ""
    """Why the places are only candidates."""


class ConceptPage(msgspec.Struct, frozen=True, kw_only=True):
    """One concept across all variants."""

    title: str
    what: str
    facts: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, tuple[tuple[str, tuple[Doing, ...]], ...]], ...]
    """By pin: headings (does it, as a comment only) with the variants below them."""
    gone: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """By pin: reasons, and the variants that do not have it for that reason."""
    remarks: tuple[str, ...] = ()


class ListedConcept(msgspec.Struct, frozen=True, kw_only=True):
    """A concept in the list."""

    id: str
    name: str
    what: str
    count: str
    """How many variants have it."""


class ConceptList(msgspec.Struct, frozen=True, kw_only=True):
    """All concepts, theme by theme."""

    groups: tuple[tuple[str, tuple[ListedConcept, ...]], ...]
    remarks: tuple[str, ...] = ()


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a search found."""

    kind: str
    """What it is, said: variant, concept, file, function."""
    name: str
    text: str
    command: str = ""
    """What to type to read on."""
    spots: tuple[Spot, ...] = ()


class SearchPage(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, best first."""

    title: str
    hits: tuple[Hit, ...]
    remarks: tuple[str, ...] = ()
