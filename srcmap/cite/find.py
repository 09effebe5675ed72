"""A page and the pins -> its citations: which file every mention means, and what is no citation."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec.structs import replace

from srcmap.cite.continuing import Continuing
from srcmap.cite.forms import Mention, Reader, titles
from srcmap.cite.links import Links, Where
from srcmap.cite.making import Maker
from srcmap.cite.named import Known, Named
from srcmap.cite.sections import Sections
from srcmap.cite.settings import Settings, pattern
from srcmap.cite.which import Which

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.cite.nouns import Citation, Place, Rule
    from srcmap.cite.page import Page
    from srcmap.cite.shelf import Shelf

_IN_LINK = re.compile(r"[`*\s]*(?:\]\(\s*<?|\s<|\}\{?|\"?>)\Z")


class Finder:
    """Finds citations in any number of documents; patterns and look-ups are made once."""

    def __init__(self, shelf: Shelf, settings: Settings) -> None:
        self.shelf, self.settings, self.links = shelf, settings, Links(shelf)
        self._places = settings.places()
        self._repo_names = {name: name for name in shelf.locks} | {
            alias: repo for alias, repo in settings.repos.items() if repo in shelf.locks
        }
        self._own = [pattern(glob) for glob in settings.own]

    @cached_property
    def reader(self) -> Reader:
        reader = Reader(self.shelf.all_names, self._places, self._repo_names)
        reader.aliases = tuple(self._places)
        return reader

    def find(
        self, page: Page, exists: Callable[[str], bool] = lambda _: False, *, fences: bool = False
    ) -> list[Citation]:
        """List the citations of a page; `exists` says what the document's own project has."""
        return _Reading(self, page, exists).run(fences=fences)

    def is_own(self, path: str) -> bool:
        """Whether a pattern of the project claims a path."""
        return any(own.match(path) for own in self._own)

    def repo_called(self, name: str) -> str | None:
        return self._repo_names.get(name)

    def document_called(self, name: str) -> Place | None:
        return self._places.get(name)


