"""The gradients of grouped-query attention on Hopper GPUs in TileLang.

The kernels of kernels/mha with one idea more: a program that has a block of keys goes through the
queries of all heads that read it, so that dK and dV are summed in its registers. Does what
tilelang's `examples/flash_attention/example_gqa_bwd.py` does, whose programs have a head each and
add to dK and dV in memory, or leave the sum to somebody else.

Nothing of size queries times keys is kept: the forward hands on one number for each query, the
logarithm of its denominator, and the probabilities come back from it.

`gqa_forward_lse` is a forward that stores that number. Then three kernels: `gqa_backward_rows`
makes what every key needs of a query and clears the sums, `gqa_backward` goes through the queries
for each block of keys, `gqa_backward_round` rounds the gradient of the queries. Each of them starts
before the one ahead of it has ended, and waits where it needs what that one writes. `forward` and
`backward` check tensors, choose tilings and launch; `attention` is both of them for autograd.

Runs on a GPU of compute capability 9.0 (tilelang >= 0.1.15), and in srcmap's interpreter anywhere.
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
ROWS = 128
"""What belongs to queries is padded to a multiple of this for the backward: no copy is cut."""
LINE = 256
"""Sums of dQ stand in lines of so many numbers, the longest that one bulk copy takes."""

FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}
OWN_BARRIERS = {**FAST, tilelang.PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC: True}
"""For a kernel whose barriers are enough: those that the compiler adds make warp groups wait."""


class Backward(NamedTuple):
    """How the backward is cut: numbers that change its speed and nothing it computes."""

    block_q: int = 64
    block_kv: int = 128
    stages: int = 2
    head_group: int = 1
    ahead: bool = False
    columns: bool = False
    splits: int = 1

    @property
    def computing(self) -> int:
        """How many threads compute."""
        return 256 if self.columns else self.block_kv // 64 * 128


def few(heads: int, keys: int, dim: int) -> bool:
    """Return whether the blocks of keys of so many heads leave much of a large GPU without work."""
    return heads * -(-keys // (64 if dim == 192 else 128)) < 132


def place(i: Any, j: Any, block_q: int, dim: int, computing: int) -> Any:
    """Return where dq[i, j] of a tile stands in memory.

    Not row by row, but as the threads have it in registers after the product: what a thread has
    stands together, four numbers at a time, and beside that of its neighbour.
    """
    columns = dim * 128 // computing if block_q == 64 else dim  # that a warp group has
    group = j // columns if block_q == 64 else i // 64
    thread = group * 128 + i % 64 // 16 * 32 + i % 8 * 4 + j % 8 // 2
    return (j % columns // 8 * computing + thread) * 4 + i % 16 // 8 * 2 + j % 2


@tilelang.jit(out_idx=[3, 4], pass_configs=FAST)
def gqa_forward_lse(
    heads: int,
    kv_heads: int,
    dim: int,
    dim_v: int,
    causal: bool = False,
    layout: str = "BSHD",
    dtype: str = "float16",
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 2,
) -> Any:
    """Return the kernel of these sizes: Q, K, V -> Output, Lse.

    Lse [B, H, Sq] is the logarithm, to the base of 2, of each query's sum of exponentials.
    """
    batch, seq_q, seq_kv = T.dynamic("batch, seq_q, seq_kv")
    accum = "float32"
    bhsd = layout == "BHSD"
    q_shape = [batch, heads, seq_q, dim] if bhsd else [batch, seq_q, heads, dim]
    out_shape = [*q_shape[:3], dim_v]
    k_shape = [batch, kv_heads, seq_kv, dim] if bhsd else [batch, seq_kv, kv_heads, dim]
    v_shape = [*k_shape[:3], dim_v]
    scale = dim**-0.5 * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(k_shape, dtype),
        V: T.Tensor(v_shape, dtype),
        Output: T.Tensor(out_shape, dtype),
        Lse: T.Tensor([batch, heads, seq_q], accum),
    ):
        with T.Kernel(T.ceildiv(seq_q, block_m), heads, batch, threads=block_m * 2) as (
            px,
            head,
            sample,
        ):
            Q_shared = T.alloc_shared([block_m, dim], dtype)
            K_shared = T.alloc_shared([block_n, dim], dtype)
            V_shared = T.alloc_shared([block_n, dim_v], dtype)
            s = T.alloc_fragment([block_m, block_n], accum)
            p = T.alloc_fragment([block_m, block_n], dtype)
            acc = T.alloc_fragment([block_m, dim_v], accum)
            m = T.alloc_fragment([block_m], accum)
            m_prev = T.alloc_fragment([block_m], accum)
            rescale = T.alloc_fragment([block_m], accum)
            row_sum = T.alloc_fragment([block_m], accum)
            l = T.alloc_fragment([block_m], accum)

            # concept: kv-head
            kv_head = head // (heads // kv_heads)
            # end
            past_len = seq_kv - seq_q
            first = (T.ceildiv(seq_q, block_m) - 1 - px if causal else px) * block_m
            all_blocks = T.ceildiv(seq_kv, block_n)
            blocks = (
                T.min(all_blocks, T.ceildiv(first + block_m + past_len, block_n))
                if causal
                else all_blocks
            )
            if bhsd:
                T.copy(Q[sample, head, first : first + block_m, :], Q_shared)
            else:
                T.copy(Q[sample, first : first + block_m, head, :], Q_shared)
            T.fill(acc, 0)
            T.fill(l, 0)
            T.fill(m, -T.infinity(accum))
            for t in T.Pipelined(blocks, num_stages=stages):
                if bhsd:
                    T.copy(K[sample, kv_head, t * block_n : (t + 1) * block_n, :], K_shared)
                else:
                    T.copy(K[sample, t * block_n : (t + 1) * block_n, kv_head, :], K_shared)
                for i, j in T.Parallel(block_m, block_n):
                    s[i, j] = T.if_then_else(
                        first + i + past_len >= t * block_n + j
                        if causal
                        else t * block_n + j < seq_kv,
                        0,
                        -T.infinity(accum),
                    )
                T.gemm(Q_shared, K_shared, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(block_m):
                    rescale[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                for i, j in T.Parallel(block_m, block_n):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, row_sum, dim=1)
                for i in T.Parallel(block_m):
                    l[i] = l[i] * rescale[i] + row_sum[i]
                T.copy(s, p)
                for i, j in T.Parallel(block_m, dim_v):
                    acc[i, j] *= rescale[i]
                if bhsd:
                    T.copy(V[sample, kv_head, t * block_n : (t + 1) * block_n, :], V_shared)
                else:
                    T.copy(V[sample, t * block_n : (t + 1) * block_n, kv_head, :], V_shared)
                T.gemm(p, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_m, dim_v):
                acc[i, j] /= l[i]
            if bhsd:
                T.copy(acc, Output[sample, head, first : first + block_m, :])
            else:
                T.copy(acc, Output[sample, first : first + block_m, head, :])
            for i in T.Parallel(block_m):
                l[i] = T.log2(l[i]) + m[i] * scale
            T.copy(l, Lse[sample, head, first : first + block_m])

    return main


@tilelang.jit(pass_configs=FAST)
def gqa_backward_rows(
    heads: int, dim: int, dim_v: int, layout: str = "BSHD", dtype: str = "float16"
) -> Any:
    """Return the kernel that writes Rows, Delta and dQ from Output, dO and Lse.

    Delta [B, H, R] is the sum of o do for each query, scaled as scores are: what softmax's
    gradient takes off. Rows [B, H, R] is Lse, and plus infinity past the last query, so that all
    probabilities are 0 there. dQ [B, H, R D / 256, 256] is 0.
    """
    batch, seq_q, rows, lines = T.dynamic("batch, seq_q, rows, lines")
    accum = "float32"
    bhsd = layout == "BHSD"
    shape = [batch, heads, seq_q, dim_v] if bhsd else [batch, seq_q, heads, dim_v]
    block = 64
    scale = dim**-0.5

    @T.prim_func
    def main(
        Output: T.Tensor(shape, dtype),
        dO: T.Tensor(shape, dtype),
        Lse: T.Tensor([batch, heads, seq_q], accum),
        Rows: T.Tensor([batch, heads, rows], accum),
        Delta: T.Tensor([batch, heads, rows], accum),
        dQ: T.Tensor([batch, heads, lines, LINE], accum),
    ):
        with T.Kernel(T.ceildiv(rows, block), heads, batch, threads=128) as (px, head, sample):
            T.pdl_trigger()  # the next kernel may start, and waits for this one where it needs it
            o = T.alloc_fragment([block, dim_v], dtype)
            do = T.alloc_fragment([block, dim_v], dtype)
            product = T.alloc_fragment([block, dim_v], accum)
            total = T.alloc_fragment([block], accum)
            first = px * block
            if bhsd:
                T.copy(Output[sample, head, first : first + block, :], o)
                T.copy(dO[sample, head, first : first + block, :], do)
            else:
                T.copy(Output[sample, first : first + block, head, :], o)
                T.copy(dO[sample, first : first + block, head, :], do)
            for i, j in T.Parallel(block, dim_v):
                product[i, j] = T.cast(o[i, j], accum) * T.cast(do[i, j], accum)
            T.reduce_sum(product, total, dim=1)
            for i in T.Parallel(block):
                Delta[sample, head, first + i] = total[i] * scale
            for i in T.Parallel(block):
                Rows[sample, head, first + i] = T.if_then_else(
                    first + i < seq_q, Lse[sample, head, first + i], T.infinity(accum)
                )
            for i, j in T.Parallel(block * dim // LINE, LINE):
                dQ[sample, head, px * (block * dim // LINE) + i, j] = 0.0

    return main


@tilelang.jit(pass_configs=OWN_BARRIERS)
def gqa_backward(
    heads: int,
    kv_heads: int,
    dim: int,
    dim_v: int,
    causal: bool = False,
    layout: str = "BSHD",
    dtype: str = "float16",
    block_q: int = 64,
    block_kv: int = 128,
    stages: int = 2,
    head_group: int = 1,
    ahead: bool = False,
    columns: bool = False,
    splits: int = 1,
) -> Any:
    """Return the kernel that writes dK and dV and adds to dQ, from Q, K, V, dO, Rows and Delta.

    Tiles stand on their side: 64 of the `block_kv` keys of a program have a warp group, and the
    columns are queries, because what is summed over queries then stays in registers. dQ is summed
    over keys, which are with other programs: it is added up in memory. `stages` blocks of queries
    are on the chip at once; `head_group` KV heads (a divisor of their number) are worked on side by
    side. `ahead`: the scores of a block are made beside dK of the block before. With `columns`, two
    warp groups have the same 64 keys and share out the columns: of scores the queries, of gradients
    the components, for which probabilities and dS go through shared memory. That takes fewer
    registers for a key, and is for head sizes whose sums would not fit. With `splits` (needs
    `columns`), so many programs share out the heads that read a block of keys, and dK and dV are
    added up in memory, too: for when there are few blocks of keys.
    """
    batch, seq_q, seq_kv = T.dynamic("batch, seq_q, seq_kv")
    rows, lines = T.dynamic("rows, lines")
    accum = "float32"
    bhsd = layout == "BHSD"
    q_shape = [batch, heads, seq_q, dim] if bhsd else [batch, seq_q, heads, dim]
    do_shape = [*q_shape[:3], dim_v]
    k_shape = [batch, kv_heads, seq_kv, dim] if bhsd else [batch, seq_kv, kv_heads, dim]
    v_shape = [*k_shape[:3], dim_v]
    dk_lines, dv_lines = (block_kv * d // LINE for d in (dim, dim_v))
    keys, values = T.dynamic("keys, values")
    dk_shape, dv_shape = (
        (k_shape, v_shape)
        if splits == 1
        else ([batch, kv_heads, keys, LINE], [batch, kv_heads, values, LINE])
    )
    kv_dtype = dtype if splits == 1 else accum
    computing = 256 if columns else block_kv // 64 * 128
    policy = T.GemmWarpPolicy.FullCol if columns else T.GemmWarpPolicy.FullRow
    tile_lines = block_q * dim // LINE
    # concept: kv-head-count
    group = heads // kv_heads
    share = group // splits  # heads of a program
    # concept: softmax-scale
    scale = dim**-0.5
    # With 64 queries in a tile of dQ, the warp groups share out its columns, else its rows.
    dq_policy = T.GemmWarpPolicy.FullCol if block_q == 64 else T.GemmWarpPolicy.FullRow

    @T.macro
    def start_scores(K_shared, Q_tile, s):
        """Start the scores of a block of queries: one row for each key."""
        # concept: qk-gemm
        T.wgmma_gemm(
            K_shared,
            Q_tile,
            s,
            transpose_B=True,
            policy=policy,
            clear_accum=True,
        )

    @T.macro
    def probabilities(key, query, seq_kv, past_len, s, rows_shared, now):
        """Turn scores into probabilities: the forward has left the logarithm of their sum."""
        # concept: causal-mask, mask-value
        if causal:
            if key + block_kv > query + past_len + 1:
                for a, b in T.Parallel(block_kv, block_q):
                    s[a, b] = T.if_then_else(
                        query + b + past_len >= key + a, s[a, b], -T.infinity(accum)
                    )
        # A causal query stands inside the sequence: what it sees does, too. Keys past the end are
        # zero, and so would their part of dQ be, but for an exponential that overflows.
        # concept: boundary-mask, mask-value
        if not causal:
            if key + block_kv > seq_kv:
                for a, b in T.Parallel(block_kv, block_q):
                    s[a, b] = T.if_then_else(key + a < seq_kv, s[a, b], -T.infinity(accum))
        # end
        for a, b in T.Parallel(block_kv, block_q):
            s[a, b] = T.exp2(s[a, b] * (scale * LOG2E) - rows_shared[now, b])

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(k_shape, dtype),
        V: T.Tensor(v_shape, dtype),
        dO: T.Tensor(do_shape, dtype),
        Rows: T.Tensor([batch, heads, rows], accum),
        Delta: T.Tensor([batch, heads, rows], accum),
        dK: T.Tensor(dk_shape, kv_dtype),
        dV: T.Tensor(dv_shape, kv_dtype),
        dQ: T.Tensor([batch, heads, lines, LINE], accum),
    ):
        # concept: kernel-grid
        with T.Kernel(
            T.ceildiv(seq_kv, block_kv) * head_group,
            kv_heads // head_group * splits,
            batch,
            threads=computing + 128,
        ) as (px, py, sample):
            K_shared = T.alloc_shared([block_kv, dim], dtype)
            V_shared = T.alloc_shared([block_kv, dim_v], dtype)
            Q_shared = T.alloc_shared([stages, block_q, dim], dtype)
            dO_shared = T.alloc_shared([stages, block_q, dim_v], dtype)
            P_shared = T.alloc_shared([block_kv, block_q], dtype)  # without `columns`, unused
            dS_shared = T.alloc_shared([block_kv, block_q], dtype)
            dQ_shared = T.alloc_shared([tile_lines, LINE], accum)
            rows_shared = T.alloc_shared([stages, block_q], accum)
            delta_shared = T.alloc_shared([stages, block_q], accum)
            s = T.alloc_fragment([block_kv, block_q], accum)
            dp = T.alloc_fragment([block_kv, block_q], accum)
            p = T.alloc_fragment([block_kv, block_q], dtype)
            ds = T.alloc_fragment([block_kv, block_q], dtype)
            dq = T.alloc_fragment([block_q, dim], accum)
            dk = T.alloc_fragment([block_kv, dim], accum)
            dv = T.alloc_fragment([block_kv, dim_v], accum)
            kv_ready = T.alloc_barrier(32)
            q_ready = T.alloc_barrier([32] * stages)
            do_ready = T.alloc_barrier([32] * stages)
            q_free = T.alloc_barrier([computing] * stages)
            do_free = T.alloc_barrier([computing] * stages)
            dq_ready = T.alloc_barrier(computing)
            dq_free = T.alloc_barrier(32)
            T.annotate_layout({dQ_shared: tilelang.layout.make_linear_layout(dQ_shared)})

            # Early keys are seen by most queries under a causal mask: they start first.
            bx = px // head_group
            key = bx * block_kv
            kv_head = py // splits * head_group + px % head_group
            first_head = kv_head * group + py % splits * share
            # concept: query-offset
            past_len = seq_kv - seq_q
            # concept: loop-range
            start = T.max(0, key - past_len) // block_q if causal else 0
            blocks = (T.ceildiv(seq_q, block_q) - start) * share  # of one head after the other

            T.pdl_trigger()
            tx = T.get_thread_binding()
            if tx >= computing:
                T.set_max_nreg(24, 0)
                if tx < computing + 32:  # the warp that brings tiles
                    if bhsd:
                        T.tma_copy(
                            K[sample, kv_head, key : key + block_kv, :], K_shared, barrier=kv_ready
                        )
                        T.tma_copy(
                            V[sample, kv_head, key : key + block_kv, :], V_shared, barrier=kv_ready
                        )
                    else:
                        T.tma_copy(
                            K[sample, key : key + block_kv, kv_head, :], K_shared, barrier=kv_ready
                        )
                        T.tma_copy(
                            V[sample, key : key + block_kv, kv_head, :], V_shared, barrier=kv_ready
                        )
                    T.mbarrier_arrive(kv_ready)
                    T.pdl_sync()  # Rows and Delta are there
                    for t in T.serial(blocks):
                        now = t % stages
                        # concept: kv-head
                        head = first_head + t % share
                        # end
                        query = (start + t // share) * block_q
                        T.mbarrier_wait_parity(q_free[now], ((t // stages) & 1) ^ 1)
                        if bhsd:
                            T.tma_copy(
                                Q[sample, head, query : query + block_q, :],
                                Q_shared[now, :, :],
                                barrier=q_ready[now],
                            )
                        else:
                            T.tma_copy(
                                Q[sample, query : query + block_q, head, :],
                                Q_shared[now, :, :],
                                barrier=q_ready[now],
                            )
                        T.tma_copy(
                            Rows[sample, head, query : query + block_q],
                            rows_shared[now, :],
                            barrier=q_ready[now],
                        )
                        T.mbarrier_arrive(q_ready[now])
                        T.mbarrier_wait_parity(do_free[now], ((t // stages) & 1) ^ 1)
                        if bhsd:
                            T.tma_copy(
                                dO[sample, head, query : query + block_q, :],
                                dO_shared[now, :, :],
                                barrier=do_ready[now],
                            )
                        else:
                            T.tma_copy(
                                dO[sample, query : query + block_q, head, :],
                                dO_shared[now, :, :],
                                barrier=do_ready[now],
                            )
                        T.tma_copy(
                            Delta[sample, head, query : query + block_q],
                            delta_shared[now, :],
                            barrier=do_ready[now],
                        )
                        T.mbarrier_arrive(do_ready[now])
                else:
                    if tx < computing + 64:  # the warp that adds to dQ
                        T.pdl_sync()  # it is 0
                        for t in T.serial(blocks):
                            head = first_head + t % share
                            block = start + t // share
                            T.mbarrier_wait_parity(dq_ready, t & 1)
                            T.atomic_add(
                                dQ[
                                    sample,
                                    head,
                                    block * tile_lines : (block + 1) * tile_lines,
                                    :,
                                ],
                                dQ_shared,
                                use_tma=True,
                            )
                            T.mbarrier_arrive(dq_free)
                        if splits > 1:
                            T.mbarrier_wait_parity(dq_ready, blocks & 1)
                            T.atomic_add(
                                dK[sample, kv_head, bx * dk_lines : (bx + 1) * dk_lines, :],
                                dQ_shared,
                                use_tma=True,
                            )
                            T.mbarrier_arrive(dq_free)
                            T.mbarrier_wait_parity(dq_ready, (blocks + 1) & 1)
                            T.atomic_add(
                                dV[sample, kv_head, bx * dv_lines : (bx + 1) * dv_lines, :],
                                dQ_shared[0:dv_lines, :],
                                use_tma=True,
                            )
            else:  # those that compute
                T.set_max_nreg(240, 1)
                T.fill(dk, 0)
                T.fill(dv, 0)
                T.mbarrier_wait_parity(kv_ready, 0)
                if ahead:
                    T.mbarrier_wait_parity(q_ready[0], 0)
                    start_scores(K_shared, Q_shared[0, :, :], s)
                    T.wait_wgmma(0)
                for t in T.serial(blocks):
                    now = t % stages
                    if not ahead:
                        T.mbarrier_wait_parity(q_ready[now], (t // stages) & 1)
                        start_scores(K_shared, Q_shared[now, :, :], s)
                    T.mbarrier_wait_parity(do_ready[now], (t // stages) & 1)
                    T.wgmma_gemm(
                        V_shared,
                        dO_shared[now, :, :],
                        dp,
                        transpose_B=True,
                        policy=policy,
                        clear_accum=True,
                    )
                    if not ahead:
                        T.wait_wgmma(1)  # the scores are there, dp is under way
                    query = (start + t // share) * block_q
                    probabilities(key, query, seq_kv, past_len, s, rows_shared, now)
                    T.copy(s, p)
                    if columns:
                        T.sync_threads(3, computing)  # nobody reads the last P any more
                        T.copy(p, P_shared)
                        T.fence_proxy_async()
                        T.sync_threads(4, computing)
                        T.wgmma_gemm(P_shared, dO_shared[now, :, :], dv, policy=policy)
                    else:
                        T.wgmma_gemm(p, dO_shared[now, :, :], dv, policy=policy)
                    T.wait_wgmma(1)  # dp is there, dv is under way
                    for a, b in T.Parallel(block_kv, block_q):
                        s[a, b] = s[a, b] * (dp[a, b] * scale - delta_shared[now, b])
                    T.copy(s, ds)
                    T.sync_threads(1, computing)  # nobody reads the last dS any more
                    T.copy(ds, dS_shared)
                    T.fence_proxy_async()
                    T.sync_threads(2, computing)
                    T.wgmma_gemm(
                        dS_shared,
                        K_shared,
                        dq,
                        transpose_A=True,
                        policy=dq_policy,
                        clear_accum=True,
                    )
                    if columns:
                        T.wgmma_gemm(dS_shared, Q_shared[now, :, :], dk, policy=policy)
                    else:
                        T.wgmma_gemm(ds, Q_shared[now, :, :], dk, policy=policy)
                    T.wait_wgmma(1)  # dv and dq are there, dk is under way
                    T.mbarrier_arrive(do_free[now])
                    T.mbarrier_wait_parity(dq_free, (t & 1) ^ 1)
                    for i, j in T.Parallel(block_q, dim):
                        at = place(i, j, block_q, dim, computing)
                        dQ_shared[at // LINE, at % LINE] = dq[i, j]
                    T.fence_proxy_async()
                    T.mbarrier_arrive(dq_ready)
                    if ahead:
                        if t + 1 < blocks:
                            then = (t + 1) % stages
                            T.mbarrier_wait_parity(q_ready[then], ((t + 1) // stages) & 1)
                            start_scores(K_shared, Q_shared[then, :, :], s)
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(q_free[now])
                if splits > 1:  # a tile of dK, and then one of dV, goes the way of dQ
                    T.mbarrier_wait_parity(dq_free, (blocks & 1) ^ 1)
                    for i, j in T.Parallel(block_kv, dim):
                        at = place(i, j, block_kv, dim, computing)
                        dQ_shared[at // LINE, at % LINE] = dk[i, j]
                    T.fence_proxy_async()
                    T.mbarrier_arrive(dq_ready)
                    T.mbarrier_wait_parity(dq_free, ((blocks + 1) & 1) ^ 1)
                    for i, j in T.Parallel(block_kv, dim_v):
                        at = place(i, j, block_kv, dim_v, computing)
                        dQ_shared[at // LINE, at % LINE] = dv[i, j]
                    T.fence_proxy_async()
                    T.mbarrier_arrive(dq_ready)
                else:
                    T.sync_threads(1, computing)  # nobody reads K any more
                    T.copy(dk, K_shared)
                    T.copy(dv, V_shared)
                    T.fence_proxy_async()
                    T.sync_threads(2, computing)
                    if bhsd:
                        T.copy(K_shared, dK[sample, kv_head, key : key + block_kv, :])
                        T.copy(V_shared, dV[sample, kv_head, key : key + block_kv, :])
                    else:
                        T.copy(K_shared, dK[sample, key : key + block_kv, kv_head, :])
                        T.copy(V_shared, dV[sample, key : key + block_kv, kv_head, :])

    return main


@tilelang.jit(pass_configs=FAST)
def gqa_backward_round(
    heads: int,
    dim: int,
    layout: str = "BSHD",
    dtype: str = "float16",
    block_q: int = 64,
    computing: int = 256,
) -> Any:
    """Return the kernel that writes dQ in `layout` and `dtype` from its sums.

    The sums stand as `gqa_backward` with as many queries and threads has left them.
    """
    batch, seq_q, lines = T.dynamic("batch, seq_q, lines")
    bhsd = layout == "BHSD"
    shape = [batch, heads, seq_q, dim] if bhsd else [batch, seq_q, heads, dim]
    tile_lines = block_q * dim // LINE

    @T.prim_func
    def main(
        Sums: T.Tensor([batch, heads, lines, LINE], "float32"),
        dQ: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_q, block_q), heads, batch, threads=256) as (px, head, sample):
            tile = T.alloc_shared([tile_lines, LINE], "float32")
            rounded = T.alloc_fragment([block_q, dim], dtype)
            T.pdl_trigger()
            T.pdl_sync()  # all has been added
            T.copy(Sums[sample, head, px * tile_lines : (px + 1) * tile_lines, :], tile)
            for i, j in T.Parallel(block_q, dim):
                at = place(i, j, block_q, dim, computing)
                rounded[i, j] = tile[at // LINE, at % LINE]
            if bhsd:
                T.copy(rounded, dQ[sample, head, px * block_q : (px + 1) * block_q, :])
            else:
                T.copy(rounded, dQ[sample, px * block_q : (px + 1) * block_q, head, :])

    return main


def forward(
    q: Any, k: Any, v: Any, *, causal: bool = False, layout: str = "BSHD"
) -> "tuple[Any, Any]":
    """Return attention of CUDA tensors, and what the backward needs besides: lse.

    q [B, Sq, H, D], k [B, Skv, G, D], v [B, Skv, G, Dv] -> [B, Sq, H, Dv]; with layout "BHSD" the
    second and third dimensions change places. Query head h reads KV head h // (H // G). D and Dv
    are 64, 128, or 192 and 128. lse [B, H, Sq] is the logarithm, to the base of 2, of the sum of
    the exponentials of a query's scores, in float32.
    ValueError or TypeError names the argument that does not fit.
    """
    facts = _checked(q, k, v, causal, layout)
    launch.device_name(q.device.index)
    out, lse = _forward(facts)(q, k, v)
    return out, lse


def backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    do: Any,
    *,
    causal: bool = False,
    layout: str = "BSHD",
    tiling: "Backward | None" = None,
) -> "tuple[Any, Any, Any]":
    """Return the gradients dq, dk, dv of a loss, given that of the output: do, shaped like out.

    out and lse are what `forward` has made of q, k and v. Types float16 or bfloat16; sums are in
    float32, and those of dq are added up in any order: its last bits differ from run to run.
    Without a `tiling`, the table of tilings has one for the device. ValueError or TypeError names
    the argument that does not fit.
    """
    facts = _checked(q, k, v, causal, layout)
    for name, tensor in (("out", out), ("do", do)):
        launch.check_table(name, tensor, (*q.shape[:3], facts.dim_v), facts.dtype, q)
    seq_q = q.shape[2 if layout == "BHSD" else 1]
    launch.check_table("lse", lse, (q.shape[0], facts.heads, seq_q), "float32", q)
    tiling = tiling or _tiling(facts, k)
    launch.check_cut(tiling, Backward, block_q=(64, 128), block_kv=(64, 128))
    return _backward(facts, tiling, (q, k, v, out, lse, do))


class Facts(NamedTuple):
    """What kernels are compiled for; lengths and the number of samples are not among it."""

    heads: int
    kv_heads: int
    dim: int
    dim_v: int
    causal: bool
    layout: str
    dtype: str


def _checked(q: Any, k: Any, v: Any, causal: bool, layout: str) -> Facts:
    wide = hasattr(q, "shape") and q.shape[-1] == 192
    sizes = launch.check(q, k, k if wide else v, causal=causal, layout=layout, dims=(64, 128, 192))
    if wide:
        launch.check_table("v", v, (*k.shape[:3], 128), sizes.dtype, q)
    return Facts(sizes.heads, sizes.kv_heads, sizes.dim, v.shape[3], causal, layout, sizes.dtype)


def _tiling(facts: Facts, k: Any) -> Backward:
    """Return the tiling that a sweep chose, or one that fits."""
    keys = k.shape[2 if facts.layout == "BHSD" else 1]
    found = few(k.shape[0] * facts.kv_heads, keys, facts.dim)
    default = Backward(head_group=8 if facts.causal else 1)
    if facts.dim == 64:
        default = Backward(block_q=128, head_group=8)
    elif facts.dim == 192:
        default = default._replace(block_kv=64, columns=True, splits=16 if found else 1)
    key = {"dim": facts.dim, "causal": facts.causal, "few": found}
    return launch.tuned("gqa_backward", launch.device_name(k.device.index), default, **key)


def _backward(facts: Facts, tiling: Backward, tensors: "tuple[Any, ...]") -> "tuple[Any, Any, Any]":
    """Launch the kernels on checked tensors q, k, v, out, lse, do."""
    import torch

    q, k, v, out, lse, do = tensors
    batch, heads, seq_q = lse.shape
    rows = -(-seq_q // ROWS) * ROWS
    wide = {"device": q.device, "dtype": torch.float32}
    shifted, delta = torch.empty(2, batch, heads, rows, **wide)
    sums = torch.empty(batch, heads, rows * facts.dim // LINE, LINE, **wide)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    splits = launch.divisor(tiling.splits, facts.heads // facts.kv_heads)
    kernels = _kernels(facts, tiling._replace(splits=splits))
    added = _cleared(facts, k) if splits > 1 else None
    kernels.prepare(out, do, lse, shifted, delta, sums)  # right before the main kernel: it waits
    kernels.main(q, k, v, do, shifted, delta, *(added or (dk, dv)), sums)
    if added:
        kernels.finish_k(added[0], dk)
        kernels.finish_v(added[1], dv)
    kernels.finish(sums, dq)
    return dq, dk, dv


def _cleared(facts: Facts, k: Any) -> "tuple[Any, Any]":
    """Return zeros, to which dK and dV are added: cleared at once."""
    import torch

    keys = -(-k.shape[2 if facts.layout == "BHSD" else 1] // 64) * 64
    first, second = (keys * dim // LINE for dim in (facts.dim, facts.dim_v))
    pairs = k.shape[0] * facts.kv_heads
    both = torch.zeros(pairs * (first + second), LINE, device=k.device, dtype=torch.float32)
    dk, dv = both.split((pairs * first, pairs * second))
    sizes = (k.shape[0], facts.kv_heads)
    return dk.view(*sizes, first, LINE), dv.view(*sizes, second, LINE)


class Kernels(NamedTuple):
    """The compiled kernels of a backward; dK and dV are rounded where they were added up."""

    prepare: Any
    main: Any
    finish: Any
    finish_k: Any
    finish_v: Any


@cache
def _forward(facts: Facts) -> Any:
    return gqa_forward_lse(*facts)


@cache
def _kernels(facts: Facts, tiling: Backward) -> Kernels:
    heads, kv_heads, dim, dim_v, _, layout, dtype = facts
    cut = tiling._replace(head_group=launch.divisor(tiling.head_group, kv_heads))
    added = cut.splits > 1
    return Kernels(
        gqa_backward_rows(heads, dim, dim_v, layout, dtype),
        gqa_backward(*facts, *cut),
        gqa_backward_round(heads, dim, layout, dtype, cut.block_q, cut.computing),
        gqa_backward_round(kv_heads, dim, layout, dtype, 64, 256) if added else None,
        gqa_backward_round(kv_heads, dim_v, layout, dtype, 64, 256) if added else None,
    )


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, layout: str = "BSHD") -> Any:
    """Return softmax(q k^T / sqrt(d)) v of CUDA tensors that may need gradients.

    The tensors are those of `forward`; `loss.backward()` gets to them through `backward`.
    """
    return _function().apply(q, k, v, causal, layout)


@cache
def _function() -> Any:
    """Return the autograd function; a class that can only be made where PyTorch is."""
    import torch

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: Any, k: Any, v: Any, causal: bool, layout: str) -> Any:
            out, lse = forward(q, k, v, causal=causal, layout=layout)
            ctx.save_for_backward(q, k, v, out, lse)
            ctx.options = {"causal": causal, "layout": layout}
            return out

        @staticmethod
        def backward(ctx: Any, do: Any) -> "tuple[Any, ...]":
            grads = backward(*ctx.saved_tensors, do.contiguous(), **ctx.options)
            return (*grads, None, None)

    return Attention
