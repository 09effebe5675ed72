"""Documents by someone who had not read the reader: what they cite, written down beforehand.

Each row of `expected.tsv` says where a reference stands, what it means and what is wrong with it
at the pins named below. A row agrees when the citation found there overlaps it. Where the reader
is known to judge otherwise, its verdict stands in brackets behind the right one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from srcmap.catalogue import load_catalogue
from srcmap.cite.audit import Auditor, Task
from srcmap.cite.settings import Settings
from srcmap.lock import find_project, known_locks

if TYPE_CHECKING:
    from srcmap.cite.nouns import Judged

FOLDER = Path(__file__).parent / "heldout"
PINS = {"tilelang": "v0.1.14", "tilelang-ascend": "95acbd7"}

pytestmark = pytest.mark.pins


class Row(NamedTuple):
    """One reference, as a person read it."""

    document: str
    first: int
    last: int
    repo: str
    path: str
    lines: str
    verdict: str


def expected() -> list[Row]:
    text = (FOLDER / "expected.tsv").read_text(encoding="utf-8")
    parts = [line.split("\t") for line in text.splitlines()]
    return [Row(p[0], int(p[1]), int(p[2]), *p[3:]) for p in parts]


DOCUMENTS = sorted({row.document for row in expected()})


@pytest.fixture(scope="module")
def auditor() -> Auditor:
    from srcmap.checkout import find_checkout
    from srcmap.lock import pick

    project = find_project(Path(__file__))
    locks = known_locks(project)
    for name, version in PINS.items():
        if find_checkout(*pick(locks, f"{name}@{version}"), project) is None:
            pytest.skip(f"{name}@{version} is not here: srcmap sync {name}@{version}")
    concepts = {c.id: (c.name.en, c.name.zh) for c in load_catalogue().concepts}
    return Auditor(Task(locks, project, Settings(), concepts, PINS))


def agrees(row: Row, judged: Judged) -> bool:
    """Whether this is the reference of the row, whatever its verdict."""
    target, (first, last) = judged.citation.target, judged.citation.span
    if not (first < row.last and row.first < last):
        return False
    if row.lines.startswith("-§"):
        return target.section == row.lines[2:]
    if str(target.lines or "-") != row.lines:
        return False
    where = (target.repo or "-", (target.path or "").rstrip("/"))
    open_ended = {"ambiguous", "no-such-file", "unknown-repo"}
    return row.verdict in open_ended or where == (row.repo, row.path.rstrip("/"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_all_are_found_and_judged_as_written_down(auditor: Auditor, name: str) -> None:
    data = (FOLDER / name).read_bytes()
    rows = [row for row in expected() if row.document == name]
    left = list(auditor.judged(data, name, FOLDER / name))
    wrong: list[object] = []
    for row in rows:
        found = next((one for one in left if agrees(row, one)), None)
        if found is None:
            wrong.append(("missed", row))
            continue
        left.remove(found)
        right, _, known = row.verdict.rstrip(")").partition(" (")
        if found.verdict != (known or right):
            wrong.append((found.verdict, row))
    wrong += [("invented", one.citation.text, str(one.citation.target.lines)) for one in left]
    assert wrong == []


def test_the_documents_are_many_and_varied() -> None:
    assert len(expected()) >= 900
    assert sum(" (" in row.verdict for row in expected()) <= 2
    assert len(DOCUMENTS) >= 50
    assert {Path(name).suffix for name in DOCUMENTS} == {
        ".md", ".rst", ".tex", ".txt", ".ipynb", ".py",
    }  # fmt: skip
