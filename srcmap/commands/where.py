"""`srcmap where PATH[:LINE[-LINE]]`: which variants and concepts these lines belong to."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect
from srcmap.commands.options import Format, FormatOption, Lang, Pin, Repo
from srcmap.errors import UsageError
from srcmap.lock import find_project, known_locks
from srcmap.model import Lines
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.interface import Belonging, WherePage
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.catalogue import Catalogue
    from srcmap.lock import Lock
    from srcmap.mapfile import Entry

# `path`, `path:12`, `path:12-30` with any dash, `path#L12-L30` as a host writes it.
_PLACE = re.compile(
    r"(?P<path>.+?)(?:(?::|#L|:L)(?P<first>\d+)(?:[-\u2013](?:L)?(?P<last>\d+))?)?\Z", re.DOTALL
)
_VENDORED = re.compile(r"(?:.*/)?_vendor/(?P<pin>[^/]+)/(?P<path>.+)\Z", re.DOTALL)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked: a path of a repository, the lines, and the pins that it may mean."""

    path: str
    lines: Lines | None
    pins: tuple[collect.Pinned, ...] = ()


def register(app: typer.Typer) -> None:
    """Add `srcmap where`."""

    @app.command("where", help="where.help", epilog="where.examples")
    def command(
        place: Annotated[str, typer.Argument(metavar="PATH[:LINE[-LINE]]", help="where.place")],
        pin: Pin = None,
        repo: Repo = None,
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(place, pin=pin, repo=repo, format=format.value, lang=i18n.language())


def run(
    place: str,
    *,
    pin: str | None = None,
    repo: str | None = None,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print what the lines belong to; 1 when nothing there is mapped."""
    start = start or Path.cwd()
    project = find_project(start)
    asked = read_place(place, known_locks(project), start, repo, pin, lang)
    found = collect.entries(asked.pins, project)
    path = known_path(asked.path, found, lang)
    hits = [(lock, p, [e for e in rows if _hit(e, path, asked.lines)]) for lock, p, rows in found]
    if format == "json":
        query = {"path": path, "lines": asked.lines}
        emit(
            document("srcmap-where", {"asked": query, "entries": collect.json_entries(hits, lang)})
        )
    else:
        shown = msgspec.structs.replace(asked, path=path)
        write("where", assemble(shown, load_catalogue(project), hits, lang), format, lang)
    return 0 if any(rows for *_, rows in hits) else 1


def read_place(
    place: str,
    locks: Sequence[Lock],
    start: Path,
    repo: str | None = None,
    version: str | None = None,
    lang: str = "en",
) -> Asked:
    """Read what a user typed or pasted. UsageError for lines that cannot be."""
    match = _PLACE.match(place)
    if match is None:
        raise UsageError(i18n.text("where.no-place", lang, place=place), slug="no-such-place")
    lines = _lines(match["first"], match["last"], lang)
    path = match["path"].replace("\\", "/")
    pinned = _vendored(path, locks, start)
    if pinned is not None:
        path, pin = pinned
        return Asked(path=path, lines=lines, pins=(pin,))
    pins = tuple(collect.chosen_pins(locks, repo, version))
    return Asked(path=path.removeprefix("./"), lines=lines, pins=pins)


def _lines(first: str | None, last: str | None, lang: str) -> Lines | None:
    if first is None:
        return None
    found = Lines(int(first), int(last or first))
    if found.first < 1 or found.last < found.first:
        raise UsageError(i18n.text("where.bad-lines", lang, lines=found), slug="no-such-place")
    return found


def _vendored(path: str, locks: Sequence[Lock], start: Path) -> tuple[str, collect.Pinned] | None:
    """Read `_vendor/<repo>-<version>/path` and absolute paths into a checkout, wherever it is."""
    full = path if path.startswith("/") else str(PurePosixPath(start.as_posix()) / path)
    for candidate in (path, full):
        match = _VENDORED.match(candidate)
        folder, rest = (match["pin"], match["path"]) if match else ("", "")
        for lock in locks:
            for pin in lock.pins:
                if folder == f"{lock.name}-{pin.version}":
                    return rest, (lock, pin)
                # The user's cache folder holds checkouts under the same names.
                inside = f"/{lock.name}-{pin.version}/"
                if not match and inside in candidate and candidate.startswith("/"):
                    return candidate.split(inside, 1)[1], (lock, pin)
    return None


def known_path(path: str, found: Sequence[collect.PinEntries], lang: str) -> str:
    """Return the mapped path that is meant: the path itself, or the only one that ends so."""
    known = sorted({entry.path for *_, rows in found for entry in rows})
    if path in known:
        return path
    tail = path.rstrip("/").lstrip("/")
    ending = [k for k in known if k.endswith(f"/{tail}")]
    # A path from elsewhere (a clone, a build folder) may have the mapped path at its end.
    ending = ending or [k for k in known if f"/{path}".endswith(f"/{k}")]
    if len(ending) == 1:
        return ending[0]
    if ending:
        hint = "\n  ".join(["", *ending])
        message = i18n.text("where.several", lang, path=path, count=len(ending))
        raise UsageError(message, slug="no-such-place", hint=i18n.text("where.one-of", lang) + hint)
    raise UsageError(
        i18n.text("where.unmapped", lang, path=path),
        slug="no-such-place",
        hint=_near_paths(tail, known, lang),
    )


def _near_paths(path: str, known: Sequence[str], lang: str) -> str:
    from difflib import get_close_matches

    names = {PurePosixPath(k).name: k for k in known}
    near = get_close_matches(PurePosixPath(path).name, names, n=3, cutoff=0.6)
    if near:
        return i18n.text("variant.near", lang, near=", ".join(names[n] for n in near))
    return i18n.text("where.try-anatomy", lang, path=path)


def _hit(entry: Entry, path: str, lines: Lines | None) -> bool:
    if entry.path != path or entry.status != "found" or entry.lines is None:
        return False
    return lines is None or (entry.lines.first <= lines.last and lines.first <= entry.lines.last)


def assemble(
    asked: Asked, catalogue: Catalogue, hits: Sequence[collect.PinEntries], lang: str
) -> WherePage:
    """Return the page: per pin, each place once, with all variants that claim it."""
    groups = []
    remarks: list[str] = []
    for lock, pin, rows in hits:
        remarks += collect.pin_remarks((lock, pin), lang)
        if rows:
            heading = f"{lock.name} {pin.version}"
            groups.append((heading, _belongings(rows, catalogue, (lock, pin), lang)))
    where = f"{asked.path}:{asked.lines}" if asked.lines else asked.path
    if not groups:
        remarks.append(i18n.text("where.nothing", lang, where=where))
    return WherePage(asked=where, groups=tuple(groups), remarks=tuple(dict.fromkeys(remarks)))


def _belongings(
    rows: Sequence[Entry], catalogue: Catalogue, pin: collect.Pinned, lang: str
) -> tuple[Belonging, ...]:
    places: dict[tuple[Lines, str, str], list[Entry]] = {}
    for entry in rows:
        if entry.lines is not None:
            places.setdefault((entry.lines, entry.concept, entry.site), []).append(entry)
    return tuple(
        Belonging(
            place=collect.place(entries[0].path, lines, *pin),
            concept=concept,
            site=site,
            what=_what(catalogue, concept, lang),
            variants=tuple(dict.fromkeys(entry.variant for entry in entries)),
            qualname=entries[0].qualname,
        )
        for (lines, concept, site), entries in sorted(places.items(), key=lambda item: item[0])
    )


def _what(catalogue: Catalogue, concept: str, lang: str) -> str:
    found = catalogue.concept(concept)
    return found.what.in_language(lang) if found else ""
