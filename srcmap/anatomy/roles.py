"""The premise table: what an operation on two roles gives, and the event that it is.

A role (tag) is what a value *is* in attention: score, running maximum, probability, ...
`L` is anything read from global memory; constants are zero, one, num, minus, neg (<= -1e4),
pos (>= 1e6); `inv` is a scalar that no tile enters and `ninv` its negative.
Source of the algorithm: Milakov and Gimelshein 2018 (online softmax), FlashAttention 1 to 3.
"""

from __future__ import annotations

from typing import NamedTuple

Value = dict[str, int]
"""Role to `uid` of the statement that made it."""

SCALARS = frozenset({"inv", "ninv", "num", "minus", "one", "zero", "neg", "pos"})
PLAIN = frozenset({"inv", "num", "one", "pos"})
NEGATIVE = frozenset({"ninv", "minus"})
BELOW_ZERO = NEGATIVE | {"neg"}

LEFT, RIGHT = "<left>", "<right>"
"""The result is the operand itself."""


class Outcome(NamedTuple):
    """What a premise proves."""

    tags: tuple[str, ...]
    event: str | None = None


Row = tuple[str, str, str, str, "str | None"]
"""Operation, left role, right role, the roles of the result, the event that it is."""

ROWS: tuple[Row, ...] = (
    # the exponent and what it is taken of
    ("sub", "score", "max", "s-m", "S-M"),
    ("add", "score", "nmax", "s-m", "S-M"),
    ("sub", "max", "max", "m-m", "M-M"),
    ("sub", "nmax", "nmax", "m-m", "M-M"),
    ("add", "max", "nmax", "m-m", "M-M"),
    ("sub", "neg", "max", "i-m", None),  # the first block: the maximum is still its initial value
    ("add", "neg", "nmax", "i-m", None),
    ("sub", "nmax", "pos", "i-m", None),
    ("sub", "pos", "nmax", "i-m", None),
    ("mul", "zero", "fade", "zero xr", None),
    ("mul", "denom", "fade", "denom xr", None),
    ("mul", "acc", "fade", "acc", None),
    ("sub", "L", "max", "L-m", "SINK-DIFF"),
    ("add", "L", "nmax", "L-m", "SINK-DIFF"),
    ("sub", "score", "L", "s-L", "S-L"),
    ("sub", "score", "lse", "s-L", "S-L"),
    # the running maximum
    ("max", "max", "max", "max", "MAX-MERGE"),
    ("max", "max", "score", "max", "REDUCE-MAX"),
    ("max", "neg", "score", "max score", None),
    ("max", "max", "L", "max", "MAX-SINK"),
    ("min", "nmax", "nmax", "nmax", "MAX-MERGE"),
    ("min", "nmax", "pos", "nmax", None),
    ("min", "nmax", "L", "nmax", "MAX-MERGE"),
    *(
        ("max", "max", scalar, "max", "MAX-CLAMP")
        for scalar in ("neg", "num", "minus", "inv", "ninv", "zero", "one")
    ),
    *(("mul", "max", scalar, "nmax", "MAX-NEG") for scalar in NEGATIVE),
    *(("mul", "nmax", scalar, "max", None) for scalar in NEGATIVE),
    *(("div", "max", scalar, "nmax", "MAX-NEG") for scalar in NEGATIVE),
    *(("mul", "score", scalar, "score", "SCALE") for scalar in NEGATIVE),
    # the denominator
    ("mul", "denom", "rescale", "denom xr", "DENOM-RESCALE"),
    ("mul", "zero", "rescale", "zero xr", None),
    ("add", "denom", "rowsum", "denom", "DENOM-ADD"),
    ("add", "zero", "rowsum", "denom", "DENOM-ADD"),
    ("add", "xr", "rowsum", "denom", "DENOM-ADD"),
    ("add", "rowsum", "rowsum", "rowsum", None),
    ("add", "denom", "sinkexp", "denom", "SINK-ADD"),
    ("add", "rowsum", "sinkexp", "denom", "SINK-ADD"),
    ("add", "denom", "L", "denom", "SINK-ADD"),
    ("add", "denom", "prob", "denom", "DENOM-ADD"),
    ("add", "zero", "prob", "prob rowsum", None),
    ("add", "denom", "num", "denom", "EMPTY-ROW"),
    ("max", "denom", "num", "denom", "EMPTY-ROW"),
    ("max", "denom", "one", "denom", "EMPTY-ROW"),
    # the accumulator
    ("mul", "acc", "rescale", "acc", "ACC-RESCALE"),
    ("add", "acc", "acc", "acc", "ACC-ADD"),
    ("div", "acc", "denom", "acc norm", "NORM"),
    ("mul", "acc", "rdenom", "acc norm", "NORM"),
    ("div", "prob", "denom", "prob", "NORM"),
    ("div", "prob", "rowsum", "prob", "NORM"),
    ("mul", "acc", "sinkexp", "acc", "ACC-RESCALE"),
    ("mul", "denom", "sinkexp", "denom", "DENOM-RESCALE"),
    *(("div", scalar, "denom", "rdenom", "RECIPROCAL") for scalar in PLAIN),
    # log-sum-exp
    ("add", "logd", "max", "lse", "LSE"),
    ("sub", "logd", "nmax", "lse", "LSE"),
    # masks multiplied in after the exponential, scales of quantised operands
    ("mul", "prob", "L", "prob", "MASK-AFTER-EXP"),
    ("mul", "prob", "zero", "prob", "MASK-AFTER-EXP"),
    ("mul", "score", "L", "score", "SCORE-WEIGHT"),
    ("mul", "acc", "L", "acc", None),
    ("mul", "L", "L", f"{LEFT} {RIGHT}", None),
    ("div", "L", "L", f"{LEFT} {RIGHT}", None),
    ("mul", "relu", "L", "relu", "INDEX-WEIGHT"),
    ("mul", "logit", "L", "logit", None),
    # scores: additive masks and biases
    ("add", "score", "L", "score", "SCORE-BIAS"),
    ("add", "score", "score", "score", None),
    ("add", "score", "neg", "score", None),
    ("max", "score", "zero", "relu", "RELU"),
    ("max", "score", "score", "score", None),
    ("add", "L", "L", f"{LEFT} {RIGHT}", None),
    ("sub", "L", "L", f"{LEFT} {RIGHT}", None),
    # combining splits
    ("sub", "L", "Lmax", "L-Lmax", "COMBINE-DIFF"),
    ("max", "Lmax", "L", "Lmax", "COMBINE-MAX"),
    ("max", "neg", "L", "Lmax", "COMBINE-MAX"),
    ("max", "Lmax", "Lmax", "Lmax", "COMBINE-MAX"),
    ("add", "zero", "w", "wsum", "COMBINE-SUM"),
    ("add", "wsum", "w", "wsum", "COMBINE-SUM"),
    ("add", "wsum", "wsum", "wsum", "COMBINE-SUM"),
    ("add", "logw", "Lmax", "LSE", "COMBINE-LSE"),
    ("sub", "L", "LSE", "L-LSE", "COMBINE-DIFF"),
    ("mul", "L", "weight", "wacc", "COMBINE-ACC"),
    ("mul", "L", "w", "wacc", "COMBINE-ACC"),
    ("div", "w", "wsum", "weight", "COMBINE-WEIGHT"),
    ("div", "wacc", "wsum", "wacc", "COMBINE-NORM"),
    ("add", "wacc", "wacc", "wacc", None),
    # backward
    ("mul", "prob-b", "score", "ds", None),
    ("mul", "prob-b", "s-L", "ds", None),
    ("mul", "prob-b", "L", "prob-b", None),
)
"""The premises. `add`, `mul`, `max` and `min` hold with their operands exchanged too."""

