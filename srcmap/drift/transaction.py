"""Several files of a project written as one: all of them, or none of them.

Every file is first written beside its place; then a journal that names them all is put in place,
which is the moment at which the change is decided; then each is renamed. A run that was killed
before that moment leaves nothing but files that nobody reads; one that was killed after it is
finished by the next `recover`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from srcmap.checkout.staging import disk_error
from srcmap.errors import SrcmapError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FOLDER = ".srcmap"
_JOURNAL = "bump.journal.json"
_FOLDERS = "bump.folders.json"
_LOCK = "bump.lock"
_MARK = ".srcmap-bump-"


class _Step(msgspec.Struct, frozen=True):
    """One file: where it is now, and where it belongs; both relative to the project."""

    staged: str
    target: str
    sha256: str


class _Journal(msgspec.Struct, frozen=True):
    format: Literal["srcmap-bump-journal/1"]
    steps: tuple[_Step, ...]


@contextlib.contextmanager
def alone(project: Path) -> Iterator[None]:
    """Keep other runs out of the project. SrcmapError when one is under way."""
    from filelock import FileLock, Timeout

    folder = project / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / _LOCK)
        lock.acquire(timeout=0)
    except Timeout as error:
        message = f"{project}: another srcmap bump is under way"
        raise SrcmapError(message, slug="bump", hint="wait for it to end") from error
    except OSError as error:
        raise disk_error(error, folder) from error
    try:
        yield
    finally:
        lock.release()


def recover(project: Path) -> str:
    """Finish what an interrupted run decided, or clear what it did not; say which.

    `finished`, `undone`, or empty when there was nothing. Call inside `alone`.
    """
    journal = project / _FOLDER / _JOURNAL
    try:
        data = journal.read_bytes()
    except FileNotFoundError:
        return "undone" if _swept(project) else ""
    _finish(project, msgspec.json.decode(data, type=_Journal))
    journal.unlink()
    _swept(project)
    return "finished"


def pending(project: Path) -> bool:
    """Whether an interrupted run waits to be finished."""
    return (project / _FOLDER / _JOURNAL).is_file()


def commit(project: Path, files: Mapping[Path, bytes], before: Mapping[Path, bytes | None]) -> None:
    """Write all files or none. `before`: what each held when the change was worked out.

    SrcmapError when one has been edited since, or the disk refuses. Call inside `alone`.
    """
    for path, known in before.items():
        if _read(path) != known:
            message = f"{path}: was changed by somebody else meanwhile; nothing was written"
            raise SrcmapError(message, slug="bump", hint="run the command again")
    steps: list[_Step] = []
    try:
        _announce(project, files)
        for path, data in files.items():
            if _read(path) != data:
                steps.append(_stage(project, path.resolve(), data))
        if not steps:
            _swept(project)
            return
        _place_journal(project, _Journal("srcmap-bump-journal/1", tuple(steps)))
    except OSError as error:
        _clear(project, steps)
        raise disk_error(error, project) from error
    except BaseException:
        if not pending(project):
            _clear(project, steps)
        raise
    recover(project)


def _stage(project: Path, path: Path, data: bytes) -> _Step:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{_MARK}{path.name}.", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    mode = path.stat().st_mode & 0o7777 if path.exists() else 0o644
    Path(name).chmod(mode)
    digest = hashlib.sha256(data).hexdigest()
    return _Step(os.path.relpath(name, project), os.path.relpath(path, project), digest)


def _place_journal(project: Path, journal: _Journal) -> None:
    """Decide: from here on the change is finished, not undone."""
    place = project / _FOLDER / _JOURNAL
    handle, name = tempfile.mkstemp(prefix=_MARK, dir=place.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(msgspec.json.encode(journal))
        file.flush()
        os.fsync(file.fileno())
    Path(name).replace(place)


def _finish(project: Path, journal: _Journal) -> None:
    for step in journal.steps:
        staged, target = project / step.staged, project / step.target
        if staged.exists():
            staged.replace(target)
            continue
        data = _read(target)
        if data is None or hashlib.sha256(data).hexdigest() != step.sha256:
            message = f"{target}: the new content that an interrupted bump had written is lost"
            raise SrcmapError(message, slug="bump", hint="restore the file, and bump again")


def _clear(project: Path, steps: list[_Step]) -> None:
    for step in steps:
        with contextlib.suppress(OSError):
            (project / step.staged).unlink()


def _swept(project: Path) -> bool:
    """Remove what a run that decided nothing left beside the files; whether there was any."""
    own = project / _FOLDER
    found = False
    for folder in (own, *_announced(project)):
        for leftover in folder.glob(f"{_MARK}*"):
            with contextlib.suppress(OSError):
                leftover.unlink()
                found = True
    with contextlib.suppress(FileNotFoundError):
        (own / _FOLDERS).unlink()
    return found


def _announce(project: Path, files: Mapping[Path, bytes]) -> None:
    """Note the folders before anything is put into them, for whoever has to clear them."""
    folders = sorted({os.path.relpath(path.resolve().parent, project) for path in files})
    (project / _FOLDER / _FOLDERS).write_bytes(msgspec.json.encode(folders))


def _announced(project: Path) -> list[Path]:
    try:
        data = (project / _FOLDER / _FOLDERS).read_bytes()
        return [project / name for name in msgspec.json.decode(data, type=list[str])]
    except (OSError, msgspec.MsgspecError):
        return []


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
