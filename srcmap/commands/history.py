"""`srcmap history VARIANT CONCEPT`: when these lines were introduced and changed, and by whom."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.names import known_concept, known_variant
from srcmap.commands.options import (  # typer reads them at run time
    Lang,  # noqa: TC001
    Pin,  # noqa: TC001
    Repo,  # noqa: TC001
)
from srcmap.commands.pinned import PlainFormat, PlainFormatOption
from srcmap.drift.past import life
from srcmap.drift.sources import open_clone
from srcmap.errors import CheckoutError
from srcmap.lock import find_project, known_locks
from srcmap.render.console import console_for, emit
from srcmap.render.layout import columns, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.checkout.objects import Objects
    from srcmap.drift.history import Step
    from srcmap.lock import Lock
    from srcmap.lock import Pin as PinType
    from srcmap.mapfile import Entry


def register(app: typer.Typer) -> None:
    """Add `srcmap history`."""

    @app.command("history", help="history.help", epilog="history.examples")
    def command(
        variant: Annotated[str, typer.Argument(metavar="VARIANT", help="variant.name")],
        concept: Annotated[str, typer.Argument(metavar="CONCEPT", help="show.concept")],
        pin: Pin = None,
        repo: Repo = None,
        history: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--history", metavar="CLONE", help="history.help.clone"),
        ] = None,
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(
            variant,
            concept,
            pin=pin,
            repo=repo,
            history=history,
            format=format.value,
            lang=i18n.language(),
        )


def run(
    variant: str,
    concept: str,
    *,
    pin: str | None = None,
    repo: str | None = None,
    history: str | None = None,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print the life of every place; 1 when there is no place, 3 when no clone tells."""
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    meant = known_variant(catalogue, variant, lang)
    thing = known_concept(catalogue, concept, lang)
    chosen = collect.pins_of(meant, known_locks(project), repo, pin, lang)
    lives: list[_Life] = []
    remarks: list[str] = []
    for lock, wanted in chosen:
        with open_clone(lock, history) as objects:
            if objects is None:
                remarks.append(i18n.text("history.no-clone", lang, url=lock.url, repo=lock.name))
                continue
            known = _known(lock, wanted, objects, fixed=pin is not None)
            if known is None:
                remarks.append(_lacks(lock, wanted, objects, lang))
                continue
            if known is not wanted:
                said = {"repo": lock.name, "pin": wanted.version, "other": known.version}
                remarks.append(i18n.text("history.other-pin", lang, **said))
            rows = collect.entries([(lock, known)], project, meant.id)
            places = [e for *_, es in rows for e in es if e.concept == thing.id and e.lines]
            lives += [_life(objects, lock, known, e) for e in sorted(places, key=collect.by_line)]
    _show(lives, remarks, format, lang)
    if lives:
        return 0
    return 3 if remarks else 1


class _Life(NamedTuple):
    """One place and what happened to it."""

    lock: Lock
    pin: PinType
    entry: Entry
    steps: list[Step]

    @property
    def told(self) -> list[Step]:
        """The steps that a reader wants to see."""
        return [step for step in self.steps if step.what != "moved"]


def _known(lock: Lock, wanted: PinType, objects: Objects, *, fixed: bool) -> PinType | None:
    """Give the pin, or the newest other one that the clone has, unless a pin was asked for."""
    others = [] if fixed else [p for p in reversed(lock.pins) if p is not wanted]
    for pin in (wanted, *others):
        if pin.commit is not None and objects.has(pin.commit):
            return pin
    return None


def _lacks(lock: Lock, pin: PinType, objects: Objects, lang: str) -> str:
    args = {"clone": objects.clone, "url": lock.url, "commit": pin.commit or pin.version}
    return i18n.text("history.lacks", lang, **args)


def _life(objects: Objects, lock: Lock, pin: PinType, entry: Entry) -> _Life:
    if pin.commit is None or entry.lines is None:
        raise CheckoutError(f"{lock.name}@{pin.version} has no commit", slug="source")
    commits = objects.file_history(pin.commit, entry.path)
    steps = life(commits, entry.path, entry.lines)
    return _Life(lock, pin, entry, steps)


# -- telling --------------------------------------------------------------------------------


def _show(lives: Sequence[_Life], remarks: Sequence[str], format: str, lang: str) -> None:  # noqa: A002
    if format == "json":
        from srcmap.render.as_json import document

        content = {"places": [_plain(one, lang) for one in lives], "notes": list(remarks)}
        emit(document("srcmap-history", content))
        return
    width = console_for(sys.stdout, lang).width
    parts = []
    for one in lives:
        entry = one.entry
        name = f"{one.lock.name} {one.pin.version}  {entry.path}:{entry.lines}  {entry.site}"
        rows = [_row(step, lang) for step in one.told]
        moved = i18n.text("history.moved", lang, count=len(one.steps) - len(one.told))
        parts.append("\n".join([visible(name.strip()), *columns(rows, width), f"  {moved}"]))
    if not lives and not remarks:
        parts.append(i18n.text("history.no-place", lang))
    emit("\n\n".join([*parts, *remarks]))


def _row(step: Step, lang: str) -> tuple[str, ...]:
    pull = f"#{step.pull}" if step.pull else ""
    what = i18n.text(f"history.what.{step.what}", lang)
    place = str(step.lines) if step.lines else ""
    return (step.commit.date[:10], step.commit.id[:10], pull, what, place,
            visible(step.commit.subject))  # fmt: skip


def _plain(one: _Life, lang: str) -> dict[str, Any]:
    entry = one.entry
    return {
        "variant": entry.variant,
        "concept": entry.concept,
        "site": entry.site,
        "repo": one.lock.name,
        "pin": one.pin.version,
        "commit": one.pin.commit,
        "path": entry.path,
        "lines": entry.lines,
        "steps": [
            {
                "commit": step.commit.id,
                "date": step.commit.date,
                "pull_request": int(step.pull) if step.pull else None,
                "subject": step.commit.subject,
                "what": step.what,
                "text": i18n.text(f"history.what.{step.what}", lang),
                "path": step.path,
                "lines": step.lines,
            }
            for step in one.steps
        ],
    }
