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
