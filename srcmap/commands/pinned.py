"""What the commands about pins share: their formats, their words, and a pin as a row or as JSON."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from srcmap.i18n import text
from srcmap.lock import find_project, known_locks, pick
from srcmap.render.console import console_for, emit
from srcmap.render.layout import columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.lock import Lock, Pin


class PlainFormat(str, Enum):
    """What `--format` accepts where the answer is a list."""

    text = "text"
    json = "json"


PlainFormatOption = Annotated[PlainFormat, typer.Option("--format", help="cli.format")]


def project_and_locks(start: Path | None) -> tuple[Path | None, tuple[Lock, ...]]:
    """Return the project around `start` (the current folder), and every lock that counts there."""
    project = find_project(start or Path.cwd())
    return project, known_locks(project)


def wanted(locks: Sequence[Lock], names: Sequence[str]) -> list[tuple[Lock, Pin]]:
    """Return the pins that `REPO` (all of them) and `REPO@VERSION` mean; all of all without."""
    chosen: list[tuple[Lock, Pin]] = []
    for name in names or [lock.name for lock in locks]:
        lock, pin = pick(locks, name)
        chosen += [(lock, pin)] if "@" in name else [(lock, kept) for kept in lock.pins]
    return list(dict.fromkeys(chosen))


def label(lock: Lock, pin: Pin) -> str:
    """Return the pin as people write it."""
    return f"{lock.name}@{pin.version}"


def partly(covers: Sequence[str], lang: str) -> str:
    """Say that only a part of the repository is meant."""
    return text("pins.partial", lang, covers=", ".join(covers))


def tell(line: str) -> None:
    """Say something beside the answer."""
    emit(line, sys.stderr)


def table(rows: Sequence[Sequence[str]], lang: str) -> str:
    """Lay rows out in columns for stdout."""
    return "\n".join(columns(rows, console_for(sys.stdout, lang).width, indent=""))


def pin_json(lock: Lock, pin: Pin) -> dict[str, Any]:
    """Return the fields of a pin, as `lock list` and `lock show` print them."""
    return {
        "repo": lock.name,
        "version": pin.version,
        "current": pin.version == lock.current,
        "commit": pin.commit,
        "tree": pin.tree,
        "requested": pin.requested,
        "ref": pin.ref,
        "partial": pin.partial,
        "covers": pin.covers,
        "archives": [
            {"kind": a.kind, "project": a.project, "file": a.file, "sha256": a.sha256}
            for a in pin.archives
        ],
        "url": lock.url,
    }
