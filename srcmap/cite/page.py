"""What a reader makes of a document: its text in blocks, and the regions that are not prose."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from srcmap.cite.source import Source

RegionKind = Literal["fence", "comment", "code", "target", "skip"]
"""fence: a code block; comment: one inside it; code: a code span; target: where a link leads;
skip: nobody reads it (markup, hidden comments, the code of a Python file)."""
BlockKind = Literal["text", "item", "row", "heading", "quote", "fence"]


_CAPTION = re.compile(r":caption:[ \t]*(\S[^\n]*)|\bcaption\s*=\s*\{?([^{}\],]+)")


class Region(NamedTuple):
    """Characters of one kind, half open."""

    first: int
    last: int
    kind: RegionKind


class Block(NamedTuple):
    """A paragraph, a list item, a table row, a heading or a code block; half open."""

    first: int
    last: int
    kind: BlockKind


class Include(NamedTuple):
    """A directive that pulls lines of a file in: the path and its ranges, as characters."""

    path: tuple[int, int]
    numbers: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    """For each range the place of its first and of its last number."""


class Page:
    """A document that was read."""

    def __init__(
        self,
        source: Source,
        blocks: Iterable[Block],
        regions: Iterable[Region],
        includes: Iterable[Include] = (),
    ) -> None:
        self.source = source
        self.text = source.text
        self.blocks = sorted(blocks)
        self.regions = sorted(regions)
        self.includes = tuple(includes)
        self._blocks = [block.first for block in self.blocks]
        self._regions = [region.first for region in self.regions]

    def caption(self, at: int) -> tuple[int, int] | None:
        """Give the caption of the directive at an offset."""
        region = self.region_at(at)
        match = _CAPTION.search(self.text, region.first, region.last) if region else None
        return match.span(1 if match[1] is not None else 2) if match else None

    @cached_property
    def captions(self) -> tuple[tuple[int, int], ...]:
        """The captions of all directives that pull lines in."""
        found = (self.caption(include.path[0]) for include in self.includes)
        return tuple(sorted({caption for caption in found if caption}))

    def block_at(self, offset: int) -> int:
        """Give the index of the block at an offset; that of the block before when between two."""
        return max(bisect_right(self._blocks, offset) - 1, 0)

    def region_at(self, offset: int) -> Region | None:
        """Give the innermost region at an offset: regions nest two deep at most."""
        index = bisect_right(self._regions, offset) - 1
        for back in range(index, max(index - 40, -1), -1):
            region = self.regions[back]
            if region.first <= offset < region.last:
                return region
        return None

    def regions_in(self, first: int, last: int) -> Iterator[Region]:
        """Yield the regions that begin between two offsets."""
        index = bisect_right(self._regions, first - 1)
        while index < len(self.regions) and self.regions[index].first < last:
            yield self.regions[index]
            index += 1
