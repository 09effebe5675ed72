"""Region comments, the index of folders, and that nothing the catalogue expects goes unmarked."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from srcmap.catalogue import load_catalogue
from srcmap.cli import run
from srcmap.counterparts import (
    FOLDER,
    INDEX,
    Counterpart,
    counterparts,
    folder_of,
    folders,
    paired,
    regions,
    worth_showing,
)
from srcmap.model import Lines
from srcmap.render.layout import cells

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
INDEX_TEXT = (ROOT / FOLDER / INDEX).read_text(encoding="utf-8")
TABLES: dict[str, Any] = tomllib.loads(INDEX_TEXT)
CATALOGUE = load_catalogue()


REGIONS = {
    "to a blank line": ("# concept: a\nx = 1\ny = 2\n\nz = 3\n", [("a", 2, 3)]),
    "to the next": ("# concept: a\nx = 1\n# concept: b\ny = 2\n", [("a", 2, 2), ("b", 4, 4)]),
    "to end": ("# concept: a\nx = 1\n# end\ny = 2\n", [("a", 2, 2)]),
    "to less indentation": ("if x:\n    # concept: a\n    y = 2\nz = 3\n", [("a", 3, 3)]),
    "to the end of the file": ("# concept: a\nx = 1", [("a", 2, 2)]),
    "a block below its header": ("# concept: a\nfor x in y:\n    z = 3\n", [("a", 2, 3)]),
    "behind code": ("x = 1  # concept: a\ny = 2\n", [("a", 1, 1)]),
    "behind code, ends the one before": (
        "# concept: a\nx = 1\ny = 2  # concept: b\n",
        [("a", 2, 2), ("b", 3, 3)],
    ),
    "several": ("# concept: a, b\nx = 1\n", [("a", 2, 2), ("b", 2, 2)]),
    "comments at its end are not its": ("# concept: a\nx = 1\n# y\n# concept: b\n", [("a", 2, 2)]),
    "comments inside are": ("# concept: a\nx = 1\n# y\nz = 1\n", [("a", 2, 4)]),
    "neighbours are one": (
        "# concept: a\nx = 1\n# concept: a, b\ny = 2\n",
        [("a", 2, 4), ("b", 4, 4)],
    ),
    "others are not": (
        "x = 1  # concept: a\ny = 2\nz = 3  # concept: a\n",
        [("a", 1, 1), ("a", 3, 3)],
    ),
    "nothing below": ("# concept: a\n\nx = 1\n", []),
    "none": ("x = 1\n", []),
}


@pytest.mark.parametrize(("text", "found"), REGIONS.values(), ids=REGIONS)
def test_regions(text: str, found: list[tuple[str, int, int]]) -> None:
    assert regions(text) == [(name, Lines(first, last)) for name, first, last in found]


def test_folders_reads_its_table_alone() -> None:
    index = (
        '# x = "y"\n[other]\na = "b"\n[folders]\nsink = "sink"  # why\n\n[reasons.sink]\nc = "d"\n'
    )
    assert folders(index) == {"sink": "sink"}
    assert folders(INDEX_TEXT) == TABLES["folders"]


def ours(concept: str, *lines: int) -> list[Counterpart]:
    return [Counterpart(concept, "kernels/x/blocked.py", Lines(n, n)) for n in lines]


def test_as_many_places_are_paired_in_order_and_others_get_all() -> None:
    mine = [*ours("a", 5, 9), *ours("b", 7)]
    places = [("a", Lines(30, 30)), ("a", Lines(10, 10)), ("b", Lines(1, 1)), ("b", Lines(2, 2))]
    found = paired(mine, places)
    assert [tuple(c.lines.first for c in same) for same in found] == [(9,), (5,), (7,), (7,)]
    assert paired(mine, [("a", Lines(1, 1)), ("c", Lines(2, 2))]) == [tuple(mine[:2]), ()]


def test_files_are_paired_each_for_itself() -> None:
    other = [Counterpart("a", "kernels/x/other.py", Lines(n, n)) for n in (2, 3)]
    found = paired([*ours("a", 5), *other], [("a", Lines(1, 1))])
    assert [c.lines.first for c in found[0]] == [5, 2, 3]
    first = paired([*ours("a", 5), *other], [("a", Lines(1, 1)), ("a", Lines(2, 2))])
    assert [[c.lines.first for c in same] for same in first] == [[5, 2], [5, 3]]


def test_without_a_folder_nothing_is_said(tmp_path: Path) -> None:
    assert counterparts(None, "sink") == ()
    assert counterparts(tmp_path, "sink") == ()
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / INDEX).write_text('[folders]\nsink = "gone"\n')
    assert folder_of(tmp_path, "sink") is None
    assert counterparts(tmp_path, "sink") == ()


def test_the_blocked_form_goes_first(tmp_path: Path) -> None:
    folder = tmp_path / FOLDER / "sink"
    folder.mkdir(parents=True)
    (tmp_path / FOLDER / INDEX).write_text('[folders]\nsink = "sink"\n')
    for name in ("a.py", "blocked.py"):
        (folder / name).write_text("x = 1  # concept: row-max\n")
    paths = [found.path for found in counterparts(tmp_path, "sink")]
    assert paths == ["kernels/sink/blocked.py", "kernels/sink/a.py"]


# -- the project's own folders -----------------------------------------------------------------


@pytest.mark.parametrize(("variant", "folder"), TABLES["folders"].items())
def test_what_the_catalogue_expects_has_a_counterpart_or_a_reason(
    variant: str, folder: str
) -> None:
    known = CATALOGUE.variant(variant)
    assert known is not None, f"no variant is called {variant}"
    assert (ROOT / FOLDER / folder).is_dir()
    marked = {found.concept for found in counterparts(ROOT, variant)}
    expected = {concept for request in known.files for concept in request.must}
    reasons = TABLES["reasons"].get(variant, {})
    assert expected - marked - set(reasons) == set(), "neither marked nor explained"
    assert set(reasons) & marked == set(), "explained and there all the same"
    assert set(reasons) <= expected, "explained, and nobody asks"


def test_every_mark_names_a_concept() -> None:
    known = {concept.id for concept in CATALOGUE.concepts}
    for variant in TABLES["folders"]:
        for found in counterparts(ROOT, variant):
            assert found.concept in known, f"{found.path}:{found.lines} {found.concept}"


def test_reasons_are_for_variants_with_a_folder() -> None:
    assert set(TABLES["reasons"]) <= set(TABLES["folders"])


RUNGS = sorted((ROOT / FOLDER).glob("*/reference.py")) + sorted(
    (ROOT / FOLDER).glob("*/blocked.py")
)


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield str(node.module)


@pytest.mark.parametrize("path", RUNGS, ids=lambda p: "/".join(p.parts[-2:]))
def test_rungs_import_numpy_alone(path: Path) -> None:
    """A rung that imported another would share its bugs."""
    for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        first = name.partition(".")[0]
        assert first == "numpy" or first in sys.stdlib_module_names, name


@pytest.mark.parametrize("folder", sorted(set(TABLES["folders"].values())))
def test_each_folder_is_complete(folder: str) -> None:
    for name in ("__init__.py", "reference.py", "blocked.py", "README.md"):
        assert (ROOT / FOLDER / folder / name).is_file(), name


@pytest.mark.parametrize(
    ("format_", "lang", "shown"),
    [
        ("text", "en", "ours: kernels/sink/blocked.py:"),
        ("text", "en", ", kernels/sink/tilelang_kernel.py:"),
        ("markdown", "en", "<br>`kernels/sink/tilelang_kernel.py:"),
        ("text", "zh", "我们的实现： kernels/sink/blocked.py:"),
        ("markdown", "en", "| `kernels/sink/blocked.py:"),
        ("markdown", "zh", "我们的实现 |"),
        ("json", "en", '"path": "kernels/sink/blocked.py"'),
    ],
)
def test_the_page_of_a_variant_shows_ours(
    format_: str,
    lang: str,
    shown: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["variant", "sink", "--format", format_, "--lang", lang]) == 0
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_on_a_narrow_page_our_places_stand_below_each_other(
    lang: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    ask = ["variant", "sink-gqa-varlen", "--repo", "tilelang", "--lang", lang]
    assert run([*ask, "--width", "80"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (first, *_) = [n for n, line in enumerate(lines) if "kernels/sink_gqa_varlen/blocked" in line]
    head, place = lines[first].split("kernels/", 1)
    assert place.startswith("sink_gqa_varlen/blocked.py:")
    assert "," not in place
    below = " " * cells(head) + "kernels/sink_gqa_varlen/tilelang_kernel.py:"
    assert lines[first + 1].startswith(below)
    assert all(cells(line) <= 80 for line in lines[first : first + 2])


def test_a_page_has_room_for_the_plain_form_and_the_kernel() -> None:
    def at(name: str, line: int) -> Counterpart:
        return Counterpart("qk-gemm", f"kernels/mha/{name}.py", Lines(line, line))

    plain, again, ladder = at("blocked", 1), at("blocked", 9), at("ladder/tilelang_1", 1)
    kernel, twice = at("tilelang_kernel", 1), at("tilelang_kernel", 9)
    assert worth_showing((plain, again, ladder, kernel, twice)) == (plain, kernel)
    assert worth_showing((kernel, twice)) == (kernel,)
    assert worth_showing((plain, ladder)) == (plain,)
    assert worth_showing(()) == ()


def test_outside_a_clone_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["variant", "sink", "--lang", "en"]) == 0
    assert "kernels/" not in capsys.readouterr().out
