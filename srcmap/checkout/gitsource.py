"""A pin out of git: the exact commit, its files byte for byte, every object verified.

There is no `git checkout` here. The blobs are read from the object database and written as they
are, so neither line-end conversion nor filters nor hooks of anybody can change a file, and a
repository's own configuration is never read: an existing clone is only lent its objects.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import git

from srcmap.checkout.gitrun import GitFailed, explain, run_git
from srcmap.checkout.nouns import LINK, PROGRAM, NotThere, Silent
from srcmap.errors import CheckoutError
from srcmap.lock.nouns import matches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from srcmap.checkout.nouns import Progress
    from srcmap.checkout.staging import Staging

_FOLDER_MODE, _SUBMODULE = 0o040000, 0o160000
_MAX_DEPTH = 100


class GitTree(NamedTuple):
    """What was written: the commit's tree id."""

    commit: str
    tree: str


def fetch_commit(
    url: str,
    commit: str,
    ref: str | None,
    repository: Path,
    leave_out: tuple[str, ...],
    progress: Progress,
) -> None:
    """Bring one commit, without history, into a new bare repository. NotThere when it cannot."""
    _new_repository(repository)
    run_git(["config", "remote.origin.url", url], repository)
    try:
        _fetch_shallow(commit, repository, leave_out, progress)
    except GitFailed as failed:
        if not _refuses_ids(failed.said):
            raise NotThere(explain(failed.said)) from failed
        _fetch_history(commit, ref, repository, progress)


def borrow_objects(clone: Path, repository: Path) -> None:
    """Make a new bare repository that reads the objects of an existing clone, and nothing else.

    The clone's hooks and configuration have no say, and no owner check stands in the way.
    """
    objects = _objects_of(clone)
    if objects is None:
        message = f"{clone}: is neither a git repository nor an archive"
        raise CheckoutError(message, slug="source")
    _new_repository(repository)
    alternates = repository / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"{objects.resolve()}\n", encoding="utf-8")


def write_tree(
    repository: Path,
    commit: str,
    staging: Staging,
    leave_out: tuple[str, ...],
    progress: Progress | None = None,
) -> GitTree:
    """Write the files of a commit, each object checked against its id on the way.

    NotThere when an object is missing: a shallow or blobless clone.
    """
    progress = progress or Silent()
    with git.Repo(repository) as repo:
        tree = _tree_of(_object(repo, commit, "commit"), commit)
        files = list(_walk(repo, tree, "", leave_out))
        for number, (path, mode, blob) in enumerate(files):
            data = _object(repo, blob, "blob")
            if f"{mode:o}" == LINK:
                staging.link(path, data)
            else:
                staging.add(path, len(data), [data], program=f"{mode:o}" == PROGRAM)
            progress.advance_to((number + 1) / len(files))
    return GitTree(commit, tree)


def _new_repository(folder: Path) -> None:
    run_git(["init", "--quiet", "--bare", "--template=", "--", str(folder)])


def _fetch_shallow(
    commit: str, repository: Path, leave_out: tuple[str, ...], progress: Progress
) -> None:
    fetch = ["fetch", "--progress", "--no-tags", "--no-write-fetch-head", "--depth=1"]
    if not leave_out:
        run_git([*fetch, "origin", commit], repository, progress=progress)
        return
    # First the folders, then the files that are wanted. A server that cannot do this sends all.
    run_git([*fetch, "--filter=blob:none", "origin", commit], repository, progress=progress)
    wanted = _missing_blobs(repository, commit, leave_out)
    if wanted:
        again = ["-c", "fetch.negotiationAlgorithm=noop", *fetch[:-1], "--filter=blob:none"]
        ids = "\n".join(wanted).encode()
        run_git([*again, "--stdin", "origin"], repository, stdin=ids, progress=progress)


