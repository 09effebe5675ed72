"""`srcmap anatomy` over files that cannot be read: each is named, the rest goes on."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.metamorphic.kernels import MATMUL, PREFILL, unmarked
from tests.robustness.shell import assert_plain, srcmap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = unmarked(PREFILL)


def _missing(path: Path) -> None:
    pass


def _folder_link(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    other = path.with_name("loop.py")
    other.symlink_to(path.name)
    path.symlink_to(other.name)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _broken(path: Path) -> None:
    path.write_bytes(b"def f(:\n")


def _binary(path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(range(256)) * 100)


def _deep(path: Path) -> None:
    path.write_bytes(b"x = " + b"-" * 200_000 + b"1\n")


BAD: dict[str, Callable[[Path], None]] = {
    "missing": _missing,
    "dangling link": _folder_link,
    "link cycle": _loop,
    "pipe": _fifo,
    "device": _device,
    "broken": _broken,
    "binary": _binary,
    "deep": _deep,
}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links of POSIX")
@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_and_the_others_are_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    BAD[name](tmp_path / "bad.py")
    answer = srcmap("anatomy", "bad.py", "good.py", "--format", "json", cwd=tmp_path)
    assert answer.code == 3
    assert_plain(answer.err, "bad.py")
    files = {file["path"]: file["read"] for file in answer.values()["files"]}
    assert files == {"bad.py": False, "good.py": True}
    assert [kernel["path"] for kernel in answer.values()["kernels"]] == ["good.py"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and links of POSIX")
def test_a_folder_with_everything_in_it(tmp_path: Path) -> None:
    for number, make in enumerate(BAD.values()):
        make(tmp_path / f"bad{number}.py")
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "again").symlink_to(tmp_path)
    (tmp_path / "inner" / "product.py").write_text(unmarked(MATMUL))
    answer = srcmap("anatomy", ".", "--format", "json", cwd=tmp_path)
    files = answer.values()["files"]
    read = sorted(file["path"] for file in files if file["read"])
    assert [path.rpartition("/")[2] for path in read] == ["good.py", "product.py"]
    assert answer.code == 3
    assert "Traceback" not in answer.err
    unread = [file["path"].rpartition("/")[2] for file in files if not file["read"]]
    assert len(unread) == len(set(unread)) == len(BAD) - 1 + 1  # missing is not there, loop.py is
    for name in unread:
        assert_plain(answer.err, name)


@pytest.mark.parametrize("name", ["empty", "no python"])
def test_nothing_to_read_is_not_success(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if name == "no python":
        (folder / "a.txt").write_text("x")
    answer = srcmap("anatomy", "folder", cwd=tmp_path)
    assert answer.code == 3
    assert_plain(answer.err, "folder")


@pytest.mark.skipif(sys.platform != "linux", reason="file permissions as Linux keeps them")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(GOOD)
    (tmp_path / "bad.py").chmod(0)
    (tmp_path / "folder").mkdir(mode=0)
    words = ["anatomy", "bad.py", "folder", "good.py", "--format", "json"]
    answer = srcmap(*words, cwd=tmp_path, preexec=_obey_permissions)
    (tmp_path / "folder").chmod(0o700)
    assert answer.code == 3
    assert_plain(answer.err, "bad.py")
    assert_plain(answer.err, "folder")
    assert [kernel["path"] for kernel in answer.values()["kernels"]] == ["good.py"]


def _obey_permissions() -> None:
    """Give up root's right to read everything, for this process and what it runs."""
    libc = ctypes.CDLL(None)
    drop_from_bounding_set, override, read_search = 24, 1, 2
    for capability in (override, read_search):
        libc.prctl(drop_from_bounding_set, capability, 0, 0, 0)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110
@pytest.mark.parametrize("form", ["text", "json", "markdown"])
def test_output_to_a_full_disk(form: str, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    with open("/dev/full", "w") as full:  # noqa: PTH123
        answer = srcmap("anatomy", "good.py", "--format", form, cwd=tmp_path, stdout=full)
    assert answer.code == 3
    assert "No space left on device" in answer.err
    assert "Traceback" not in answer.err


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD * 20)
    words = [sys.executable, "-m", "srcmap", "anatomy", "good.py"]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr
        said = process.stderr.read()
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize(
    "name", ["a\nb.py", "a b.py", "注意力.py", "[red]x.py", "--x.py", "a\x1b[31m.py"]
)
def test_strange_names_are_shown_on_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("def f(:\n")
    answer = srcmap("anatomy", "--", name, cwd=tmp_path)
    assert answer.code == 3
    assert "\x1b" not in answer.err
    assert "Traceback" not in answer.err
    assert len(answer.err.strip().splitlines()) == 2  # the complaint and the counts


def test_a_name_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text(GOOD)
    answer = srcmap("anatomy", ".", "--format", "json", cwd=tmp_path)
    assert answer.code == 0
    assert len(answer.values()["kernels"]) == 1
