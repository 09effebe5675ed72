"""The seed chapter, a real document: numbers and places stand here, none of its text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from srcmap.catalogue import load_catalogue
from srcmap.cite.audit import Auditor, Task
from srcmap.cite.settings import Settings
from srcmap.lock import find_project, known_locks
from srcmap.model import Lines

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = ROOT.parent / "shared" / "seed" / "chapter.md"

pytestmark = [
    pytest.mark.pins,
    pytest.mark.skipif(not CHAPTER.is_file(), reason="the seed chapter is not beside the project"),
]

WRONG = {
    # line of the chapter: what is wrong, and the right lines
    254: ("off", Lines(169, 201)),  # reduce_op.py
    399: ("off", Lines(173, 175)),  # gemm_op.py
    426: ("off", Lines(1237, 1305)),  # the Programming Guide's section
    427: ("out-of-range", Lines(532, 533)),  # the workspace pass
    429: ("out-of-range", Lines(897, 898)),
    544: ("off", Lines(106, 107)),  # check_inf
    556: ("out-of-range", Lines(38, 69)),  # math.cc
    591: ("off", Lines(116, 153)),  # the combine kernel
}


@pytest.fixture(scope="module")
def auditor() -> Auditor:
    from srcmap.checkout import find_checkout
    from srcmap.lock import pick

    project = find_project(ROOT)
    locks = known_locks(project)
    pins = {"tilelang": "v0.1.14", "tilelang-ascend": "95acbd7"}
    for name, version in pins.items():
        if find_checkout(*pick(locks, f"{name}@{version}"), project) is None:
            pytest.skip(f"{name}@{version} is not here: srcmap sync {name}@{version}")
    concepts = {c.id: (c.name.en, c.name.zh) for c in load_catalogue().concepts}
    return Auditor(Task(locks, project, Settings(), concepts, pins))


def test_all_are_found_and_none_invented(auditor: Auditor) -> None:
    counts: Counter[str] = Counter()
    for citation in auditor.citations(CHAPTER.read_bytes(), CHAPTER):
        target = citation.target
        counts["lines" if target.lines else "section" if target.section else "file"] += 1
    assert counts == {"lines": 44, "section": 4, "file": 42}


def test_the_wrong_ones_are_named_with_the_right_lines(auditor: Auditor) -> None:
    judged = list(auditor.judged(CHAPTER.read_bytes(), "chapter.md", CHAPTER))
    bad = {
        one.citation.line: one
        for one in judged
        if one.citation.target.lines and one.verdict not in ("ok", "plausible", "no-such-file")
    }
    assert {line: one.verdict for line, one in bad.items()} == {n: v for n, (v, _) in WRONG.items()}
    for line, (_, right) in WRONG.items():
        found = [c.lines for c in bad[line].candidates if c.lines]
        assert any(lines.overlap(right) > 0.9 for lines in found[:2]), (line, found)
