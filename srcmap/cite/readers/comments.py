"""Comments inside code blocks, whatever the language: where they begin on each line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.page import Region

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMMENT = re.compile(r"(?:(?<![^\s;{})\]])(?:#|//|--|%|;;?|<!--|/\*|\*(?=\s))|//|←)")


def comments(text: str, first: int, last: int) -> Iterator[Region]:
    """Yield the comments of the lines between two offsets."""
    at = first
    while at < last:
        end = text.find("\n", at, last)
        end = last if end < 0 else end
        match = _COMMENT.search(text, at, end)
        if match:
            yield Region(match.start(), end, "comment")
        at = end + 1
