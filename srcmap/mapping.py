"""Catalogue and checkout -> SourceMap: every variant's files read, every concept located.

A file that cannot be read is a problem that the map lists, and costs its own entries only.
"""

from __future__ import annotations

import logging
import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from srcmap.cache import Cache, cache_folder, fingerprint, key_of
from srcmap.checkout.nouns import blob_id
from srcmap.digest import CodeText, lines_digest
from srcmap.errors import SrcmapError
from srcmap.locate import Ambiguous, Found, Missing, locate, selected_kernels
from srcmap.lock.nouns import matches
from srcmap.mapfile import (
    FORMAT,
    Candidate,
    Change,
    Entry,
    Proof,
    SourceMap,
    cited_blobs,
    compare,
    count,
    decode,
    encode,
    file_name,
    find_map,
    project_folder,
    project_map,
    shipped_folder,
    shipped_map,
    sort_key,
)
from srcmap.model import FileAnatomy, Note, Site, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from srcmap.catalogue import Catalogue, FileRequest, Variant
    from srcmap.lock import Lock, Pin
    from srcmap.model import KernelAnatomy

__all__ = [
    "FORMAT", "Candidate", "Change", "Entry", "Proof", "SourceMap", "build_map", "cited_blobs",
    "compare", "decode", "encode", "file_name", "find_map", "project_folder", "project_map",
    "shipped_folder", "shipped_map",
]  # fmt: skip


_log = logging.getLogger(__name__)


class Tree(Protocol):
    """What a map needs of a checkout."""

    @property
    def lock(self) -> Lock: ...
    @property
    def pin(self) -> Pin: ...
    @property
    def partial(self) -> bool: ...
    def paths(self) -> tuple[str, ...]: ...
    def read(self, path: str) -> bytes: ...


class _Work(NamedTuple):
    """One file of one variant, and where this pin keeps it; None: nowhere."""

    variant: Variant
    request: FileRequest
    path: str | None


class _Read(NamedTuple):
    """A file that was read."""

    blob: str
    lines: list[str]
    anatomy: FileAnatomy
    code: CodeText


def build_map(
    catalogue: Catalogue,
    checkout: Tree,
    *,
    read: Callable[[bytes, str], FileAnatomy] | None = None,
    workers: int = 1,
) -> SourceMap:
    """Map one checkout. `read` stands in for the anatomy in tests, and is not cached."""
    work = _plan(catalogue, checkout)
    wanted = sorted({w.path for w in work if w.path is not None})
    files = _read_files(checkout, wanted, read, workers)
    problems = [note for path in wanted for note in _problems(path, files[path])]
    entries: list[Entry] = []
    for item in work:
        found = _Locator(checkout, item, files.get(item.path or "")).entries()
        entries.extend(found)
        problems.extend(_contradictions(item, found))
    return _assembled(checkout, entries, problems, files, work)


def _assembled(
    checkout: Tree,
    entries: list[Entry],
    problems: list[Note],
    files: dict[str, _Read | Note],
    work: list[_Work],
) -> SourceMap:
    unread = sum(isinstance(f, Note) for f in files.values())
    counts = {
        **count(entries),
        "files_read": len(files) - unread,
        "files_unread": unread,
        "files_not_in_pin": len({w.request.path for w in work if w.path is None}),
    }
    unique = {(p.key, *sorted(p.args.items())): p for p in problems}
    return SourceMap(
        format=FORMAT,
        repo=checkout.lock.name,
        pin=checkout.pin.version,
        commit=checkout.pin.commit,
        url=checkout.lock.url,
        partial=checkout.partial,
        counts=counts,
        problems=tuple(unique.values()),
        entries=tuple(sorted(entries, key=sort_key)),
    )


# -- which files ----------------------------------------------------------------------------


def _plan(catalogue: Catalogue, checkout: Tree) -> list[_Work]:
    paths = frozenset(checkout.paths())
    repo = _known_as(catalogue, checkout.lock.name, paths)
    home = _Home(paths)
    return [
        _Work(variant, request, home.of(request))
        for variant in catalogue.variants
        for request in variant.files
        if request.repo == repo
    ]


def _known_as(catalogue: Catalogue, name: str, paths: frozenset[str]) -> str:
    """Name the repository of the catalogue that this one is, or whose files it has: a fork."""
    repos = catalogue.repos()
    if name in repos or not repos:
        return name
    requests = [f for v in catalogue.variants for f in v.files]
    shared = {r: sum(f.repo == r and f.path in paths for f in requests) for r in repos}
    best = max(repos, key=lambda repo: shared[repo])
    return best if shared[best] else name


