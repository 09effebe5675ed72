# ruff: noqa: E501  (conditions are easier to read on one line)
"""Which comparison is which mask: by what each side moves with, by direction, by polarity."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from srcmap.anatomy.concepts.masking import Masks, concepts_of
from tests.anatomy.little import ascend, nvidia, opened, sites

if TYPE_CHECKING:
    from srcmap.anatomy.conditions import Kind

MASKS = {"causal-mask", "window-mask", "padding-mask", "boundary-mask", "mask-load", "block-mask"}

ROW, COL = "x * bq + i", "n * bk + j"

# What makes a key visible.
VISIBLE = [
    (f"{ROW} >= {COL}", {"causal-mask"}),
    (f"{COL} <= {ROW}", {"causal-mask"}),
    (f"{ROW} > {COL}", {"causal-mask"}),
    (f"{ROW} - ({COL}) >= 0", {"causal-mask"}),
    (f"{COL} - ({ROW}) <= 0", {"causal-mask"}),
    (f"{ROW} == {COL}", {"causal-mask"}),
    (f"{ROW} < {COL} + 128", {"window-mask"}),
    (f"{COL} > {ROW} - 128", {"window-mask"}),
    (f"{ROW} - ({COL}) < 128", {"window-mask"}),
    (f"{COL} - ({ROW}) > -128", {"window-mask"}),
    (f"{ROW} < S", {"padding-mask"}),
    (f"S > {ROW}", {"padding-mask"}),
    (f"{COL} < S", {"boundary-mask"}),
    (f"S > {COL}", {"boundary-mask"}),
    (f"{COL} < lengths[b]", {"boundary-mask"}),
    (f"{ROW} < lengths[b]", {"padding-mask"}),
    # one statement may carry two; the window takes the causal edge in
    (f"{ROW} >= {COL} and {COL} < S", {"causal-mask"}),
    (f"{ROW} >= {COL} and {ROW} < S", {"causal-mask", "padding-mask"}),
    (f"{COL} <= {ROW} and {COL} > {ROW} - 128", {"window-mask"}),
    (f"{ROW} - 128 < {COL} <= {ROW}", {"window-mask"}),
    (f"({ROW} >= {COL}) & ({COL} < S)", {"causal-mask"}),
    (f"T.And({ROW} >= {COL}, {ROW} < S)", {"causal-mask", "padding-mask"}),
    (f"T.all_of({ROW} >= {COL}, {ROW} < S)", {"causal-mask", "padding-mask"}),
    (f"{ROW} >= {COL} or {COL} < 4", {"causal-mask"}),
    (f"not ({ROW} < {COL})", {"causal-mask"}),
    (f"T.Not({ROW} < {COL})", {"causal-mask"}),
    (f"not not ({ROW} >= {COL})", {"causal-mask"}),
    (f"not ({ROW} >= {COL} + 128)", {"window-mask"}),
    (f"T.likely({ROW} >= {COL})", {"causal-mask"}),
    (f"T.if_then_else({ROW} >= {COL}, 1, 0) > 0", {"causal-mask"}),
    (f"T.if_then_else({ROW} < {COL}, 1, 0) == 0", {"causal-mask"}),
    (f"T.if_then_else({ROW} < {COL}, 0, 1) != 0", {"causal-mask"}),
    (f"({ROW} >= {COL} if {COL} < S else False)", {"causal-mask"}),
    # masks handed in
    ("seen[b, n * bk + j] != 0", {"mask-load"}),
    ("seen[b, n * bk + j] > 0", {"mask-load"}),
    ("seen[b, n * bk + j] == 1", {"mask-load"}),
    ("blocks[x, n] != 0", {"block-mask"}),
    ("blocks[x, n] == 1 and n * bk + j < S", {"block-mask", "boundary-mask"}),
]


@pytest.mark.parametrize(("visible", "masks"), VISIBLE, ids=[r[0] for r in VISIBLE])
def test_what_makes_a_key_visible(visible: str, masks: set[str]) -> None:
    assert _masks(f"s[i, j] = T.if_then_else({visible}, s[i, j], -1e9)") == masks


@pytest.mark.parametrize(("visible", "masks"), VISIBLE, ids=[r[0] for r in VISIBLE])
def test_the_same_said_of_what_hides_it(visible: str, masks: set[str]) -> None:
    assert _masks(f"s[i, j] = T.if_then_else(not ({visible}), -1e9, s[i, j])") == masks


def _masks(*body: str, **steps: str) -> set[str]:
    source = nvidia(
        parameters="""
        lengths: T.Tensor((B,), "int32"),
        seen: T.Tensor((B, S), "uint8"),
        blocks: T.Tensor((S, S), "uint8"),
        """,
        mask="\n".join(["for i, j in T.Parallel(bq, bk):", *("    " + line for line in body)]),
        **steps,
    )
    return {site.concept for site in sites(source, *MASKS)}


# Other ways to write `row >= col`, all causal.
WRITTEN = {
    "a scalar": [
        "seen_by = x * bq + i >= n * bk + j",
        "s[i, j] = T.if_then_else(seen_by, s[i, j], -1e9)",
    ],
    "scalars of both sides": [
        "row = x * bq + i",
        "col = n * bk + j",
        "s[i, j] = T.if_then_else(row < col, -1e9, s[i, j])",
    ],
    "scalars of scalars": [
        "base = x * bq",
        "row = base + i",
        "ok = row >= n * bk + j",
        "ok2 = ok and row < S * 2",
        "s[i, j] = T.if_then_else(ok2, s[i, j], -1e9)",
    ],
    "Select": ["s[i, j] = T.Select(x * bq + i >= n * bk + j, s[i, j], -1e9)"],
    "ternary": ["s[i, j] = s[i, j] if x * bq + i >= n * bk + j else -1e9"],
    "added": ["s[i, j] = s[i, j] + T.if_then_else(x * bq + i >= n * bk + j, 0, -1e9)"],
    "an if": ["if x * bq + i < n * bk + j:", "    s[i, j] = -T.infinity('float32')"],
    "an else": ["if x * bq + i >= n * bk + j:", "    T.print(i)", "else:", "    s[i, j] = -1e9"],
    "nested choices": [
        "s[i, j] = T.if_then_else(n < 3, T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9), s[i, j])"
    ],
    "a cast": [
        "s[i, j] = T.if_then_else(T.int32(x * bq + i) >= T.cast(n * bk + j, 'int32'), s[i, j], -1e9)"
    ],
    "keywords": [
        "s[i, j] = T.if_then_else(cond=x * bq + i >= n * bk + j, true_value=s[i, j], false_value=-1e9)"
    ],
    "added in place": ["s[i, j] += T.if_then_else(x * bq + i >= n * bk + j, 0, -1e9)"],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_ways_to_write_it(name: str) -> None:
    assert _masks(*WRITTEN[name]) - {"padding-mask"} == {"causal-mask"}


def test_a_mask_buffer_is_what_was_written_to_it() -> None:
    source = nvidia(
        allocate="ok = T.alloc_fragment((bq, bk), 'bool')",
        load_k="T.copy(K[b, h, n * bk : (n + 1) * bk, :], k)\nfor i, j in T.Parallel(bq, bk):\n    ok[i, j] = x * bq + i >= n * bk + j",
        mask="for i, j in T.Parallel(bq, bk):\n    s[i, j] = T.if_then_else(ok[i, j], s[i, j], -1e9)",
    )
    assert {site.concept for site in sites(source, *MASKS)} == {"causal-mask"}


def test_a_tile_of_zeros_and_hidden_values_that_is_added_is_a_mask() -> None:
    source = nvidia(
        allocate="bias = T.alloc_fragment((bq, bk), 'float32')",
        mask="""
        for i, j in T.Parallel(bq, bk):
            bias[i, j] = T.if_then_else(x * bq + i >= n * bk + j, 0, -1e9)
        for i, j in T.Parallel(bq, bk):
            s[i, j] = s[i, j] + bias[i, j]
        """,
    )
    (mask,) = sites(source, *MASKS)
    assert mask.concept == "causal-mask"
    assert mask.lines.last - mask.lines.first == 1


@pytest.mark.parametrize("mode", ["LT", "LE", "GE", "GT"])
def test_compare_and_select_of_tiles(mode: str) -> None:
    source = ascend(
        allocate="cols = T.alloc_ub([bk], 'float')\nok = T.alloc_ub([bk // 8], 'uint8')",
        mask=f"""
        T.tile.createvecindex(cols, n * bk)
        T.tile.compare(ok, cols, S - 3, "{mode}")
        for i in range(half):
            T.tile.select(s[i, :], ok, s[i, :], -T.infinity("float"), "VSEL_TENSOR_SCALAR_MODE")
        """,
    )
    found = sites(source, *MASKS)
    assert [site.concept for site in found] == ["boundary-mask"]
    (value,) = sites(source, "mask-value")
    assert value.detail == "-inf"


# No mask at all.
NONE = {
    "a choice of two scores": "s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], s[i, j] * 2)",
    "a small number": "s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -100)",
    "of the builder alone": "s[i, j] = T.if_then_else(causal, s[i, j], -1e9)",
    "not a score": "p[i, j] = T.if_then_else(x * bq + i >= n * bk + j, p[i, j], -1e9)",
    "a clamp": "s[i, j] = T.max(s[i, j], -1e9)",
}


@pytest.mark.parametrize("name", NONE)
def test_what_is_no_mask(name: str) -> None:
    assert _masks(NONE[name]) == set()


VALUES = [
    ("-T.infinity('float32')", "-inf"),
    ("-1e9", "-1e+09"),
    ("-(2**30)", "-1.07374e+09"),
    ("float('-inf')", "-inf"),
    ("T.float32(-1e10)", "-1e+10"),
    ("T.min_value('float32')", "-inf"),
]


@pytest.mark.parametrize(("value", "detail"), VALUES, ids=[r[0] for r in VALUES])
def test_value_of_a_hidden_score(value: str, detail: str) -> None:
    source = nvidia(
        mask=f"for i, j in T.Parallel(bq, bk):\n    s[i, j] = T.if_then_else({COL} < S, s[i, j], {value})"
    )
    (site,) = sites(source, "mask-value")
    assert site.detail == detail
    assert site.lines.first == site.lines.last


@pytest.mark.parametrize("where", ["module", "builder", "before"])
def test_a_named_value_stands_where_it_is_named(where: str) -> None:
    steps = {where: "\nhidden = -1e9" if where != "module" else "hidden = -1e9\n"}
    source = nvidia(
        mask=f"for i, j in T.Parallel(bq, bk):\n    s[i, j] = T.if_then_else({COL} < S, s[i, j], hidden)",
        **steps,
    )
    (site,) = sites(source, "mask-value")
    line = source.split("\n")[site.lines.first - 1].strip()
    assert (line, site.detail) == ("hidden = -1e9", "-1e+09")


def test_comparisons_keep_their_polarity_through_everything() -> None:
    test = "not (T.if_then_else(row < col, 1, 0) == 0 or not (col < S))"
    kernel = opened(
        nvidia(
            mask=f"""
            for i, j in T.Parallel(bq, bk):
                row = x * bq + i
                col = n * bk + j
                s[i, j] = T.if_then_else({test}, -1e9, s[i, j])
            """
        )
    )
    (write,) = Masks(kernel).writes
    told = {
        f"{ast.unparse(one.left)} {one.op} {ast.unparse(one.right or one.left)}": one.hides
        for one in write.comparisons
    }
    assert told == {"row < col": True, "col < S": True}
    assert concepts_of(write.kinds) == {"causal-mask"}


KINDS: list[tuple[set[Kind], set[str]]] = [
    ({"causal"}, {"causal-mask"}),
    ({"causal", "window"}, {"window-mask"}),
    ({"causal", "padding", "boundary"}, {"causal-mask", "padding-mask"}),
    ({"padding", "window"}, {"window-mask", "padding-mask"}),
    ({"boundary"}, {"boundary-mask"}),
    ({"boundary", "other"}, {"boundary-mask"}),
    ({"other"}, set()),
    ({"input-mask"}, set()),
]


@pytest.mark.parametrize(("kinds", "concepts"), KINDS, ids=[" ".join(sorted(r[0])) for r in KINDS])
def test_concepts_of_one_statement(kinds: set[Kind], concepts: set[str]) -> None:
    assert concepts_of(frozenset(kinds)) == concepts


# A test of a look-up: of what masks, or of where the key stands.
POSITION = nvidia(
    parameters='chosen: T.Tensor((B, S), "int32"),',
    load_k="""
    at = chosen[b, n]
    T.copy(K[b, h, at * bk : at * bk + bk, :], k)
    """,
    mask="""
    for i, j in T.Parallel(bq, bk):
        s[i, j] = T.if_then_else(at != -1, s[i, j], -1e9)
    """,
)


def test_validity_of_an_index_is_a_boundary_and_no_block_mask() -> None:
    assert {site.concept for site in sites(POSITION, *MASKS)} == {"boundary-mask"}


def test_the_position_that_a_table_gives_is_a_key() -> None:
    source = POSITION.replace("at != -1", "at * bk + j <= x * bq + i")
    assert {site.concept for site in sites(source, *MASKS)} == {"causal-mask"}
