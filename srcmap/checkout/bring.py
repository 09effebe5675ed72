"""A pin in, a verified checkout in its place out: which source is tried, and what is believed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from srcmap.checkout.check import check_checkout
from srcmap.checkout.nouns import Checkout, Manifest, NotThere, Silent
from srcmap.checkout.publish import (
    alone,
    keep_edited,
    put_in_place,
    refuse_stranger,
    staging_folder,
)
from srcmap.checkout.staging import Staging
from srcmap.checkout.store import Place, at_place, formerly, vendor_folder
from srcmap.errors import CheckoutError
from srcmap.lock.read import check_url
from srcmap.model import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from srcmap.checkout.nouns import Progress
    from srcmap.lock import Archive, Lock, Pin


class Arrival(NamedTuple):
    """What a sync did."""

    checkout: Checkout
    fresh: bool
    """False when a good tree was there already."""


class _Job(NamedTuple):
    lock: Lock
    pin: Pin
    place: Place
    spare: Path
    """An empty folder on the disk of the final place, gone when the sync is over."""
    progress: Progress
    start: Path

    @property
    def name(self) -> str:
        return f"{self.lock.name}@{self.pin.version}"


class _Source(NamedTuple):
    name: str
    commit: str | None
    tree: str | None
    archive: Archive | None


def sync(
    lock: Lock,
    pin: Pin,
    project: Path | None,
    progress: Progress | None = None,
    source: str | None = None,
    cited: Mapping[str, str] | None = None,
) -> Arrival:
    """Bring a pin to its place under `_vendor/` of the project, or in the user's cache.

    `source` is a git clone, a git URL or an archive to use instead of the lock's own.
    `cited` gives paths and the git blob ids that they must have.
    Raises CheckoutError when no source has the pin or what came is not it; then the tree that
    was there before, or none, is what is left.
    """
    progress = progress or Silent()
    place = Place(vendor_folder(project), lock, pin)
    name = f"{lock.name}@{pin.version}"
    with alone(place, lambda: progress.tell(Note("pins.waiting", {"name": name}))):
        there = at_place(place, lock, pin)
        if there is not None and not source and not check_checkout(there).changes:
            return Arrival(there, fresh=False)
        refuse_stranger(place, lock, pin)
        with staging_folder(place) as spare:
            job = _Job(lock, pin, place, spare, progress, project or Path.cwd())
            return Arrival(_bring(job, source, cited or {}), fresh=True)


def _bring(job: _Job, source: str | None, cited: Mapping[str, str]) -> Checkout:
    root = job.spare / "tree"
    staging = Staging(root)
    root.mkdir()
    used = _from(job, source, staging) if source else _from_lock(job, staging)
    archive = used.archive
    manifest = Manifest(
        repo=job.lock.name,
        version=job.pin.version,
        commit=used.commit,
        tree=used.tree,
        source=used.name,
        sha256=archive.sha256 if archive else None,
        partial=bool(archive and archive.partial),
        covers=tuple(sorted(part for part, _ in archive.covers)) if archive else (),
        left_out=(*job.lock.leave_out, *(archive.lacks if archive else ())),
        entries=staging.finish(),
    )
    _verify_cited(job, manifest, cited)
    _save_edits(job)
    put_in_place(job.place, root, manifest, job.spare)
    return Checkout(root=job.place.tree, lock=job.lock, pin=job.pin, manifest=manifest)


def _from_lock(job: _Job, staging: Staging) -> _Source:
    """Git first, then each archive; the reasons of all that failed, when all failed."""
    reasons: list[str] = []
    if job.pin.commit is not None:
        try:
            return _from_git(job, job.lock.url, job.pin.commit, staging)
        except NotThere as missing:
            reasons.append(f"git, {job.lock.url}: {missing.why}")
            if job.pin.archives:
                _tell_detour(job, missing.why)
    for archive in job.pin.archives:
        try:
            return _from_index(job, archive, staging)
        except NotThere as missing:  # noqa: PERF203  # a handful of archives
            reasons.append(f"archive: {missing.why}")
    raise CheckoutError(
        f"{job.name} could not be fetched.\n  " + "\n  ".join(reasons),
        slug="unreachable",
        hint="check the network, proxy and package index, or name another place: "
        f"srcmap sync {job.name} --from PATH-OR-URL",
    )


def _from(job: _Job, source: str, staging: Staging) -> _Source:
    """Give a source that a person named; nothing else is tried."""
    path = Path(source).expanduser()
    if path.is_file() or _is_archive_url(source):
        return _from_named_archive(job, source, path, staging)
    commit = job.pin.commit
    if commit is None:
        archives = ", ".join(archive.file for archive in job.pin.archives)
        message = f"{job.name} has no known commit; --from takes {archives}"
        raise CheckoutError(message, slug="source")
    if path.is_dir():
        return _from_clone(job, path, commit, staging)
    if wrong := check_url(source):
        raise CheckoutError(f"--from '{source}': {wrong}", slug="source")
    try:
        return _from_git(job, source, commit, staging)
    except NotThere as missing:
        message = f"{job.name} could not be fetched.\n  git, {source}: {missing.why}"
        raise CheckoutError(message, slug="unreachable") from missing


def _from_git(job: _Job, url: str, commit: str, staging: Staging) -> _Source:
    from srcmap.checkout.gitrun import quiet_git
    from srcmap.checkout.gitsource import fetch_commit, write_tree

    job.progress.step("fetch", job.name)
    repository = job.spare / "git"
    with quiet_git():
        fetch_commit(url, commit, job.pin.ref, repository, job.lock.leave_out, job.progress)
        job.progress.step("unpack", job.name)
        found = write_tree(repository, commit, staging, job.lock.leave_out, job.progress)
    _verify_tree(job, found.tree)
    return _Source("git", commit, found.tree, None)


def _from_clone(job: _Job, clone: Path, commit: str, staging: Staging) -> _Source:
    from srcmap.checkout.gitrun import quiet_git
    from srcmap.checkout.gitsource import borrow_objects, write_tree

    job.progress.step("unpack", job.name)
    repository = job.spare / "git"
    try:
        with quiet_git():
            borrow_objects(clone, repository)
            found = write_tree(repository, commit, staging, job.lock.leave_out, job.progress)
    except NotThere as missing:
        # Without --refetch git believes that a blobless or shallow clone has it already.
        raise CheckoutError(
            f"{clone}: lacks what {job.name} needs: {missing.why}",
            slug="incomplete-clone",
            hint=f"git -C {clone} fetch --refetch --no-filter --depth=1 {job.lock.url} {commit}",
        ) from missing
    _verify_tree(job, found.tree)
    return _Source("git", commit, found.tree, None)


def _from_index(job: _Job, archive: Archive, staging: Staging) -> _Source:
    from srcmap.checkout.index import download
    from srcmap.checkout.indexconfig import index_settings

    job.progress.step("download", archive.file)
    file = job.spare / archive.file
    download(archive, index_settings(os.environ, job.start), file, job.progress)
    return _from_archive(job, archive, file, staging)


def _from_named_archive(job: _Job, source: str, path: Path, staging: Staging) -> _Source:
    from srcmap.checkout.index import download_url, verify_file
    from srcmap.checkout.indexconfig import index_settings

    name = source.partition("#")[0].partition("?")[0].replace("\\", "/").rpartition("/")[2]
    archive = next((a for a in job.pin.archives if a.file == name), None)
    if archive is None:
        known = ", ".join(a.file for a in job.pin.archives) or "none"
        message = f"{name} is no archive of {job.name}; its lock knows: {known}"
        raise CheckoutError(message, slug="source")
    if path.is_file():
        verify_file(path, archive)
    else:
        path = job.spare / archive.file
        job.progress.step("download", archive.file)
        try:
            settings = index_settings(os.environ, job.start)
            download_url(source, settings, archive, path, job.progress)
        except NotThere as missing:
            raise CheckoutError(missing.why, slug="unreachable") from missing
    return _from_archive(job, archive, path, staging)


def _from_archive(job: _Job, archive: Archive, file: Path, staging: Staging) -> _Source:
    from srcmap.checkout.archive import unpack

    job.progress.step("unpack", job.name)
    commit = unpack(file, archive, job.lock.leave_out, staging, job.progress)
    if archive.commit_file and job.pin.commit and commit != job.pin.commit:
        raise CheckoutError(
            f"{archive.file}: records the commit {commit} in {archive.commit_file}, "
            f"expected {job.pin.commit}",
            slug="not-verified",
        )
    recorded = commit if archive.commit_file else None
    return _Source(archive.file, recorded, None, archive)


def _verify_tree(job: _Job, tree: str) -> None:
    if job.pin.tree is not None and tree != job.pin.tree:
        raise CheckoutError(
            f"{job.name}: its commit has the tree {tree}, the lock says {job.pin.tree}",
            slug="not-verified",
            hint=f"somebody edited {job.lock.path}",
        )


def _verify_cited(job: _Job, manifest: Manifest, cited: Mapping[str, str]) -> None:
    have = {entry.path: entry.blob for entry in manifest.entries}
    for path, blob in sorted(cited.items()):
        if have.get(path) != blob:
            raise CheckoutError(
                f"{job.name}: the map cites {path} as {blob}, found {have.get(path, 'no file')}",
                slug="not-verified",
                hint="if the pin was changed on purpose: srcmap map build",
            )


def _save_edits(job: _Job) -> None:
    """Keep a tree that somebody worked in; one that merely lost files is not worth it."""
    if not job.place.tree.exists():
        return
    there = formerly(job.place, job.lock, job.pin)
    found = check_checkout(there) if there else None
    if found is None or found.edited or found.extra:
        kept = keep_edited(job.place)
        job.progress.tell(Note("pins.kept-edits", {"name": job.name, "path": str(kept)}))


def _tell_detour(job: _Job, why: str) -> None:
    from srcmap.checkout.gitrun import NO_COMMIT

    key = "pins.git-lacks" if why == NO_COMMIT else "pins.git-failed"
    job.progress.tell(Note(key, {"name": job.name, "url": job.lock.url, "why": why}))


def _is_archive_url(source: str) -> bool:
    return source.startswith(("https://", "http://")) and source.partition("#")[0].endswith(
        (".tar.gz", ".tgz", ".whl", ".zip")
    )
