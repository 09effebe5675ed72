"""Pins out of archives: only what is wanted, at upstream's paths, and nothing from elsewhere."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING

import pytest

from srcmap.checkout import archive as module
from srcmap.checkout import sync
from srcmap.errors import CheckoutError
from tests.checkout.world import archive_of, lock_of, make_sdist, member

if TYPE_CHECKING:
    from srcmap.lock import Archive

COMMIT = "c" * 40

SDIST = [
    member("kernels-1/"),
    member("kernels-1/.git_commit.txt", COMMIT.encode()),
    member("kernels-1/PKG-INFO", b"Name: kernels"),
    member("kernels-1/src/a b.py", b"a = 1\r\n"),
    member("kernels-1/run.sh", b"#!/bin/sh\n", mode=0o755),
    member("kernels-1/link.py", type=tarfile.SYMTYPE, linkname="src/a b.py"),
    member("kernels-1/3rdparty/tvm/.git", b"gitdir: ../.git/modules/tvm"),
    member("kernels-1/3rdparty/out", type=tarfile.SYMTYPE, linkname="/etc"),
]
FOREIGN = {"commit_file": ".git_commit.txt", "foreign": (".git_commit.txt", "PKG-INFO")}


def from_archive(path: Path, archive: Archive, project: Path, commit: str | None = COMMIT):  # type: ignore[no-untyped-def]
    lock, pin = lock_of(
        "https://invalid.example/k", commit, archives=(archive,), leave_out=("3rdparty/**",)
    )
    return sync(lock, pin, project, source=str(path))


def sdist(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> tuple[Path, Archive]:
    path = tmp_path / "kernels-1.tar.gz"
    make_sdist(path, members)
    return path, archive_of(path, **FOREIGN)


def test_an_sdist_gives_what_upstream_has(tmp_path: Path, project: Path) -> None:
    path, archive = sdist(tmp_path, SDIST)
    checkout = from_archive(path, archive, project)
    assert checkout.paths() == ("run.sh", "src/a b.py")
    assert checkout.read("src/a b.py") == b"a = 1\r\n"
    assert (checkout.root / "link.py").is_symlink()
    assert (checkout.manifest.commit, checkout.manifest.source) == (COMMIT, "kernels-1.tar.gz")
    assert not checkout.partial
    assert (checkout.root / "run.sh").stat().st_mode & stat.S_IXUSR


def test_another_archive_of_the_same_name(tmp_path: Path, project: Path) -> None:
    path, archive = sdist(tmp_path, SDIST)
    make_sdist(path, SDIST[:-1])
    with pytest.raises(CheckoutError, match="expected sha256") as caught:
        from_archive(path, archive, project)
    assert caught.value.slug == "not-verified"


@pytest.mark.parametrize("recorded", [b"d" * 40, b"", b"\xff\x00"])
def test_an_archive_of_another_commit(tmp_path: Path, project: Path, recorded: bytes) -> None:
    path, archive = sdist(tmp_path, [member("kernels-1/.git_commit.txt", recorded), *SDIST[2:]])
    with pytest.raises(CheckoutError, match=r"records the commit .*, expected cccc"):
        from_archive(path, archive, project)


def test_an_archive_that_records_nothing(tmp_path: Path, project: Path) -> None:
    path, archive = sdist(tmp_path, SDIST[2:])
    with pytest.raises(CheckoutError, match="records the commit None"):
        from_archive(path, archive, project)


HOSTILE = [
    (member("../evil.py", b"x"), "leads out of the tree"),
    (member("kernels-1/../../evil.py", b"x"), "leads out of the tree"),
    (member("/srv/evil.py", b"x"), "leads out of the tree"),
    (member("kernels-1/a\\..\\..\\..\\evil.py", b"x"), "leads out of the tree"),
    (member("kernels-1/.git/hooks/x", b"x"), "would write into a .git folder"),
    (member("kernels-1/out", type=tarfile.SYMTYPE, linkname="../../evil"), "is a link out of"),
    (member("kernels-1/out", type=tarfile.SYMTYPE, linkname="/etc"), "is a link out of the tree"),
    (member("kernels-1/hard", type=tarfile.LNKTYPE, linkname="/etc/passwd"), "is a device"),
    (member("kernels-1/dev", type=tarfile.CHRTYPE, devmajor=1, devminor=3), "is a device"),
    (member("kernels-1/pipe", type=tarfile.FIFOTYPE), "is a device"),
]


@pytest.mark.parametrize(("bad", "why"), HOSTILE, ids=[m[0].name for m, _ in HOSTILE])
def test_hostile_members(
    tmp_path: Path, project: Path, bad: tuple[tarfile.TarInfo, bytes], why: str
) -> None:
    path, archive = sdist(tmp_path, [*SDIST, bad])
    with pytest.raises(CheckoutError, match=why) as caught:
        from_archive(path, archive, project)
    assert caught.value.message.startswith("refused: ")
    assert not (project / "_vendor" / "kernels-v1").exists()
    assert not list(tmp_path.rglob("evil*"))


def test_a_file_through_a_link(tmp_path: Path, project: Path) -> None:
    link = member("kernels-1/d", type=tarfile.SYMTYPE, linkname="src")
    path, archive = sdist(tmp_path, [*SDIST, link, member("kernels-1/d/x.py", b"x")])
    with pytest.raises(CheckoutError, match="which is no folder"):
        from_archive(path, archive, project)


def test_a_million_members(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMBERS", 100)
    many = [member(f"kernels-1/3rdparty/{number}") for number in range(101)]
    path, archive = sdist(tmp_path, many)
    with pytest.raises(CheckoutError, match="an archive of more than 100 members"):
        from_archive(path, archive, project)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.8])
def test_a_damaged_archive(tmp_path: Path, project: Path, share: float) -> None:
    path, _ = sdist(tmp_path, [*SDIST, member("kernels-1/big.py", os.urandom(50_000))])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)] or b"no archive at all")
    with pytest.raises(CheckoutError) as caught:
        from_archive(path, archive_of(path, **FOREIGN), project)
    assert caught.value.slug == "archive"
    assert "is damaged" in caught.value.message


def wheel(tmp_path: Path) -> tuple[Path, Archive]:
    path = tmp_path / "kernels-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for name in (
            "kernels/__init__.py",
            "kernels/lib/libk.so",
            "kernels/3rdparty/tvm/x.h",
            "kernels/src/op/a.cc",
            "kernels-1.dist-info/METADATA",
        ):
            file.writestr(name, name)
    covers = (("src/**", "kernels/src/**"), ("kernels/**", "kernels/**"))
    foreign = ("kernels/lib/**", "kernels/3rdparty/**")
    return path, archive_of(path, covers=covers, foreign=foreign)


def test_a_wheel_is_partial_and_has_upstreams_paths(tmp_path: Path, project: Path) -> None:
    path, archive = wheel(tmp_path)
    checkout = from_archive(path, archive, project, commit=None)
    assert checkout.paths() == ("kernels/__init__.py", "src/op/a.cc")
    assert checkout.read("src/op/a.cc") == b"kernels/src/op/a.cc"
    assert checkout.partial
    assert checkout.manifest.covers == ("kernels/**", "src/**")
    assert checkout.manifest.commit is None


def test_a_hostile_wheel(tmp_path: Path, project: Path) -> None:
    path, _ = wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("../evil.py", "x")
    archive = archive_of(path, covers=(("src/**", "kernels/src/**"),))
    with pytest.raises(CheckoutError, match="leads out of the tree"):
        from_archive(path, archive, project, commit=None)


def test_an_archive_that_the_lock_does_not_know(tmp_path: Path, project: Path) -> None:
    path, archive = sdist(tmp_path, SDIST)
    other = path.rename(tmp_path / "other-1.tar.gz")
    with pytest.raises(
        CheckoutError, match=r"other-1.tar.gz is no archive of kernels@v1; .*kernels-1"
    ):
        from_archive(other, archive, project)
