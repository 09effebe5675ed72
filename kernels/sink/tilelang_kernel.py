"""Attention with a sink on Hopper GPUs in TileLang: one more logit in the denominator.

The kernel of kernels/window with grouped heads and one idea more: the sink joins at the end. It
has no value, so nothing else has to know of it.

Does what tilelang's `examples/attention_sink/example_mha_sink_fwd_bhsd.py` and the forward of
`example_gqa_sink_bwd_bhsd.py` do, scheduled as "FlashAttention-3" (Shah et al., 2024) proposes:
while the exponentials of one block of keys are computed, the product with the values of the block
before is under way. Three layers: `sink_forward` knows sizes and types, `main` inside it is the
kernel, `attention` checks tensors, chooses a tiling and launches.

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


@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def sink_forward(
    batch: int,
    heads: int,
    kv_heads: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    window_size: "int | None" = None,
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
    kv_shape = [batch, kv_heads, seq_kv, dim] if bhsd else [batch, seq_kv, kv_heads, dim]
    groups = block_m // 64
    computing = groups * 128
    tiles = -(-seq_q // block_m)
    window = window_size or seq_kv
    all_blocks = -(-seq_kv // block_n)
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    # concept: query-offset
    past_len = seq_kv - seq_q

    @T.macro
    def softmax(t, first, acc_s, m, m_prev, yard, rescale, row_sum, l):
        """Turn the scores of block t into probabilities; bring maximum and denominator along."""
        # Only blocks that reach over the diagonal have later keys to hide.
        # concept: causal-mask, mask-value
        if (t + 1) * block_n > first + past_len + 1:
            for i, j in T.Parallel(block_m, block_n):
                acc_s[i, j] = T.if_then_else(
                    first + i + past_len >= t * block_n + j, acc_s[i, j], -T.infinity(accum)
                )
        # Only blocks that begin before the last row's window have keys to hide that are too old.
        # concept: window-mask, mask-value
        if t * block_n + window < first + block_m + past_len:
            for i, j in T.Parallel(block_m, block_n):
                acc_s[i, j] = T.if_then_else(
                    first + i + past_len < t * block_n + j + window,
                    acc_s[i, j],
                    -T.infinity(accum),
                )
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=False)
        # A row that has seen no key yet has no maximum: any finite yardstick makes its terms 0, and
        # -inf - -inf would be NaN. The maximum itself stays -inf, so that no score is too small.
        # concept: check-inf
        for i in T.Parallel(block_m):
            yard[i] = T.if_then_else(m[i] == -T.infinity(accum), 0, m[i])
        # concept: rescale-factor
        for i in T.Parallel(block_m):
            rescale[i] = T.exp2(m_prev[i] * scale - yard[i] * scale)
        # concept: probability
        for i, j in T.Parallel(block_m, block_n):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - yard[i] * scale)
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
        Sinks: T.Tensor([heads], dtype),
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
            yard = T.alloc_fragment([block_m], accum)
            rescale = T.alloc_fragment([block_m], accum)
            row_sum = T.alloc_fragment([block_m], accum)
            l = T.alloc_fragment([block_m], accum)
            sinks = T.alloc_fragment([block_m], accum)
            q_ready = T.alloc_barrier(128)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            k_free = T.alloc_barrier([computing] * stages)
            v_free = T.alloc_barrier([computing] * stages)
            turn = T.alloc_barrier([128] * groups)

            # Without a window, rows are longer the later they are; the longest start first, and
            # none is left over for the end.
            bx = tiles - 1 - px // head_group if window_size is None else px // head_group
            head = (py * head_group + px % head_group) % heads
            sample = (py * head_group + px % head_group) // heads
            # concept: kv-head
            kv_head = head // (heads // kv_heads)

            first = bx * block_m
            # concept: window-start
            start = T.max(0, first + past_len + 1 - window) // block_n
            # concept: loop-range
            blocks = T.min(all_blocks, T.ceildiv(first + block_m + past_len, block_n)) - start

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
                            K[
                                sample,
                                kv_head,
                                (start + t) * block_n : (start + t + 1) * block_n,
                                :,
                            ],
                            K_shared[t % stages, :, :],
                            barrier=k_ready[t % stages],
                        )
                    else:
                        T.tma_copy(
                            K[
                                sample,
                                (start + t) * block_n : (start + t + 1) * block_n,
                                kv_head,
                                :,
                            ],
                            K_shared[t % stages, :, :],
                            barrier=k_ready[t % stages],
                        )
                    T.mbarrier_arrive(k_ready[t % stages])
                    T.mbarrier_wait_parity(v_free[t % stages], ((t // stages) & 1) ^ 1)
                    if bhsd:
                        T.tma_copy(
                            V[
                                sample,
                                kv_head,
                                (start + t) * block_n : (start + t + 1) * block_n,
                                :,
                            ],
                            V_shared[t % stages, :, :],
                            barrier=v_ready[t % stages],
                        )
                    else:
                        T.tma_copy(
                            V[
                                sample,
                                (start + t) * block_n : (start + t + 1) * block_n,
                                kv_head,
                                :,
                            ],
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

                # concept: sink-load
                for i in T.Parallel(block_m):
                    sinks[i] = Sinks[head]

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
                softmax(start, first, acc_s, m, m_prev, yard, rescale, row_sum, l)
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
                        softmax(start + t, first, acc_s, m, m_prev, yard, rescale, row_sum, l)
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
                # Softmax is a fraction, and the sink one more term of its denominator. It is a
                # logit: 1/sqrt(d) is not for it, log2(e) is.
                # concept: sink-epilogue
                for i in T.Parallel(block_m):
                    l[i] += T.exp2(sinks[i] * LOG2E - m[i] * scale)
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
    sinks: Any,
    *,
    window_size: "int | None" = None,
    layout: str = "BHSD",
    tiling: "launch.Tiling | None" = None,
) -> Any:
    """Return causal attention with a sink, in a window if one is given, of CUDA tensors.

    q [B, H, Sq, D], k and v [B, G, Skv, D] -> [B, H, Sq, D]; with layout "BSHD" the second and
    third dimensions change places. `sinks` [H], in the type of q, has a logit for each head. Types
    float16 or bfloat16, D 64 or 128. The last query stands at the last key. Without a `tiling`,
    the table of tilings has one for the device. ValueError or TypeError names the argument that
    does not fit.
    """
    sizes = launch.check(q, k, v, causal=True, layout=layout)
    launch.check_vector("sinks", sinks, q, sizes.heads)
    if window_size is not None and window_size < 1:
        raise ValueError(f"window_size is {window_size}: a query sees at least itself")
    tiling = tiling or launch.tiling_for(
        "sink", launch.device_name(q.device.index), sizes.dim, True, window_size is not None
    )
    kernel = _compiled(sizes, window_size, layout, tiling)
    return kernel(q, k, v, sinks)


@cache
def _compiled(
    sizes: launch.Sizes,
    window_size: "int | None",
    layout: str,
    tiling: launch.Tiling,
) -> Any:
    return sink_forward(
        sizes.batch,
        sizes.heads,
        sizes.kv_heads,
        sizes.seq_q,
        sizes.seq_kv,
        sizes.dim,
        window_size,
        layout,
        sizes.dtype,
        tiling.block_m,
        tiling.block_n,
        tiling.stages,
        launch.divisor(tiling.head_group, sizes.batch * sizes.heads),
        tiling.turns,
    )


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`.

    NotImplementedError for the gradients.
    """
    if len(run.inputs) != 4:
        raise NotImplementedError("the forward pass alone")
    q, k, _, _ = run.inputs
    batch, heads, seq_q, dim = q.shape
    kind = str(q.dtype)
    made = sink_forward(
        batch,
        heads,
        k.shape[1],
        seq_q,
        k.shape[2],
        dim,
        run.args[5],
        dtype=kind,
        block_n=64,
        turns=True,
    )
    return (made(*run.inputs),)
