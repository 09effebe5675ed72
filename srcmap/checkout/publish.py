"""How a checkout gets into its place: alone, whole, and over nobody's work.

Apart from `store`, because whoever only looks should not wait for what only writing needs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from srcmap.checkout.nouns import dump_manifest
from srcmap.checkout.staging import disk_error
from srcmap.checkout.store import manifest_at
from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from srcmap.checkout.nouns import Manifest
    from srcmap.checkout.store import Place
    from srcmap.lock import Lock, Pin


@contextmanager
def staging_folder(place: Place) -> Iterator[Path]:
    """Make an empty folder on the disk of the final place; afterwards it is gone, come what may."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=place.prefix, dir=place.own))
    except OSError as error:
        raise disk_error(error, place.own) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def alone(place: Place, waiting: Callable[[], None]) -> Iterator[None]:
    """Wait until no other process brings the same pin, then sweep up what a killed one left.

    `waiting` is called when there is a wait.
    """
    try:
        place.own.mkdir(parents=True, exist_ok=True)
        ignore = place.vendor / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        lock = FileLock(place.lock)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            waiting()
            lock.acquire()
        try:
            _sweep(place)
            yield
        finally:
            lock.release()
    except PermissionError as error:
        raise disk_error(error, place.own) from error


def put_in_place(place: Place, staged: Path, manifest: Manifest, spare: Path) -> None:
    """Publish a verified tree. What was there goes into `spare`, a folder on the same disk.

    Killed anywhere in here, there is the old tree, no tree, or the new one; never a mixture.
    """
    written = spare / "manifest.json"
    try:
        written.write_bytes(dump_manifest(manifest))
        if place.tree.exists():
            place.tree.rename(spare / "replaced")
        written.replace(place.manifest)
        staged.rename(place.tree)
    except OSError as error:
        raise disk_error(error, place.tree) from error


def keep_edited(place: Place) -> Path:
    """Move a tree with somebody's edits out of the way, and say where it is now."""
    number = 1
    while (kept := place.own / "edited" / f"{place.tree.name}.{number}").exists():
        number += 1
    try:
        kept.parent.mkdir(exist_ok=True)
        place.tree.rename(kept)
    except OSError as error:
        raise disk_error(error, kept) from error
    return kept


def refuse_stranger(place: Place, lock: Lock, pin: Pin) -> None:
    """Raise CheckoutError when something lies in the place that no sync of this pin put there."""
    if not os.path.lexists(place.tree):
        return
    manifest = manifest_at(place)
    if manifest is None and place.manifest.exists():
        return  # ours, of another format or damaged
    if manifest is None or (manifest.repo, manifest.version) != (lock.name, pin.version):
        raise CheckoutError(
            f"{place.tree}: is there already, and srcmap did not put it there",
            slug="stranger",
            hint=f"move it away; a git clone can serve: "
            f"srcmap sync {lock.name}@{pin.version} --from MOVED-CLONE",
        )


def _sweep(place: Place) -> None:
    for leftover in place.own.glob(f"{place.prefix}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
