"""Sparse MLA: our two forms against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.sparse_mla import blocked, reference
from tests.kernels.budget import WIDER, Inputs, check
from tests.kernels.sparse import DIM, KINDS, LENGTHS, STYLES, Rung, seeded, three

TAIL = 8


def definition(q: Any, k: Any, v: Any, indices: Any, scale: float, dtype: Any) -> Any:
    """The reference with a value of its own: it stands before the key, and no score sees it."""
    wide_q = np.concatenate([np.zeros_like(q[..., :DIM]), q], -1)
    wide_k = np.concatenate([v, k], -1)
    return reference.attention(wide_q, wide_k, indices, dim=DIM, scale=scale, dtype=dtype)[0]


def kernel(q: Any, k: Any, _v: Any, indices: Any, **options: Any) -> Any:
    return blocked.attention(q, k, indices, dim=DIM, **options)[0]


RUNGS = Rung(definition), Rung(kernel)


def made(name: str, length: int, kind: str, style: str, groups: int) -> Inputs:
    """Return tensors and lists with twins, future, negative, absent tokens; one list is empty."""
    rng, size = seeded(name), DIM + TAIL
    hidden = style == "minus-inf"
    shapes = (1, length, 2 * groups, size), (1, length + 3, 2, size)
    q, k, _ = three(rng, kind, "normal" if hidden else style, *shapes, 1)
    if hidden and length > 1:
        q[..., -1] = np.abs(q[..., -1]) + 1
        k[:, length - 1, :, -1] = -np.inf
    lists = rng.integers(-1, length + 5, (1, length, 2, 40)).astype(np.int32)
    lists[:, -1] = length + 3
    return Inputs((q, k, np.array(k[..., :DIM]), lists), {"scale": size**-0.5})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("length", LENGTHS)
def test_blocked_agrees_with_the_definition(
    length: int, groups: int, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    inputs = made(request.node.name, length, kind, style, groups)
    check("sparse_mla", RUNGS, inputs, kind, 3, block_i=16)


@pytest.mark.parametrize("kind", KINDS)
def test_lse_agrees_and_is_minus_infinity_for_an_empty_row(kind: str) -> None:
    q, k, _, lists = made("lse", 65, kind, "large", 3).tensors
    sums = np.float64 if kind == "float64" else np.float32
    want, narrow = (
        reference.attention(q, k, lists, dim=DIM, dtype=dtype)[1] for dtype in (WIDER[kind], sums)
    )
    out, got = blocked.attention(q, k, lists, dim=DIM, block_i=16)
    there = np.isfinite(want)
    assert (np.isneginf(got) == ~there).all()
    assert not there[:, -1].any()
    assert not out[:, -1].any()
    got, want, narrow = got[there], want[there], narrow[there]
    allowed = 2 * np.abs(narrow - want).max() + 8 * np.finfo(sums).eps * (1 + np.abs(want))
    assert (np.abs(got - want) <= allowed).all()


def test_more_heads_than_a_program_holds() -> None:
    """Heads beyond 64 of a group are programs of their own, and no head is left out."""
    rng = seeded("heads")
    q, k, _ = three(rng, "float64", "normal", (1, 3, 200, 24), (1, 3, 2, 24), 1)
    lists = np.tile(np.arange(3), (1, 3, 2, 1))
    want, _ = reference.attention(q, k, lists, dim=DIM)
    got, _ = blocked.attention(q, k, lists, dim=DIM)
    assert np.abs(got - want).max() < 2**-46


def test_uneven_heads_are_refused() -> None:
    q, k, _, lists = made("uneven", 5, "float64", "normal", 3).tensors
    with pytest.raises(ValueError, match=r"^5 query heads cannot share 2 K/V heads evenly$"):
        blocked.attention(q[:, :, :5], k, lists, dim=DIM)
