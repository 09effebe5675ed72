"""Sections of documents: which document has the section that a sentence names."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.cite.continuing import SENTENCE_END
from srcmap.cite.named import Known

if TYPE_CHECKING:
    from srcmap.cite.find import Finder
    from srcmap.cite.forms import Mention
    from srcmap.cite.named import Named
    from srcmap.cite.page import Page

_CLAUSE_END = re.compile(rf"[;；]|{SENTENCE_END.pattern}")
_ALSO_SECTION = re.compile(r"[」”\"]?\s?节?\s?(?:与|和|及|、|and|,)\s?")
_SAME_SECTION = re.compile(
    r"(?:同一?(?:小)?[节章]|[该此](?:小)?[节章]|\b(?:same|that|this)\s(?:sub)?section)[`*]*[，,:：]?\s?"
    r"(?:的|里|中|at\s|on\s|in\s)?\s?[(（]?\s?(?:第|[Ll]ines?\s)?\s?[:：]?\Z"
)
"""Before lines of the section that was named last."""
_CHAPTER = re.compile(r"(?:第\s?[\d一二三四五六七八九十]+\s?章|[Cc]hapter\s\d+)[，,的]?\s?\Z")


class Sections:
    """Remembers the sections of one document, and the one that may share its place with lines."""

    def __init__(self, finder: Finder, page: Page, named: Named) -> None:
        self._finder, self._page, self._text, self._named = finder, page, page.text, named
        self._seen: dict[str, Known] = {}
        self._last: tuple[int, Known] | None = None
        self._pending: tuple[Mention, Known] | None = None

    def of_file(self, mention: Mention, known: Known) -> None:
        """Remember the section that stands behind the name of its file."""
        self._last = (mention.last, known)

    def open(self, mention: Mention) -> None:
        """Remember a section whose document is known; lines of the same place may follow."""
        known = self.document(mention)
        if known is None or not known.options:
            return
        self._seen[mention.section] = known
        self._last = (mention.last, known)
        self._pending = (mention, known)

    def same(self, mention: Mention) -> Known | None:
        """Give the document whose section was named last, for lines "in the same section"."""
        before = self._text[max(mention.first - 40, 0) : mention.first]
        if self._last is None or mention.first - self._last[0] > 1500:
            return None
        return self._last[1] if _SAME_SECTION.search(before) else None

    def take(self) -> tuple[Mention, Known] | None:
        """Give the section that was opened last, and close it."""
        pending, self._pending = self._pending, None
        return pending

    def shares(self, pending: Mention, of: Known, mention: Mention, known: Known) -> bool:
        """Whether a mention gives the lines of a section that its sentence has named before."""
        if not mention.ranges:
            return False
        between = self._text[pending.last : mention.first]
        same = {p.path for p in known.options} & {p.path for p in of.options}
        return bool(same) and len(between) < 300 and not _CLAUSE_END.search(between)

    def document(self, mention: Mention) -> Known | None:
        """Give the document that a section is of; None for the sections of the text itself."""
        block = self._page.block_at(mention.first)
        if mention.name is not None:
            place = self._finder.document_called(self._text[slice(*mention.name)])
            if place is None or not self._finder.shelf.trees(place.repo):
                return None
            return Known(mention.first, block, (place,), None, "", also=False)
        if mention.same:
            return self._named.files[-1] if self._named.files else None
        before = self._text[max(mention.first - 16, 0) : mention.first]
        if self._last and _ALSO_SECTION.match(self._text, self._last[0]):
            at, known = self._last
            if 0 < mention.first - at < 10:
                return known
        if _CHAPTER.search(before) or mention.section in self._own_sections:
            return None
        return self._seen.get(mention.section) if "." in mention.section else None

    @cached_property
    def _own_sections(self) -> frozenset[str]:
        headings = (b for b in self._page.blocks if b.kind == "heading")
        found = (re.match(r"\W*(\d+(?:\.\d+)*)", self._text[b.first : b.last]) for b in headings)
        return frozenset(match[1] for match in found if match)
