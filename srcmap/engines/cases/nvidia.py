"""The NVIDIA examples: attention of all kinds, one case for each file."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from srcmap.engines.cases.checks import Check, Expected, Run, Theirs, case, leaving_out
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

Rng = np.random.Generator
HALF = np.float16
BRAIN = ml_dtypes.bfloat16
FP8 = ml_dtypes.float8_e4m3fn
LARGE = 12.0
"""Makes scores of some hundreds: a maximum that is not carried along shows at once."""
HUGE = 40.0
"""With keys that fall: what forgets the maximum of an earlier block raises 2 to more than 128."""
STEEP = 3 * HUGE
"""The same where only a part of each key falls, or where blocks are many."""


def normal(rng: Rng, *shape: int, scale: float = 1.0, kind: Any = HALF) -> Any:
    """Return normal numbers in a type."""
    return (rng.standard_normal(shape) * scale).astype(kind)


def three(
    rng: Rng, *shape: int, keys: tuple[int, ...] = (), kind: Any = HALF
) -> tuple[Any, Any, Any]:
    """Return queries, keys and values. Values are halved: above 2, fp16 rounds by 1e-3 alone."""
    keys = keys or shape
    return (
        normal(rng, *shape, kind=kind),
        normal(rng, *keys, kind=kind),
        normal(rng, *keys, kind=kind, scale=0.5),
    )


def rising(keys: Any) -> Any:
    """Let later keys be longer, so that the running maximum moves in every block."""
    steps = np.linspace(0.2, 1.5, keys.shape[-2])[:, None]
    return (keys.astype(np.float64) * steps).astype(keys.dtype)


def falling(keys: Any, axis: int = -2) -> Any:
    """Let later keys be short: a maximum that forgets earlier blocks overflows the rescaling."""
    shape = [1] * keys.ndim
    shape[axis] = keys.shape[axis]
    steps = np.linspace(1.5, 0.02, keys.shape[axis]).reshape(shape)
    return (keys.astype(np.float64) * steps).astype(keys.dtype)


def stretched(q: Any, k: Any, size: float, axis: int) -> tuple[Any, Any]:
    """Return queries of a size, and keys that fall when it is huge."""
    return (wide(q) * size).astype(q.dtype), falling(k, axis) if size >= HUGE else k


# -- flash attention ---------------------------------------------------------------------------


@case("mha-bhsd", "causal", path="examples/flash_attention/example_mha_fwd_bhsd.py")
def mha_bhsd(rng: Rng) -> Iterator[Check]:
    shapes = [
        (1, 2, 100, 100, 64, False, 1.0),
        (2, 1, 128, 128, 64, True, 1.0),
        (1, 3, 63, 127, 32, True, LARGE),
        (1, 1, 1, 65, 64, True, 1.0),
        (1, 1, 1, 1, 64, False, 1.0),
        (1, 1, 64, 192, 128, False, LARGE),
        (1, 1, 64, 256, 64, False, HUGE),
        (1, 1, 192, 192, 64, True, 1.0),
    ]
    for b, h, sq, sk, d, is_causal, size in shapes:
        q, k, v = three(rng, b, h, sq, d, keys=(b, h, sk, d))
        q = (q * size).astype(HALF)
        k = falling(k) if size == HUGE else rising(k)
        mask = causal(sq, sk) if is_causal else None
        check = Check(
            f"{'causal' if is_causal else 'full'} {b}x{h}x{sq}x{sk}x{d} scale {size:g}",
            Run("flashattn", (b, h, sq, sk, d, is_causal), inputs=(q, k, v)),
            (attention(q, k, v, mask),),
            theirs=Theirs("ref_program", (q, k, v), extra=(is_causal,)),
        )
        yield check
    yield leaving_out(check, 2, np.s_[:, :, 128:], np.s_[:, :, :128])


@case("mha-bshd", path="examples/flash_attention/example_mha_fwd_bshd.py")
def mha_bshd(rng: Rng) -> Iterator[Check]:
    shapes = [
        (1, 2, 100, 64, False, 1.0),
        (2, 1, 128, 32, True, LARGE),
        (1, 1, 1, 64, True, 1.0),
        (1, 1, 256, 64, False, HUGE),
        (1, 1, 192, 64, True, 1.0),
    ]
    for b, h, s, d, is_causal, size in shapes:
        q, k, v = three(rng, b, s, h, d)
        q, k = stretched(q, k, size, 1)
        want = attention(
            heads_first(q), heads_first(k), heads_first(v), causal(s, s) if is_causal else None
        )
        check = Check(
            f"{'causal' if is_causal else 'full'} {b}x{s}x{h}x{d} scale {size:g}",
            Run("flashattn", (b, h, s, d, is_causal), inputs=(q, k, v)),
            (moved(want, 0, 2, 1, 3),),
            theirs=Theirs("ref_program", (q, k, v), extra=(is_causal,)),
        )
        yield check
    yield leaving_out(check, 2, np.s_[:, 128:], np.s_[:, :128])


@case("gqa-bshd", path="examples/flash_attention/example_gqa_fwd_bshd.py")
def gqa_bshd(rng: Rng) -> Iterator[Check]:
    shapes = [
        (1, 6, 100, 64, False, 3, 1.0),
        (2, 4, 128, 32, True, 2, LARGE),
        (1, 5, 1, 64, True, 5, 1.0),
        (1, 2, 256, 64, False, 2, HUGE),
        (1, 2, 192, 64, True, 2, 1.0),
    ]
    for b, h, s, d, is_causal, groups, size in shapes:
        q, k, v = three(rng, b, s, h, d, keys=(b, s, h // groups, d))
        q, k = stretched(q, k, size, 1)
        kk, vv = (grouped(heads_first(x), groups) for x in (k, v))
        want = attention(heads_first(q), kk, vv, causal(s, s) if is_causal else None)
        check = Check(
            f"{'causal' if is_causal else 'full'} {b}x{s}x{h}x{d} groups {groups} scale {size:g}",
            Run("flashattn", (b, h, s, d, is_causal, groups), inputs=(q, k, v)),
            (moved(want, 0, 2, 1, 3),),
            theirs=Theirs("ref_program", (q, k, v), extra=(is_causal, groups)),
        )
        yield check
    yield leaving_out(check, 2, np.s_[:, 128:], np.s_[:, :128])


def packed(
    q: Any, k: Any, v: Any, cu_q: Any, cu_k: Any, groups: int, see: Any, sink: Any = None
) -> Expected:
    """Return attention over packed samples; `see(queries, keys)` is the mask of one sample."""
    values, spreads, most = [], [], 0.0
    for start, stop, first, last in zip(cu_q, cu_q[1:], cu_k, cu_k[1:], strict=False):
        one = attention(
            np.swapaxes(q[start:stop], 0, 1),
            grouped(np.swapaxes(k[first:last], 0, 1), groups, 0),
            grouped(np.swapaxes(v[first:last], 0, 1), groups, 0),
            see(stop - start, last - first),
            sink=sink,
        )
        values.append(np.swapaxes(one.values, 0, 1))
        spreads.append(np.swapaxes(one.spread, 0, 1))
        most = max(most, one.magnify)
    return Expected(np.concatenate(values), np.concatenate(spreads), most)


def kind_of(is_causal: bool) -> str:
    """Return how a check is named by its mask."""
    return "causal" if is_causal else "full"


def everything(_queries: int, _keys: int) -> None:
    """Hide nothing."""


def starts(*lengths: int) -> Any:
    """Return where each packed sample starts, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