class _Home:
    """Where a pin keeps a file of the catalogue."""

    def __init__(self, paths: frozenset[str]) -> None:
        self._paths = paths
        self._by_name: dict[str, list[str]] = {}
        for path in sorted(paths):
            self._by_name.setdefault(PurePosixPath(path).name, []).append(path)

    def of(self, request: FileRequest) -> str | None:
        """Try the path itself, those it is known to have had, then the one file of that name."""
        for path in (request.path, *request.also):
            if path in self._paths:
                return path
        named = self._by_name.get(PurePosixPath(request.path).name, [])
        return named[0] if len(named) == 1 else None


# -- reading --------------------------------------------------------------------------------


def _read_files(
    checkout: Tree,
    paths: Sequence[str],
    read: Callable[[bytes, str], FileAnatomy] | None,
    workers: int,
) -> dict[str, _Read | Note]:
    contents = {path: _content(checkout, path) for path in paths}
    data = {path: c for path, c in contents.items() if isinstance(c, bytes)}
    files: dict[str, _Read | Note] = {p: c for p, c in contents.items() if isinstance(c, Note)}
    beside = {path: _neighbours(checkout, path, content) for path, content in data.items()}
    anatomies = _with_cache(data, beside, workers) if read is None else _serially(data, read)
    for path, answer in anatomies.items():
        files[path] = answer if isinstance(answer, Note) else _read_file(data[path], answer)
    return files


def _content(checkout: Tree, path: str) -> bytes | Note:
    try:
        return checkout.read(path)
    except (OSError, SrcmapError) as error:
        return _unreadable(path, error)


def _neighbours(checkout: Tree, path: str, data: bytes) -> dict[str, bytes]:
    """Read the files of the same folder that a Python file imports helpers from."""
    from srcmap.anatomy.beside import neighbours_wanted

    if not path.endswith(".py"):
        return {}
    folder = path.rpartition("/")[0]
    found: dict[str, bytes] = {}
    for name in neighbours_wanted(data):
        content = _content(checkout, f"{folder}/{name}" if folder else name)
        if isinstance(content, bytes):
            found[name] = content
    return found


def _read_file(data: bytes, anatomy: FileAnatomy) -> _Read:
    from srcmap.parse.python import decode as decoded
    from srcmap.parse.spans import git_lines

    lines = git_lines(decoded(data)[0])
    return _Read(blob_id(data), lines, anatomy, CodeText(lines, anatomy.language))


def _unreadable(path: str, error: Exception) -> Note:
    return Note("maps.unreadable", {"path": path, "error": _short(error)})


def _short(error: Exception, limit: int = 200) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _serially(
    data: dict[str, bytes], read: Callable[[bytes, str], FileAnatomy]
) -> dict[str, FileAnatomy | Note]:
    return {path: _judged(content, path, read) for path, content in data.items()}


def _judged(
    data: bytes, path: str, read: Callable[[bytes, str], FileAnatomy]
) -> FileAnatomy | Note:
    try:
        return read(data, path)
    except (SrcmapError, RecursionError, MemoryError) as error:
        return _unreadable(path, error)
    except Exception as error:  # noqa: BLE001 - one odd file of a fork must not cost the whole map
        _log.debug("reading %s failed", path, exc_info=True)
        return Note("maps.crashed", {"path": path, "error": f"{type(error).__name__}: {error}"})


def _with_cache(
    data: dict[str, bytes], beside: dict[str, dict[str, bytes]], workers: int
) -> dict[str, FileAnatomy | Note]:
    kept = Cache(cache_folder() / "anatomy", FileAnatomy)
    mark = fingerprint()
    answers: dict[str, FileAnatomy | Note] = {}
    cold: dict[str, _Task] = {}
    keys = {
        path: key_of(mark, path, blob_id(content), *map(blob_id, beside[path].values()))
        for path, content in data.items()
    }
    for path, content in data.items():
        known = kept.get(keys[path])
        if known is None:
            cold[path] = _Task(path, content, beside[path])
        else:
            answers[path] = known
    for path, answer in _read_cold(cold, workers):
        answers[path] = answer
        if isinstance(answer, FileAnatomy):
            kept.put(keys[path], answer)
    return answers


