"""`srcmap sync [REPO[@VERSION]...]`: bring pins here, verified; `--check` compares, offline."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Optional

import msgspec
import typer

from srcmap import i18n
from srcmap.commands.options import Lang  # noqa: TC001  # typer reads it at run time
from srcmap.commands.pinned import (
    PlainFormat,
    PlainFormatOption,
    label,
    partly,
    project_and_locks,
    tell,
)
from srcmap.errors import CheckoutError, UsageError
from srcmap.i18n import say, text
from srcmap.lock import pick
from srcmap.render.as_json import document
from srcmap.render.console import emit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from srcmap.checkout import Checkout
    from srcmap.checkout.check import Differences
    from srcmap.lock import Lock, Pin
    from srcmap.model import Note


def register(app: typer.Typer) -> None:
    """Add `srcmap sync`."""

    @app.command("sync", help="pins.help.sync", epilog="pins.help.sync-examples")
    def command(
        pins: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Argument(metavar="[REPO[@VERSION]]...", help="pins.help.sync-pins"),
        ] = None,
        every: Annotated[bool, typer.Option("--all", help="pins.help.all")] = False,
        source: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--from", metavar="PATH|URL", help="pins.help.from", show_default=False),
        ] = None,
        check: Annotated[bool, typer.Option("--check", help="pins.help.sync-check")] = False,
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(
            pins or [],
            every=every,
            source=source,
            check=check,
            format=format.value,
            lang=i18n.language(),
        )


def run(
    names: Sequence[str],
    *,
    every: bool = False,
    source: str | None = None,
    check: bool = False,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Bring the pins (the current ones when none is named); 3 when one could not be brought."""
    project, locks = project_and_locks(start)
    if every and names:
        raise UsageError("--all and the name of a pin were both given", slug="usage")
    pins = [pick(locks, name) for name in names]
    if not names:
        pins = [(k, p) for k in locks for p in k.pins if every or p.version == k.current]
        if check and not every:
            pins = _here(locks, project)
    if check:
        return _run_check(pins, project, format, lang)
    if source and len(pins) != 1:
        raise UsageError("--from brings one pin: name it", slug="usage")
    return _run_sync(pins, project, source, format, lang)


# -- bringing --------------------------------------------------------------------------------


def _run_sync(
    pins: Sequence[tuple[Lock, Pin]],
    project: Path | None,
    source: str | None,
    format: str,  # noqa: A002
    lang: str,
) -> int:
    from srcmap.checkout.bring import sync

    rows: list[dict[str, Any]] = []
    failures: list[CheckoutError] = []
    for lock, pin in pins:
        progress = _progress(lang)
        try:
            arrival = sync(lock, pin, project, progress, source, _cited(lock, pin))
        except CheckoutError as error:
            failures.append(error)
            rows.append({"pin": label(lock, pin), "state": "failed", "why": error.message})
            if len(pins) > 1:
                progress.close()
                tell(text("pins.failed", lang, name=label(lock, pin), why=error.message))
            continue
        finally:
            progress.close()
        rows.append(_arrival_json(arrival.checkout, fresh=arrival.fresh))
        if format == "text":
            emit(_arrival_line(arrival.checkout, fresh=arrival.fresh, lang=lang))
    if format == "json":
        emit(document("srcmap-sync", {"pins": rows}))
    if failures:
        raise failures[-1] if len(pins) == 1 else _several(failures, len(pins))
    return 0 if pins else 3


def _several(failures: Sequence[CheckoutError], total: int) -> CheckoutError:
    return CheckoutError(
        f"{len(failures)} of {total} pins could not be brought",
        slug=failures[-1].slug,
        hint=failures[-1].hint,
    )


def _cited(lock: Lock, pin: Pin) -> dict[str, str]:
    """Blob ids that the shipped map of this very commit relies on."""
    from srcmap.mapfile import cited_blobs, shipped_map

    source_map = shipped_map(lock.name, pin.version)
    if source_map is None or source_map.commit != pin.commit:
        return {}
    return cited_blobs(lock.name, pin.version)


def _arrival_line(checkout: Checkout, *, fresh: bool, lang: str) -> str:
    facts = {
        "name": label(checkout.lock, checkout.pin),
        "path": str(checkout.root),
        "files": str(len(checkout.manifest.entries)),
        "source": checkout.manifest.source,
    }
    line = text("pins.synced" if fresh else "pins.already", lang, **facts)
    if checkout.partial:
        line += f"\n  {partly(checkout.manifest.covers, lang)}"
    return line


