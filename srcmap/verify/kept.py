"""Kept results as pages show them, and what makes them stale. Runs nothing, and imports little.

`srcmap variant` reads this at every call; `results` has the whole of a result.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from srcmap.counterparts import folder_of
from srcmap.errors import SrcmapError
from srcmap.verify.home import home

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = "srcmap-verify/1"
_METHOD = Path(__file__).resolve().parents[1] / "engines"


class ShownComparison(msgspec.Struct, frozen=True):
    """An output: how far off, absolutely and in units of its budget; None for NaN."""

    error: float | None = None
    ratio: float | None = None


class ShownCheck(msgspec.Struct, frozen=True):
    """One set of inputs."""

    compared: tuple[ShownComparison, ...] = ()

    @property
    def error(self) -> float | None:
        """The largest absolute error; None when one is not known, or nothing was compared."""
        return largest([c.error for c in self.compared])

    @property
    def ratio(self) -> float | None:
        """The largest error in units of its budget."""
        return largest([c.ratio for c in self.compared])


class Shown(msgspec.Struct, frozen=True):
    """One file of one pin with one engine, as far as a page shows it."""

    repo: str
    pin: str
    path: str
    engine: str
    state: str
    reason: str = ""
    upstream: str = ""
    ours: str = ""
    ours_variants: tuple[str, ...] = ()
    method: str = ""
    checks: tuple[ShownCheck, ...] = ()


class _Store(msgspec.Struct, frozen=True):
    format: str
    results: tuple[Shown, ...] = ()


class Rests(Protocol):
    """What a result rests on."""

    @property
    def upstream(self) -> str:
        """Git's blob id of the file that ran."""

    @property
    def ours(self) -> str:
        """The digest of our implementation's files."""

    @property
    def method(self) -> str:
        """The digest of the engines and the cases."""


def load(project: Path | None) -> tuple[Shown, ...]:
    """Return the results of a project. SrcmapError when the file is not one of results."""
    if project is None:
        return ()
    path = home(project)
    try:
        store = msgspec.json.decode(path.read_bytes(), type=_Store)
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.MsgspecError) as error:
        raise unreadable(path, error) from error
    return store.results if store.format == FORMAT else ()


def unreadable(path: Path, error: Exception) -> SrcmapError:
    """Return the error for a file that holds no results."""
    message = f"{path}: not a file of results: {error}"
    return SrcmapError(message, slug="results", hint="remove it, and verify again")


def largest(values: Sequence[float | None]) -> float | None:
    """Return the largest; None when one is not known, or there is none."""
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


@cache
def method_digest() -> str:
    """Return the digest of everything that runs and judges kernels."""
    import hashlib

    digest = hashlib.sha256()
    for path in sorted(_METHOD.rglob("*.py")):
        digest.update(path.relative_to(_METHOD).as_posix().encode() + b"\0")
        digest.update(path.read_bytes())
    return digest.hexdigest()


def ours_digest(folders: Sequence[Path]) -> str:
    """Return the digest of our implementations of a file's variants; empty when there are none."""
    if not folders:
        return ""
    import hashlib

    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.glob("*.py")):
            digest.update(f"{folder.name}/{path.name}".encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def our_folders(project: Path | None, variants: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders of our re-implementations that run in the place of upstream's kernel."""
    found = [folder_of(project, variant) for variant in variants]
    return tuple(dict.fromkeys(f for f in found if f is not None and _answers(f)))


def _answers(folder: Path) -> bool:
    return any("def like_upstream(" in p.read_text(encoding="utf-8") for p in folder.glob("*.py"))


def is_stale(result: Rests, blob: str, ours: str | None = None) -> bool:
    """Whether what a result rests on has changed since; None and empty are not looked at."""
    changed = bool(blob) and result.upstream != blob
    return changed or result.method != method_digest() or ours not in (None, result.ours)
