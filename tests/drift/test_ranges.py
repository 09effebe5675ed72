"""The 355 ranges that people have read, over six real bumps: facts, and no upstream text.

They were tuned on; `docs/drift.md` gives figures on a set that was not.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from srcmap.checkout import find_checkout
from srcmap.checkout.nouns import NotThere
from srcmap.checkout.objects import Objects, clone_of
from srcmap.drift.history import History
from srcmap.drift.judge import Judge
from srcmap.drift.nouns import Answer, Spot
from srcmap.drift.sides import CheckoutSide, CommitSide
from srcmap.drift.trees import Trees
from srcmap.lock import find_project, read_locks
from srcmap.model import Lines
from tests.drift.outcome import exactly_right, outcome

if TYPE_CHECKING:
    from srcmap.drift.sides import Side

pytestmark = pytest.mark.pins

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "ranges.json").read_bytes())
BUMPS = sorted({row["bump"] for row in ROWS})
LOCKS = {lock.name: lock for lock in read_locks(Path(__file__).parents[2] / "vendor_locks")}
PINS = {"tree:f972c608aedeead397399ccb9187252591a175b7": "v0.1.14"}
"""The tree of an archive whose commit no mirror has."""


def lock_of(bump: str) -> Any:
    return LOCKS["tilelang" if bump.startswith("tl") else "tilelang-ascend"]


@cache
def objects_of(name: str) -> Objects | None:
    folder = clone_of(LOCKS[name].url)
    return Objects(folder).__enter__() if folder is not None else None


def side(bump: str, commit: str) -> Side | None:
    lock = lock_of(bump)
    if commit in PINS:
        pin = lock.find(PINS[commit])
        checkout = find_checkout(lock, pin, find_project(Path(__file__)))
        return CheckoutSide(checkout) if checkout is not None else None
    objects = objects_of(lock.name)
    if objects is None or not objects.has(commit):
        return None
    return CommitSide(objects, commit, commit[:7], lock.leave_out)


@cache
def judged(bump: str) -> list[tuple[dict[str, Any], Answer]] | None:
    rows = [row for row in ROWS if row["bump"] == bump]
    old, new = side(bump, rows[0]["old_commit"]), side(bump, rows[0]["new_commit"])
    if old is None or new is None:
        return None
    judge = Judge(Trees(old, new), history_of(bump, rows[0]))
    return [(row, judge.judge(Spot(path=row["path"], lines=Lines(*row["lines"])))) for row in rows]


def history_of(bump: str, row: dict[str, Any]) -> History | None:
    objects = objects_of(lock_of(bump).name)
    if objects is None or row["new_commit"] in PINS:
        return None
    try:
        return History(objects.history(row["old_commit"], row["new_commit"]))
    except NotThere:
        return None


def here(bump: str) -> list[tuple[dict[str, Any], Answer]]:
    found = judged(bump)
    if found is None:
        pytest.skip(f"{bump}: no clone with its commits, or its pin is not synced")
    return found


@pytest.mark.parametrize("bump", BUMPS)
def test_nothing_proven_is_wrong(bump: str) -> None:
    wrong = [
        row["id"]
        for row, answer in here(bump)
        if answer.grade == "proven" and not exactly_right(row, answer)
    ]
    assert not wrong


@pytest.mark.parametrize("bump", BUMPS)
def test_every_answer_says_how_it_was_found(bump: str) -> None:
    for _, answer in here(bump):
        assert answer.grade in ("proven", "proposed")
        assert answer.methods or answer.verdict == "ambiguous"
        assert answer.verdict != "ambiguous" or answer.candidates
        assert answer.verdict != "changed" or answer.what


def test_all_six_bumps_are_as_good_as_said() -> None:
    pairs = [pair for bump in BUMPS for pair in here(bump)]
    counts = Counter(outcome(row, answer) for row, answer in pairs)
    size = len(pairs)
    assert size == 355
    assert counts["right"] >= 0.96 * size, counts
    assert counts["silent"] <= 0.01 * size, counts
    assert counts["refused"] <= 0.03 * size, counts
    proven = sum(answer.grade == "proven" for _, answer in pairs)
    assert proven >= 0.60 * size


def test_text_that_survives_is_carried() -> None:
    pairs = [pair for bump in BUMPS for pair in here(bump)]
    kept = [p for p in pairs if p[0]["old_sha256"] in {a["sha256"] for a in p[0]["answers"]}]
    carried = sum(outcome(*pair) == "right" for pair in kept)
    assert carried >= 0.985 * len(kept), (carried, len(kept))
    changed = [p for p in pairs if p[0]["verdict"] == "changed"]
    proposed = sum(outcome(*pair) == "right" for pair in changed)
    assert proposed >= 0.94 * len(changed), (proposed, len(changed))
