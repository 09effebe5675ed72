"""The ladder in TileLang: each step computes attention, and shows one idea in `srcmap diff`."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from kernels.mha.reference import attention
from srcmap.cli import run
from tests.kernels.budget import Inputs, allowed
from tests.kernels.tilelang.interpreted import ROOT, Run, outputs
from tests.kernels.tilelang.packed import numpy_type

pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")

LADDER = "kernels/mha/ladder/tilelang_"
STEPS = ("naive", "blocked", "pipelined", "aligned")
CASES: dict[str, dict[str, Any]] = {
    "one": {"sizes": (1, 1, 64)},
    "65": {"sizes": (65, 65, 64)},
    "100 of 200": {"sizes": (100, 200, 128)},
    "more queries": {"sizes": (150, 70, 64)},
    "large scores": {"sizes": (70, 130, 64), "size": 12.0},
    "bfloat16": {"sizes": (100, 130, 64), "dtype": "bfloat16"},
    "causal": {"sizes": (100, 130, 64), "causal": True},
    "causal, square": {"sizes": (200, 200, 128), "causal": True},
}
PAIRS = [(s, n) for s in STEPS for n, c in CASES.items() if s == "aligned" or "causal" not in c]


def tensors(name: str) -> tuple[Any, ...]:
    """Return q, k, v of a case. Later keys are longer, so that maxima move."""
    case = CASES[name]
    queries, keys, dim = case["sizes"]
    rng = np.random.default_rng([queries, keys])
    q = rng.standard_normal((1, 2, queries, dim)) * case.get("size", 1.0)
    k, v = rng.standard_normal((2, 1, 2, keys, dim))
    k *= np.linspace(0.2, 1.5, keys)[:, None]
    return tuple(x.astype(numpy_type(case.get("dtype", "float16"))) for x in (q, k, v))


@cache
def ran(step: str) -> dict[str, Any]:
    """Return the output of every case that a step can do."""
    names = [name for s, name in PAIRS if s == step]
    runs = []
    for name in names:
        case = CASES[name]
        sizes = dict(zip(("seq_q", "seq_kv", "dim"), case["sizes"], strict=True))
        options: dict[str, Any] = {n: case[n] for n in ("dtype", "causal") if n in case}
        runs.append(Run({"batch": 1, "heads": 2, **sizes, **options}, tensors(name)))
    found = outputs(f"{LADDER}{step}.py", f"{step}_forward", runs)
    return {name: first for name, (first, *_) in zip(names, found, strict=True)}


@pytest.mark.parametrize(("step", "name"), PAIRS)
def test_each_step_agrees_with_the_definition(step: str, name: str) -> None:
    case, given, got = CASES[name], tensors(name), ran(step)[name]
    options: dict[str, Any] = {"causal": True} if "causal" in case else {}
    exact = attention(*given, causal="causal" in case)
    kind = case.get("dtype", "float16")
    most = allowed(attention, Inputs(given, options), kind, -(-given[1].shape[2] // 64), False)
    assert got.dtype == given[0].dtype
    assert (np.abs(got.astype(np.float64) - exact) <= most).all()


def kinds(after: str, before: str, capsys: pytest.CaptureFixture[str]) -> dict[str, set[str]]:
    """Return the concepts that `srcmap diff` finds, by what has become of them."""
    files = (str(ROOT / after), str(ROOT / before))
    assert run(["diff", files[0], "--base", files[1], "--format", "json", "--lang", "en"]) in (0, 1)
    found: dict[str, set[str]] = {}
    for one in json.loads(capsys.readouterr().out)["differences"]:
        found.setdefault(one["kind"], set()).add(one["concept"])
    return found


def test_blocked_drops_the_workspaces_and_rescales(capsys: pytest.CaptureFixture[str]) -> None:
    found = kinds(f"{LADDER}blocked.py", f"{LADDER}naive.py", capsys)
    assert found["added"] == {"rescale-factor", "acc-rescale"}
    assert found["dropped"] == {"workspace-param"}
    assert found["changed"] == {"kv-loop"}


def test_pipelined_changes_the_loop_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = kinds(f"{LADDER}pipelined.py", f"{LADDER}blocked.py", capsys)
    assert not {"added", "dropped", "changed"} & set(found)
    source = (ROOT / f"{LADDER}pipelined.py").read_text(encoding="utf-8")
    assert "T.Pipelined(blocks, num_stages=stages)" in source


def test_aligned_adds_who_sees_what(capsys: pytest.CaptureFixture[str]) -> None:
    found = kinds(f"{LADDER}aligned.py", f"{LADDER}pipelined.py", capsys)
    assert found["added"] == {"query-offset", "loop-range", "causal-mask"}
    assert "dropped" not in found


def test_the_last_step_parts_warp_groups(capsys: pytest.CaptureFixture[str]) -> None:
    """Two loops, one that brings and one that computes, and products before and after it."""
    found = kinds("kernels/mha/tilelang_kernel.py", f"{LADDER}aligned.py", capsys)
    assert {"kv-loop", "qk-gemm", "pv-gemm"} <= found["changed"]
    assert not {"added", "dropped"} & set(found)
