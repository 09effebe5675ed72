"""A page and the pins -> its citations: which file every mention means, and what is no citation."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, Optional, TypeVar

from msgspec.structs import replace

from srcmap.cite.forms import Mention, Reader, titles
from srcmap.cite.links import VERSION, Links, Where, unquoted
from srcmap.cite.nouns import Citation, Place, Rule, Target
from srcmap.cite.settings import Settings, pattern
from srcmap.cite.source import Mapped
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from srcmap.cite.numbers import Range
    from srcmap.cite.page import Page
    from srcmap.cite.shelf import Shelf

_VENDORED = re.compile(r"(?:.*/)?_vendor/(?P<pin>[^/]+)/?(?P<path>.*)\Z", re.DOTALL)
_PINNED = re.compile(r"\w-v?[0-9a-f]*\d[\w.]*\Z")
_SUFFIX = re.compile(r"\.(?:f90|[A-Za-z][A-Za-z]{0,7})\Z")
_SENTENCE_END = re.compile(r"[。！？]|[.!?](?=\s|\Z)|\n\s*\n")
_CLAUSE_END = re.compile(rf"[;；]|{_SENTENCE_END.pattern}")
_IN_ITS_BRACKETS = re.compile(r"[^\s()（）:#]+\s?[(（][^()（）\n]{0,60}\Z")
"""From the name of a file to lines in the brackets right behind it."""
_IN_LINK = re.compile(r"[`*\s]*(?:\]\(\s*<?|\s<|\}\{?|\"?>)\Z")
# Lines of something that is no file of a pin.
_NO_FILE_AFTER = re.compile(
    r"\s+of\s+(?:the\s+|this\s+|its\s+)?(?:table|output|log|matrix|listing|poem|figure|diff|plot"
    r"|chart|terminal|screen|snippet|block|message|report|tile|score|algorithm)|\s*[、，,]?\s*第?\s*\d+\s*列|\s*(?:公式|文字|诗句|数据|日志|输出)"
    r"|\s?[:：]\s?(?:[\w./-]+[:：]?\s){0,3}(?:error|warning|syntax|undefined|unexpected|exception)\b"
)
_NO_FILE_BEFORE = re.compile(
    r"(?:矩阵|表格|上表|下表|表\s?\d+|图\s?\d+|[Ff]ig(?:ure)?\.?\s?\d+|[Ll]isting\s?\d+|日志|输出|算法\s?\d*|终端|屏幕|诗|地铁|[Mm]atrix|[Tt]able(?:\s\d+)?"
    r"|[Oo]utput|[Ll]og|[Aa]lgorithm\s?\d*|[Ss]ubway|[Mm]etro|[Pp]oem|[Rr]ow|\b(?:[Yy]our|[Mm]y|[Oo]ur)(?:\s\w+(?:['’]s)?)?|你的\w{0,4}|我的\w{0,4})"
    r"[，,:：]?\s?(?:的|中|里|的第|中第)?\s?\Z"
)
_ALSO_SECTION = re.compile(r"[」”\"]?\s?节?\s?(?:与|和|及|、|and|,)\s?")
_CHAPTER = re.compile(r"(?:第\s?[\d一二三四五六七八九十]+\s?章|[Cc]hapter\s\d+)[，,的]?\s?\Z")


_Text = TypeVar("_Text", str, Optional[str])  # noqa: UP045


class Known(NamedTuple):
    """A file that the document has named."""

    at: int
    block: int
    options: tuple[Place, ...]
    pin: str | None
    pinned: Literal["", "pin", "branch", "unknown"]
    also: bool


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
    """One document being read: what it has named so far."""

    def __init__(self, finder: Finder, page: Page, exists: Callable[[str], bool]) -> None:
        self._finder, self._shelf = finder, finder.shelf
        self._page, self._text, self._exists = page, page.text, exists
        self._repo: str | None = None
        self._known: list[Known] = []
        self._folder: Place | None = None
        self._folder_at = 0
        self._sections: dict[str, Known] = {}
        self._pending: tuple[Mention, Known] | None = None
        self._last_section: tuple[int, Known] | None = None
        self._found: list[Citation] = []

    def run(self, *, fences: bool) -> list[Citation]:
        mentions = [*self._finder.reader.mentions(self._page, fences=fences), *titles(self._page)]
        for mention in sorted(mentions, key=lambda m: (m.first, -m.last)):
            if mention.kind == "repo":
                self._repo = self._finder.repo_called(self._text[mention.first : mention.last])
            elif mention.kind == "url":
                self._url(mention)
            elif mention.kind == "file":
                self._file(mention)
            elif mention.kind == "section":
                self._section(mention)
            else:
                self._lines(mention)
        self._settle_section()
        return sorted(self._found, key=lambda c: c.span)

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
        written = self._written(mention)
        where = self._where(mention, written)
        if where is None:
            return
        rule: Rule = "include" if mention.include else "lines" if mention.ranges else "path"
        if mention.region == "comment":
            rule = "comment"
        elif mention.section and not mention.ranges:
            rule = "section"
        elif rule == "path" and self._is_folder(where):
            rule = "directory"
            self._folder = where.options[0] if len(where.options) == 1 else None
            self._folder_at = mention.last
        self._take(mention, where, rule=rule)

    def _written(self, mention: Mention) -> str:
        first, last = mention.name or (mention.first, mention.last)
        written = self._text[first:last].replace("\\_", "_")
        if "\n" in written:
            written = re.sub(r"\s*\n[\s>#*]*", "", written)
        if "%" in written:
            written = unquoted(written)
        while written.startswith("./"):
            written = written[2:]
        return written

    def _where(self, mention: Mention, written: str) -> Where | None:
        """Say what a written path means; None when it is no citation."""
        vendored = _VENDORED.match(written)
        if vendored:
            path = vendored["path"].rstrip("/")
            where = self._finder.links.vendored(vendored["pin"], path)
            guessed = where.foreign and not (mention.ranges or _PINNED.search(vendored["pin"]))
            return where if path and not guessed else None
        named = self._named_before(mention, written)
        if named is not None:
            return named
        path = re.sub(r"\A(?:\.\./)+", "", written)
        bare = path.strip("/")
        if not bare or self._is_own(written, bare):
            return None
        options = self._options(bare, mention.first)
        if options:
            return self._counted(mention, written, bare, options)
        return self._unknown(mention, bare)

    def _named_before(self, mention: Mention, written: str) -> Where | None:
        """Read `REPO@VERSION:path`, `REPO@VERSION/path` and `REPO VERSION path`."""
        first = (mention.name or (mention.first, 0))[0]
        head = self._text[max(first - 60, 0) : first]
        match = re.search(r"([\w.-]+)(?:@|\s+)([\w.-]+?)(?:[:：]\s?|\s+|的\s?)[`*]{0,2}\Z", head)
        if match is None and "@" in written:
            match = re.match(r"([\w.-]+)@([\w.-]+)/", written)
            written = written[match.end() :] if match else written
        repo = self._finder.repo_called(match[1]) if match else None
        if match is None or repo is None:
            return None
        lock = self._shelf.locks[repo]
        if lock.find(match[2]) is None and not VERSION.match(match[2]):
            return None
        status: Literal["pin", "unknown"] = "pin" if lock.find(match[2]) else "unknown"
        found = self._shelf.look_up(repo, written.strip("/"))
        options = tuple(Place(repo, path) for path in found) or (Place(repo, written.strip("/")),)
        return Where(options, match[2], status, explicit=True)

    def _is_own(self, written: str, bare: str) -> bool:
        return self._finder.is_own(bare) or self._exists(written)

    def _options(self, path: str, at: int) -> tuple[Place, ...]:
        """Look a path up in the repository last named, then in all; nearness may decide."""
        shelf = self._shelf
        found: list[Place] = []
        if self._repo:
            found = [Place(self._repo, p) for p in shelf.look_up(self._repo, path)]
        found = found or shelf.everywhere(path) or self._behind_repo(path)
        if len(found) > 1:
            found = self._narrowed(path, found, at)
        return tuple(found)

    def _behind_repo(self, path: str) -> list[Place]:
        """Look up what is written `REPO/path` or `OWNER/REPO/path`."""
        parts = path.split("/")
        for cut in range(1, min(3, len(parts))):
            repo, rest = self._finder.repo_called(parts[cut - 1]), "/".join(parts[cut:])
            if repo and rest and self._shelf.look_up(repo, rest, exact=True):
                return [Place(repo, rest)]
        return []

    def _narrowed(self, path: str, found: list[Place], at: int) -> list[Place]:
        """Choose what lies in the folder named last or beside the file before, or was named."""
        if self._folder:
            under = Place(self._folder.repo, f"{self._folder.path}/{path}".lstrip("/"))
            if under in found:
                return [under]
        named = [p for known in reversed(self._known) for p in known.options if p in found]
        if named:
            return [named[0]]
        if self._is_beside(at):
            last = self._known[-1].options[0]
            beside = Place(last.repo, f"{last.path.rpartition('/')[0]}/{path}".lstrip("/"))
            if beside in found:
                return [beside]
        default = self._finder.settings.default_repo or (
            self._known[-1].options[0].repo if self._known and self._known[-1].options else None
        )
        ours = [p for p in found if p.repo == default]
        return ours if len(ours) == 1 else found

    def _is_beside(self, at: int) -> bool:
        """Whether the file named last stands just before, in the same paragraph."""
        if not self._known or len(self._known[-1].options) != 1:
            return False
        last = self._known[-1]
        return at - last.at < 300 and last.block == self._page.block_at(at)

    def _counted(
        self, mention: Mention, written: str, path: str, options: tuple[Place, ...]
    ) -> Where | None:
        """A folder of one word is a place only when it can be no other; so is a word of a file."""
        folder = all(self._is_folder_at(place) for place in options)
        suffix = _SUFFIX.search(path) is not None
        if folder and not mention.ranges:
            vague = "/" not in path and (len(options) > 1 or not written.endswith("/"))
            if vague or mention.region == "target":
                return None
        if not folder and not suffix and "/" not in path and not mention.ranges:
            return None
        return Where(options)

    def _unknown(self, mention: Mention, path: str) -> Where | None:
        """A path that no pin has: a citation when it has lines, or when it comes near to one."""
        suffix = _SUFFIX.search(path)
        if suffix is None or mention.region == "target" or self._in_traceback(mention):
            return None
        named = self._named_as(path)
        if named:
            return Where((named,), missing=True)
        if self._folder and "/" in path and mention.first - self._folder_at < 1500:
            place = Place(self._folder.repo, f"{self._folder.path}/{path}")
            return Where((place,), missing=True)
        near = mention.ranges or mention.section or self._is_near(path)
        repo = self._repo or self._finder.settings.default_repo
        if not near:
            return None
        return Where((Place(repo, path),) if repo else (), missing=True)

    def _in_traceback(self, mention: Mention) -> bool:
        """Whether Python wrote it: a trace names files of any project."""
        return self._text.endswith('File "', 0, mention.first)

    def _named_as(self, path: str) -> Place | None:
        """Find a file that the document has named before and that no pin has either."""
        for known in reversed(self._known):
            for place in known.options:
                if place.path == path or place.path.endswith("/" + path):
                    return place
        return None

    def _is_near(self, path: str) -> bool:
        """Whether a name looks like one of a pin: part of a name, or deep in a folder there."""
        folder, _, name = path.rpartition("/")
        if "/" in folder and any(folder in tree.folders for tree in self._shelf.all_trees):
            return True
        stem, _, suffix = name.rpartition(".")
        return len(stem) > 7 and any(
            stem in known and known.endswith(f".{suffix}") for known in self._shelf.all_names
        )

    def _is_folder_at(self, place: Place) -> bool:
        return any(place.path in tree.folders for tree in self._shelf.trees(place.repo))

    def _is_folder(self, where: Where) -> bool:
        return bool(where.options) and all(map(self._is_folder_at, where.options))

    def _take(self, mention: Mention, where: Where, *, rule: Rule) -> None:
        """Note the file, and make a citation of every range."""
        known = Known(mention.first, self._page.block_at(mention.first), where.options, where.pin,
                      where.pinned, mention.also)  # fmt: skip
        self._settle_section(known, mention)
        if where.explicit and where.options:
            self._repo = where.options[0].repo
        if rule != "directory":
            self._known.append(known)
        self._drop_label(mention, where)
        if mention.section and not mention.ranges:
            self._last_section = (mention.last, known)
        section = self._merged or mention.section or None
        self._merged = None
        self._emit(mention, where, rule, section)

    _merged: str | None = None

    def _drop_label(self, mention: Mention, where: Where) -> None:
        """A link whose label names the file of its target without lines is one citation."""
        if not self._found or not where.options:
            return
        before = self._found[-1]
        between = self._text[before.at[1] : mention.first]
        same = before.options == where.options or (before.target.path == where.options[0].path)
        if len(between) < 8 and _IN_LINK.match(between) and before.target.lines is None and same:
            self._found.pop()

    def _emit(self, mention: Mention, where: Where, rule: Rule, section: str | None) -> None:
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
        written = self._written(mention) if mention.name and mention.kind == "file" else ""
        self._found.append(
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

    _line_at: tuple[int, int] = (0, 1)

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

    # -- lines of a file named before ----------------------------------------------------

    def _lines(self, mention: Mention) -> None:
        if not mention.same and not mention.joined and self._names_no_file(mention):
            return
        if self._is_row_label(mention):
            return
        found = self._candidates(mention)
        if not found:
            return
        first = found[0]
        options = tuple(dict.fromkeys(place for known in found for place in known.options))
        if not options and not first.pin:
            return
        where = Where(options, first.pin, first.pinned)
        rule: Rule = "comment" if mention.region == "comment" else "continuation"
        self._emit(mention, where, rule, None)
        if mention.same and options:
            self._known.append(first._replace(at=mention.first, also=False,
                                              block=self._page.block_at(mention.first)))  # fmt: skip  # noqa: E501

    def _is_row_label(self, mention: Mention) -> bool:
        """Whether a table row says "line 3" and names no file: it speaks of something else."""
        index = self._page.block_at(mention.first)
        if not self._page.blocks or self._page.blocks[index].kind != "row" or mention.same:
            return False
        return not any(known.block == index for known in self._known)

    def _names_no_file(self, mention: Mention) -> bool:
        """Whether the words around say that lines of something else are meant."""
        end, start = mention.ranges[-1][1][1], mention.first
        after = self._text[end : end + 60].removeprefix(" ").removeprefix("行")
        before = re.sub(r"(?:第|[Ll]ines?)\s*\Z", "", self._text[max(start - 24, 0) : start])
        told = _NO_FILE_AFTER.match(after) or _NO_FILE_AFTER.match(f" {after}")
        return bool(told or _NO_FILE_BEFORE.search(before))

    def _candidates(self, mention: Mention) -> list[Known]:
        """List the files that lines may belong to: the nearest first, those in brackets last."""
        near = [k for k in self._known if mention.first - k.at < 9000]
        if not near:
            return []
        nearest = self._text[near[-1].at : mention.first]
        if mention.joined or _IN_ITS_BRACKETS.match(nearest):
            return [near[-1]]
        block = self._page.block_at(mention.first)
        here = [k for k in near if k.block == block]
        if not here:
            last = near[-1].block
            here = [k for k in near if k.block == last or (k.block >= last - 1 and _close(k, near))]
        line = self._text.rfind("\n", 0, mention.first) + 1
        for start in (line, self._sentence_start(mention.first, block)):
            spoken = [k for k in here if k.at >= start]
            if len({k.options for k in spoken}) == 1:
                here = spoken
                break
        ranked = sorted(here, key=lambda k: (k.also, -k.at))
        unique: dict[tuple[Place, ...], Known] = {}
        for known in ranked:
            unique.setdefault(known.options, known)
        found = list(unique.values())
        plain = [k for k in found if not k.also]
        return plain if len(plain) == 1 else found

    def _sentence_start(self, at: int, block: int) -> int:
        first = self._page.blocks[block].first if self._page.blocks else 0
        ends = [m.end() for m in _SENTENCE_END.finditer(self._text, max(first, at - 600), at)]
        return ends[-1] if ends else first

    # -- sections ------------------------------------------------------------------------

    def _section(self, mention: Mention) -> None:
        known = self._section_of(mention)
        if known is None or not known.options:
            return
        self._settle_section()
        self._sections[mention.section] = known
        self._last_section = (mention.last, known)
        self._pending = (mention, known)

    def _section_of(self, mention: Mention) -> Known | None:
        block = self._page.block_at(mention.first)
        if mention.name is not None:
            place = self._finder.document_called(self._text[slice(*mention.name)])
            if place is None or not self._shelf.trees(place.repo):
                return None
            return Known(mention.first, block, (place,), None, "", also=False)
        if mention.same:
            return self._known[-1] if self._known else None
        before = self._text[max(mention.first - 16, 0) : mention.first]
        if self._last_section and _ALSO_SECTION.match(self._text, self._last_section[0]):
            at, known = self._last_section
            if 0 < mention.first - at < 10:
                return known
        if _CHAPTER.search(before) or mention.section in self._own_sections:
            return None
        return self._sections.get(mention.section) if "." in mention.section else None

    @cached_property
    def _own_sections(self) -> frozenset[str]:
        headings = (b for b in self._page.blocks if b.kind == "heading")
        found = (re.match(r"\W*(\d+(?:\.\d+)*)", self._text[b.first : b.last]) for b in headings)
        return frozenset(match[1] for match in found if match)

    def _settle_section(self, known: Known | None = None, mention: Mention | None = None) -> None:
        """Emit the section named last, unless lines of the same place follow in its sentence."""
        if self._pending is None:
            return
        pending, of = self._pending
        self._pending = None
        if known is not None and mention is not None and mention.ranges:
            between = self._text[pending.last : mention.first]
            same = {p.path for p in known.options} & {p.path for p in of.options}
            if same and len(between) < 300 and not _CLAUSE_END.search(between):
                self._merged = pending.section
                return
        where = Where(of.options, of.pin, of.pinned)
        self._emit(pending, where, "section", pending.section)


def _clean(text: _Text) -> _Text:
    """Make text that can be written out: bytes that are no text become a replacement mark."""
    if text is None or text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _close(known: Known, near: Iterable[Known]) -> bool:
    last = max(k.at for k in near)
    return last - known.at < 300


def with_target(citation: Citation, place: Place) -> Citation:
    """Give the citation that means this file."""
    target = replace(citation.target, repo=place.repo, path=place.path)
    return replace(citation, target=target, options=(place,))
