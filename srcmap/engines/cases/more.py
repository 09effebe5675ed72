"""Further files of the variants: DSA, NSA, the backward of the sink, HISA on Ascend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.cases.ascend import REPO, sparse_choice
from srcmap.engines.cases.checks import Check, Expected, Run, case, leaving_out
from srcmap.engines.cases.nvidia import (
    BRAIN,
    FP8,
    HALF,
    HUGE,
    STEEP,
    Rng,
    falling,
    indexer_scores,
    normal,
    stretched,
    three,
    visible,
)
from srcmap.engines.cases.references import (
    attention,
    causal,
    grouped,
    heads_first,
    log_sum_exp,
    moved,
    wide,
    window,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


# -- NSA ---------------------------------------------------------------------------------------


@case("nsa", path="examples/deepseek_nsa/example_tilelang_nsa_decode.py")
def nsa_decode(rng: Rng) -> Iterator[Check]:
    for b, s, heads, groups, d, chosen, size in [
        (2, 96, 32, 16, 64, 1, 32),
        (1, 64, 16, 16, 32, 1, 16),
    ]:
        shared = heads // groups
        q, k, v = three(rng, b, 1, heads, d, keys=(b, s, shared, d))
        blocks = np.stack([rng.permutation(s // size)[:chosen] for _ in range(b * shared)])
        blocks = blocks.reshape(b, 1, shared, chosen).astype(np.int32)
        keys = np.arange(s) // size
        mask = (keys[None, None, None, :] == blocks[:, 0, :, :, None]).any(-2)[:, :, None]
        want = attention(
            heads_first(q),
            grouped(heads_first(k), groups),
            grouped(heads_first(v), groups),
            grouped(mask, groups),
        )
        yield Check(
            f"{b}x{s}x{heads}x{d} {chosen} blocks of {size}",
            Run(
                "native_sparse_attention",
                inputs=(q, k, v, blocks),
                eager=True,
                named={"dim": d, "block_size": size, "groups": groups, "selected_blocks": chosen},
            ),
            (moved(want, 0, 2, 1, 3),),
        )
    # Several blocks: the accumulator is not rescaled when the maximum moves.
    b, s, heads, groups, d, chosen, size = 1, 128, 16, 16, 32, 3, 32
    q, k, v = three(rng, b, 1, heads, d, keys=(b, s, 1, d))
    first = np.arange(chosen, dtype=np.int32).reshape(b, 1, 1, chosen)
    mask = np.arange(s) // size < chosen
    want = attention(
        heads_first(q), grouped(heads_first(k), groups), grouped(heads_first(v), groups), mask
    )
    yield Check(
        f"{b}x{s}x{heads}x{d} {chosen} blocks of {size}",
        Run(
            "native_sparse_attention",
            inputs=(q, k, v, first),
            eager=True,
            named={"dim": d, "block_size": size, "groups": groups, "selected_blocks": chosen},
        ),
        (moved(want, 0, 2, 1, 3),),
        diverges="run.differs.no-rescale",
    )


@case("nsa", path="examples/deepseek_nsa/example_tilelang_nsa_fwd_varlen.py")
def nsa_varlen(rng: Rng) -> Iterator[Check]:
    lengths, heads, groups, d, chosen, size = (50, 33), 16, 16, 32, 2, 16
    total = sum(lengths)
    q, k, v = three(rng, total, heads, d, keys=(total, 1, d))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = np.array([(n, t) for n, length in enumerate(lengths) for t in range(length)], np.int32)
    indices = np.full((total, 1, chosen), 1 << 20, np.int32)
    mask = np.zeros((total, total), bool)
    for row, (n, t) in enumerate(tokens):
        known = np.sort(rng.permutation(t // size + 1)[:chosen])
        indices[row, 0, : len(known)] = known
        for block in known:
            seen = np.arange(block * size, min((block + 1) * size, t + 1))
            mask[row, offsets[n] + seen] = True
    counts = np.full((total, 1), chosen, np.int32)
    want = attention(
        np.swapaxes(q, 0, 1),
        grouped(np.swapaxes(k, 0, 1), groups, 0),
        grouped(np.swapaxes(v, 0, 1), groups, 0),
        mask,
    )
    yield Check(
        f"lengths {lengths} heads {heads} {chosen} blocks of {size}",
        Run(
            "native_sparse_attention_varlen",
            inputs=(q, k, v, np.zeros((total, heads, d), HALF), indices, counts, offsets, tokens),
            eager=True,
            named={
                "batch": len(lengths),
                "dim": d,
                "is_causal": True,
                "block_size": size,
                "groups": groups,
                "selected_blocks": chosen,
            },
            filled=(3,),
        ),
        (moved(want, 1, 0, 2),),
    )


# -- DSA ---------------------------------------------------------------------------------------


@case("dsa-indexer", path="examples/deepseek_v32/fp8_lighting_indexer.py")
def lighting_indexer(rng: Rng) -> Iterator[Check]:
    for m, h, d, n in [(16, 32, 64, 300), (8, 64, 64, 40)]:
        q, k = normal(rng, m, h, d, kind=FP8), normal(rng, n, d, kind=FP8)
        scales = (0.1 + rng.random(n)).astype(np.float32)
        weights = rng.standard_normal((m, h)).astype(np.float32)
        first, last = np.zeros(m, np.int32), np.full(m, n, np.int32)
        yield Check(
            f"{m}x{h}x{d} on {n}",
            Run(
                "mqa_attn_return_logits",
                inputs=(q.reshape(m * h, d), k, scales, weights, first, last),
                eager=True,
            ),
            (indexer_scores(q, k, scales, weights),),
            "float32",
        )
    logits = rng.standard_normal((6, 70)).astype(np.float32)
    first, last = visible(6, 70)
    keys = np.arange(70)
    hidden = (keys < first[:, None]) | (keys >= last[:, None])
    want = np.where(hidden, -np.inf, wide(logits))
    yield Check(
        "clean 6x70",
        Run("clean_logits_", inputs=(logits, first, last), eager=True, filled=(0,)),
        (Expected(want, np.zeros_like(want)),),
        "float32",
        exact=True,
    )


@case("dsa-indexer", path="examples/deepseek_v32/topk_selector.py")
def topk_selector(rng: Rng) -> Iterator[Check]:
    for batch, length, count in [(2, 5000, 512), (3, 300, 64), (1, 4097, 2048)]:
        scores = rng.standard_normal((batch, length)).astype(np.float32)
        starts = np.zeros(batch, np.int32)
        ends = np.full(batch, length, np.int32)
        if batch == 3:
            starts[1], ends[2] = 17, 200
        best = []
        for row, first, last in zip(scores, starts, ends, strict=True):
            order = np.argsort(-row[first:last], kind="stable")[:count] + first
            best.append(np.sort(order))
        want = np.stack(best)
        yield Check(
            f"{batch}x{length} top {count}",
            Run(
                "tl_topk_impl",
                inputs=(scores, np.full((batch, count), -1, np.int32), starts, ends),
                eager=True,
                filled=(1,),
                finish=sorted_rows,
            ),
            (Expected(want, np.zeros(want.shape)),),
            "float32",
            exact=True,
        )


def sorted_rows(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return chosen indices in order: in which order they are found does not matter."""
    return tuple(np.sort(output, axis=-1) for output in outputs)


