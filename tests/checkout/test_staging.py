"""The one place where files are written: whatever points elsewhere is refused, plainly."""

from __future__ import annotations

import errno
import os
from pathlib import Path  # noqa: TC003
from typing import Any

import pytest

from srcmap.checkout import staging as module
from srcmap.checkout.nouns import Entry, blob_id
from srcmap.checkout.staging import Staging
from srcmap.errors import CheckoutError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def add(staging: Staging, path: str, data: bytes = b"x", **more: Any) -> None:
    staging.add(path, len(data), [data], **more)


def test_files_are_written_and_named(root: Path) -> None:
    staging = Staging(root)
    add(staging, "b.py", b"1\r\n")
    add(staging, "a/run.sh", b"#!", program=True)
    assert staging.finish() == (
        Entry("a/run.sh", "100755", blob_id(b"#!")),
        Entry("b.py", "100644", blob_id(b"1\r\n")),
    )
    assert (root / "b.py").read_bytes() == b"1\r\n"
    assert os.access(root / "a/run.sh", os.X_OK)


def test_blob_id_is_gits() -> None:
    assert blob_id(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


HOSTILE = [
    ("../x", "leads out of the tree"),
    ("a/../../x", "leads out of the tree"),
    ("/etc/x", "leads out of the tree"),
    ("C:/x", "leads out of the tree"),
    ("a\\..\\..\\x", "leads out of the tree"),
    ("a//b", "is no proper path"),
    ("./a", "is no proper path"),
    ("a/", "is no proper path"),
    ("", "leads out of the tree"),
    ("a\0b", "is no proper path"),
    (".git/hooks/post-checkout", "would write into a .git folder"),
    ("a/.GIT/config", "would write into a .git folder"),
    ("git~1/config", "would write into a .git folder"),
    (".git. /config", "would write into a .git folder"),
]


@pytest.mark.parametrize(("path", "why"), HOSTILE)
def test_paths_that_lead_elsewhere(root: Path, path: str, why: str) -> None:
    with pytest.raises(CheckoutError) as caught:
        add(Staging(root), path)
    assert why in caught.value.message
    assert caught.value.message.startswith("refused: '")
    assert list(root.parent.iterdir()) == [root]


@pytest.mark.parametrize("target", ["/etc/passwd", "../x", "a/../../x", "..", "../../../etc"])
def test_links_out_of_the_tree(root: Path, target: str) -> None:
    with pytest.raises(CheckoutError, match="is a link out of the tree"):
        Staging(root).link("link", target.encode())


def test_links_inside_are_kept(root: Path) -> None:
    staging = Staging(root)
    add(staging, "a/b.py")
    staging.link("a/c.py", b"b.py")
    staging.link("d", b"a")
    staging.link("gone", b"nowhere")
    assert [entry.mode for entry in staging.finish()] == ["100644", "120000", "120000", "120000"]
    assert (root / "d/c.py").read_bytes() == b"x"


def test_links_through_links_out_of_the_tree(root: Path) -> None:
    staging = Staging(root)
    staging.link("here", b".")
    staging.link("out", b"here/..")
    with pytest.raises(CheckoutError, match="by way of other links"):
        staging.finish()


def test_a_cycle_of_links_harms_nobody(root: Path) -> None:
    staging = Staging(root)
    staging.link("a", b"b")
    staging.link("b", b"a")
    staging.link("self", b"self")
    assert len(staging.finish()) == 3


def test_nothing_is_written_through_a_link(root: Path) -> None:
    staging = Staging(root)
    staging.link("a", b"b")
    with pytest.raises(CheckoutError, match="lies below 'a', which is no folder"):
        add(staging, "a/x")
    staging = Staging(root)
    add(staging, "c/x")
    with pytest.raises(CheckoutError, match="is there twice"):
        staging.link("c", b"d")


def test_the_same_path_twice(root: Path) -> None:
    staging = Staging(root)
    add(staging, "a")
    with pytest.raises(CheckoutError, match="is there twice"):
        add(staging, "a")
    with pytest.raises(CheckoutError, match="lies below 'a'"):
        add(staging, "a/b")


def test_names_that_differ_by_case_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    staging = Staging(root)
    add(staging, "A.md", b"1")
    if (root / "a.md").exists():  # a file system that cannot tell them apart
        with pytest.raises(CheckoutError, match="by case only"):
            add(staging, "a.md", b"2")
    else:
        add(staging, "a.md", b"2")
        assert (root / "A.md").read_bytes() == b"1"


def test_too_many_files_and_too_many_bytes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 2)
    staging = Staging(root)
    add(staging, "a")
    add(staging, "b")
    with pytest.raises(CheckoutError, match="more than the 2 files"):
        add(staging, "c")
    monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    with pytest.raises(CheckoutError, match="beyond the 1 MiB"):
        Staging(root).add("big", 2 << 20, [])


def test_a_file_shorter_than_promised(root: Path) -> None:
    with pytest.raises(CheckoutError, match="promised 9 bytes and brought 2"):
        Staging(root).add("a", 9, [b"xx"])


def test_a_full_disk(root: Path) -> None:
    def chunks() -> Any:
        yield b"x"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CheckoutError) as caught:
        Staging(root).add("a", 2, chunks())
    assert caught.value.message == f"{root / 'a'}: cannot be written: No space left on device"
    assert caught.value.hint == "free some space, then run the same command again"
    assert caught.value.exit_code == 3


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX only")
def test_names_of_any_bytes(root: Path) -> None:
    staging = Staging(root)
    for name in ("核/注意力 v1.py", "a b/c\td.py", 'q"uote', os.fsdecode(b"latin-\xe9.py")):
        add(staging, name)
    assert len(staging.finish()) == 4
    assert (root / "核/注意力 v1.py").exists()
