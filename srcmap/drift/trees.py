"""Two trees: files that belong together, lines that are new, and how common a line was."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.drift.align import equal_pairs
from srcmap.drift.names import vanished
from srcmap.drift.pair import FilePair
from srcmap.drift.text import Text
from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.drift.sides import Side

_RENAMED = 0.5
"""Share of lines that a renamed file keeps, as for `git diff -M`."""


class Trees:
    """An old and a new tree."""

    def __init__(self, old: Side, new: Side) -> None:
        self.old = old
        self.new = new
        self._old_texts: dict[str, Text] = {}
        self._new_texts: dict[str, Text] = {}
        self._pairs: dict[tuple[str, str], FilePair] = {}
        self._renamings: dict[tuple[str, str], bool] = {}
        self._equal: dict[tuple[str, str], list[tuple[int, int]]] = {}

    def old_text(self, path: str) -> Text:
        """Read a file of the old tree."""
        return _kept(self._old_texts, self.old, path)

    def new_text(self, path: str) -> Text:
        """Read a file of the new tree."""
        return _kept(self._new_texts, self.new, path)

    def pair(self, old_path: str, new_path: str) -> FilePair:
        """Put an old and a new file side by side."""
        if (old_path, new_path) not in self._pairs:
            pair = FilePair(self.old_text(old_path), self.new_text(new_path))
            self._pairs[old_path, new_path] = pair
        return self._pairs[old_path, new_path]

    # -- files ------------------------------------------------------------------------------

    def identical(self, path: str) -> bool:
        """Whether a file is there, byte for byte."""
        return self.new.blobs.get(path) == self.old.blobs[path]

    def counterpart(self, path: str) -> str | None:
        """Name the file that is now what `path` was; None when there is none."""
        return path if path in self.new.blobs else self._renames.get(path)

    @cached_property
    def _gone(self) -> list[str]:
        return [p for p in self.old.blobs if p not in self.new.blobs]

    @cached_property
    def _added(self) -> list[str]:
        return [p for p in self.new.blobs if p not in self.old.blobs]

    @cached_property
    def _renames(self) -> dict[str, str]:
        """Old to new path of files that were renamed: the same blob first, then alike."""
        found: dict[str, str] = {}
        by_blob: dict[str, list[str]] = defaultdict(list)
        for path in self._added:
            by_blob[self.new.blobs[path]].append(path)
        for path in self._gone:
            homes = by_blob.get(self.old.blobs[path], [])
            if len(homes) > 1:
                name = path.rpartition("/")[2]
                homes = [h for h in homes if h.rpartition("/")[2] == name]
            if len(homes) == 1 and len(self.old_text(path).lines) > 0:
                found[path] = homes[0]
        taken = set(found.values())
        scored = sorted(self._alike(found, taken), reverse=True)
        for _score, path, home in scored:
            if path not in found and home not in taken:
                found[path] = home
                taken.add(home)
        return found

    def _alike(self, found: dict[str, str], taken: set[str]) -> Iterable[tuple[float, str, str]]:
        _fetch(self.old, self._gone)
        _fetch(self.new, self._added)
        bags = {p: _bag(self.new_text(p)) for p in self._added if p not in taken}
        homes: dict[str, list[str]] = defaultdict(list)
        for path, bag in bags.items():
            for key in bag:
                homes[key].append(path)
        for path in self._gone:
            if path in found:
                continue
            bag = _bag(self.old_text(path))
            shared: Counter[str] = Counter()
            for key, count in bag.items():
                for home in homes.get(key, ()):
                    shared[home] += min(count, bags[home][key])
            size = sum(bag.values())
            for home, common in shared.items():
                score = common / max(size, sum(bags[home].values()))
                name = path.rpartition("/")[2] == home.rpartition("/")[2]
                if score >= _RENAMED and common >= 3:
                    yield score + 0.2 * name, path, home

    # -- lines ------------------------------------------------------------------------------

    def equal_lines(self, old_path: str, new_path: str) -> list[tuple[int, int]]:
        """Pair the lines of two files that are equal but for white space, 0-based."""
        if (old_path, new_path) not in self._equal:
            pairs = equal_pairs(self.old_text(old_path).keys, self.new_text(new_path).keys)
            self._equal[old_path, new_path] = pairs
        return self._equal[old_path, new_path]

    @cached_property
    def free(self) -> dict[str, list[tuple[str, int]]]:
        """Every line that was added, by its key: where it stands in the new tree."""
        renamed = {new: old for old, new in self._renames.items()}
        touched = [p for p, b in self.new.blobs.items() if self.old.blobs.get(p) != b]
        _fetch(self.new, touched)
        _fetch(self.old, [p for p in (renamed.get(q, q) for q in touched) if p in self.old.blobs])
        index: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for path in touched:
            text = self.new_text(path)
            before = path if path in self.old.blobs else renamed.get(path)
            kept = {j for _, j in self.equal_lines(before, path)} if before else set()
            for number, key in enumerate(text.keys):
                if number not in kept and len(key) > 2:
                    index[key].append((path, number + 1))
        return index

    @cached_property
    def free_lines(self) -> dict[str, set[int]]:
        """The same, by file."""
        found: dict[str, set[int]] = defaultdict(set)
        for places in self.free.values():
            for path, line in places:
                found[path].add(line)
        return found

    @cached_property
    def old_counts(self) -> Counter[str]:
        """How often each key stands in the whole old tree."""
        _fetch(self.old, list(self.old.blobs))
        counts: Counter[str] = Counter()
        for path in self.old.blobs:
            counts.update(self.old_text(path).keys)
        return counts

    def renamed(self, before: str, after: str) -> bool:
        """Whether the whole bump put one name in the place of another."""
        if (before, after) not in self._renamings:
            old = [self.old_text(p).data for p in self._all(self.old)]
            new = [self.new_text(p).data for p in self._all(self.new)]
            self._renamings[before, after] = vanished(old, new, before, after)
        return self._renamings[before, after]

    def _all(self, side: Side) -> list[str]:
        paths = list(side.blobs)
        _fetch(side, paths)
        return paths

    def stays(self, path: str, line: int) -> bool:
        """Whether a line of the old tree is still in its file, by the plain diff."""
        home = self.counterpart(path)
        if home is None:
            return False
        if (path, home) not in self._stay:
            self._stay[path, home] = {i + 1 for i, _ in self.equal_lines(path, home)}
        return line in self._stay[path, home]

    @cached_property
    def _stay(self) -> dict[tuple[str, str], set[int]]:
        return {}


def _bag(text: Text) -> Counter[str]:
    return Counter(key for key, tells in zip(text.keys, text.telling, strict=True) if tells)


def _kept(texts: dict[str, Text], side: Side, path: str) -> Text:
    if path not in texts:
        try:
            data = side.read(path)
        except OSError as error:
            message = f"{side.label}: {path}: cannot be read: {error}"
            raise CheckoutError(message, slug="checkout") from error
        texts[path] = Text(path, data)
    return texts[path]


def _fetch(side: Side, paths: list[str]) -> None:
    """Let a side that reads many files at once do so."""
    fetch = getattr(side, "fetch", None)
    if fetch is not None:
        fetch(paths)
