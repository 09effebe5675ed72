"""The READMEs: tables as `srcmap cite` makes them, and no variant forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from srcmap.cli import run
from srcmap.counterparts import FOLDER, INDEX, folders

ROOT = Path(__file__).resolve().parents[2]
FILL = "srcmap cite inject --lang en kernels/README.md kernels/*/README.md"


def test_tables_are_as_srcmap_makes_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    readmes = sorted(str(path.relative_to(ROOT)) for path in (ROOT / FOLDER).rglob("README.md"))
    code = run(["cite", "inject", "--check", "--lang", "en", *readmes])
    assert code == 0, f"run: {FILL}\n{capsys.readouterr().out}"


def test_the_table_of_variants_has_every_folder() -> None:
    text = (ROOT / FOLDER / "README.md").read_text(encoding="utf-8")
    marker = re.search(r"srcmap:table variant=(\S+)", text)
    assert marker is not None
    index = folders((ROOT / FOLDER / INDEX).read_text(encoding="utf-8"))
    assert marker[1].split(",") == list(index)
    rows = re.findall(r"^\| `(\w+)` \| (`[^|]+`) \|", text, re.MULTILINE)
    listed = {name: folder for folder, names in rows for name in re.findall(r"`([^`]+)`", names)}
    assert listed == index


@pytest.mark.pins
def test_every_citation_is_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of READMEs and docstrings: the file is there, and what is shown stands on its lines."""
    for pin in ("tilelang-v0.1.14", "tilelang-ascend-95acbd7"):
        if not (ROOT / "_vendor" / pin).is_dir():
            pytest.skip(f"{pin} is not here: srcmap sync brings it")
    monkeypatch.chdir(ROOT)
    code = run(["cite", "check", "--lang", "en", FOLDER])
    assert code == 0, capsys.readouterr().out