class _Task(NamedTuple):
    """One file to read, with the neighbours that it imports from."""

    path: str
    data: bytes
    beside: dict[str, bytes]


_PAYS_FROM = 6
"""Cold files from which a second process earns back its start."""


def _read_cold(cold: dict[str, _Task], workers: int) -> Iterator[tuple[str, FileAnatomy | Note]]:
    left = dict(cold)
    if workers > 1 and len(cold) >= _PAYS_FROM:
        try:
            for path, answer in _in_processes(cold, workers):
                del left[path]
                yield path, answer
        except (OSError, ImportError, RuntimeError) as error:
            # No semaphores here, or a process was killed: one process can do it too.
            _log.debug("reading on in one process: %s", error)
    for path, task in left.items():
        yield path, _anatomy_of(task)


def _in_processes(cold: dict[str, _Task], workers: int) -> Iterator[tuple[str, FileAnatomy | Note]]:
    from concurrent.futures import ProcessPoolExecutor

    # Large files first, so that no process is left with one at the end.
    tasks = sorted(cold.values(), key=lambda task: -len(task.data))
    with ProcessPoolExecutor(min(workers, len(tasks))) as pool:
        yield from zip((task.path for task in tasks), pool.map(_anatomy_of, tasks), strict=True)


def _anatomy_of(task: _Task) -> FileAnatomy | Note:
    from srcmap.anatomy import read_source

    return _judged(
        task.data, task.path, lambda data, path: read_source(data, path, task.beside.get)
    )


def default_workers() -> int:
    """Two: the third process of a build reads nothing that the first two have left."""
    return min(os.cpu_count() or 1, 2)


# -- entries --------------------------------------------------------------------------------


class _Locator:
    """Entries of one file of one variant."""

    def __init__(self, checkout: Tree, work: _Work, file: _Read | Note | None) -> None:
        self._work = work
        self._file = file
        self._pin = checkout.pin
        self._repo = checkout.lock.name
        self._partial = checkout.partial

    def entries(self) -> list[Entry]:
        if not isinstance(self._file, _Read):
            return [self._gap(concept) for concept in self._expected()]
        found = [e for c in self._asked(self._file) for e in self._answer(self._file, c)]
        if self._guessed and not any(e.status == "found" for e in found):
            return [self._gap(c, self._work.request.path) for c in self._expected()]
        return found

    @property
    def _guessed(self) -> bool:
        """Whether the file was taken for its name alone: it has to prove that it is the one."""
        request = self._work.request
        return self._work.path not in (request.path, *request.also)

    def _expected(self) -> tuple[str, ...]:
        return self._work.request.must or self._work.variant.own

    def _asked(self, file: _Read) -> list[str]:
        """List what the catalogue speaks of, and whatever else the kernels do."""
        request = self._work.request
        kernels = selected_kernels(file.anatomy, request)
        does = [s.concept for k in kernels for s in k.sites]
        doubts = [a.concept for k in kernels for a in k.ambiguities]
        spoken = [*request.must, *request.may, *(lack.concept for lack in request.lacks)]
        asked = dict.fromkeys([*spoken, *does, *doubts])
        only, beyond = request.only, request.beyond
        return [c for c in asked if (not only or c in only) and c not in beyond]

    def _answer(self, file: _Read, concept: str) -> Iterator[Entry]:
        answer = locate(file.anatomy, self._work.request, concept)
        match answer:
            case Found(sites):
                kernels = selected_kernels(file.anatomy, self._work.request)
                for site, label in zip(sites, _labels(sites, kernels), strict=True):
                    yield self._found(file, site, label)
            case Ambiguous(reason=reason, candidates=candidates):
                near = tuple(map(_candidate, candidates))
                yield self._without(file, concept, "ambiguous", reason, near)
            case Missing(reason=reason, near=near_sites, judged=judged):
                expected = concept in self._work.request.must
                status: Status = "missing" if expected or not judged else "absent"
                near = tuple(map(_candidate, near_sites[:3])) if expected else ()
                yield self._without(file, concept, status, reason, near)

    def _found(self, file: _Read, site: Site, label: str) -> Entry:
        return msgspec.structs.replace(
            self._blank(site.concept, label),
            lines=site.lines,
            context=site.context,
            qualname=site.qualname,
            status="found",
            blob=file.blob,
            digest=lines_digest(file.lines, site.lines),
            code_digest=file.code.digest(site.lines),
            form=file.code.form(site.lines),
            confidence=site.confidence,
            detail=site.detail,
            proof=tuple(Proof(p.note.key, p.lines) for p in site.proof),
        )

    def _without(
        self, file: _Read, concept: str, status: Status, reason: Note, near: tuple[Candidate, ...]
    ) -> Entry:
        return msgspec.structs.replace(
            self._blank(concept), status=status, blob=file.blob, reason=reason, candidates=near
        )

    def _gap(self, concept: str, path: str | None = None) -> Entry:
        status, reason = self._why_no_file()
        blank = self._blank(concept)
        return msgspec.structs.replace(blank, status=status, reason=reason, path=path or blank.path)

    def _why_no_file(self) -> tuple[Status, Note]:
        if isinstance(self._file, Note):
            return "missing", self._file
        pin, request = self._pin, self._work.request
        if pin.version in request.not_in:
            return "absent", Note("maps.not-in-pin", {"pin": pin.version})
        if self._partial and not matches(request.path, pin.covers):
            covers = ", ".join(pin.covers)
            return "missing", Note("maps.partial", {"pin": pin.version, "covers": covers})
        return "missing", Note("maps.no-such-file", {"pin": pin.version})

    def _blank(self, concept: str, site: str = "") -> Entry:
        return Entry(
            variant=self._work.variant.id,
            concept=concept,
            site=site,
            repo=self._repo,
            pin=self._pin.version,
            commit=self._pin.commit,
            path=self._work.path or self._work.request.path,
            lines=None,
            context=None,
            qualname="",
            status="missing",
        )


