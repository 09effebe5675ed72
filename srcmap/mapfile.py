"""A map: where the variants of the catalogue are in one pin. Its nouns, its JSON, comparing two.

No upstream text is in a map: paths, numbers, hashes and the names of definitions, nothing else.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from srcmap.errors import CatalogueError
from srcmap.model import Confidence, Lines, Note, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FORMAT = "srcmap-map/1"
_SHIPPED = Path(__file__).parent / "data" / "maps"


class Proof(msgspec.Struct, frozen=True, array_like=True):
    """One premise: the id of its sentence, and the lines where it was seen."""

    premise: str
    lines: Lines


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place that may be meant, or that comes near."""

    concept: str
    site: str
    lines: Lines
    qualname: str


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One concept of one variant in one file: where, and enough to find it again."""

    variant: str
    concept: str
    site: str
    repo: str
    pin: str
    commit: str | None
    path: str
    lines: Lines | None
    context: Lines | None
    qualname: str
    status: Status
    blob: str = ""
    """The id that git gives to the file; empty when there is no file."""
    digest: str = ""
    """SHA-256 of the lines, joined with LF."""
    code_digest: str = ""
    """SHA-256 of their tokens without comments and layout."""
    form: str = ""
    """Short digest of their tokens with names numbered: equal where only names differ."""
    confidence: Confidence = "high"
    detail: str = ""
    proof: tuple[Proof, ...] = ()
    reason: Note | None = None
    """Why it is not `found`."""
    candidates: tuple[Candidate, ...] = ()
    """Ambiguous: the places in question, best first. Missing: near misses."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes an entry of one pin itself; lines may change under it."""
        return (self.variant, self.path, self.concept, self.site)


class SourceMap(msgspec.Struct, frozen=True, kw_only=True):
    """All entries of one pin, sorted by variant, path, concept and site."""

    format: str
    repo: str
    pin: str
    commit: str | None
    url: str
    partial: bool
    """The checkout holds only a part of the repository."""
    counts: dict[str, int]
    """Entries per status, and files: read, unread, not in the pin."""
    problems: tuple[Note, ...]
    """What could not be read, and where catalogue and code disagree."""
    entries: tuple[Entry, ...]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between two maps of one pin."""

    kind: str
    """`added`, `gone` or `changed`."""
    before: Entry | None
    after: Entry | None
    fields: tuple[str, ...] = ()
    """The fields that differ."""


def encode(source_map: SourceMap) -> bytes:
    """Stable JSON, one entry per line, so that a diff of two maps can be read."""
    lists: dict[str, Iterable[Note | Entry]] = {
        "problems": source_map.problems,
        "entries": source_map.entries,
    }
    whole = msgspec.structs.asdict(source_map)
    head = msgspec.json.encode({k: v for k, v in whole.items() if k not in lists})
    tail = b"".join(b',\n"%s":%s' % (k.encode(), _one_per_line(v)) for k, v in lists.items())
    return head.removesuffix(b"}") + tail + b"}\n"


def _one_per_line(values: Iterable[Note | Entry]) -> bytes:
    lines = [msgspec.json.encode(value) for value in values]
    return b"[\n" + b",\n".join(lines) + b"\n]" if lines else b"[]"


def decode(data: bytes, home: str = "map") -> SourceMap:
    """Read what `encode` wrote. CatalogueError when it is something else."""
    try:
        found = msgspec.json.decode(data, type=SourceMap)
    except msgspec.MsgspecError as error:
        raise CatalogueError(f"{home}: not a source map: {error}", slug="map-file") from error
    if found.format != FORMAT:
        message = f"{home}: format {found.format!r}, expected {FORMAT!r}"
        raise CatalogueError(message, slug="map-file", hint="srcmap map build")
    return found


def file_name(repo: str, version: str) -> str:
    return f"{repo}-{version}.json"


def shipped_folder() -> Path:
    return _SHIPPED


def shipped_map(repo: str, version: str) -> SourceMap | None:
    """Read the map that the package brings along for a pin, if it has one."""
    return _read(_SHIPPED / file_name(repo, version))


def project_map(project: Path, repo: str, version: str) -> SourceMap | None:
    """Read the map that `srcmap map build` made in a project, if there is one."""
    return _read(project_folder(project) / file_name(repo, version))


def project_folder(project: Path) -> Path:
    return project / ".srcmap" / "maps"


def find_map(repo: str, version: str, project: Path | None = None) -> SourceMap | None:
    """Read the project's map of a pin, else the shipped one."""
    own = project_map(project, repo, version) if project is not None else None
    return own or shipped_map(repo, version)


def cited_blobs(repo: str, version: str) -> dict[str, str]:
    """Give path and git blob id of every file that the shipped map of a pin rests on."""
    found = shipped_map(repo, version)
    return {e.path: e.blob for e in found.entries if e.blob} if found else {}


def _read(path: Path) -> SourceMap | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise CatalogueError(message, slug="map-file") from error
    # One command asks for one map several times; its bytes say whether it is still the same.
    known = _decoded.get(path)
    if known is None or known[0] != data:
        _decoded[path] = known = (data, decode(data, str(path)))
    return known[1]


_decoded: dict[Path, tuple[bytes, SourceMap]] = {}


def compare(before: SourceMap, after: SourceMap) -> list[Change]:
    """List what differs, in the order of the entries."""
    old = {entry.key: entry for entry in before.entries}
    new = {entry.key: entry for entry in after.entries}
    return list(_changes(old, new))


def _changes(
    old: dict[tuple[str, str, str, str], Entry], new: dict[tuple[str, str, str, str], Entry]
) -> Iterator[Change]:
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if before is None or after is None:
            kind = "added" if before is None else "gone"
            yield Change(kind=kind, before=before, after=after)
        elif before != after:
            names = Entry.__struct_fields__
            fields = tuple(n for n in names if getattr(before, n) != getattr(after, n))
            yield Change(kind="changed", before=before, after=after, fields=fields)


def sort_key(entry: Entry) -> tuple[str, str, str, str, Lines]:
    return (*entry.key, entry.lines or Lines(0, 0))


def count(entries: Iterable[Entry]) -> dict[str, int]:
    """Count the entries of each status; every status is there."""
    counts = dict.fromkeys(("found", "absent", "missing", "ambiguous"), 0)
    for entry in entries:
        counts[entry.status] += 1
    return counts
