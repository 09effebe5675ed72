"""Judged documents, kept between runs over many: a document is judged again when anything changed.

What counts as a change is all that a verdict rests on: the document's bytes and name, the record
beside it, the settings, the pins and maps that are here, srcmap itself, and which of the paths that
it writes are files of its own project.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec

from srcmap.cache import Cache, cache_folder, fingerprint
from srcmap.cite.nouns import Judged  # noqa: TC001 - msgspec reads the annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from srcmap.cite.audit import Task


class Kept(msgspec.Struct, frozen=True):
    """The citations of a document, and what its project was asked for on the way."""

    asked: dict[str, bool]
    judged: tuple[Judged, ...]


class Memory:
    """What is known of documents under one set of pins and settings."""

    def __init__(self, task: Task) -> None:
        self._cache = Cache(cache_folder() / "cites", Kept)
        self._world = _world(task)

    def key(self, data: bytes, shown: str, beside: object) -> str:
        """Name a document under all that is the same for it now."""
        digest = hashlib.sha256(self._world)
        for part in (shown.encode("utf-8", "surrogateescape"), repr(beside).encode(), data):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    def get(self, key: str, exists: Callable[[str], bool]) -> tuple[Judged, ...] | None:
        """Give what is kept, if the project still answers as it did."""
        kept = self._cache.get(key)
        if kept is None or any(exists(path) != there for path, there in kept.asked.items()):
            return None
        return kept.judged

    def put(self, key: str, asked: dict[str, bool], judged: tuple[Judged, ...]) -> None:
        """Keep the citations of a document."""
        self._cache.put(key, Kept(asked, judged))


def _world(task: Task) -> bytes:
    digest = hashlib.sha256(fingerprint("cite", "model.py", "digest.py", "mapfile.py").encode())
    whole = (task.settings, task.pins, task.fences, task.judge, task.concepts, task.locks)
    digest.update(msgspec.json.encode(whole, enc_hook=str))
    for path in _files(task):
        try:
            found = path.stat()
        except OSError:
            continue
        digest.update(f"{path}\0{found.st_mtime_ns}\0{found.st_size}\0".encode())
    return digest.digest()


def _files(task: Task) -> Iterable[Path]:
    """Yield the files that say what the checkouts and maps of this project are."""
    from srcmap.checkout.store import Place, vendor_folder
    from srcmap.mapfile import file_name, project_folder, shipped_folder

    homes = [vendor_folder(None), *([vendor_folder(task.project)] if task.project else [])]
    maps = [shipped_folder(), *([project_folder(task.project)] if task.project else [])]
    for lock in task.locks:
        for pin in lock.pins:
            yield from (Place(home, lock, pin).manifest for home in homes)
            yield from (folder / file_name(lock.name, pin.version) for folder in maps)
