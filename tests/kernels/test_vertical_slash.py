"""Vertical-slash attention: our two forms against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.vertical_slash import blocked, reference
from tests.kernels.budget import Inputs, check
from tests.kernels.sparse import DIM, KINDS, LENGTHS, STYLES, seeded, three


def made(name: str, length: int, kind: str, style: str, block: int) -> Inputs:
    """Return tensors and lists of every kind: full, partial, empty, with blocks of the future."""
    rng, n = seeded(name), -(-length // block)
    shape = (2, 2, length, DIM)
    offsets = rng.integers(0, n, (2, 2, n, 3)).astype(np.int32) * block
    columns = rng.integers(0, length, (2, 2, n, 40)).astype(np.int32)
    counts: Any = rng.integers(0, 4, (2, 2, n)), rng.integers(0, 41, (2, 2, n))
    counts[0][0, 0, 0] = counts[1][0, 0, 0] = 0
    tensors = three(rng, kind, style, shape, shape, 2)
    return Inputs((*tensors, counts[0], offsets, counts[1], columns), {"block": block})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", LENGTHS)
def test_blocked_agrees_with_the_definition(
    length: int, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    inputs = made(request.node.name, length, kind, style, 16)
    check("vertical_slash", (reference, blocked), inputs, kind, 6)


def test_a_row_without_keys_is_zero() -> None:
    inputs = made("none", 64, "float64", "normal", 16)
    for rung in (reference, blocked):
        assert not rung.attention(*inputs.tensors, **inputs.options)[0, 0, :16].any()


def test_columns_in_any_order() -> None:
    """Columns are a set: their order changes nothing but rounding."""
    q, k, v, count, offsets, columns, column = made("order", 64, "float64", "large", 16).tensors
    count[:], columns[:] = 1, 40
    offsets[..., 0] = np.arange(4) * 16
    one = blocked.attention(q, k, v, count, offsets, columns, column, block=16)
    other = blocked.attention(q, k, v, count, offsets, columns, column[..., ::-1], block=16)
    assert np.abs(one - other).max() < 2**-42


def test_a_count_beyond_its_list_is_refused() -> None:
    q, k, v, count, offsets, columns, column = made("count", 64, "float64", "normal", 16).tensors
    columns[0, 0, 0] = 41
    with pytest.raises(ValueError, match=r"^column_count says 41, its list holds 40$"):
        blocked.attention(q, k, v, count, offsets, columns, column, block=16)
