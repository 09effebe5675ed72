"""What is dear to compute and cheap to keep: anatomies by blob id, in the user's cache folder.

The key holds a fingerprint of srcmap's own reading code, so a new version never reads old answers.
A cache that is broken, full or unwritable costs time and nothing else: it never stops a command.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sys
import tempfile
from functools import cache as _once
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

_log = logging.getLogger(__name__)
_PACKAGE = Path(__file__).parent
_READING = ("model.py", "parse", "anatomy", "data/queries")
"""What an anatomy depends on, besides the file that is read."""

_T = TypeVar("_T")


class Cache(Generic[_T]):
    """Values of one type under one folder, in MessagePack."""

    def __init__(self, folder: Path, kind: type[_T]) -> None:
        self._folder = folder
        self._decoder = msgspec.msgpack.Decoder(kind)

    def get(self, key: str) -> _T | None:
        """Return the value kept under `key`, or None: not there, not readable, not well formed."""
        try:
            return self._decoder.decode(self._path(key).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            _log.debug("cache entry %s ignored: %s", key, error)
            return None

    def put(self, key: str, value: _T) -> None:
        """Keep `value`: written beside and renamed, so that a reader sees all of it or nothing."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_renamed(path, msgspec.msgpack.encode(value))
        except OSError as error:
            _log.debug("cache entry %s not kept: %s", key, error)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]


def _write_renamed(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)  # noqa: PTH105 - both are plain strings already
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise


def cache_folder() -> Path:
    """Where this user's caches belong; `SRCMAP_CACHE` names another place."""
    chosen = os.environ.get("SRCMAP_CACHE")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_dir("srcmap", appauthor=False))


def key_of(*parts: str) -> str:
    """One file name for several parts."""
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()


@_once
def fingerprint(*roots: str) -> str:
    """Digest the code and data that an anatomy depends on, and the running Python's version."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {msgspec.__version__}".encode())
    for root in roots or _READING:
        for path in _files(_PACKAGE / root):
            digest.update(str(path.relative_to(_PACKAGE)).encode() + b"\x00")
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(
        p for p in path.rglob("*") if p.is_file() and p.suffix in {".py", ".scm", ".json"}
    )
