"""The table of cases, and the budget."""

from __future__ import annotations

import numpy as np
import pytest

from srcmap.catalogue import load_catalogue
from srcmap.engines import caselist
from srcmap.engines.cases import registry
from srcmap.engines.cases.checks import CASES, Check, Expected, Run, budget, leaving_out
from srcmap.engines.cases.judging import compare, summary
from srcmap.engines.cases.references import attention, causal, window


def test_the_table_lists_the_cases() -> None:
    rows = {(row.repo, row.path, row.variants, row.case) for row in caselist.LISTED}
    made = {(c.repo, c.path, c.variants, f"{c.repo}:{c.id}") for c in CASES}
    assert rows == made
    assert registry.case_named(caselist.LISTED[0].case).path == caselist.LISTED[0].path


def test_every_kernel_file_of_the_catalogue_has_a_case_or_a_reason() -> None:
    gone = {
        "examples/gqa_fwd_varlen/gqa_fwd_varlen.py",
        "examples/mha_sink_fwd_bhsd/mha_sink_fwd_bhsd.py",
    }
    missing = [
        (request.repo, request.path)
        for variant in load_catalogue(None).variants
        for request in variant.files
        if request.path.startswith("examples/") and request.path.endswith(".py")
        if caselist.listed(request.repo, request.path) is None
        if (request.repo, request.path) not in caselist.UNTESTED
        if request.path not in gone  # in none of the pins
    ]
    assert missing == []


def check(stored: str = "float16", *, exact: bool = False) -> Check:
    return Check("tiny", Run("make"), (), stored, exact=exact)


def test_a_nan_is_never_within_the_budget() -> None:
    want = Expected(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    found = compare(check(), want, np.array([1.0, np.nan]), 0)
    assert (found.bad, found.where, found.error, found.ratio) == (1, (1,), None, None)


def test_infinities_must_be_the_same() -> None:
    want = Expected(np.array([-np.inf, 1.0]), np.array([0.0, 1.0]))
    assert compare(check(), want, np.array([-np.inf, 1.0]), 0).bad == 0
    assert compare(check(), want, np.array([np.inf, 1.0]), 0).where == (0,)


def test_exact_means_every_bit() -> None:
    want = Expected(np.array([3.0]), np.array([0.0]))
    assert compare(check(exact=True), want, np.array([3.0 + 1e-6]), 0).bad == 1


@pytest.mark.parametrize("stored", ["float16", "bfloat16", "float32"])
def test_the_budget_takes_a_rounding_and_no_more_than_a_few(stored: str) -> None:
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}[stored]
    want = Expected(np.array([1.0]), np.array([1.0]))
    allowed = budget(check(stored), want)[0]
    assert unit < allowed < 6 * unit + 1e-5


def test_a_row_that_sees_nothing_gives_zero() -> None:
    one = np.ones((2, 3))
    mask = np.array([[True, True], [False, False]])
    got = attention(one, one, one, mask)
    assert np.allclose(got.values, [[1, 1, 1], [0, 0, 0]])
    with_sink = attention(one, one, one, mask, sink=np.array(0.0))
    assert np.all(with_sink.values[0] < 1)
    assert np.allclose(with_sink.values[1], 0)


def test_masks_are_aligned_at_the_end() -> None:
    assert causal(1, 3).tolist() == [[True, True, True]]
    assert (causal(2, 3) & window(2, 3, 2)).tolist() == [[True, True, False], [False, True, True]]


def test_a_summary_counts_what_is_no_number() -> None:
    got = summary("x", np.array([1.0, np.nan, -np.inf, 3.0]))
    assert (got.low, got.high, got.nan, got.infinite) == (1.0, 3.0, 1, 1)


def test_what_is_left_out_is_infinite_and_only_rows_that_do_not_see_it_count() -> None:
    values = np.ones((4, 2), np.float16)
    whole = Check("tiny", Run("make", inputs=(None, values)), (Expected(values, values),))
    made = leaving_out(whole, 1, np.s_[2:], np.s_[:2])
    assert np.isinf(made.run.inputs[1]).tolist() == [[False] * 2] * 2 + [[True] * 2] * 2
    assert made.run.finish is not None
    (output,) = made.run.finish((np.arange(8).reshape(4, 2),))
    assert output.tolist() == [[0, 1], [2, 3]]
    assert made.want[0].values.shape == (2, 2)
    assert made.left_out
    assert np.isfinite(values).all()
