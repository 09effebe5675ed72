"""Attention on Hopper GPUs in TileLang by programs that stay: one for each processor of the GPU.

Computes what `tilelang_kernel.py` does, and its blocks are worked on in the same way. But a program
does not end with its tile of queries: it takes the next one, and so the warp group that copies
brings the first keys of a tile while the others still compute and store the tile before. That pays
where tiles are short: at small head sizes, and under a causal mask.

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


class Tiling(NamedTuple):
    """How the kernel is cut: numbers that change its speed and nothing it computes."""

    block_m: int = 128
    block_n: int = 128
    stages: int = 2
    q_stages: int = 1
    head_group: int = 32
    turns: bool = False


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def mha_persistent(
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    causal: bool = False,
    layout: str = "BHSD",
    dtype: str = "float16",
    programs: int = 132,
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 2,
    q_stages: int = 1,
    head_group: int = 1,
    turns: bool = False,
) -> Any:
    """Return the kernel of these sizes: Q, K, V -> Output, in `layout` and `dtype`.

    Every 64 of the `block_m` queries of a tile have a warp group; one more copies. `stages` blocks
    of keys, and of values, and `q_stages` tiles of queries are on the chip at once. The tiles of
    `head_group` heads (a divisor of batch times heads) come one after the other, long ones first.
    With `turns`, the warp groups start their products one after the other.
    """
    accum = "float32"
    bhsd = layout == "BHSD"
    q_shape = [batch, heads, seq_q, dim] if bhsd else [batch, seq_q, heads, dim]
    kv_shape = [batch, heads, seq_kv, dim] if bhsd else [batch, seq_kv, heads, dim]
    groups = block_m // 64
    computing = groups * 128
    tiles = -(-seq_q // block_m)
    all_blocks = -(-seq_kv // block_n)
    ragged = seq_kv % block_n != 0
    items = tiles * batch * heads
    rounds = -(-items // programs)
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E
    # concept: query-offset
    past_len = seq_kv - seq_q

    def item_of(n: Any, program: Any) -> Any:
        """Return a program's n-th tile. The order turns round each time.

        Tiles get shorter: who had the longest of one round gets the shortest of the next.
        """
        return n * programs + program + n % 2 * (programs - 1 - program * 2)

    def first_of(item: Any) -> Any:
        """Return the first query of a tile; causal ones are longer the later they are."""
        place = item % (tiles * head_group) // head_group
        return (tiles - 1 - place if causal else place) * block_m

    def head_of(item: Any) -> Any:
        """Return the head of a tile, counted through all samples."""
        return item // (tiles * head_group) * head_group + item % head_group

    def blocks_of(first: Any) -> Any:
        """Return how many blocks of keys the queries of a tile see."""
        if not causal:
            return all_blocks
        return T.min(all_blocks, T.ceildiv(first + block_m + past_len, block_n))

    @T.macro
    def softmax(t, first, acc_s, m, m_prev, rescale, row_sum, l):
        """Turn the scores of block t into probabilities; bring maximum and denominator along."""
        # Only blocks that reach over the diagonal have something to hide.
        # concept: causal-mask, mask-value
        if causal:
            if (t + 1) * block_n > first + past_len + 1:
                for i, j in T.Parallel(block_m, block_n):
                    acc_s[i, j] = T.if_then_else(
                        first + i + past_len >= t * block_n + j, acc_s[i, j], -T.infinity(accum)
                    )
        # A causal query stands inside the sequence: what it sees does, too.
        # concept: boundary-mask, mask-value
        if ragged and not causal:
            if t == all_blocks - 1:
                for i, j in T.Parallel(block_m, block_n):
                    acc_s[i, j] = T.if_then_else(
                        t * block_n + j < seq_kv, acc_s[i, j], -T.infinity(accum)
                    )
        # Every query sees key 0, so the maximum is finite from the first block on.
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=False)
        # concept: rescale-factor
        for i in T.Parallel(block_m):
            rescale[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
        # concept: probability
        for i, j in T.Parallel(block_m, block_n):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
        # concept: row-sum
        T.reduce_sum(acc_s, row_sum, dim=1)
        # concept: denominator
        for i in T.Parallel(block_m):
            l[i] = l[i] * rescale[i] + row_sum[i]

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Output: T.Tensor(q_shape, dtype),
    ):
        # concept: kernel-grid
        with T.Kernel(programs, threads=computing + 128) as px:
            Q_shared = T.alloc_shared([q_stages, block_m, dim], dtype)
            K_shared = T.alloc_shared([stages, block_n, dim], dtype)
            V_shared = T.alloc_shared([stages, block_n, dim], dtype)
            acc_s = T.alloc_fragment([block_m, block_n], accum)
            p = T.alloc_fragment([block_m, block_n], dtype)
            acc_o = T.alloc_fragment([block_m, dim], accum)
            m = T.alloc_fragment([block_m], accum)
            m_prev = T.alloc_fragment([block_m], accum)
            rescale = T.alloc_fragment([block_m], accum)
            row_sum = T.alloc_fragment([block_m], accum)
            l = T.alloc_fragment([block_m], accum)
            q_ready = T.alloc_barrier([128] * q_stages)
            q_free = T.alloc_barrier([computing] * q_stages)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            k_free = T.alloc_barrier([computing] * stages)
            v_free = T.alloc_barrier([computing] * stages)
            turn = T.alloc_barrier([128] * groups)
            done = T.alloc_var("int32", 0)  # blocks of keys of the tiles before: stages go on

            tx = T.get_thread_binding()
            if tx >= computing:  # the warp group that copies
                T.set_max_nreg(24, 0)
                for n in T.serial(rounds):
                    item = item_of(n, px)
                    if item < items:
                        first = first_of(item)
                        head = head_of(item) % heads
                        sample = head_of(item) // heads
                        blocks = blocks_of(first)
                        qs = n % q_stages
                        T.mbarrier_wait_parity(q_free[qs], ((n // q_stages) & 1) ^ 1)
                        if bhsd:
                            T.tma_copy(
                                Q[sample, head, first : first + block_m, :],
                                Q_shared[qs, :, :],
                                barrier=q_ready[qs],
                            )
                        else:
                            T.tma_copy(
                                Q[sample, first : first + block_m, head, :],
                                Q_shared[qs, :, :],
                                barrier=q_ready[qs],
                            )
                        T.mbarrier_arrive(q_ready[qs])
                        for t in T.serial(blocks):
                            c = done + t
                            T.mbarrier_wait_parity(k_free[c % stages], ((c // stages) & 1) ^ 1)
                            if bhsd:
                                T.tma_copy(
                                    K[sample, head, t * block_n : (t + 1) * block_n, :],
                                    K_shared[c % stages, :, :],
                                    barrier=k_ready[c % stages],
                                )
                            else:
                                T.tma_copy(
                                    K[sample, t * block_n : (t + 1) * block_n, head, :],
                                    K_shared[c % stages, :, :],
                                    barrier=k_ready[c % stages],
                                )
                            T.mbarrier_arrive(k_ready[c % stages])
                            T.mbarrier_wait_parity(v_free[c % stages], ((c // stages) & 1) ^ 1)
                            if bhsd:
                                T.tma_copy(
                                    V[sample, head, t * block_n : (t + 1) * block_n, :],
                                    V_shared[c % stages, :, :],
                                    barrier=v_ready[c % stages],
                                )
                            else:
                                T.tma_copy(
                                    V[sample, t * block_n : (t + 1) * block_n, head, :],
                                    V_shared[c % stages, :, :],
                                    barrier=v_ready[c % stages],
                                )
                            T.mbarrier_arrive(v_ready[c % stages])
                        done += blocks
            else:  # those that compute
                T.set_max_nreg(240 if groups == 2 else 160, 1)
                for n in T.serial(rounds):
                    item = item_of(n, px)
                    if item < items:
                        first = first_of(item)
                        head = head_of(item) % heads
                        sample = head_of(item) // heads
                        # concept: loop-range
                        blocks = blocks_of(first)
                        # concept: state-init
                        T.fill(acc_o, 0)
                        T.fill(l, 0)
                        T.fill(m, -T.infinity(accum))

                        qs = n % q_stages
                        T.mbarrier_wait_parity(q_ready[qs], (n // q_stages) & 1)
                        T.mbarrier_wait_parity(k_ready[done % stages], (done // stages) & 1)
                        # concept: qk-gemm
                        T.wgmma_gemm(
                            Q_shared[qs, :, :],
                            K_shared[done % stages, :, :],
                            acc_s,
                            transpose_B=True,
                            policy=T.GemmWarpPolicy.FullRow,
                            clear_accum=True,
                        )
                        T.wait_wgmma(0)
                        # end
                        T.mbarrier_arrive(k_free[done % stages])
                        softmax(0, first, acc_s, m, m_prev, rescale, row_sum, l)
                        T.copy(acc_s, p)
                        # tilelang 0.1.15 makes a loop of one round, or none, one of one round.
                        if blocks > 1:
                            for s in T.serial(blocks - 1):  # concept: kv-loop
                                t = s + 1
                                b = done + s
                                c = done + t
                                T.mbarrier_wait_parity(k_ready[c % stages], (c // stages) & 1)
                                # A tile has a round less than blocks, and so have those before.
                                if turns:
                                    T.mbarrier_wait_parity(
                                        turn[tx // 128],
                                        ((b - n) & 1) ^ T.if_then_else(tx < 128, 1, 0),
                                    )
                                # concept: qk-gemm
                                T.wgmma_gemm(
                                    Q_shared[qs, :, :],
                                    K_shared[c % stages, :, :],
                                    acc_s,
                                    transpose_B=True,
                                    policy=T.GemmWarpPolicy.FullRow,
                                    clear_accum=True,
                                )
                                # end
                                T.mbarrier_wait_parity(v_ready[b % stages], (b // stages) & 1)
                                # concept: pv-gemm
                                T.wgmma_gemm(
                                    p,
                                    V_shared[b % stages, :, :],
                                    acc_o,
                                    policy=T.GemmWarpPolicy.FullRow,
                                )
                                # end
                                if turns:
                                    T.mbarrier_arrive(turn[(tx // 128 + 1) % groups])
                                T.wait_wgmma(1)  # the scores are there; the rest is under way
                                T.mbarrier_arrive(k_free[c % stages])
                                softmax(t, first, acc_s, m, m_prev, rescale, row_sum, l)
                                T.wait_wgmma(0)
                                T.mbarrier_arrive(v_free[b % stages])
                                # concept: acc-rescale
                                for i, j in T.Parallel(block_m, dim):
                                    acc_o[i, j] *= rescale[i]
                                # end
                                T.copy(acc_s, p)
                        T.mbarrier_arrive(q_free[qs])
                        last = done + blocks - 1
                        T.mbarrier_wait_parity(v_ready[last % stages], (last // stages) & 1)
                        # concept: pv-gemm
                        T.wgmma_gemm(
                            p, V_shared[last % stages, :, :], acc_o, policy=T.GemmWarpPolicy.FullRow
                        )
                        T.wait_wgmma(0)
                        T.mbarrier_arrive(v_free[last % stages])
                        # concept: normalise
                        for i, j in T.Parallel(block_m, dim):
                            acc_o[i, j] /= l[i]
                        # From registers: through shared memory, warp groups would have to wait.
                        # concept: epilogue-store
                        if bhsd:
                            T.copy(acc_o, Output[sample, head, first : first + block_m, :])
                        else:
                            T.copy(acc_o, Output[sample, first : first + block_m, head, :])
                        done += blocks

    return main


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    layout: str = "BHSD",
    tiling: "Tiling | None" = None,
) -> Any:
    """Return softmax(q k^T / sqrt(d)) v of CUDA tensors, in the type of q.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D]; with layout "BSHD" the second and
    third dimensions change places. Types float16 or bfloat16, D 64 or 128. Causal: the last query
    sees the last key. Without a `tiling`, the table of tilings has one for the device. ValueError
    or TypeError names the argument that does not fit.
    """
    sizes = launch.check(q, k, v, causal=causal, layout=layout)
    if sizes.kv_heads != sizes.heads:
        raise ValueError(f"k has {sizes.kv_heads} heads and q {sizes.heads}: kernels/gqa does that")
    if tiling is None:
        device = launch.device_name(q.device.index)
        small = Tiling(block_m=192, q_stages=2, turns=True)
        default = small if sizes.dim == 64 else Tiling()
        tiling = launch.tuned("mha_persistent", device, default, dim=sizes.dim, causal=causal)
    launch.check_cut(tiling, Tiling, block_m=launch.BLOCKS_M, block_n=launch.BLOCKS_N)
    return _compiled(sizes, causal, layout, _processors(q.device.index), tiling)(q, k, v)


@cache
def _processors(index: int) -> int:
    """Return how many programs a GPU has at once: one for each of its processors."""
    import torch

    return int(torch.cuda.get_device_properties(index).multi_processor_count)


@cache
def _compiled(
    sizes: launch.Sizes, causal: bool, layout: str, processors: int, tiling: Tiling
) -> Any:
    group = launch.divisor(tiling.head_group, sizes.batch * sizes.heads)
    items = -(-sizes.seq_q // tiling.block_m) * sizes.batch * sizes.heads
    return mha_persistent(
        sizes.batch,
        sizes.heads,
        sizes.seq_q,
        sizes.seq_kv,
        sizes.dim,
        causal,
        layout,
        sizes.dtype,
        min(processors, items),
        *tiling._replace(head_group=group),
    )
