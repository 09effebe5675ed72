"""A pin in, its files on this disk out: `find_checkout` looks, `sync` brings, `check` compares.

Looking is instant and reads no network; git and http are imported only when something is fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.checkout.nouns import Checkout, Manifest, Progress, Silent, blob_id
from srcmap.checkout.store import find_checkout, vendor_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from srcmap.lock import Lock, Pin

__all__ = [
    "Checkout",
    "Manifest",
    "Progress",
    "Silent",
    "blob_id",
    "find_checkout",
    "sync",
    "vendor_folder",
]


def sync(
    lock: Lock,
    pin: Pin,
    project: Path | None,
    progress: Progress | None = None,
    source: str | None = None,
    cited: Mapping[str, str] | None = None,
) -> Checkout:
    """Bring a pin to its place and give it; see `srcmap.checkout.bring.sync`."""
    from srcmap.checkout.bring import sync as bring

    return bring(lock, pin, project, progress, source, cited).checkout
