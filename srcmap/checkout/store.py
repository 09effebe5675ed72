"""Where checkouts lie, how one is found without looking inside, and how one gets into its place.

A tree `<repo>-<version>/` has its manifest beside it, in `.srcmap/<repo>-<version>.json`. The
manifest is in place before the tree is renamed there, so a tree that is found is always whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from srcmap.checkout.nouns import Checkout, Manifest, dump_manifest, load_manifest
from srcmap.checkout.staging import disk_error
from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.lock import Lock, Pin

FOLDER = "_vendor"
_OWN = ".srcmap"


class Place:
    """The paths that belong to one checkout."""

    def __init__(self, vendor: Path, lock: Lock, pin: Pin) -> None:
        name = f"{lock.name}-{pin.version}"
        self.vendor = vendor
        self.own = vendor / _OWN
        self.tree = vendor / name
        self.manifest = self.own / f"{name}.json"
        self.lock = self.own / f"{name}.lock"
        self.prefix = f"{name}~"  # no label holds a tilde: v0.1.1 must not sweep v0.1.1.010


def vendor_folder(project: Path | None) -> Path:
    """Give the folder of checkouts: `_vendor` of the project, else in the user's cache."""
    return project / FOLDER if project else _cache_folder()


def find_checkout(lock: Lock, pin: Pin, project: Path | None) -> Checkout | None:
    """Find the checkout of a pin, in the project or the user's cache; reads no network.

    What it finds was verified when it was put there; `check_checkout` looks again.
    """
    if project and (found := _read(Place(project / FOLDER, lock, pin), lock, pin)):
        return found
    return _read(Place(_cache_folder(), lock, pin), lock, pin)


def at_place(place: Place, lock: Lock, pin: Pin) -> Checkout | None:
    """Give the checkout in exactly this place, if it is the pin."""
    return _read(place, lock, pin)


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
def alone(place: Place) -> Iterator[None]:
    """Wait until no other process brings the same pin, then sweep up what a killed one left."""
    from filelock import FileLock  # a sync only: not paid for by those who read

    try:
        place.own.mkdir(parents=True, exist_ok=True)
        ignore = place.vendor / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        with FileLock(place.lock):
            _sweep(place)
            yield
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
    manifest = _manifest(place)
    if manifest is None or (manifest.repo, manifest.version) != (lock.name, pin.version):
        raise CheckoutError(
            f"{place.tree}: is there already, and srcmap did not put it there",
            slug="stranger",
            hint=f"move it away; a git clone can serve: "
            f"srcmap sync {lock.name}@{pin.version} --from MOVED-CLONE",
        )


def _read(place: Place, lock: Lock, pin: Pin) -> Checkout | None:
    if not place.tree.is_dir():
        return None
    manifest = _manifest(place)
    if manifest is None or (manifest.repo, manifest.version) != (lock.name, pin.version):
        return None
    if not manifest.proves(pin):
        return None
    return Checkout(root=place.tree, lock=lock, pin=pin, manifest=manifest)


def _manifest(place: Place) -> Manifest | None:
    try:
        return load_manifest(place.manifest.read_bytes())
    except OSError:
        return None


def _sweep(place: Place) -> None:
    for leftover in place.own.glob(f"{place.prefix}*"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)


def _cache_folder() -> Path:
    if folder := os.environ.get("SRCMAP_CACHE"):
        return Path(folder) / "vendor"
    from platformdirs import user_cache_path

    return user_cache_path("srcmap", appauthor=False) / "vendor"
