"""What one variant does that another does not: by role, from map entries alone."""

from __future__ import annotations

import pytest

from srcmap.catalogue import FileRequest, Text, Variant, load_catalogue
from srcmap.commands.diff import CHANGES, Compared, compared
from srcmap.contrast import Difference, FilePair, by_file, differences, partner
from srcmap.lock import shipped_locks
from srcmap.mapfile import Entry, shipped_map
from srcmap.model import Lines

BASE = Variant(id="base", name=Text("b", "b"), summary=Text("b", "b"))


def variant(*, own: tuple[str, ...] = (), why: tuple[str, ...] = (), branch: str = "") -> Variant:
    request = FileRequest(repo="r", path="a.py", branch=branch)
    return Variant(
        id="v",
        name=Text("v", "v"),
        summary=Text("v", "v"),
        base="base",
        own=own,
        why={concept: Text("why", "why") for concept in why},
        files=(request,),
    )


def entry(concept: str, first: int = 1, last: int | None = None, **more: object) -> Entry:
    values: dict[str, object] = {
        "variant": "v", "site": "", "repo": "r", "pin": "v1", "commit": None, "path": "a.py",
        "context": None, "qualname": "main", "status": "found", "form": "f", "code_digest": "d",
        "lines": Lines(first, last or first),
    }  # fmt: skip
    return Entry(concept=concept, **{**values, **more})  # type: ignore[arg-type]


def gone(concept: str, status: str = "absent") -> Entry:
    return entry(concept, lines=None, status=status)


def contrast(before: list[Entry], after: list[Entry], **how: object) -> list[Difference]:
    pair = FilePair(before, after)
    return differences(variant(**how), BASE, pair)  # type: ignore[arg-type]


def kinds(found: list[Difference]) -> dict[str, str]:
    return {difference.concept: difference.kind for difference in found}


def test_a_role_on_one_side_only_is_added_or_dropped() -> None:
    found = contrast([entry("boundary-mask"), gone("kv-head")], [entry("kv-head")])
    assert kinds(found) == {"kv-head": "added", "boundary-mask": "dropped"}


@pytest.mark.parametrize("status", ["missing", "ambiguous"])
def test_what_is_not_judged_on_one_side_is_no_difference(status: str) -> None:
    assert kinds(contrast([entry("kv-head")], [gone("kv-head", status)])) == {"kv-head": "unjudged"}
    assert kinds(contrast([gone("kv-head", status)], [entry("kv-head")])) == {"kv-head": "unjudged"}


def test_names_and_lines_make_no_difference() -> None:
    found = contrast([entry("row-max", 1)], [entry("row-max", 90, code_digest="other names")])
    assert kinds(found) == {"row-max": "same"}


def test_other_code_in_the_same_role_claims_no_more() -> None:
    (found,) = contrast([entry("row-max")], [entry("row-max", form="g")])
    assert (found.kind, [a.key for a in found.aspects]) == ("rewritten", ["diff.code"])


def test_without_forms_it_is_not_known_whether_names_alone_differ() -> None:
    before, after = entry("row-max", form=""), entry("row-max", form="", code_digest="e")
    (found,) = contrast([before], [after])
    assert (found.kind, [a.key for a in found.aspects]) == ("rewritten", ["diff.code-unknown"])


@pytest.mark.parametrize("how", [{"own": ("row-max",)}, {"why": ("row-max",)}])
def test_what_the_catalogue_speaks_of_is_changed_where_the_code_differs(
    how: dict[str, object],
) -> None:
    assert kinds(contrast([entry("row-max")], [entry("row-max", form="g")], **how)) == {
        "row-max": "changed"
    }
    assert kinds(contrast([entry("row-max")], [entry("row-max")], **how)) == {"row-max": "same"}


def test_another_value_is_a_change() -> None:
    (found,) = contrast([entry("mask-value", detail="-inf")], [entry("mask-value", detail="-1e9")])
    assert found.kind == "changed"
    assert found.aspects[0].args == {"before": "-inf", "after": "-1e9"}


def test_another_number_of_places_is_a_change_and_shows_those_left_over() -> None:
    before = [entry("mask-value", 3, site="branch=a"), entry("mask-value", 5, site="branch=b")]
    (found,) = contrast(before, [entry("mask-value", 9, site="kernel=split branch=b")])
    assert (found.kind, found.after, found.before) == ("changed", (), (before[0],))


def test_a_statement_that_takes_on_a_second_role_is_changed() -> None:
    after = [entry("normalise", 7, 9, form="g"), entry("empty-row", 7, 9)]
    found = contrast([entry("normalise", 4, 5)], after)
    assert kinds(found) == {"normalise": "changed", "empty-row": "added"}
    assert found[0].aspects[0].args == {"concepts": "empty-row"}


def test_a_whole_kernel_takes_on_nothing_by_what_it_contains() -> None:
    after = [entry("combine", 1, 99), entry("combine-max", 7)]
    assert kinds(contrast([entry("combine", 1, 90)], after))["combine"] == "same"


