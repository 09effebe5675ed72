"""`srcmap bump REPO NEW`: a new version pinned, mapped, compared; with `--write`, carried over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import carrying, drifting
from srcmap.commands.drift import FAILING, DriftFormat, FormatOption, rendered, verdicts
from srcmap.commands.options import Lang  # noqa: TC001  # typer reads it at run time
from srcmap.commands.pinned import tell
from srcmap.drift import transaction
from srcmap.drift.report import Question, report
from srcmap.drift.sources import Sources
from srcmap.errors import UsageError
from srcmap.lock import Pin, find_project, known_locks, pick
from srcmap.mapfile import cited_blobs, encode, file_name, project_folder
from srcmap.render.console import emit

if TYPE_CHECKING:
    from srcmap.checkout import Checkout
    from srcmap.commands.carrying import Cited, Written
    from srcmap.drift.nouns import Report
    from srcmap.lock import Lock
    from srcmap.mapfile import SourceMap


def register(app: typer.Typer) -> None:
    """Add `srcmap bump`."""

    @app.command("bump", help="bump.help", epilog="bump.examples")
    def command(
        repo: Annotated[str, typer.Argument(metavar="REPO", help="drift.help.repo")],
        new: Annotated[str, typer.Argument(metavar="NEW", help="bump.help.new")],
        write: Annotated[bool, typer.Option("--write", help="bump.help.write")] = False,
        version: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--as", metavar="LABEL", help="pins.help.version"),
        ] = None,
        docs: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Option("--docs", metavar="FILE", help="bump.help.docs"),
        ] = None,
        source: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--from", metavar="PATH|URL", help="pins.help.from"),
        ] = None,
        history: Annotated[
            Optional[str],  # noqa: UP045
            typer.Option("--history", metavar="CLONE", help="drift.help.history"),
        ] = None,
        report_to: Annotated[
            Optional[Path],  # noqa: UP045
            typer.Option("--report", metavar="FILE", help="bump.help.report"),
        ] = None,
        fail_on: Annotated[
            str, typer.Option("--fail-on", metavar="VERDICTS", help="drift.help.fail-on")
        ] = FAILING,
        everything: Annotated[bool, typer.Option("--all", help="drift.help.all")] = False,
        format: FormatOption = DriftFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        wishes = Wishes(write, version, tuple(docs or ()), source, history, report_to)
        return run(
            repo,
            new,
            wishes,
            fail_on=fail_on,
            everything=everything,
            format=format.value,
            lang=i18n.language(),
        )


class Wishes(NamedTuple):
    """How to bump."""

    write: bool = False
    version: str | None = None
    docs: tuple[str, ...] = ()
    source: str | None = None
    history: str | None = None
    report_to: Path | None = None


class _Bump(NamedTuple):
    """What was found out, before anything is written."""

    lock: Lock
    old: Pin
    new: Pin
    checkout: Checkout
    found: Report
    after: SourceMap
    cited: tuple[Cited, ...]


def run(
    repo: str,
    new: str,
    wishes: Wishes = Wishes(),  # noqa: B008 - a value, and frozen
    *,
    fail_on: str = FAILING,
    everything: bool = False,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Bump, print the drift and give its exit code. Everything is written at once, or nothing is.

    Without `write` the pin is added and its map is kept, and the old pin stays the current one.
    """
    failing = verdicts(fail_on)
    project = find_project(start or Path.cwd()) or (start or Path.cwd())
    with transaction.alone(project):
        _tell_recovered(transaction.recover(project), lang)
        bump = _worked_out(repo, new, wishes, project, lang)
        if bump is None:
            return 0
        emit(rendered(bump.found, failing, format, lang, everything=everything))
        _write(bump, wishes, project, failing, lang)
    return drifting.code(bump.found, failing)


def _tell_recovered(what: str, lang: str) -> None:
    if what:
        tell(i18n.text(f"bump.{what}", lang))


def _worked_out(repo: str, new: str, wishes: Wishes, project: Path, lang: str) -> _Bump | None:
    from srcmap.checkout import sync
    from srcmap.drift.maps import map_of
    from srcmap.drift.sides import CheckoutSide

    catalogue = load_catalogue(project)
    lock, old = pick(known_locks(project), repo)
    pin = _pin(lock, new, wishes.version)
    if pin.version == old.version and pin.commit == old.commit:
        tell(i18n.text("bump.nothing", lang, name=f"{lock.name}@{old.version}"))
        return None
    widened = carrying.as_current(lock, pin)
    cited_files = cited_blobs(lock.name, pin.version)
    checkout = sync(widened, pin, project, source=wishes.source, cited=cited_files)
    cited = _citations(wishes, lock, old, project, lang)
    after = map_of(catalogue, widened, pin, CheckoutSide(checkout))
    with Sources(widened, project, wishes.history) as sources:
        before, fresh = sources.find(old.version), sources.find(pin.version)
        question = Question(
            entries=True, citations=tuple((one.place, one.spot) for one in cited), after=after
        )
        found = report(widened, before, fresh, sources, catalogue, project, question)
    return _Bump(lock, old, pin, checkout, found, after, cited)


