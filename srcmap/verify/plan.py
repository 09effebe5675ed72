"""Variants and pins -> what will be run, and what cannot be and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from srcmap.checkout import find_checkout
from srcmap.engines.caselist import LISTED, UNTESTED, listed
from srcmap.engines.jobs import Engine, Job
from srcmap.model import Note
from srcmap.verify.kept import our_folders

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.catalogue import Catalogue, Variant
    from srcmap.lock import Lock, Pin


class Planned(NamedTuple):
    """One file of one pin with one engine: a job, or the reason why there is none."""

    variants: tuple[str, ...]
    repo: str
    pin: str
    path: str
    engine: Engine
    job: Job | None
    reason: Note | None = None
    ours: tuple[Path, ...] = ()
    """Folders of our re-implementations of the variants."""
    ours_variants: tuple[str, ...] = ()


def plan(
    catalogue: Catalogue,
    wanted: Sequence[Variant],
    pins: Sequence[tuple[Lock, Pin]],
    project: Path | None,
    *,
    engines: Sequence[Engine] = ("interpreter",),
    seed: int = 0,
    theirs: bool = True,
) -> list[Planned]:
    """Plan every file of the variants (all of them, and files of no variant, without any)."""
    found = []
    for lock, pin in pins:
        checkout = find_checkout(lock, pin, project)
        for path, ids in _files(catalogue, wanted, lock.name):
            for engine in engines:
                name = (lock.name, pin.version, path)
                if checkout is None:
                    missing = Note("run.no-checkout", {"pin": f"{lock.name}@{pin.version}"})
                    found.append(Planned(ids, *name, engine, None, missing))
                    continue
                root = Path(checkout.root)
                reason = _reason(lock.name, path, root)
                of_file = _variants_of(catalogue, lock.name, path)
                ours = our_folders(project, of_file)
                job = None
                if reason is None:
                    job = _job(lock.name, path, root, engine, seed, theirs, ours)
                found.append(Planned(ids, *name, engine, job, reason, ours, tuple(of_file)))
    return found


def _files(
    catalogue: Catalogue, wanted: Sequence[Variant], repo: str
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield Python files of these variants with the ids of those, each file once."""
    paths: dict[str, list[str]] = {}
    for variant in wanted or catalogue.variants:
        for request in variant.files:
            if request.repo == repo and request.path.endswith(".py") and _is_kernel(request.path):
                paths.setdefault(request.path, []).append(variant.id)
    if not wanted:
        for row in LISTED:
            if row.repo == repo:
                paths.setdefault(row.path, [])
    yield from ((path, tuple(ids)) for path, ids in paths.items())


def _is_kernel(path: str) -> bool:
    return path.startswith("examples/")


def _variants_of(catalogue: Catalogue, repo: str, path: str) -> list[str]:
    """Return the variants that are in a file, whichever were asked for."""
    return [
        variant.id
        for variant in catalogue.variants
        if any((request.repo, request.path) == (repo, path) for request in variant.files)
    ]


def _modules(folders: Sequence[Path]) -> tuple[str, ...]:
    """Return where `kernels` lies, and the modules that answer for upstream."""
    if not folders:
        return ()
    names = [
        f"{folder.parent.name}.{folder.name}.{path.stem}"
        for folder in folders
        for path in sorted(folder.glob("*.py"), reverse=True)
        if "def like_upstream(" in path.read_text(encoding="utf-8")
    ]
    return (str(folders[0].parent.parent), *names)


def _reason(repo: str, path: str, root: Path) -> Note | None:
    if not (root / path).is_file():
        return Note("run.not-in-pin", {"path": path})
    if listed(repo, path) is None:
        return Note(UNTESTED.get((repo, path), "run.no-case"), {"path": path})
    return None


def _job(
    repo: str,
    path: str,
    root: Path,
    engine: Engine,
    seed: int,
    theirs: bool,
    ours: tuple[Path, ...],
) -> Job:
    row = listed(repo, path)
    return Job(
        kind="check",
        repo=repo,
        root=str(root),
        path=path,
        engine=engine,
        case=row.case if row else "",
        seed=seed,
        theirs=theirs and engine == "interpreter",
        ours=_modules(ours) if engine == "interpreter" else (),
    )
