"""Step 4 in TileLang, aligned with upstream: which keys a query sees; where the loop stops.

Blocks past a tile's last query are not visited. The step after this one is
kernels/mha/tilelang_kernel.py: it says itself which warp group copies and which compute, and lets
the products of one block run under the exponentials of the next.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, misc"
# TileLang reads the annotations of kernels as values, so they are no types, and must not be text.

from typing import Any

import tilelang
import tilelang.language as T

from kernels import launch

LOG2E = 1.4426950408889634
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


@tilelang.jit(out_idx=[3], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def aligned_forward(
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    causal: bool = False,
    dtype: str = "float16",
    block_m: int = 64,
    block_n: int = 64,
    stages: int = 2,
) -> Any:
    """Return the kernel of these sizes: Q, K, V [B, H, S, D] -> Output."""
    accum = "float32"
    q_shape = [batch, heads, seq_q, dim]
    kv_shape = [batch, heads, seq_kv, dim]
    all_blocks = -(-seq_kv // block_n)
    # concept: query-offset
    past_len = seq_kv - seq_q
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Output: T.Tensor(q_shape, dtype),
    ):
        # concept: kernel-grid
        with T.Kernel(T.ceildiv(seq_q, block_m), heads, batch, threads=128) as (bx, by, bz):
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

            first = bx * block_m
            T.copy(Q[bz, by, first : first + block_m, :], Q_shared)
            # concept: loop-range
            blocks = (
                T.min(all_blocks, T.ceildiv(first + block_m + past_len, block_n))
                if causal
                else all_blocks
            )
            # concept: state-init
            T.fill(m, -T.infinity(accum))
            T.fill(l, 0)
            T.fill(acc, 0)
            for t in T.Pipelined(blocks, num_stages=stages):  # concept: kv-loop
                T.copy(K[bz, by, t * block_n : (t + 1) * block_n, :], K_shared)
                # concept: qk-gemm
                T.gemm(
                    Q_shared,
                    K_shared,
                    s,
                    transpose_B=True,
                    policy=T.GemmWarpPolicy.FullRow,
                    clear_accum=True,
                )
                # A causal query stands inside the sequence: what it sees does, too.
                if causal:
                    # concept: causal-mask, mask-value
                    for i, j in T.Parallel(block_m, block_n):
                        s[i, j] = T.if_then_else(
                            first + i + past_len >= t * block_n + j, s[i, j], -T.infinity(accum)
                        )
                else:
                    # concept: boundary-mask, mask-value
                    for i, j in T.Parallel(block_m, block_n):
                        s[i, j] = T.if_then_else(
                            t * block_n + j < seq_kv, s[i, j], -T.infinity(accum)
                        )
                # concept: row-max
                T.copy(m, m_prev)
                T.reduce_max(s, m, dim=1, clear=False)
                # concept: rescale-factor
                for i in T.Parallel(block_m):
                    rescale[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
                # concept: probability
                for i, j in T.Parallel(block_m, block_n):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                # concept: row-sum
                T.reduce_sum(s, row_sum, dim=1)
                # concept: denominator
                for i in T.Parallel(block_m):
                    l[i] = l[i] * rescale[i] + row_sum[i]
                # concept: acc-rescale
                for i, j in T.Parallel(block_m, dim):
                    acc[i, j] *= rescale[i]
                # end
                T.copy(s, p)
                T.copy(V[bz, by, t * block_n : (t + 1) * block_n, :], V_shared)
                # concept: pv-gemm
                T.gemm(p, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            # concept: normalise
            for i, j in T.Parallel(block_m, dim):
                acc[i, j] /= l[i]
            # concept: epilogue-store
            T.copy(acc, Output[bz, by, first : first + block_m, :])

    return main


def attention(q: Any, k: Any, v: Any, *, causal: bool = False) -> Any:
    """Return softmax(q k^T / sqrt(d)) v of CUDA tensors [B, H, S, D], in the type of q."""
    sizes = launch.check(q, k, v, causal=causal, layout="BHSD")
    kernel = aligned_forward(
        sizes.batch, sizes.heads, sizes.seq_q, sizes.seq_kv, sizes.dim, causal, dtype=sizes.dtype
    )
    return kernel(q, k, v)
