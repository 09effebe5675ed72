"""What a kernel's anatomy answers to what the catalogue asks."""

from __future__ import annotations

import pytest

from srcmap.catalogue import FileRequest, Lack
from srcmap.locate import Ambiguous, Found, Missing, facets, locate, selected_kernels
from srcmap.model import (
    Absence,
    Ambiguity,
    FileAnatomy,
    KernelAnatomy,
    Lines,
    Note,
    Site,
    UnreadCall,
)


def site(concept: str, first: int, last: int | None = None, label: str = "") -> Site:
    lines = Lines(first, last or first)
    return Site(concept=concept, label=label, lines=lines, context=lines, qualname="build.main")


def kernel(*sites: Site, kind: str = "attention", **more: object) -> KernelAnatomy:
    return KernelAnatomy(
        qualname="build.main",
        kind=kind,  # type: ignore[arg-type]
        lines=Lines(1, 99),
        sites=sites,
        **more,  # type: ignore[arg-type]
    )


def anatomy(*kernels: KernelAnatomy) -> FileAnatomy:
    return FileAnatomy(path="a.py", language="python", kernels=kernels)


ASK = FileRequest(repo="r", path="a.py")


def test_every_place_is_found_in_order() -> None:
    file = anatomy(kernel(site("kv-head", 4, label="operand=K"), site("kv-head", 9)))
    assert locate(file, ASK, "kv-head") == Found(
        (site("kv-head", 4, label="operand=K"), site("kv-head", 9))
    )


def test_one_place_seen_through_two_inlinings_is_one() -> None:
    file = anatomy(kernel(site("row-max", 4)), kernel(site("row-max", 4)))
    assert locate(file, ASK, "row-max") == Found((site("row-max", 4),))


def test_kernels_are_chosen_by_what_they_do() -> None:
    forward, backward = kernel(site("row-max", 4)), kernel(site("row-max", 40), kind="backward")
    split = kernel(site("row-max", 70), site("split-range", 60))
    file = anatomy(forward, backward, split)
    assert selected_kernels(file, ASK) == (forward, split)
    only_split = FileRequest(repo="r", path="a.py", having=("split-range",))
    assert locate(file, only_split, "row-max") == Found((site("row-max", 70),))
    no_split = FileRequest(repo="r", path="a.py", without=("split-range",))
    assert locate(file, no_split, "row-max") == Found((site("row-max", 4),))


def test_a_variant_that_is_one_branch_keeps_to_it() -> None:
    ask = FileRequest(
        repo="r", path="a.py", branch="causal", lacks=(Lack(concept="boundary-mask"),)
    )
    file = anatomy(
        kernel(
            site("mask-value", 3, label="branch=causal"),
            site("mask-value", 6, label="branch=not-causal"),
            site("boundary-mask", 6),
            site("kv-loop", 1),
        )
    )
    assert locate(file, ask, "mask-value") == Found((site("mask-value", 3, label="branch=causal"),))
    assert locate(file, ask, "kv-loop") == Found((site("kv-loop", 1),))
    answer = locate(file, ask, "boundary-mask")
    assert isinstance(answer, Missing)
    assert answer.reason == Note("maps.other-branch")
    assert answer.near == (site("boundary-mask", 6),)


def test_missing_says_the_premise_that_failed_and_what_comes_near() -> None:
    absence = Absence(concept="check-inf", reason=Note("anatomy.never-compared"))
    file = anatomy(kernel(site("check-inf-disabled", 8, 9), absences=(absence,)))
    assert locate(file, ASK, "check-inf") == Missing(
        reason=Note("anatomy.never-compared"), near=(site("check-inf-disabled", 8, 9),)
    )


def test_the_same_concept_in_a_kernel_that_was_not_chosen_is_the_nearest_miss() -> None:
    file = anatomy(kernel(), kernel(site("row-max", 40), kind="backward"))
    answer = locate(file, ASK, "row-max")
    assert isinstance(answer, Missing)
    assert answer.near == (site("row-max", 40),)


def test_one_kernel_that_was_not_judged_leaves_the_question_open() -> None:
    sure = Absence(concept="row-max", reason=Note("anatomy.none"))
    unsure = Absence(concept="row-max", reason=Note("anatomy.unread"), judged=False)
    file = anatomy(kernel(absences=(sure,)), kernel(absences=(unsure,)))
    assert locate(file, ASK, "row-max") == Missing(reason=Note("anatomy.unread"), judged=False)


def test_unread_operations_forbid_a_verdict() -> None:
    unread = UnreadCall(name="ptx_new", lines=Lines(5, 5))
    answer = locate(anatomy(kernel(unread=(unread,))), ASK, "row-max")
    assert answer == Missing(reason=Note("maps.unread-calls", {"calls": "ptx_new"}), judged=False)


def test_a_file_without_such_a_kernel_says_which_it_has() -> None:
    answer = locate(anatomy(kernel(kind="backward"), kernel(kind="other")), ASK, "row-max")
    assert answer == Missing(reason=Note("maps.no-kernel", {"kinds": "backward, other"}))
    assert locate(anatomy(), ASK, "row-max") == Missing(
        reason=Note("maps.no-kernel", {"kinds": "-"})
    )


def test_a_doubt_stays_a_doubt_until_a_place_is_proven() -> None:
    doubt = Ambiguity(
        concept="row-max",
        label="",
        reason=Note("anatomy.equal-rank"),
        candidates=(site("row-max", 9), site("row-max", 4)),
    )
    answer = locate(anatomy(kernel(ambiguities=(doubt,))), ASK, "row-max")
    assert answer == Ambiguous(
        reason=Note("anatomy.equal-rank"), candidates=(site("row-max", 9), site("row-max", 4))
    )


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("", {}),
        ("branch=causal", {"branch": "causal"}),
        ("scope=C operand=K", {"scope": "C", "operand": "K"}),
        ("kernel=main  n=2", {"kernel": "main", "n": "2"}),
        ("loose words", {}),
    ],
)
def test_labels_have_parts(label: str, parts: dict[str, str]) -> None:
    assert facets(label) == parts