def _sparse_mla(q: Any, kv: Any, indices: Any, dim: int, last: Any) -> tuple[Expected, Expected]:
    """Return attention on chosen keys and log2 of the denominators."""
    chosen = np.zeros((*indices.shape[:3], kv.shape[1]), bool)
    np.put_along_axis(chosen, indices.astype(np.int64), True, -1)
    mask = chosen[:, :, 0] & (np.arange(kv.shape[1]) <= last[None, :, None])
    mask = mask[:, None]
    keys = heads_first(kv)
    found = attention(heads_first(q), keys, keys[..., :dim], mask)
    lse = log_sum_exp(heads_first(q), keys, mask, q.shape[-1] ** -0.5)
    logs = Expected(np.swapaxes(lse, 1, 2), np.abs(np.swapaxes(lse, 1, 2)) + 1, found.magnify)
    return moved(found, 0, 2, 1, 3), logs


def _steep_tail(q: Any, kv: Any, dim: int, size: float) -> tuple[Any, Any]:
    """Let scores fall along the keys by their rotary part alone; values keep their size."""
    if size == 1:
        return q, kv
    tail, keys = (wide(q[..., dim:]) * STEEP).astype(q.dtype), falling(kv[..., dim:], 1)
    return np.concatenate([q[..., :dim], tail], -1), np.concatenate([kv[..., :dim], keys], -1)


