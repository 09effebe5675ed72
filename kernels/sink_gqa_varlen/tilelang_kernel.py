"""Sink, window, grouped heads and packed samples at once on Hopper GPUs in TileLang.

The kernel of kernels/varlen with the loop bounds and the second mask of kernels/window, and the
sink of kernels/sink at the end. Does what tilelang's
`examples/attention_sink/example_gqa_sink_fwd_varlen.py` does, scheduled as "FlashAttention-3" (Shah
et al., 2024) proposes: one warp group copies, and while the others compute the exponentials of one
block of keys, the product with the values of the block before is under way. Three layers:
`sink_gqa_varlen_forward` knows heads and types, `main` inside it is the kernel, `attention` checks
tensors, chooses a tiling and launches. Numbers of samples and of tokens are arguments of the
compiled kernel: a batch of other lengths compiles nothing.

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
LOWEST = -(2.0**100)
"""The maximum before any key: below every score, and finite, so that a row that has seen nothing
has differences of 0 and -inf, and no -inf - -inf, which is NaN. A power of two, so that its product
with the scale is exact: a fused multiply-add leaves what the other product was rounded by, and of
3e38 that is far too much for an exponential."""
HIGH, SQUARE = launch.Tiling(192, 128, 2, 8, True), launch.Tiling(128, 128, 2, 8)
"""Tilings for devices that the table does not know: the first for head size 64 without a window,
as the sweep of dense attention chose on an H200. A window has two edges, and high tiles visit many
keys along them that they have to hide."""


@tilelang.jit(out_idx=[7], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def sink_gqa_varlen_forward(
    heads: int,
    kv_heads: int,
    dim: int,
    causal: bool = True,
    window_size: "int | None" = None,
    dtype: str = "float16",
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 2,
    head_group: int = 1,
    turns: bool = False,
) -> Any:
    """Return the kernel: Q, K, V, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, Sinks -> Output.

    Every 64 of the `block_m` queries of a program have a warp group; one more copies. `stages`
    blocks of keys, and of values, are on the chip at once. `head_group` heads (a divisor of
    `heads`) are worked on side by side before the next ones. With `turns`, the warp groups start
    their products one after the other, so that one has the matrix units while another has the
    exponentials.
    """
    accum = "float32"
    total_q, total_k, starts = T.dynamic("total_q, total_k, starts")
    groups = block_m // 64
    computing = groups * 128
    # concept: kv-head-count
    heads_per_kv_head = heads // kv_heads
    windowed = window_size is not None
    window = window_size or 0
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    @T.macro
    def softmax(t, first, offset, seq_k, acc_s, m, m_prev, rescale, row_sum, l):
        """Turn the scores of block t into probabilities; bring maximum and denominator along."""
        # Only blocks that reach over the diagonal have something to hide. A query that exists
        # stands inside the sample: what it sees does, too, and keys of the next sample it does not.
        # concept: causal-mask, mask-value
        if causal:
            if (t + 1) * block_n > first + offset + 1:
                for i, j in T.Parallel(block_m, block_n):
                    acc_s[i, j] = T.if_then_else(
                        first + i + offset >= t * block_n + j, acc_s[i, j], -T.infinity(accum)
                    )
        # The last block reads on into the next sample.
        # concept: boundary-mask, mask-value
        if not causal:
            if (t + 1) * block_n > seq_k:
                for i, j in T.Parallel(block_m, block_n):
                    acc_s[i, j] = T.if_then_else(
                        t * block_n + j < seq_k, acc_s[i, j], -T.infinity(accum)
                    )
        # Only blocks that begin before the last row's window have keys to hide that are too old.
        # concept: window-mask, mask-value
        if windowed:
            if t * block_n + window < first + block_m + offset:
                for i, j in T.Parallel(block_m, block_n):
                    acc_s[i, j] = T.if_then_else(
                        first + i + offset < t * block_n + j + window,
                        acc_s[i, j],
                        -T.infinity(accum),
                    )
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
        Q: T.Tensor([total_q, heads, dim], dtype),
        K: T.Tensor([total_k, kv_heads, dim], dtype),
        V: T.Tensor([total_k, kv_heads, dim], dtype),
        cu_seqlens_q: T.Tensor([starts], "int32"),
        cu_seqlens_k: T.Tensor([starts], "int32"),
        max_seqlen_q: T.int32,
        Sinks: T.Tensor([heads], dtype),
        Output: T.Tensor([total_q, heads, dim], dtype),
    ):
        # concept: kernel-grid
        with T.Kernel(
            T.ceildiv(max_seqlen_q, block_m) * head_group,
            heads // head_group,
            starts - 1,
            threads=computing + 128,
        ) as (px, py, sample):
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
            sinks = T.alloc_fragment([block_m], accum)
            q_ready = T.alloc_barrier(128)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            k_free = T.alloc_barrier([computing] * stages)
            v_free = T.alloc_barrier([computing] * stages)
            turn = T.alloc_barrier([128] * groups)

            # concept: cu-seqlens
            q_start = cu_seqlens_q[sample]
            k_start = cu_seqlens_k[sample]
            seq_q = cu_seqlens_q[sample + 1] - q_start
            seq_k = cu_seqlens_k[sample + 1] - k_start

            # concept: query-offset
            offset = seq_k - seq_q

            # Causal rows are longer the later they are; the longest start first, and none is left
            # over for the end. The sample's own last tile is the first, not the longest sample's.
            tiles = T.ceildiv(seq_q, block_m)
            bx = tiles - 1 - px // head_group if causal else px // head_group
            head = py * head_group + px % head_group
            # concept: kv-head
            kv_head = head // heads_per_kv_head

            first = bx * block_m
            row = q_start + first
            # concept: window-start
            start = T.max(0, first + offset + 1 - window) // block_n if windowed else 0
            # A tile that sees nothing has one block all the same, and hides all of it.
            # concept: loop-range
            end = T.min(seq_k, first + block_m + offset) if causal else seq_k
            blocks = T.max(1, T.ceildiv(end, block_n) - start)

            tx = T.get_thread_binding()
            if px // head_group < tiles:
                if tx >= computing:  # the warp group that copies
                    T.set_max_nreg(24, 0)
                    T.tma_copy(Q[row : row + block_m, head, :], Q_shared, barrier=q_ready)
                    T.mbarrier_arrive(q_ready)
                    for t in T.serial(blocks):
                        key = k_start + (start + t) * block_n
                        T.mbarrier_wait_parity(k_free[t % stages], ((t // stages) & 1) ^ 1)
                        T.tma_copy(
                            K[key : key + block_n, kv_head, :],
                            K_shared[t % stages, :, :],
                            barrier=k_ready[t % stages],
                        )
                        T.mbarrier_arrive(k_ready[t % stages])
                        T.mbarrier_wait_parity(v_free[t % stages], ((t // stages) & 1) ^ 1)
                        T.tma_copy(
                            V[key : key + block_n, kv_head, :],
                            V_shared[t % stages, :, :],
                            barrier=v_ready[t % stages],
                        )
                        T.mbarrier_arrive(v_ready[t % stages])
                else:  # those that compute
                    T.set_max_nreg(240 if groups == 2 else 160, 1)
                    # concept: state-init
                    T.fill(acc_o, 0)
                    T.fill(l, 0)
                    T.fill(m, LOWEST)

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
                    softmax(start, first, offset, seq_k, acc_s, m, m_prev, rescale, row_sum, l)
                    T.copy(acc_s, p)
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
                        softmax(
                            start + t, first, offset, seq_k, acc_s, m, m_prev, rescale, row_sum, l
                        )
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
                    # logit: 1/sqrt(d) is not for it, log2(e) is. In a row that sees nothing it is
                    # infinite, and the row 0.
                    # concept: sink-epilogue
                    for i in T.Parallel(block_m):
                        l[i] += T.exp2(sinks[i] * LOG2E - m[i] * scale)
                    # concept: normalise, empty-row
                    for i, j in T.Parallel(block_m, dim):
                        acc_o[i, j] = T.if_then_else(l[i] > 0, acc_o[i, j] / l[i], 0)
                    # Rows past the sample are another program's. A bulk copy writes whole tiles, so
                    # the sample's last tile goes row by row.
                    # concept: varlen-guard, epilogue-store
                    if first + block_m <= seq_q:
                        # Each warp group has read its own rows of Q for the last time.
                        T.copy(acc_o, Q_shared)
                        T.fence_proxy_async()
                        T.copy(Q_shared, Output[row : row + block_m, head, :])
                    else:
                        for i, j in T.Parallel(block_m, dim):
                            if first + i < seq_q:
                                Output[row + i, head, j] = acc_o[i, j]

    return main


def attention(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    sinks: Any,
    *,
    causal: bool = True,
    window_size: "int | None" = None,
    max_seqlen_q: "int | None" = None,
    tiling: "launch.Tiling | None" = None,
) -> Any:
    """Return attention with a sink within each sample of CUDA tensors, in the type of q.

    q [Tq, H, D], k and v [Tk, G, D] -> [Tq, H, D]; sample b owns the rows from cu_seqlens[b] up to
    cu_seqlens[b + 1], both int32. Query head h reads KV head h // (H // G), and `sinks` [H], in the
    type of q, has its logit. Types float16 or bfloat16, D 64 or 128. The last query of a sample
    stands at its last key; with a window, keys that are `window_size` or more behind are hidden,
    and those ahead only when causal. A query that sees no key gives 0.

    Without `max_seqlen_q`, the lengths are read from the GPU and checked; with it, nobody waits,
    and rows of samples that are longer, or that none owns, are left as they are found. Without a
    `tiling`, the table of tilings has one for the device. ValueError or TypeError names the
    argument that does not fit.
    """
    sizes = _checked(q, k, v, cu_seqlens_q, cu_seqlens_k)
    launch.check_vector("sinks", sinks, q, sizes.heads)
    if window_size is not None and window_size < 1:
        raise ValueError(f"window_size is {window_size}: a query sees at least itself")
    if max_seqlen_q is None:
        max_seqlen_q = max(launch.lengths("cu_seqlens_q", cu_seqlens_q, sizes.seq_q))
        launch.lengths("cu_seqlens_k", cu_seqlens_k, sizes.seq_kv)
    if max_seqlen_q < 1:
        raise ValueError(f"max_seqlen_q is {max_seqlen_q}: the longest sample has a query")
    if tiling is None:
        key = {"dim": sizes.dim, "causal": causal, "windowed": window_size is not None}
        device = launch.device_name(q.device.index)
        default = HIGH if sizes.dim == 64 and window_size is None else SQUARE
        tiling = launch.tuned("sink_gqa_varlen", device, default, **key)
    kernel = _compiled(
        sizes.heads, sizes.kv_heads, sizes.dim, causal, window_size, sizes.dtype, tiling
    )
    return kernel(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, sinks)


def _checked(q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any) -> launch.Sizes:
    """Return the sizes of packed tensors, with all their rows as one sample."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if hasattr(tensor, "shape") and len(tensor.shape) != 3:
            raise ValueError(f"{name} is {list(tensor.shape)}, and has to be [tokens, heads, D]")
    one = (x[None] if hasattr(x, "shape") else x for x in (q, k, v))
    sizes = launch.check(*one, causal=False, layout="BSHD")
    launch.check_starts("cu_seqlens_q", cu_seqlens_q, q)
    launch.check_starts("cu_seqlens_k", cu_seqlens_k, q)
    if cu_seqlens_q.shape != cu_seqlens_k.shape:
        raise ValueError(
            f"cu_seqlens_k is {list(cu_seqlens_k.shape)}, and cu_seqlens_q "
            f"{list(cu_seqlens_q.shape)}: they have to be alike"
        )
    return sizes


@cache
def _compiled(
    heads: int,
    kv_heads: int,
    dim: int,
    causal: bool,
    window_size: "int | None",
    dtype: str,
    tiling: launch.Tiling,
) -> Any:
    return sink_gqa_varlen_forward(
        heads,
        kv_heads,
        dim,
        causal,
        window_size,
        dtype,
        tiling.block_m,
        tiling.block_n,
        tiling.stages,
        launch.divisor(tiling.head_group, heads),
        tiling.turns,
    )


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`."""
    q, k = run.inputs[:2]
    _, heads, dim = q.shape
    causal, size = run.args[6:8]
    kind = str(q.dtype)
    made = sink_gqa_varlen_forward(
        heads, k.shape[1], dim, causal, size, kind, block_n=64, turns=True
    )
    return (made(*run.inputs),)
