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


def _rows() -> dict[tuple[str, str, str], Outcome]:
    table: dict[tuple[str, str, str], Outcome] = {}

    def row(op: str, left: str, right: str, tags: str, event: str | None = None) -> None:
        table[op, left, right] = Outcome(tuple(tags.split()), event)
        if op in ("add", "mul", "max", "min") and left != right:
            swap = {LEFT: RIGHT, RIGHT: LEFT}
            table[op, right, left] = Outcome(
                tuple(swap.get(tag, tag) for tag in tags.split()), event
            )

    # the exponent and what it is taken of
    row("sub", "score", "max", "s-m", "S-M")
    row("add", "score", "nmax", "s-m", "S-M")
    row("sub", "max", "max", "m-m", "M-M")
    row("sub", "nmax", "nmax", "m-m", "M-M")
    row("add", "max", "nmax", "m-m", "M-M")
    row("sub", "neg", "max", "i-m", None)  # the first block: the maximum is still its initial value
    row("add", "neg", "nmax", "i-m", None)
    row("sub", "nmax", "pos", "i-m", None)
    row("sub", "pos", "nmax", "i-m", None)
    row("mul", "zero", "fade", "zero xr", None)
    row("mul", "denom", "fade", "denom xr", None)
    row("mul", "acc", "fade", "acc", None)
    row("sub", "L", "max", "L-m", "SINK-DIFF")
    row("add", "L", "nmax", "L-m", "SINK-DIFF")
    row("sub", "score", "L", "s-L", "S-L")
    row("sub", "score", "lse", "s-L", "S-L")
    # the running maximum
    row("max", "max", "max", "max", "MAX-MERGE")
    row("max", "max", "score", "max", "REDUCE-MAX")
    row("max", "neg", "score", "max score", None)
    row("max", "max", "L", "max", "MAX-SINK")
    row("min", "nmax", "nmax", "nmax", "MAX-MERGE")
    row("min", "nmax", "pos", "nmax", None)
    row("min", "nmax", "L", "nmax", "MAX-MERGE")
    for scalar in ("neg", "num", "minus", "inv", "ninv", "zero", "one"):
        row("max", "max", scalar, "max", "MAX-CLAMP")
    for scalar in NEGATIVE:
        row("mul", "max", scalar, "nmax", "MAX-NEG")
        row("mul", "nmax", scalar, "max", None)
        row("div", "max", scalar, "nmax", "MAX-NEG")
        row("mul", "score", scalar, "score", "SCALE")
    # the denominator
    row("mul", "denom", "rescale", "denom xr", "DENOM-RESCALE")
    row("mul", "zero", "rescale", "zero xr", None)
    row("add", "denom", "rowsum", "denom", "DENOM-ADD")
    row("add", "zero", "rowsum", "denom", "DENOM-ADD")
    row("add", "xr", "rowsum", "denom", "DENOM-ADD")
    row("add", "rowsum", "rowsum", "rowsum", None)
    row("add", "denom", "sinkexp", "denom", "SINK-ADD")
    row("add", "rowsum", "sinkexp", "denom", "SINK-ADD")
    row("add", "denom", "L", "denom", "SINK-ADD")
    row("add", "denom", "prob", "denom", "DENOM-ADD")
    row("add", "zero", "prob", "prob rowsum", None)
    row("add", "denom", "num", "denom", "EMPTY-ROW")
    row("max", "denom", "num", "denom", "EMPTY-ROW")
    row("max", "denom", "one", "denom", "EMPTY-ROW")
    # the accumulator
    row("mul", "acc", "rescale", "acc", "ACC-RESCALE")
    row("add", "acc", "acc", "acc", "ACC-ADD")
    row("div", "acc", "denom", "acc norm", "NORM")
    row("mul", "acc", "rdenom", "acc norm", "NORM")
    row("div", "prob", "denom", "prob", "NORM")
    row("div", "prob", "rowsum", "prob", "NORM")
    row("mul", "acc", "sinkexp", "acc", "ACC-RESCALE")
    row("mul", "denom", "sinkexp", "denom", "DENOM-RESCALE")
    for scalar in PLAIN:
        row("div", scalar, "denom", "rdenom", "RECIPROCAL")
    # log-sum-exp
    row("add", "logd", "max", "lse", "LSE")
    row("sub", "logd", "nmax", "lse", "LSE")
    # masks multiplied in after the exponential, scales of quantised operands
    row("mul", "prob", "L", "prob", "MASK-AFTER-EXP")
    row("mul", "prob", "zero", "prob", "MASK-AFTER-EXP")
    row("mul", "score", "L", "score", "SCORE-WEIGHT")
    row("mul", "acc", "L", "acc", None)
    row("mul", "L", "L", f"{LEFT} {RIGHT}", None)
    row("div", "L", "L", f"{LEFT} {RIGHT}", None)
    row("mul", "relu", "L", "relu", "INDEX-WEIGHT")
    row("mul", "logit", "L", "logit", None)
    # scores: additive masks and biases
    row("add", "score", "L", "score", "SCORE-BIAS")
    row("add", "score", "score", "score", None)
    row("add", "score", "neg", "score", None)
    row("max", "score", "zero", "relu", "RELU")
    row("max", "score", "score", "score", None)
    row("add", "L", "L", f"{LEFT} {RIGHT}", None)
    row("sub", "L", "L", f"{LEFT} {RIGHT}", None)
    # combining splits
    row("sub", "L", "Lmax", "L-Lmax", "COMBINE-DIFF")
    row("max", "Lmax", "L", "Lmax", "COMBINE-MAX")
    row("max", "neg", "L", "Lmax", "COMBINE-MAX")
    row("max", "Lmax", "Lmax", "Lmax", "COMBINE-MAX")
    row("add", "zero", "w", "wsum", "COMBINE-SUM")
    row("add", "wsum", "w", "wsum", "COMBINE-SUM")
    row("add", "wsum", "wsum", "wsum", "COMBINE-SUM")
    row("add", "logw", "Lmax", "LSE", "COMBINE-LSE")
    row("sub", "L", "LSE", "L-LSE", "COMBINE-DIFF")
    row("mul", "L", "weight", "wacc", "COMBINE-ACC")
    row("mul", "L", "w", "wacc", "COMBINE-ACC")
    row("div", "w", "wsum", "weight", "COMBINE-WEIGHT")
    row("div", "wacc", "wsum", "wacc", "COMBINE-NORM")
    row("add", "wacc", "wacc", "wacc", None)
    # backward
    row("mul", "prob-b", "score", "ds", None)
    row("mul", "prob-b", "s-L", "ds", None)
    row("mul", "prob-b", "L", "prob-b", None)
    return table


BINARY = _rows()

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
    if op in ("mul", "div"):
        return _product_of(left, right)
    if op in ("add", "sub", "max", "min") and left in ("neg", "pos"):
        return left
    return "inv"


def _product_of(left: str, right: str) -> str:
    """Sign and size of a product: a huge number stays huge."""
    negative = (left in BELOW_ZERO) != (right in BELOW_ZERO)
    if left in ("neg", "pos"):
        return "neg" if negative else "pos"
    return "ninv" if negative else "inv"


def merge(*values: Value) -> Value:
    """Union of roles; the first maker is kept."""
    merged: Value = {}
    for value in values:
        for tag, maker in value.items():
            merged.setdefault(tag, maker)
    return merged
