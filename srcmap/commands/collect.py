"""What the maps say -> the rows, places and excerpts that renderers take, said in one language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srcmap import i18n
from srcmap.errors import ParseError, UsageError
from srcmap.render.interface import CodeLine, Excerpt, Place, Row
from srcmap.render.links import permalink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from srcmap.catalogue import Catalogue, Variant
    from srcmap.checkout import Checkout
    from srcmap.lock import Lock, Pin
    from srcmap.mapfile import Entry
    from srcmap.model import FileAnatomy, Lines

    Pinned: TypeAlias = "tuple[Lock, Pin]"
    PinEntries: TypeAlias = "tuple[Lock, Pin, Sequence[Entry]]"


def chosen_pins(
    locks: Sequence[Lock], repo: str | None, version: str | None
) -> list[tuple[Lock, Pin]]:
    """Return the pins to answer for: the current ones, else `version` (or `REPO@VERSION`).

    UsageError, with what is known, for a repository or a version that is not pinned.
    """
    from srcmap.lock import pick

    if version and "@" in version:
        return [pick(locks, version)]
    if repo is not None:
        return [pick(locks, f"{repo}@{version}" if version else repo)]
    if version is None:
        return [(lock, lock.current_pin) for lock in locks]
    found = [(lock, pin) for lock in locks if (pin := lock.find(version))]
    if not found:
        known = ", ".join(f"{lock.name}@{pin.version}" for lock in locks for pin in lock.pins)
        raise UsageError(
            f"nothing is pinned at {version!r}", slug="no-such-pin", hint=f"known are: {known}"
        )
    return found


def pins_of(
    variant: Variant, locks: Sequence[Lock], repo: str | None, version: str | None, lang: str
) -> list[Pinned]:
    """Return the chosen pins that have something to do with the variant; UsageError when none."""
    # A project's fork bears a name that the catalogue does not know; its map says what it is.
    repos = {request.repo for request in variant.files}
    shipped = {"tilelang", "tilelang-ascend"}
    chosen = chosen_pins(locks, repo, version)
    found = [pair for pair in chosen if pair[0].name in repos or pair[0].name not in shipped]
    if not found:
        asked = "@".join(part for part in (repo, version) if part)
        raise UsageError(
            i18n.text("variant.not-in", lang, name=variant.id, asked=asked),
            slug="no-such-pin",
            hint=i18n.text("variant.is-in", lang, repos=", ".join(sorted(repos))),
        )
    return found


def entries(
    pins: Iterable[Pinned], project: Path | None, variant: str | None = None
) -> list[PinEntries]:
    """Return the map entries of these pins, of one variant or of all; pins without a map too."""
    from srcmap.mapfile import find_map

    found: list[PinEntries] = []
    for lock, pin in pins:
        source_map = find_map(lock.name, pin.version, project)
        rows = source_map.entries if source_map is not None else ()
        found.append((lock, pin, [e for e in rows if variant in (None, e.variant)]))
    return found


def by_line(entry: Entry) -> tuple[str, int, str]:
    """Sort entries as their files are read."""
    return (entry.path, entry.lines.first if entry.lines else 0, entry.site)


def exit_code(found: Sequence[PinEntries]) -> int:
    """Return 0 when something is there, 1 when it is known not to be, 3 when nobody knows."""
    states = {entry.status for *_, rows in found for entry in rows}
    if states & {"found", "ambiguous"}:
        return 0
    return 1 if "absent" in states else 3


def pin_remarks(pin: Pinned, lang: str) -> tuple[str, ...]:
    """Return what must be said wherever this pin is shown: that it is partial, and of what."""
    if not pin[1].partial:
        return ()
    return (i18n.text("page.partial", lang, covers=", ".join(pin[1].covers)),)


def no_map(pin: Pinned, lang: str) -> str:
    """Say that there is no map of a pin, and what makes one."""
    name = f"{pin[0].name}@{pin[1].version}"
    return i18n.text("page.no-map", lang, name=name)


def place(path: str, lines: Lines, lock: Lock, pin: Pin) -> Place:
    """Return the place of these lines, with its permalink where the commit is known."""
    return Place(path=path, lines=lines, url=permalink(lock.url, pin.commit, path, lines))


def row(entry: Entry, variant: Variant, catalogue: Catalogue, pin: Pinned, lang: str) -> Row:
    """Return the row of one map entry."""
    concept = catalogue.concept(entry.concept)
    return Row(
        concept=entry.concept,
        site=entry.site,
        status=entry.status,
        what=concept.what.in_language(lang) if concept else "",
        place=place(entry.path, entry.lines, *pin) if entry.lines else None,
        candidates=tuple(place(entry.path, c.lines, *pin) for c in entry.candidates),
        reason=_reason(entry, variant, lang),
        detail=entry.detail,
        unsure=unsure(entry.confidence, lang),
        own=entry.concept in variant.own,
    )


def unsure(confidence: str | None, lang: str) -> str:
    """Say how sure a location is, when it is not simply proven."""
    return i18n.text(f"page.{confidence}", lang) if confidence in ("medium", "low") else ""


def _reason(entry: Entry, variant: Variant, lang: str) -> str:
    """Say why it is not there: the catalogue's word for readers, else the premise that failed."""
    lack = variant.lack(entry.concept)
    if entry.status == "absent" and lack is not None and lack.why is not None:
        return lack.why.in_language(lang)
    return i18n.say(entry.reason, lang) if entry.reason is not None else ""


