"""What a kernel does not do, why, and when nothing is claimed."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from srcmap.anatomy import absent
from tests.anatomy.little import ascend, nvidia, only
from tests.anatomy.test_concepts import CAUSAL, CLEANER, INDEXER, SPLIT, WINDOW

LISTS = (absent.ATTENTION, absent.INDEXER, absent.ASCEND, absent.NVIDIA, absent.COMBINE)


def _absent(source: str) -> dict[str, str]:
    return {one.concept: one.reason.key for one in only(source).absences}


def test_a_plain_kernel_says_what_it_lacks() -> None:
    lacking = _absent(nvidia())
    for concept in (
        "causal-mask",
        "window-mask",
        "query-offset",
        "sink-load",
        "check-inf",
        "kv-head",
    ):
        assert lacking[concept] == f"roles.absent-{concept}"
    assert "row-max" not in lacking


@pytest.mark.parametrize(
    ("source", "concept"),
    [
        (CAUSAL, "causal-mask"),
        (WINDOW, "window-start"),
        (SPLIT, "combine"),
        (ascend(), "workspace-read"),
    ],
)
def test_what_is_found_is_not_absent(source: str, concept: str) -> None:
    assert concept not in _absent(source)


def test_absences_and_sites_share_no_concept() -> None:
    for source in (nvidia(), ascend(), CAUSAL, SPLIT, INDEXER):
        kernel = only(source)
        found = {site.concept for site in kernel.sites} | {a.concept for a in kernel.ambiguities}
        assert not found & {one.concept for one in kernel.absences}


def test_dialects_lack_their_own_things_only() -> None:
    assert "tmem-alloc" in _absent(nvidia())
    assert "cube-scope" not in _absent(nvidia())
    assert "tmem-alloc" not in _absent(ascend())
    assert "vector-scope" not in _absent(ascend())


def test_combining_is_only_asked_of_kernels_that_hand_something_on() -> None:
    assert "combine" not in _absent(nvidia())
    handing = (
        SPLIT[: SPLIT.index("        with T.Kernel(H, B")]
        + """\
        with T.Kernel(H) as y:
            T.copy(lse[0, y, 0], O[0, y, 0, 0])

    return main
"""
    )
    assert _absent(handing)["combine"] == "roles.absent-combine"


def test_an_indexer_has_no_softmax_and_says_so() -> None:
    lacking = _absent(INDEXER)
    assert lacking["probability"] == lacking["row-max"] == "roles.absent-no-softmax"
    assert "causal-mask" not in lacking


def test_other_kernels_claim_nothing() -> None:
    assert only(CLEANER).absences == ()


UNKNOWN = {
    "touches a tile of the chain": ("T.conjure(s)", True),
    "by keyword": ("T.conjure(what=s)", True),
    "by part": ("T.conjure(s[0, 0])", True),
    "a call of somebody else": ("helper.conjure(s)", True),
    "touches something else": ("T.conjure(q2)", False),
    "touches nothing": ("T.conjure()", False),
    "is known to move no data": ("T.annotate_layout({s: 3})", False),
    "is a barrier": ("T.sync_threads()", False),
}


@pytest.mark.parametrize(("call", "doubt"), UNKNOWN.values(), ids=UNKNOWN)
def test_nothing_is_claimed_where_a_call_was_not_understood(call: str, doubt: bool) -> None:
    kernel = only(nvidia(allocate="q2 = T.alloc_shared((4,), 'int32')", mask=call))
    assert {one.judged for one in kernel.absences} == {not doubt}
    if doubt:
        assert {one.reason.key for one in kernel.absences} == {"roles.not-judged"}
        assert all("conjure" in one.reason.args["calls"] for one in kernel.absences)


def test_a_state_that_is_lost_is_not_said_to_be_absent() -> None:
    source = nvidia(rescale="", denominator="", accumulator="", normalise="")
    absent = {one.concept: one for one in only(source).absences}
    for concept in ("rescale-factor", "acc-rescale", "normalise"):
        assert not absent[concept].judged
        assert absent[concept].reason.key == "roles.not-followed"
    assert absent["window-mask"].judged
    assert all(one.judged for one in only(nvidia()).absences)


def test_unread_calls_are_shown_with_their_lines() -> None:
    source = nvidia(mask="T.conjure(s)")
    (unread,) = only(source).unread
    assert unread.name == "conjure"
    assert source.split("\n")[unread.lines.first - 1].strip() == "T.conjure(s)"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_reason_has_a_sentence(lang: str) -> None:
    folder = resources.files("srcmap") / "data" / "text"
    said = set(json.loads((folder / f"roles.{lang}.json").read_text("utf-8")))
    concepts = {concept for row in (*LISTS, absent.NO_SOFTMAX) for concept in row}
    assert {f"roles.absent-{concept}" for concept in concepts} <= said
    assert {"roles.not-judged", "roles.not-followed", "roles.absent-no-softmax"} <= said


def test_lists_of_concepts_hold_each_once() -> None:
    for concepts in LISTS:
        assert len(concepts) == len(set(concepts))
