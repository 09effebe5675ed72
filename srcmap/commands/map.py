"""`srcmap map build|check|show`: derive the maps of the pins, compare them, print one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from srcmap import i18n
from srcmap.catalogue import COMPILED, load_catalogue
from srcmap.commands.options import Lang  # noqa: TC001  # typer reads it at run time
from srcmap.commands.pinned import PlainFormat, PlainFormatOption, label, tell, wanted
from srcmap.errors import SrcmapError
from srcmap.lock import find_project, known_locks, pick, shipped_locks
from srcmap.render.console import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.catalogue import Catalogue, Evidence, Remark, Variant
    from srcmap.checkout import Checkout
    from srcmap.lock import Lock, Pin
    from srcmap.mapfile import Change, Entry, SourceMap
    from srcmap.model import Note

_Pins = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Argument(metavar="[REPO[@VERSION]]...", help="maps.help.pins", show_default=False),
]
_Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", metavar="FOLDER", help="maps.help.out", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the group `map`."""
    group = typer.Typer(no_args_is_help=True, help="cli.about.map")
    app.add_typer(group, name="map")

    @group.command("build", help="maps.help.build")
    def build(pins: _Pins = None, out: _Out = None, lang: Lang = None) -> int:  # noqa: ARG001
        return run_build(pins or [], out=out, lang=i18n.language())

    @group.command("check", help="maps.help.check")
    def check(pins: _Pins = None, lang: Lang = None) -> int:  # noqa: ARG001
        return run_check(pins or [], lang=i18n.language())

    @group.command("show", help="maps.help.show")
    def show(
        pin: Annotated[str, typer.Option("--pin", metavar="REPO@VERSION", help="maps.help.pin")],
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_show(pin, format=format.value, lang=i18n.language())


# -- build ----------------------------------------------------------------------------------


def run_build(
    pins: Sequence[str], *, out: Path | None = None, lang: str = "en", start: Path | None = None
) -> int:
    """Build and write the maps of `pins`, or of every pin that is here.

    1 when something named was not here or could not be read; 3 when nothing could be built.
    """
    from srcmap.mapfile import file_name

    say = _Voice(lang)
    project = find_project(start or Path.cwd())
    if _is_srcmap(project):
        _renew_catalogue()
    catalogue = load_catalogue(project)
    built = [
        _built(catalogue, lock, pin, project, say)
        for lock, pin in wanted(known_locks(project), pins)
    ]
    maps = [m for m in built if m is not None]
    for source_map in maps:
        path = _folder(project, out, source_map) / file_name(source_map.repo, source_map.pin)
        _write(path, source_map)
        say.summary(source_map, path)
    if not maps:
        say.aside("maps.nothing-built")
        return 3
    left_out = len(built) - len(maps)
    unread = sum(m.counts["files_unread"] for m in maps)
    return 1 if unread or (pins and left_out) else 0


def run_check(pins: Sequence[str], *, lang: str = "en", start: Path | None = None) -> int:
    """Rebuild and compare. 1: a map differs; 3: a named pin, or every pin, is not here."""
    say = _Voice(lang)
    project = find_project(start or Path.cwd())
    stale = _is_srcmap(project) and _stale_catalogue(say)
    catalogue = load_catalogue(project)
    results = [
        _checked(catalogue, lock, pin, project, say)
        for lock, pin in wanted(known_locks(project), pins)
    ]
    if stale or any(result is False for result in results):
        return 1
    judged = [result for result in results if result is not None]
    return 0 if judged and (not pins or len(judged) == len(results)) else 3


def _checked(
    catalogue: Catalogue, lock: Lock, pin: Pin, project: Path | None, say: _Voice
) -> bool | None:
    """Whether the map of this pin is what a build gives; None when that cannot be said."""
    from srcmap.evidence import gone
    from srcmap.mapping import compare, find_map

    kept = find_map(lock.name, pin.version, project)
    if kept is None:
        say.aside("maps.no-map", name=label(lock, pin))
        return None
    fresh = _built(catalogue, lock, pin, project, say)
    if fresh is None:
        return None
    changes = compare(kept, fresh)
    name = label(lock, pin)
    if not changes:
        say.line("maps.same", name=name, entries=len(fresh.entries))
    else:
        say.line("maps.differs", name=name, changes=len(changes))
        for change in changes:
            say.change(change)
    unproven = list(gone(catalogue, fresh))
    for variant, remark, evidence in unproven:
        say.unproven(name, variant, remark, evidence)
    return not changes and not unproven


def _stale_catalogue(say: _Voice) -> bool:
    """Whether the compiled catalogue lags behind the TOML files; only a clone can tell."""
    from srcmap.variantfile import compile_shipped

    if COMPILED.read_bytes() == compile_shipped():
        return False
    say.line("maps.catalogue-stale")
    return True


def _renew_catalogue() -> None:
    """Let the JSON follow the TOML files, which only a clone has reason to edit."""
    from srcmap.variantfile import compile_shipped

    data = compile_shipped()
    if not COMPILED.is_file() or COMPILED.read_bytes() != data:
        COMPILED.write_bytes(data)


def _is_srcmap(project: Path | None) -> bool:
    """Whether the project is srcmap's own clone: there the shipped files are made."""
    clone = Path(__file__).parents[2]
    return (
        project is not None
        and (clone / "pyproject.toml").is_file()
        and project.resolve() == clone.resolve()
    )


def _built(
    catalogue: Catalogue, lock: Lock, pin: Pin, project: Path | None, say: _Voice
) -> SourceMap | None:
    from srcmap.checkout import find_checkout
    from srcmap.mapping import build_map, default_workers

    checkout: Checkout | None = find_checkout(lock, pin, project)
    if checkout is None:
        say.aside("maps.no-checkout", name=label(lock, pin))
        return None
    return build_map(catalogue, checkout, workers=default_workers())


def _folder(project: Path | None, out: Path | None, source_map: SourceMap) -> Path:
    """Shipped maps are written in srcmap's own clone; everybody else's go to the project."""
    from srcmap.mapfile import project_folder, shipped_folder

    if out is not None:
        return out
    shipped = {(lock.name, p.version) for lock in shipped_locks() for p in lock.pins}
    if _is_srcmap(project) and (source_map.repo, source_map.pin) in shipped:
        return shipped_folder()
    return project_folder(project or Path.cwd())


def _write(path: Path, source_map: SourceMap) -> None:
    from srcmap.mapping import encode

    beside = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(encode(source_map))
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # the folder itself may be a file
            beside.unlink(missing_ok=True)
        message = f"{path}: cannot be written: {error.strerror}"
        raise SrcmapError(message, slug="map-file") from error


# -- show -----------------------------------------------------------------------------------


def run_show(
    pin: str,
    *,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print the map of one pin. SrcmapError when there is none."""
    from srcmap.mapfile import encode, find_map

    project = find_project(start or Path.cwd())
    lock, chosen = pick(known_locks(project), pin)
    found = find_map(lock.name, chosen.version, project)
    if found is None:
        name = label(lock, chosen)
        hint = f"srcmap sync {name}, then srcmap map build {name}"
        raise SrcmapError(f"no map of {name} is kept", slug="map-file", hint=hint)
    if format == "json":
        emit(encode(found).decode("utf-8"))
    else:
        _Voice(lang).map(found)
    return 0


class _Voice:
    """What these commands print, in the reader's language."""

    def __init__(self, lang: str) -> None:
        self._lang = lang

    def line(self, key: str, **args: object) -> None:
        emit(i18n.text(key, self._lang, **args))

    def aside(self, key: str, **args: object) -> None:
        tell(i18n.text(key, self._lang, **args))

    def summary(self, source_map: SourceMap, path: Path) -> None:
        name = f"{source_map.repo}@{source_map.pin}"
        self.line("maps.built", name=name, path=_short(path), **source_map.counts)
        self._problems(source_map.problems)

    def map(self, source_map: SourceMap) -> None:
        name = f"{source_map.repo}@{source_map.pin}"
        self.line("maps.title", name=name, commit=source_map.commit or "-", **source_map.counts)
        if source_map.partial:
            self.line("maps.is-partial")
        self._problems(source_map.problems)
        emit("\n".join(map(self._entry, source_map.entries)))

    def change(self, change: Change) -> None:
        mark = {"added": "+", "gone": "-", "changed": "~"}[change.kind]
        entry = change.after or change.before
        if entry is not None:
            emit(f"  {mark} {self._entry(entry)}{self._difference(change)}")

    def unproven(self, name: str, variant: Variant, remark: Remark, evidence: Evidence) -> None:
        self.line(
            "maps.unproven",
            name=name,
            variant=variant.id,
            concept=evidence.concept,
            where=evidence.variant or variant.id,
            note=remark.text.in_language(self._lang),
        )

    def _difference(self, change: Change) -> str:
        if change.before is None or change.after is None:
            return ""
        parts = []
        for name in change.fields:
            if name in {"lines", "status", "site", "qualname", "confidence", "detail"}:
                before, after = getattr(change.before, name), getattr(change.after, name)
                parts.append(f"{name} {before} -> {after}")
            else:
                parts.append(name)
        return f"  ({', '.join(parts)})"

    def _entry(self, entry: Entry) -> str:
        label = f"{entry.concept} {entry.site}".rstrip()
        where = f"{entry.path}:{entry.lines}" if entry.lines else entry.path
        reason = f"  {i18n.say(entry.reason, self._lang)}" if entry.reason else ""
        status = "" if entry.status == "found" else f"  [{entry.status}]"
        return f"{entry.variant}  {label}  {where}{status}{reason}"

    def _problems(self, problems: Iterable[Note]) -> None:
        for note in problems:
            sentence = i18n.say(note, self._lang)
            path = note.args.get("path", "")
            told = path and path not in sentence
            emit(f"  {path}: {sentence}" if told else f"  {sentence}")


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
