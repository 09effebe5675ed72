"""Which lock files count where: those of the project, over those that the package ships."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from srcmap.errors import LockError, UsageError
from srcmap.lock.read import read_lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.lock.nouns import Lock, Pin

FOLDER = "vendor_locks"
MARKER = ".srcmap.toml"

_PACKAGE = Path(__file__).resolve().parents[1]


def find_project(start: Path) -> Path | None:
    """Give the nearest folder, from `start` upwards, with `vendor_locks/` or `.srcmap.toml`."""
    start = start.absolute()
    for folder in (start, *start.parents):
        if (folder / FOLDER).is_dir() or (folder / MARKER).is_file():
            return folder
    return None


def read_locks(folder: Path) -> tuple[Lock, ...]:
    """Read every lock file of a `vendor_locks` folder, sorted by name. LockError for a bad one."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except FileNotFoundError:
        return ()
    except OSError as error:
        message = f"{folder}: cannot be read: {error.strerror}"
        raise LockError(message, slug="lock-file") from error
    return tuple(read_lock(path) for path in paths)


@cache
def shipped_locks() -> tuple[Lock, ...]:
    """Give the locks that the package brings along; in a clone, those of the repository."""
    shipped = _PACKAGE / "data" / FOLDER
    return read_locks(shipped if shipped.is_dir() else _PACKAGE.parent / FOLDER)


def known_locks(project: Path | None) -> tuple[Lock, ...]:
    """All locks that count in a project: its own, and the shipped ones that it does not replace."""
    own = read_locks(project / FOLDER) if project else ()
    replaced = {lock.name for lock in own}
    rest = [lock for lock in shipped_locks() if lock.name not in replaced]
    return tuple(sorted((*own, *rest), key=lambda lock: lock.name))


def pick(locks: Sequence[Lock], wanted: str) -> tuple[Lock, Pin]:
    """Give the pin that `REPO` or `REPO@VERSION` means. UsageError, with near misses, when none."""
    name, at, version = wanted.partition("@")
    lock = next((lock for lock in locks if lock.name == name), None)
    if lock is None:
        raise _unknown(f"no repository '{name}' is pinned", name, [lock.name for lock in locks])
    pin = lock.find(version) if at else lock.current_pin
    if pin is None:
        versions = [pin.version for pin in lock.pins]
        raise _unknown(f"{name} has no pin '{version}'", version, versions)
    return lock, pin


def _unknown(message: str, wanted: str, names: list[str]) -> UsageError:
    from difflib import get_close_matches  # only when somebody mistyped

    near = get_close_matches(wanted, names, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else f"known are: {', '.join(names)}"
    return UsageError(message, slug="no-such-pin", hint=hint)
