"""Native sparse attention: our two forms against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.nsa import blocked, reference
from tests.kernels.budget import Inputs, check
from tests.kernels.sparse import DIM, KINDS, LENGTHS, STYLES, seeded, three


def made(name: str, length: int, kind: str, style: str, groups: int) -> Inputs:
    """Return tensors and lists with twins, negative and future blocks, and one empty list."""
    rng = seeded(name)
    shapes = (2, length, 2 * groups, DIM), (2, length, 2, DIM)
    lists = rng.integers(-1, length // 16 + 2, (2, length, 2, 3)).astype(np.int32)
    lists[0, -1, 0] = length
    return Inputs((*three(rng, kind, style, *shapes, 1), lists), {"block_size": 16})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("length", LENGTHS)
def test_blocked_agrees_with_the_definition(
    length: int, groups: int, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    inputs = made(request.node.name, length, kind, style, groups)
    inputs.options["causal"] = length != 65
    check("nsa", (reference, blocked), inputs, kind, 3)


def test_a_query_without_blocks_is_zero() -> None:
    q, k, v, lists = made("none", 40, "float64", "normal", 2).tensors
    for rung in (reference, blocked):
        assert not rung.attention(q, k, v, lists, block_size=16)[0, -1, :2].any()


def test_all_blocks_are_full_attention() -> None:
    """Listing every block once, in any order, is causal attention."""
    rng = seeded("all")
    q, k, v = three(rng, "float64", "large", (1, 64, 2, DIM), (1, 64, 2, DIM), 1)
    lists: Any = np.stack([[rng.permutation(4) for _ in range(2)] for _ in range(64)])[None]
    got = blocked.attention(q, k, v, lists, block_size=16)
    scores = np.einsum("bshd,bthd->bhst", q, k) / DIM**0.5
    scores = np.where(np.tri(64) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    assert np.abs(got - np.einsum("bhst,bthd->bshd", weights, v)).max() < 2**-42


def test_a_scale_of_ones_own() -> None:
    q, k, v, lists = made("scale", 40, "float64", "normal", 2).tensors
    one = reference.attention(q, k, v, lists, block_size=16, scale=0.1)
    other = blocked.attention(q, k, v, lists, block_size=16, scale=0.1)
    assert np.abs(one - other).max() < 2**-46


def test_uneven_heads_are_refused() -> None:
    q, k, v, lists = made("uneven", 20, "float64", "normal", 3).tensors
    with pytest.raises(ValueError, match=r"^5 query heads cannot share 2 K/V heads evenly$"):
        blocked.attention(q[:, :, :5], k, v, lists, block_size=16)
