"""Documents in, judged citations out: one after the other, or many over several processes.

Results come document by document and are not kept, so that ten thousand documents take no more
memory than ten.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from srcmap.cite.concepts import Concepts
from srcmap.cite.evidence import Reading
from srcmap.cite.find import Finder
from srcmap.cite.judge import Judge
from srcmap.cite.nouns import Judged  # noqa: TC001
from srcmap.cite.readers import SUFFIXES, kind_of, read
from srcmap.cite.record import FILE as RECORD
from srcmap.cite.record import Record, read_record
from srcmap.cite.remember import Memory
from srcmap.cite.settings import Settings, pattern
from srcmap.cite.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from srcmap.cite.nouns import Citation
    from srcmap.lock import Lock

_SKIPPED = frozenset({"_vendor", "node_modules", "__pycache__", "build", "dist"})
_MANY = 120
"""From so many documents on, several processes share the work."""


class Audited(msgspec.Struct, frozen=True):
    """One document: its citations, or why it could not be read."""

    document: str
    judged: tuple[Judged, ...] = ()
    problem: str | None = None


class Task(NamedTuple):
    """All that an auditor is made of; it crosses to another process as it is."""

    locks: tuple[Lock, ...]
    project: Path | None
    settings: Settings
    concepts: Mapping[str, tuple[str, ...]]
    pins: Mapping[str, str] = {}
    """Versions to judge at whatever a document names."""
    fences: bool = False
    judge: bool = True
    remember: bool = False
    """Keep what is found for the next run: worth it for many documents."""


class Auditor:
    """Reads and judges documents, one at a time."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.shelf = Shelf(task.locks, task.project, task.settings.pins, task.pins)
        self._finder = Finder(self.shelf, task.settings)
        self._concepts = Concepts(task.concepts)
        self._judge = Judge(self.shelf, self._concepts)
        self._records = lru_cache(64)(_record_beside)
        self._memory = Memory(task) if task.remember else None

    def audit(self, path: Path, shown: str) -> Audited:
        """Read one document; what cannot be read is a problem and stops nothing."""
        try:
            data = path.read_bytes()
        except OSError as error:
            return Audited(shown, problem=error.strerror or str(error))
        if self._memory is None:
            return Audited(shown, tuple(self.judged(data, shown, path)))
        return Audited(shown, self._remembered(self._memory, data, shown, path))

    def _remembered(
        self, memory: Memory, data: bytes, shown: str, path: Path
    ) -> tuple[Judged, ...]:
        beside = self._records(path.parent).digests(path.name)
        key = memory.key(data, shown, beside)
        exists = self._exists_beside(path)
        known = memory.get(key, exists)
        if known is None:
            exists.asked.clear()
            known = tuple(self._judged(data, shown, path, exists))
            memory.put(key, exists.asked, known)
        return known

    def citations(self, data: bytes, path: Path) -> list[Citation]:
        """Find the citations of a document."""
        page = read(data, kind_of(path.name))
        return self._finder.find(page, self._exists_beside(path), fences=self._task.fences)

    def judged(self, data: bytes, shown: str, path: Path) -> Iterator[Judged]:
        """Find and judge the citations of a document."""
        yield from self._judged(data, shown, path, self._exists_beside(path))

    def _judged(self, data: bytes, shown: str, path: Path, exists: Exists) -> Iterator[Judged]:
        page = read(data, kind_of(path.name))
        citations = self._finder.find(page, exists, fences=self._task.fences)
        reading = Reading(page, citations, self._concepts)
        digests = self._records(path.parent).digests(path.name)
        seen: dict[str, int] = {}
        before: Citation | None = None
        for citation in citations:
            nth = seen[citation.text] = seen.get(citation.text, 0) + 1
            evidence = reading.evidence(citation)
            if self._task.judge:
                known = digests.get((citation.text, nth))
                one = self._judge.judge(shown, citation, evidence, known, before)
            else:
                one = self._judge.scanned(shown, citation, evidence, before)
            before = one.citation
            yield one

    def _exists_beside(self, path: Path) -> Exists:
        return Exists(path.parent, self._task.project)


class Exists:
    """Whether a written path is a file of the document's own project."""

    def __init__(self, folder: Path, project: Path | None) -> None:
        roots = [os.path.abspath(folder)]  # noqa: PTH100
        if project is not None:
            root = os.path.abspath(project)  # noqa: PTH100
            if roots[0].startswith(root + os.sep):
                roots.append(root)
        self._roots = roots
        self.asked: dict[str, bool] = {}
        """Every path that was asked for, with the answer."""

    def __call__(self, path: str) -> bool:
        found = self.asked[path] = any(_is_there(root, path) for root in self._roots)
        return found


@lru_cache(4096)
def _is_there(root: str, path: str) -> bool:
    try:
        return os.path.exists(os.path.join(root, path))  # noqa: PTH110, PTH118
    except ValueError:  # a NUL in a name
        return False


def _record_beside(folder: Path) -> Record:
    return read_record(folder / RECORD)


def documents(
    named: Sequence[Path], settings: Settings, project: Path | None
) -> list[tuple[Path, str]]:
    """List the documents of files and folders, or of the settings, each with the name to show."""
    chosen = list(named) or [
        path for glob in settings.documents for path in _globbed(project, glob)
    ]
    found: dict[Path, str] = {}
    for path in chosen:
        if path.is_dir():
            found.update((p, p.as_posix()) for p in _walk(path))
        else:
            found[path] = path.as_posix()
    return list(found.items())


def _globbed(project: Path | None, glob: str) -> Iterable[Path]:
    root = project or Path()
    if not any(char in glob for char in "*?["):
        return [_relative(root / glob)]
    matcher = pattern(glob)
    return [_relative(p) for p in _walk(root) if matcher.match(p.relative_to(root).as_posix())]


def _relative(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.startswith("."))
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in SUFFIXES:  # noqa: PTH122
                yield Path(root, name)


# -- many documents --------------------------------------------------------------------------


def audit(
    task: Task, paths: Sequence[tuple[Path, str]], workers: int | None = None
) -> Iterator[Audited]:
    """Audit documents in their order."""
    task = task._replace(remember=len(paths) >= _MANY)
    count = min(workers or os.cpu_count() or 1, max(len(paths) // _MANY, 1), 16)
    if count < 2:
        auditor = Auditor(task)
        yield from (auditor.audit(path, shown) for path, shown in paths)
        return
    yield from _shared(task, paths, count)


def _shared(task: Task, paths: Sequence[tuple[Path, str]], workers: int) -> Iterator[Audited]:
    """Share the work among processes. Few batches are under way at a time: memory stays flat."""
    from collections import deque
    from concurrent.futures import Future, ProcessPoolExecutor

    size = 40
    batches = (paths[at : at + size] for at in range(0, len(paths), size))
    with ProcessPoolExecutor(workers, initializer=_begin, initargs=(task,)) as pool:
        waiting: deque[Future[bytes]] = deque()
        for batch in batches:
            waiting.append(pool.submit(_batch, batch))
            if len(waiting) > 3 * workers:
                yield from _decoded(waiting.popleft().result())
        while waiting:
            yield from _decoded(waiting.popleft().result())


_auditor: list[Auditor] = []


def _begin(task: Task) -> None:
    _auditor[:] = [Auditor(task)]


def _batch(batch: Sequence[tuple[Path, str]]) -> bytes:
    return msgspec.msgpack.encode([_auditor[0].audit(path, shown) for path, shown in batch],
                                  enc_hook=str)  # fmt: skip


def _decoded(data: bytes) -> list[Audited]:
    return msgspec.msgpack.decode(data, type=list[Audited])
