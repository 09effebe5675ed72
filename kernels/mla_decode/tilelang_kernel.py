"""Decoding with MLA on Hopper GPUs in TileLang: one warp group scores, two weigh the values.

Does what tilelang's `examples/deepseek_mla/example_mla_decode.py` does, scheduled like "FlashMLA"
(DeepSeek, 2025): the latent of a block of keys lies in shared memory once, as key and as value.
512 columns of output for 64 heads are too many numbers for one warp group, so two hold a part each:
the first computes the scores, the probabilities and the left part, the second the right part. A
third copies. Partial results of a split are in float32 (upstream: in float16, see README).

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
DIM = 512
PE_DIM = 64
FEW = 32
"""With no more heads, reading the cache takes longer than the products."""
MANY = 128
"""With so many tiles of heads, there is work for all multiprocessors without splits."""


class Tiling(NamedTuple):
    """How the work is cut. `programs`: how many there are to be, to fill the GPU.

    `lag` says when the right part of the output may go on with a block: 0 at once, beside the next
    scores; 2 when they are done, beside the exponentials of the first warp group; 1 in between.
    """

    programs: int = 132
    lag: int = 2

    def splits(self, batch: int, heads: int, seq_kv: int) -> int:
        """Return into how many splits the keys go: none is without a block."""
        wanted = self.programs // (batch * -(-heads // ROWS))
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
) -> Any:
    """Return the kernels of these sizes: Q, Q_pe, KV, K_pe -> Output.

    Each of the `splits` programs of a tile of heads reads as many blocks of keys as the others, or
    one less; there may not be more splits than blocks. With one split there is no second kernel.
    """
    accum = "float32"
    left, part = dim // 2, dim // 4
    q_shape = [batch, heads, dim]
    q_pe_shape = [batch, heads, pe_dim]
    kv_shape = [batch, seq_kv, 1, dim]
    k_pe_shape = [batch, seq_kv, 1, pe_dim]
    tiles = -(-heads // ROWS)
    share, more = divmod(-(-seq_kv // BLOCK_N), splits)
    padded = -(-splits // 128) * 128
    # concept: softmax-scale
    scale = ((dim + pe_dim) ** -0.5 if softmax_scale is None else softmax_scale) * LOG2E

    @T.macro
    def score(t, Q_left, Q_middle, Q_right, Q_pe_shared, K_left, K_middle, K_right, K_pe_shared,
              left_ready, middle_ready, right_ready, acc_s):  # fmt: skip
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
        T.mbarrier_wait_parity(middle_ready[t % STAGES], (t // STAGES) & 1)
        # concept: qk-gemm
        T.wgmma_gemm(
            Q_middle,
            K_middle[t % STAGES, :, :],
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
    def weigh(first, acc_s, acc_left, p, m, m_prev, rescale):
        """Turn scores into probabilities; bring the maximum along, and the output to it."""
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
        # concept: acc-rescale
        for i, j in T.Parallel(ROWS, left):
            acc_left[i, j] *= rescale[i]
        # end
        T.copy(acc_s, p)

    @T.macro
    def add_up(wide, rescale, row_sum, l):
        """Bring the denominator along: the sum of the weights as they are multiplied, rounded."""
        # concept: row-sum
        T.reduce_sum(wide, row_sum, dim=1)
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
    def store(acc_o, columns, width, sample, head, split, O_shared, Output, partial_out):
        """Write the part of the output that starts at `columns`."""
        if splits == 1:
            # concept: epilogue-store
            T.copy(acc_o, O_shared)
            T.fence_proxy_async()
            T.copy(O_shared, Output[sample, head : head + ROWS, columns : columns + width])
        else:
            # concept: partial-output
            for i, j in T.Parallel(ROWS, width):
                if head + i < heads:
                    partial_out[sample, head + i, split, columns + j] = acc_o[i, j]

    @T.macro
    def attend(Q, Q_pe, KV, K_pe, Output, partial_lse, partial_out):
        """Launch the first kernel: a program for each tile of heads, split and sample."""
        # concept: kernel-grid
        with T.Kernel(tiles, splits, batch, threads=384) as (tile, split, sample):
            Q_left = T.alloc_shared([ROWS, left], dtype)
            Q_middle = T.alloc_shared([ROWS, part], dtype)
            Q_right = T.alloc_shared([ROWS, part], dtype)
            Q_pe_shared = T.alloc_shared([ROWS, pe_dim], dtype)
            K_left = T.alloc_shared([STAGES, BLOCK_N, left], dtype)
            K_middle = T.alloc_shared([STAGES, BLOCK_N, part], dtype)
            K_right = T.alloc_shared([STAGES, BLOCK_N, part], dtype)
            K_pe_shared = T.alloc_shared([STAGES, BLOCK_N, pe_dim], dtype)
            P_shared = T.alloc_shared([ROWS, BLOCK_N], dtype)
            # Rows of 128 bytes would meet in the same banks.
            T.annotate_layout({P_shared: tilelang.layout.make_swizzled_layout(P_shared)})
            rescale_shared = T.alloc_shared([ROWS], accum)
            l_shared = T.alloc_shared([ROWS], accum)
            acc_s = T.alloc_fragment([ROWS, BLOCK_N], accum)
            p = T.alloc_fragment([ROWS, BLOCK_N], dtype)
            p_right = T.alloc_fragment([ROWS, BLOCK_N], dtype)
            acc_left = T.alloc_fragment([ROWS, left], accum)
            acc_middle = T.alloc_fragment([ROWS, part], accum)
            acc_right = T.alloc_fragment([ROWS, part], accum)
            m = T.alloc_fragment([ROWS], accum)
            m_prev = T.alloc_fragment([ROWS], accum)
            rescale = T.alloc_fragment([ROWS], accum)
            rescale_right = T.alloc_fragment([ROWS], accum)
            row_sum = T.alloc_fragment([ROWS], accum)
            l = T.alloc_fragment([ROWS], accum)
            l_right = T.alloc_fragment([ROWS], accum)
            wide = T.alloc_fragment([ROWS, BLOCK_N], accum)
            q_ready = T.alloc_barrier(128)
            left_ready = T.alloc_barrier([128] * STAGES)
            middle_ready = T.alloc_barrier([128] * STAGES)
            right_ready = T.alloc_barrier([128] * STAGES)
            left_free = T.alloc_barrier([128] * STAGES)
            middle_free = T.alloc_barrier([128] * STAGES)
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
                T.tma_copy(Q[sample, head : head + ROWS, 0:left], Q_left, barrier=q_ready)
                T.tma_copy(
                    Q[sample, head : head + ROWS, left : left + part], Q_middle, barrier=q_ready
                )
                T.tma_copy(
                    Q[sample, head : head + ROWS, left + part : dim], Q_right, barrier=q_ready
                )
                T.tma_copy(Q_pe[sample, head : head + ROWS, :], Q_pe_shared, barrier=q_ready)
                T.mbarrier_arrive(q_ready)
                for t in T.serial(blocks):
                    first = (start + t) * BLOCK_N
                    T.mbarrier_wait_parity(left_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
                    # concept: kv-head
                    T.tma_copy(
                        KV[sample, first : first + BLOCK_N, 0, 0:left],
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
                    T.mbarrier_wait_parity(middle_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
                    T.tma_copy(
                        KV[sample, first : first + BLOCK_N, 0, left : left + part],
                        K_middle[t % STAGES, :, :],
                        barrier=middle_ready[t % STAGES],
                    )
                    T.mbarrier_arrive(middle_ready[t % STAGES])
                    T.mbarrier_wait_parity(right_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
                    T.tma_copy(
                        KV[sample, first : first + BLOCK_N, 0, left + part : dim],
                        K_right[t % STAGES, :, :],
                        barrier=right_ready[t % STAGES],
                    )
                    T.mbarrier_arrive(right_ready[t % STAGES])
            elif tx >= 128:  # the one that computes the right part
                T.set_max_nreg(224, 1)
                # concept: state-init
                T.fill(acc_middle, 0)
                T.fill(acc_right, 0)
                T.fill(l_right, 0)

                for t in T.serial(blocks):
                    T.mbarrier_wait_parity(p_ready, t & 1)
                    T.copy(P_shared, p_right)
                    T.copy(rescale_shared, rescale_right)
                    T.mbarrier_arrive(p_free)
                    T.copy(p_right, wide)
                    # concept: acc-rescale
                    for i, j in T.Parallel(ROWS, part):
                        acc_middle[i, j] *= rescale_right[i]
                    for i, j in T.Parallel(ROWS, part):
                        acc_right[i, j] *= rescale_right[i]
                    # end
                    T.mbarrier_wait_parity(middle_ready[t % STAGES], (t // STAGES) & 1)
                    T.mbarrier_wait_parity(right_ready[t % STAGES], (t // STAGES) & 1)
                    # concept: pv-gemm
                    T.wgmma_gemm(
                        p_right,
                        K_middle[t % STAGES, :, :],
                        acc_middle,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    T.wgmma_gemm(
                        p_right,
                        K_right[t % STAGES, :, :],
                        acc_right,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    # end
                    add_up(wide, rescale_right, row_sum, l_right)
                    # What is free earlier is there earlier.
                    T.wait_wgmma(1)
                    T.mbarrier_arrive(middle_free[t % STAGES])
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(right_free[t % STAGES])
                T.copy(l_right, l_shared)
                T.mbarrier_arrive(l_ready)
                # concept: normalise
                for i, j in T.Parallel(ROWS, part):
                    acc_middle[i, j] /= l_right[i]
                for i, j in T.Parallel(ROWS, part):
                    acc_right[i, j] /= l_right[i]
                # end
                store(acc_middle, left, part, sample, head, split, Q_middle, Output, partial_out)
                store(
                    acc_right, left + part, part, sample, head, split, Q_right, Output, partial_out
                )
            else:  # the one that computes scores, probabilities and the left part
                T.set_max_nreg(256, 1)
                # concept: state-init
                T.fill(acc_left, 0)
                T.fill(m, -T.infinity(accum))

                T.mbarrier_wait_parity(q_ready, 0)
                score(
                    0,
                    Q_left,
                    Q_middle,
                    Q_right,
                    Q_pe_shared,
                    K_left,
                    K_middle,
                    K_right,
                    K_pe_shared,
                    left_ready,
                    middle_ready,
                    right_ready,
                    acc_s,
                )
                T.wait_wgmma(0)
                weigh(start * BLOCK_N, acc_s, acc_left, p, m, m_prev, rescale)
                for t in T.serial(1, blocks):  # concept: kv-loop
                    hand_over(t - 1, p, rescale, P_shared, rescale_shared, p_ready, p_free)
                    # concept: pv-gemm
                    T.wgmma_gemm(
                        p,
                        K_left[(t - 1) % STAGES, :, :],
                        acc_left,
                        policy=T.GemmWarpPolicy.FullRow,
                    )
                    # end
                    score(
                        t,
                        Q_left,
                        Q_middle,
                        Q_right,
                        Q_pe_shared,
                        K_left,
                        K_middle,
                        K_right,
                        K_pe_shared,
                        left_ready,
                        middle_ready,
                        right_ready,
                        acc_s,
                    )
                    T.wait_wgmma(4)  # the product with the values is done, the scores are not
                    T.mbarrier_arrive(left_free[(t - 1) % STAGES])
                    if lag == 1:
                        T.wait_wgmma(2)
                        T.mbarrier_arrive(p_ready)
                    T.wait_wgmma(0)
                    if lag == 2:
                        T.mbarrier_arrive(p_ready)
                    weigh((start + t) * BLOCK_N, acc_s, acc_left, p, m, m_prev, rescale)
                last = blocks - 1
                hand_over(last, p, rescale, P_shared, rescale_shared, p_ready, p_free)
                if lag > 0:
                    T.mbarrier_arrive(p_ready)
                # concept: pv-gemm
                T.wgmma_gemm(
                    p, K_left[last % STAGES, :, :], acc_left, policy=T.GemmWarpPolicy.FullRow
                )
                # end
                T.wait_wgmma(0)
                T.mbarrier_wait_parity(l_ready, 0)
                T.copy(l_shared, l)
                if splits > 1:
                    T.pdl_trigger()  # the second kernel may get ready
                # concept: normalise
                for i, j in T.Parallel(ROWS, left):
                    acc_left[i, j] /= l[i]
                # concept: partial-lse
                if splits > 1:
                    for i in T.Parallel(ROWS):
                        if head + i < heads:
                            partial_lse[sample, head + i, split] = T.log2(l[i]) + m[i] * scale
                # end
                store(acc_left, 0, left, sample, head, split, Q_left, Output, partial_out)

    @T.macro
    def combine(partial_lse, partial_out, Output):
        """Launch the second kernel: a program for each head and sample merges the splits."""
        # concept: combine
        with T.Kernel(heads, batch, threads=128) as (q_head, one):
            weights = T.alloc_shared([padded], accum)
            lse = T.alloc_fragment([padded], accum)
            top = T.alloc_fragment([1], accum)
            total = T.alloc_fragment([1], accum)
            out = T.alloc_fragment([dim], accum)
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
                for i in T.Parallel(dim):
                    out[i] += partial_out[one, q_head, s, i] * weights[s]
            # concept: epilogue-store
            T.copy(out, Output[one, q_head, :])

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
        attend(Q, Q_pe, KV, K_pe, Output, partial_lse, partial_out)
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
        tiling = launch.tuned("mla_decode", device, Tiling(), few_heads=heads <= FEW, many=many)
    splits = tiling.splits(batch, heads, seq_kv)
    kernel = _compiled(batch, heads, seq_kv, splits, scale, dtype, tiling.lag)
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
) -> Any:
    return mla_decode_forward(batch, heads, seq_kv, splits, scale, dtype, lag=lag)


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