def _pin(lock: Lock, asked: str, label: str | None) -> Pin:
    """Give the pin that is kept under this name, else a new one for what the remote has."""
    from srcmap.checkout.remote import resolve
    from srcmap.lock.read import check_label

    kept = lock.find(asked) or lock.find(f"v{asked}")
    if kept is not None:
        return kept
    found = resolve(lock.url, asked)
    tag = (found.ref or "").startswith("refs/tags/")
    name = asked.removeprefix("refs/tags/").replace("/", "-")
    version = label or (name if tag else found.commit[:7])
    if wrong := check_label(version):
        raise UsageError(f"--as: {wrong}", slug="usage")
    taken = lock.find(version)
    if taken is not None and taken.commit != found.commit:
        raise UsageError(
            f"{lock.name}@{version} is pinned to {taken.commit}, '{asked}' is {found.commit} now",
            slug="bump",
            hint="a tag that moved is another version: --as LABEL gives it its own name",
        )
    return taken or Pin(version=version, requested=asked, ref=found.ref, commit=found.commit)


def _citations(wishes: Wishes, lock: Lock, old: Pin, project: Path, lang: str) -> tuple[Cited, ...]:
    from srcmap.checkout import find_checkout

    if not carrying.has_documents(wishes.docs, project):
        return ()
    if find_checkout(lock, old, project) is None:
        name = f"{lock.name}@{old.version}"
        tell(i18n.text("bump.no-old", lang, name=name))
        return ()
    return tuple(carrying.citations(wishes.docs, lock, old, project))


# -- writing --------------------------------------------------------------------------------


def _write(bump: _Bump, wishes: Wishes, project: Path, failing: frozenset[str], lang: str) -> None:
    path = project / "vendor_locks" / f"{bump.lock.name}.toml"
    text = (bump.lock.path or path).read_bytes().decode("utf-8")
    lock_data = carrying.planned_lock(text, path, bump.new, current=wishes.write)
    map_path = project_folder(project) / file_name(bump.lock.name, bump.new.version)
    files = {path: lock_data, map_path: encode(bump.after)}
    before: dict[Path, bytes | None] = {
        path: path.read_bytes() if path.exists() else None,
        map_path: map_path.read_bytes() if map_path.exists() else None,
    }
    if not wishes.write:
        transaction.commit(project, files, before)
        name = f"{bump.lock.name} {bump.new.version}"
        tell(i18n.text("bump.not-written", lang, name=name))
        return
    planned = dict(files)
    written = carrying.carried(bump.cited, bump.found, bump.new)
    files |= written.files
    before |= written.before
    files |= _records(bump, written)
    if carrying.has_documents(wishes.docs, project):
        files |= carrying.injected_documents(wishes.docs, written.files, project, lang, planned)
    report_name = f"srcmap-bump-{bump.lock.name}-{bump.new.version}.md"
    report_path = wishes.report_to or project / report_name
    markdown = rendered(bump.found, failing, "markdown", lang)
    files[report_path] = f"{markdown}\n\n{_carried(bump, written, lang)}\n".encode()
    transaction.commit(project, files, before)
    tell(_carried(bump, written, lang))
    tell(i18n.text("bump.written", lang, path=report_path))


def _records(bump: _Bump, written: Written) -> dict[Path, bytes]:
    from srcmap.parse.python import decode
    from srcmap.parse.spans import git_lines

    def lines(path: str) -> list[str]:
        return git_lines(decode(bump.checkout.read(path))[0])

    return carrying.renewed_records(bump.cited, bump.found, bump.new, bump.lock, written, lines)


def _carried(bump: _Bump, written: Written, lang: str) -> str:
    """Say how many citations were carried, and list those that were not."""
    named = [one for one in written.left if one.names_a_version]
    plain = [one for one in written.left if not one.names_a_version]
    args = {"carried": written.carried, "old": bump.old.version, "new": bump.new.version}
    rows = [i18n.text("bump.carried", lang, **args)]
    for key, places in (("bump.left", named), ("bump.left-plain", plain)):
        if places:
            rows.append(i18n.text(key, lang, count=len(places), **args))
            rows += [f"- {one.place} `{one.spot}`" for one in places]
    return "\n".join(rows)