@case("dsa-mla", path="examples/deepseek_v32/sparse_mla_fwd.py")
def sparse_mla(rng: Rng) -> Iterator[Check]:
    for b, s, sk, h, d, tail, topk, size in [
        (1, 20, 128, 16, 64, 32, 64, 1.0),
        (2, 9, 256, 32, 128, 64, 128, 1.0),
        (1, 256, 256, 16, 64, 32, 192, HUGE),
        (1, 6, 256, 64, 512, 64, 128, 1.0),
    ]:
        q = normal(rng, b, s, h, d + tail, kind=BRAIN)
        kv = normal(rng, b, sk, 1, d + tail, kind=BRAIN, scale=0.5)
        q, kv = _steep_tail(q, kv, d, size)
        indices = sparse_choice(rng, b, s, sk, topk)
        yield Check(
            f"{b}x{s}x{sk}x{h}x{d}+{tail} top {topk} scale {size:g}",
            Run(
                "sparse_mla_fwd",
                inputs=(q, kv, indices),
                eager=True,
                named={"heads": h, "dim": d, "tail_dim": tail, "topk": topk},
            ),
            _sparse_mla(q, kv, indices, d, np.arange(s)),
            "bfloat16",
        )


@case("dsa-mla", path="examples/deepseek_v32/sparse_mla_fwd_pipelined.py")
def sparse_mla_pipelined(rng: Rng) -> Iterator[Check]:
    for b, s, sk, h, d, tail, topk, size in [
        (1, 6, 256, 64, 128, 64, 128, 1.0),
        (1, 3, 512, 16, 128, 64, 256, 1.0),
        (1, 2, 512, 16, 128, 64, 256, HUGE),
    ]:
        q = normal(rng, b, s, h, d + tail, kind=BRAIN)
        kv = normal(rng, b, sk, 1, d + tail, kind=BRAIN, scale=0.5)
        q, kv = _steep_tail(q, kv, d, size)
        indices = np.stack([rng.permutation(sk)[:topk] for _ in range(b * s)])
        indices = np.sort(indices.reshape(b, s, 1, topk), -1).astype(np.int32)
        first = np.array([sk], np.int32)  # every key is in the past
        yield Check(
            f"{b}x{s}x{sk}x{h}x{d}+{tail} top {topk} scale {size:g}",
            Run(
                "sparse_mla_fwd",
                inputs=(q, kv, indices, first),
                eager=True,
                named={"heads": h, "dim": d, "tail_dim": tail, "topk": topk, "kv_stride": 1},
                only=(0,),
            ),
            _sparse_mla(q, kv, indices, d, sk + np.arange(s))[:1],
            "bfloat16",
        )


# -- the sink, backwards -------------------------------------------------------------------------


