"""`srcmap map build` over a repository with bad files: they are told, the rest is mapped."""

from __future__ import annotations

import json
import os
import resource
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.metamorphic.kernels import ASCEND, DECODE, PREFILL, unmarked
from tests.robustness.shell import assert_plain, srcmap

if TYPE_CHECKING:
    from pathlib import Path

GOOD, BROKEN, GONE, LATIN, BIG = "a/good.py", "a/broken.py", "a/gone.py", "a/latin.py", "a/big.h"

FILES = {
    GOOD: unmarked(PREFILL).encode(),
    BROKEN: b"def f(:\n",
    LATIN: unmarked(DECODE).encode() + b"# caf\xe9\n",
    "a/crlf.py": unmarked(ASCEND).replace("\n", "\r\n").encode(),
    BIG: b"// " + b"x" * 1_000_000 + b"\n",
}


def _git(folder: Path, *words: str) -> str:
    mine = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    told = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *told, *words], cwd=folder, env=mine, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a project with one pin of a repository of ours, synced, and a variant for each file."""
    source = tmp_path / "source"
    for path, data in FILES.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(data)
    (source / "a" / "loop.py").symlink_to("pool.py")
    (source / "a" / "pool.py").symlink_to("loop.py")
    _git(source, "init", "-q", "-b", "main")
    _git(source, "add", "-A")
    _git(source, "commit", "-q", "-m", "x")
    project = tmp_path / "project"
    (project / "vendor_locks").mkdir(parents=True)
    (project / "vendor_locks" / "mine.toml").write_text(_lock(_git(source, "rev-parse", "HEAD")))
    variants = project / "srcmap-variants"
    variants.mkdir(parents=True)
    for number, path in enumerate([*FILES, GONE, "a/loop.py"]):
        (variants / f"v{number}.toml").write_text(_variant(f"v{number}", path))
    done = srcmap("sync", "mine@v1", "--from", source, cwd=project)
    assert done.code == 0, done
    return project


def _lock(commit: str) -> str:
    return f"""\
format = "1.0"

[repo]
name = "mine"
url = "https://example.org/mine"
licence = "MIT"
current = "v1"

[[pin]]
version = "v1"
commit = "{commit}"
requested = "v1"
"""


def _variant(name: str, path: str) -> str:
    return f"""\
format = 1
id = "{name}"
name = {{ en = "{name}", zh = "{name}" }}
summary = {{ en = "x", zh = "x" }}
must = ["qk-gemm", "pv-gemm", "row-max"]

[[file]]
repo = "mine"
path = "{path}"
"""


def _build(project: Path, **options: Any) -> Any:
    return srcmap("map", "build", "mine", "--out", project / "maps", cwd=project, **options)


def test_bad_files_are_told_and_the_rest_is_mapped(project: Path) -> None:
    answer = _build(project)
    assert answer.code == 1
    assert_plain(answer.out + answer.err, BROKEN)
    built = json.loads((project / "maps" / "mine-v1.json").read_text())
    counts = built["counts"]
    assert counts["files_read"] + counts["files_unread"] + counts["files_not_in_pin"] == 7
    assert counts["files_read"] == 4
    assert _status(built, GOOD) == {"found"}
    assert _status(built, LATIN) == {"found"}
    assert _status(built, BROKEN) == {"missing"}
    assert _status(built, GONE) == {"missing"}
    assert sum(counts[s] for s in ("found", "absent", "missing", "ambiguous")) == len(
        built["entries"]
    )


def _status(built: Any, path: str) -> set[str]:
    asked = {"qk-gemm", "pv-gemm", "row-max"}
    return {e["status"] for e in built["entries"] if e["path"] == path and e["concept"] in asked}


def test_a_map_that_cannot_be_written_leaves_nothing_behind(project: Path) -> None:
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    answer = _build(project, preexec=little)
    assert answer.code == 3
    assert_plain(answer.err, "mine-v1.json")
    assert list((project / "maps").iterdir()) == []


def test_a_cache_that_cannot_be_written_costs_time_only(project: Path) -> None:
    (project / "cache").write_text("a file where the folder should be")
    answer = _build(project)
    assert answer.code == 1
    assert (project / "maps" / "mine-v1.json").is_file()


def test_a_spoilt_cache_is_not_believed(project: Path) -> None:
    _build(project)
    first = (project / "maps" / "mine-v1.json").read_bytes()
    kept = [path for path in (project / "cache").rglob("*") if path.is_file()]
    assert kept
    for number, path in enumerate(kept):
        path.write_bytes([b"", b"\x00\xff", b"{}", path.read_bytes()[:-1]][number % 4])
    _build(project)
    assert (project / "maps" / "mine-v1.json").read_bytes() == first


def test_two_builds_give_the_same_bytes(project: Path) -> None:
    _build(project)
    first = (project / "maps" / "mine-v1.json").read_bytes()
    for path in (project / "cache").rglob("*"):
        if path.is_file():
            path.unlink()
    _build(project)
    assert (project / "maps" / "mine-v1.json").read_bytes() == first


def test_an_out_folder_that_is_a_file(project: Path) -> None:
    (project / "maps").write_text("x")
    answer = _build(project)
    assert answer.code == 3
    assert_plain(answer.err, "maps")
