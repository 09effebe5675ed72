"""The definitions of gradients, against what a small step in any direction changes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kernels.gqa import backward_reference as gqa
from kernels.mha import backward_reference as mha
from kernels.mha.reference import attention as mha_attention

SIZES = ((5, 5), (3, 8), (7, 4), (1, 1))
STEP = 1e-5
"""Central differences are off by its square, and by 1e-16 over it."""


def slope(attention: Any, given: tuple[Any, ...], along: tuple[Any, ...], **options: Any) -> float:
    """Return how fast sum(do * attention) grows when q, k and v move along a direction."""
    *qkv, do = given

    def loss(step: float) -> float:
        moved = (x + step * d for x, d in zip(qkv, along, strict=True))
        return float((do * attention(*moved, **options)).sum())

    return (loss(STEP) - loss(-STEP)) / (2 * STEP)


@pytest.mark.parametrize("layout", ["BHSD", "BSHD"])
@pytest.mark.parametrize(
    ("sizes", "causal"),
    [(s, c) for s, c in itertools.product(SIZES, (True, False)) if not c or s[0] <= s[1]],
)
def test_mha(sizes: tuple[int, int], causal: bool, layout: str) -> None:
    rng = np.random.default_rng(sum(sizes) + causal)
    shapes = [(2, 3, n, 4) if layout == "BHSD" else (2, n, 3, 4) for n in (*sizes, sizes[1])]
    q, k, v = (rng.standard_normal(shape) for shape in shapes)
    do = rng.standard_normal(q.shape)
    found = mha.gradients(q, k, v, do, causal=causal, layout=layout)
    assert [x.shape for x in found] == [q.shape, k.shape, v.shape]
    for moving in range(3):  # one of q, k and v at a time
        along = [rng.standard_normal(x.shape) * (n == moving) for n, x in enumerate((q, k, v))]
        want = slope(mha_attention, (q, k, v, do), tuple(along), causal=causal, layout=layout)
        assert float((found[moving] * along[moving]).sum()) == pytest.approx(want, abs=1e-8)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (3, 1), (2, 2)])
def test_gqa(heads: int, kv_heads: int, causal: bool) -> None:
    """The same as gradients of MHA with keys and values repeated, those of copies added up."""
    rng = np.random.default_rng(heads)
    q, do = rng.standard_normal((2, 2, 5, heads, 4))
    k, v = rng.standard_normal((2, 2, 7, kv_heads, 4))
    many_k, many_v = (np.repeat(x, heads // kv_heads, axis=2) for x in (k, v))
    found = gqa.gradients(q, k, v, do, causal=causal)
    dq, *others = mha.gradients(q, many_k, many_v, do, causal=causal, layout="BSHD")
    shared = (x.reshape(2, 7, kv_heads, -1, 4).sum(axis=3) for x in others)
    for one, other in zip(found, (dq, *shared), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_values_may_have_another_size() -> None:
    rng = np.random.default_rng(7)
    q, k = rng.standard_normal((2, 1, 5, 1, 6))
    v, do = rng.standard_normal((2, 1, 5, 1, 3))
    found = gqa.gradients(q, k, v, do)
    for moving in range(3):
        along = tuple(rng.standard_normal(x.shape) * (n == moving) for n, x in enumerate((q, k, v)))
        want = slope(mha_attention, (q, k, v, do), along, layout="BSHD")
        assert float((found[moving] * along[moving]).sum()) == pytest.approx(want, abs=1e-8)


def test_causal_queries_that_outnumber_the_keys_are_refused() -> None:
    q, k = np.ones((1, 1, 3, 2)), np.ones((1, 1, 2, 2))
    with pytest.raises(ValueError, match="3 causal queries need as many keys"):
        mha.gradients(q, k, k, q, causal=True)
