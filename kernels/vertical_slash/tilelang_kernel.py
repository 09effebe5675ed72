"""Vertical-slash attention on Hopper GPUs in TileLang: blocks and columns come down one pipeline.

Does what tilelang's `examples/minference/example_vertical_slash_sparse_attn.py` does. There the
warp group that computes fetches the columns, too, and works through one list after the other. Here
one warp group fetches everything, slash blocks by bulk copies and columns row by row, into one
ring; the others take turns at what is in it, each with a state of its own, and merge their states
at the end. So a long row of blocks, of which there are few, is worked on by several warp groups.

Three layers: `vertical_slash_forward` knows sizes and types, `main` inside it is the kernel,
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
BLOCK = 64
"""Queries that share two lists, and keys of a slash block: what a warp group multiplies."""


class Tiling(NamedTuple):
    """How the kernel is cut: numbers that change its speed and nothing it computes."""

    stages: int = 4
    """Tiles of keys, and of values, that are on the chip at once: a multiple of the sharers.

    So each stage belongs to one of them, which sees all of its phases. One that sees every third
    could find a tile that came out of order, while the stage's last but one has not come yet; and a
    parity does not tell these two phases apart.
    """
    sharers: int = 2
    """Warp groups that share the tiles of a block of queries."""
    residents: int = 1
    """Programs that share a multiprocessor: while one waits, another computes."""
    head_group: int = 1
    """Heads that are worked on side by side before the next ones."""


FEW = 1024
"""Programs that a GPU of some 130 multiprocessors works off in a few turns."""
COPYING = {64: 24, 128: 40}
"""Registers of a copying thread for a head size: it keeps the numbers of 4 or 8 single rows."""


@tilelang.jit(out_idx=[7], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def vertical_slash_forward(
    batch: int,
    heads: int,
    seq_len: int,
    dim: int,
    most_blocks: int,
    most_columns: int,
    dtype: str = "float16",
    stages: int = 4,
    sharers: int = 2,
    residents: int = 1,
    head_group: int = 1,
) -> Any:
    """Return the kernel of these sizes: Q, K, V, two counts and two lists -> Output.

    The lists hold up to `most_blocks` first keys of slash blocks, and `most_columns` single keys,
    for each 64 queries. The rest is explained at `Tiling`; `head_group` divides batch times heads.
    """
    accum = "float32"
    shape = [batch, heads, seq_len, dim]
    tiles = -(-seq_len // BLOCK)
    count_shape = [batch, heads, tiles]
    lanes = dim // 8  # threads that copy one row, 16 bytes each
    passes = BLOCK * lanes // 128
    column_tiles = -(-most_columns // BLOCK)
    computing = 128 * sharers
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    @T.macro
    def softmax(
        s, slashes, columns, first, offsets, acc_s, m, m_prev, yard, rescale, row_sum, l
    ):  # fmt: skip
        """Turn the scores of tile s into probabilities; bring maximum and denominator along."""
        # Of the blocks, only those that reach over the diagonal have something to hide; of the
        # tiles of columns, only the last.
        if s < slashes:
            start = offsets[s]
            # concept: causal-mask, mask-value
            if start + BLOCK > first + 1:
                for i, j in T.Parallel(BLOCK, BLOCK):
                    acc_s[i, j] = T.if_then_else(
                        start + j <= first + i, acc_s[i, j], -T.infinity(accum)
                    )
        else:
            # concept: boundary-mask, mask-value
            if (s - slashes + 1) * BLOCK > columns:
                for i, j in T.Parallel(BLOCK, BLOCK):
                    acc_s[i, j] = T.if_then_else(
                        (s - slashes) * BLOCK + j < columns, acc_s[i, j], -T.infinity(accum)
                    )
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=False)
        # A row that has seen no key yet has no maximum: any finite yardstick makes its terms 0, and
        # -inf - -inf would be NaN. The maximum itself stays -inf, so that no score is too small.
        # concept: check-inf
        for i in T.Parallel(BLOCK):
            yard[i] = T.if_then_else(m[i] == -T.infinity(accum), 0, m[i])
        # concept: rescale-factor
        for i in T.Parallel(BLOCK):
            rescale[i] = T.exp2(m_prev[i] * scale - yard[i] * scale)
        # concept: probability
        for i, j in T.Parallel(BLOCK, BLOCK):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - yard[i] * scale)
        # concept: row-sum
        T.reduce_sum(acc_s, row_sum, dim=1)
        # concept: denominator
        for i in T.Parallel(BLOCK):
            l[i] = l[i] * rescale[i] + row_sum[i]

    @T.macro
    def fetch(source, sample, head, rows, left, lane, target, stage):
        """Copy single rows into a tile; what is left over is zero."""
        # concept: gather
        for u in T.unroll(passes):
            T.ptx_cp_async(
                T.access_ptr(
                    target[stage, u * (BLOCK // passes) + lane // lanes, lane % lanes * 8], "w", 8
                ),
                T.access_ptr(source[sample, head, rows[u], lane % lanes * 8], "r", 8),
                8,
                u * (BLOCK // passes) + lane // lanes < left,
            )

    @T.macro
    def scores(s, slashes, Q_shared, K_shared, k_ready, acc_s):
        """Start the product of the queries with the keys of tile s."""
        T.mbarrier_wait_parity(k_ready[s % stages], (s // stages) & 1)
        if s >= slashes:
            T.fence_proxy_async()  # columns have not come by bulk copies
        # concept: qk-gemm
        T.wgmma_gemm(
            Q_shared,
            K_shared[s % stages, :, :],
            acc_s,
            transpose_B=True,
            policy=T.GemmWarpPolicy.FullRow,
            clear_accum=True,
        )

    @T.macro
    def values(s, slashes, p, V_shared, v_ready, acc_o):
        """Start the product of the probabilities with the values of tile s."""
        T.mbarrier_wait_parity(v_ready[s % stages], (s // stages) & 1)
        if s >= slashes:
            T.fence_proxy_async()
        # concept: pv-gemm
        T.wgmma_gemm(p, V_shared[s % stages, :, :], acc_o, policy=T.GemmWarpPolicy.FullRow)

    @T.macro
    def compute(
        who, first, slashes, columns, offsets,
        Q_shared, K_shared, V_shared, k_ready, v_ready, k_free, v_free,
        acc_o, m, l,
    ):  # fmt: skip
        """Work through the tiles who, who + sharers and so on: acc_o, m and l are their state."""
        acc_s = T.alloc_fragment([BLOCK, BLOCK], accum)
        p = T.alloc_fragment([BLOCK, BLOCK], dtype)
        m_prev = T.alloc_fragment([BLOCK], accum)
        yard = T.alloc_fragment([BLOCK], accum)
        rescale = T.alloc_fragment([BLOCK], accum)
        row_sum = T.alloc_fragment([BLOCK], accum)
        # concept: state-init
        T.fill(acc_o, 0)
        T.fill(l, 0)
        T.fill(m, -T.infinity(accum))

        # concept: loop-range
        total = slashes + T.ceildiv(columns, BLOCK)
        mine = (total - who + sharers - 1) // sharers

        if mine > 0:
            scores(who, slashes, Q_shared, K_shared, k_ready, acc_s)
            T.wait_wgmma(0)
            T.mbarrier_arrive(k_free[who % stages])
            softmax(
                who, slashes, columns, first, offsets,
                acc_s, m, m_prev, yard, rescale, row_sum, l,
            )  # fmt: skip
            T.copy(acc_s, p)
            for r in T.serial(mine - 1):  # concept: kv-loop
                s = who + r * sharers
                t = s + sharers
                scores(t, slashes, Q_shared, K_shared, k_ready, acc_s)
                values(s, slashes, p, V_shared, v_ready, acc_o)
                T.wait_wgmma(1)  # the scores are there, the second product is under way
                T.mbarrier_arrive(k_free[t % stages])
                softmax(
                    t, slashes, columns, first, offsets,
                    acc_s, m, m_prev, yard, rescale, row_sum, l,
                )  # fmt: skip
                T.wait_wgmma(0)
                T.mbarrier_arrive(v_free[s % stages])
                # concept: acc-rescale
                for i, j in T.Parallel(BLOCK, dim):
                    acc_o[i, j] *= rescale[i]
                # end
                T.copy(acc_s, p)
            values(who + (mine - 1) * sharers, slashes, p, V_shared, v_ready, acc_o)
            T.wait_wgmma(0)

    @T.macro
    def hand_over(who, acc_o, m, l, their_o, their_m, their_l, theirs_ready):
        """Leave a state in shared memory for the first warp group."""
        for i, j in T.Parallel(BLOCK, dim):
            their_o[who - 1, i, j] = acc_o[i, j]
        for i in T.Parallel(BLOCK):
            their_m[who - 1, i] = m[i]
            their_l[who - 1, i] = l[i]
        T.mbarrier_arrive(theirs_ready[who - 1])

    @T.macro
    def take_in(who, acc_o, m, l, their_o, their_m, their_l, theirs_ready):
        """Merge the state of another warp group into that of the first."""
        top = T.alloc_fragment([BLOCK], accum)
        ours = T.alloc_fragment([BLOCK], accum)
        theirs = T.alloc_fragment([BLOCK], accum)
        T.mbarrier_wait_parity(theirs_ready[who - 1], 0)
        for i in T.Parallel(BLOCK):
            top[i] = T.max(m[i], their_m[who - 1, i])
        for i in T.Parallel(BLOCK):
            ours[i] = T.if_then_else(l[i] > 0, T.exp2(m[i] * scale - top[i] * scale), 0)
        for i in T.Parallel(BLOCK):
            theirs[i] = T.if_then_else(
                their_l[who - 1, i] > 0, T.exp2(their_m[who - 1, i] * scale - top[i] * scale), 0
            )
        for i in T.Parallel(BLOCK):
            l[i] = l[i] * ours[i] + their_l[who - 1, i] * theirs[i]
        for i, j in T.Parallel(BLOCK, dim):
            acc_o[i, j] = acc_o[i, j] * ours[i] + their_o[who - 1, i, j] * theirs[i]
        T.copy(top, m)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        BlockCount: T.Tensor(count_shape, "int32"),
        BlockOffset: T.Tensor([*count_shape, most_blocks], "int32"),  # concept: block-indices-param
        ColumnCount: T.Tensor(count_shape, "int32"),
        ColumnIndex: T.Tensor(
            [*count_shape, most_columns], "int32"
        ),  # concept: block-indices-param
        Output: T.Tensor(shape, dtype),
    ):
        # concept: kernel-grid
        with T.Kernel(tiles * head_group, batch * heads // head_group, threads=computing + 128) as (
            px,
            py,
        ):
            Q_shared = T.alloc_shared([BLOCK, dim], dtype)
            K_shared = T.alloc_shared([stages, BLOCK, dim], dtype)
            V_shared = T.alloc_shared([stages, BLOCK, dim], dtype)
            offsets = T.alloc_shared([most_blocks], "int32")
            chosen = T.alloc_shared([column_tiles * BLOCK], "int32")
            rows = T.alloc_local([passes], "int32")
            # Rows that are 8 numbers longer begin in other banks.
            their_o = T.alloc_shared([max(1, sharers - 1), BLOCK, dim + 8], accum)
            their_m = T.alloc_shared([max(1, sharers - 1), BLOCK], accum)
            their_l = T.alloc_shared([max(1, sharers - 1), BLOCK], accum)
            q_ready = T.alloc_barrier(128)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            k_free = T.alloc_barrier([128] * stages)
            v_free = T.alloc_barrier([128] * stages)
            theirs_ready = T.alloc_barrier([128] * max(1, sharers - 1))
            T.annotate_min_blocks_per_sm(residents)

            # Rows are longer the later they are; the longest start first, and none is left over for
            # the end.
            bx = tiles - 1 - px // head_group
            head = (py * head_group + px % head_group) % heads
            sample = (py * head_group + px % head_group) // heads
            first = bx * BLOCK

            tx = T.get_thread_binding()
            lane = tx % 128
            if tx >= computing:  # the warp group that copies
                T.tma_copy(Q[sample, head, first : first + BLOCK, :], Q_shared, barrier=q_ready)
                T.mbarrier_arrive(q_ready)
            # concept: block-index
            for t in T.Parallel(most_blocks):
                offsets[t] = BlockOffset[sample, head, bx, t]
            # concept: block-index
            for t in T.Parallel(column_tiles * BLOCK):
                chosen[t] = T.if_then_else(t < most_columns, ColumnIndex[sample, head, bx, t], 0)
            # end
            slashes = T.min(BlockCount[sample, head, bx], most_blocks)
            columns = T.min(ColumnCount[sample, head, bx], most_columns)
            T.sync_threads()
            if tx >= computing:
                T.set_max_nreg(COPYING[dim], 0)
                for s in T.serial(slashes):
                    start = offsets[s]
                    T.mbarrier_wait_parity(k_free[s % stages], ((s // stages) & 1) ^ 1)
                    # concept: gather
                    T.tma_copy(
                        K[sample, head, start : start + BLOCK, :],
                        K_shared[s % stages, :, :],
                        barrier=k_ready[s % stages],
                    )
                    # end
                    T.mbarrier_arrive(k_ready[s % stages])
                    T.mbarrier_wait_parity(v_free[s % stages], ((s // stages) & 1) ^ 1)
                    # concept: gather
                    T.tma_copy(
                        V[sample, head, start : start + BLOCK, :],
                        V_shared[s % stages, :, :],
                        barrier=v_ready[s % stages],
                    )
                    # end
                    T.mbarrier_arrive(v_ready[s % stages])
                for c in T.serial(T.ceildiv(columns, BLOCK)):
                    s = slashes + c
                    # concept: block-index
                    for u in T.unroll(passes):
                        rows[u] = chosen[c * BLOCK + u * (BLOCK // passes) + lane // lanes]
                    # end
                    T.mbarrier_wait_parity(k_free[s % stages], ((s // stages) & 1) ^ 1)
                    fetch(K, sample, head, rows, columns - c * BLOCK, lane, K_shared, s % stages)
                    T.cp_async_barrier_noinc(k_ready[s % stages])
                    T.mbarrier_wait_parity(v_free[s % stages], ((s // stages) & 1) ^ 1)
                    fetch(V, sample, head, rows, columns - c * BLOCK, lane, V_shared, s % stages)
                    T.cp_async_barrier_noinc(v_ready[s % stages])
            else:
                T.set_max_nreg(launch.registers(sharers, residents, COPYING[dim]), 1)
                T.mbarrier_wait_parity(q_ready, 0)
                if sharers == 1 or tx < 128:
                    acc_o = T.alloc_fragment([BLOCK, dim], accum)
                    m = T.alloc_fragment([BLOCK], accum)
                    l = T.alloc_fragment([BLOCK], accum)
                    compute(
                        0, first, slashes, columns, offsets,
                        Q_shared, K_shared, V_shared, k_ready, v_ready, k_free, v_free,
                        acc_o, m, l,
                    )  # fmt: skip
                    if sharers > 1:
                        take_in(1, acc_o, m, l, their_o, their_m, their_l, theirs_ready)
                    if sharers > 2:
                        take_in(2, acc_o, m, l, their_o, their_m, their_l, theirs_ready)
                    # A row that sees no key is 0.
                    # concept: normalise, empty-row
                    for i, j in T.Parallel(BLOCK, dim):
                        acc_o[i, j] = T.if_then_else(l[i] > 0, acc_o[i, j] / l[i], 0)
                    # Nobody reads Q any more.
                    # concept: epilogue-store
                    T.copy(acc_o, Q_shared)
                    T.fence_proxy_async()
                    T.copy(Q_shared, Output[sample, head, first : first + BLOCK, :])
                elif sharers == 2 or tx < 256:
                    acc_o1 = T.alloc_fragment([BLOCK, dim], accum)
                    m1 = T.alloc_fragment([BLOCK], accum)
                    l1 = T.alloc_fragment([BLOCK], accum)
                    compute(
                        1, first, slashes, columns, offsets,
                        Q_shared, K_shared, V_shared, k_ready, v_ready, k_free, v_free,
                        acc_o1, m1, l1,
                    )  # fmt: skip
                    hand_over(1, acc_o1, m1, l1, their_o, their_m, their_l, theirs_ready)
                else:
                    acc_o2 = T.alloc_fragment([BLOCK, dim], accum)
                    m2 = T.alloc_fragment([BLOCK], accum)
                    l2 = T.alloc_fragment([BLOCK], accum)
                    compute(
                        2, first, slashes, columns, offsets,
                        Q_shared, K_shared, V_shared, k_ready, v_ready, k_free, v_free,
                        acc_o2, m2, l2,
                    )  # fmt: skip
                    hand_over(2, acc_o2, m2, l2, their_o, their_m, their_l, theirs_ready)

    return main


def attention(
    q: Any,
    k: Any,
    v: Any,
    block_count: Any,
    block_offset: Any,
    column_count: Any,
    column_index: Any,
    *,
    tiling: "Tiling | None" = None,
) -> Any:
    """Return attention of CUDA tensors to slash blocks and single columns, in the type of q.

    q, k, v [B, H, S, D] -> [B, H, S, D]; a row that sees no key is 0. Counts are [B, H, n], lists
    [B, H, n, most] of int32 with n = ceil(S / 64): entry i is for the queries from 64 i on. Offsets
    are the first keys of blocks of 64, which are causal; columns are seen by every query of the
    entry. A count larger than its list counts as the list's length. Types float16 or bfloat16, D 64
    or 128. Without a `tiling`, the table of tilings has one for the device. ValueError or TypeError
    names the argument that does not fit.
    """
    sizes = launch.check(q, k, v, causal=True, layout="BHSD")
    if tuple(k.shape) != tuple(q.shape):
        raise ValueError(f"k is {list(k.shape)}, and q {list(q.shape)}: they have to be alike")
    lists = (sizes.batch, sizes.heads, -(-sizes.seq_q // BLOCK))
    for name, count in (("block_count", block_count), ("column_count", column_count)):
        launch.check_table(name, count, lists, "int32", q)
    for name, listed in (("block_offset", block_offset), ("column_index", column_index)):
        launch.check_table(name, listed, (*lists, _most(name, listed)), "int32", q)
    if tiling is None:
        device = launch.device_name(q.device.index)
        default = _default(sizes)
        key = {"dim": sizes.dim, "few": _few(sizes)}
        tiling = launch.tuned("vertical_slash", device, default, **key)
    launch.check_cut(tiling, Tiling, sharers=(1, 2, 3))
    if tiling.stages % tiling.sharers:
        raise ValueError(
            f"tiling has {tiling.stages} stages for {tiling.sharers} sharers: "
            "a multiple is needed, so that a stage is always the same warp group's"
        )
    kernel = _compiled(sizes, block_offset.shape[3], column_index.shape[3], tiling)
    return kernel(q, k, v, block_count, block_offset, column_count, column_index)


def _few(sizes: launch.Sizes) -> bool:
    """Whether there are so few blocks of queries that a long row of tiles has to be shared."""
    return sizes.batch * sizes.heads * -(-sizes.seq_q // BLOCK) <= FEW


def _default(sizes: launch.Sizes) -> Tiling:
    """Return a tiling that fits into registers and shared memory."""
    if _few(sizes):
        return Tiling(stages=6, sharers=3) if sizes.dim == 64 else Tiling()
    stages, residents = (3, 3) if sizes.dim == 64 else (2, 2)
    return Tiling(stages=stages, sharers=1, residents=residents)


def _most(name: str, listed: Any) -> int:
    """Return how much a list holds; ValueError when that is nothing."""
    shape = list(getattr(listed, "shape", (1,)))
    if not shape or shape[-1] == 0:
        raise ValueError(f"{name} is {shape}: lists have room for one entry or more")
    return int(shape[-1])


@cache
def _compiled(sizes: launch.Sizes, most_blocks: int, most_columns: int, tiling: Tiling) -> Any:
    return vertical_slash_forward(
        sizes.batch,
        sizes.heads,
        sizes.seq_q,
        sizes.dim,
        most_blocks,
        most_columns,
        sizes.dtype,
        tiling.stages,
        tiling.sharers,
        tiling.residents,
        launch.divisor(tiling.head_group, sizes.batch * sizes.heads),
    )


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`.

    NotImplementedError for head sizes that it is not cut for.
    """
    q = run.inputs[0]
    if q.shape[3] not in COPYING:
        raise NotImplementedError(f"head sizes {', '.join(map(str, COPYING))} alone")
    columns, blocks = run.args[4:6]
    made = vertical_slash_forward(*q.shape, blocks, columns, str(q.dtype))
    return (made(*run.inputs),)
