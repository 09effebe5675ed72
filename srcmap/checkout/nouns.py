"""The nouns of a checkout, and the three lines of progress that its makers speak."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from pathlib import Path

    from srcmap.lock import Lock, Pin
    from srcmap.model import Note

FORMAT = 1
"""Of the manifest; another number means that the tree is fetched anew."""

REGULAR, PROGRAM, LINK = "100644", "100755", "120000"
"""The modes that git knows for a file, a program and a symbolic link."""


class NotThere(Exception):  # noqa: N818  # the reason to try another source
    """A source does not have the commit, or cannot be reached; `why` says which."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Entry(msgspec.Struct, frozen=True, order=True):
    """One file of a tree, as git counts it."""

    path: str
    mode: str
    blob: str
    """The git blob id: what identifies these bytes, whichever way they came."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What was put in place: written beside the tree, compared with it by `sync --check`."""

    repo: str
    version: str
    commit: str | None
    tree: str | None
    source: str
    """`git`, or the name of the archive."""
    sha256: str | None
    """Of the archive; none for git."""
    partial: bool
    covers: tuple[str, ...]
    left_out: tuple[str, ...]
    entries: tuple[Entry, ...]
    """Sorted by path."""

    def proves(self, pin: Pin) -> bool:
        """Whether the tree that it describes is the pin, by commit or by archive."""
        if self.source == "git":
            return pin.commit is not None and self.commit == pin.commit
        return self.sha256 in {archive.sha256 for archive in pin.archives}


class Checkout(msgspec.Struct, frozen=True, kw_only=True):
    """A pin on this disk. Every path is an upstream repository path, whatever it came from."""

    root: Path
    lock: Lock
    pin: Pin
    manifest: Manifest

    @property
    def partial(self) -> bool:
        """Whether only a part of the repository is here."""
        return self.manifest.partial

    def paths(self) -> tuple[str, ...]:
        """Every regular file, sorted. Symbolic links are left out: what they show is here twice."""
        return tuple(entry.path for entry in self.manifest.entries if entry.mode != LINK)

    def read(self, path: str) -> bytes:
        """Give the bytes of a file. CheckoutError when the file is not there or cannot be read."""
        try:
            return self.root.joinpath(path).read_bytes()
        except OSError as error:
            raise CheckoutError(
                f"{self.root / path}: cannot be read: {error.strerror}",
                slug="checkout",
                hint=f"srcmap sync {self.lock.name}@{self.pin.version}",
            ) from error

    def blob_id(self, path: str) -> str:
        """Give the git blob id of the bytes that are there now, edited or not."""
        return blob_id(self.read(path))


class Progress(Protocol):
    """What a sync tells whoever watches. The default watcher does nothing."""

    def step(self, what: str, subject: str) -> None:
        """Hear that a step begins: `fetch`, `download` or `unpack`, and what it is about."""

    def advance_to(self, share: float) -> None:
        """So much of the step is done, from 0 to 1."""

    def tell(self, note: Note) -> None:
        """Something that a person should know, such as the way that was taken instead."""


class Silent:
    """Nobody watches."""

    def step(self, what: str, subject: str) -> None:
        """Say nothing."""

    def advance_to(self, share: float) -> None:
        """Say nothing."""

    def tell(self, note: Note) -> None:
        """Say nothing."""


def blob_id(data: bytes) -> str:
    """Give the id that git gives to these bytes as a file."""
    import hashlib  # pulls in OpenSSL, which looking for a checkout does not need

    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def dump_manifest(manifest: Manifest) -> bytes:
    """Write the manifest as JSON. Names that are not UTF-8 survive, as surrogates escaped."""
    plain = msgspec.structs.asdict(manifest)
    plain["entries"] = [[e.path, e.mode, e.blob] for e in manifest.entries]
    return json.dumps({"format": FORMAT, **plain}, indent=None).encode("ascii")


def load_manifest(data: bytes) -> Manifest | None:
    """Give the manifest that these bytes hold; None when they are damaged or of another format."""
    try:
        plain: dict[str, Any] = json.loads(data)
        if plain.pop("format") != FORMAT:
            return None
        plain["entries"] = tuple(Entry(*entry) for entry in plain["entries"])
        plain["covers"] = tuple(plain["covers"])
        plain["left_out"] = tuple(plain["left_out"])
        return Manifest(**plain)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
