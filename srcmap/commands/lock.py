"""`srcmap lock add|list|show|check`: what is pinned, pinning more, and whether tags stayed put."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import msgspec
import typer

from srcmap import i18n
from srcmap.commands.options import Lang  # noqa: TC001  # typer reads it at run time
from srcmap.commands.pinned import (
    PlainFormat,
    PlainFormatOption,
    label,
    partly,
    pin_json,
    project_and_locks,
    table,
    tell,
    wanted,
)
from srcmap.errors import CheckoutError, UsageError
from srcmap.i18n import text
from srcmap.lock import Pin, find_project, known_locks
from srcmap.render.as_json import document
from srcmap.render.console import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.checkout.remote import Resolved
    from srcmap.lock import Lock

_Pins = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(metavar="[REPO[@VERSION]]...", help="pins.help.pins", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the group `lock`."""
    group = typer.Typer(no_args_is_help=True, help="cli.about.lock")
    app.add_typer(group, name="lock")
    group.command("add", help="pins.help.add", epilog="pins.help.add-examples")(_add)

    @group.command("list", help="pins.help.list")
    def list_(format: PlainFormatOption = PlainFormat.text, lang: Lang = None) -> int:  # noqa: A002, ARG001
        return run_list(format=format.value, lang=i18n.language())

    @group.command("show", help="pins.help.show")
    def show(
        pins: _Pins = None,
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_show(pins or [], format=format.value, lang=i18n.language())

    @group.command("check", help="pins.help.check")
    def check(
        pins: _Pins = None,
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_check(pins or [], format=format.value, lang=i18n.language())


def _add(
    name: Annotated[str, typer.Argument(metavar="REPO", help="pins.help.repo")],
    ref: Annotated[str, typer.Argument(metavar="REF", help="pins.help.ref")],
    url: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--url", metavar="URL", help="pins.help.url", show_default=False),
    ] = None,
    version: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--as", metavar="LABEL", help="pins.help.version", show_default=False),
    ] = None,
    current: Annotated[bool, typer.Option("--current", help="pins.help.current")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="pins.help.replace")] = False,
    format: PlainFormatOption = PlainFormat.text,  # noqa: A002
    lang: Lang = None,  # noqa: ARG001
) -> int:
    return run_add(
        name,
        ref,
        url=url,
        version=version,
        current=current,
        replace=replace,
        format=format.value,
        lang=i18n.language(),
    )


# -- add -------------------------------------------------------------------------------------


