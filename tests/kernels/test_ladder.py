"""The four steps compute the same, and each differs from the one before by one idea."""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.mha import reference
from kernels.mha.ladder import aligned, blocked, naive, pipelined
from tests.kernels.budget import Inputs, check

if TYPE_CHECKING:
    from types import ModuleType

STEPS = (naive, blocked, pipelined, aligned)


class _Definition:
    """The definition for one head."""

    @staticmethod
    def attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
        return reference.attention(q[None, None], k[None, None], v[None, None], **options)[0, 0]


def tensors(queries: int, keys: int, kind: str = "float64", dim: int = 16) -> tuple[Any, ...]:
    rng = np.random.default_rng([queries, keys])
    shapes = ((queries, dim), (keys, dim), (keys, dim))
    return tuple(rng.standard_normal(shape).astype(kind) for shape in shapes)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 100])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__.split(".")[-1])
def test_each_step_agrees_with_the_definition(step: ModuleType, length: int, kind: str) -> None:
    inputs = Inputs(tensors(length, length + 30, kind), {})
    check(step.__name__, (_Definition, step), inputs, kind, 8)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 100])
@pytest.mark.parametrize("past", [0, 30])
def test_the_last_step_is_causal_too(length: int, past: int) -> None:
    inputs = Inputs(tensors(length, length + past), {"causal": True})
    check("aligned", (_Definition, aligned), inputs, "float64", 8, stages=3, block_n=16)


@pytest.mark.parametrize("step", [pipelined, aligned])
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_stages_change_no_bit(step: ModuleType, stages: int) -> None:
    q, k, v = tensors(65, 100)
    one = step.attention(q, k, v, stages=1, block_n=16)
    assert np.array_equal(step.attention(q, k, v, stages=stages, block_n=16), one)


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_copy_fewer_overwrites_what_is_still_needed(stages: int) -> None:
    """use - bring + 1 copies are enough, and no fewer are."""
    q, k, v = tensors(65, 100)
    right = pipelined.attention(q, k, v, stages=stages, block_n=16)
    enough = pipelined.attention(q, k, v, stages=stages, copies=stages + 1, block_n=16)
    short = pipelined.attention(q, k, v, stages=stages, copies=stages - 1, block_n=16)
    assert np.array_equal(right, enough)
    assert not np.allclose(right, short)


def test_the_naive_step_moves_scores_and_probabilities_and_the_others_do_not() -> None:
    """What is as large as queries times keys exists in the first step alone."""
    held = [("len(q), len(k)" in inspect.getsource(step)) for step in STEPS]
    assert held == [True, False, False, False]


def changed(before: ModuleType, after: ModuleType) -> tuple[set[str], set[str]]:
    """Return the functions whose code changed or is new, and those that stayed."""
    old, new = (
        {
            name: inspect.getsource(function)
            for name, function in inspect.getmembers(step, inspect.isfunction)
        }
        for step in (before, after)
    )
    differ = {name for name in new if new[name] != old.get(name)}
    return differ, set(new) - differ


@pytest.mark.parametrize(
    ("before", "after", "idea"),
    [
        (naive, blocked, ["for start in range(0, len(k), block_n)", "c = np.exp(m_old - m)"]),
        (blocked, pipelined, ["now % copies", "now - (stages - 1)", "out=s"]),
        (pipelined, aligned, ["past_len", "k_idx < len(k)", "q_idx >= k_idx", "o_tile", "tile(k"]),
    ],
    ids=["blocked", "pipelined", "aligned"],
)
def test_neighbours_differ_by_one_idea(
    before: ModuleType, after: ModuleType, idea: list[str]
) -> None:
    differ, stayed = changed(before, after)
    assert differ <= {"attention", "tile"}
    assert {"scores", "product", "wide"} <= stayed
    diff = list(
        difflib.unified_diff(
            inspect.getsource(before.attention).splitlines(),
            inspect.getsource(after.attention).splitlines(),
            lineterm="",
            n=0,
        )
    )
    added = "\n".join(line[1:] for line in diff[2:] if line.startswith("+"))
    assert [words for words in idea if words not in added] == []
    assert len(diff) < 45, "a reader takes this in at one glance"
