"""MLA decoding: our two forms against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.mla_decode import blocked, reference
from tests.kernels.budget import Inputs, check
from tests.kernels.sparse import DIM, KINDS, LENGTHS, STYLES, Rung, seeded, three

ROPE = 8


def definition(q: Any, k: Any, v: Any, scale: float, dtype: Any) -> Any:
    """The reference with a value of its own: the shared check takes its magnitude."""
    return reference.attention(np.zeros_like(q[..., :DIM]), q, v, k, scale=scale, dtype=dtype)


def kernel(q: Any, k: Any, _v: Any, **options: Any) -> Any:
    parts = q[..., :DIM], q[..., DIM:], k[..., :DIM], k[..., DIM:]
    return blocked.attention(*parts, **options)


RUNGS = Rung(definition), Rung(kernel)


def made(name: str, length: int, kind: str, style: str, heads: int) -> Inputs:
    """Return q with its rotary part, keys with theirs, and the latents as values."""
    size = DIM + ROPE
    hidden = style == "minus-inf"
    shapes = (2, heads, size), (2, length, 1, size)
    q, k, _ = three(seeded(name), kind, "normal" if hidden else style, *shapes, 1)
    if hidden and length > 1:
        q[..., -1] = np.abs(q[..., -1]) + 1
        k[:, -1, :, -1] = -np.inf  # in the rotary part: the value stays finite
    return Inputs((q, k, np.array(k[..., :DIM])), {"scale": size**-0.5})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splits", [1, 3, 70])
@pytest.mark.parametrize("length", LENGTHS)
def test_blocked_agrees_with_the_definition(
    length: int, splits: int, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    inputs = made(request.node.name, length, kind, style, 6)
    # The lse in the type of the sums: what float16 does to it is the next test.
    lse_dtype = np.float64 if kind == "float64" else np.float32
    tiling = {"splits": splits, "block_n": 16, "block_h": 4, "lse_dtype": lse_dtype}
    check("mla_decode", RUNGS, inputs, kind, 7 + splits, **tiling)


def test_an_lse_in_float16_costs_what_the_model_says() -> None:
    """Upstream stores it so: weights are off by the rounding of an lse, times ln 2."""
    inputs = made("half", 100, "float16", "normal", 6)
    q, k, v = inputs.tensors
    q[..., -1], k[..., -1] = 40, 20  # the same large score for every key: weights stay as they are
    want = definition(q, k, v, inputs.options["scale"], np.float64)
    errors = []
    for lse_dtype in (np.float16, np.float32):
        got = kernel(*inputs.tensors, **inputs.options, splits=4, lse_dtype=lse_dtype)
        errors.append(float(np.abs(got - want).max()))
    assert errors[0] > 4 * errors[1]
    size = np.abs(np.einsum("bhd,bsxd->bhs", *inputs.tensors[:2], dtype=np.float64)).max()
    lse = size * inputs.options["scale"] * np.log2(np.e)
    step = 2.0 ** (np.ceil(np.log2(lse)) - 11)  # half a unit in the last place of a float16
    assert errors[0] <= 2 * step * np.log(2) * np.abs(inputs.tensors[2]).max() + 4 * errors[1]


@pytest.mark.parametrize("splits", [1, 2, 5, 64])
def test_splits_change_nothing_but_rounding(splits: int) -> None:
    inputs = made("splits", 64, "float64", "large", 3)
    whole = kernel(*inputs.tensors, **inputs.options)
    parts = kernel(*inputs.tensors, **inputs.options, splits=splits)
    assert np.abs(whole - parts).max() < 2**-42


def test_split_ranges_cover_every_key_once() -> None:
    for length in (1, 63, 64, 100):
        for splits in (1, 3, 64, 101):
            ranges = [blocked.split_range(length, splits, s) for s in range(splits)]
            assert [key for part in ranges for key in part] == list(range(length))


def test_what_it_refuses() -> None:
    q, k, _ = made("refuse", 10, "float64", "normal", 2).tensors
    two = np.concatenate([k, k], axis=2)
    with pytest.raises(ValueError, match=r"^one latent head serves all query heads, .* are 2$"):
        kernel(q, two, None)
    with pytest.raises(ValueError, match=r"^0 splits read nothing$"):
        kernel(q, k, None, splits=0)
