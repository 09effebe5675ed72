"""The built wheel: the package with its data, and nothing of the kernels or tests."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    out = tmp_path_factory.mktemp("wheel")
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def under(folder: str, suffix: str) -> set[str]:
    """Return the names in the wheel of the files in a folder of the clone."""
    return {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob(f"*{suffix}")}


@pytest.mark.parametrize(
    ("folder", "suffix"),
    [
        ("srcmap/data/maps", ".json"),
        ("srcmap/data/variants", ".toml"),
        ("srcmap/data/queries", ".scm"),
        ("srcmap/data/text", ".json"),
        ("srcmap/data", ".json"),
        ("srcmap/data", ".toml"),
        ("srcmap", ".py"),
        ("srcmap", "py.typed"),
    ],
)
def test_it_holds(members: set[str], folder: str, suffix: str) -> None:
    expected = under(folder, suffix)
    assert expected, f"{folder} has no {suffix} here"
    assert expected <= members


def test_it_holds_the_locks(members: set[str]) -> None:
    locks = {f"srcmap/data/{name}" for name in under("vendor_locks", ".toml")}
    assert locks
    assert locks <= members


def test_it_holds_nothing_else(members: set[str]) -> None:
    tops = {name.partition("/")[0] for name in members}
    assert tops == {"srcmap", "tile_srcmap-0.1.0.dist-info"}
    assert not [name for name in members if "__pycache__" in name or name.endswith(".actual")]


def test_it_brings_the_licence(members: set[str]) -> None:
    assert any(name.endswith("/licenses/LICENSE") for name in members)