@case(path="examples/attention_sink/example_gqa_sink_bwd_bhsd.py")
def sink_backward(rng: Rng) -> Iterator[Check]:
    b, h, s, d, groups, scale = 1, 64, 128, 32, 2, 32**-0.5
    q, k, v = three(rng, b, h, s, d, keys=(b, h // groups, s, d))
    sinks = normal(rng, h)
    for size, factor in ((None, 1.0), (64, 1.0), (None, HUGE)):
        if factor == HUGE:
            s = 256
            q, k, v = three(rng, b, h, s, d, keys=(b, h // groups, s, d))
            q, k = stretched(np.abs(q), np.abs(k), factor, -2)  # no row far below its sink
        mask = causal(s, s) if size is None else causal(s, s) & window(s, s, size)
        kk, vv = grouped(k, groups), grouped(v, groups)
        want = attention(q, kk, vv, mask, sink=sinks)
        lse = _with_sink(log_sum_exp(q, kk, mask, scale), sinks)
        check = Check(
            f"forward {b}x{h}x{s}x{d} groups {groups} window {size} scale {factor:g}",
            Run("flashattn_fwd", (b, h, s, d, groups, size), inputs=(q, k, v, sinks)),
            (want, Expected(lse, np.abs(lse) + 1, want.magnify)),
        )
        yield check
        if factor == HUGE:
            return
        if size is not None:
            yield leaving_out(check, 2, np.s_[:, :, 64:], np.s_[:, :, :64])
            yield _before_the_window(rng)
        grad = normal(rng, b, h, s, d)
        delta = (wide(grad) * want.values).sum(-1)
        inputs = (q, k, v, grad, lse.astype(np.float32), delta.astype(np.float32))
        zeros = tuple(np.zeros(x.shape, np.float32) for x in (q, k, v))
        yield Check(
            f"backward {b}x{h}x{s}x{d} groups {groups} window {size}",
            Run(
                "flashattn_bwd",
                (b, h, s, d, groups, size),
                inputs=(*inputs, *zeros),
                filled=(6, 7, 8),
            ),
            _gradients(*inputs, mask, scale, groups),
            "float32",
            worked="float16",
            rounds=2,
        )


def _before_the_window(rng: Rng) -> Check:
    """Make a forward check whose first keys no window of the last rows reaches."""
    b, h, s, d, groups, size = 1, 64, 256, 32, 2, 64
    q, k, v = three(rng, b, h, s, d, keys=(b, h // groups, s, d))
    sinks = normal(rng, h)
    want = attention(
        q, grouped(k, groups), grouped(v, groups), causal(s, s) & window(s, s, size), sink=sinks
    )
    run = Run("flashattn_fwd", (b, h, s, d, groups, size), inputs=(q, k, v, sinks), only=(0,))
    check = Check(f"forward {b}x{h}x{s}x{d} groups {groups} window {size}", run, (want,))
    return leaving_out(check, 2, np.s_[:, :, :64], np.s_[:, :, 192:])


def _with_sink(lse: Any, sinks: Any) -> Any:
    """Return log2 of the denominators with the sink's term."""
    return np.logaddexp2(lse, wide(sinks)[:, None] * np.log2(np.e))


def _gradients(
    q: Any, k: Any, v: Any, grad: Any, lse: Any, delta: Any, mask: Any, scale: float, groups: int
) -> tuple[Expected, ...]:
    """Return dQ, dK, dV by their formulas, with the magnitudes of what is added up."""
    q, k, v, grad = wide(q), grouped(wide(k), groups), grouped(wide(v), groups), wide(grad)
    weights = np.exp2(q @ np.swapaxes(k, -1, -2) * scale * np.log2(np.e) - wide(lse)[..., None])
    weights = np.where(mask, weights, 0)
    inner = grad @ np.swapaxes(v, -1, -2)
    slope = weights * (inner - wide(delta)[..., None]) * scale
    rough = (
        weights * (np.abs(grad) @ np.swapaxes(np.abs(v), -1, -2) + np.abs(delta)[..., None]) * scale
    )
    across = np.swapaxes(slope, -1, -2)
    dv = np.swapaxes(weights, -1, -2)
    return (
        Expected(slope @ k, rough @ np.abs(k)),
        _shared(across @ q, np.swapaxes(rough, -1, -2) @ np.abs(q), groups),
        _shared(dv @ grad, dv @ np.abs(grad), groups),
    )


def _shared(values: Any, spread: Any, groups: int) -> Expected:
    """Add up the heads that share a key."""
    shape = (values.shape[0], -1, groups, *values.shape[2:])
    return Expected(values.reshape(shape).sum(2), spread.reshape(shape).sum(2))


# -- Ascend --------------------------------------------------------------------------------------


@case("asc-hisa", repo=REPO, path="examples/HISA/block_sparse_mqa_attn_expert_test.py")
def asc_hisa(rng: Rng) -> Iterator[Check]:
    for m, n, size, topk, h, d, pairs in [
        (8, 512, 64, 4, 16, 64, 4),
        (5, 1024, 128, 8, 32, 128, 2),
    ]:
        q, k = normal(rng, m, h, d), normal(rng, n, d)
        weights = rng.random((m, h)).astype(HALF)
        chosen = np.stack([rng.permutation(n // size)[:topk] for _ in range(m)]).astype(np.int32)
        first = np.zeros(m, np.int32)
        last = ((np.arange(m) + 1) * (n // m)).astype(np.int32)
        places = chosen[..., None] * size + np.arange(size)
        values, spread, *_ = indexer_scores(q, k, np.ones(n), weights)
        rows = np.arange(m)[:, None, None]
        hidden = (places < first[:, None, None]) | (places >= last[:, None, None])
        yield Check(
            f"{m}x{h}x{d} on {n}, {topk} blocks of {size}",
            Run(
                "block_sparse_mqa_attn_return_logits",
                (m, n, size, topk, h, d),
                named={"num_pairs": pairs},
                inputs=(q, k, chosen, weights, first, last),
            ),
            (Expected(np.where(hidden, -np.inf, values[rows, places]), spread[rows, places]),),
            "float32",
        )


@case("asc-hisa", repo=REPO, path="examples/HISA/paged_block_sparse_mqa_attn_expert.py")
def asc_hisa_paged(rng: Rng) -> Iterator[Check]:
    for b, size, topk, h, d, pages in [(2, 64, 4, 16, 64, 6), (3, 128, 8, 32, 128, 8)]:
        q, weights = normal(rng, b, h, d), rng.random((b, h)).astype(HALF)
        table = rng.permutation(b * pages).reshape(b, pages).astype(np.int32)
        cache = normal(rng, b * pages, size, 1, d)
        chosen = np.stack([rng.permutation(pages)[:topk] for _ in range(b)]).astype(np.int32)
        lengths = rng.integers(1, pages * size + 1, b).astype(np.int32)
        want, spread = [], []
        for row in range(b):
            keys = cache[table[row], :, 0].reshape(pages * size, d)
            one, rough, *_ = indexer_scores(
                q[row : row + 1], keys, np.ones(len(keys)), weights[row : row + 1]
            )
            places = chosen[row][:, None] * size + np.arange(size)
            want.append(np.where(places >= lengths[row], -np.inf, one[0][places]))
            spread.append(rough[0][places])
        yield Check(
            f"{b}x{h}x{d} {topk} of {pages} pages of {size}",
            Run(
                "paged_block_sparse_mqa_attn_return_logits",
                (b, 1, b * pages, size, topk, h, d, pages),
                inputs=(q, cache, chosen, weights, lengths, table),
            ),
            (Expected(np.stack(want), np.stack(spread)),),
            "float32",
        )


@case(
    "asc-indexer",
    repo=REPO,
    path="examples/lightning_indexer/example_lightning_indexer_dynamic_shape.py",
)
def asc_indexer_dynamic(rng: Rng) -> Iterator[Check]:
    for b, g, s1, s2, d, k in [(1, 16, 64, 256, 64, 32), (2, 32, 64, 128, 64, 64)]:
        query, key = normal(rng, b, s1, 1, g * d), normal(rng, b, s2, 1, d)
        weights = rng.standard_normal((b, s1, 1, g)).astype(np.float32)
        heads = wide(query).reshape(b, s1, g, d)
        scores = np.maximum(np.einsum("bsgd,btd->bsgt", heads, wide(key[:, :, 0])), 0)
        total = (scores * wide(weights)[:, :, 0, :, None]).sum(2)
        best = np.argsort(-total, axis=-1, kind="stable")[:, None, :, :k]
        yield Check(
            f"{b}x{s1}x{g}x{d} on {s2} top {k}",
            Run("indexer", (1, g, d, k, 128, 16, 64, 64, 64), inputs=(query, key, weights)),
            (Expected(best, np.zeros(best.shape)),),
            "float32",
            exact=True,
        )


@case("asc-sfa", repo=REPO, path="examples/sparse_flash_attention/example_sparse_flash_attn_gqa.py")
def asc_sparse_gqa(rng: Rng) -> Iterator[Check]:
    for b, s, sk, h, g, d, topk, size in [
        (1, 16, 256, 64, 4, 64, 64, 1.0),
        (1, 2, 512, 64, 4, 64, 256, STEEP),
    ]:
        yield _asc_sparse_gqa(rng, (b, s, sk, h, g, d, topk), size)


def _asc_sparse_gqa(rng: Rng, shape: tuple[int, ...], size: float) -> Check:
    b, s, sk, h, g, d, topk = shape
    q, kv = normal(rng, b, s, h, d), normal(rng, b, sk, g, d, scale=0.5)
    indices = np.stack([rng.permutation(sk)[:topk] for _ in range(b * s * g)])
    indices = indices.reshape(b, s, g, topk).astype(np.int32)
    if size > 1:
        indices.sort(-1)
        q, kv = (q * size).astype(HALF), falling(kv, 1)
    chosen = np.zeros((b, s, g, sk), bool)
    np.put_along_axis(chosen, indices.astype(np.int64), True, -1)
    keys = grouped(heads_first(kv), h // g)
    mask = grouped(np.moveaxis(chosen, 2, 1), h // g)
    return Check(
        f"{b}x{s}x{sk}x{h}/{g}x{d} top {topk} scale {size:g}",
        Run(
            "sparse_attention_fwd",
            (h, d, 0, topk, 1),
            named={"kv_group": g},
            inputs=(q, kv, indices),
        ),
        (moved(attention(heads_first(q), keys, keys, mask), 0, 2, 1, 3),),
    )
