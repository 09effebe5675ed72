"""Where checkouts lie, and how one is found without looking inside.

A tree `<repo>-<version>/` has its manifest beside it, in `.srcmap/<repo>-<version>.json`. The
manifest is in place before the tree is renamed there, so a tree that is found is always whole.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from srcmap.checkout.nouns import Checkout, Manifest, load_manifest

if TYPE_CHECKING:
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
    if project and (found := at_place(Place(project / FOLDER, lock, pin), lock, pin)):
        return found
    return at_place(Place(_cache_folder(), lock, pin), lock, pin)


def formerly(place: Place, lock: Lock, pin: Pin) -> Checkout | None:
    """Give what a sync put in this place when the pin may have meant another commit."""
    manifest = manifest_at(place)
    if manifest is None or not place.tree.is_dir():
        return None
    return Checkout(root=place.tree, lock=lock, pin=pin, manifest=manifest)


def at_place(place: Place, lock: Lock, pin: Pin) -> Checkout | None:
    """Give the checkout in exactly this place, if it is the pin."""
    if not place.tree.is_dir():
        return None
    manifest = manifest_at(place)
    if manifest is None or (manifest.repo, manifest.version) != (lock.name, pin.version):
        return None
    if not manifest.proves(pin):
        return None
    return Checkout(root=place.tree, lock=lock, pin=pin, manifest=manifest)


def manifest_at(place: Place) -> Manifest | None:
    """Read the manifest of a place; None when there is none, or none that can be read."""
    try:
        return load_manifest(place.manifest.read_bytes())
    except OSError:
        return None


def _cache_folder() -> Path:
    if folder := os.environ.get("SRCMAP_CACHE"):
        return Path(folder) / "vendor"
    from platformdirs import user_cache_path

    return user_cache_path("srcmap", appauthor=False) / "vendor"
