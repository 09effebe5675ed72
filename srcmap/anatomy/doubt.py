"""How sure a finding is, and which findings cannot all be right.

High: the chain is closed.
Medium: it rests on telling query and key apart by their order in the signature.
Low: a call that srcmap does not know touches a tile of the place.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.model import Ambiguity, Confidence, Note, Site

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Found, Kernel

SINGLE = frozenset({"softmax-scale", "kv-head-count", "query-offset"})
"""Concepts of which a kernel has one: two findings of equal rank are an ambiguity."""

BY_OPERAND = frozenset({
    "query-offset", "window-start", "causal-mask", "window-mask", "boundary-mask", "padding-mask",
    "kv-head", "kv-head-count", "split-range", "block-table", "block-table-param", "paged-load",
    "block-index", "block-indices-param", "gather",
})  # fmt: skip
"""Concepts that change when query and key change places."""


class Doubts:
    """Grades the findings of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @cached_property
    def _unknown(self) -> set[str]:
        """Tiles that a call without a row in the table touches."""
        return {name for unread in self.kernel.reading.unread.values() for name in unread.buffers}

    def confidence(self, found: Found) -> Confidence:
        """High, medium or low; see the module."""
        core = found.place.core if found.place is not None else ()
        if any(self._unknown & self.kernel.feeders.written(statement) for statement in core):
            return "low"
        return "medium" if found.concept in BY_OPERAND and self.kernel.facts.guessed else "high"


def settle(sites: tuple[Site, ...]) -> tuple[tuple[Site, ...], tuple[Ambiguity, ...]]:
    """Take several places of a concept that a kernel has once out of the sites."""
    groups: dict[str, list[Site]] = {}
    for site in sites:
        if site.concept in SINGLE:
            groups.setdefault(site.concept, []).append(site)
    several = {concept: group for concept, group in groups.items() if len(group) > 1}
    ambiguities = tuple(
        Ambiguity(
            concept=concept,
            label="",
            reason=Note("roles.several", {"count": str(len(group))}),
            candidates=tuple(group),
        )
        for concept, group in sorted(several.items())
    )
    return tuple(site for site in sites if site.concept not in several), ambiguities