COMMUTATIVE = {"add", "mul", "max", "min"}


def _table(rows: tuple[Row, ...]) -> dict[tuple[str, str, str], Outcome]:
    """Rows by what they are looked up under."""
    swap = {LEFT: RIGHT, RIGHT: LEFT}
    table: dict[tuple[str, str, str], Outcome] = {}
    for op, left, right, made, event in rows:
        tags = made.split()
        table[op, left, right] = Outcome(tuple(tags), event)
        if op in COMMUTATIVE and left != right:
            table[op, right, left] = Outcome(tuple(swap.get(tag, tag) for tag in tags), event)
    return table


BINARY = _table(ROWS)

UNARY: dict[tuple[str, str], Outcome] = {
    ("exp", "s-m"): Outcome(("prob",), "PROB"),
    ("exp", "m-m"): Outcome(("rescale",), "RESCALE"),
    ("exp", "i-m"): Outcome(("fade",), None),
    ("exp", "L-m"): Outcome(("sinkexp",), "SINKEXP"),
    ("exp", "s-L"): Outcome(("prob-b",), "PROB-B"),
    ("exp", "L-Lmax"): Outcome(("w",), "COMBINE-EXP"),
    ("exp", "L-LSE"): Outcome(("weight",), "COMBINE-WEIGHT"),
    ("log", "denom"): Outcome(("logd",), "LSE-LOG"),
    ("log", "rowsum"): Outcome(("logd",), "LSE-LOG"),
    ("log", "wsum"): Outcome(("logw",), "COMBINE-LOG"),
    ("neg", "max"): Outcome(("nmax",), "MAX-NEG"),
    ("neg", "nmax"): Outcome(("max",), None),
    ("neg", "inv"): Outcome(("ninv",), None),
    ("neg", "ninv"): Outcome(("inv",), None),
    ("neg", "num"): Outcome(("minus",), None),
    ("neg", "one"): Outcome(("minus",), None),
    ("neg", "minus"): Outcome(("num",), None),
    ("neg", "pos"): Outcome(("neg",), None),
    ("neg", "neg"): Outcome(("pos",), None),
    ("neg", "zero"): Outcome(("zero",), None),
    ("neg", "m-m"): Outcome(("m-m",), None),
    ("neg", "s-m"): Outcome(("s-m",), None),
    ("reciprocal", "denom"): Outcome(("rdenom",), "RECIPROCAL"),
    ("reciprocal", "rowsum"): Outcome(("rdenom",), "RECIPROCAL"),
    ("relu", "score"): Outcome(("relu",), "RELU"),
    ("reduce_max", "score"): Outcome(("max",), "REDUCE-MAX"),
    ("reduce_max", "L"): Outcome(("Lmax",), "COMBINE-MAX"),
    ("reduce_sum", "prob"): Outcome(("rowsum",), "ROWSUM"),
    ("reduce_sum", "relu"): Outcome(("logit",), "LOGIT"),
    ("reduce_sum", "w"): Outcome(("wsum",), "COMBINE-SUM"),
    ("reduce_sum", "wacc"): Outcome(("wacc",), None),
    ("reduce_sum", "acc"): Outcome(("acc",), None),
    ("reduce_sum", "score"): Outcome(("score",), None),
    ("reduce_sum", "L"): Outcome((LEFT,), None),
    ("reduce_min", "nmax"): Outcome(("nmax",), None),
}

