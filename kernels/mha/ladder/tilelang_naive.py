"""Step 1 in TileLang, naive: scores S and probabilities P go to global memory and come back.

Four passes over the keys: scores, maximum, probabilities with their sum, product. Each program has
a tile of queries; what it writes, it alone reads.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, misc"
# TileLang reads the annotations of kernels as values, so they are no types, and must not be text.

from typing import Any

import tilelang
import tilelang.language as T

from kernels import launch

LOG2E = 1.4426950408889634
"""exp(x) is exp2(x * LOG2E), and exp2 is what the hardware has."""


@tilelang.jit(out_idx=[3, 4, 5], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def naive_forward(
    batch: int,
    heads: int,
    seq_q: int,
    seq_kv: int,
    dim: int,
    dtype: str = "float16",
    block_m: int = 64,
    block_n: int = 64,
) -> Any:
    """Return the kernel of these sizes: Q, K, V [B, H, S, D] -> Output, S and P."""
    accum = "float32"
    q_shape = [batch, heads, seq_q, dim]
    kv_shape = [batch, heads, seq_kv, dim]
    blocks = -(-seq_kv // block_n)
    square = [batch, heads, seq_q, blocks * block_n]  # as large as queries times keys
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Output: T.Tensor(q_shape, dtype),
        S: T.Tensor(square, accum),
        P: T.Tensor(square, dtype),
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
            row_sum = T.alloc_fragment([block_m], accum)
            l = T.alloc_fragment([block_m], accum)

            first = bx * block_m
            T.copy(Q[bz, by, first : first + block_m, :], Q_shared)
            T.fill(m, -T.infinity(accum))
            T.fill(l, 0)
            T.fill(acc, 0)
            for t in T.serial(blocks):  # all scores
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
                # concept: boundary-mask, mask-value
                for i, j in T.Parallel(block_m, block_n):
                    s[i, j] = T.if_then_else(t * block_n + j < seq_kv, s[i, j], -T.infinity(accum))
                # end
                T.copy(s, S[bz, by, first : first + block_m, t * block_n : (t + 1) * block_n])
            T.sync_threads()
            for t in T.serial(blocks):  # their maximum
                T.copy(S[bz, by, first : first + block_m, t * block_n : (t + 1) * block_n], s)
                # concept: row-max
                T.reduce_max(s, m, dim=1, clear=False)
            for t in T.serial(blocks):  # all probabilities, and their sum
                T.copy(S[bz, by, first : first + block_m, t * block_n : (t + 1) * block_n], s)
                # concept: probability
                for i, j in T.Parallel(block_m, block_n):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                # concept: row-sum
                T.reduce_sum(s, row_sum, dim=1)
                for i in T.Parallel(block_m):
                    l[i] += row_sum[i]
                # end
                T.copy(s, P[bz, by, first : first + block_m, t * block_n : (t + 1) * block_n])
            T.sync_threads()
            for t in T.serial(blocks):  # the mean of the values
                T.copy(P[bz, by, first : first + block_m, t * block_n : (t + 1) * block_n], p)
                T.copy(V[bz, by, t * block_n : (t + 1) * block_n, :], V_shared)
                # concept: pv-gemm
                T.gemm(p, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            # concept: normalise
            for i, j in T.Parallel(block_m, dim):
                acc[i, j] /= l[i]
            # concept: epilogue-store
            T.copy(acc, Output[bz, by, first : first + block_m, :])

    return main


def attention(q: Any, k: Any, v: Any) -> Any:
    """Return softmax(q k^T / sqrt(d)) v of CUDA tensors [B, H, S, D], in the type of q."""
    sizes = launch.check(q, k, v, causal=False, layout="BHSD")
    kernel = naive_forward(
        sizes.batch, sizes.heads, sizes.seq_q, sizes.seq_kv, sizes.dim, dtype=sizes.dtype
    )
    return kernel(q, k, v)[0]
