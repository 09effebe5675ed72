"""The nouns of a lock file. All paths are upstream repository paths with forward slashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """Another way to the bytes of a pin: a file that a package index serves."""

    kind: Literal["sdist", "wheel"]
    project: str
    """The name of the project on the package index."""
    file: str
    """The name of the file there."""
    sha256: str
    commit_file: str | None = None
    """The member that records the commit that the archive was made from."""
    covers: tuple[tuple[str, str], ...] = ()
    """Upstream pattern and where it lies in the archive; empty when the archive is complete."""
    foreign: tuple[str, ...] = ()
    """Members that are not upstream's: made by the packaging, or vendored into it."""
    lacks: tuple[str, ...] = ()
    """Upstream patterns that the packaging left out. Nothing that a map cites."""

    @property
    def partial(self) -> bool:
        """Whether it holds only a part of the repository."""
        return bool(self.covers)


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one repository, fixed for good."""

    version: str
    """The label that people use: a tag, or the first digits of a commit on a branch."""
    requested: str
    """What was asked for when the pin was made: a tag, a branch or a commit."""
    ref: str | None = None
    """What that was in full, `refs/tags/v1`; none when a commit was asked for."""
    commit: str | None = None
    """40 hexadecimal digits; none while only an archive is known."""
    tree: str | None = None
    """The id of the commit's tree, where known."""
    archives: tuple[Archive, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether no way to the whole repository is known. Shown wherever the pin is shown."""
        return self.commit is None and all(archive.partial for archive in self.archives)

    @property
    def covers(self) -> tuple[str, ...]:
        """The upstream patterns that a partial pin has; empty for a complete one."""
        if not self.partial:
            return ()
        return tuple(sorted({part for archive in self.archives for part, _ in archive.covers}))


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """One repository and its pins, in the order of the file."""

    name: str
    url: str
    licence: str
    """An SPDX identifier; empty when nobody has looked."""
    current: str
    """The version that is meant when none is named."""
    pins: tuple[Pin, ...]
    leave_out: tuple[str, ...] = ()
    """Patterns of upstream paths that a checkout does without."""
    path: Path | None = None
    """The file that it was read from."""

    @property
    def current_pin(self) -> Pin:
        """The pin that is meant when no version is named."""
        return next(pin for pin in self.pins if pin.version == self.current)

    def find(self, version: str) -> Pin | None:
        """Give the pin with that label, if it is kept."""
        return next((pin for pin in self.pins if pin.version == version), None)


def matches(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path is one of the patterns: `folder/**`, or the path itself."""
    return any(
        path.startswith(pattern[:-2]) if pattern.endswith("/**") else path == pattern
        for pattern in patterns
    )
