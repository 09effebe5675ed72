"""The Ascend examples: Cube and Vectors, workspaces and flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.cases.checks import Check, Expected, Run, case
from srcmap.engines.cases.nvidia import (
    BRAIN,
    HALF,
    HUGE,
    LARGE,
    Rng,
    falling,
    normal,
    rising,
    spread_blocks,
    three,
)
from srcmap.engines.cases.references import attention, causal, grouped, heads_first, moved, wide

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO = "tilelang-ascend"


@case("asc-mha", repo=REPO, path="examples/flash_attention/flash_attn_bhsd.py")
def mha(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, size in [
        (1, 2, 128, 64, 1.0),
        (2, 1, 192, 128, LARGE),
        (1, 1, 64, 64, 1.0),
        (1, 1, 192, 64, HUGE),
    ]:
        q, k, v = three(rng, b, h, s, d)
        q, k = (q * size).astype(HALF), falling(k) if size == HUGE else rising(k)
        yield Check(
            f"{b}x{h}x{s}x{d} scale {size:g}",
            Run("flash_attention_fwd", (b, s, h, d), inputs=(q, k, v)),
            (attention(q, k, v),),
        )


@case(repo=REPO, path="examples/flash_attention/flash_attn_bhsd_cc_sync.py")
def mha_cc_sync(rng: Rng) -> Iterator[Check]:
    for h, d, size in [(2, 64, 1.0), (1, 128, LARGE)]:
        q, k, v = three(rng, 1, h, 128, d)
        q = (q * size).astype(HALF)
        yield Check(
            f"1x{h}x128x{d} scale {size:g}",
            Run("flash_attention_fwd", (h, d), inputs=(q, rising(k), v)),
            (attention(q, rising(k), v),),
        )


@case("asc-paged", repo=REPO, path="examples/flash_attention/paged_flash_attn_bhsd.py")
def paged(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, size in [
        (1, 2, 256, 64, 1.0),
        (2, 1, 256, 256, 1.0),
        (1, 1, 128, 64, LARGE),
        (1, 1, 384, 64, HUGE),
    ]:
        q, k, v = three(rng, b, h, s, d)
        q, k = (q * size).astype(HALF), falling(k) if size == HUGE else k
        blocks = s // 128
        table = rng.permutation(b * blocks).reshape(b, blocks).astype(np.int32)
        cached = []
        for x in (k, v):
            paged_ = np.zeros((b * blocks, 128, h, d), HALF)
            paged_[table.reshape(-1)] = heads_first(x).reshape(b * blocks, 128, h, d)
            cached.append(paged_)
        yield Check(
            f"{b}x{h}x{s}x{d} scale {size:g}",
            Run(
                "paged_flash_attention_fwd",
                (b, h, s, d, b * blocks, blocks),
                inputs=(q, *cached, table),
            ),
            (attention(q, k, v),),
        )


@case("asc-indexer", repo=REPO, path="examples/lightning_indexer/example_lightning_indexer.py")
def indexer(rng: Rng) -> Iterator[Check]:
    for b, g, s1, s2, d, k in [(1, 16, 64, 256, 64, 32), (2, 32, 64, 128, 64, 128)]:
        query, key = normal(rng, b, s1, 1, g * d), normal(rng, b, s2, 1, d)
        weights = rng.standard_normal((b, s1, 1, g)).astype(np.float32)
        heads = wide(query).reshape(b, s1, g, d)
        scores = np.maximum(np.einsum("bsgd,btd->bsgt", heads, wide(key[:, :, 0])), 0)
        total = (scores * wide(weights)[:, :, 0, :, None]).sum(2)
        best = np.argsort(-total, axis=-1, kind="stable")[..., :k]
        yield Check(
            f"{b}x{s1}x{g}x{d} on {s2} top {k}",
            Run(
                "indexer",
                (b, 1, g, s1, s2, d, k, 128, 16, 64, 64, 64),
                inputs=(query, key, weights),
            ),
            (Expected(best[:, None], np.zeros(best[:, None].shape)),),
            "float32",
            exact=True,
        )


def sparse_choice(rng: Rng, batch: int, rows: int, keys: int, count: int) -> Any:
    """Return distinct keys for each row, in order, of which at least one is not in its future."""
    found = np.zeros((batch, rows, 1, count), np.int32)
    for b, row in np.ndindex(batch, rows):
        seen = int(rng.integers(0, row + 1))
        others = np.setdiff1d(np.arange(keys), [seen])
        chosen = np.concatenate([[seen], rng.permutation(others)[: count - 1]])
        found[b, row, 0] = np.sort(chosen)
    return found


def _sparse(q: Any, kv: Any, indices: Any, dim: int, visible: Any) -> Expected:
    """Return attention on chosen keys, whose first `dim` numbers are the values too."""
    chosen = np.zeros((*indices.shape[:3], kv.shape[1]), bool)
    np.put_along_axis(chosen, indices.astype(np.int64), True, -1)
    groups = q.shape[2] // kv.shape[2]
    mask = grouped(np.moveaxis(chosen & visible[None, :, None], 2, 1), groups)
    keys = grouped(heads_first(kv), groups)
    return moved(attention(heads_first(q), keys, keys[..., :dim], mask), 0, 2, 1, 3)


@case(
    "asc-sfa", repo=REPO, path="examples/sparse_flash_attention/example_sparse_flash_attn_mask.py"
)
def sparse_mask(rng: Rng) -> Iterator[Check]:
    for b, s, sk, h, d, tail, topk, kind in [
        (1, 40, 256, 16, 64, 32, 64, "float16"),
        (1, 26, 256, 32, 128, 64, 128, "bfloat16"),
    ]:
        stored = HALF if kind == "float16" else BRAIN
        q = normal(rng, b, s, h, d + tail, kind=stored)
        kv = normal(rng, b, sk, 1, d + tail, kind=stored, scale=0.5)
        indices = sparse_choice(rng, b, s, sk, topk)
        visible = np.arange(s)[:, None] >= np.arange(sk)[None]
        yield Check(
            f"{b}x{s}x{sk}x{h}x{d}+{tail} top {topk} {kind}",
            Run(
                "sparse_attention_fwd",
                (h, d, tail, topk, 1),
                named={"dtype": kind},
                inputs=(q, kv, indices),
            ),
            (_sparse(q, kv, indices, d, visible),),
            kind,
        )


@case("asc-sfa", repo=REPO, path="examples/sparse_flash_attention/example_sparse_flash_attn.py")
def sparse(rng: Rng) -> Iterator[Check]:
    for topk, size in [(64, 1.0), (256, HUGE)]:
        yield _sparse_fixed(rng, topk, size)


def _sparse_fixed(rng: Rng, topk: int, size: float) -> Check:
    """Make a check of the kernel whose lengths are fixed in the file."""
    h, d, tail, s, sk = 16, 64, 32, 128, 32768
    q = normal(rng, 1, s, h, d + tail)
    kv = normal(rng, 1, sk, 1, d + tail, scale=0.5)
    indices = np.stack([rng.choice(sk, topk, replace=False) for _ in range(s)])
    if size == HUGE:
        indices.sort(-1)
        q, kv = (q * size).astype(HALF), falling(kv, 1)
    indices = indices.reshape(1, s, 1, topk).astype(np.int32)
    picked = np.take_along_axis(kv[:, None, :, 0], indices[:, :, 0, :, None].astype(np.int64), 2)
    want = attention(q[:, :, :, None], picked[:, :, None], picked[:, :, None, :, :d])
    return Check(
        f"1x{s}x{sk}x{h}x{d}+{tail} top {topk} scale {size:g}",
        Run("sparse_attention_fwd", (h, d, tail, topk, 1), inputs=(q, kv, indices)),
        (Expected(want.values[..., 0, :], want.spread[..., 0, :], want.magnify),),
    )


@case(repo=REPO, path="examples/flash_attention/fa_opt/flash_attn_bhsd_expert_h16_d128.py")
def mha_expert(rng: Rng) -> Iterator[Check]:
    for b, h, g, s, size in [(1, 2, 1, 256, 1.0), (1, 1, 1, 384, 1.0)]:
        q, k, v = three(rng, b, h, s, 128, keys=(b, g, s, 128))
        q = (q * size).astype(HALF)
        want = attention(q, grouped(k, h // g), grouped(v, h // g))
        yield Check(
            f"{b}x{h}/{g}x{s}x128",
            Run("flash_attention_fwd", (b, s, h, g, 128), inputs=(q, k, v)),
            # Scores and partial outputs pass through fp16 workspaces.
            (Expected(want.values, want.spread * (1 + want.magnify), want.magnify),),
            rounds=2,
        )


@case(repo=REPO, path="examples/flash_attention/fa_opt/flash_attn_bhsd_auto_pipeline_h16_d128.py")
def mha_pipelined(rng: Rng) -> Iterator[Check]:
    b, h, g, s = 1, 2, 1, 512
    q, k, v = three(rng, b, h, s, 128, keys=(b, g, s, 128))
    want = attention(q, grouped(k, h // g), grouped(v, h // g))
    yield Check(
        f"{b}x{h}/{g}x{s}x128",
        Run("flash_attention_fwd", (b, s, h, g, 128, 4), inputs=(q, k, v)),
        (Expected(want.values, want.spread * (1 + want.magnify), want.magnify),),
        rounds=2,
    )


@case(repo=REPO, path="examples/developer_mode/flash_attn_bshd_developer.py")
def mha_developer(rng: Rng) -> Iterator[Check]:
    for h, d, size in [(2, 64, 1.0), (1, 128, LARGE)]:
        q, k, v = three(rng, 1, h, 128, d)
        q = (q * size).astype(HALF)
        yield Check(
            f"1x{h}x128x{d} scale {size:g}",
            Run("flash_attention_fwd", (h, d), inputs=(q, k, v)),
            (attention(q, k, v),),
        )


@case("asc-seer", repo=REPO, path="examples/seer_attention/block_sparse_attn.py")
def seer(rng: Rng) -> Iterator[Check]:
    for b, h, sq, sk, d in [(1, 2, 128, 128, 64), (1, 1, 128, 192, 64)]:
        q, k, v = three(rng, b, h, sq, d, keys=(b, h, sk, d))
        size = sk // 64
        blocks = np.tril(rng.random((b, h, size, size)) < 0.7, sk // 64 - sq // 64).astype(np.int8)
        blocks[..., 0] = 1
        mask = spread_blocks(blocks[:, :, : sq // 64], sq, sk) != 0
        yield Check(
            f"{b}x{h}x{sq}x{sk}x{d}",
            Run(
                "blocksparse_flashattn_ascend",
                (b, h, sq, sk, d, size, True),
                inputs=(q, k, v, blocks),
            ),
            (attention(q, k, v, mask & causal(sq, sk)),),
        )
