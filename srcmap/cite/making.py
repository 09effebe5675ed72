"""A mention and the files it may mean -> citations, one for every range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, TypeVar

from srcmap.cite.nouns import Citation, Place, Rule, Target
from srcmap.cite.source import Mapped
from srcmap.model import Lines

if TYPE_CHECKING:
    from srcmap.cite.forms import Mention
    from srcmap.cite.links import Where
    from srcmap.cite.numbers import Range
    from srcmap.cite.page import Page
    from srcmap.cite.which import Which

_Text = TypeVar("_Text", str, Optional[str])  # noqa: UP045


class Maker:
    """Makes the citations of one document, with the bytes that each of them covers."""

    def __init__(self, page: Page, which: Which) -> None:
        self._page, self._text, self._which = page, page.text, which
        self.made: list[Citation] = []
        self._line_at = (0, 1)

    def emit(self, mention: Mention, where: Where, rule: Rule, section: str | None) -> None:
        """Add the citations of a mention."""
        ranges: tuple[Range | None, ...] = mention.ranges or (None,)
        for number, part in enumerate(ranges):
            first, last = self._bounds(mention, ranges, number)
            self._append(mention, where, rule, section, part, (first, last))

    def _bounds(
        self, mention: Mention, ranges: tuple[Range | None, ...], number: int
    ) -> tuple[int, int]:
        """Give the place of one range: path and numbers for the first, numbers for others."""
        part = ranges[number]
        if part is None:
            return (mention.first, mention.last)
        only = len(ranges) == 1
        if mention.kind == "lines":
            lead = (
                mention.first
                if number == 0 and self._text[mention.first] in ":：L#"
                else part[0][0]
            )
            return (lead, part[1][1])
        if number:
            return (part[0][0], part[1][1])
        return (mention.first, mention.last if only else max(part[1][1], self._name_end(mention)))

    @staticmethod
    def _name_end(mention: Mention) -> int:
        return mention.name[1] if mention.name else 0

    def _append(
        self, mention: Mention, where: Where, rule: Rule, section: str | None,
        part: Range | None, at: tuple[int, int],
    ) -> None:  # fmt: skip
        source = self._page.source
        options = tuple(Place(place.repo, _clean(place.path)) for place in where.options)
        one = options[0] if len(options) == 1 else None
        lines = None
        digits: tuple[tuple[int, int], ...] = ()
        if part is not None:
            lines = Lines(int(self._text[slice(*part[0])]), int(self._text[slice(*part[1])]))
            digits = tuple(source.span(*place) for place in dict.fromkeys(part))
        written = self._which.written(mention) if mention.name and mention.kind == "file" else ""
        self.made.append(
            Citation(
                span=source.span(*at),
                text=_clean(self._text[at[0] : at[1]]),
                rule=rule,
                written=_clean(written),
                target=Target(repo=one.repo if one else None, pin=_clean(where.pin),
                              path=one.path if one else None, lines=lines,
                              section=_clean(section)),
                digits=digits,
                commit=source.span(*where.commit) if where.commit else None,
                line=self._line(at[0]),
                at=at,
                options=options,
                pinned=where.pinned,
                foreign=where.foreign,
                plain=where.plain,
                same=mention.same,
            )
        )  # fmt: skip

    def _line(self, offset: int) -> int:
        """Count lines from the last one asked for: citations come in order, mostly."""
        source = self._page.source
        if isinstance(source, Mapped):  # the lines of a notebook are those of its JSON
            return source.data.count(b"\n", 0, source.byte(offset)) + 1
        at, line = self._line_at
        if offset < at:
            at, line = 0, 1
        line += self._text.count("\n", at, offset)
        self._line_at = (offset, line)
        return line


def _clean(text: _Text) -> _Text:
    """Make text that can be written out: bytes that are no text become a replacement mark."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
