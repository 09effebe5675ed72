"""What the tests of checkouts are made of: repositories, archives and locks."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import tarfile
from typing import TYPE_CHECKING

from srcmap.lock import Archive, Lock, Pin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


class Upstream:
    """A repository that somebody else owns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    @property
    def url(self) -> str:
        return self.path.as_uri()

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env={**os.environ, **ENVIRONMENT},
            input=stdin,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def write(self, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            place = self.path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)

    def commit(self, files: Mapping[str, bytes] | None = None, message: str = "m") -> str:
        self.write(files or {})
        self.git("add", "--all", "--force")
        self.git("-c", "core.autocrlf=false", "commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def forged(self, entries: list[tuple[str, str, bytes]]) -> str:
        """Commit a tree that no worktree could make: (mode, name, content or tree id)."""
        raw = b""
        for mode, name, content in entries:
            kind = "tree" if mode == "40000" else "blob"
            found = (
                content.decode()
                if kind == "tree"
                else self.git("hash-object", "-w", "--stdin", stdin=content)
            )
            raw += f"{mode} {name}".encode() + b"\0" + bytes.fromhex(found)
        tree = self.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
        commit = self.git("commit-tree", tree, "-m", "forged")
        self.git("update-ref", "refs/heads/forged", commit)
        return commit


def lock_of(url: str, commit: str | None, **more: object) -> tuple[Lock, Pin]:
    """A lock `kernels` with one pin, `v1`."""
    leave_out = more.pop("leave_out", ())
    pin = Pin(version="v1", requested="v1", commit=commit, **more)  # type: ignore[arg-type]
    lock = Lock(
        name="kernels",
        url=url,
        licence="",
        current="v1",
        pins=(pin,),
        leave_out=leave_out,  # type: ignore[arg-type]
    )
    return lock, pin


def make_sdist(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Archive:
    """Write a .tar.gz of exactly these members, and the lock's entry for it."""
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return archive_of(path)


def archive_of(path: Path, **more: object) -> Archive:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    kind = "wheel" if path.suffix == ".whl" else "sdist"
    fields = {"kind": kind, "project": "kernels", "file": path.name, "sha256": digest, **more}
    return Archive(**fields)  # type: ignore[arg-type]


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data
