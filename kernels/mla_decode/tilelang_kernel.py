"""Decoding with MLA on Hopper GPUs in TileLang, in two forms: for many heads and for few.

Does what tilelang's `examples/deepseek_mla/example_mla_decode.py` does: the latent of a block of
keys lies in shared memory once, as key and as value.

Many heads are scheduled like "FlashMLA" (DeepSeek, 2025). Heads are the rows of a tile, and 512
columns of output for 64 of them are too many numbers for one warp group, so two hold a half each:
the first computes the scores, the probabilities and the left half, the second the right half. A
third copies. With few heads, most of those rows would be empty, and the products take as long as
for 64. So keys are the rows there, and heads the columns: one warp group does all of it, in half of
the time.

Partial results of a split are in float32 (upstream: in float16, see README).

Three layers: `mla_decode_forward` knows sizes and types, `main` inside it is the pair of kernels,
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
"""Query heads of a tile: what one warp group multiplies. Rows beyond the heads are not stored."""
BLOCK_N = 64
"""Keys of a block: two blocks of 576 numbers and a tile of queries fill the shared memory."""
STAGES = 2
WIDTH = 128
"""Numbers of a head's output that a program of the second kernel merges."""
DIM = 512
PE_DIM = 64
COLUMNS = 16
"""Query heads of a tile where they are columns, and keys are its rows."""
FEW = 16
"""With no more heads, one such tile holds all of them."""
MANY = 128
"""With so many tiles of heads, there is work for all multiprocessors without splits."""


