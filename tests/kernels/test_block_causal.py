"""Block-causal attention: our two forms against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.block_causal import blocked, reference
from tests.kernels.budget import WIDER, Inputs, check
from tests.kernels.sparse import DIM, KINDS, LENGTHS, STYLES, Rung, seeded, three

OUTPUT = (
    Rung(lambda *tensors, **options: reference.attention(*tensors, **options)[0]),
    Rung(lambda *tensors, **options: blocked.attention(*tensors, **options)[0]),
)


def made(name: str, half: int, kind: str, style: str, dllm_block: int) -> Inputs:
    """Return tensors of twice `half` rows."""
    if style == "minus-inf" and half < 3:
        style = "normal"  # a token that sees itself alone needs a score
    shape = (1, 2 * half, 2, DIM)
    tensors = three(seeded(name), kind, style, shape, shape, 1)
    return Inputs(tensors, {"dllm_block": dllm_block})


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dllm_block", [4, 16])
@pytest.mark.parametrize("half", LENGTHS)
def test_blocked_agrees_with_the_definition(
    half: int, dllm_block: int, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    inputs = made(request.node.name, half, kind, style, dllm_block)
    check("block_causal", OUTPUT, inputs, kind, 9, block_size=16)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", LENGTHS)
def test_lse_agrees(half: int, kind: str, request: pytest.FixtureRequest) -> None:
    inputs = made(request.node.name, half, kind, "large", 8)
    _, want = reference.attention(*inputs.tensors, **inputs.options, dtype=WIDER[kind])
    sums = np.float64 if kind == "float64" else np.float32
    _, narrow = reference.attention(*inputs.tensors, **inputs.options, dtype=sums)
    _, got = blocked.attention(*inputs.tensors, **inputs.options, block_size=16)
    allowed = 2 * np.abs(narrow - want).max() + 8 * np.finfo(sums).eps * (1 + np.abs(want))
    assert got.dtype == sums
    assert (np.abs(got - want) <= allowed).all()


def test_what_each_half_sees() -> None:
    seen = reference.visible(8, 2)
    picture = ["".join("x" if x else "." for x in row) for row in seen]
    assert picture == [
        "xx......",
        "xx......",
        "..xxxx..",
        "..xxxx..",
        "....xx..",
        "....xx..",
        "....xxxx",
        "....xxxx",
    ]


def test_clean_rows_do_not_see_noise() -> None:
    q, k, v = made("noise", 40, "float64", "normal", 8).tensors
    one, _ = blocked.attention(q, k, v, dllm_block=8, block_size=16)
    k, v = np.array(k), np.array(v)
    k[:, :40], v[:, :40] = 7, -7
    other, _ = blocked.attention(q, k, v, dllm_block=8, block_size=16)
    assert (one[:, 40:] == other[:, 40:]).all()


def test_packed_samples_are_like_single_ones() -> None:
    rng, cu = seeded("packed"), np.array([0, 2, 130, 200])
    q, k, v = three(rng, "float64", "large", (200, 2, DIM), (200, 2, DIM), 0)
    out, lse = blocked.attention_varlen(q, k, v, cu, dllm_block=4, block_size=16)
    want, want_lse = reference.attention_varlen(q, k, v, cu, dllm_block=4)
    assert np.abs(out - want).max() < 2**-42
    assert np.abs(lse - want_lse).max() < 2**-40
    for start, end in ((0, 2), (2, 130), (130, 200)):
        one: Any = blocked.attention(
            *(x[None, start:end] for x in (q, k, v)), dllm_block=4, block_size=16
        )[0][0]
        assert (one == out[start:end]).all()


def test_what_cannot_be_halved_or_tiled_is_refused() -> None:
    q, k, v = made("odd", 10, "float64", "normal", 4).tensors
    for rung in (reference, blocked):
        with pytest.raises(ValueError, match=r"^19 tokens are no two halves$"):
            rung.attention(q[:, :19], k[:, :19], v[:, :19], dllm_block=4)
    with pytest.raises(ValueError, match=r"^tiles of 16 cut blocks of 3$"):
        blocked.attention(q, k, v, dllm_block=3, block_size=16)
