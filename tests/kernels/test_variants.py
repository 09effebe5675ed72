"""Each variant's blocked form against its definition, in a budget that is derived."""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from tests.kernels.budget import Inputs, check

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTHS = (1, 63, 64, 65, 100)
KINDS = ("float16", "float32", "float64")
DIM = 16
MOST_KEYS = 100 + 70
Rng = np.random.Generator


class Style(NamedTuple):
    """How tensors are filled."""

    size: float = 1.0
    """What queries are multiplied by: 40 makes scores of some hundreds."""
    strided: bool = False
    """Whether tensors are views into larger ones, of which every second element is theirs."""
    hidden: bool = False
    """Whether the last key has a component of -inf, so that all its scores are -inf."""


STYLES = {
    "normal": Style(),
    "large": Style(size=40.0),
    "strided": Style(strided=True),
    "minus-inf": Style(hidden=True),
}


class Maker(NamedTuple):
    """Fills tensors of one type in one style."""

    rng: Rng
    kind: str
    style: Style

    def tensor(self, *shape: int, size: float = 1.0) -> Any:
        """Return normal numbers."""
        step = 2 if self.style.strided else 1
        whole = self.rng.standard_normal((*shape[:-1], shape[-1] * step)) * size
        return whole.astype(self.kind)[..., ::step]

    def three(self, queries: tuple[int, ...], keys: tuple[int, ...], axis: int) -> tuple[Any, ...]:
        """Return q, k, v; keys are counted along `axis`."""
        q = self.tensor(*queries, size=self.style.size)
        k, v = self.tensor(*keys), self.tensor(*keys)
        if self.style.hidden and keys[axis] > 1:
            q[..., 0] = np.abs(q[..., 0]) + 1
            np.moveaxis(k, axis, 0)[-1, ..., 0] = -np.inf
        return q, k, v


def mha(make: Maker, length: int, causal: bool, layout: str, more: int = 0) -> Inputs:
    keys = length + more
    shapes = ((2, 2, length, DIM), (2, 2, keys, DIM))
    axis = 2
    if layout == "BSHD":
        shapes, axis = ((2, length, 2, DIM), (2, keys, 2, DIM)), 1
    return Inputs(make.three(*shapes, axis), {"causal": causal, "layout": layout})


def gqa(make: Maker, length: int, causal: bool, groups: int) -> Inputs:
    shapes = (1, length, 2 * groups, DIM), (1, length, 2, DIM)
    return Inputs(make.three(*shapes, 1), {"causal": causal})


def starts(*lengths: int) -> Any:
    return np.cumsum([0, *lengths])


def packed(make: Maker, length: int, shift: int, groups: int) -> tuple[Any, ...]:
    """Samples of `length`, 1 and 70 queries, and other numbers of keys."""
    cu_q = starts(length, 1, 70)
    cu_k = starts(max(length + shift, 1), 3, 20)
    shapes = (int(cu_q[-1]), 2 * groups, DIM), (int(cu_k[-1]), 2, DIM)
    return (*make.three(*shapes, 0), cu_q, cu_k)


def varlen(make: Maker, length: int, causal: bool, shift: int, groups: int = 1) -> Inputs:
    return Inputs(packed(make, length, shift, groups), {"causal": causal})


def sink_varlen(make: Maker, length: int, causal: bool, size: int | None, groups: int) -> Inputs:
    tensors = (*packed(make, length, -5, groups), make.tensor(2 * groups, size=4.0))
    return Inputs(tensors, {"causal": causal, "window_size": size})


def decode(make: Maker, length: int, groups: int, masked: bool) -> Inputs:
    shapes = (2, 3, 2 * groups, DIM), (2, length, 2, DIM)
    tensors = make.three(*shapes, 1)
    if masked:
        mask = (make.rng.random((2, length, 2)) < 0.5).astype(np.uint8)
        mask[0, :, 1] = 0  # a head that sees nothing
        tensors = (*tensors, mask)
    return Inputs(tensors, {})


def paged(make: Maker, length: int, groups: int, chosen: bool) -> Inputs:
    page, size, pages = 32, 16, 4
    shapes = (2, 2 * groups, 3, DIM), (2 * pages, page, 2, DIM)
    q, k, v = make._replace(style=make.style._replace(hidden=False)).three(*shapes, 0)
    table = make.rng.permutation(2 * pages).reshape(2, pages)
    lengths = np.array([length, max(length - 7, 1)])
    options: dict[str, Any] = {"block_n": size}
    if chosen:
        blocks = page * pages // size
        picked = [make.rng.permutation(blocks)[:4] for _ in range(4)]
        options["block_indices"] = np.array(picked).reshape(2, 2, 4)
        options["block_indices"][0, 0, 2] = -1
    return Inputs((q, k, v, table, lengths), options)