@case("mha-varlen", path="examples/flash_attention/example_mha_fwd_varlen.py")
def mha_varlen(rng: Rng) -> Iterator[Check]:
    for lengths_q, lengths_k, is_causal, size in [
        ((100, 1, 64), (100, 1, 64), True, 1.0),
        ((65, 63), (65, 63), False, LARGE),
        ((70, 3), (20, 130), True, 1.0),
        ((100, 64), (128, 64), True, 1.0),
    ]:
        cu_q, cu_k, h, d = starts(*lengths_q), starts(*lengths_k), 2, 64
        q, k, v = three(rng, int(cu_q[-1]), h, d, keys=(int(cu_k[-1]), h, d))
        q = (q * size).astype(HALF)
        args = (len(lengths_q), int(cu_q[-1]), int(cu_k[-1]), h, d, is_causal)
        check = Check(
            f"{'causal' if is_causal else 'full'} lengths {lengths_q} / {lengths_k}",
            Run(
                "flashattn",
                args,
                inputs=(q, k, v, cu_q, cu_k, max(lengths_q)),
                backwards=not is_causal,
            ),
            (packed(q, k, v, cu_q, cu_k, 1, causal if is_causal else everything),),
        )
        yield check
    yield leaving_out(check, 2, np.s_[128:], np.s_[:100])  # the next sample


