"""Attention on Hopper GPUs in TileLang: one warp group copies, the others compute.

Does what tilelang's `examples/flash_attention/example_mha_fwd_bhsd.py` and
`example_mha_fwd_bshd.py` do, scheduled as "FlashAttention-3" (Shah et al., 2024) proposes: while
the exponentials of one block of keys are computed, the product with the values of the block before
is under way. Three layers: `mha_forward` knows sizes and types, `main` inside it is the kernel,
`attention` checks tensors, chooses a tiling and launches.

Runs on a GPU of compute capability 9.0 (tilelang >= 0.1.15), and in srcmap's interpreter anywhere.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, misc"
# TileLang reads the annotations of kernels as values, so they are no types, and must not be text.

from functools import cache
from typing import Any

import tilelang
import tilelang.language as T

from kernels import launch

LOG2E = 1.4426950408889634
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def mha_forward(
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    causal: bool = False,
    layout: str = "BHSD",
    dtype: str = "float16",
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 2,
    head_group: int = 1,
    turns: bool = False,
) -> Any:
    """Return the kernel of these sizes: Q, K, V -> Output, in `layout` and `dtype`.

    Every 64 of the `block_m` queries of a program have a warp group; one more copies. `stages`
    blocks of keys, and of values, are on the chip at once. `head_group` heads (a divisor of batch
    times heads) are worked on side by side before the next ones. With `turns`, the warp groups
    start their products one after the other, so that one has the matrix units while another has
    the exponentials.
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
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    # concept: query-offset
    past_len = seq_kv - seq_q

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
        with T.Kernel(tiles * head_group, batch * heads // head_group, threads=computing + 128) as (
            px,
            py,
        ):
            Q_shared = T.alloc_shared([block_m, dim], dtype)
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
            q_ready = T.alloc_barrier(128)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            k_free = T.alloc_barrier([computing] * stages)
            v_free = T.alloc_barrier([computing] * stages)
            turn = T.alloc_barrier([128] * groups)

            # Causal rows are longer the later they are; the longest start first, and none is left
            # over for the end.
            bx = tiles - 1 - px // head_group if causal else px // head_group
            head = (py * head_group + px % head_group) % heads
            sample = (py * head_group + px % head_group) // heads
            first = bx * block_m
            # concept: loop-range
            blocks = (
                T.min(all_blocks, T.ceildiv(first + block_m + past_len, block_n))
                if causal
                else all_blocks
            )

            tx = T.get_thread_binding()
            if tx >= computing:  # the warp group that copies
                T.set_max_nreg(24, 0)
                if bhsd:
                    T.tma_copy(
                        Q[sample, head, first : first + block_m, :], Q_shared, barrier=q_ready
                    )
                else:
                    T.tma_copy(
                        Q[sample, first : first + block_m, head, :], Q_shared, barrier=q_ready
                    )
                T.mbarrier_arrive(q_ready)
                for t in T.serial(blocks):
                    T.mbarrier_wait_parity(k_free[t % stages], ((t // stages) & 1) ^ 1)
                    if bhsd:
                        T.tma_copy(
                            K[sample, head, t * block_n : (t + 1) * block_n, :],
                            K_shared[t % stages, :, :],
                            barrier=k_ready[t % stages],
                        )
                    else:
                        T.tma_copy(
                            K[sample, t * block_n : (t + 1) * block_n, head, :],
                            K_shared[t % stages, :, :],
                            barrier=k_ready[t % stages],
                        )
                    T.mbarrier_arrive(k_ready[t % stages])
                    T.mbarrier_wait_parity(v_free[t % stages], ((t // stages) & 1) ^ 1)
                    if bhsd:
                        T.tma_copy(
                            V[sample, head, t * block_n : (t + 1) * block_n, :],
                            V_shared[t % stages, :, :],
                            barrier=v_ready[t % stages],
                        )
                    else:
                        T.tma_copy(
                            V[sample, t * block_n : (t + 1) * block_n, head, :],
                            V_shared[t % stages, :, :],
                            barrier=v_ready[t % stages],
                        )
                    T.mbarrier_arrive(v_ready[t % stages])
            else:  # those that compute
                T.set_max_nreg(240 if groups == 2 else 160, 1)
                # concept: state-init
                T.fill(acc_o, 0)
                T.fill(l, 0)
                T.fill(m, -T.infinity(accum))

                T.mbarrier_wait_parity(q_ready, 0)
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
                softmax(0, first, acc_s, m, m_prev, rescale, row_sum, l)
                T.copy(acc_s, p)
                # tilelang 0.1.15 makes a loop of one round, or none, one of one round.
                if blocks > 1:
                    for s in T.serial(blocks - 1):  # concept: kv-loop
                        t = s + 1
                        T.mbarrier_wait_parity(k_ready[t % stages], (t // stages) & 1)
                        if turns:
                            T.mbarrier_wait_parity(
                                turn[tx // 128], (s & 1) ^ T.if_then_else(tx < 128, 1, 0)
                            )
                        # concept: qk-gemm
                        T.wgmma_gemm(
                            Q_shared,
                            K_shared[t % stages, :, :],
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
                        if turns:
                            T.mbarrier_arrive(turn[(tx // 128 + 1) % groups])
                        T.wait_wgmma(1)  # the scores are there, the second product is under way
                        T.mbarrier_arrive(k_free[t % stages])
                        softmax(t, first, acc_s, m, m_prev, rescale, row_sum, l)
                        T.wait_wgmma(0)
                        T.mbarrier_arrive(v_free[s % stages])
                        # concept: acc-rescale
                        for i, j in T.Parallel(block_m, dim):
                            acc_o[i, j] *= rescale[i]
                        # end
                        T.copy(acc_s, p)
                last = blocks - 1
                T.mbarrier_wait_parity(v_ready[last % stages], (last // stages) & 1)
                # concept: pv-gemm
                T.wgmma_gemm(
                    p, V_shared[last % stages, :, :], acc_o, policy=T.GemmWarpPolicy.FullRow
                )
                T.wait_wgmma(0)
                # concept: normalise
                for i, j in T.Parallel(block_m, dim):
                    acc_o[i, j] /= l[i]
                # Each warp group has read its own rows of Q for the last time.
                # concept: epilogue-store
                T.copy(acc_o, Q_shared)
                T.fence_proxy_async()
                if bhsd:
                    T.copy(Q_shared, Output[sample, head, first : first + block_m, :])
                else:
                    T.copy(Q_shared, Output[sample, first : first + block_m, head, :])

    return main


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    layout: str = "BHSD",
    tiling: "launch.Tiling | None" = None,
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
    tiling = tiling or launch.tiling_for(
        "mha", launch.device_name(q.device.index), sizes.dim, causal
    )
    kernel = _compiled(sizes, causal, layout, tiling)
    return kernel(q, k, v)


@cache
def _compiled(
    sizes: launch.Sizes,
    causal: bool,
    layout: str,
    tiling: launch.Tiling,
) -> Any:
    return mha_forward(
        sizes.batch,
        sizes.heads,
        sizes.seq_q,
        sizes.seq_kv,
        sizes.dim,
        causal,
        layout,
        sizes.dtype,
        tiling.block_m,
        tiling.block_n,
        tiling.stages,
        launch.divisor(tiling.head_group, sizes.batch * sizes.heads),
        tiling.turns,
    )


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`."""
    q, k, _ = run.inputs
    bhsd = len(run.args) == 6
    batch, heads, seq_q, dim = q.shape if bhsd else (q.shape[0], q.shape[2], q.shape[1], q.shape[3])
    made = mha_forward(
        batch,
        heads,
        seq_q,
        k.shape[2 if bhsd else 1],
        dim,
        causal=run.args[5 if bhsd else 4],
        layout="BHSD" if bhsd else "BSHD",
        dtype=str(q.dtype),
        block_n=64,
        turns=True,
    )
    return (made(*run.inputs),)
