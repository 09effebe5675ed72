"""Map entries: tracking and anatomy weighed against each other, and the maps alone."""

from __future__ import annotations

from srcmap.drift.maps import Anatomy, from_maps
from srcmap.drift.nouns import Answer, Guess, Spot
from srcmap.mapfile import FORMAT, Entry, SourceMap
from srcmap.model import Lines
from tests.drift.world import KERNEL, trees
from tests.world import entry

PATH = "kernels/tiny attention.py"
MOVED = "# above\n" + KERNEL


def map_of(*entries: Entry) -> SourceMap:
    return SourceMap(
        format=FORMAT, repo="tiny", pin="v2", commit=None, url="", partial=False, counts={},
        problems=(), entries=entries,
    )  # fmt: skip


def tracked(first: int, last: int, **more: object) -> Answer:
    values: dict[str, object] = {
        "old": Spot(path=PATH, lines=Lines(19, 20)),
        "new": Spot(path=PATH, lines=Lines(first, last)),
        "verdict": "changed",
        "methods": ("lines",),
    }
    return Answer(**{**values, **more})  # type: ignore[arg-type]


def weighed(answer: Answer, *after: Entry) -> Answer:
    pair = trees({PATH: KERNEL}, {PATH: MOVED})
    old = entry("row-max", Lines(19, 20))
    return Anatomy(pair, map_of(*after)).item(old, answer).answer


def test_agreement_proves() -> None:
    answer = weighed(tracked(20, 21), entry("row-max", Lines(20, 21)))
    assert (answer.grade, answer.methods) == ("proven", ("lines", "anatomy"))


def test_another_place_is_a_finding() -> None:
    answer = weighed(tracked(20, 21, grade="proven"), entry("row-max", Lines(3, 4)))
    assert (answer.grade, answer.against) == ("proposed", ("anatomy",))
    assert answer.reason[-1].key == "drift.anatomy-elsewhere"


def test_another_edge_is_no_proof() -> None:
    answer = weighed(tracked(20, 21, grade="proven"), entry("row-max", Lines(20, 22)))
    assert (answer.grade, answer.reason[-1].key) == ("proposed", "drift.anatomy-edges")


def test_a_concept_that_is_lost_is_a_finding() -> None:
    answer = weighed(tracked(20, 21, grade="proven"))
    assert (answer.grade, answer.reason[-1].key) == ("proposed", "drift.anatomy-lost")


def test_an_ordinal_that_is_gone_is_no_loss() -> None:
    pair = trees({PATH: KERNEL}, {PATH: MOVED})
    old = entry("row-max", Lines(19, 20), site="role=consumer n=2")
    after = map_of(entry("row-max", Lines(20, 22), site="role=consumer"))
    answer = Anatomy(pair, after).item(old, tracked(20, 21)).answer
    assert answer.reason[-1].key == "drift.anatomy-edges"
    away = Anatomy(pair, after).item(old, tracked(3, 4)).answer
    assert away.reason[-1].key == "drift.anatomy-elsewhere"


def test_a_concept_is_better_than_what_stands_in_the_gap() -> None:
    answer = weighed(tracked(20, 21, methods=("gap",)), entry("row-max", Lines(19, 22)))
    assert answer.new == Spot(path=PATH, lines=Lines(19, 22))
    assert (answer.grade, answer.methods) == ("proposed", ("anatomy",))


def test_another_label_at_the_place_agrees() -> None:
    answer = weighed(tracked(20, 21), entry("row-max", Lines(20, 21), site="role=all"))
    assert answer.grade == "proven"


def test_history_against_it_keeps_it_proposed() -> None:
    answer = weighed(tracked(20, 21, against=("history",)), entry("row-max", Lines(20, 21)))
    assert answer.grade == "proposed"


def test_anatomy_decides_nothing_alone() -> None:
    near = (Guess(spot=Spot(path=PATH, lines=Lines(20, 21)), score=0.5),)
    lost = tracked(20, 21, new=None, verdict="ambiguous", methods=(), candidates=near)
    answer = weighed(lost, entry("row-max", Lines(20, 21)))
    assert (answer.verdict, answer.grade) == ("moved", "proposed")
    assert answer.methods == ("lines", "anatomy")


def test_what_only_the_new_map_has_is_new() -> None:
    pair = trees({PATH: KERNEL}, {PATH: MOVED})
    fresh = entry("check-inf", Lines(24, 24))
    anatomy = Anatomy(pair, map_of(entry("row-max", Lines(20, 21)), fresh))
    anatomy.item(entry("row-max", Lines(19, 20)), tracked(20, 21))
    items = anatomy.new([entry("row-max", Lines(20, 21)), fresh])
    assert [(i.concept, i.answer.verdict) for i in items] == [("check-inf", "new")]


# -- the maps alone --------------------------------------------------------------------------


def alone(old: Entry, *after: Entry) -> Answer:
    return from_maps([old], map_of(*after))[0].answer


OLD = entry("row-max", Lines(19, 20), blob="b1", digest="d1", code_digest="c1")


def test_the_same_blob_proves() -> None:
    answer = alone(OLD, entry("row-max", Lines(19, 20), blob="b1", digest="d1", code_digest="c1"))
    assert (answer.verdict, answer.grade) == ("same", "proven")


def test_digests_tell_what_they_can() -> None:
    moved = entry("row-max", Lines(29, 30), blob="b2", digest="d1", code_digest="c1")
    assert (alone(OLD, moved).verdict, alone(OLD, moved).grade) == ("moved", "proposed")
    cosmetic = entry("row-max", Lines(29, 31), blob="b2", digest="d2", code_digest="c1")
    assert alone(OLD, cosmetic).verdict == "cosmetic"
    changed = entry("row-max", Lines(29, 31), blob="b2", digest="d2", code_digest="c2")
    assert alone(OLD, changed).verdict == "changed"
    assert alone(OLD, changed).reason[0].key == "drift.maps-only"


def test_without_an_answer_nothing_is_green() -> None:
    assert alone(OLD).verdict == "unjudged"
    assert alone(OLD, entry("row-max", status="missing")).verdict == "unjudged"
    assert alone(OLD, entry("row-max")).verdict == "removed"
