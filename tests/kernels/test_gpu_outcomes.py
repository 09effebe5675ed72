"""What is kept of a run on a GPU: nothing that did not run may look as if it had passed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.kernels.gpu import outcomes, world

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = {"device": "NVIDIA H200", "date": "2026-11-29", "torch": "2.11"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tests, kernels = tmp_path / "tests", tmp_path / "kernels"
    for name in ("mha", "mha_more", "sink"):
        (kernels / name).mkdir(parents=True)
        (kernels / name / "tilelang_kernel.py").write_text(name)
    (kernels / "paged").mkdir()
    tests.mkdir()
    (tests / "test_mha.py").write_text("def test_one(): ...\n")
    (tests / "test_mha_backward.py").write_text("def test_two(): ...\n")
    (tests / "test_forward.py").write_text("def test_sink(): ...\ndef test_mha_rows(): ...\n")
    (tmp_path / "pin" / "x").mkdir(parents=True)
    (tmp_path / "pin" / "x" / "y.py").write_text("theirs\n")
    monkeypatch.setattr(outcomes, "HERE", tests)
    monkeypatch.setattr(outcomes, "KERNELS", kernels)
    monkeypatch.setattr(world, "PIN", tmp_path / "pin")
    monkeypatch.setattr(world, "ROOT", tmp_path)
    outcomes._imported.cache_clear()
    return tmp_path


@pytest.mark.parametrize(
    ("file", "function", "expected"),
    [
        ("test_mha.py", "test_anything", "mha"),
        ("test_mha_backward.py", "test_anything", "mha"),
        ("test_mha_more.py", "test_anything", "mha_more"),
        ("test_forward.py", "test_sink[a-b]", "sink"),
        ("test_forward.py", "test_mha_rows", "mha"),
        ("test_forward.py", "test_grouped", ""),
        ("test_paged.py", "test_x", ""),
        ("test_sinks.py", "test_x", ""),
    ],
)
def test_folder_of(home: Path, file: str, function: str, expected: str) -> None:
    assert outcomes.folder_of(file, function) == expected


def report(one: str, outcome: str, when: str = "call") -> Any:
    return SimpleNamespace(
        nodeid=one, outcome=outcome, when=when, passed=outcome == "passed",
        skipped=outcome == "skipped", longrepr=("f", 1, "Skipped: no"),
        longreprtext="E   assert 1 == 2",
        user_properties=[(outcomes.USED, ["x/y.py"]), (outcomes.ERRORS, [0.5, len(one) / 10])],
    )  # fmt: skip


def run(home: Path, tests: list[tuple[str, str, str]], narrowed: bool = False) -> dict[str, Any]:
    """Run tests (file, name, outcome); those with no outcome are collected and do not end."""
    kept = outcomes.Outcomes(home / "out", ABOUT, narrowed)
    ids = [f"tests/{file}::{name}" for file, name, _ in tests]
    kept.collected(ids)
    kept.collected(ids)  # as by each side process
    for one, (_, _, outcome) in zip(ids, tests, strict=True):
        if outcome:
            kept.ended(report(one, "passed", "setup"))
            kept.ended(report(one, outcome, "setup" if outcome == "skipped" else "call"))
            kept.ended(report(one, "passed", "teardown"))
    found: dict[str, Any] = json.loads((home / "out" / "mha-h200-tests.json").read_text())
    return found


def counts(found: dict[str, Any]) -> tuple[int, int, int, int, list[str]]:
    passed, failed, skipped, unfinished = (
        found[name] for name in ("passed", "failed", "skipped", "unfinished")
    )
    return passed, failed, skipped, unfinished, found["missing"]


ALL = [
    ("test_mha.py", "test_one", "passed"),
    ("test_mha_backward.py", "test_two", "passed"),
    ("test_forward.py", "test_mha_rows", "passed"),
]


def test_a_whole_run(home: Path) -> None:
    found = run(home, ALL)
    assert counts(found) == (3, 0, 0, 0, [])
    assert list(found["ours"]) == ["kernels/mha/tilelang_kernel.py"]
    blob = "950b81b7eee953d050aa05a641f8e056c85dd1bd"
    assert found["upstream"] == {"tilelang v0.1.14 examples/x/y.py": blob}


@pytest.mark.parametrize(
    ("tests", "narrowed", "expected"),
    [
        ([*ALL[:2], (*ALL[2][:2], "failed")], False, (2, 1, 0, 0, [])),
        ([*ALL[:2], (*ALL[2][:2], "skipped")], False, (2, 0, 1, 0, [])),
        ([*ALL[:2], (*ALL[2][:2], "")], False, (2, 0, 0, 1, [])),
        (ALL[:2], False, (2, 0, 0, 0, ["test_forward.py"])),
        (ALL[:1], True, (1, 0, 0, 1, ["test_forward.py", "test_mha_backward.py"])),
    ],
)
def test_what_is_not_whole(
    home: Path, tests: list[tuple[str, str, str]], narrowed: bool, expected: Any
) -> None:
    assert counts(run(home, tests, narrowed)) == expected


def test_files_that_run_apart_are_joined(home: Path) -> None:
    run(home, ALL[:1])
    run(home, ALL[1:2])
    assert counts(run(home, ALL[2:])) == (3, 0, 0, 0, [])


def test_parts_of_a_file_are_joined_and_what_nobody_ran_is_unfinished(home: Path) -> None:
    ids = [f"tests/test_mha.py::test_one[{n}]" for n in range(3)]
    parts = [outcomes.Outcomes(home / "out", ABOUT, narrowed=False) for _ in ids]
    found = []
    for number, part in enumerate(parts[:2]):
        part.left_out(one for one in ids if one != ids[number])
        part.collected([ids[number]])
    for part, one in zip(parts, ids, strict=True):
        if part is not parts[2]:
            part.ended(report(one, "passed"))
        found.append(json.loads((home / "out" / "mha-h200-tests.json").read_text()))
    missing = ["test_forward.py", "test_mha_backward.py"]
    assert [counts(one) for one in found] == [
        (1, 0, 0, 2, missing), (2, 0, 0, 1, missing), (2, 0, 0, 1, missing)
    ]  # fmt: skip
    parts[2].left_out(ids[:2])
    parts[2].collected(ids[2:])
    parts[2].ended(report(ids[2], "passed"))
    parts[0].write("mha")
    last = json.loads((home / "out" / "mha-h200-tests.json").read_text())
    assert counts(last) == (3, 0, 0, 0, missing)


def test_an_earlier_run_of_other_sources_is_forgotten(home: Path) -> None:
    run(home, ALL[:2])
    (home / "kernels" / "mha" / "tilelang_kernel.py").write_text("changed")
    assert counts(run(home, ALL[2:])) == (1, 0, 0, 0, ["test_mha.py", "test_mha_backward.py"])
    (home / "tests" / "test_forward.py").write_text("def test_mha_other(): ...\n")
    outcomes._imported.cache_clear()
    assert counts(run(home, ALL[:2])) == (2, 0, 0, 0, ["test_forward.py"])


def test_a_run_that_broke_off_is_finished_by_another(home: Path) -> None:
    many = [("test_mha.py", f"test_one[{n}]", "passed") for n in range(3)]
    broken = [many[0], (*many[1][:2], "failed"), (*many[2][:2], "")]
    assert counts(run(home, [*broken, *ALL[1:]]))[:4] == (3, 1, 0, 1)
    kept = outcomes.Outcomes(home / "out", ABOUT, narrowed=False)
    passed = kept.passed_before()
    assert sorted(passed) == [
        "tests/test_forward.py::test_mha_rows",
        "tests/test_mha.py::test_one[0]",
        "tests/test_mha_backward.py::test_two",
    ]
    found = run(home, many[1:])
    assert counts(found) == (5, 0, 0, 0, [])
    assert found["files"]["test_mha.py"]["why"] == {}


def test_the_largest_error_of_each_test_is_kept(home: Path) -> None:
    run(home, [*ALL[:1], (ALL[1][0], "test_two", "")])
    found = run(home, [(ALL[0][0], "test_one[x]", "passed")])
    errors = found["files"]["test_mha.py"]["errors"]
    assert errors == {"test_one": 2.7, "test_one[x]": 3.0}
    assert found["files"]["test_mha_backward.py"]["errors"] == {}


def test_what_the_repository_keeps_counts_too(home: Path) -> None:
    run(home, ALL[:2])
    (home / "out").rename(home / "kernels" / "results")
    assert counts(run(home, ALL[2:])) == (3, 0, 0, 0, [])


def test_a_change_of_what_a_test_file_imports_makes_it_run_again(home: Path) -> None:
    (home / "tests" / "shared.py").write_text("from tests.more import x\n")
    (home / "tests" / "more.py").write_text("x = 1\n")
    (home / "tests" / "test_mha.py").write_text("from tests.shared import x\ndef test_one(): ...\n")
    run(home, ALL)
    (home / "tests" / "more.py").write_text("x = 2\n")
    outcomes._imported.cache_clear()
    kept = outcomes.Outcomes(home / "out", ABOUT, narrowed=False)
    assert "tests/test_mha.py::test_one" not in kept.passed_before()
    assert len(kept.passed_before()) == 2


def test_what_a_test_file_depends_on(home: Path) -> None:
    (home / "kernels" / "mha" / "reference.py").write_text("x = 1\n")
    (home / "tests" / "shared.py").write_text("from kernels.mha import reference\n")
    file = home / "tests" / "test_mha.py"
    file.write_text(
        "from tests import shared\n"
        "def test_one():\n"
        "    import numpy\n"
        "    from kernels.mha.tilelang_kernel import attention\n"
    )
    found = {path.relative_to(home).as_posix() for path in outcomes._imported(file)}
    assert found == {"tests/test_mha.py", "tests/shared.py", "kernels/mha/reference.py"}


def test_other_versions_and_sources_do_not_count(home: Path) -> None:
    run(home, ALL)
    other = outcomes.Outcomes(home / "out", {**ABOUT, "torch": "3"}, narrowed=False)
    assert other.passed_before() == []
    (home / "kernels" / "mha" / "tilelang_kernel.py").write_text("changed")
    same = outcomes.Outcomes(home / "out", ABOUT, narrowed=False)
    assert same.passed_before() == []
