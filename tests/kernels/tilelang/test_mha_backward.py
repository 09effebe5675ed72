"""The gradients of MHA without a GPU: the four kernels in the interpreter, one after the other."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from kernels.mha.backward_reference import gradients
from kernels.mha.reference import attention as reference
from tests.kernels.tilelang.gradients import Case, allowed, compare, laid, made, nan
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.packed import numpy_type

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")

FILE = "kernels/mha/tilelang_backward.py"
CASES = {
    "one of 5": Case(1, 1, 1, 1, 5, 64, causal=True),
    "65": Case(1, 2, 2, 65, 65, 64, causal=True),
    "ragged": Case(2, 1, 1, 200, 300, 64, causal=True),
    "ragged, not causal": Case(1, 2, 2, 130, 150, 128, causal=False, layout="BSHD"),
    "more queries": Case(1, 1, 1, 200, 90, 64, causal=False),
    "128 queries": Case(1, 1, 1, 257, 257, 64, causal=True, tiling=(("block_q", 128),)),
    "ahead": Case(
        1, 2, 2, 300, 300, 64, causal=True,
        tiling=(("ahead", True), ("stages", 3), ("head_group", 2)),
    ),
    "large scores": Case(1, 1, 1, 130, 200, 64, causal=True, size=12.0),
    "large scores, not causal": Case(1, 1, 1, 100, 30, 64, causal=False, size=40.0),
    "bfloat16": Case(1, 1, 1, 140, 200, 128, causal=True, layout="BSHD", dtype="bfloat16"),
    "bfloat16, not causal": Case(1, 1, 1, 100, 100, 64, causal=False, dtype="bfloat16"),
}  # fmt: skip


@cache
def ran() -> dict[str, tuple[Any, ...]]:
    """Return the inputs, output, lse and gradients of every case; four child processes do it."""
    cases = list(CASES.values())
    given = [laid(case.layout, *made(seed, case)) for seed, case in enumerate(cases)]
    first = _run("mha_forward_lse", ("dim", "causal", "layout", "dtype"), given, (0, 1, 2))
    prepared = _run(
        "mha_backward_rows",
        ("dim", "layout", "dtype"),
        [
            (out, do, lse, *_workspace(case))
            for case, (*_, do), (out, lse) in zip(cases, given, first, strict=True)
        ],
    )
    summed = _run(
        "mha_backward",
        ("dim", "causal", "layout", "dtype", "tiling"),
        [
            (q, k, v, do, rows, delta, np.full_like(k, np.nan), np.full_like(v, np.nan), sums)
            for (q, k, v, do), (*_, rows, delta, sums) in zip(given, prepared, strict=True)
        ],
    )
    rounded = _run(
        "mha_backward_round",
        ("dim", "layout", "dtype", "block_q"),
        [
            (sums, np.full_like(tensors[0], np.nan))
            for tensors, (*_, sums) in zip(given, summed, strict=True)
        ],
    )
    found = zip(cases, given, first, summed, rounded, strict=True)
    return dict(
        zip(
            CASES,
            (
                (tensors, (out, lse), laid(case.layout, dq, dk, dv))
                for case, tensors, (out, lse), (*_, dk, dv, _), (_, dq) in found
            ),
            strict=True,
        )
    )


def _run(
    builder: str, wanted: tuple[str, ...], inputs: list[Any], places: tuple[int, ...] | None = None
) -> list[tuple[Any, ...]]:
    """Run a builder for all cases: `wanted` are its arguments, `places` those inputs it takes."""
    runs = []
    for case, given in zip(CASES.values(), inputs, strict=True):
        named = {**case._asdict(), **dict(case.tiling)}
        arguments = {"heads": case.heads} | {n: named[n] for n in wanted if n in named}
        if arguments.pop("tiling", ()):
            arguments |= dict(case.tiling)
        taken = given if places is None else tuple(given[place] for place in places)
        runs.append(Run(arguments, taken))
    return outputs(FILE, builder, runs)


def _workspace(case: Case) -> tuple[Any, ...]:
    rows = -(-case.seq_q // 128) * 128
    each = nan(case.batch, case.heads, rows)
    return each, each.copy(), nan(case.batch, case.heads, rows * case.dim // 256, 256)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    case = CASES[name]
    given, _, got = ran()[name]
    plain = laid(case.layout, *given)
    exact = gradients(*plain, causal=case.causal)
    compare(name, got, exact, allowed(plain, case.causal, case.dtype))
    assert all(x.dtype == numpy_type(case.dtype) for x in got)


@pytest.mark.parametrize("name", CASES)
def test_the_forward_and_the_logarithms_of_its_sums(name: str) -> None:
    case = CASES[name]
    given, (out, lse), _ = ran()[name]
    q, k, v, _ = (x.astype(np.float64) for x in laid(case.layout, *given))
    exact = reference(q, k, v, causal=case.causal)
    (out,) = laid(case.layout, out)
    unit = 2.0**-11 if case.dtype == "float16" else 2.0**-8
    assert np.abs(out.astype(np.float64) - exact).max() <= 2 * unit * np.abs(v).max()
    s = q @ np.swapaxes(k, 2, 3) * case.dim**-0.5
    if case.causal:
        s = np.where(np.tri(case.seq_q, case.seq_kv, case.seq_kv - case.seq_q) > 0, s, -np.inf)
    want = np.logaddexp.reduce(s, axis=3) * np.log2(np.e)
    assert np.abs(lse - want).max() <= 8 * 2.0**-24 * max(1.0, float(np.abs(want).max()))
