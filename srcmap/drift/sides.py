"""The two trees of a comparison: paths, blob ids and bytes, wherever they come from."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from srcmap.checkout.nouns import LINK, blob_id
from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from srcmap.checkout import Checkout
    from srcmap.checkout.objects import Objects

_READ = (
    ".py", ".pyi", ".pyx", ".cc", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".c", ".inl", ".md",
    ".markdown", ".rst", ".txt", ".cmake", ".toml", ".sh", ".yml", ".yaml", ".cfg", ".in", ".hip",
    ".mm", ".rs", ".js", ".ini", ".asc", ".tpp", ".html",
)  # fmt: skip
_TOO_BIG = 3_000_000


class Side(Protocol):
    """One tree."""

    @property
    def label(self) -> str:
        """What a reader calls it."""

    @property
    def commit(self) -> str | None:
        """Its commit, where it has one."""

    @property
    def partial(self) -> bool:
        """Whether files may exist that are not here."""

    @property
    def blobs(self) -> Mapping[str, str]:
        """Path and blob id of every file of text."""

    def read(self, path: str) -> bytes:
        """Give the bytes of a file; CheckoutError or OSError when they cannot be had."""


def is_text(path: str) -> bool:
    """Whether a path names something that is compared line by line."""
    return path.endswith(_READ) or "." not in path.rpartition("/")[2]


class CheckoutSide:
    """A pin that was synced."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self.label = checkout.pin.version
        self.commit = checkout.pin.commit
        self.partial = checkout.partial

    @cached_property
    def blobs(self) -> dict[str, str]:
        """Path and blob id, as the manifest has them."""
        entries = self._checkout.manifest.entries
        return {e.path: e.blob for e in entries if e.mode != LINK and is_text(e.path)}

    def read(self, path: str) -> bytes:
        """Give the bytes of a file."""
        return self._checkout.read(path)


class FolderSide:
    """Any folder."""

    partial = False

    def __init__(self, root: Path, label: str | None = None, commit: str | None = None) -> None:
        self._root = root
        self.label = label or str(root)
        self.commit = commit

    @cached_property
    def blobs(self) -> dict[str, str]:
        """Path and blob id; links and what git keeps for itself are left out."""
        return {path: blob_id(data) for path, data in self._files()}

    def _files(self) -> list[tuple[str, bytes]]:
        found = []
        for place in sorted(self._root.rglob("*")):
            path = place.relative_to(self._root).as_posix()
            if path.startswith(".git/") or place.is_symlink() or not is_text(path):
                continue
            if place.is_file() and place.stat().st_size <= _TOO_BIG:
                found.append((path, place.read_bytes()))
        return found

    def read(self, path: str) -> bytes:
        """Give the bytes of a file."""
        return (self._root / path).read_bytes()


def _full(objects: Objects, blob: str | None) -> str | None:
    """Say how to complete a blobless or shallow clone."""
    if blob is None:
        return None
    return f"git -C {objects.clone} fetch --refetch --no-filter --unshallow"


class CommitSide:
    """A commit in a clone."""

    partial = False

    def __init__(
        self, objects: Objects, commit: str, label: str, leave_out: tuple[str, ...] = ()
    ) -> None:
        self._objects = objects
        self._leave_out = leave_out
        self.label = label
        self.commit: str | None = commit
        self._id = commit
        self._data: dict[str, bytes] = {}

    @cached_property
    def blobs(self) -> dict[str, str]:
        """Path and blob id."""
        entries = self._objects.tree(self._id, self._leave_out)
        return {e.path: e.blob for e in entries if is_text(e.path)}

    def read(self, path: str) -> bytes:
        """Give the bytes of a file. CheckoutError when the commit or the clone lacks it."""
        blob = self.blobs.get(path)
        if blob is not None and blob not in self._data:
            self.fetch([path])
        if blob is None or blob not in self._data:
            lacks = "the commit has no such file" if blob is None else "the clone lacks its bytes"
            message = f"{self.label}: {path}: cannot be read: {lacks}"
            raise CheckoutError(message, slug="checkout", hint=_full(self._objects, blob))
        return self._data[blob]

    def fetch(self, paths: list[str]) -> None:
        """Read many files at once, which is what git is fast at."""
        wanted = {self.blobs[p] for p in paths if p in self.blobs} - self._data.keys()
        if wanted:
            self._data.update(self._objects.read(sorted(wanted)))