def run_add(
    name: str,
    ref: str,
    *,
    url: str | None = None,
    version: str | None = None,
    current: bool = False,
    replace: bool = False,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Pin a tag, a branch or a commit; 1 when the label is taken by another commit."""
    from srcmap.checkout.remote import resolve

    start = start or Path.cwd()
    project = find_project(start) or start
    lock = next((lock for lock in known_locks(project) if lock.name == name), None)
    address = _address(name, url, lock, start)
    _check_label(name, "REPO")
    found = resolve(address, ref)
    pin = _new_pin(ref, found, version)
    if lock and (taken := lock.find(pin.version)) and taken.commit not in (None, pin.commit):
        if not replace:
            _say_taken(lock, taken, pin, format, lang)
            return 1
        pin = msgspec.structs.replace(pin, archives=())
    written = _written(project, name, address, lock, pin, current=current)
    if found.also:
        tell(text("pins.also", lang, ref=found.ref or ref, also=found.also))
    _say_added(written, pin.version, format, lang)
    return 0


def _address(name: str, url: str | None, lock: Lock | None, start: Path) -> str:
    from srcmap.lock.read import check_url

    if url is None:
        if lock is None:
            raise UsageError(
                f"no repository '{name}' is pinned yet",
                slug="no-such-pin",
                hint=f"say where it is: srcmap lock add {name} --url URL REF",
            )
        return lock.url
    if "://" not in url and not url.startswith("-") and (start / url).is_dir():
        url = str((start / url).resolve())
    if wrong := check_url(url):
        raise UsageError(f"--url '{url}': {wrong}", slug="source")
    if lock is not None and lock.url.rstrip("/") != url.rstrip("/"):
        raise UsageError(
            f"'{name}' is pinned from {lock.url}, not from {url}",
            slug="no-such-pin",
            hint="a fork needs a name of its own",
        )
    return url.rstrip("/") if "://" in url else url


def _check_label(value: str, called: str) -> None:
    from srcmap.lock.read import check_label

    if wrong := check_label(value):
        raise UsageError(f"{called}: {wrong}", slug="usage")


def _new_pin(asked: str, found: Resolved, version: str | None) -> Pin:
    """Label a tag by its name; a branch and a commit by the commit, because branches move."""
    tag = (found.ref or "").startswith("refs/tags/")
    fallback = asked.removeprefix("refs/tags/").replace("/", "-") if tag else found.commit[:7]
    chosen = version or fallback
    _check_label(chosen, "--as")
    return Pin(version=chosen, requested=asked, ref=found.ref, commit=found.commit)


def _written(
    project: Path, name: str, url: str, lock: Lock | None, pin: Pin, *, current: bool
) -> Lock:
    from srcmap.lock.write import add_pin, new_lock

    path = project / "vendor_locks" / f"{name}.toml"
    if lock is None:
        return new_lock(path, name=name, url=url, pin=pin)
    # A shipped lock is copied into the project, which from then on has the say about it.
    kept = lock.find(pin.version)
    if kept is not None and kept.commit == pin.commit and not current and lock.path == path:
        return lock
    if lock.path is None:
        raise UsageError(f"'{name}' is of no file", slug="lock-file")
    # Bytes and not text: the line ends of the file are to stay.
    before = lock.path.read_bytes().decode("utf-8")
    return add_pin(path, before, pin, current=current)


def _say_taken(lock: Lock, taken: Pin, pin: Pin, format: str, lang: str) -> None:  # noqa: A002
    if format == "json":
        moved = {"state": "moved", "pinned": taken.commit, "found": pin.commit}
        emit(document("srcmap-lock-add", {"repo": lock.name, "version": taken.version, **moved}))
        return
    name = label(lock, taken)
    emit(text("pins.taken", lang, name=name, pinned=taken.commit, found=pin.commit))
    tell(text("pins.taken-hint", lang))


def _say_added(lock: Lock, version: str, format: str, lang: str) -> None:  # noqa: A002
    pin = lock.find(version) or lock.current_pin
    if format == "json":
        emit(document("srcmap-lock-add", {"state": "pinned", **pin_json(lock, pin)}))
        return
    where = {"name": label(lock, pin), "commit": pin.commit, "path": lock.path}
    emit(text("pins.added", lang, **where))
    if pin.ref and pin.ref.startswith("refs/heads/"):
        tell(text("pins.branch", lang, ref=pin.requested))
    tell(text("pins.next-sync", lang, name=label(lock, pin)))


# -- list and show ---------------------------------------------------------------------------


def run_list(*, format: str = "text", lang: str = "en", start: Path | None = None) -> int:  # noqa: A002
    """Print every pin on one line; 3 when there is none."""
    _, locks = project_and_locks(start)
    pins = wanted(locks, [])
    if format == "json":
        emit(document("srcmap-lock-list", {"pins": [pin_json(*pair) for pair in pins]}))
    else:
        emit(table([_row(lock, pin, lang) for lock, pin in pins], lang))
    return 0 if pins else 3


def run_show(
    names: Sequence[str],
    *,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print all that is known of some pins."""
    _, locks = project_and_locks(start)
    pins = wanted(locks, names)
    if format == "json":
        emit(document("srcmap-lock-show", {"pins": [pin_json(*pair) for pair in pins]}))
    else:
        emit("\n\n".join(_details(lock, pin, lang) for lock, pin in pins))
    return 0 if pins else 3


def _row(lock: Lock, pin: Pin, lang: str) -> tuple[str, str, str]:
    commit = pin.commit or text("pins.no-commit", lang)
    return (label(lock, pin), commit, "; ".join(_remarks(lock, pin, lang)))


def _remarks(lock: Lock, pin: Pin, lang: str) -> list[str]:
    remarks = []
    if pin.version == lock.current:
        remarks.append(text("pins.current", lang))
    if pin.ref and pin.ref.startswith("refs/heads/"):
        remarks.append(text("pins.of-branch", lang, ref=pin.requested))
    if pin.partial:
        remarks.append(partly(pin.covers, lang))
    return remarks


def _details(lock: Lock, pin: Pin, lang: str) -> str:
    rows = [
        ("url", lock.url),
        ("licence", lock.licence or "-"),
        ("commit", pin.commit or text("pins.no-commit", lang)),
        ("tree", pin.tree or "-"),
        ("requested", pin.ref or pin.requested),
        *(("archive", f"{a.file} sha256:{a.sha256}") for a in pin.archives),
        ("lock", str(lock.path)),
    ]
    said = [(f"  {text(f'pins.field.{key}', lang)}", value) for key, value in rows]
    heading = [label(lock, pin), *_remarks(lock, pin, lang)]
    return "\n".join(["; ".join(heading), table(said, lang)])


# -- check -----------------------------------------------------------------------------------


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How one pin compares with its remote today."""

    repo: str
    version: str
    ref: str | None
    pinned: str | None
    found: str | None
    state: str
    """same, moved (a tag), ahead (a branch), gone, known-now, fixed (a commit), unreachable."""
    why: str = ""


_BAD = ("moved",)
_NOT_JUDGED = ("gone", "unreachable")


def run_check(
    names: Sequence[str],
    *,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Ask the remotes; 1 when a tag has moved, 3 when one could not be asked or has it no more."""
    _, locks = project_and_locks(start)
    pins = wanted(locks, names)
    found = [standing for lock in locks for standing in _standings(lock, pins)]
    if format == "json":
        emit(document("srcmap-lock-check", {"pins": [msgspec.to_builtins(s) for s in found]}))
    else:
        emit(table([_standing_row(standing, lang) for standing in found], lang))
    states = {standing.state for standing in found}
    if states & set(_BAD):
        return 1
    return 3 if not states or states & set(_NOT_JUDGED) else 0


def _standings(lock: Lock, pins: Sequence[tuple[Lock, Pin]]) -> list[Standing]:
    from srcmap.checkout.remote import remote_refs

    mine = [pin for owner, pin in pins if owner is lock]
    refs = [pin.ref for pin in mine if pin.ref]
    try:
        there = remote_refs(lock.url, refs) if refs else {}
    except CheckoutError as error:
        return [_standing(lock, pin, {}, error.message) for pin in mine]
    return [_standing(lock, pin, there, "") for pin in mine]


def _standing(lock: Lock, pin: Pin, there: dict[str, str], why: str) -> Standing:
    found = there.get(pin.ref or "")
    return Standing(
        repo=lock.name,
        version=pin.version,
        ref=pin.ref,
        pinned=pin.commit,
        found=found,
        state="unreachable" if why and pin.ref else _state(pin, found),
        why=why,
    )


def _state(pin: Pin, found: str | None) -> str:
    if pin.ref is None:
        return "fixed"
    if found is None:
        return "gone"
    if pin.commit is None:
        return "known-now"
    if found == pin.commit:
        return "same"
    return "ahead" if pin.ref.startswith("refs/heads/") else "moved"


def _standing_row(standing: Standing, lang: str) -> tuple[str, str]:
    name = f"{standing.repo}@{standing.version}"
    facts = {
        "name": name,
        "repo": standing.repo,
        "ref": standing.ref,
        "pinned": standing.pinned,
        "found": standing.found,
        "why": standing.why,
        "version": standing.version,
    }
    return name, text(f"pins.state.{standing.state}", lang, **facts)
