"""The pins that citations are looked up in: which paths there are, and what stands in them."""

from __future__ import annotations

from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.cite.compare import FileText
from srcmap.cite.nouns import Place
from srcmap.errors import SrcmapError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from srcmap.checkout import Checkout
    from srcmap.lock import Lock, Pin
    from srcmap.mapfile import Entry

_KEPT = 400
"""How many files are held at a time: memory stays flat, and citations come in clusters."""


class Tree:
    """One pin that is here: its paths, by name and by folder."""

    def __init__(self, lock: Lock, pin: Pin, checkout: Checkout) -> None:
        self.lock, self.pin, self.checkout = lock, pin, checkout

    @property
    def label(self) -> str:
        return f"{self.lock.name}@{self.pin.version}"

    @cached_property
    def blobs(self) -> dict[str, str]:
        entries = self.checkout.manifest.entries
        return {entry.path: entry.blob for entry in entries if entry.mode != "120000"}

    @cached_property
    def folders(self) -> frozenset[str]:
        found: set[str] = set()
        for path in self.blobs:
            folder = path.rpartition("/")[0]
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return frozenset(found)

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in sorted([*self.blobs, *self.folders]):
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    def has(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return path in self.blobs or path in self.folders

    def ending(self, tail: str) -> list[str]:
        """List the paths that are `tail` or end with it, whole names only."""
        named = self._names.get(tail.rpartition("/")[2], ())
        return [path for path in named if path == tail or path.endswith("/" + tail)]

    def names(self) -> Iterable[str]:
        """Every name of a file or folder."""
        return self._names


class Shelf:
    """All pins that are here, with the one to judge at for each repository."""

    def __init__(
        self,
        locks: Sequence[Lock],
        project: Path | None,
        preferred: Mapping[str, str] | None = None,
        chosen: Mapping[str, str] | None = None,
    ) -> None:
        self.locks = {lock.name: lock for lock in locks}
        self.chosen = dict(chosen or {})
        """Versions to judge at whatever a document names, by repository."""
        self._preferred = {**(preferred or {}), **self.chosen}
        self._project = project
        self._trees: dict[tuple[str, str], Tree | None] = {}
        self._files: OrderedDict[tuple[str, str], FileText | None] = OrderedDict()
        self._maps: dict[tuple[str, str], dict[str, list[Entry]]] = {}
        self._found: dict[tuple[str, str, bool], tuple[str, ...]] = {}

    def tree(self, repo: str, version: str) -> Tree | None:
        """Give a pin's tree; None when the pin is not kept or not here."""
        key = (repo, version)
        if key not in self._trees:
            from srcmap.checkout import find_checkout

            lock = self.locks.get(repo)
            pin = lock.find(version) if lock else None
            checkout = find_checkout(lock, pin, self._project) if lock and pin else None
            here = lock is not None and pin is not None and checkout is not None
            self._trees[key] = Tree(lock, pin, checkout) if here else None  # type: ignore[arg-type]
        return self._trees[key]

    def default_version(self, repo: str) -> str:
        """Name the version to judge at when the document's own cannot be."""
        return self._preferred.get(repo) or self.locks[repo].current

    def default(self, repo: str) -> Tree | None:
        return self.tree(repo, self.default_version(repo))

    def trees(self, repo: str) -> list[Tree]:
        """List the trees of a repository that are here, the one to judge at first."""
        lock = self.locks.get(repo)
        if lock is None:
            return []
        versions = [self.default_version(repo), *(pin.version for pin in reversed(lock.pins))]
        found = (self.tree(repo, version) for version in dict.fromkeys(versions))
        return [tree for tree in found if tree is not None]

    def look_up(self, repo: str, path: str, *, exact: bool = False) -> tuple[str, ...]:
        """List the paths that a written path may mean in a repository, by the first pin with any."""  # noqa: E501
        key = (repo, path, exact)
        if key not in self._found:
            self._found[key] = self._look_up(repo, path, exact=exact)
        return self._found[key]

    def _look_up(self, repo: str, path: str, *, exact: bool) -> tuple[str, ...]:
        for tree in self.trees(repo):
            if tree.has(path) and (exact or "/" in path):
                return (path,)
            found = () if exact else tree.ending(path)
            if found:
                return tuple(found)
        return ()

    def everywhere(self, path: str) -> list[Place]:
        """List every place in any repository that a written path may mean; whole paths first."""
        whole = [Place(repo, path) for repo in self.locks if self.look_up(repo, path, exact=True)]
        if whole and "/" in path:
            return whole
        return [Place(repo, found) for repo in self.locks for found in self.look_up(repo, path)]

    @cached_property
    def all_trees(self) -> list[Tree]:
        return [tree for repo in self.locks for tree in self.trees(repo)]

    @cached_property
    def all_names(self) -> frozenset[str]:
        """The names of all files and folders of all pins."""
        return frozenset(name for tree in self.all_trees for name in tree.names())

    def file(self, tree: Tree, path: str) -> FileText | None:
        """Read a file of a pin; None for a folder and for what cannot be read."""
        key = (tree.blobs.get(path, ""), path)
        if not key[0]:
            return None
        if key not in self._files:
            try:
                self._files[key] = FileText(path, tree.checkout.read(path))
            except (OSError, SrcmapError):
                self._files[key] = None
            if len(self._files) > _KEPT:
                self._files.popitem(last=False)
        else:
            self._files.move_to_end(key)
        return self._files[key]

    def entries(self, tree: Tree, path: str) -> list[Entry]:
        """List what the map of a pin has in a file."""
        key = (tree.lock.name, tree.pin.version)
        if key not in self._maps:
            from srcmap.mapfile import find_map

            by_path: dict[str, list[Entry]] = {}
            source_map = find_map(*key, self._project)
            for entry in source_map.entries if source_map else ():
                if entry.lines is not None:
                    by_path.setdefault(entry.path, []).append(entry)
            self._maps[key] = by_path
        return self._maps[key].get(path, [])