@case("gqa-varlen", path="examples/flash_attention/example_gqa_fwd_varlen.py")
def gqa_varlen(rng: Rng) -> Iterator[Check]:
    for lengths_q, lengths_k, is_causal, groups in [
        ((100, 1, 64), (100, 1, 64), True, 3),
        ((65, 63), (65, 63), False, 2),
        ((70, 3), (20, 130), True, 3),
        ((64, 3), (65, 130), True, 2),
        ((100, 64), (128, 64), True, 2),
    ]:
        cu_q, cu_k, h, d = starts(*lengths_q), starts(*lengths_k), 2 * groups, 64
        q, k, v = three(rng, int(cu_q[-1]), h, d, keys=(int(cu_k[-1]), h // groups, d))
        args = (len(lengths_q), groups, int(cu_q[-1]), int(cu_k[-1]), h, d, is_causal)
        check = Check(
            f"{kind_of(is_causal)} lengths {lengths_q} / {lengths_k} groups {groups}",
            Run(
                "flashattn",
                args,
                inputs=(q, k, v, cu_q, cu_k, max(lengths_q)),
                backwards=not is_causal,
            ),
            (packed(q, k, v, cu_q, cu_k, groups, causal if is_causal else everything),),
        )
        yield check
    yield leaving_out(check, 2, np.s_[128:], np.s_[:100])  # the next sample


# -- sinks and windows -------------------------------------------------------------------------


@case("sink", "sliding-window", path="examples/attention_sink/example_mha_sink_fwd_bhsd.py")
def mha_sink(rng: Rng) -> Iterator[Check]:
    for b, h, sq, sk, d, size, scale in [
        (1, 2, 128, 128, 64, None, 1.0),
        (1, 3, 100, 163, 32, None, LARGE),
        (1, 2, 256, 256, 64, 64, 1.0),
        (2, 1, 129, 200, 32, 64, LARGE),
        (1, 1, 1, 1, 64, None, 1.0),
        (1, 2, 128, 256, 64, 128, -8.0),
        (1, 2, 100, 300, 64, 64, 3.0),
        (1, 2, 256, 256, 64, 64, 2.0),
    ]:
        q, k, v = three(rng, b, h, sq, d, keys=(b, h, sk, d))
        q = (q * scale).astype(HALF)
        if scale < 0:  # every score far below zero: a maximum of 0 would swallow the row
            q, k = np.abs(q) * -1, np.abs(k)
        sinks = normal(rng, h, scale=2.0)
        if scale == 3:
            sinks[...] = -np.inf  # the window alone
        mask = causal(sq, sk) if size is None else causal(sq, sk) & window(sq, sk, size)
        check = Check(
            f"{b}x{h}x{sq}x{sk}x{d} window {size} scale {scale:g}",
            Run("flashattn", (b, h, sq, sk, d, size), inputs=(q, k, v, sinks)),
            (attention(q, k, v, mask, sink=sinks),),
            theirs=Theirs("ref_program", (q, k, v, sinks), extra=(size,), dtype="float32"),
        )
        yield check
    yield leaving_out(check, 2, np.s_[:, :, 192:], np.s_[:, :, :192])
    before = leaving_out(check, 2, np.s_[:, :, :64], np.s_[:, :, 128:])
    yield before._replace(name=f"{before.name} before the window")


@case("sink-gqa-varlen", path="examples/attention_sink/example_gqa_sink_fwd_varlen.py")
def gqa_sink_varlen(rng: Rng) -> Iterator[Check]:
    for lengths_q, lengths_k, is_causal, size, groups in [
        ((100, 1, 64), (100, 1, 64), True, None, 3),
        ((130, 63), (130, 163), True, 64, 2),
        ((65, 63), (65, 63), False, None, 2),
        ((70, 3), (20, 130), True, None, 1),
        ((130, 63), (130, 163), False, 64, 2),
        ((64, 192), (64, 192), True, 64, 2),
        ((64, 192), (64, 192), False, 64, 2),
    ]:
        cu_q, cu_k, h, d = starts(*lengths_q), starts(*lengths_k), 2 * groups, 64
        q, k, v = three(rng, int(cu_q[-1]), h, d, keys=(int(cu_k[-1]), h // groups, d))
        sinks = normal(rng, h)
        args = (len(lengths_q), groups, int(cu_q[-1]), int(cu_k[-1]), h, d, is_causal, size)

        def see(a: int, b: int, causal_=is_causal, size_=size) -> Any:  # type: ignore[no-untyped-def]
            seen = causal(a, b) if causal_ else np.ones((a, b), bool)
            return seen if size_ is None else seen & window(a, b, size_)

        check = Check(
            f"{'causal' if is_causal else 'full'} {lengths_q} / {lengths_k} window {size}",
            Run(
                "flashattn_sink",
                args,
                inputs=(q, k, v, cu_q, cu_k, max(lengths_q), sinks),
                backwards=not is_causal,
            ),
            (packed(q, k, v, cu_q, cu_k, groups, see, sinks),),
        )
        yield check
        if lengths_q == (64, 192):  # the second sample's first keys, before its last windows
            yield leaving_out(check, 2, np.s_[64:128], np.s_[192:])


# -- block-causal and block-sparse -------------------------------------------------------------


def dllm_mask(length: int, size: int) -> Any:
    """Return the mask of diffusion language models: a noisy half before a clean half."""
    half, at = length // 2, np.arange(length)
    clean, block = at >= half, (at % half) // size
    q, k = np.ix_(at, at)
    same, later, not_before = (block[q] == block[k], block[q] > block[k], block[q] >= block[k])
    diagonal = same & ~clean[q] & ~clean[k]
    return diagonal | (later & ~clean[q] & clean[k]) | (not_before & clean[q] & clean[k])


@case("block-causal", path="examples/block_causal_attention/block_causal_attention.py")
def block_causal(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, size, kind, large in [
        (1, 2, 256, 64, 16, "float16", 1.0),
        (1, 1, 128, 64, 64, "bfloat16", 1.0),
        (2, 1, 256, 32, 32, "float16", LARGE),
    ]:
        stored = HALF if kind == "float16" else BRAIN
        q, k, v = three(rng, b, s, h, d, kind=stored)
        q = (wide(q) * large).astype(stored)
        mask, scale = dllm_mask(s, size), d**-0.5
        want = attention(heads_first(q), heads_first(k), heads_first(v), mask)
        lse = log_sum_exp(heads_first(q), heads_first(k), mask, scale)
        yield Check(
            f"{b}x{s}x{h}x{d} blocks of {size} {kind} scale {large:g}",
            Run(
                "_fwd_template", (b, h, s, d, size, scale), inputs=(q, k, v), named={"dtype": kind}
            ),
            (moved(want, 0, 2, 1, 3), Expected(lse, np.abs(lse), want.magnify)),
            stored=kind,
            theirs=Theirs("block_causal_attention_ref", (q, k, v), extra=(size,)),
        )


@case("block-causal", path="examples/block_causal_attention/block_causal_attention_varlen.py")
def block_causal_varlen(rng: Rng) -> Iterator[Check]:
    for lengths, size in [((128, 256), 16), ((256, 128, 128), 32)]:
        cu, h, d = starts(*lengths), 2, 64
        total = int(cu[-1])
        q, k, v = three(rng, total, h, d)

        run = Run(
            "_fwd_varlen_template",
            (len(lengths), 2, 64, size, 64**-0.5),
            named={"dtype": "float16"},
            inputs=(
                q,
                k,
                v,
                cu,
                max(lengths),
                np.full((total, 2, 64), np.nan, HALF),
                np.full((2, total), np.nan, np.float32),
            ),
            filled=(5, 6),
        )

        want = packed(q, k, v, cu, cu, 1, lambda a, _b, z=size: dllm_mask(a, z))
        samples = [slice(a, b) for a, b in itertools.pairwise(cu)]
        logs = [
            log_sum_exp(
                q[x].swapaxes(0, 1), k[x].swapaxes(0, 1), dllm_mask(len(q[x]), size), 64**-0.5
            )
            for x in samples
        ]
        lse = np.concatenate(logs, -1)
        yield Check(
            f"lengths {lengths} blocks of {size}",
            run,
            (want, Expected(lse, np.abs(lse) + 1, want.magnify)),
        )


def block_mask(rng: Rng, *shape: int) -> Any:
    """Return a random causal choice of blocks in which every row keeps its own."""
    chosen = rng.random(shape) < 0.5
    chosen |= np.eye(shape[-1], dtype=bool)
    return np.tril(chosen)


def spread_blocks(mask: Any, queries: int, keys: int, size: int = 64) -> Any:
    """Return a mask over elements from one over blocks."""
    wider = np.repeat(np.repeat(mask, size, -2), size, -1)
    return wider[..., :queries, :keys]


@case("block-sparse", path="examples/blocksparse_attention/example_tilelang_block_sparse_attn.py")
def block_sparse(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, is_causal, size in [
        (1, 2, 256, 64, True, 1.0),
        (1, 1, 192, 32, True, 4.0),
        (2, 1, 128, 64, False, 1.0),
        (1, 1, 192, 64, True, 1.0),
    ]:
        q, k, v = three(rng, b, h, s, d)
        q = (q * size).astype(HALF)
        blocks = block_mask(rng, b, h, s // 64, s // 64)
        if d == 64 and s == 192:
            blocks[...] = True  # blocks of the future are chosen, and left out all the same
        mask = spread_blocks(blocks, s, s)
        mask = mask & causal(s, s) if is_causal else mask
        check = Check(
            f"{'causal' if is_causal else 'full'} {b}x{h}x{s}x{d} scale {size:g}",
            Run(
                "blocksparse_flashattn", (b, h, s, d, s // 64, is_causal), inputs=(q, k, v, blocks)
            ),
            (attention(q, k, v, mask),),
        )
        yield check
    yield leaving_out(check, 2, np.s_[:, :, 128:], np.s_[:, :, :128])
    b, h, s, d = 1, 1, 320, 64
    q, k, v = three(rng, b, h, s, d)
    q, k = stretched(q, k, HUGE, -2)
    blocks = block_mask(rng, b, h, s // 64, s // 64)
    mask = spread_blocks(blocks, s, s) & causal(s, s)
    run = Run("blocksparse_flashattn", (b, h, s, d, s // 64, True), inputs=(q, k, v, blocks))
    yield Check(
        f"causal {b}x{h}x{s}x{d} scale {HUGE:g}",
        run,
        (attention(q, k, v, mask),),
        diverges=_MAX_FORGOTTEN,
    )


@case("seer", path="examples/seer_attention/block_sparse_attn_tilelang.py")
def seer(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, is_causal, size in [
        (1, 2, 256, 64, True, 1.0),
        (1, 1, 192, 32, True, 1.0),
        (1, 1, 320, 64, True, HUGE),
    ]:
        q, k, v = three(rng, b, h, s, d)
        q, k = stretched(q, k, size, -2)
        blocks = block_mask(rng, b, h, s // 64, s // 64)
        mask = spread_blocks(blocks, s, s) & causal(s, s)
        yield Check(
            f"causal {b}x{h}x{s}x{d} scale {size:g}",
            Run(
                "blocksparse_flashattn",
                (b, h, s, s, d, s // 64, is_causal),
                inputs=(q, k, v, blocks.astype(np.int8)),
            ),
            (attention(q, k, v, mask),),
        )


# -- sparse decoding ---------------------------------------------------------------------------


def _decode(q: Any, k: Any, v: Any, mask: Any) -> Expected:
    """Return attention of one query per head; q [B, H, D], k, v [B, S, G, D], mask [B, G, S]."""
    groups = q.shape[1] // k.shape[2]
    keys, values = (grouped(heads_first(x), groups) for x in (k, v))
    found = attention(q[:, :, None], keys, values, grouped(mask, groups)[:, :, None])
    return Expected(found.values[:, :, 0], found.spread[:, :, 0], found.magnify)


def _sparse_choice(
    rng: Rng, batch: int, heads: int, blocks: int, lengths: Any, size: int, most: int
) -> tuple[Any, Any]:
    """Choose blocks for each head, in falling order, -1 at the end; the last one always."""
    indices = np.full((batch, heads, most), -1, np.int32)
    mask = np.zeros((batch, heads, blocks), bool)
    for b in range(batch):
        used = -(-int(lengths[b]) // size)
        for g in range(heads):
            others = rng.permutation(used - 1)[: most - 1]
            chosen = np.sort(np.concatenate([[used - 1], others]))[::-1]
            indices[b, g, : len(chosen)] = chosen
            mask[b, g, chosen] = True
    return indices, mask


def _sparse_inputs(rng: Rng, b: int, h: int, g: int, s: int, d: int, size: int, most: int) -> Any:
    lengths = rng.integers(1, s + 1, b).astype(np.int32)
    lengths[0] = s
    q = normal(rng, b, h, d)
    _, k, v = three(rng, b, s, g, d)
    indices, mask = _sparse_choice(rng, b, g, s // size, lengths, size, most)
    seen = np.repeat(mask, size, -1) & (np.arange(s) < lengths[:, None, None])
    return q, k, v, lengths, indices, mask, seen


def _parts(b: int, h: int, splits: int, d: int) -> tuple[Any, Any]:
    return (
        np.zeros((b, h, splits), np.float32),
        np.zeros((b, h, splits, d), np.float32),
    )


_EMPTY_SPLIT = "run.differs.empty-split"


def _steep_backwards(q: Any, k: Any) -> tuple[Any, Any]:
    """Chosen blocks come last first, so earlier keys are shorter here."""
    q, k = stretched(q, k[:, ::-1], STEEP, 1)
    return q, k[:, ::-1]


@case(
    "sparse-decode",
    path="examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_indice.py",
)
def sparse_indices(rng: Rng) -> Iterator[Check]:
    for b, h, g, s, d, size, most, splits in [
        (2, 8, 2, 256, 64, 32, 4, 1),
        (3, 6, 2, 256, 32, 32, 6, 2),
        (1, 6, 2, 256, 64, 32, 8, 2),  # steep
    ]:
        q, k, v, lengths, indices, _, seen = _sparse_inputs(rng, b, h, g, s, d, size, most)
        if most == 8:
            q, k = _steep_backwards(q, k)
        lengths[1:] = np.maximum(lengths[1:], size * most)
        indices, mask = _sparse_choice(rng, b, g, s // size, lengths, size, most)
        seen = np.repeat(mask, size, -1) & (np.arange(s) < lengths[:, None, None])
        yield Check(
            f"{b}x{h}/{g}x{s}x{d} splits {splits}",
            Run(
                "flashattn",
                (b, h, g, d, d, size, 64, 2, 128),
                inputs=(*(q, k, v, indices, lengths), *_parts(b, h, splits, d)),
                backwards=splits > 1,
            ),
            (_decode(q, k, v, seen),),
        )


@case(
    "sparse-decode",
    path="examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_mask.py",
)
def sparse_mask(rng: Rng) -> Iterator[Check]:
    for b, h, g, s, d, size, most, splits, leading, large in [
        (2, 8, 2, 256, 64, 32, 4, 1, False, 1.0),
        (2, 6, 2, 256, 32, 32, 8, 2, False, 1.0),
        (1, 4, 1, 256, 64, 32, 3, 2, True, 1.0),
        (1, 6, 2, 512, 64, 32, 8, 2, False, STEEP),
    ]:
        q, k, v, lengths, _, mask, seen = _sparse_inputs(rng, b, h, g, s, d, size, most)
        q, k = stretched(q, k, large, 1)
        if leading:  # nothing in the first half: the first split is empty
            mask[:, :, : s // size // 2] = False
            seen &= np.repeat(mask, size, -1)
        elif splits > 1:  # every split has something, up to the end of the sample
            lengths[:] = s
            mask[:] = rng.random(mask.shape) < 0.5
            mask[:, :, [0, -1]] = True
            seen = np.repeat(mask, size, -1)
        yield Check(
            f"{b}x{h}/{g}x{s}x{d} splits {splits}{' first empty' if leading else ''}",
            Run(
                "flashattn",
                (b, h, g, d, d, size, 64, 2, 128),
                inputs=(*(q, k, v, mask, lengths), *_parts(b, h, splits, d)),
                backwards=splits > 1,
            ),
            (_decode(q, k, v, seen),),
            diverges=_EMPTY_SPLIT if leading else "",
        )


@case(
    "paged-gqa",
    path="examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py",
)
def sparse_paged(rng: Rng) -> Iterator[Check]:
    for b, h, g, s, d, size, most, splits in [
        (2, 8, 2, 256, 64, 32, 4, 1),
        (2, 6, 2, 256, 32, 32, 6, 2),
        (1, 6, 2, 256, 64, 32, 8, 2),  # steep
    ]:
        page = 64
        q, k, v, lengths, _, _, _ = _sparse_inputs(rng, b, h, g, s, d, size, most)
        if most == 8:
            q, k = _steep_backwards(q, k)
        lengths[1:] = np.maximum(lengths[1:], size * most - 3)
        indices, mask = _sparse_choice(rng, b, g, s // size, lengths, size, most)
        seen = np.repeat(mask, size, -1) & (np.arange(s) < lengths[:, None, None])
        pages = b * s // page
        table = rng.permutation(pages).reshape(b, -1).astype(np.int32)
        cached = []
        for x in (k, v):
            paged = np.zeros((pages, page, g, d), HALF)
            paged[table.reshape(-1)] = x.reshape(pages, page, g, d)
            cached.append(paged)
        yield Check(
            f"{b}x{h}/{g}x{s}x{d} pages of {page} splits {splits}",
            Run(
                "flashattn",
                (b, h, g, d, d, size, 64, page, 2, 128, pages),
                inputs=(*(q, *cached, indices, lengths, table), *_parts(b, h, splits, d)),
                backwards=splits > 1,
            ),
            (_decode(q, k, v, seen),),
        )


# -- MLA ---------------------------------------------------------------------------------------


def _mla(q: Any, q_pe: Any, kv: Any, k_pe: Any, mask: Any, scale: float) -> Expected:
    """Return MLA decoding: q [B, H, D], kv [B, S, D]; keys are values with a rotary part."""
    full, keys = (
        np.concatenate([wide(q), wide(q_pe)], -1),
        np.concatenate([wide(kv), wide(k_pe)], -1),
    )
    return attention(full, keys, kv, mask, scale)


def _mla_inputs(rng: Rng, b: int, h: int, s: int, d: int, pe: int) -> tuple[Any, ...]:
    return (
        normal(rng, b, h, d),
        normal(rng, b, h, pe),
        normal(rng, b, s, 1, d),
        normal(rng, b, s, 1, pe),
    )


def _steep(inputs: tuple[Any, ...], size: float) -> tuple[Any, ...]:
    """Make the rotary parts steep: what is compared, the compressed keys, keeps its values."""
    q, q_pe, kv, k_pe = inputs
    return (
        q,
        *(
            (q_pe, kv, k_pe)
            if size == 1
            else (stretched(q_pe, k_pe, STEEP, 1)[0], kv, falling(k_pe, 1))
        ),
    )


@case("mla-decode", path="examples/deepseek_mla/example_mla_decode.py")
def mla_decode(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, pe, splits, size in [
        (1, 64, 256, 128, 64, 1, 1.0),
        (2, 64, 256, 64, 32, 4, 1.0),
        (1, 64, 256, 64, 32, 1, HUGE),
        (1, 64, 512, 64, 32, 2, HUGE),
        (1, 64, 320, 512, 64, 1, 1.0),
        (1, 128, 384, 512, 64, 2, 1.0),
    ]:
        x = _steep(_mla_inputs(rng, b, h, s, d, pe), size)
        if size == HUGE:
            x = (*x[:3], _first_falls(x[3], splits))
        scale = (d + pe) ** -0.5
        yield Check(
            f"{b}x{h}x{s}x{d}+{pe} splits {splits} scale {size:g}",
            Run("flashattn", (b, h, 1, s, d, pe, 64, 64, splits, scale), inputs=x),
            (_mla(x[0], x[1], x[2][:, :, 0], x[3][:, :, 0], None, scale),),
            rounds=1 + (splits > 1) * 3,
            theirs=Theirs("ref_program", x),
        )


@case(path="examples/deepseek_mla/example_mla_decode_ws.py")
def mla_decode_ws(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, pe, splits in [(1, 64, 256, 512, 64, 1), (1, 64, 512, 512, 64, 2)]:
        x = _mla_inputs(rng, b, h, s, d, pe)
        scale = (d + pe) ** -0.5
        parts = (np.zeros((b, h, splits), HALF), np.zeros((b, h, splits, d), HALF))
        yield Check(
            f"{b}x{h}x{s}x{d}+{pe} splits {splits}",
            Run("flashattn", (b, h, 1, s, d, pe, 64, 64, splits, scale), inputs=(*x, *parts)),
            (_mla(x[0], x[1], x[2][:, :, 0], x[3][:, :, 0], None, scale),),
            rounds=1 + (splits > 1) * 3,
        )


@case("paged-mla", path="examples/deepseek_mla/example_mla_decode_paged.py")
def mla_paged(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, pe, splits, page, size in [
        (2, 64, 256, 128, 64, 1, 64, 1.0),
        (2, 64, 256, 64, 32, 2, 128, 1.0),
        (2, 64, 256, 64, 32, 1, 64, HUGE),
        (2, 64, 512, 64, 32, 2, 128, HUGE),
    ]:
        q, q_pe, kv, k_pe = _steep(_mla_inputs(rng, b, h, s, d, pe), size)
        lengths = np.array([s, 131 if size == 1 else s - 61], np.int32)
        if size == HUGE:
            k_pe = k_pe[:, ::-1] if splits == 1 else _first_falls(k_pe, splits)  # last block first
        table = rng.permutation(b * s // page).reshape(b, -1).astype(np.int32)
        cached = []
        for x in (kv, k_pe):
            paged = np.zeros((b * s // page, page, 1, x.shape[-1]), HALF)
            paged[table.reshape(-1)] = x.reshape(-1, page, 1, x.shape[-1])
            cached.append(paged.reshape(b * s, 1, -1))
        parts = (np.zeros((b, h, splits), HALF), np.zeros((b, h, splits, d), HALF))
        scale = (d + pe) ** -0.5
        seen = np.arange(s)[None, None] < lengths[:, None, None]
        yield Check(
            f"{b}x{h}x{s}x{d}+{pe} pages of {page} splits {splits} scale {size:g}",
            Run(
                "mla_decode_tilelang",
                (b, h, 1, s, d, pe, 64, 64, splits, page, scale),
                inputs=(q, q_pe, *cached, table, lengths, *parts),
            ),
            (_mla(q, q_pe, kv[:, :, 0], k_pe[:, :, 0], seen, scale),),
            rounds=1 + (splits > 1) * 3,
        )


# -- NSA ---------------------------------------------------------------------------------------


@case("nsa", path="examples/deepseek_nsa/example_tilelang_nsa_fwd.py")
def nsa(rng: Rng) -> Iterator[Check]:
    for b, s, heads, groups, d, chosen, size in [
        (1, 64, 16, 16, 32, 2, 32),
        (2, 50, 32, 16, 64, 1, 16),
    ]:
        shared = heads // groups
        q, k, v = three(rng, b, s, heads, d, keys=(b, s, shared, d))
        indices = np.full((b, s, shared, chosen), s, np.int32)
        for at in np.ndindex(b, s, shared):
            known = rng.permutation(at[1] // size + 1)[:chosen]
            indices[at][: len(known)] = known
        indices.sort(-1)
        yield Check(
            f"{b}x{s}x{heads}x{d} {chosen} blocks of {size}",
            Run(
                "native_sparse_attention",
                inputs=(q, k, v, indices),
                eager=True,
                named={
                    "dim": d,
                    "is_causal": True,
                    "block_size": size,
                    "groups": groups,
                    "selected_blocks": chosen,
                },
            ),
            (_nsa(q, k, v, indices, size, groups),),
        )


def _nsa(q: Any, k: Any, v: Any, indices: Any, size: int, groups: int) -> Expected:
    keys = np.arange(k.shape[1])
    mask = (indices[..., None] * size <= keys) & (keys < (indices[..., None] + 1) * size)
    mask = mask.any(-2) & (keys <= np.arange(q.shape[1])[None, :, None, None])
    mask = grouped(np.moveaxis(mask, 2, 1), groups)
    found = attention(
        heads_first(q), grouped(heads_first(k), groups), grouped(heads_first(v), groups), mask
    )
    return moved(found, 0, 2, 1, 3)


# -- HISA --------------------------------------------------------------------------------------


def visible(rows: int, keys: int) -> tuple[Any, Any]:
    """Return first and last key of each query: two packed causal samples."""
    half = rows // 2
    first = np.where(np.arange(rows) < half, 0, half).astype(np.int32)
    return np.minimum(first, keys - 1).astype(np.int32), np.minimum(
        np.arange(rows) + 1, keys
    ).astype(np.int32)


def indexer_scores(q: Any, k: Any, scales: Any, weights: Any) -> Expected:
    """Return weighted sums over heads of max(score, 0); [M, N]."""
    scores = np.einsum("mhd,nd->mnh", wide(q), wide(k)) * wide(scales)[None, :, None]
    terms = np.maximum(scores, 0) * wide(weights)[:, None, :]
    spread = np.abs(terms).sum(-1) * 4 + 1e-3
    if q.dtype != FP8:
        return Expected(terms.sum(-1), spread)
    rows = (np.abs(row[:, None] * wide(k)).max(-1) for row in wide(q))
    largest = np.stack([row.T for row in rows]) * wide(scales)[None, :, None]
    squares = (largest * wide(weights)[:, None, :]) ** 2
    return Expected(terms.sum(-1), spread, cuts=np.sqrt(q.shape[-1] * squares.sum(-1)))


@case("hisa", path="examples/dsa_hisa/pool_mqa_fp8.py")
def hisa_pool(rng: Rng) -> Iterator[Check]:
    for m_, h, d, n in [(16, 64, 128, 40), (6, 64, 64, 9)]:
        q, k = normal(rng, m_, h, d, kind=FP8), normal(rng, n, d, kind=FP8)
        scales = (0.1 + rng.random(n)).astype(np.float32)
        weights = rng.standard_normal((m_, h)).astype(np.float32)
        first, last = np.zeros(m_, np.int32), np.full(m_, n, np.int32)

        run = Run(
            "pool_mqa_attn_return_logits_fp8",
            inputs=(
                q.reshape(m_ * h, d),
                k,
                scales,
                np.zeros((m_, n), np.float32),
                weights,
                first,
                last,
            ),
            eager=True,
            named={"heads": h, "index_dim": d},
            filled=(3,),
        )

        yield Check(
            f"{m_}x{h}x{d} on {n}",
            run,
            (indexer_scores(q, k, scales, weights),),
            "float32",
        )


@case("hisa", path="examples/dsa_hisa/block_sparse_mqa_fp8.py")
def hisa_sparse(rng: Rng) -> Iterator[Check]:
    for m_, h, d, n, size, topk in [(8, 64, 64, 256, 64, 2), (3, 32, 128, 384, 128, 3)]:
        q, k = normal(rng, m_, h, d, kind=FP8), normal(rng, n, d, kind=FP8)
        scales = (0.1 + rng.random(n)).astype(np.float32)
        weights = rng.standard_normal((m_, h)).astype(np.float32)
        first, last = visible(m_, n)
        last = (last * (n // m_)).astype(np.int32)
        chosen = np.stack([rng.permutation(n // size)[:topk] for _ in range(m_)]).astype(np.int64)
        places = (chosen[..., None] * size + np.arange(size)).reshape(m_, -1)
        all_of_it = indexer_scores(q, k, scales, weights)
        rows = np.arange(m_)[:, None]
        hidden = (places < first[:, None]) | (places >= last[:, None])
        values, spread, cuts = (
            x[rows, places] for x in (all_of_it.values, all_of_it.spread, all_of_it.cuts)
        )
        want = Expected(np.where(hidden, -np.inf, values), spread, cuts=cuts)
        yield Check(
            f"{m_}x{h}x{d} on {n}, {topk} blocks of {size}",
            Run(
                "fp8_native_block_sparse_mqa_attn_return_logits",
                inputs=(q.reshape(m_ * h, d), k, scales, chosen, weights, first, last),
                eager=True,
                named={"heads": h, "index_dim": d, "kv_block_size": size, "topk": topk},
            ),
            (want,),
            "float32",
        )


@case("hisa", path="examples/dsa_hisa/clean_and_maintain_logits.py")
def hisa_clean(rng: Rng) -> Iterator[Check]:
    for m_, n in [(16, 40), (8, 4100)]:
        logits = rng.standard_normal((m_, n)).astype(np.float32)
        first, last = visible(m_, n)
        keys = np.arange(n)
        want = np.where((keys < first[:, None]) | (keys >= last[:, None]), -np.inf, wide(logits))
        edge = (keys == first[:, None]) | (keys == last[:, None] - 1)
        want = np.where(edge & ~((keys < first[:, None]) | (keys >= last[:, None])), np.inf, want)

        run = Run(
            "clean_and_maintain_logits_", inputs=(logits, first, last), eager=True, filled=(0,)
        )

        yield Check(f"{m_}x{n}", run, (Expected(want, np.zeros_like(want)),), "float32", exact=True)


@case(path="examples/dsa_hisa/fp8_block_mean_pooling.py")
def hisa_mean(rng: Rng) -> Iterator[Check]:
    for n, d, size in [(256, 128, 128), (300, 64, 128), (1, 128, 128)]:
        k = normal(rng, n, d, kind=FP8, scale=0.5)
        scales = (0.1 + 0.01 * rng.random(n)).astype(np.float32)
        rows = [wide(k)[i : i + size] * wide(scales)[i : i + size, None] for i in range(0, n, size)]
        want = np.stack([r.mean(0) for r in rows])
        spread = np.stack([np.abs(r).mean(0) + np.abs(r.mean(0)).max() / 2 for r in rows])

        run = Run(
            "fp8_native_block_mean_pooling",
            inputs=(k, scales),
            eager=True,
            named={"dim": d, "pooling_block_size": size},
            finish=dequantised,
        )

        yield Check(f"{n}x{d} blocks of {size}", run, (Expected(want, spread),), "float8_e4m3fn")


# -- decoding ----------------------------------------------------------------------------------


def _in_parts(keys: Any, parts: int) -> Any:
    """Let keys fall within each of the parts that are worked on apart."""
    return np.concatenate([falling(part, 1) for part in np.split(keys, parts, axis=1)], axis=1)


def _first_falls(keys: Any, parts: int) -> Any:
    """Let keys fall in the first part and be short in the others.

    Where parts hand on fp16 logarithms of some hundreds, their weights must not depend on them.
    """
    first, *others = np.split(keys, parts, axis=1)
    short = [(wide(part) * 0.02).astype(keys.dtype) for part in others]
    return np.concatenate([falling(first, 1), *short], axis=1)


@case("decode-mha", path="examples/flash_decoding/example_mha_inference.py")
def mha_inference(rng: Rng) -> Iterator[Check]:
    for b, h, sq, sk, d, size in [
        (1, 2, 64, 512, 64, 1.0),
        (2, 1, 32, 256, 32, 1.0),
        (1, 1, 32, 1024, 64, HUGE),
    ]:
        q, k, v = three(rng, b, sq, h, d, keys=(b, sk, h, d))
        q = (q * size).astype(HALF)
        k = rising(heads_first(k)).swapaxes(1, 2) if size == 1 else _first_falls(k, 4)
        want = attention(heads_first(q), heads_first(k), heads_first(v))
        yield Check(
            f"{b}x{sq}x{sk}x{h}x{d} scale {size:g}",
            Run("flashattn", (b, h, sq, sk, d, False, 32, 64), inputs=(q, k, v)),
            (moved(want, 0, 2, 1, 3),),
            rounds=4,
            theirs=Theirs("ref_program", (q, k, v), extra=(False,)),
        )
    # The causal branch hides keys by their place in the split: what it means, and what it does.
    b, h, sq, sk, d = 1, 2, 64, 512, 64
    q, k, v = three(rng, b, sq, h, d, keys=(b, sk, h, d))
    run = Run("flashattn", (b, h, sq, sk, d, True, 32, 64), inputs=(q, k, v))
    seen = causal(sq, sq)[:, np.minimum(np.arange(sk) % (sk // 4), sq - 1)]
    seen &= np.arange(sk) % (sk // 4) < sq
    tensors = heads_first(q), heads_first(k), heads_first(v)
    meant = moved(attention(*tensors, mask=causal(sq, sk)), 0, 2, 1, 3)
    done = moved(attention(*tensors, mask=seen), 0, 2, 1, 3)
    yield Check(f"causal {b}x{sq}x{sk}x{h}x{d}", run, (meant,), rounds=4, diverges=_PER_SPLIT)
    check = Check(f"causal in each split {b}x{sq}x{sk}x{h}x{d}", run, (done,), rounds=4)
    yield check
    yield leaving_out(check, 2, np.s_[:, np.arange(sk) % (sk // 4) >= sq], np.s_[:])


_PER_SPLIT = "run.differs.causal-split"


@case("decode-gqa", path="examples/flash_decoding/example_gqa_decode.py")
def gqa_decode(rng: Rng) -> Iterator[Check]:
    for b, h, g, s, d, splits, size in [
        (1, 8, 2, 512, 64, 1, 1.0),
        (2, 6, 2, 512, 64, 4, 1.0),
        (1, 4, 1, 256, 128, 2, 1.0),
        (1, 4, 1, 256, 64, 1, HUGE),
        (1, 4, 1, 512, 64, 2, HUGE),
        (1, 4, 1, 160, 64, 4, 1.0),
    ]:
        q, k, v = normal(rng, b, h, d), normal(rng, b, s, g, d), normal(rng, b, s, g, d)
        q, k = (q * size).astype(HALF), _in_parts(k, splits) if size == HUGE else k
        mask = (rng.random((b, s, g)) < 0.6).astype(np.uint8)
        mask[:, ::64] = 1
        yield Check(
            f"{b}x{h}/{g}x{s}x{d} splits {splits} scale {size:g}",
            Run(
                "flashattn",
                (b, h, g, s, d, 64, 64, splits, 2, 128),
                inputs=(q, k, v, mask),
                backwards=splits > 1,
            ),
            (_decode(q, k, v, np.swapaxes(mask, 1, 2) != 0),),
            rounds=1 + (splits > 1) * 3,
            theirs=Theirs("ref_program", (q, k, v, mask)),
        )


# Keys of the sentences that say how upstream differs.
_RAW_SINK = "run.differs.raw-sink"
_MAX_FORGOTTEN = "run.differs.maximum-forgotten"


@case("decode-gqa-varlen", path="examples/flash_decoding/example_gqa_decode_varlen_logits.py")
def gqa_decode_logits(rng: Rng) -> Iterator[Check]:
    for lengths, h, g, d, has_sink, size, diverges in [
        ((128, 65, 1), 8, 2, 64, False, 1.0, ""),
        ((200, 256), 6, 2, 32, False, 1.0, ""),
        ((70, 33), 6, 2, 64, True, 0.0, ""),  # all maxima are 0: what is added can be told
        ((65, 130), 6, 2, 64, True, 1.0, _RAW_SINK),
        ((256,), 2, 1, 64, False, HUGE, _MAX_FORGOTTEN),
    ]:
        sinks = (5 + 50 * rng.random(h) * has_sink).astype(np.float32)
        cu, b = starts(*lengths), len(lengths)
        q = normal(rng, b, h, d)
        k, v = (normal(rng, int(cu[-1]), g, d) for _ in range(2))
        sunk = None if not has_sink else sinks if size else np.log(sinks)
        q, k = stretched(q, k, size, 0)
        want = packed(q, k, v, np.arange(b + 1), cu, h // g, everything, sunk)
        yield Check(
            f"lengths {lengths} heads {h}/{g}{' sink' if has_sink else ''} scale {size:g}",
            Run(
                "flashattn",
                (b, h, g, max(lengths), int(cu[-1]), d, has_sink),
                inputs=(q, k, v, cu, sinks),
                named={"block_N": 64},
                only=(0,),
            ),
            (want,),
            diverges=diverges,
        )


# -- minference --------------------------------------------------------------------------------


@case("minference", path="examples/minference/example_vertical_slash_sparse_attn.py")
def minference(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, vertical, slash, size in [
        (1, 2, 320, 64, 20, 2, 1.0),
        (1, 1, 384, 32, 100, 2, LARGE),
        (1, 1, 512, 64, 200, 3, STEEP),
    ]:
        q, k, v = three(rng, b, h, s, d)
        q, k = stretched(q, k, size, -2)
        blocks = s // 64
        count = np.zeros((b, h, blocks), np.int32)
        offset = np.zeros((b, h, blocks, slash), np.int32)
        columns = np.zeros((b, h, blocks), np.int32)
        column = np.zeros((b, h, blocks, vertical), np.int32)
        mask = np.zeros((b, h, s, s), bool)
        for at in np.ndindex(b, h, blocks):
            row = at[-1]
            others = rng.permutation(row)[: slash - 1]
            chosen = np.sort(np.concatenate([[row], others]))
            count[at], offset[at][: len(chosen)] = len(chosen), chosen * 64
            rows = slice(row * 64, row * 64 + 64)
            for block in chosen:
                mask[at[0], at[1], rows, block * 64 : block * 64 + 64] = True
            free = [c for c in range(row * 64) if c // 64 not in chosen]
            picked = np.sort(rng.permutation(np.array(free, np.int32))[:vertical])
            columns[at], column[at][: len(picked)] = len(picked), picked
            mask[at[0], at[1], rows, list(map(int, picked))] = True
        mask &= causal(s, s)
        yield Check(
            f"{b}x{h}x{s}x{d} {vertical} columns {slash} blocks scale {size:g}",
            Run(
                "_tl_vs_sparse_flashattn",
                (b, h, s, d, vertical, slash),
                inputs=(q, k, v, count, offset, columns, column),
            ),
            (attention(q, k, v, mask),),
        )


def dequantised(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what an fp8 output with a scale for each row stands for."""
    pooled, scale = outputs
    return (pooled.astype(np.float32) * scale[:, None],)


# -- Blackwell ---------------------------------------------------------------------------------


def blackwell(kind: str, args: tuple[Any, ...], inputs: tuple[Any, ...]) -> Run:
    """Return the run of one of the three variants."""
    if kind == "wasp":
        return Run("flashattn_wasp", args, inputs=inputs)
    return Run("flashattn", args, inputs=inputs, named={"variant": kind})


@case("sm100-mha", path="examples/flash_attention_sm100/mha_fwd_bshd.py")
def sm100_mha(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, is_causal, kind, size in [
        (1, 2, 256, 64, True, "ss", 1.0),
        (1, 1, 256, 64, False, "ts", LARGE),
        (1, 1, 384, 64, True, "wasp", 1.0),
        (1, 1, 256, 32, False, "wasp", 1.0),
        *((1, 1, 512, 64, False, kind, HUGE) for kind in ("ss", "ts", "wasp")),
        *((1, 1, 30, 64, False, kind, 1.0) for kind in ("ss", "ts", "wasp")),
        *((1, 1, 384, 64, True, kind, 2.0) for kind in ("ss", "wasp")),
    ]:
        q, k, v = three(rng, b, s, h, d, kind=BRAIN)
        q, k = stretched(q, k, size, 1)
        want = attention(
            heads_first(q), heads_first(k), heads_first(v), causal(s, s) if is_causal else None
        )

        run = blackwell(kind, (b, h, s, d, is_causal), (q, k, v))

        check = Check(
            f"{kind} {'causal' if is_causal else 'full'} {b}x{s}x{h}x{d} scale {size:g}",
            run,
            (moved(want, 0, 2, 1, 3),),
            "bfloat16",
        )
        yield check
        if size == 2:
            yield leaving_out(check, 2, np.s_[:, 256:], np.s_[:, :256])


@case("sm100-gqa", path="examples/flash_attention_sm100/gqa_fwd_bshd.py")
def sm100_gqa(rng: Rng) -> Iterator[Check]:
    for b, h, s, d, is_causal, groups, kind, size in [
        (1, 6, 256, 64, True, 3, "ss", 1.0),
        (1, 2, 256, 64, False, 2, "ts", 1.0),
        (1, 2, 256, 32, True, 2, "wasp", 1.0),
        *((1, 2, 512, 64, False, 2, kind, HUGE) for kind in ("ss", "ts", "wasp")),
        *((1, 2, 30, 64, False, 2, kind, 1.0) for kind in ("ss", "ts", "wasp")),
        *((1, 2, 384, 64, True, 2, kind, 2.0) for kind in ("ss", "wasp")),
    ]:
        q, k, v = three(rng, b, s, h, d, keys=(b, s, h // groups, d), kind=BRAIN)
        q, k = stretched(q, k, size, 1)
        keys, values = (grouped(heads_first(x), groups) for x in (k, v))
        want = attention(heads_first(q), keys, values, causal(s, s) if is_causal else None)

        run = blackwell(kind, (b, h, s, d, is_causal, groups), (q, k, v))

        check = Check(
            f"{kind} {kind_of(is_causal)} {b}x{s}x{h}x{d} groups {groups} scale {size:g}",
            run,
            (moved(want, 0, 2, 1, 3),),
            "bfloat16",
        )
        yield check
        if size == 2:
            yield leaving_out(check, 2, np.s_[:, 256:], np.s_[:, :256])