def _fetch_history(commit: str, ref: str | None, repository: Path, progress: Progress) -> None:
    """For servers that give no commit by its id: take the branch or tag, else all of them."""
    every = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
    for refs in ([f"+{ref}:{ref}"] if ref else [], every):
        if not refs:
            continue
        try:
            run_git(
                ["fetch", "--progress", "--no-tags", "origin", *refs], repository, progress=progress
            )
            run_git(["cat-file", "-e", f"{commit}^{{tree}}"], repository)
        except GitFailed as failed:
            last = failed
        else:
            return
    raise NotThere(explain(last.said)) from last


def _refuses_ids(said: str) -> bool:
    return any(
        words in said
        for words in (
            "unadvertised object",
            "dumb http",
            "does not support shallow",
            "no such remote ref",
        )
    )


def _missing_blobs(repository: Path, commit: str, leave_out: tuple[str, ...]) -> list[str]:
    listed = run_git(["rev-list", "--objects", "--missing=print", "--no-walk", commit], repository)
    missing = {line[1:] for line in listed.splitlines() if line.startswith("?")}
    with git.Repo(repository) as repo:
        tree = _tree_of(_object(repo, commit, "commit"), commit)
        files = _walk(repo, tree, "", leave_out)
        return sorted({blob for _, _, blob in files} & missing)


def _walk(
    repo: git.Repo, tree: str, prefix: str, leave_out: tuple[str, ...]
) -> Iterator[tuple[str, int, str]]:
    """Every wanted file below a tree, as path, mode and blob id. Submodules are passed over."""
    if prefix.count("/") > _MAX_DEPTH:
        raise CheckoutError(f"refused: folders nested deeper than {_MAX_DEPTH}", slug="hostile")
    for name, mode, found in _entries(_object(repo, tree, "tree")):
        path = prefix + name
        if mode == _SUBMODULE or matches(path, leave_out):
            continue
        if mode == _FOLDER_MODE:
            if f"{path}/**" not in leave_out:
                yield from _walk(repo, found, f"{path}/", leave_out)
        else:
            yield path, mode, found


def _entries(data: bytes) -> Iterator[tuple[str, int, str]]:
    """Give the entries of a tree object: `<octal mode> <name>` NUL, then 20 bytes of id."""
    position = 0
    while position < len(data):
        end = data.index(b"\0", position)
        mode, _, name = data[position:end].partition(b" ")
        yield name.decode("utf-8", "surrogateescape"), int(mode, 8), data[end + 1 : end + 21].hex()
        position = end + 21


def _object(repo: git.Repo, name: str, kind: str) -> bytes:
    """Give the raw bytes of an object, if they are what its id promises."""
    try:
        found = repo.odb.stream(bytes.fromhex(name))
        data: bytes = found.read()
    except (ValueError, git.BadName, git.BadObject) as error:
        raise NotThere(f"{kind} {name} is missing") from error
    header = f"{kind} {len(data)}\0".encode()
    if hashlib.sha1(header + data, usedforsecurity=False).hexdigest() != name:
        message = f"{kind} {name} is damaged or forged: its bytes do not give its id"
        raise CheckoutError(message, slug="not-verified", hint="fetch it from somewhere else")
    return data


def _tree_of(commit: bytes, name: str) -> str:
    first = commit.split(b"\n", 1)[0]
    if not first.startswith(b"tree "):
        raise CheckoutError(f"commit {name} names no tree", slug="not-verified")
    return first[5:].decode("ascii", "replace")


def _objects_of(clone: Path) -> Path | None:
    """Find the object folder of a clone: plain, bare, or with a `.git` file that points on."""
    for folder in (clone / ".git", clone):
        if folder.is_file():
            text = folder.read_text(encoding="utf-8", errors="surrogateescape")
            folder = clone / text.removeprefix("gitdir:").strip()  # noqa: PLW2901
        common = folder / "commondir"
        if common.is_file():
            folder = folder / common.read_text(encoding="utf-8").strip()  # noqa: PLW2901
        if (folder / "objects").is_dir() and (folder / "HEAD").is_file():
            return folder / "objects"
    return None