class Tiling(NamedTuple):
    """How the work is cut. `programs`: how many there are to be, to fill the GPU.

    `columns`: whether heads are the columns of a tile, 16 of them, and keys its rows. Else heads
    are the rows, 64 of them, and `lag` says when the right half of the output may go on with a
    block: 0 at once, beside the next scores; 2 when they are done, beside the exponentials of the
    first warp group; 1 in between.
    """

    programs: int = 132
    lag: int = 2
    columns: bool = False

    def splits(self, batch: int, heads: int, seq_kv: int) -> int:
        """Return into how many splits the keys go: none is without a block."""
        wanted = self.programs // (batch * -(-heads // (COLUMNS if self.columns else ROWS)))
        return max(1, min(wanted, -(-seq_kv // BLOCK_N)))


@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def mla_decode_forward(
    batch: int,
    heads: int,
    seq_kv: int,
    splits: int = 1,
    softmax_scale: "float | None" = None,
    dtype: str = "float16",
    dim: int = DIM,
    pe_dim: int = PE_DIM,
    lag: int = 2,
    columns: bool = False,
) -> Any:
    """Return the kernels of these sizes: Q, Q_pe, KV, K_pe -> Output.

    Each of the `splits` programs of a tile of heads reads as many blocks of keys as the others, or
    one less; there may not be more splits than blocks. With one split there is no second kernel.
    """
    accum = "float32"
    half = dim // 2
    q_shape = [batch, heads, dim]
    q_pe_shape = [batch, heads, pe_dim]
    kv_shape = [batch, seq_kv, 1, dim]
    k_pe_shape = [batch, seq_kv, 1, pe_dim]
    tiles = -(-heads // (COLUMNS if columns else ROWS))
    share, more = divmod(-(-seq_kv // BLOCK_N), splits)
    padded = -(-splits // 128) * 128
    # concept: softmax-scale
    scale = ((dim + pe_dim) ** -0.5 if softmax_scale is None else softmax_scale) * LOG2E

    @T.macro
    def score(t, Q_left, Q_right, Q_pe_shared, K_left, K_right, K_pe_shared, left_ready,
              right_ready, acc_s):  # fmt: skip
        """Start the products of the queries with block t: latent and rotary part."""
        T.mbarrier_wait_parity(left_ready[t % STAGES], (t // STAGES) & 1)
        # concept: qk-gemm
        T.wgmma_gemm(
            Q_left,
            K_left[t % STAGES, :, :],
            acc_s,
            transpose_B=True,
            policy=T.GemmWarpPolicy.FullRow,
            clear_accum=True,
        )
        T.wgmma_gemm(
            Q_pe_shared,
            K_pe_shared[t % STAGES, :, :],
            acc_s,
            transpose_B=True,
            policy=T.GemmWarpPolicy.FullRow,
        )
        # end
        T.mbarrier_wait_parity(right_ready[t % STAGES], (t // STAGES) & 1)
        # concept: qk-gemm
        T.wgmma_gemm(
            Q_right,
            K_right[t % STAGES, :, :],
            acc_s,
            transpose_B=True,
            policy=T.GemmWarpPolicy.FullRow,
        )

    @T.macro
    def softmax(first, acc_s, m, m_prev, rescale, row_sum, l):
        """Turn scores into probabilities; bring maximum and denominator along."""
        # Only the last block can reach past the end, and it has a key: the maximum is finite.
        # concept: boundary-mask, mask-value
        if seq_kv % BLOCK_N != 0:
            if first + BLOCK_N > seq_kv:
                for i, j in T.Parallel(ROWS, BLOCK_N):
                    acc_s[i, j] = T.if_then_else(
                        first + j < seq_kv, acc_s[i, j], -T.infinity(accum)
                    )
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=False)
        # concept: rescale-factor
        for i in T.Parallel(ROWS):
            rescale[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
        # concept: probability
        for i, j in T.Parallel(ROWS, BLOCK_N):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
        # concept: row-sum
        T.reduce_sum(acc_s, row_sum, dim=1)
        # concept: denominator
        for i in T.Parallel(ROWS):
            l[i] = l[i] * rescale[i] + row_sum[i]

    @T.macro
    def hand_over(t, p, rescale, P_shared, rescale_shared, p_ready, p_free):
        """Lay out what the other warp group needs of block t. With a lag, it is told later."""
        T.mbarrier_wait_parity(p_free, (t & 1) ^ 1)
        T.copy(p, P_shared)
        T.copy(rescale, rescale_shared)
        if lag == 0:
            T.mbarrier_arrive(p_ready)

    @T.macro
    def store(acc_o, columns, sample, head, split, O_shared, Output, partial_out):
        """Write the half of the output that starts at `columns`."""
        if splits == 1:
            # concept: epilogue-store
            T.copy(acc_o, O_shared)
            T.fence_proxy_async()
            T.copy(O_shared, Output[sample, head : head + ROWS, columns : columns + half])
        else:
            # concept: partial-output
            for i, j in T.Parallel(ROWS, half):
                if head + i < heads:
                    partial_out[sample, head + i, split, columns + j] = acc_o[i, j]

    @T.macro
    def attend_many(Q, Q_pe, KV, K_pe, Output, partial_lse, partial_out):
        """Launch the first kernel with heads as rows: a program for each tile, split, sample."""
        # concept: kernel-grid
        with T.Kernel(tiles, splits, batch, threads=384) as (tile, split, sample):
            Q_left = T.alloc_shared([ROWS, half], dtype)
            Q_right = T.alloc_shared([ROWS, half], dtype)
            Q_pe_shared = T.alloc_shared([ROWS, pe_dim], dtype)
            K_left = T.alloc_shared([STAGES, BLOCK_N, half], dtype)
            K_right = T.alloc_shared([STAGES, BLOCK_N, half], dtype)
            K_pe_shared = T.alloc_shared([STAGES, BLOCK_N, pe_dim], dtype)
            P_shared = T.alloc_shared([ROWS, BLOCK_N], dtype)
            # Rows of 128 bytes would meet in the same banks.
            T.annotate_layout({P_shared: tilelang.layout.make_swizzled_layout(P_shared)})
            rescale_shared = T.alloc_shared([ROWS], accum)
            l_shared = T.alloc_shared([ROWS], accum)
            acc_s = T.alloc_fragment([ROWS, BLOCK_N], accum)
            p = T.alloc_fragment([ROWS, BLOCK_N], dtype)
            p_right = T.alloc_fragment([ROWS, BLOCK_N], dtype)
            acc_left = T.alloc_fragment([ROWS, half], accum)
            acc_right = T.alloc_fragment([ROWS, half], accum)
            m = T.alloc_fragment([ROWS], accum)
            m_prev = T.alloc_fragment([ROWS], accum)
            rescale = T.alloc_fragment([ROWS], accum)
            rescale_right = T.alloc_fragment([ROWS], accum)
            row_sum = T.alloc_fragment([ROWS], accum)
            l = T.alloc_fragment([ROWS], accum)
            l_right = T.alloc_fragment([ROWS], accum)
            q_ready = T.alloc_barrier(128)
            left_ready = T.alloc_barrier([128] * STAGES)
            right_ready = T.alloc_barrier([128] * STAGES)
            left_free = T.alloc_barrier([128] * STAGES)
            right_free = T.alloc_barrier([128] * STAGES)
            p_ready = T.alloc_barrier(128)
            p_free = T.alloc_barrier(128)
            l_ready = T.alloc_barrier(128)

            head = tile * ROWS
            # concept: split-range
            start = split * share + T.min(split, more)
            # concept: loop-range
            blocks = share + T.if_then_else(split < more, 1, 0)

            tx = T.get_thread_binding()
            if tx >= 256:  # the warp group that copies
                T.set_max_nreg(24, 0)
                T.tma_copy(Q[sample, head : head + ROWS, 0:half], Q_left, barrier=q_ready)
                T.tma_copy(Q[sample, head : head + ROWS, half:dim], Q_right, barrier=q_ready)
                T.tma_copy(Q_pe[sample, head : head + ROWS, :], Q_pe_shared, barrier=q_ready)
                T.mbarrier_arrive(q_ready)
                for t in T.serial(blocks):
                    first = (start + t) * BLOCK_N
                    T.mbarrier_wait_parity(left_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
                    # concept: kv-head
                    T.tma_copy(
                        KV[sample, first : first + BLOCK_N, 0, 0:half],
                        K_left[t % STAGES, :, :],
                        barrier=left_ready[t % STAGES],
                    )
                    # end
                    T.tma_copy(
                        K_pe[sample, first : first + BLOCK_N, 0, :],
                        K_pe_shared[t % STAGES, :, :],
                        barrier=left_ready[t % STAGES],
                    )
                    T.mbarrier_arrive(left_ready[t % STAGES])
                    T.mbarrier_wait_parity(right_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
                    T.tma_copy(
                        KV[sample, first : first + BLOCK_N, 0, half:dim],
                        K_right[t % STAGES, :, :],
                        barrier=right_ready[t % STAGES],
                    )
                    T.mbarrier_arrive(right_ready[t % STAGES])
            elif tx >= 128:  # the one that computes the right half
                T.set_max_nreg(224, 1)
                # concept: state-init
                T.fill(acc_right, 0)

                for t in T.serial(blocks):
                    T.mbarrier_wait_parity(p_ready, t & 1)
                    T.copy(P_shared, p_right)
                    T.copy(rescale_shared, rescale_right)
                    T.mbarrier_arrive(p_free)
                    # concept: acc-rescale
                    for i, j in T.Parallel(ROWS, half):
                        acc_right[i, j] *= rescale_right[i]
                    # end
                    T.mbarrier_wait_parity(right_ready[t % STAGES], (t // STAGES) & 1)
                    # concept: pv-gemm
                    T.wgmma_gemm(
                        p_right,
                        K_right[t % STAGES, :, :],
                        acc_right,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    T.wait_wgmma(0)
                    # end
                    T.mbarrier_arrive(right_free[t % STAGES])
                T.mbarrier_wait_parity(l_ready, 0)
                T.copy(l_shared, l_right)
                # concept: normalise
                for i, j in T.Parallel(ROWS, half):
                    acc_right[i, j] /= l_right[i]
                # end
                store(acc_right, half, sample, head, split, Q_right, Output, partial_out)
            else:  # the one that computes scores, probabilities and the left half
                T.set_max_nreg(256, 1)
                # concept: state-init
                T.fill(acc_left, 0)
                T.fill(l, 0)
                T.fill(m, -T.infinity(accum))

                T.mbarrier_wait_parity(q_ready, 0)
                score(0, Q_left, Q_right, Q_pe_shared, K_left, K_right, K_pe_shared, left_ready,
                      right_ready, acc_s)  # fmt: skip
                T.wait_wgmma(0)
                softmax(start * BLOCK_N, acc_s, m, m_prev, rescale, row_sum, l)
                T.copy(acc_s, p)
                hand_over(0, p, rescale, P_shared, rescale_shared, p_ready, p_free)
                for s in T.serial(blocks - 1):  # concept: kv-loop
                    t = s + 1
                    # concept: pv-gemm
                    T.wgmma_gemm(
                        p, K_left[s % STAGES, :, :], acc_left, policy=T.GemmWarpPolicy.FullRow
                    )
                    # end
                    score(t, Q_left, Q_right, Q_pe_shared, K_left, K_right, K_pe_shared,
                          left_ready, right_ready, acc_s)  # fmt: skip
                    T.wait_wgmma(3)  # the product with the values is done, the scores are not
                    T.mbarrier_arrive(left_free[s % STAGES])
                    if lag == 1:
                        T.mbarrier_arrive(p_ready)
                    T.wait_wgmma(0)
                    if lag == 2:
                        T.mbarrier_arrive(p_ready)
                    softmax((start + t) * BLOCK_N, acc_s, m, m_prev, rescale, row_sum, l)
                    T.copy(acc_s, p)
                    hand_over(t, p, rescale, P_shared, rescale_shared, p_ready, p_free)
                    # concept: acc-rescale
                    for i, j in T.Parallel(ROWS, half):
                        acc_left[i, j] *= rescale[i]
                    # end
                last = blocks - 1
                if lag > 0:
                    T.mbarrier_arrive(p_ready)
                # concept: pv-gemm
                T.wgmma_gemm(
                    p, K_left[last % STAGES, :, :], acc_left, policy=T.GemmWarpPolicy.FullRow
                )
                T.wait_wgmma(0)
                # end
                T.copy(l, l_shared)
                T.mbarrier_arrive(l_ready)
                if splits > 1:
                    T.pdl_trigger()  # the second kernel may get ready
                # concept: normalise
                for i, j in T.Parallel(ROWS, half):
                    acc_left[i, j] /= l[i]
                # concept: partial-lse
                if splits > 1:
                    for i in T.Parallel(ROWS):
                        if head + i < heads:
                            partial_lse[sample, head + i, split] = T.log2(l[i]) + m[i] * scale
                # end
                store(acc_left, 0, sample, head, split, Q_left, Output, partial_out)

    @T.macro
    def softmax_by_head(first, S_shared, s, P_shared, rescale_shared, m, m_prev, rescale, row_sum,
                        l):  # fmt: skip
        """Turn the scores of a block into probabilities, a row for each head: 8 threads have it."""
        for i, j in T.Parallel(COLUMNS, BLOCK_N):
            s[i, j] = S_shared[i, j]
        # Only the last block can reach past the end, and it has a key: the maximum is finite.
        # concept: boundary-mask, mask-value
        if seq_kv % BLOCK_N != 0:
            if first + BLOCK_N > seq_kv:
                for i, j in T.Parallel(COLUMNS, BLOCK_N):
                    s[i, j] = T.if_then_else(first + j < seq_kv, s[i, j], -T.infinity(accum))
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(s, m, dim=1, clear=False)
        # concept: rescale-factor
        for i in T.Parallel(COLUMNS):
            rescale[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
        # concept: probability
        for i, j in T.Parallel(COLUMNS, BLOCK_N):
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
        # end
        T.copy(s, P_shared)
        T.fence_proxy_async()
        T.copy(rescale, rescale_shared)
        # concept: row-sum
        T.reduce_sum(s, row_sum, dim=1)
        # concept: denominator
        for i in T.Parallel(COLUMNS):
            l[i] = l[i] * rescale[i] + row_sum[i]

    @T.macro
    def scale_by_head(acc_o, factors):
        """Multiply each head's column of the output by its factor."""
        for i, j in T.Parallel(half, COLUMNS):
            acc_o[i, j] *= factors[j]

    @T.macro
    def store_by_head(acc_o, start, sample, head, split, Output, partial_out):
        """Write the half of the output that starts at `start`."""
        if splits == 1:
            # concept: epilogue-store
            for i, j in T.Parallel(half, COLUMNS):
                if head + j < heads:
                    Output[sample, head + j, start + i] = acc_o[i, j]
        else:
            # concept: partial-output
            for i, j in T.Parallel(half, COLUMNS):
                if head + j < heads:
                    partial_out[sample, head + j, split, start + i] = acc_o[i, j]

    @T.macro
    def attend_few(Q, Q_pe, KV, K_pe, Output, partial_lse, partial_out):
        """Launch the first kernel with keys as rows: a program for each tile, split and sample."""
        # concept: kernel-grid
        with T.Kernel(tiles, splits, batch, threads=256) as (tile, split, sample):
            Q_left = T.alloc_shared([COLUMNS, half], dtype)
            Q_right = T.alloc_shared([COLUMNS, half], dtype)
            Q_pe_shared = T.alloc_shared([COLUMNS, pe_dim], dtype)
            K_left = T.alloc_shared([STAGES, BLOCK_N, half], dtype)
            K_pe_shared = T.alloc_shared([STAGES, BLOCK_N, pe_dim], dtype)
            K_right = T.alloc_shared([STAGES, BLOCK_N, half], dtype)
            # Four more numbers in a row, or the columns of a tile would meet in the same banks.
            S_shared = T.alloc_shared([COLUMNS, BLOCK_N + 4], accum)
            P_shared = T.alloc_shared([COLUMNS, BLOCK_N], dtype)
            by_head = T.alloc_shared([COLUMNS], accum)
            acc_s = T.alloc_fragment([BLOCK_N, COLUMNS], accum)
            s = T.alloc_fragment([COLUMNS, BLOCK_N], accum)
            acc_left = T.alloc_fragment([half, COLUMNS], accum)
            acc_right = T.alloc_fragment([half, COLUMNS], accum)
            m = T.alloc_fragment([COLUMNS], accum)
            m_prev = T.alloc_fragment([COLUMNS], accum)
            rescale = T.alloc_fragment([COLUMNS], accum)
            row_sum = T.alloc_fragment([COLUMNS], accum)
            l = T.alloc_fragment([COLUMNS], accum)
            q_ready = T.alloc_barrier(128)
            left_ready = T.alloc_barrier([128] * STAGES)
            right_ready = T.alloc_barrier([128] * STAGES)
            left_free = T.alloc_barrier([128] * STAGES)
            right_free = T.alloc_barrier([128] * STAGES)

            head = tile * COLUMNS
            # concept: split-range
            start = split * share + T.min(split, more)
            # concept: loop-range
            blocks = share + T.if_then_else(split < more, 1, 0)

            tx = T.get_thread_binding()
            if tx >= 128:  # the warp group that copies
                T.tma_copy(Q[sample, head : head + COLUMNS, 0:half], Q_left, barrier=q_ready)
                T.tma_copy(Q[sample, head : head + COLUMNS, half:dim], Q_right, barrier=q_ready)
                T.tma_copy(Q_pe[sample, head : head + COLUMNS, :], Q_pe_shared, barrier=q_ready)
                T.mbarrier_arrive(q_ready)
                for t in T.serial(blocks):
                    first = (start + t) * BLOCK_N
                    T.mbarrier_wait_parity(left_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
                    # concept: kv-head
                    T.tma_copy(
                        KV[sample, first : first + BLOCK_N, 0, 0:half],
                        K_left[t % STAGES, :, :],
                        barrier=left_ready[t % STAGES],
                    )
                    # end
                    T.tma_copy(
                        K_pe[sample, first : first + BLOCK_N, 0, :],
                        K_pe_shared[t % STAGES, :, :],
                        barrier=left_ready[t % STAGES],
                    )
                    T.mbarrier_arrive(left_ready[t % STAGES])
                    T.mbarrier_wait_parity(right_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
                    T.tma_copy(
                        KV[sample, first : first + BLOCK_N, 0, half:dim],
                        K_right[t % STAGES, :, :],
                        barrier=right_ready[t % STAGES],
                    )
                    T.mbarrier_arrive(right_ready[t % STAGES])
            else:  # the one that computes
                # concept: state-init
                T.fill(acc_left, 0)
                T.fill(acc_right, 0)
                T.fill(l, 0)
                T.fill(m, -T.infinity(accum))

                T.mbarrier_wait_parity(q_ready, 0)
                for t in T.serial(blocks):  # concept: kv-loop
                    T.mbarrier_wait_parity(left_ready[t % STAGES], (t // STAGES) & 1)
                    # concept: qk-gemm
                    T.wgmma_gemm(
                        K_left[t % STAGES, :, :],
                        Q_left,
                        acc_s,
                        transpose_B=True,
                        policy=T.GemmWarpPolicy.FullRow,
                        clear_accum=True,
                    )
                    T.wgmma_gemm(
                        K_pe_shared[t % STAGES, :, :],
                        Q_pe_shared,
                        acc_s,
                        transpose_B=True,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    # end
                    T.mbarrier_wait_parity(right_ready[t % STAGES], (t // STAGES) & 1)
                    # concept: qk-gemm
                    T.wgmma_gemm(
                        K_right[t % STAGES, :, :],
                        Q_right,
                        acc_s,
                        transpose_B=True,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    T.wait_wgmma(0)
                    # end
                    # A head's scores lie in all four warps: they change places.
                    for i, j in T.Parallel(BLOCK_N, COLUMNS):
                        S_shared[j, i] = acc_s[i, j]
                    softmax_by_head((start + t) * BLOCK_N, S_shared, s, P_shared, by_head, m,
                                    m_prev, rescale, row_sum, l)  # fmt: skip
                    # concept: acc-rescale
                    scale_by_head(acc_left, by_head)
                    scale_by_head(acc_right, by_head)
                    # concept: pv-gemm
                    T.wgmma_gemm(
                        K_left[t % STAGES, :, :],
                        P_shared,
                        acc_left,
                        transpose_A=True,
                        transpose_B=True,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    T.wgmma_gemm(
                        K_right[t % STAGES, :, :],
                        P_shared,
                        acc_right,
                        transpose_A=True,
                        transpose_B=True,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    # end
                    T.wait_wgmma(1)
                    T.mbarrier_arrive(left_free[t % STAGES])
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(right_free[t % STAGES])
                if splits > 1:
                    T.pdl_trigger()  # the second kernel may get ready
                # concept: partial-lse
                if splits > 1:
                    for i in T.Parallel(COLUMNS):
                        if head + i < heads:
                            partial_lse[sample, head + i, split] = T.log2(l[i]) + m[i] * scale
                # concept: normalise
                for i in T.Parallel(COLUMNS):
                    l[i] = 1 / l[i]
                T.copy(l, by_head)
                scale_by_head(acc_left, by_head)
                scale_by_head(acc_right, by_head)
                # end
                store_by_head(acc_left, 0, sample, head, split, Output, partial_out)
                store_by_head(acc_right, half, sample, head, split, Output, partial_out)

    @T.macro
    def combine(partial_lse, partial_out, Output):
        """Launch the second kernel: a program merges a piece of a head's output of a sample."""
        # concept: combine
        with T.Kernel(dim // WIDTH, heads, batch, threads=128) as (piece, q_head, one):
            weights = T.alloc_shared([padded], accum)
            lse = T.alloc_fragment([padded], accum)
            top = T.alloc_fragment([1], accum)
            total = T.alloc_fragment([1], accum)
            out = T.alloc_fragment([WIDTH], accum)
            T.pdl_sync()  # until all splits are there
            for s in T.Parallel(padded):
                lse[s] = T.if_then_else(
                    s < splits, partial_lse[one, q_head, T.min(s, splits - 1)], -T.infinity(accum)
                )
            # concept: combine-max
            T.reduce_max(lse, top, dim=0)
            # concept: combine-logsumexp
            for s in T.Parallel(padded):
                lse[s] = T.exp2(lse[s] - top[0])
            T.reduce_sum(lse, total, dim=0)
            # concept: combine-weights
            for s in T.Parallel(padded):
                weights[s] = lse[s] / total[0]
            # end
            T.fill(out, 0)
            # concept: combine-accumulate
            for s in T.serial(splits):
                for i in T.Parallel(WIDTH):
                    out[i] += partial_out[one, q_head, s, piece * WIDTH + i] * weights[s]
            # concept: epilogue-store
            T.copy(out, Output[one, q_head, piece * WIDTH : (piece + 1) * WIDTH])

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        Q_pe: T.Tensor(q_pe_shape, dtype),
        KV: T.Tensor(kv_shape, dtype),
        K_pe: T.Tensor(k_pe_shape, dtype),
        Output: T.Tensor(q_shape, dtype),
    ):
        partial_lse = T.alloc_global([batch, heads, splits], accum)
        partial_out = T.alloc_global([batch, heads, splits, dim], accum)
        if columns:
            attend_few(Q, Q_pe, KV, K_pe, Output, partial_lse, partial_out)
        else:
            attend_many(Q, Q_pe, KV, K_pe, Output, partial_lse, partial_out)
        if splits > 1:
            combine(partial_lse, partial_out, Output)

    return main


def attention(
    q: Any,
    q_pe: Any,
    kv: Any,
    k_pe: Any,
    *,
    scale: "float | None" = None,
    tiling: "Tiling | None" = None,
) -> Any:
    """Return the output [B, H, 512] of one query per sample over a latent cache, in the type of q.

    q [B, H, 512] and q_pe [B, H, 64], kv [B, S, 1, 512] and k_pe [B, S, 1, 64]: latent and rotary
    part. Types float16 or bfloat16. `scale` is 1/sqrt(576) when None. Without a `tiling`, the table
    of tilings has one for the device. ValueError or TypeError names the argument that does not fit.
    """
    batch, heads, seq_kv, dtype = _checked(q, q_pe, kv, k_pe)
    if tiling is None:
        device = launch.device_name(q.device.index)
        many = batch * -(-heads // ROWS) >= MANY
        default = Tiling(columns=heads <= FEW)
        tiling = launch.tuned("mla_decode", device, default, few_heads=heads <= FEW, many=many)
    launch.check_cut(tiling, Tiling, lag=(0, 1, 2))
    splits = tiling.splits(batch, heads, seq_kv)
    kernel = _compiled(batch, heads, seq_kv, splits, scale, dtype, tiling.lag, tiling.columns)
    return kernel(q, q_pe, kv, k_pe)


def _checked(q: Any, q_pe: Any, kv: Any, k_pe: Any) -> tuple[int, int, int, str]:
    """Return the samples, heads, keys and the type of checked tensors."""
    for name, tensor, rank in (("q", q, 3), ("kv", kv, 4)):
        if not hasattr(tensor, "is_contiguous"):
            raise TypeError(
                f"{name} is a {type(tensor).__name__}, and has to be a tensor of PyTorch"
            )
        if len(tensor.shape) != rank or 0 in tensor.shape:
            raise ValueError(f"{name} is {list(tensor.shape)}: {rank} dimensions, none empty")
    dtype = str(q.dtype).removeprefix("torch.")
    if dtype not in launch.TYPES:
        raise TypeError(f"q is of {dtype}, and may be of {' or '.join(launch.TYPES)}")
    if not q.is_cuda:
        raise ValueError(f"q is on {q.device}: all have to be on one CUDA device")
    batch, heads = q.shape[:2]
    keys = kv.shape[1]
    launch.check_table("q", q, (batch, heads, DIM), dtype, q)
    launch.check_table("q_pe", q_pe, (batch, heads, PE_DIM), dtype, q)
    launch.check_table("kv", kv, (batch, keys, 1, DIM), dtype, q)
    launch.check_table("k_pe", k_pe, (batch, keys, 1, PE_DIM), dtype, q)
    return batch, heads, keys, dtype


@cache
def _compiled(
    batch: int,
    heads: int,
    seq_kv: int,
    splits: int,
    scale: "float | None",
    dtype: str,
    lag: int,
    columns: bool,
) -> Any:
    return mla_decode_forward(batch, heads, seq_kv, splits, scale, dtype, lag=lag, columns=columns)


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`.

    NotImplementedError for head sizes other than DeepSeek's.
    """
    q, q_pe, kv, _ = run.inputs
    batch, heads, dim = q.shape
    if (dim, q_pe.shape[2]) != (DIM, PE_DIM):
        raise NotImplementedError(f"head sizes {DIM} and {PE_DIM} alone")
    splits, scale = run.args[8:10]
    made = mla_decode_forward(batch, heads, kv.shape[1], splits, scale, str(q.dtype))
    return (made(*run.inputs),)
