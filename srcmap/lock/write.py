"""A pin in, a lock file on disk out, with every comment that was in it.

What is about to be written is read back first, so that no lock file is ever written that could
not be read; then it is written beside the old one and renamed over it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import tomlkit
from tomlkit.items import AoT, Table

from srcmap.errors import LockError
from srcmap.lock.read import FORMAT, parse_lock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from srcmap.lock.nouns import Lock, Pin

_HEAD = (
    "What is pinned of {name}. Written by `srcmap lock add`, read by people: comments are kept.",
    "docs/pins.md explains every key.",
)


def new_lock(path: Path, *, name: str, url: str, pin: Pin) -> Lock:
    """Write the lock file of a repository that had none."""
    document = tomlkit.document()
    for line in _HEAD:
        document.add(tomlkit.comment(line.format(name=name)))
    document["format"] = FORMAT
    document["repo"] = {"name": name, "url": url, "current": pin.version}
    pins = tomlkit.aot()
    pins.append(_table(pin))
    document["pin"] = pins
    return _write(path, tomlkit.dumps(document))


def add_pin(path: Path, text: str, pin: Pin, *, current: bool = False) -> Lock:
    """Write `text`, a lock file, to `path` with `pin` added or, by its version, completed."""
    return _write(path, with_pin(text, path, pin, current=current).decode("utf-8"))


def with_pin(text: str, path: Path, pin: Pin, *, current: bool = False) -> bytes:
    """Give the bytes that `add_pin` writes. LockError when they would not be a lock file."""
    document = tomlkit.parse(text)
    pins = document["pin"]
    if not isinstance(pins, AoT):
        raise LockError(f"{path}: 'pin': expected [[pin]] tables", slug="lock-file")
    kept = next((table for table in pins if table["version"] == pin.version), None)
    if kept is None:
        pins.append(_table(pin))
    else:
        _complete(kept, _fields(pin))
    if current:
        document["repo"]["current"] = pin.version
    data = tomlkit.dumps(document).encode("utf-8")
    parse_lock(data, path)
    return data


def _complete(table: Table, fields: Mapping[str, str]) -> None:
    """Set fields of a pin; a new one goes before its archives, where TOML wants it."""
    archives = table.pop("archive") if "archive" in table else None
    for key, value in fields.items():
        table[key] = value
    if "tree" in table and "tree" not in fields:
        del table["tree"]  # it was the tree of another commit
    if archives is not None:
        table["archive"] = archives


def _fields(pin: Pin) -> dict[str, str]:
    fields = {
        "version": pin.version,
        "commit": pin.commit,
        "tree": pin.tree,
        "requested": pin.requested,
        "ref": pin.ref,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _table(pin: Pin) -> Table:
    table = tomlkit.table()
    for key, value in _fields(pin).items():
        table[key] = value
    return table


def _write(path: Path, text: str) -> Lock:
    data = text.encode("utf-8")
    lock = parse_lock(data, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(beside).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror}"
        raise LockError(message, slug="disk") from error
    return lock
