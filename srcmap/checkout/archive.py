"""A verified archive in, the upstream files that it holds out, at their upstream paths.

The archive is read as a stream and only what is wanted is written: tilelang's sdist would unpack
to 470 MB of compilers.
"""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, NamedTuple

from srcmap.checkout.staging import leads_out
from srcmap.errors import CheckoutError
from srcmap.lock.nouns import matches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from srcmap.checkout.nouns import Progress
    from srcmap.checkout.staging import Staging
    from srcmap.lock import Archive

MAX_MEMBERS = 250_000
"""Ten times what tilelang's sdist has, compilers included."""
_CHUNK = 1 << 18


class _Member(NamedTuple):
    name: str
    size: int
    kind: str
    """`file`, `link`, `folder`, or `other`: devices, pipes and hard links."""
    program: bool
    target: str
    data: IO[bytes] | None


def unpack(
    path: Path, archive: Archive, leave_out: tuple[str, ...], staging: Staging, progress: Progress
) -> str | None:
    """Write what is wanted; give the commit that the archive records, if it records one."""
    commit: str | None = None
    try:
        for member in _counted(_members(path, archive, progress)):
            inside = _inside(member, archive)
            if inside == archive.commit_file and member.data:
                commit = member.data.read(100).decode("ascii", "replace").strip()
            upstream = _upstream(inside, archive)
            if upstream is not None and not matches(upstream, leave_out):
                _write(member, upstream, staging)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise CheckoutError(f"{path.name}: is damaged: {error}", slug="archive") from error
    return commit


def _write(member: _Member, upstream: str, staging: Staging) -> None:
    if member.kind == "file" and member.data:
        staging.add(upstream, member.size, _chunks(member.data), program=member.program)
    elif member.kind == "link":
        staging.link(upstream, member.target.encode("utf-8", "surrogateescape"))
    elif member.kind == "other":
        raise _refused(member.name, "is a device, a pipe or a hard link")


def _inside(member: _Member, archive: Archive) -> str:
    """Give the path below the archive's own top folder. Refuses whatever points elsewhere."""
    name = member.name.removesuffix("/") if member.kind == "folder" else member.name
    if leads_out(name):
        raise _refused(name, "leads out of the tree")
    return name.partition("/")[2] if archive.kind == "sdist" else name


def _upstream(inside: str, archive: Archive) -> str | None:
    """Where a member lies in the repository; None when it is not the repository's."""
    if not inside or matches(inside, archive.foreign):
        return None
    if not archive.covers:
        return inside
    # The longest match wins: tilelang/src/** is the repository's src/**, not its tilelang/**.
    for upstream, pattern in sorted(archive.covers, key=lambda pair: -len(pair[1])):
        if matches(inside, (pattern,)):
            return upstream.removesuffix("**") + inside[len(pattern.removesuffix("**")) :]
    return None


def _members(path: Path, archive: Archive, progress: Progress) -> Iterator[_Member]:
    if archive.file.endswith((".whl", ".zip")):
        yield from _zip_members(path, progress)
    else:
        yield from _tar_members(path, progress)


def _tar_members(path: Path, progress: Progress) -> Iterator[_Member]:
    whole = path.stat().st_size
    with path.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as tar:
        for info in tar:
            kind = "file" if info.isreg() else "folder" if info.isdir() else "other"
            kind = "link" if info.issym() else kind
            data = tar.extractfile(info) if kind == "file" else None
            yield _Member(info.name, info.size, kind, bool(info.mode & 0o111), info.linkname, data)
            tar.members = []  # type: ignore[attr-defined]  # it would keep every one
            progress.advance_to(raw.tell() / whole)


def _zip_members(path: Path, progress: Progress) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as file:
        infos = file.infolist()
        for number, info in enumerate(infos):
            mode = info.external_attr >> 16
            if info.is_dir():
                yield _Member(info.filename, 0, "folder", False, "", None)
            elif stat.S_ISLNK(mode):
                target = file.read(info).decode("utf-8", "surrogateescape")
                yield _Member(info.filename, 0, "link", False, target, None)
            else:
                with file.open(info) as data:
                    program = bool(mode & 0o111)
                    yield _Member(info.filename, info.file_size, "file", program, "", data)
            progress.advance_to((number + 1) / len(infos))


def _counted(members: Iterator[_Member]) -> Iterator[_Member]:
    for number, member in enumerate(members):
        if number >= MAX_MEMBERS:
            message = f"refused: an archive of more than {MAX_MEMBERS} members"
            raise CheckoutError(message, slug="hostile")
        yield member


def _chunks(data: IO[bytes]) -> Iterator[bytes]:
    while chunk := data.read(_CHUNK):
        yield chunk


def _refused(name: str, why: str) -> CheckoutError:
    return CheckoutError(f"refused: '{name[:200]}' {why}", slug="hostile")