def _arrival_json(checkout: Checkout, *, fresh: bool) -> dict[str, Any]:
    manifest = checkout.manifest
    return {
        "pin": label(checkout.lock, checkout.pin),
        "state": "synced" if fresh else "already",
        "path": str(checkout.root),
        "source": manifest.source,
        "commit": manifest.commit,
        "tree": manifest.tree,
        "partial": manifest.partial,
        "covers": manifest.covers,
        "left_out": manifest.left_out,
        "files": len(manifest.entries),
    }


# -- checking --------------------------------------------------------------------------------


def _here(locks: Sequence[Lock], project: Path | None) -> list[tuple[Lock, Pin]]:
    from srcmap.checkout import find_checkout

    return [(k, p) for k in locks for p in k.pins if find_checkout(k, p, project)]


def _run_check(
    pins: Sequence[tuple[Lock, Pin]],
    project: Path | None,
    format: str,  # noqa: A002
    lang: str,
) -> int:
    """Return 1 when a tree is not as it was put there, 3 when there was nothing to compare."""
    from srcmap.checkout import find_checkout
    from srcmap.checkout.check import check_checkout

    rows: list[dict[str, Any]] = []
    for lock, pin in pins:
        checkout = find_checkout(lock, pin, project)
        found = check_checkout(checkout) if checkout else None
        facts = msgspec.to_builtins(found) if found else {}
        rows.append({"pin": label(lock, pin), "state": _state(found), **facts})
        if format == "text":
            emit(_check_lines(label(lock, pin), checkout, found, lang))
    if format == "json":
        emit(document("srcmap-sync-check", {"pins": rows}))
    states = {row["state"] for row in rows}
    if not rows:
        tell(text("pins.nothing-here", lang))
    return 1 if "changed" in states else 0 if states == {"good"} else 3


def _state(found: Differences | None) -> str:
    if found is None:
        return "not-here"
    if found.edited or found.missing or found.extra:
        return "changed"
    return "unreadable" if found.unreadable else "good"


def _check_lines(name: str, checkout: Checkout | None, found: Differences | None, lang: str) -> str:
    if checkout is None or found is None:
        return text("pins.not-here", lang, name=name)
    counts = {"name": name, "files": found.checked, "changes": len(found.changes)}
    lines = [text("pins.check.good" if not found.changes else "pins.check.changed", lang, **counts)]
    for state in ("edited", "missing", "extra", "unreadable"):
        word = text(f"pins.check.{state}", lang)
        lines += [f"  {word} {_shown(checkout.root / path)}" for path in getattr(found, state)]
    if checkout.partial:
        lines.append(f"  {partly(checkout.manifest.covers, lang)}")
    return "\n".join(lines)


def _shown(path: Path) -> str:
    """Return a path that any terminal can take, whatever bytes its name has."""
    return str(path).encode("utf-8", "backslashreplace").decode().translate(_CONTROLS)


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


# -- progress --------------------------------------------------------------------------------


class _Quiet:
    """For pipes and logs: only what a person must know."""

    def __init__(self, lang: str) -> None:
        self._lang = lang

    def step(self, what: str, subject: str) -> None:
        pass

    def advance_to(self, share: float) -> None:
        pass

    def tell(self, note: Note) -> None:
        tell(say(note, self._lang))

    def close(self) -> None:
        pass


class _Bar(_Quiet):
    """For terminals: one line on stderr that is written over as things go on."""

    _WIDTH = 24
    _EVERY = 0.08
    """Seconds between two drawings; more often would only flicker."""

    def __init__(self, lang: str) -> None:
        super().__init__(lang)
        self._words = ""
        self._drawn = 0.0

    def step(self, what: str, subject: str) -> None:
        self._words = text(f"pins.step.{what}", self._lang, subject=subject)
        self._draw(0.0)

    def advance_to(self, share: float) -> None:
        if time.monotonic() - self._drawn > self._EVERY:
            self._draw(share)

    def tell(self, note: Note) -> None:
        self.close()
        super().tell(note)

    def close(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    def _draw(self, share: float) -> None:
        self._drawn = time.monotonic()
        full = round(share * self._WIDTH)
        bar = "#" * full + "-" * (self._WIDTH - full)
        sys.stderr.write(f"\r\x1b[K[{bar}] {share:4.0%} {self._words}")
        sys.stderr.flush()


def _progress(lang: str) -> _Quiet:
    return _Bar(lang) if sys.stderr.isatty() else _Quiet(lang)
