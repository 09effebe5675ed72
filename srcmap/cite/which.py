"""A written path -> the files of the pins that it may mean, or that it is no citation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from srcmap.cite.links import VERSION, Where, unquoted
from srcmap.cite.nouns import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.cite.find import Finder
    from srcmap.cite.forms import Mention
    from srcmap.cite.named import Named

_VENDORED = re.compile(r"(?:.*/)?_vendor/(?P<pin>[^/]+)/?(?P<path>.*)\Z", re.DOTALL)
_PINNED = re.compile(r"\w-v?[0-9a-f]*\d[\w.]*\Z")
_SUFFIX = re.compile(r"\.(?:f90|[A-Za-z][A-Za-z]{0,7})\Z")


class Which:
    """Looks written paths up for one document; what the document has named decides between many."""

    def __init__(
        self, finder: Finder, text: str, named: Named, exists: Callable[[str], bool]
    ) -> None:
        self._finder, self._shelf = finder, finder.shelf
        self._text, self._named, self._exists = text, named, exists

    def written(self, mention: Mention) -> str:
        first, last = mention.name or (mention.first, mention.last)
        written = self._text[first:last].replace("\\_", "_")
        if "\n" in written:
            written = re.sub(r"\s*\n[\s>#*]*", "", written)
        if "%" in written:
            written = unquoted(written)
        while written.startswith("./"):
            written = written[2:]
        return written

    def where(self, mention: Mention, written: str) -> Where | None:
        """Say what a written path means; None when it is no citation."""
        vendored = _VENDORED.match(written)
        if vendored:
            path = vendored["path"].rstrip("/")
            where = self._finder.links.vendored(vendored["pin"], path)
            guessed = where.foreign and not (mention.ranges or _PINNED.search(vendored["pin"]))
            return where if path and not guessed else None
        named = self._behind_version(mention, written)
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

    def is_folder(self, where: Where) -> bool:
        return bool(where.options) and all(map(self._is_folder_at, where.options))

    def _behind_version(self, mention: Mention, written: str) -> Where | None:
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
        if self._named.repo:
            found = [Place(self._named.repo, p) for p in shelf.look_up(self._named.repo, path)]
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
        if self._named.folder:
            under = Place(self._named.folder.repo, f"{self._named.folder.path}/{path}".lstrip("/"))
            if under in found:
                return [under]
        named = [p for known in self._named.in_paragraph(at) for p in known.options if p in found]
        if named:
            return [named[0]]
        if self._named.is_beside(at):
            last = self._named.files[-1].options[0]
            beside = Place(last.repo, f"{last.path.rpartition('/')[0]}/{path}".lstrip("/"))
            if beside in found:
                return [beside]
        default = self._finder.settings.default_repo or (
            self._named.files[-1].options[0].repo
            if self._named.files and self._named.files[-1].options
            else None
        )
        ours = [p for p in found if p.repo == default]
        return ours if len(ours) == 1 else found

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
        named = self._named.like(path)
        if named:
            return Where((named,), missing=True)
        if self._named.folder and "/" in path and mention.first - self._named.folder_at < 1500:
            place = Place(self._named.folder.repo, f"{self._named.folder.path}/{path}")
            return Where((place,), missing=True)
        near = mention.ranges or mention.section or self._is_near(path)
        repo = self._named.repo or self._finder.settings.default_repo
        if not near:
            return None
        return Where((Place(repo, path),) if repo else (), missing=True)

    def _in_traceback(self, mention: Mention) -> bool:
        """Whether Python wrote it: a trace names files of any project."""
        return self._text.endswith('File "', 0, mention.first)

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
