"""The pages that renderers take: plain data, every sentence already in the reader's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from srcmap.model import Lines, Status  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from srcmap.render.console import Console


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a file of a pin."""

    path: str
    lines: Lines
    url: str | None = None
    """Their page on the host, at the pinned commit; None when the commit is not known."""

    def __str__(self) -> str:
        return f"{self.path}:{self.lines}"


class CodeLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of source with what its statement does."""

    number: int
    text: str
    roles: tuple[str, ...] = ()
    chosen: bool = True
    """False for lines around the ones asked for."""


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """Code of one place; without a checkout, the command that brings it."""

    place: Place
    title: str
    lines: tuple[CodeLine, ...] = ()
    instead: str = ""
    """A sentence in place of the code."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One concept of a variant in one file: where, or why not."""

    concept: str
    site: str
    status: Status
    what: str
    place: Place | None = None
    candidates: tuple[Place, ...] = ()
    """When ambiguous: where it may be, best first."""
    reason: str = ""
    """Why it is absent, missing or ambiguous."""
    detail: str = ""
    unsure: str = ""
    """A word on the confidence, when it is not high."""
    own: bool = False
    """One of the concepts that make the variant what it is."""
    ours: tuple[Place, ...] = ()
    """The reimplementation's lines: the form to read, then the one for a GPU."""
    tested: str = ""
    """The state of its diff test."""
    excerpt: Excerpt | None = None

    @property
    def label(self) -> str:
        return f"{self.concept} {self.site}" if self.site else self.concept


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a variant at one pin."""

    repo: str
    pin: str
    path: str
    rows: tuple[Row, ...]
    changed: str = ""
    """What is different from the base, in a sentence."""
    measured: tuple[str, ...] = ()
    """What real hardware said of our kernel that does this, in sentences."""
    remarks: tuple[str, ...] = ()
    """Whether the pin is partial, what the checkout is, and the like."""


class Remark(msgspec.Struct, frozen=True, kw_only=True):
    """Something to know, and the places where it can be seen."""

    text: str
    places: tuple[tuple[Place, str], ...] = ()
    """Each with its pin, where that is not one of the page's."""


class VariantPage(msgspec.Struct, frozen=True, kw_only=True):
    """A variant: what it is and where it does what."""

    id: str
    name: str
    summary: str
    facts: tuple[tuple[str, str], ...] = ()
    """Labelled lines under the title: base variant, aliases, counterparts."""
    blocks: tuple[Block, ...] = ()
    notes: tuple[Remark, ...] = ()


class ListedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A variant in the list."""

    id: str
    name: str
    summary: str


class VariantList(msgspec.Struct, frozen=True, kw_only=True):
    """All variants in groups, each with a heading."""

    groups: tuple[tuple[str, tuple[ListedVariant, ...]], ...]
    remarks: tuple[str, ...] = ()


class Belonging(msgspec.Struct, frozen=True, kw_only=True):
    """One concept that some lines belong to, with every variant that claims it there."""

    place: Place
    concept: str
    site: str
    what: str
    variants: tuple[str, ...]
    qualname: str
    excerpt: Excerpt | None = None


class WherePage(msgspec.Struct, frozen=True, kw_only=True):
    """What the asked lines belong to, pin by pin."""

    asked: str
    groups: tuple[tuple[str, tuple[Belonging, ...]], ...]
    """`tilelang v0.1.14` and what was found there."""
    remarks: tuple[str, ...] = ()


class ShowPage(msgspec.Struct, frozen=True, kw_only=True):
    """The code of one concept of a variant."""

    title: str
    what: str
    excerpts: tuple[Excerpt, ...]
    remarks: tuple[str, ...] = ()


class ReadKernel(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel as `srcmap anatomy` shows it."""

    title: str
    code: tuple[CodeLine, ...]
    rows: tuple[Row, ...]
    unread: tuple[str, ...] = ()
    proofs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """For `--why`: a location, and the premises that proved it (or the one that failed)."""


class ReadFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file as `srcmap anatomy` shows it."""

    path: str
    title: str
    kernels: tuple[ReadKernel, ...]
    problems: tuple[str, ...] = ()


class Renderer(Protocol):
    """One output format."""

    def variants(self, page: VariantList, console: Console) -> str: ...
    def variant(self, page: VariantPage, console: Console) -> str: ...
    def where(self, page: WherePage, console: Console) -> str: ...
    def show(self, page: ShowPage, console: Console) -> str: ...
    def anatomy(self, page: ReadFile, console: Console) -> str: ...
