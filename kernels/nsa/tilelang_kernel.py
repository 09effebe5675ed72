"""Native sparse attention on Hopper GPUs in TileLang: neighbouring queries share what they read.

Does what tilelang's `examples/deepseek_nsa/example_tilelang_nsa_fwd.py` does. There a program
serves one query, and every query fetches all the blocks of its list, which is what takes the time.
A warp group multiplies 64 rows, whether the 16 heads of a query fill them or not; so here the heads
of a few neighbouring queries do, and a block that several of them list is fetched once. A program
first merges the lists: how often each query lists each block, then which blocks anybody does.
Where a sample is so short that all of its keys fit into one tile, `nsa_whole` reads all of them
while the lists are still on their way.

Three layers: `nsa_forward` and `nsa_whole` know sizes and types, `main` inside them is the kernel,
`attention` checks tensors, chooses a tiling and launches. Runs on a GPU of compute capability 9.0
(tilelang >= 0.1.15), and in srcmap's interpreter anywhere.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, misc"
# TileLang reads the annotations of kernels as values, so they are no types, and must not be text.

from functools import cache
from typing import Any, NamedTuple

import tilelang
import tilelang.language as T

from kernels import launch

LOG2E = 1.4426950408889634
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""
ROWS = 64
"""Rows of a tile: what one warp group multiplies."""
DIMS = (32, 64, 128)
BLOCKS = (16, 32, 64, 128)
LISTED = 255
"""How many blocks a query can list: how often it lists one is kept in eight bits."""
WHOLE = 128
"""Keys of a sample that `nsa_whole` reads at once, at most; in four blocks, at most."""


class Tiling(NamedTuple):
    """How the kernel is cut: numbers that change its speed and nothing it computes."""

    stages: int = 2
    """Blocks of keys, and of values, that are on the chip at once."""
    residents: int = 2
    """Programs that share a multiprocessor: while one waits, another computes."""
    queries: int = 4
    """Neighbouring queries of a program: 1, 2 or 4, as many as their heads fit into a tile."""
    whole: bool = False
    """Whether a program reads all keys at once, listed or not: only where `fits_whole` says so."""


@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def nsa_forward(
    batch: int,
    heads: int,
    kv_heads: int,
    seq_len: int,
    dim: int,
    listed: int,
    block_size: int = 64,
    causal: bool = True,
    scale: "float | None" = None,
    dtype: str = "float16",
    stages: int = 2,
    residents: int = 2,
    queries: int = 4,
) -> Any:
    """Return the kernel of these sizes: Q, K, V, BlockIndices -> Output.

    Each query lists `listed` blocks of `block_size` keys for each KV head. A tile has the heads of
    a group for `queries` queries, one after the other; a group of more than 64 has several tiles.
    """
    accum = "float32"
    q_shape = [batch, seq_len, heads, dim]
    kv_shape = [batch, seq_len, kv_heads, dim]
    # concept: kv-head-count
    group = heads // kv_heads

    parts = -(-group // ROWS)
    each = min(group, ROWS)
    queries = max(1, min(queries, ROWS // each))
    blocks = -(-seq_len // block_size)
    ragged = seq_len % block_size != 0
    # concept: softmax-scale
    factor = (dim**-0.5 if scale is None else scale) * LOG2E

    def count_of(times, row):
        """Return how often the query of a row lists a block; rows past the last query, never."""
        return T.if_then_else(
            row < queries * each, (times >> (row // each % queries * 8)) & LISTED, 0
        )

    @T.macro
    def softmax(start, times, first, acc_s, m, m_prev, yard, rescale, row_sum, l):
        """Turn the scores of a block into probabilities; bring maximum and denominator along.

        `times` has, for each query, how often it lists the block, in eight bits.
        """
        # Only the block that a query stands in has keys that are later.
        # concept: causal-mask, mask-value
        if causal:
            if start + block_size > first + 1:
                for i, j in T.Parallel(ROWS, block_size):
                    acc_s[i, j] = T.if_then_else(
                        start + j <= first + i // each, acc_s[i, j], -T.infinity(accum)
                    )
        # concept: boundary-mask, mask-value
        if ragged and not causal:
            if start + block_size > seq_len:
                for i, j in T.Parallel(ROWS, block_size):
                    acc_s[i, j] = T.if_then_else(
                        start + j < seq_len, acc_s[i, j], -T.infinity(accum)
                    )
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=True)
        # A row whose query does not list the block stays as it is: measured against infinity, its
        # terms are 0. One that does sees the block's first key, so its maximum is finite.
        for i in T.Parallel(ROWS):
            m[i] = T.if_then_else(count_of(times, i) > 0, T.max(m[i], m_prev[i]), m_prev[i])
        # concept: check-inf
        for i in T.Parallel(ROWS):
            yard[i] = T.if_then_else(
                count_of(times, i) > 0,
                m[i] * factor - T.log2(T.cast(T.max(count_of(times, i), 1), accum)),
                T.infinity(accum),
            )
        # concept: rescale-factor
        for i in T.Parallel(ROWS):
            rescale[i] = T.if_then_else(
                count_of(times, i) > 0, T.exp2(m_prev[i] * factor - m[i] * factor), 1
            )
        # concept: probability
        for i, j in T.Parallel(ROWS, block_size):
            acc_s[i, j] = T.exp2(acc_s[i, j] * factor - yard[i])
        # concept: row-sum
        T.reduce_sum(acc_s, row_sum, dim=1)
        # concept: denominator
        for i in T.Parallel(ROWS):
            l[i] = l[i] * rescale[i] + row_sum[i]

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        BlockIndices: T.Tensor(
            [batch, seq_len, kv_heads, listed], "int32"
        ),  # concept: block-indices-param
        Output: T.Tensor(q_shape, dtype),
    ):
        # concept: kernel-grid
        with T.Kernel(T.ceildiv(seq_len, queries), kv_heads * parts, batch, threads=256) as (
            bx,
            by,
            sample,
        ):
            Q_shared = T.alloc_shared([ROWS, dim], dtype)
            K_shared = T.alloc_shared([stages, block_size, dim], dtype)
            V_shared = T.alloc_shared([stages, block_size, dim], dtype)
            times = T.alloc_shared([blocks], "int32")
            before = T.alloc_shared([blocks + 1], "int32")
            union = T.alloc_shared([blocks], "int32")
            acc_s = T.alloc_fragment([ROWS, block_size], accum)
            p = T.alloc_fragment([ROWS, block_size], dtype)
            acc_o = T.alloc_fragment([ROWS, dim], accum)
            m = T.alloc_fragment([ROWS], accum)
            m_prev = T.alloc_fragment([ROWS], accum)
            yard = T.alloc_fragment([ROWS], accum)
            rescale = T.alloc_fragment([ROWS], accum)
            row_sum = T.alloc_fragment([ROWS], accum)
            l = T.alloc_fragment([ROWS], accum)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            k_free = T.alloc_barrier([128] * stages)
            v_free = T.alloc_barrier([128] * stages)
            T.annotate_min_blocks_per_sm(residents)

            # concept: kv-head
            kv_head = by // parts

            head = kv_head * group + by % parts * ROWS
            rows = T.min(each, group - by % parts * ROWS)
            first = bx * queries

            tx = T.get_thread_binding()
            for t in T.Parallel(blocks):
                times[t] = 0
            for i, j in T.Parallel(ROWS, dim):
                if (i < queries * each) & (i % each < rows) & (first + i // each < seq_len):
                    Q_shared[i, j] = Q[sample, first + i // each, head + i % each, j]
                else:
                    Q_shared[i, j] = 0
            T.fence_proxy_async()  # Q comes through registers, and the products do not
            # A block that starts after its query, or before 0, is none: so lists are filled.
            # concept: block-index, block-skip
            for e in T.Parallel(queries * listed):
                if first + e // listed < seq_len:
                    place = BlockIndices[sample, first + e // listed, kv_head, e % listed]
                    if (place >= 0) & (place <= (first + e // listed) // block_size):
                        T.atomic_add(times[place], 1 << (e // listed * 8))
            # end
            # before[t]: how many blocks before t anybody lists, and so the place of t.
            for t in T.Parallel(blocks + 1):
                before[t] = T.if_then_else(
                    t > 0, T.if_then_else(times[T.max(t - 1, 0)] > 0, 1, 0), 0
                )
            T.cumsum(before)
            for t in T.Parallel(blocks):
                if before[t + 1] > before[t]:
                    union[before[t]] = t
            T.sync_threads()
            count = before[blocks]

            if tx >= 128:  # the warp group that copies
                T.set_max_nreg(24, 0)
                for s in T.serial(count):
                    start = union[s] * block_size
                    T.mbarrier_wait_parity(k_free[s % stages], ((s // stages) & 1) ^ 1)
                    # concept: gather
                    T.tma_copy(
                        K[sample, start : start + block_size, kv_head, :],
                        K_shared[s % stages, :, :],
                        barrier=k_ready[s % stages],
                    )
                    # end
                    T.mbarrier_arrive(k_ready[s % stages])
                    T.mbarrier_wait_parity(v_free[s % stages], ((s // stages) & 1) ^ 1)
                    # concept: gather
                    T.tma_copy(
                        V[sample, start : start + block_size, kv_head, :],
                        V_shared[s % stages, :, :],
                        barrier=v_ready[s % stages],
                    )
                    # end
                    T.mbarrier_arrive(v_ready[s % stages])
            else:  # the one that computes
                T.set_max_nreg(launch.registers(1, residents), 1)
                # concept: state-init
                T.fill(acc_o, 0)
                T.fill(l, 0)
                T.fill(m, -T.infinity(accum))

                if count > 0:
                    T.mbarrier_wait_parity(k_ready[0], 0)
                    # concept: qk-gemm
                    T.wgmma_gemm(
                        Q_shared,
                        K_shared[0, :, :],
                        acc_s,
                        transpose_B=True,
                        policy=T.GemmWarpPolicy.FullRow,
                        clear_accum=True,
                    )
                    T.wait_wgmma(0)
                    # end
                    T.mbarrier_arrive(k_free[0])
                    place = union[0]
                    often = times[place]
                    softmax(
                        place * block_size, often, first,
                        acc_s, m, m_prev, yard, rescale, row_sum, l,
                    )  # fmt: skip
                    T.copy(acc_s, p)
                    for s in T.serial(count - 1):  # concept: kv-loop
                        T.mbarrier_wait_parity(k_ready[(s + 1) % stages], ((s + 1) // stages) & 1)
                        # concept: qk-gemm
                        T.wgmma_gemm(
                            Q_shared,
                            K_shared[(s + 1) % stages, :, :],
                            acc_s,
                            transpose_B=True,
                            policy=T.GemmWarpPolicy.FullRow,
                            clear_accum=True,
                        )
                        # end
                        T.mbarrier_wait_parity(v_ready[s % stages], (s // stages) & 1)
                        # concept: pv-gemm
                        T.wgmma_gemm(
                            p, V_shared[s % stages, :, :], acc_o, policy=T.GemmWarpPolicy.FullRow
                        )
                        # end
                        T.wait_wgmma(1)  # the scores are there, the second product is under way
                        T.mbarrier_arrive(k_free[(s + 1) % stages])
                        following = union[s + 1]
                        again = times[following]
                        softmax(
                            following * block_size, again, first,
                            acc_s, m, m_prev, yard, rescale, row_sum, l,
                        )  # fmt: skip
                        T.wait_wgmma(0)
                        T.mbarrier_arrive(v_free[s % stages])
                        # concept: acc-rescale
                        for i, j in T.Parallel(ROWS, dim):
                            acc_o[i, j] *= rescale[i]
                        # end
                        T.copy(acc_s, p)
                    last = count - 1
                    T.mbarrier_wait_parity(v_ready[last % stages], (last // stages) & 1)
                    # concept: pv-gemm
                    T.wgmma_gemm(
                        p, V_shared[last % stages, :, :], acc_o, policy=T.GemmWarpPolicy.FullRow
                    )
                    T.wait_wgmma(0)
                # A query without blocks is 0.
                # concept: normalise, empty-row
                for i, j in T.Parallel(ROWS, dim):
                    acc_o[i, j] = T.if_then_else(l[i] > 0, acc_o[i, j] / l[i], 0)
                # concept: epilogue-store
                T.copy(acc_o, Q_shared)
                for i, j in T.Parallel(ROWS, dim):
                    if (i < queries * each) & (i % each < rows) & (first + i // each < seq_len):
                        Output[sample, first + i // each, head + i % each, j] = Q_shared[i, j]

    return main


@tilelang.jit(
    out_idx=[4],
    pass_configs={
        tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True,
        tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True,
        tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True,
    },
)
def nsa_whole(
    batch: int,
    heads: int,
    kv_heads: int,
    seq_len: int,
    dim: int,
    listed: int,
    block_size: int = 64,
    causal: bool = True,
    scale: "float | None" = None,
    dtype: str = "float16",
    queries: int = 1,
) -> Any:
    """Return the kernel of these sizes for short samples: Q, K, V, BlockIndices -> Output.

    What such a call takes is the time until the first bytes arrive. So nothing is looked up before
    something else can be read: lists, queries, keys and values are asked for at once, by plain
    loads, and one product has the scores of all keys. What a query does not list is hidden.
    """
    accum = "float32"
    q_shape = [batch, seq_len, heads, dim]
    kv_shape = [batch, seq_len, kv_heads, dim]
    # concept: kv-head-count
    group = heads // kv_heads

    parts = -(-group // ROWS)
    each = min(group, ROWS)
    queries = max(1, min(queries, ROWS // each))
    rows = -(-queries * each // 16) * 16  # what one warp multiplies, for each
    keys = -(-seq_len // 16) * 16
    places = T.unroll if listed <= 16 else T.serial
    # concept: softmax-scale
    factor = (dim**-0.5 if scale is None else scale) * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        BlockIndices: T.Tensor(
            [batch, seq_len, kv_heads, listed], "int32"
        ),  # concept: block-indices-param
        Output: T.Tensor(q_shape, dtype),
    ):
        # concept: kernel-grid
        with T.Kernel(T.ceildiv(seq_len, queries), kv_heads * parts, batch, threads=rows * 2) as (
            bx,
            by,
            sample,
        ):
            Q_shared = T.alloc_shared([rows, dim], dtype)
            K_shared = T.alloc_shared([keys, dim], dtype)
            V_shared = T.alloc_shared([keys, dim], dtype)
            times = T.alloc_fragment([rows], "int32")
            acc_s = T.alloc_fragment([rows, keys], accum)
            p = T.alloc_fragment([rows, keys], dtype)
            acc_o = T.alloc_fragment([rows, dim], accum)
            m = T.alloc_fragment([rows], accum)
            l = T.alloc_fragment([rows], accum)

            # concept: kv-head
            kv_head = by // parts

            head = kv_head * group + by % parts * ROWS
            many = T.min(each, group - by % parts * ROWS)
            first = bx * queries

            # times[i]: how often the query of row i lists each block, in eight bits for each. A
            # block that starts after its query, or before 0, is none: so lists are filled.
            # concept: block-index, block-skip
            T.fill(times, 0)
            for e in places(listed):
                for i in T.Parallel(rows):
                    if (i < queries * each) & (first + i // each < seq_len):
                        block = BlockIndices[sample, first + i // each, kv_head, e]
                        if (block >= 0) & (block <= (first + i // each) // block_size):
                            times[i] += 1 << (block * 8)

            for i, j in T.Parallel(rows, dim):
                if (i < queries * each) & (i % each < many) & (first + i // each < seq_len):
                    Q_shared[i, j] = Q[sample, first + i // each, head + i % each, j]
                else:
                    Q_shared[i, j] = 0
            # concept: gather
            for i, j in T.Parallel(keys, dim):
                if i < seq_len:
                    K_shared[i, j] = K[sample, i, kv_head, j]
                else:
                    K_shared[i, j] = 0
            # concept: gather
            for i, j in T.Parallel(keys, dim):
                if i < seq_len:
                    V_shared[i, j] = V[sample, i, kv_head, j]
                else:
                    V_shared[i, j] = 0
            # concept: qk-gemm
            T.gemm(
                Q_shared,
                K_shared,
                acc_s,
                transpose_B=True,
                policy=T.GemmWarpPolicy.FullRow,
                clear_accum=True,
            )
            # concept: causal-mask, boundary-mask, mask-value
            for i, j in T.Parallel(rows, keys):
                on = (times[i] >> (j // block_size * 8)) & LISTED > 0
                last = first + i // each if causal else seq_len - 1
                acc_s[i, j] = T.if_then_else(on & (j <= last), acc_s[i, j], -T.infinity(accum))
            # concept: row-max
            T.reduce_max(acc_s, m, dim=1, clear=True)
            # A row that sees nothing is measured against 0: its terms are 0. One that lists a
            # block sees the block's first key, so its maximum is finite.
            # concept: check-inf
            for i in T.Parallel(rows):
                m[i] = T.if_then_else(times[i] != 0, m[i] * factor, 0)
            # concept: probability
            for i, j in T.Parallel(rows, keys):
                acc_s[i, j] = T.exp2(acc_s[i, j] * factor - m[i])
            # end
            if listed > 1:  # what is listed twice counts twice
                for i, j in T.Parallel(rows, keys):
                    acc_s[i, j] *= T.cast((times[i] >> (j // block_size * 8)) & LISTED, accum)
            # concept: row-sum, denominator
            T.reduce_sum(acc_s, l, dim=1)
            # end
            T.copy(acc_s, p)
            # concept: pv-gemm
            T.gemm(p, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow, clear_accum=True)
            # A query without blocks is 0.
            # concept: normalise, empty-row
            for i in T.Parallel(rows):
                l[i] = T.if_then_else(l[i] > 0, 1 / l[i], 0)
            for i, j in T.Parallel(rows, dim):
                acc_o[i, j] *= l[i]
            # concept: epilogue-store
            for i, j in T.Parallel(rows, dim):
                if (i < queries * each) & (i % each < many) & (first + i // each < seq_len):
                    Output[sample, first + i // each, head + i % each, j] = acc_o[i, j]

    return main


def fits_whole(seq_len: int, block_size: int) -> bool:
    """Return whether `nsa_whole` takes samples of this length."""
    return seq_len <= min(WHOLE, 4 * block_size)


def attention(
    q: Any,
    k: Any,
    v: Any,
    block_indices: Any,
    *,
    block_size: int = 64,
    causal: bool = True,
    scale: "float | None" = None,
    tiling: "Tiling | None" = None,
) -> Any:
    """Return attention of each query to its blocks, in the type of q; 0 when it has none.

    q [B, S, H, D], k and v [B, S, G, D], block_indices [B, S, G, n] of int32, n at most 255
    -> [B, S, H, D] of CUDA tensors; the H / G query heads of a KV head share its list. A block that
    starts after its query, or before 0, is none; one listed twice counts twice. Types float16 or
    bfloat16, D 32, 64 or 128, `block_size` 16, 32, 64 or 128. Without a `scale` it is 1 / sqrt(D).
    Without a `tiling`, the table of tilings has one for the device. ValueError or TypeError names
    the argument that does not fit.
    """
    sizes = launch.check(q, k, v, causal=causal, layout="BSHD", dims=DIMS)
    if sizes.seq_kv != sizes.seq_q:
        raise ValueError(f"k has {sizes.seq_kv} tokens, and q {sizes.seq_q}: as many are needed")
    if block_size not in BLOCKS:
        raise ValueError(f"block_size is {block_size}, and may be one of {BLOCKS}")
    listed = _listed(block_indices)
    table = (sizes.batch, sizes.seq_q, sizes.kv_heads, listed)
    launch.check_table("block_indices", block_indices, table, "int32", q)
    if tiling is None:
        device = launch.device_name(q.device.index)
        short = fits_whole(sizes.seq_q, block_size)
        default = Tiling(residents=1 if sizes.dim * block_size > 8192 else 2)
        if short:
            default = Tiling(queries=2, whole=True)
        tiling = launch.tuned(
            "nsa", device, default, dim=sizes.dim, block_size=block_size, short=short
        )
    launch.check_cut(tiling, Tiling, queries=(1, 2, 4))
    if tiling.whole and not fits_whole(sizes.seq_q, block_size):
        raise ValueError(
            f"tiling.whole is True, and q has {sizes.seq_q} tokens: at most {WHOLE}, in 4 blocks"
        )
    kernel = _compiled(sizes, listed, block_size, causal, scale, tiling)
    return kernel(q, k, v, block_indices)


def _listed(block_indices: Any) -> int:
    """Return how many blocks a query lists; ValueError when that is not between 1 and 255."""
    found = list(getattr(block_indices, "shape", (0,)))[-1:]
    if hasattr(block_indices, "shape") and not (found and 1 <= found[0] <= LISTED):
        raise ValueError(f"block_indices lists {found} blocks, and may list 1 to {LISTED}")
    return int(found[0])


@cache
def _compiled(
    sizes: launch.Sizes,
    listed: int,
    block_size: int,
    causal: bool,
    scale: "float | None",
    tiling: Tiling,
) -> Any:
    facts = (
        sizes.batch,
        sizes.heads,
        sizes.kv_heads,
        sizes.seq_q,
        sizes.dim,
        listed,
        block_size,
        causal,
        scale,
        sizes.dtype,
    )
    if tiling.whole:
        return nsa_whole(*facts, tiling.queries)
    return nsa_forward(*facts, tiling.stages, tiling.residents, tiling.queries)


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`.

    NotImplementedError for packed samples and for a step of decoding.
    """
    if run.build != "native_sparse_attention" or "is_causal" not in run.named:
        raise NotImplementedError("whole sequences of one length")
    q, k, _, indices = run.inputs
    batch, seq, heads, dim = q.shape
    made = nsa_forward(
        batch,
        heads,
        k.shape[2],
        seq,
        dim,
        indices.shape[3],
        run.named["block_size"],
        run.named["is_causal"],
        dtype=str(q.dtype),
    )
    return (made(*run.inputs),)
