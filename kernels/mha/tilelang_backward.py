"""The gradients of attention on Hopper GPUs in TileLang: one warp group copies, the others compute.

Does what tilelang's `examples/flash_attention/example_mha_bwd_bhsd.py` and
`example_mha_bwd_bshd.py` do. Nothing of size queries times keys is kept: the forward hands on one
number for each query, the logarithm of its denominator, and the probabilities come back from it.

`mha_forward_lse` is a forward that stores that number. Then three kernels: `mha_backward_rows`
makes what every key needs of a query and clears the sums, `mha_backward` goes through the queries
for each block of keys, `mha_backward_round` rounds the gradient of the queries. Each of them starts
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


def few(sizes: launch.Sizes) -> bool:
    """Return whether blocks of 128 keys leave much of a large GPU without work."""
    return sizes.batch * sizes.heads * -(-sizes.seq_kv // 128) < 132


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
def mha_forward_lse(
    heads: int,
    dim: int,
    causal: bool = False,
    layout: str = "BHSD",
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
    kv_shape = [batch, heads, seq_kv, dim] if bhsd else [batch, seq_kv, heads, dim]
    scale = dim**-0.5 * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Output: T.Tensor(q_shape, dtype),
        Lse: T.Tensor([batch, heads, seq_q], accum),
    ):
        with T.Kernel(T.ceildiv(seq_q, block_m), heads, batch, threads=block_m * 2) as (
            px,
            head,
            sample,
        ):
            Q_shared = T.alloc_shared([block_m, dim], dtype)
            K_shared = T.alloc_shared([block_n, dim], dtype)
            V_shared = T.alloc_shared([block_n, dim], dtype)
            s = T.alloc_fragment([block_m, block_n], accum)
            p = T.alloc_fragment([block_m, block_n], dtype)
            acc = T.alloc_fragment([block_m, dim], accum)
            m = T.alloc_fragment([block_m], accum)
            m_prev = T.alloc_fragment([block_m], accum)
            rescale = T.alloc_fragment([block_m], accum)
            row_sum = T.alloc_fragment([block_m], accum)
            l = T.alloc_fragment([block_m], accum)

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
                    T.copy(K[sample, head, t * block_n : (t + 1) * block_n, :], K_shared)
                else:
                    T.copy(K[sample, t * block_n : (t + 1) * block_n, head, :], K_shared)
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
                for i, j in T.Parallel(block_m, dim):
                    acc[i, j] *= rescale[i]
                if bhsd:
                    T.copy(V[sample, head, t * block_n : (t + 1) * block_n, :], V_shared)
                else:
                    T.copy(V[sample, t * block_n : (t + 1) * block_n, head, :], V_shared)
                T.gemm(p, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_m, dim):
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
def mha_backward_rows(heads: int, dim: int, layout: str = "BHSD", dtype: str = "float16") -> Any:
    """Return the kernel that writes Rows, Delta and dQ from Output, dO and Lse.

    Delta [B, H, R] is the sum of o do for each query, scaled as scores are: what softmax's
    gradient takes off. Rows [B, H, R] is Lse, and plus infinity past the last query, so that all
    probabilities are 0 there. dQ [B, H, R D / 256, 256] is 0.
    """
    batch, seq_q, rows, lines = T.dynamic("batch, seq_q, rows, lines")
    accum = "float32"
    bhsd = layout == "BHSD"
    shape = [batch, heads, seq_q, dim] if bhsd else [batch, seq_q, heads, dim]
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
            o = T.alloc_fragment([block, dim], dtype)
            do = T.alloc_fragment([block, dim], dtype)
            product = T.alloc_fragment([block, dim], accum)
            total = T.alloc_fragment([block], accum)
            first = px * block
            if bhsd:
                T.copy(Output[sample, head, first : first + block, :], o)
                T.copy(dO[sample, head, first : first + block, :], do)
            else:
                T.copy(Output[sample, first : first + block, head, :], o)
                T.copy(dO[sample, first : first + block, head, :], do)
            for i, j in T.Parallel(block, dim):
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
def mha_backward(
    heads: int,
    dim: int,
    causal: bool = False,
    layout: str = "BHSD",
    dtype: str = "float16",
    block_q: int = 64,
    block_kv: int = 128,
    stages: int = 2,
    head_group: int = 1,
    ahead: bool = False,
) -> Any:
    """Return the kernel that writes dK and dV and adds to dQ, from Q, K, V, dO, Rows and Delta.

    Tiles stand on their side: 64 of the `block_kv` keys of a program have a warp group, and the
    columns are queries, because what is summed over queries then stays in registers. dQ is summed
    over keys, which are with other programs: it is added up in memory. `stages` blocks of queries
    are on the chip at once; `head_group` heads (a divisor of their number) are worked on side by
    side. `ahead`: the scores of a block are made beside dK of the block before.
    """
    batch, seq_q, seq_kv = T.dynamic("batch, seq_q, seq_kv")
    rows, lines = T.dynamic("rows, lines")
    accum = "float32"
    bhsd = layout == "BHSD"
    q_shape = [batch, heads, seq_q, dim] if bhsd else [batch, seq_q, heads, dim]
    kv_shape = [batch, heads, seq_kv, dim] if bhsd else [batch, seq_kv, heads, dim]
    computing = block_kv // 64 * 128
    tile_lines = block_q * dim // LINE
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
            policy=T.GemmWarpPolicy.FullRow,
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
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        dO: T.Tensor(q_shape, dtype),
        Rows: T.Tensor([batch, heads, rows], accum),
        Delta: T.Tensor([batch, heads, rows], accum),
        dK: T.Tensor(kv_shape, dtype),
        dV: T.Tensor(kv_shape, dtype),
        dQ: T.Tensor([batch, heads, lines, LINE], accum),
    ):
        # concept: kernel-grid
        with T.Kernel(
            T.ceildiv(seq_kv, block_kv) * head_group,
            heads // head_group,
            batch,
            threads=computing + 128,
        ) as (px, py, sample):
            K_shared = T.alloc_shared([block_kv, dim], dtype)
            V_shared = T.alloc_shared([block_kv, dim], dtype)
            Q_shared = T.alloc_shared([stages, block_q, dim], dtype)
            dO_shared = T.alloc_shared([stages, block_q, dim], dtype)
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
            dv = T.alloc_fragment([block_kv, dim], accum)
            kv_ready = T.alloc_barrier(32)
            q_ready = T.alloc_barrier([32] * stages)
            do_ready = T.alloc_barrier([32] * stages)
            q_free = T.alloc_barrier([computing] * stages)
            do_free = T.alloc_barrier([computing] * stages)
            dq_ready = T.alloc_barrier(computing)
            dq_free = T.alloc_barrier(32)
            T.annotate_layout({dQ_shared: tilelang.layout.make_linear_layout(dQ_shared)})

            # Early keys are seen by most queries under a causal mask: they start first.
            key = px // head_group * block_kv
            head = py * head_group + px % head_group
            # concept: query-offset
            past_len = seq_kv - seq_q
            # concept: loop-range
            start = T.max(0, key - past_len) // block_q if causal else 0
            blocks = T.ceildiv(seq_q, block_q) - start

            T.pdl_trigger()
            tx = T.get_thread_binding()
            if tx >= computing:
                T.set_max_nreg(24, 0)
                if tx < computing + 32:  # the warp that brings tiles
                    if bhsd:
                        T.tma_copy(
                            K[sample, head, key : key + block_kv, :], K_shared, barrier=kv_ready
                        )
                        T.tma_copy(
                            V[sample, head, key : key + block_kv, :], V_shared, barrier=kv_ready
                        )
                    else:
                        T.tma_copy(
                            K[sample, key : key + block_kv, head, :], K_shared, barrier=kv_ready
                        )
                        T.tma_copy(
                            V[sample, key : key + block_kv, head, :], V_shared, barrier=kv_ready
                        )
                    T.mbarrier_arrive(kv_ready)
                    T.pdl_sync()  # Rows and Delta are there
                    for t in T.serial(blocks):
                        now = t % stages
                        query = (start + t) * block_q
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
                            T.mbarrier_wait_parity(dq_ready, t & 1)
                            T.atomic_add(
                                dQ[
                                    sample,
                                    head,
                                    (start + t) * tile_lines : (start + t + 1) * tile_lines,
                                    :,
                                ],
                                dQ_shared,
                                use_tma=True,
                            )
                            T.mbarrier_arrive(dq_free)
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
                        policy=T.GemmWarpPolicy.FullRow,
                        clear_accum=True,
                    )
                    if not ahead:
                        T.wait_wgmma(1)  # the scores are there, dp is under way
                    probabilities(key, (start + t) * block_q, seq_kv, past_len, s, rows_shared, now)
                    T.copy(s, p)
                    T.wgmma_gemm(p, dO_shared[now, :, :], dv, policy=T.GemmWarpPolicy.FullRow)
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
                    T.wgmma_gemm(ds, Q_shared[now, :, :], dk, policy=T.GemmWarpPolicy.FullRow)
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
                T.sync_threads(1, computing)  # nobody reads K any more
                T.copy(dk, K_shared)
                T.copy(dv, V_shared)
                T.fence_proxy_async()
                T.sync_threads(2, computing)
                if bhsd:
                    T.copy(K_shared, dK[sample, head, key : key + block_kv, :])
                    T.copy(V_shared, dV[sample, head, key : key + block_kv, :])
                else:
                    T.copy(K_shared, dK[sample, key : key + block_kv, head, :])
                    T.copy(V_shared, dV[sample, key : key + block_kv, head, :])

    return main


@tilelang.jit(pass_configs=FAST)
def mha_backward_round(
    heads: int,
    dim: int,
    layout: str = "BHSD",
    dtype: str = "float16",
    block_q: int = 64,
    block_kv: int = 128,
) -> Any:
    """Return the kernel that writes dQ in `layout` and `dtype` from its sums.

    The sums stand as `mha_backward` with these blocks has left them.
    """
    batch, seq_q, lines = T.dynamic("batch, seq_q, lines")
    bhsd = layout == "BHSD"
    shape = [batch, heads, seq_q, dim] if bhsd else [batch, seq_q, heads, dim]
    tile_lines = block_q * dim // LINE
    computing = block_kv // 64 * 128

    @T.prim_func
    def main(
        Sums: T.Tensor([batch, heads, lines, LINE], "float32"),
        dQ: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_q, block_q), heads, batch, threads=256) as (px, head, sample):
            tile = T.alloc_shared([tile_lines, LINE], "float32")
            rounded = T.alloc_fragment([block_q, dim], dtype)
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
    q: Any, k: Any, v: Any, *, causal: bool = False, layout: str = "BHSD"
) -> "tuple[Any, Any]":
    """Return attention of CUDA tensors, and what the backward needs besides: lse [B, H, Sq].

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D]; with layout "BSHD" the second and
    third dimensions change places. lse is the logarithm, to the base of 2, of the sum of the
    exponentials of a query's scores, in float32. ValueError or TypeError names the argument that
    does not fit.
    """
    sizes = _checked(q, k, v, causal, layout)
    launch.device_name(q.device.index)
    out, lse = _forward(sizes.heads, sizes.dim, causal, layout, sizes.dtype)(q, k, v)
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
    layout: str = "BHSD",
    tiling: "Backward | None" = None,
) -> "tuple[Any, Any, Any]":
    """Return the gradients dq, dk, dv of a loss, given that of the output: do, shaped like q.

    out and lse are what `forward` has made of q, k and v. Types float16 or bfloat16, D 64 or 128;
    sums are in float32, and those of dq are added up in any order: its last bits differ from run to
    run. Without a `tiling`, the table of tilings has one for the device. ValueError or TypeError
    names the argument that does not fit.
    """
    sizes = _checked(q, k, v, causal, layout)
    for name, tensor in (("out", out), ("do", do)):
        launch.check_table(name, tensor, tuple(q.shape), sizes.dtype, q)
    launch.check_table("lse", lse, (sizes.batch, sizes.heads, sizes.seq_q), "float32", q)
    if tiling is None:
        device = launch.device_name(q.device.index)
        key = {"dim": sizes.dim, "causal": causal, "few": few(sizes)}
        default = Backward(head_group=8 if causal else 1)
        if sizes.dim == 64:  # this one has registers for more
            small = Backward(block_kv=64, stages=3, ahead=True)
            default = small if key["few"] else Backward(block_q=128, head_group=8)
        tiling = launch.tuned("mha_backward", device, default, **key)
    launch.check_cut(tiling, Backward, block_q=(64, 128), block_kv=(64, 128))
    return _backward(sizes, causal, layout, tiling, (q, k, v, out, lse, do))


def _checked(q: Any, k: Any, v: Any, causal: bool, layout: str) -> launch.Sizes:
    sizes = launch.check(q, k, v, causal=causal, layout=layout)
    if sizes.kv_heads != sizes.heads:
        raise ValueError(f"k has {sizes.kv_heads} heads and q {sizes.heads}: kernels/gqa does that")
    return sizes


def _backward(
    sizes: launch.Sizes, causal: bool, layout: str, tiling: Backward, tensors: "tuple[Any, ...]"
) -> "tuple[Any, Any, Any]":
    """Launch the three kernels on checked tensors q, k, v, out, lse, do."""
    import torch

    q, k, v, out, lse, do = tensors
    rows = -(-sizes.seq_q // ROWS) * ROWS
    wide = {"device": q.device, "dtype": torch.float32}
    shifted, delta = torch.empty(2, sizes.batch, sizes.heads, rows, **wide)
    sums = torch.empty(sizes.batch, sizes.heads, rows * sizes.dim // LINE, LINE, **wide)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    prepare, main, finish = _kernels(sizes.heads, sizes.dim, causal, layout, sizes.dtype, tiling)
    prepare(out, do, lse, shifted, delta, sums)
    main(q, k, v, do, shifted, delta, dk, dv, sums)
    finish(sums, dq)
    return dq, dk, dv


@cache
def _forward(heads: int, dim: int, causal: bool, layout: str, dtype: str) -> Any:
    return mha_forward_lse(heads, dim, causal, layout, dtype)


@cache
def _kernels(
    heads: int, dim: int, causal: bool, layout: str, dtype: str, tiling: Backward
) -> "tuple[Any, Any, Any]":
    group = launch.divisor(tiling.head_group, heads)
    blocks = (tiling.block_q, tiling.block_kv)
    return (
        mha_backward_rows(heads, dim, layout, dtype),
        mha_backward(
            heads, dim, causal, layout, dtype, *blocks, tiling.stages, group, tiling.ahead
        ),
        mha_backward_round(heads, dim, layout, dtype, *blocks),
    )


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, layout: str = "BHSD") -> Any:
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
