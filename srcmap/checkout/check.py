"""A checkout in, what differs from its manifest out. Reads the disk and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from srcmap.checkout.nouns import LINK, Entry, blob_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.checkout.nouns import Checkout


class Differences(msgspec.Struct, frozen=True, kw_only=True):
    """Upstream paths, sorted, by what is wrong with them."""

    checked: int
    """How many files the manifest names."""
    edited: tuple[str, ...]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    unreadable: tuple[str, ...]
    """Could not be compared: neither good nor bad is known of them."""

    @property
    def changes(self) -> tuple[str, ...]:
        """Every path that keeps the tree from being known as good."""
        return (*self.edited, *self.missing, *self.extra, *self.unreadable)


def check_checkout(checkout: Checkout) -> Differences:
    """Compare every file with the blob id that was noted when the tree was put in place."""
    states: dict[str, list[str]] = {"edited": [], "missing": [], "unreadable": []}
    for entry in checkout.manifest.entries:
        state = _state(checkout.root / entry.path, entry)
        if state:
            states[state].append(entry.path)
    known = {entry.path for entry in checkout.manifest.entries}
    extra = sorted(path for path in _files(checkout.root) if path not in known)
    return Differences(
        checked=len(known),
        edited=tuple(states["edited"]),
        missing=tuple(states["missing"]),
        extra=tuple(extra),
        unreadable=tuple(states["unreadable"]),
    )


def _state(path: Path, entry: Entry) -> str | None:
    try:
        if path.is_symlink():
            data = os.fsencode(os.readlink(path))  # noqa: PTH115  # bytes as they are, no Path
            same_kind = entry.mode == LINK
        else:
            data = path.read_bytes()
            same_kind = entry.mode != LINK or os.name == "nt"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except IsADirectoryError:
        return "edited"
    except OSError:
        return "unreadable"
    return None if same_kind and blob_id(data) == entry.blob else "edited"


def _files(root: Path) -> Iterator[str]:
    """Every file and link below a root. Links are not followed, so a cycle of them ends nothing."""
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118
        for name in (*files, *links):
            yield Path(folder, name).relative_to(root).as_posix()
