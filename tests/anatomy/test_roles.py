"""The premise table: what it says, that nothing in it is out of reach, and that order is kept."""

from __future__ import annotations

import itertools

import pytest

from srcmap.anatomy.roles import BINARY, SCALARS, UNARY, binary, family, merge, unary

MADE_BY_PRODUCTS = {"score", "acc"}
"""Roles that matrix products give; everything else comes of these, of loads and of constants."""

COMMUTATIVE = ("add", "mul", "max", "min")

PREMISES = [
    ("sub", "score", "max", {"s-m"}, "S-M"),
    ("add", "score", "nmax", {"s-m"}, "S-M"),
    ("add", "nmax", "score", {"s-m"}, "S-M"),
    ("sub", "max", "max", {"m-m"}, "M-M"),
    ("sub", "nmax", "nmax", {"m-m"}, "M-M"),
    ("sub", "L:sink", "max", {"L-m"}, "SINK-DIFF"),
    ("add", "L:sink", "nmax", {"L-m"}, "SINK-DIFF"),
    ("max", "max", "max", {"max"}, "MAX-MERGE"),
    ("min", "nmax", "nmax", {"nmax"}, "MAX-MERGE"),
    ("max", "score", "max", {"max"}, "REDUCE-MAX"),
    ("mul", "max", "ninv", {"nmax"}, "MAX-NEG"),
    ("mul", "max", "minus", {"nmax"}, "MAX-NEG"),
    ("mul", "denom", "rescale", {"denom", "xr"}, "DENOM-RESCALE"),
    ("mul", "rescale", "denom", {"denom", "xr"}, "DENOM-RESCALE"),
    ("add", "denom", "rowsum", {"denom"}, "DENOM-ADD"),
    ("add", "zero", "rowsum", {"denom"}, "DENOM-ADD"),
    ("mul", "acc", "rescale", {"acc"}, "ACC-RESCALE"),
    ("div", "acc", "denom", {"acc", "norm"}, "NORM"),
    ("mul", "acc", "rdenom", {"acc", "norm"}, "NORM"),
    ("div", "one", "denom", {"rdenom"}, "RECIPROCAL"),
    ("add", "denom", "sinkexp", {"denom"}, "SINK-ADD"),
    ("add", "denom", "L:sink", {"denom"}, "SINK-ADD"),
    ("add", "denom", "num", {"denom"}, "EMPTY-ROW"),
    ("max", "denom", "num", {"denom"}, "EMPTY-ROW"),
    ("add", "logd", "max", {"lse"}, "LSE"),
    ("mul", "prob", "L:mask", {"prob"}, "MASK-AFTER-EXP"),
    ("mul", "score", "inv", {"score"}, "SCALE"),
    ("mul", "max", "inv", {"max"}, "SCALE"),
    ("mul", "L:Q", "inv", {"L:Q"}, "SCALE"),
    ("add", "score", "neg", {"score"}, None),
    ("add", "score", "inv", {"score"}, None),
    ("max", "score", "zero", {"relu"}, "RELU"),
    ("mul", "relu", "L:w", {"relu"}, "INDEX-WEIGHT"),
    ("sub", "L:lse", "Lmax", {"L-Lmax"}, "COMBINE-DIFF"),
    ("max", "neg", "L:lse", {"Lmax"}, "COMBINE-MAX"),
    ("mul", "L:part", "weight", {"wacc"}, "COMBINE-ACC"),
    ("add", "L:a", "L:b", {"L:a", "L:b"}, None),
    # a saved log-sum-exp is no maximum: this is a backward kernel
    ("sub", "score", "L:lse", {"s-L"}, "S-L"),
    # premises that fail
    ("sub", "max", "score", set(), None),
    ("sub", "L:a", "score", set(), None),
    ("div", "denom", "acc", set(), None),
    ("mul", "prob", "prob", set(), None),
    ("add", "score", "prob", set(), None),
    ("mul", "xr", "inv", set(), None),
    ("div", "inv", "acc", set(), None),
]


@pytest.mark.parametrize(
    ("op", "left", "right", "tags", "event"),
    PREMISES,
    ids=[f"{o} {a} {b}" for o, a, b, *_ in PREMISES],
)
def test_premise(op: str, left: str, right: str, tags: set[str], event: str | None) -> None:
    found = binary(op, left, right)
    assert (set(found.tags), found.event) == (tags, event)