def _candidate(site: Site) -> Candidate:
    return Candidate(
        concept=site.concept, site=site.label, lines=site.lines, qualname=site.qualname
    )


def _labels(sites: Sequence[Site], kernels: Sequence[KernelAnatomy]) -> list[str]:
    """Label the sites of one concept so that no two are the same, by what their kernels do."""
    roles = _roles(kernels)
    places = [{(s.concept, s.label, s.lines) for s in kernel.sites} for kernel in kernels]
    labels = []
    for site in sites:
        place = (site.concept, site.label, site.lines)
        homes = [role for role, has in zip(roles, places, strict=True) if place in has]
        # What several kernels share, such as a factor in their builder, is none's own.
        role = homes[0] if len(homes) == 1 else ""
        labels.append(_joined(role, site.label))
    return _numbered(labels)


def _roles(kernels: Sequence[KernelAnatomy]) -> list[str]:
    """`kernel=whole` beside one that splits; numbers where nothing else tells kernels apart."""
    # What stands outside kernels is one entry of the kind `file`, and needs no telling apart.
    real = [kernel for kernel in kernels if kernel.kind != "file"]
    splits = [any(s.concept in _SPLITTING for s in kernel.sites) for kernel in real]
    if len(real) < 2:
        names = [""] * len(real)
    elif len(real) == 2 and sum(splits) == 1:
        names = ["" if split else "kernel=whole" for split in splits]
    else:
        names = [f"kernel={number}" for number in range(1, len(real) + 1)]
    named = iter(names)
    return ["" if kernel.kind == "file" else next(named) for kernel in kernels]


_SPLITTING = frozenset({"split-range", "partial-output"})


def _numbered(labels: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    unique = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        unique.append(label if seen[label] == 1 else _joined(label, f"n={seen[label]}"))
    return unique


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)


# -- problems -------------------------------------------------------------------------------


def _problems(path: str, file: _Read | Note) -> Iterator[Note]:
    if isinstance(file, Note):
        yield file
    else:
        for note in file.anatomy.problems:
            yield Note(note.key, {**note.args, "path": path})


def _contradictions(work: _Work, entries: Iterable[Entry]) -> Iterator[Note]:
    """Where the catalogue says that something is not there, and it is."""
    lacks = {lack.concept for lack in work.request.lacks}
    for entry in entries:
        if entry.status == "found" and entry.concept in lacks:
            args = {"variant": entry.variant, "concept": entry.concept, "path": entry.path}
            yield Note("maps.unexpected", {**args, "lines": str(entry.lines)})
        if entry.pin in work.request.not_in and work.path is not None:
            yield Note("maps.is-in-pin", {"path": work.path, "pin": entry.pin})