KEEPS_WITH_SCALAR = {
    "mul": PLAIN | {"inv"},
    "div": PLAIN | {"inv"},
    "add": SCALARS,
    "sub": SCALARS,
    "max": SCALARS,
    "min": SCALARS,
}
"""A role survives an operation with these scalars."""


def family(tag: str) -> str:
    """The row that a tag is looked up under: every `L:name` is `L`."""
    return "L" if tag.startswith("L:") else tag


def binary(op: str, left: str, right: str) -> Outcome:
    """What an operation of two tags gives."""
    found = BINARY.get((op, family(left), family(right)))
    if found is not None:
        swap = {LEFT: left, RIGHT: right}
        return Outcome(tuple(swap.get(tag, tag) for tag in found.tags), found.event)
    return _default(op, left, right)


def unary(op: str, tag: str) -> Outcome:
    """What an operation of one tag gives."""
    found = UNARY.get((op, family(tag)))
    if found is None:
        return Outcome(())
    return Outcome(tuple(tag if made == LEFT else made for made in found.tags), found.event)


def _default(op: str, left: str, right: str) -> Outcome:
    keeps = KEEPS_WITH_SCALAR.get(op, frozenset())
    if left in SCALARS and right in SCALARS:
        return Outcome((_scalar(op, left, right),))
    if right in SCALARS:
        return _kept(op, left) if right in keeps else Outcome(())
    if left in SCALARS and op in ("mul", "add", "max", "min"):
        return _kept(op, right) if left in keeps else Outcome(())
    if left == right and op in ("add", "max", "min"):
        return Outcome((left,))
    return Outcome(())


def _kept(op: str, tag: str) -> Outcome:
    if tag == "xr":
        return Outcome(())
    return Outcome(
        (tag,), "SCALE" if op in ("mul", "div") and family(tag) in ("score", "max", "L") else None
    )


def _scalar(op: str, left: str, right: str) -> str:
    if op in ("add", "sub") and right == "zero":
        return left
    if op == "add" and left == "zero":
        return right
    if op == "mul" and "zero" in (left, right):
        return "zero"
    if op == "mul" or (op == "div" and right not in ("neg", "pos")):
        return _product_of(left, right)
    huge = [tag for tag in (left, right) if tag in ("neg", "pos")]
    if len(huge) == 1 and (op in ("add", "max", "min") or huge[0] == left):
        return huge[0]
    return left if left == right and op != "sub" else "inv"


def _product_of(left: str, right: str) -> str:
    """Sign and size of a product: a huge number stays huge."""
    negative = (left in BELOW_ZERO) != (right in BELOW_ZERO)
    if {"neg", "pos"} & {left, right}:
        return "neg" if negative else "pos"
    return "ninv" if negative else "inv"


def merge(*values: Value) -> Value:
    """Union of roles; the first maker is kept."""
    merged: Value = {}
    for value in values:
        for tag, maker in value.items():
            merged.setdefault(tag, maker)
    return merged
