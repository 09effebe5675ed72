"""Files in, a tree beside its final place out; nothing is ever written outside that tree.

Whoever brings files (git, an archive) is not trusted: every path and every link is judged here,
in one place. Files are written first and links last, so that no file can be written through one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from typing import TYPE_CHECKING

from srcmap.checkout.nouns import LINK, PROGRAM, REGULAR, Entry, blob_id
from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_FILES = 200_000
"""More than any repository of kernels has, and few enough to be refused before the disk is full."""
MAX_BYTES = 2 * 1024**3

_WINDOWS_BAD = set('<>:"|?*\\')


class Staging:
    """A tree under construction in `root`, a folder that exists and is empty."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._entries: dict[str, Entry] = {}
        self._links: dict[str, bytes] = {}
        self._folders: set[str] = {""}
        self._bytes = 0

    def add(self, path: str, size: int, data: Iterable[bytes], *, program: bool = False) -> None:
        """Write one file of `size` bytes. CheckoutError for a path that must not be."""
        self._admit(path, size)
        place = self._root / path
        digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        written = 0
        try:
            self._make_folder(path.rpartition("/")[0])
            with place.open("xb") as file:
                for chunk in data:
                    digest.update(chunk)
                    written += file.write(chunk)
            if program:
                place.chmod(0o755)
        except FileExistsError as error:
            raise _refused(path, "differs from another file by case only, here the same") from error
        except OSError as error:
            raise disk_error(error, place) from error
        if written != size:
            raise _refused(path, f"promised {size} bytes and brought {written}")
        mode = PROGRAM if program else REGULAR
        self._entries[path] = Entry(path, mode, digest.hexdigest())

    def link(self, path: str, target: bytes) -> None:
        """Note a symbolic link; `finish` makes it."""
        self._admit(path, len(target))
        text = os.fsdecode(target)
        inside = os.path.normpath(f"{path}/../{text}").replace(os.sep, "/")
        if text.startswith("/") or "\0" in text or inside == ".." or inside.startswith("../"):
            raise _refused(path, f"is a link out of the tree, to '{text}'")
        self._links[path] = target
        self._entries[path] = Entry(path, LINK, blob_id(target))

    def finish(self) -> tuple[Entry, ...]:
        """Make the links, check where they really lead, and name all that is there, sorted."""
        for path in self._entries:
            if any(parent in self._links for parent in _parents(path)):
                raise _refused(path, "lies below a link")
        for path, target in self._links.items():
            self._make_link(path, os.fsdecode(target))
        real_root = os.path.realpath(self._root)
        for path in self._links:
            # A link through a link can leave the tree though each looks harmless alone.
            real = os.path.realpath(self._root / path)
            if real != real_root and not real.startswith(real_root + os.sep):
                raise _refused(path, "is a link out of the tree, by way of other links")
        return tuple(sorted(self._entries.values()))

    def _admit(self, path: str, size: int) -> None:
        if wrong := path_wrong(path):
            raise _refused(path, wrong)
        if path in self._entries or path in self._folders:
            raise _refused(path, "is there twice")
        self._bytes += size
        if len(self._entries) >= MAX_FILES:
            raise _refused(path, f"is more than the {MAX_FILES} files that srcmap takes")
        if self._bytes > MAX_BYTES:
            raise _refused(path, f"goes beyond the {MAX_BYTES >> 20} MiB that srcmap takes")
        for parent in _parents(path):
            if parent in self._entries:
                raise _refused(path, f"lies below '{parent}', which is no folder")

    def _make_folder(self, folder: str) -> None:
        if folder not in self._folders:
            (self._root / folder).mkdir(parents=True, exist_ok=True)
            self._folders.update([folder, *_parents(folder)])

    def _make_link(self, path: str, target: str) -> None:
        place = self._root / path
        try:
            self._make_folder(path.rpartition("/")[0])
            if sys.platform == "win32":
                # Links need a privilege there; git writes the target as text without it.
                place.write_bytes(os.fsencode(target))
            else:
                place.symlink_to(target)
        except OSError as error:
            raise disk_error(error, place) from error


def path_wrong(path: str) -> str | None:
    """Say why a path must not be written below a root, or None when it may be."""
    parts = path.split("/")
    if leads_out(path):
        return "leads out of the tree"
    if not path or "\0" in path or any(part in ("", ".") for part in parts):
        return "is no proper path"
    if any(part.rstrip(". ").casefold() in (".git", "git~1") for part in parts):
        return "would write into a .git folder"
    if sys.platform == "win32" and _WINDOWS_BAD & set(path):
        return "holds a character that Windows does not allow"
    return None


def leads_out(path: str) -> bool:
    """Whether a path names something that is not below where it starts."""
    parts = path.replace("\\", "/").split("/")
    return ".." in parts or parts[0] == "" or parts[0].endswith(":")


def disk_error(error: OSError, place: Path) -> CheckoutError:
    """Phrase what to say when writing fails: the disk is full, the folder is not ours, or else."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space, then run the same command again"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "make the folder writable, or run srcmap in a folder of your own"
    else:
        hint = None
    return CheckoutError(f"{place}: cannot be written: {error.strerror}", slug="disk", hint=hint)


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _refused(path: str, why: str) -> CheckoutError:
    shown = path.encode("utf-8", "backslashreplace").decode()[:200]
    return CheckoutError(f"refused: '{shown}' {why}", slug="hostile")
