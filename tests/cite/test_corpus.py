"""The written corpus: every citation found, none invented, every verdict as a person gave it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from srcmap.catalogue import load_catalogue
from srcmap.cite.audit import Auditor, Task
from srcmap.cite.settings import read_settings
from srcmap.config import read_table
from srcmap.lock import read_locks
from tests.cite.world import build

if TYPE_CHECKING:
    from srcmap.cite.nouns import Judged

CORPUS = Path(__file__).parent / "corpus"
DOCUMENTS = sorted(p for p in CORPUS.iterdir() if p.name != "expected.tsv")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("corpus"))


def auditor(project: Path, **more: object) -> Auditor:
    concepts = {c.id: (c.name.en, c.name.zh) for c in load_catalogue().concepts}
    settings = read_settings(read_table(project, "cite"))
    locks = read_locks(project / "vendor_locks")
    return Auditor(Task(locks, project, settings, concepts, **more))  # type: ignore[arg-type]


def row(document: str, judged: Judged) -> tuple[str, ...]:
    citation, target = judged.citation, judged.citation.target
    at = (judged.judged_at or "-") + (f" ({target.pin})" if target.pin else "")
    place = f"{target.path or '?'}:{target.lines or '-'}"
    place += f"§{target.section}" if target.section else ""
    right = ",".join(str(c.lines or c.path) for c in judged.candidates[:1])
    first, last = citation.span
    text = " ".join(citation.text.split())
    return (document, str(first), str(last), text, at, place, judged.verdict, right)


def found(project: Path) -> list[tuple[str, ...]]:
    """Every row of every document, in order."""
    reader = auditor(project)
    rows: list[tuple[str, ...]] = []
    for path in DOCUMENTS:
        judged = reader.judged(path.read_bytes(), path.name, project / path.name)
        rows.extend(row(path.name, one) for one in judged)
    return rows


def expected() -> list[tuple[str, ...]]:
    text = (CORPUS / "expected.tsv").read_text(encoding="utf-8")
    return [tuple(line.split("\t")) for line in text.split("\n") if line]


def test_the_corpus_is_read_as_a_person_reads_it(project: Path) -> None:
    """All of them, exactly: a change of one row is looked at by a person (refresh.py)."""
    wanted, actual = expected(), found(project)
    missing = [r for r in wanted if r not in set(actual)]
    invented = [r for r in actual if r not in set(wanted)]
    assert (missing, invented) == ([], [])


def test_the_corpus_is_large_and_varied() -> None:
    rows = expected()
    assert len(rows) >= 300
    assert {r[6] for r in rows} == {
        "unknown-repo", "unpinned", "malformed", "no-such-file", "out-of-range", "blank",
        "ambiguous", "off", "ok", "plausible",
    }  # fmt: skip
    assert {Path(r[0]).suffix for r in rows} >= {".md", ".rst", ".tex", ".txt", ".ipynb", ".py"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_spans_are_bytes_of_the_document(path: Path, project: Path) -> None:
    data = path.read_bytes()
    for citation in auditor(project).citations(data, project / path.name):
        first, last = citation.span
        assert 0 <= first < last <= len(data)
        for start, end in citation.digits:
            assert first <= start < end <= last or citation.rule == "include"
            shown = data[start:end].replace(b"\0", b"")
            assert shown.isdigit()