def test_a_further_kernel_is_one_difference() -> None:
    before = [entry("kernel-grid", 1), entry("row-max", 2), entry("split-range", 3)]
    after = [
        entry("kernel-grid", 1, site="kernel=split"),
        entry("row-max", 2, site="kernel=split"),
        entry("split-range", 3, site="kernel=split"),
        entry("kernel-grid", 11, site="kernel=whole"),
        entry("row-max", 12, site="kernel=whole"),
        entry("kv-head", 13, site="kernel=whole"),
    ]
    assert kinds(contrast(before, after)) == {
        "kernel-grid": "changed", "row-max": "same", "split-range": "same", "kv-head": "added",
    }  # fmt: skip
    # Of two kernels, the one that divides the keys likewise is the other side's.
    (row,) = [d for d in contrast(after, before[:2]) if d.concept == "row-max"]
    assert [e.lines for e in row.before] == [Lines(12, 12)]


def test_a_comment_is_no_change() -> None:
    after = [entry("check-inf-disabled", 5), entry("row-max", 4, 6)]
    assert kinds(contrast([entry("row-max")], after)) == {
        "check-inf-disabled": "disabled",
        "row-max": "same",
    }


def test_an_arm_is_compared_with_the_other_arm() -> None:
    whole = [
        entry("causal-mask", 4, site="branch=causal"),
        entry("boundary-mask", 7, site="branch=not-causal"),
        entry("loop-range", 2),
        entry("kv-loop", 3),
    ]
    arm = [whole[0], *whole[2:], gone("boundary-mask")]
    found = contrast(whole, arm, branch="causal", why=("loop-range",))
    assert kinds(found) == {
        "causal-mask": "added",
        "loop-range": "changed",
        "kv-loop": "same",
        "boundary-mask": "dropped",
    }
    assert [a.key for a in found[1].aspects] == ["diff.one-statement"]


def test_two_dialects_are_compared_by_role_and_value() -> None:
    before = [entry("row-max", repo="other", path="b.py"), entry("mask-value", repo="other")]
    after = [entry("row-max", form="g"), entry("mask-value", form="g", detail="-2^30")]
    assert kinds(contrast(before, after)) == {"row-max": "same", "mask-value": "changed"}


def test_a_file_goes_with_the_same_file_else_with_the_one_most_like_it() -> None:
    old = [entry("row-max", path="b.py"), entry("kv-head", path="b.py"), entry("row-max")]
    assert partner([entry("kv-head")], old) == [old[2]]
    assert partner([entry("kv-head", path="c.py")], old) == old[:2]
    assert partner([entry("kv-head", path="c.py")], []) == []
    assert [len(group) for group in by_file(old)] == [2, 1]


# -- the shipped maps ------------------------------------------------------------------------

CATALOGUE = load_catalogue()


def blocks_of(name: str, version: str) -> list[Compared]:
    found = CATALOGUE.variant(name)
    assert found is not None
    base = CATALOGUE.variant(found.base or "")
    assert base is not None
    locks = shipped_locks()
    pins = [(lock, pin) for lock in locks for pin in lock.pins if pin.version == version]
    maps = [(*pin, shipped_map(pin[0].name, version)) for pin in pins]
    rows = [(k, p, [e for e in m.entries if e.variant == name]) for k, p, m in maps if m]
    return compared(CATALOGUE, found, base, rows, locks, None)


SEVEN = [
    ("causal", {"loop-range", "causal-mask"}),
    ("mha-varlen", {"cu-seqlens", "query-offset", "varlen-guard", "padding-mask", "empty-row"}),
    ("gqa-varlen", {"cu-seqlens", "query-offset", "varlen-guard", "padding-mask", "empty-row"}),
    ("gqa-bshd", {"kv-head", "kv-head-count"}),
    ("decode-mha", {"split-range", "partial-lse", "partial-output", "combine", "kernel-grid"}),
    ("asc-paged", {"block-table-param", "block-table", "paged-load"}),
    ("sliding-window", {"window-start", "window-mask", "check-inf", "loop-range"}),
    ("sink", {"sink-load", "sink-epilogue"}),
]


@pytest.mark.parametrize(("name", "named"), SEVEN)
def test_the_answer_names_what_the_chapter_names(name: str, named: set[str]) -> None:
    versions = ("95acbd7",) if name.startswith("asc") else ("v0.1.14", "v0.1.13")
    for version in versions:
        blocks = blocks_of(name, version)
        assert blocks
        for block in blocks:
            assert named <= {d.concept for d in block.changes}
            assert not [d for d in block.found if d.kind == "unjudged"]


def test_the_sink_changes_nothing_else() -> None:
    (block,) = blocks_of("sink", "v0.1.14")
    assert {d.concept for d in block.changes} == {"sink-load", "sink-epilogue"}


@pytest.mark.parametrize("found", [v for v in CATALOGUE.variants if v.why], ids=lambda v: v.id)
def test_every_reason_of_the_catalogue_has_a_difference(found: Variant) -> None:
    versions = [p.version for lock in shipped_locks() for p in lock.pins]
    blocks = [block for version in versions for block in blocks_of(found.id, version)]
    if not blocks:  # a variant that no kept pin has
        return
    differing = {d.concept for b in blocks for d in b.found if d.kind in CHANGES}
    assert set(found.why) <= differing