class _Reading:
    """One document being read, from the top."""

    def __init__(self, finder: Finder, page: Page, exists: Callable[[str], bool]) -> None:
        self._finder, self._page, self._text = finder, page, page.text
        self._named = Named(page)
        self._which = Which(finder, page.text, self._named, exists)
        self._continuing = Continuing(page, self._named)
        self._sections = Sections(finder, page, self._named)
        self._maker = Maker(page, self._which)
        self._merged: str | None = None

    def run(self, *, fences: bool) -> list[Citation]:
        mentions = [*self._finder.reader.mentions(self._page, fences=fences), *titles(self._page)]
        for mention in sorted(mentions, key=lambda m: (m.first, -m.last)):
            if mention.kind == "repo":
                name = self._text[mention.first : mention.last]
                self._named.repo = self._finder.repo_called(name)
            elif mention.kind == "url":
                self._url(mention)
            elif mention.kind == "file":
                self._file(mention)
            elif mention.kind == "section":
                self._section(mention)
            else:
                self._lines(mention)
        self._settle_section()
        return sorted(self._maker.made, key=lambda c: c.span)

    # -- files ---------------------------------------------------------------------------

    def _url(self, mention: Mention) -> None:
        where = self._finder.links.link(self._text[mention.first : mention.last])
        if where is None or (where.foreign and not mention.ranges):
            return
        if where.commit:
            first = mention.first + where.commit[0]
            where = where._replace(commit=(first, mention.first + where.commit[1]))
        self._take(mention, where, rule="url")

    def _file(self, mention: Mention) -> None:
        written = self._which.written(mention)
        where = self._which.where(mention, written)
        if where is None:
            return
        rule: Rule = "include" if mention.include else "lines" if mention.ranges else "path"
        if mention.region == "comment":
            rule = "comment"
        elif mention.section and not mention.ranges:
            rule = "section"
        elif rule == "path" and self._which.is_folder(where):
            rule = "directory"
            self._named.note_folder(where.options, mention.last)
        self._take(mention, where, rule=rule)

    def _take(self, mention: Mention, where: Where, *, rule: Rule) -> None:
        """Note the file, and make a citation of every range."""
        known = Known(mention.first, self._page.block_at(mention.first), where.options, where.pin,
                      where.pinned, mention.also)  # fmt: skip
        self._settle_section(known, mention)
        if where.explicit and where.options:
            self._named.repo = where.options[0].repo
        if rule != "directory":
            self._named.files.append(known)
        self._drop_label(mention, where)
        if mention.section and not mention.ranges:
            self._sections.of_file(mention, known)
        section = self._merged or mention.section or None
        self._merged = None
        self._maker.emit(mention, where, rule, section)

    def _drop_label(self, mention: Mention, where: Where) -> None:
        """A link whose label names the file of its target without lines is one citation."""
        if not self._maker.made or not where.options:
            return
        before = self._maker.made[-1]
        between = self._text[before.at[1] : mention.first]
        same = before.options == where.options or (before.target.path == where.options[0].path)
        if len(between) < 8 and _IN_LINK.match(between) and before.target.lines is None and same:
            self._maker.made.pop()

    # -- lines of a file named before ----------------------------------------------------

    def _lines(self, mention: Mention) -> None:
        if mention.name is not None:
            self._ahead(mention)
            return
        if self._continuing.names_something_else(mention):
            return
        of = self._sections.same(mention)
        found = [of] if of else self._continuing.candidates(mention)
        if not found:
            return
        if mention.loose and not self._is_near(mention, found[0]):
            return
        first = found[0]
        if len(found) > 1 and self._continuing.goes_on(mention):
            mention = mention._replace(same=True)
        options = tuple(dict.fromkeys(place for known in found for place in known.options))
        if not options and not first.pin:
            return
        where = Where(options, first.pin, first.pinned)
        rule: Rule = "comment" if mention.region == "comment" else "continuation"
        self._maker.emit(mention, where, rule, None)
        if mention.same and options:
            block = self._page.block_at(mention.first)
            self._named.files.append(first._replace(at=mention.first, also=False, block=block))

    def _ahead(self, mention: Mention) -> None:
        """Take lines whose file is named behind them."""
        where = self._which.where(mention, self._which.written(mention))
        if where is not None:
            self._maker.emit(mention, where, "continuation", None)

    def _is_near(self, mention: Mention, known: Known) -> bool:
        """Whether a bare `:98` is close behind a file that is long enough."""
        block = self._page.block_at(mention.first)
        if known.block != block and mention.first - known.at > 600:
            return False
        last = max(int(self._text[slice(*place)]) for pair in mention.ranges for place in pair)
        return any(last <= self._size(place) for place in known.options)

    def _size(self, place: Place) -> int:
        shelf = self._finder.shelf
        tree = shelf.default(place.repo) if place.repo in shelf.locks else None
        text = shelf.file(tree, place.path) if tree else None
        return text.size if text else 0

    # -- sections ------------------------------------------------------------------------

    def _section(self, mention: Mention) -> None:
        if self._sections.document(mention):
            self._settle_section()
            self._sections.open(mention)

    def _settle_section(self, known: Known | None = None, mention: Mention | None = None) -> None:
        """Emit the section named last, unless lines of the same place follow in its sentence."""
        pending = self._sections.take()
        if pending is None:
            return
        opened, of = pending
        if known and mention and self._sections.shares(opened, of, mention, known):
            self._merged = opened.section
            return
        where = Where(of.options, of.pin, of.pinned)
        self._maker.emit(opened, where, "section", opened.section)


def with_target(citation: Citation, place: Place) -> Citation:
    """Give the citation that means this file."""
    target = replace(citation.target, repo=place.repo, path=place.path)
    return replace(citation, target=target, options=(place,))