def window(make: Maker, length: int, size: int | None, more: int) -> Inputs:
    shapes = (1, 2, length, DIM), (1, 2, length + more, DIM)
    hidden = make.style.hidden and size != 1
    make = make._replace(style=make.style._replace(hidden=hidden))
    return Inputs(make.three(*shapes, 2), {"window_size": size})


def sink(make: Maker, length: int, size: int | None, more: int, groups: int = 1) -> Inputs:
    shapes = (1, 2 * groups, length, DIM), (1, 2, length + more, DIM)
    tensors = (*make.three(*shapes, 2), make.tensor(2 * groups, size=4.0))
    return Inputs(tensors, {"window_size": size})


def after_exp(make: Maker, length: int, size: int | None, more: int) -> Inputs:
    """Hidden scores stay near the others: above them, they make these coarse, and then vanish."""
    make = make._replace(style=make.style._replace(hidden=False, size=1.0))
    return sink(make, length, size, more)


def ascend(make: Maker, length: int) -> Inputs:
    return Inputs(make.three((1, 2, length, DIM), (1, 2, length, DIM), 2), {})


TILES = {"block_m": 32, "block_n": 16}
CASES: dict[str, tuple[str, Callable[..., Inputs], dict[str, Any], dict[str, Any]]] = {
    "mha full": ("mha", mha, {"causal": False, "layout": "BHSD"}, TILES),
    "mha causal": ("mha", mha, {"causal": True, "layout": "BHSD", "more": 37}, TILES),
    "mha causal BSHD": ("mha", mha, {"causal": True, "layout": "BSHD"}, {}),
    "mha few queries": ("mha", mha, {"causal": False, "layout": "BSHD", "more": 7}, {"block_n": 7}),
    "gqa groups of 3": ("gqa", gqa, {"causal": True, "groups": 3}, TILES),
    "mqa": ("gqa", gqa, {"causal": False, "groups": 4}, {}),
    "varlen causal": ("varlen", varlen, {"causal": True, "shift": -30}, TILES),
    "varlen full": ("varlen", varlen, {"causal": False, "shift": 9, "groups": 3}, {}),
    "decode": ("decode", decode, {"groups": 3, "masked": False}, {"num_split": 3, "block_n": 16}),
    "decode masked": ("decode", decode, {"groups": 1, "masked": True}, {"num_split": 4}),
    "decode many splits": ("decode", decode, {"groups": 1, "masked": False}, {"num_split": 70}),
    "paged": ("paged", paged, {"groups": 3, "chosen": False}, {"num_split": 1}),
    "paged chosen": ("paged", paged, {"groups": 1, "chosen": True}, {"num_split": 3}),
    "window": ("window", window, {"size": 20, "more": 0}, TILES),
    "window of 1": ("window", window, {"size": 1, "more": 5}, TILES),
    "window, more keys": ("window", window, {"size": 64, "more": 70}, {}),
    "no window": ("window", window, {"size": None, "more": 0}, TILES),
    "sink": ("sink", sink, {"size": None, "more": 0}, TILES),
    "sink window": ("sink", sink, {"size": 32, "more": 33, "groups": 3}, TILES),
    "sink all": ("sink_gqa_varlen", sink_varlen, {"causal": True, "size": 20, "groups": 3}, TILES),
    "sink two-sided": (
        "sink_gqa_varlen",
        sink_varlen,
        {"causal": False, "size": 20, "groups": 1},
        TILES,
    ),
    "sink varlen": (
        "sink_gqa_varlen",
        sink_varlen,
        {"causal": True, "size": None, "groups": 1},
        {},
    ),
    "sink after exp": ("sink_after_exp", after_exp, {"size": 32, "more": 33}, TILES),
    "sink after exp, no window": ("sink_after_exp", after_exp, {"size": None, "more": 0}, {}),
    "ascend": ("ascend", ascend, {}, TILES),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("case", CASES)
def test_blocked_agrees_with_the_definition(
    case: str, length: int, kind: str, style: str, request: pytest.FixtureRequest
) -> None:
    folder, make, settings, tiling = CASES[case]
    rungs = tuple(import_module(f"kernels.{folder}.{rung}") for rung in ("reference", "blocked"))
    rng = np.random.default_rng(zlib.crc32(request.node.name.encode()))
    inputs = make(Maker(rng, kind, STYLES[style]), length, **settings)
    blocks = -(-MOST_KEYS // tiling.get("block_n", 64))
    check(case, (rungs[0], rungs[1]), inputs, kind, blocks, **tiling)
