"""Block-sparse attention: our two forms against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.block_sparse import blocked, reference
from tests.kernels.budget import Inputs, check
from tests.kernels.sparse import DIM, KINDS, LENGTHS, STYLES, seeded, three


def made(name: str, length: int, kind: str, style: str, causal: bool, size: int) -> Inputs:
    """Return tensors and a table in which some rows have no block at all."""
    rng, n = seeded(name), -(-length // size)
    table = rng.random((2, 2, n, n)) < 0.5
    table[0, 0, -1] = False
    shape = (2, 2, length, DIM)
    return Inputs((*three(rng, kind, style, shape, shape, 2), table), {"causal": causal})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", LENGTHS)
def test_blocked_agrees_with_the_definition(
    length: int, causal: bool, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    inputs = made(request.node.name, length, kind, style, causal, 16)
    inputs.options["block"] = 16
    check("block_sparse", (reference, blocked), inputs, kind, 7)


def test_rows_without_a_block_are_zero() -> None:
    q, k, v, table = made("empty", 100, "float64", "normal", True, 64).tensors
    for rung in (reference, blocked):
        out = rung.attention(q, k, v, table, causal=True)
        assert not out[0, 0, 64:].any()


def test_a_full_table_is_plain_attention() -> None:
    q, k, v, table = made("full", 100, "float64", "large", True, 64).tensors
    got = blocked.attention(q, k, v, np.ones_like(table), causal=True)
    other = blocked.attention(q, k, v, np.tril(np.ones_like(table)), causal=True)
    assert (got == other).all()  # blocks of the future are never reached


def test_a_block_that_is_off_is_not_read() -> None:
    q, k, v, table = made("unread", 96, "float64", "normal", False, 32).tensors
    table[:, :, :, 1] = False
    k, v = np.array(k), np.array(v)
    k[:, :, 32:64] = v[:, :, 32:64] = np.nan
    got = blocked.attention(q, k, v, table, causal=False, block=32)
    assert np.isfinite(got).all()


@pytest.mark.parametrize("topk", [1, 2, 5, 9])
def test_topk_masks_agree(topk: int) -> None:
    scores: Any = seeded(f"topk {topk}").integers(0, 4, (2, 3, 5, 5)).astype(float)
    scores[0, 0, 0] = -np.inf
    want = reference.topk_mask(scores, topk)
    assert (blocked.topk_mask(scores, topk) == want).all()
    assert not np.triu(want, 1).any()
    assert (want.sum(-1) <= topk).all()


def test_a_table_of_another_size_is_refused() -> None:
    q, k, v, table = made("size", 100, "float64", "normal", True, 64).tensors
    with pytest.raises(ValueError, match=r"^a table \(2, 2, 4, 4\) is needed: \(2, 2, 2, 2\)$"):
        blocked.attention(q, k, v, table, causal=True, block=32)
