"""SeerAttention: our two forms against each other."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.seer import blocked, reference
from tests.kernels.budget import Inputs, check
from tests.kernels.sparse import DIM, KINDS, LENGTHS, STYLES, seeded, three


def made(name: str, length: int, more: int, kind: str, style: str, block: int) -> Inputs:
    """Return tensors and a table in which one block of queries reads nothing."""
    rng, n = seeded(name), -(-(length + more) // block)
    table = (rng.random((2, 2, n, n)) < 0.6).astype(np.int8)
    table[0, 0, 0] = 0
    tensors = three(rng, kind, style, (2, 2, length, DIM), (2, 2, length + more, DIM), 2)
    return Inputs((*tensors, table), {"block": block})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("more", [0, 37])
@pytest.mark.parametrize("length", LENGTHS)
def test_blocked_agrees_with_the_definition(
    length: int, more: int, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    inputs = made(request.node.name, length, more, kind, style, 16)
    inputs.options["causal"] = more == 0 or length % 2 == 0
    check("seer", (reference, blocked), inputs, kind, 9)


def test_last_queries_of_a_longer_sequence() -> None:
    """With a full table, computing only the last queries gives the last rows."""
    q, k, v, _ = made("last", 128, 0, "float64", "large", 32).tensors
    table = np.ones((2, 2, 4, 4), np.int8)
    whole = blocked.attention(q, k, v, table, block=32)
    last = blocked.attention(q[:, :, 100:], k, v, table, block=32)
    assert np.abs(last - whole[:, :, 100:]).max() < 2**-46


@pytest.mark.parametrize("topk", [1, 3, 9])
def test_choices_from_a_gate_agree(topk: int) -> None:
    gate = seeded(f"gate {topk}").integers(0, 5, (2, 2, 6, 6)).astype(float)
    assert (blocked.topk_mask(gate, topk) == reference.topk_mask(gate, topk)).all()
    assert (blocked.threshold_mask(gate, 2.0) == reference.threshold_mask(gate, 2.0)).all()


def test_wrong_shapes_are_refused() -> None:
    q, k, v, table = made("wrong", 64, 0, "float64", "normal", 32).tensors
    with pytest.raises(ValueError, match=r"^a table \(2, 2, 4, 4\) is needed: \(2, 2, 2, 2\)$"):
        blocked.attention(q, k, v, table, block=16)
    with pytest.raises(ValueError, match=r"^64 queries need as many keys, and there are 40$"):
        blocked.attention(q, k[:, :, :40], v[:, :, :40], table, block=32)
