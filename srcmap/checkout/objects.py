"""A clone's objects in, trees, files and patches of its commits out; nothing is checked out.

The clone only lends its objects: its configuration, hooks and owner have no say.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from srcmap.checkout.gitrun import GitFailed, explain, quiet_git, run_git
from srcmap.checkout.gitsource import borrow_objects
from srcmap.checkout.nouns import LINK, Entry, NotThere
from srcmap.lock.nouns import matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType

_FULL = re.compile(r"[0-9a-f]{40}")


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """One commit of a first-parent history, as far as a reader needs it."""

    id: str
    date: str
    """ISO 8601, of the committer."""
    subject: str
    patch: str
    """`git diff -U0` against its first parent; empty when nothing of interest changed."""


class Objects:
    """The objects of one clone. Use as a context manager."""

    def __init__(self, clone: Path) -> None:
        self.clone = clone
        self._temporary = tempfile.TemporaryDirectory(prefix="srcmap-")
        self._git = Path(self._temporary.name) / "git"

    def __enter__(self) -> Objects:
        with quiet_git():
            borrow_objects(self.clone, self._git)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._temporary.cleanup()

    def resolve(self, name: str) -> str | None:
        """Give the commit that a tag, a branch or digits of an id mean here; None: none does."""
        with quiet_git():
            for spec in (f"refs/tags/{name}", f"refs/heads/{name}"):
                found = _commit_of(self.clone, spec)
                if found:
                    return found
            if re.fullmatch(r"[0-9a-f]{7,40}", name):
                return self._object(name)
        return None

    def _object(self, digits: str) -> str | None:
        try:
            found = run_git(["rev-parse", "--verify", "--quiet", f"{digits}^{{commit}}"], self._git)
        except GitFailed:
            return None
        return found.strip() or None

    def tree(self, commit: str, leave_out: tuple[str, ...] = ()) -> tuple[Entry, ...]:
        """List the files of a commit. NotThere when a folder of it is missing."""
        listed = self._run(["ls-tree", "-r", "-z", "--full-tree", commit])
        entries = []
        for row in listed.split("\0"):
            head, _, path = row.partition("\t")
            mode, kind, blob = [*head.split(), "", "", ""][:3]
            if kind == "blob" and mode != LINK and not matches(path, leave_out):
                entries.append(Entry(path, mode, blob))
        return tuple(sorted(entries))

    def read(self, blobs: Sequence[str]) -> dict[str, bytes]:
        """Read files by their ids; those that the clone lacks are not in the answer."""
        given = "".join(f"{blob}\n" for blob in blobs).encode()
        with quiet_git():
            try:
                out = run_git(["cat-file", "--batch"], self._git, stdin=given)
            except GitFailed as failed:
                raise NotThere(explain(failed.said)) from failed
        return dict(_batch(out.encode("utf-8", "surrogateescape")))

    def history(self, old: str, new: str, paths: Iterable[str] = ()) -> list[Commit]:
        """List the commits after `old` up to `new`, first parents only, oldest first.

        NotThere when an object is missing or `old` is no ancestor of `new`.
        """
        base = self._run(["merge-base", old, new]).strip()
        if base != old:
            raise NotThere(f"{old[:10]} is no ancestor of {new[:10]}: they are on two branches")
        return self._log([f"{old}..{new}"], paths)

    def file_history(self, commit: str, path: str) -> list[Commit]:
        """List the commits up to `commit` that touch one file, across its renames, oldest first."""
        return self._log(["--follow", commit], [path])

    def has(self, commit: str) -> bool:
        """Whether the clone has a commit and its folders."""
        try:
            self._run(["cat-file", "-e", f"{commit}^{{tree}}"])
        except NotThere:
            return False
        return True

    def _log(self, revisions: list[str], paths: Iterable[str]) -> list[Commit]:
        mark = "\x1eCOMMIT\x1f"
        out = self._run(
            [
                "-c", "core.quotePath=true", "-c", "diff.renameLimit=4000", "log",
                "--first-parent", "-m", f"--format={mark}%H%x1f%cI%x1f%s%x1f",
                "-p", "-M", "--histogram", "-w", "-U0", "--no-color", "--no-ext-diff",
                "--no-textconv", "--full-index", *revisions, "--", *paths,
            ]
        )  # fmt: skip
        # Not git's own --reverse: with it, --follow loses the file at its first rename.
        return list(_commits(out, mark))[::-1]

    def _run(self, arguments: list[str]) -> str:
        with quiet_git():
            try:
                return run_git(arguments, self._git)
            except GitFailed as failed:
                raise NotThere(explain(failed.said)) from failed


def clone_of(url: str) -> Path | None:
    """Name the clone on this disk that a URL leads to, by git's own `insteadOf`, if it does."""
    try:
        with quiet_git():
            real = run_git(["ls-remote", "--get-url", "--", url]).strip()
    except GitFailed:
        return None
    if real.startswith("file://"):
        from urllib.request import url2pathname

        real = url2pathname(real.removeprefix("file://"))
    path = Path(real)
    return path if "://" not in real and path.is_dir() else None


def is_clone(folder: Path) -> bool:
    """Whether a folder is a git repository: plain, bare, or a work tree with a `.git` file."""
    from srcmap.checkout.gitsource import _objects_of

    return _objects_of(folder) is not None


def _commit_of(clone: Path, ref: str) -> str | None:
    """Ask a clone for a ref, as a stranger would: its configuration is not read."""
    try:
        listed = run_git(["ls-remote", "--quiet", "--", str(clone), ref, f"{ref}^{{}}"])
    except GitFailed:
        return None
    found = [line.split("\t")[0] for line in listed.splitlines() if line.split("\t")[1:] in
             ([ref], [f"{ref}^{{}}"])]  # fmt: skip
    return found[-1] if found and _FULL.fullmatch(found[-1]) else None


def _batch(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Give the objects of `cat-file --batch`: `<id> blob <size>` LF, bytes, LF."""
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        words = data[at:end].split()
        at = end + 1
        if len(words) == 3:
            size = int(words[2])
            yield words[0].decode(), data[at : at + size]
            at += size + 1


def _commits(out: str, mark: str) -> Iterator[Commit]:
    for part in out.split(mark)[1:]:
        name, date, subject, patch = part.split("\x1f", 3)
        yield Commit(id=name, date=date, subject=subject, patch=patch.lstrip("\n"))
