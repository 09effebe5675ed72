"""Caches in pages for the tests of `kernels/paged/tilelang_kernel.py`, here and on a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    lengths: tuple[int, ...]
    heads: int = 8
    kv_heads: int = 2
    dim: int = 64
    page_size: int = 128
    block_n: int = 64
    chosen: int = 0
    """How many blocks a list can name; 0: there are no lists, and all keys are read."""
    stages: int = 3
    splits: int = 2
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""


CASES = {
    "one key": Case((1,), splits=1),
    "63 and 65": Case((63, 65), page_size=64),
    "ragged": Case((300, 1, 130), splits=3),
    "no keys": Case((0, 100), chosen=3),
    "pages of four blocks": Case((500, 257), page_size=256, dim=128),
    "more splits than blocks": Case((100, 200), splits=8, stages=2),
    "one head each": Case((200,), heads=3, kv_heads=3, dim=128),
    "groups of 70": Case((200, 90), heads=140, splits=1),
    "chosen": Case((700, 300), chosen=6, splits=3),
    "chosen, blocks of 128": Case((700, 900), chosen=4, page_size=256, block_n=128, dim=128),
    "long lists": Case((2000,), chosen=300, splits=4, heads=2, kv_heads=1),
    "long tables": Case((16600, 70), page_size=64, heads=2, kv_heads=1, splits=4),
    "large scores": Case((400, 333), size=12.0),
    "large scores, chosen": Case((700,), chosen=8, size=40.0),
    "bfloat16": Case((300, 77), dtype="bfloat16", chosen=5, dim=128),
    "bfloat16, large scores": Case((300, 200), dtype="bfloat16", size=12.0),
}


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k_pages, v_pages, block_indices, cache_seqlens and block_table, floats in float64.

    Later keys are longer, so that the maximum moves. Behind the last key its block has old numbers,
    and blocks that nobody may read are NaN. Lists are in no order, with holes, with blocks that lie
    behind the last key, and empty towards their end.
    """
    rng = np.random.default_rng(seed)
    batch, width = len(case.lengths), max(1, -(-max(case.lengths) // case.page_size))
    pages = batch * width + 3
    table = rng.permutation(pages)[: batch * width].reshape(batch, width).astype(np.int32)
    k, v = np.full((2, pages, case.page_size, case.kv_heads, case.dim), np.nan)
    for row, length in zip(table, case.lengths, strict=True):
        place = np.arange(-(-length // case.block_n) * case.block_n)
        page, inside = row[place // case.page_size], place % case.page_size
        k[page, inside], v[page, inside] = 3.0, 5.0
        growth = np.linspace(0.2, 1.5, length)[:, None, None]
        shape = (length, case.kv_heads, case.dim)
        k[page[:length], inside[:length]] = rng.standard_normal(shape) * growth
        v[page[:length], inside[:length]] = rng.standard_normal(shape) * 0.5
    q = rng.standard_normal((batch, case.heads, case.dim)) * case.size
    indices = np.full((batch, case.kv_heads, max(1, case.chosen)), -1, np.int32)
    for at in np.ndindex(batch, case.kv_heads if case.chosen else 0):
        there = rng.permutation(width * case.page_size // case.block_n + 1)
        some = there[: max(0, case.chosen - 2)]
        indices[at][1 : 1 + len(some)] = some
    return q, k, v, indices, np.array(case.lengths, np.int32), table