ONE_OPERAND = [
    ("exp", "s-m", {"prob"}, "PROB"),
    ("exp", "m-m", {"rescale"}, "RESCALE"),
    ("exp", "L-m", {"sinkexp"}, "SINKEXP"),
    ("exp", "s-L", {"prob-b"}, "PROB-B"),
    ("exp", "score", set(), None),
    ("exp", "L:Q", set(), None),
    ("reduce_max", "score", {"max"}, "REDUCE-MAX"),
    ("reduce_max", "L:lse", {"Lmax"}, "COMBINE-MAX"),
    ("reduce_sum", "prob", {"rowsum"}, "ROWSUM"),
    ("reduce_sum", "relu", {"logit"}, "LOGIT"),
    ("reduce_sum", "L:a", {"L:a"}, None),
    ("log", "denom", {"logd"}, "LSE-LOG"),
    ("neg", "max", {"nmax"}, "MAX-NEG"),
    ("neg", "pos", {"neg"}, None),
    ("reciprocal", "denom", {"rdenom"}, "RECIPROCAL"),
    ("relu", "score", {"relu"}, "RELU"),
    ("log", "score", set(), None),
]


@pytest.mark.parametrize(
    ("op", "tag", "tags", "event"), ONE_OPERAND, ids=[f"{o} {t}" for o, t, *_ in ONE_OPERAND]
)
def test_premise_of_one_operand(op: str, tag: str, tags: set[str], event: str | None) -> None:
    found = unary(op, tag)
    assert (set(found.tags), found.event) == (tags, event)


def _reachable() -> set[str]:
    """Close loads, constants and products under every operation."""
    known = {"L:x", *SCALARS, *MADE_BY_PRODUCTS}
    ops = sorted({op for op, _, _ in BINARY}), sorted({op for op, _ in UNARY})
    while True:
        made = {tag for op in ops[1] for one in known for tag in unary(op, one).tags}
        for op, one, other in itertools.product(ops[0], known, known):
            made.update(binary(op, one, other).tags)
        if made <= known:
            return {family(tag) for tag in known}
        known |= made


REACHABLE = _reachable()


@pytest.mark.parametrize("row", BINARY, ids=" ".join)
def test_row_can_be_reached(row: tuple[str, str, str]) -> None:
    assert {row[1], row[2]} <= REACHABLE | {"grad"}


@pytest.mark.parametrize("row", UNARY, ids=" ".join)
def test_row_of_one_operand_can_be_reached(row: tuple[str, str]) -> None:
    assert row[1] in REACHABLE


@pytest.mark.parametrize("op", COMMUTATIVE)
def test_order_of_operands_does_not_matter(op: str) -> None:
    for one, other in itertools.product(sorted(REACHABLE - {"L"} | {"L:a", "L:b"}), repeat=2):
        if {one, other} <= SCALARS:
            continue
        there, back = binary(op, one, other), binary(op, other, one)
        assert (set(there.tags), there.event) == (set(back.tags), back.event), (op, one, other)


@pytest.mark.parametrize("op", COMMUTATIVE)
def test_order_of_numbers_does_not_matter(op: str) -> None:
    for one, other in itertools.product(sorted(SCALARS), repeat=2):
        assert binary(op, one, other).tags == binary(op, other, one).tags, (op, one, other)


NUMBERS = [
    ("mul", "neg", "inv", "neg"),
    ("mul", "neg", "minus", "pos"),
    ("mul", "zero", "neg", "zero"),
    ("mul", "inv", "minus", "ninv"),
    ("mul", "ninv", "minus", "inv"),
    ("add", "zero", "neg", "neg"),
    ("sub", "neg", "zero", "neg"),
    ("add", "neg", "inv", "neg"),
    ("add", "inv", "num", "inv"),
]


@pytest.mark.parametrize(
    ("op", "left", "right", "result"), NUMBERS, ids=[f"{o} {a} {b}" for o, a, b, _ in NUMBERS]
)
def test_numbers(op: str, left: str, right: str, result: str) -> None:
    assert binary(op, left, right).tags == (result,)


@pytest.mark.parametrize(
    "tag", sorted({"score", "max", "nmax", "s-m", "prob", "acc", "denom", "L:Q"})
)
def test_a_factor_changes_no_role(tag: str) -> None:
    assert binary("mul", tag, "inv").tags == (tag,)
    assert binary("mul", "inv", tag).tags == (tag,)
    assert binary("div", tag, "inv").tags == (tag,)


def test_the_first_maker_is_kept() -> None:
    assert merge({"a": 1}, {"a": 2, "b": 3}, {}) == {"a": 1, "b": 3}
    assert merge() == {}


def test_a_load_is_one_family() -> None:
    assert (family("L:anything"), family("Lmax"), family("score")) == ("L", "Lmax", "score")
    assert set(binary("mul", "L:a", "L:b").tags) == {"L:a", "L:b"}