# -- JSON ------------------------------------------------------------------------------------


def json_entries(
    found: Sequence[PinEntries], lang: str, reader: Reader | None = None
) -> list[dict[str, Any]]:
    """Return entries as JSON writes them: the map's own fields, said and linked."""
    return [
        _json_entry(entry, (lock, pin), lang, reader) for lock, pin, rows in found for entry in rows
    ]


def _json_entry(entry: Entry, pin: Pinned, lang: str, reader: Reader | None) -> dict[str, Any]:
    from msgspec import to_builtins

    value: dict[str, Any] = to_builtins(entry)
    where = place(entry.path, entry.lines, *pin) if entry.lines else None
    value["url"] = where.url if where else None
    value["partial_pin"] = pin[1].partial
    # What drift and diff tests will fill in; a reader can rely on the keys today.
    value["reimplementation"] = value["diff_test"] = None
    if entry.reason is not None:
        value["reason"]["text"] = i18n.say(entry.reason, lang)
    if reader is not None and where is not None:
        excerpt = reader.excerpt(pin, where, "", lang)
        value["code"] = [line.text for line in excerpt.lines] or None
    return value


# -- code ------------------------------------------------------------------------------------


class Reader:
    """Code of pins that are here, with what each statement does. Files are read once."""

    def __init__(self, project: Path | None) -> None:
        self._project = project
        self._checkouts: dict[tuple[str, str], Checkout | None] = {}
        self._read: dict[tuple[str, str, str], tuple[list[str], dict[int, tuple[str, ...]]]] = {}

    def excerpt(self, pin: Pinned, shown: Place, title: str, lang: str, around: int = 0) -> Excerpt:
        """Return the code of a place; without a checkout, the command that brings it."""
        checkout = self._checkout(pin)
        if checkout is None:
            command = f"srcmap sync {pin[0].name}@{pin[1].version}"
            instead = i18n.text("page.no-checkout", lang, command=command)
            return Excerpt(place=shown, title=title, instead=instead)
        lines, roles = self._file(checkout, pin, shown.path, lang)
        return Excerpt(place=shown, title=title, lines=code(lines, roles, [shown.lines], around))

    def _checkout(self, pin: Pinned) -> Checkout | None:
        from srcmap.checkout import find_checkout

        key = (pin[0].name, pin[1].version)
        if key not in self._checkouts:
            self._checkouts[key] = find_checkout(*pin, self._project)
        return self._checkouts[key]

    def _file(
        self, checkout: Checkout, pin: Pinned, path: str, lang: str
    ) -> tuple[list[str], dict[int, tuple[str, ...]]]:
        key = (pin[0].name, pin[1].version, path)
        if key not in self._read:
            data = checkout.read(path)
            self._read[key] = (source_lines(data), _file_roles(data, path, lang))
        return self._read[key]


def with_code(shown: Row, reader: Reader, pin: Pinned, lang: str) -> Row:
    """Return the row with its code below it."""
    from msgspec.structs import replace

    if shown.place is None or shown.status != "found":
        return shown
    return replace(shown, excerpt=reader.excerpt(pin, shown.place, "", lang))


def source_lines(data: bytes) -> list[str]:
    """Split source as git counts lines: at line feeds alone."""
    return data.decode("utf-8-sig", errors="replace").split("\n")


def code(
    lines: Sequence[str],
    roles: Mapping[int, tuple[str, ...]],
    chosen: Sequence[Lines],
    around: int = 0,
) -> tuple[CodeLine, ...]:
    """Return the chosen lines (and some around them) with what each statement does."""
    inside = {n for run in chosen for n in range(run.first, run.last + 1)}
    shown = {n for run in chosen for n in range(run.first - around, run.last + around + 1)}
    return tuple(
        CodeLine(
            number=number,
            text=lines[number - 1],
            roles=roles.get(number, ()),
            chosen=number in inside,
        )
        for number in sorted(shown)
        if 1 <= number <= len(lines)
    )


def neighbour_of(path: Path) -> Callable[[str], bytes | None]:
    """Give the bytes of files in the folder of `path`, by name; None for what is no file there."""

    def read(name: str) -> bytes | None:
        other = path.parent / name
        try:
            return other.read_bytes() if other.is_file() else None
        except OSError:
            return None

    return read


def roles_by_line(anatomy: FileAnatomy, lang: str) -> dict[int, tuple[str, ...]]:
    """Return what each statement does, at its first line: its concepts, else its roles, said."""
    concepts: dict[int, dict[str, None]] = {}
    roles: dict[int, dict[str, None]] = {}
    for kernel in anatomy.kernels:
        for site in kernel.sites:
            concepts.setdefault(site.lines.first, {})[site.concept] = None
        for deed in kernel.deeds:
            said = (role_name(role, lang) for role in deed.roles)
            roles.setdefault(deed.lines.first, {}).update(dict.fromkeys(said))
    return {line: tuple(found) for line, found in {**roles, **concepts}.items()}


def role_name(role: str, lang: str) -> str:
    """Say a role; one that has no word yet is its id."""
    key = f"role.{role}"
    return i18n.text(key, lang) if i18n.known(key, lang) else role


def _file_roles(data: bytes, path: str, lang: str) -> dict[int, tuple[str, ...]]:
    from srcmap.anatomy import read_source

    try:
        return roles_by_line(read_source(data, path), lang)
    except ParseError:  # the code is shown all the same, without a gutter
        return {}
