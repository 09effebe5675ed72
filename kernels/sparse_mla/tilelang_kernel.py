"""Sparse MLA on Hopper GPUs in TileLang: one warp group gathers, one scores, two weigh.

Does what tilelang's `examples/deepseek_v32/sparse_mla_fwd.py` and `sparse_mla_fwd_pipelined.py` do,
with the schedule of kernels/mla_decode: the latents of a block of listed tokens lie in shared
memory once, as keys and as values, and two warp groups hold a part of the output each. Tokens are
scattered, so a warp group copies them piece by piece, 16 bytes to a thread at a time. Blocks at the
end of a list in which no token is visible are not read: early queries have many of them.

Three layers: `sparse_mla_forward` knows sizes and types, `main` inside it is the kernel,
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
LOWEST = -(2.0**30)
"""The running maximum before any token: hidden scores are -inf, and -inf - -inf would be NaN."""
ROWS = 64
"""Query heads of a tile: what one warp group multiplies. Rows beyond the group are not stored."""
BLOCK_I = 64
"""Tokens of a block: two blocks of 576 numbers and a tile of queries fill the shared memory."""
STAGES = 2
DIM = 512
TAIL_DIM = 64
FEW = 32
"""With no more heads, gathering takes longer than the products."""
PIECE = 8
"""Numbers that a thread copies at once: 16 bytes."""


class Tiling(NamedTuple):
    """How the work is scheduled.

    `lag` says when the right part of the output may go on with a block: 0 at once, beside the next
    scores; 2 when they are done, beside the exponentials of the first warp group; 1 in between.
    """

    lag: int = 2


@tilelang.jit(out_idx=[4, 5], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def sparse_mla_forward(
    heads: int,
    kv_heads: int,
    topk: int,
    softmax_scale: "float | None" = None,
    dtype: str = "bfloat16",
    dim: int = DIM,
    tail_dim: int = TAIL_DIM,
    lag: int = 2,
) -> Any:
    """Return the kernel: Q, KV, Indices, first -> Output, Lse. Samples and lengths may vary.

    `first` is the position of the first query. Lse has the logarithms to the base 2.
    """
    accum = "float32"
    batch, seq_len, seq_kv = T.dynamic("batch, seq_len, seq_kv")
    left, part = dim // 2, dim // 4
    full = dim + tail_dim
    # concept: kv-head-count
    group = heads // kv_heads

    tiles = -(-group // ROWS)
    # Rows beyond the last head are cut off by the copy; those beyond a group are other heads.
    cut_off = kv_heads == 1 or group % ROWS == 0
    padded = -(-topk // 128) * 128
    # concept: softmax-scale
    scale = (full**-0.5 if softmax_scale is None else softmax_scale) * LOG2E

    @T.macro
    def find(t, sample, query, kv_head, tx, newest, Indices, tokens):
        """Look up which tokens this thread copies pieces of; hidden ones are -1."""
        for r in T.unroll(4):
            place = t * BLOCK_I + r * 16 + (tx - 256) // PIECE
            # concept: block-index
            tokens[r] = Indices[sample, query, kv_head, T.min(place, topk - 1)]
            # concept: causal-mask, boundary-mask
            tokens[r] = T.if_then_else((place < topk) & (tokens[r] <= newest), tokens[r], -1)

    @T.macro
    def gather(t, columns, width, sample, kv_head, tx, tokens, KV, K_shared):
        """Start to copy `width` numbers of 64 tokens from `columns` on; hidden ones are zero."""
        # concept: gather
        for r in T.unroll(4):
            for u in T.unroll(width // (8 * PIECE)):
                T.ptx_cp_async(
                    T.access_ptr(
                        K_shared[
                            t % STAGES,
                            r * 16 + (tx - 256) // PIECE,
                            u * 8 * PIECE + tx % PIECE * PIECE,
                        ],
                        "w",
                        PIECE,
                    ),
                    T.access_ptr(
                        KV[
                            sample,
                            T.max(tokens[r], 0),
                            kv_head,
                            columns + u * 8 * PIECE + tx % PIECE * PIECE,
                        ],
                        "r",
                        PIECE,
                    ),
                    PIECE,
                    tokens[r] >= 0,
                )

    @T.macro
    def bring(t, sample, query, kv_head, tx, newest, Indices, KV, tokens, hidden, K_left, K_middle,
              K_right, K_tail, left_ready, middle_ready, right_ready, left_free, middle_free,
              right_free):  # fmt: skip
        """Copy block t. A part is ready when its copies have come, and the words about it."""
        find(t, sample, query, kv_head, tx, newest, Indices, tokens)
        T.mbarrier_wait_parity(left_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
        # concept: mask-value
        for r in T.unroll(4):
            if tx % PIECE == 0:
                hidden[t % STAGES, r * 16 + (tx - 256) // PIECE] = T.if_then_else(
                    tokens[r] >= 0, 0, -T.infinity(accum)
                )
        # end
        T.mbarrier_arrive(left_ready[t % STAGES])
        gather(t, 0, left, sample, kv_head, tx, tokens, KV, K_left)
        gather(t, dim, tail_dim, sample, kv_head, tx, tokens, KV, K_tail)
        T.cp_async_barrier_noinc(left_ready[t % STAGES])
        T.mbarrier_wait_parity(middle_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
        gather(t, left, part, sample, kv_head, tx, tokens, KV, K_middle)
        T.cp_async_barrier_noinc(middle_ready[t % STAGES])
        T.mbarrier_wait_parity(right_free[t % STAGES], ((t // STAGES) & 1) ^ 1)
        gather(t, left + part, part, sample, kv_head, tx, tokens, KV, K_right)
        T.cp_async_barrier_noinc(right_ready[t % STAGES])

    @T.macro
    def score(t, Q_left, Q_middle, Q_right, Q_tail, K_left, K_middle, K_right, K_tail,
              left_ready, middle_ready, right_ready, hidden, acc_s):  # fmt: skip
        """Start the products of the queries with block t: latent and rotary part."""
        T.mbarrier_wait_parity(left_ready[t % STAGES], (t // STAGES) & 1)
        T.fence_proxy_async()
        # The products are added to 0, or to -inf.
        # concept: mask-value
        for i, j in T.Parallel(ROWS, BLOCK_I):
            acc_s[i, j] = hidden[t % STAGES, j]
        # concept: qk-gemm
        T.wgmma_gemm(
            Q_left,
            K_left[t % STAGES, :, :],
            acc_s,
            transpose_B=True,
            policy=T.GemmWarpPolicy.FullRow,
        )
        T.wgmma_gemm(
            Q_tail,
            K_tail[t % STAGES, :, :],
            acc_s,
            transpose_B=True,
            policy=T.GemmWarpPolicy.FullRow,
        )
        # end
        T.mbarrier_wait_parity(middle_ready[t % STAGES], (t // STAGES) & 1)
        T.fence_proxy_async()
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
        T.fence_proxy_async()
        # concept: qk-gemm
        T.wgmma_gemm(
            Q_right,
            K_right[t % STAGES, :, :],
            acc_s,
            transpose_B=True,
            policy=T.GemmWarpPolicy.FullRow,
        )

    @T.macro
    def weigh(acc_s, acc_left, p, m, m_prev, rescale):
        """Turn scores into probabilities; bring the maximum along, and the output to it."""
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=False)
        # concept: rescale-factor
        for i in T.Parallel(ROWS):
            rescale[i] = T.exp2(m_prev[i] * scale - m[i] * scale)
        # concept: probability
        for i, j in T.Parallel(ROWS, BLOCK_I):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - m[i] * scale)
        # concept: acc-rescale
        for i, j in T.Parallel(ROWS, left):
            acc_left[i, j] *= rescale[i]
        # end
        T.copy(acc_s, p)

    @T.macro
    def add_up(acc_s, rescale, row_sum, l):
        """Bring the denominator along: nothing waits for it but the end."""
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
    def store(acc_o, columns, width, rows, sample, query, head, O_shared, Output):
        """Write the part of the output that starts at `columns`."""
        # concept: epilogue-store
        if cut_off:
            T.copy(acc_o, O_shared)
            T.fence_proxy_async()
            T.copy(O_shared, Output[sample, query, head : head + ROWS, columns : columns + width])
        else:
            for i, j in T.Parallel(ROWS, width):
                if i < rows:
                    Output[sample, query, head + i, columns + j] = acc_o[i, j]

    @T.prim_func
    def main(
        Q: T.Tensor([batch, seq_len, heads, full], dtype),
        KV: T.Tensor([batch, seq_kv, kv_heads, full], dtype),
        # concept: block-indices-param
        Indices: T.Tensor([batch, seq_len, kv_heads, topk], "int32"),
        # end
        first: T.int32,
        Output: T.Tensor([batch, seq_len, heads, dim], dtype),
        Lse: T.Tensor([batch, seq_len, heads], accum),
    ):
        # concept: kernel-grid
        with T.Kernel(seq_len * kv_heads * tiles, batch, threads=384) as (px, sample):
            Q_left = T.alloc_shared([ROWS, left], dtype)
            Q_middle = T.alloc_shared([ROWS, part], dtype)
            Q_right = T.alloc_shared([ROWS, part], dtype)
            Q_tail = T.alloc_shared([ROWS, tail_dim], dtype)
            K_left = T.alloc_shared([STAGES, BLOCK_I, left], dtype)
            K_middle = T.alloc_shared([STAGES, BLOCK_I, part], dtype)
            K_right = T.alloc_shared([STAGES, BLOCK_I, part], dtype)
            K_tail = T.alloc_shared([STAGES, BLOCK_I, tail_dim], dtype)
            P_shared = T.alloc_shared([ROWS, BLOCK_I], dtype)
            # Rows of 128 bytes would meet in the same banks.
            T.annotate_layout({P_shared: tilelang.layout.make_swizzled_layout(P_shared)})
            rescale_shared = T.alloc_shared([ROWS], accum)
            l_shared = T.alloc_shared([ROWS], accum)
            lse_shared = T.alloc_shared([ROWS], accum)
            hidden = T.alloc_shared([STAGES, BLOCK_I], accum)
            blocks_shared = T.alloc_shared([1], "int32")
            acc_s = T.alloc_fragment([ROWS, BLOCK_I], accum)
            p = T.alloc_fragment([ROWS, BLOCK_I], dtype)
            p_right = T.alloc_fragment([ROWS, BLOCK_I], dtype)
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
            places = T.alloc_fragment([padded], "int32")
            used = T.alloc_fragment([1], "int32")
            tokens = T.alloc_local([4], "int32")
            q_ready = T.alloc_barrier(128)
            blocks_ready = T.alloc_barrier(128)
            left_ready = T.alloc_barrier([256] * STAGES)
            middle_ready = T.alloc_barrier([128] * STAGES)
            right_ready = T.alloc_barrier([128] * STAGES)
            left_free = T.alloc_barrier([128] * STAGES)
            middle_free = T.alloc_barrier([128] * STAGES)
            right_free = T.alloc_barrier([128] * STAGES)
            p_ready = T.alloc_barrier(128)
            p_free = T.alloc_barrier(128)
            l_ready = T.alloc_barrier(128)

            # Late queries have the most tokens; they start first, and none is left for the end.
            query = seq_len - 1 - px // (kv_heads * tiles)
            # concept: kv-head
            kv_head = px % (kv_heads * tiles) // tiles

            head = kv_head * group + px % tiles * ROWS
            rows = T.min(ROWS, group - px % tiles * ROWS)
            newest = T.min(first + query, seq_kv - 1)

            tx = T.get_thread_binding()
            if tx >= 256:  # the warp group that copies
                T.set_max_nreg(72, 0)
                T.tma_copy(Q[sample, query, head : head + ROWS, 0:left], Q_left, barrier=q_ready)
                T.tma_copy(
                    Q[sample, query, head : head + ROWS, left : left + part],
                    Q_middle,
                    barrier=q_ready,
                )
                T.tma_copy(
                    Q[sample, query, head : head + ROWS, left + part : dim],
                    Q_right,
                    barrier=q_ready,
                )
                T.tma_copy(Q[sample, query, head : head + ROWS, dim:full], Q_tail, barrier=q_ready)
                T.mbarrier_arrive(q_ready)
                bring(
                    0,
                    sample,
                    query,
                    kv_head,
                    tx,
                    newest,
                    Indices,
                    KV,
                    tokens,
                    hidden,
                    K_left,
                    K_middle,
                    K_right,
                    K_tail,
                    left_ready,
                    middle_ready,
                    right_ready,
                    left_free,
                    middle_free,
                    right_free,
                )
                # How far the list has visible tokens; a query that sees none has one block.
                # concept: loop-range
                for i in T.Parallel(padded):
                    places[i] = T.if_then_else(
                        (i < topk)
                        & (Indices[sample, query, kv_head, T.min(i, topk - 1)] >= 0)
                        & (Indices[sample, query, kv_head, T.min(i, topk - 1)] <= newest),
                        i + 1,
                        1,
                    )
                T.reduce_max(places, used, dim=0)
                blocks_shared[0] = T.ceildiv(used[0], BLOCK_I)
                # end
                T.mbarrier_arrive(blocks_ready)
                for t in T.serial(1, T.ceildiv(used[0], BLOCK_I)):
                    bring(
                        t,
                        sample,
                        query,
                        kv_head,
                        tx,
                        newest,
                        Indices,
                        KV,
                        tokens,
                        hidden,
                        K_left,
                        K_middle,
                        K_right,
                        K_tail,
                        left_ready,
                        middle_ready,
                        right_ready,
                        left_free,
                        middle_free,
                        right_free,
                    )
            elif tx >= 128:  # the one that computes the right part
                T.set_max_nreg(176, 1)
                # concept: state-init
                T.fill(acc_middle, 0)
                T.fill(acc_right, 0)

                T.mbarrier_wait_parity(blocks_ready, 0)
                blocks = blocks_shared[0]
                for t in T.serial(blocks):
                    T.mbarrier_wait_parity(p_ready, t & 1)
                    T.copy(P_shared, p_right)
                    T.copy(rescale_shared, rescale_right)
                    T.mbarrier_arrive(p_free)
                    # concept: acc-rescale
                    for i, j in T.Parallel(ROWS, part):
                        acc_middle[i, j] *= rescale_right[i]
                    for i, j in T.Parallel(ROWS, part):
                        acc_right[i, j] *= rescale_right[i]
                    # end
                    T.mbarrier_wait_parity(middle_ready[t % STAGES], (t // STAGES) & 1)
                    T.mbarrier_wait_parity(right_ready[t % STAGES], (t // STAGES) & 1)
                    T.fence_proxy_async()
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
                    # What is free earlier is there earlier.
                    T.wait_wgmma(1)
                    T.mbarrier_arrive(middle_free[t % STAGES])
                    T.wait_wgmma(0)
                    T.mbarrier_arrive(right_free[t % STAGES])
                T.mbarrier_wait_parity(l_ready, 0)
                T.copy(l_shared, l_right)
                # concept: partial-lse
                for i in T.Parallel(ROWS):
                    if i < rows:
                        Lse[sample, query, head + i] = lse_shared[i]
                # concept: normalise, empty-row
                for i, j in T.Parallel(ROWS, part):
                    acc_middle[i, j] = T.if_then_else(
                        l_right[i] > 0, acc_middle[i, j] / l_right[i], 0
                    )
                for i, j in T.Parallel(ROWS, part):
                    acc_right[i, j] = T.if_then_else(
                        l_right[i] > 0, acc_right[i, j] / l_right[i], 0
                    )
                # end
                store(acc_middle, left, part, rows, sample, query, head, Q_middle, Output)
                store(acc_right, left + part, part, rows, sample, query, head, Q_right, Output)
            else:  # the one that computes scores, probabilities and the left part
                T.set_max_nreg(256, 1)
                # concept: state-init
                T.fill(acc_left, 0)
                T.fill(l, 0)
                T.fill(m, LOWEST)

                T.mbarrier_wait_parity(q_ready, 0)
                score(
                    0,
                    Q_left,
                    Q_middle,
                    Q_right,
                    Q_tail,
                    K_left,
                    K_middle,
                    K_right,
                    K_tail,
                    left_ready,
                    middle_ready,
                    right_ready,
                    hidden,
                    acc_s,
                )
                T.wait_wgmma(0)
                weigh(acc_s, acc_left, p, m, m_prev, rescale)
                T.mbarrier_wait_parity(blocks_ready, 0)
                blocks = blocks_shared[0]
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
                    add_up(acc_s, rescale, row_sum, l)
                    score(
                        t,
                        Q_left,
                        Q_middle,
                        Q_right,
                        Q_tail,
                        K_left,
                        K_middle,
                        K_right,
                        K_tail,
                        left_ready,
                        middle_ready,
                        right_ready,
                        hidden,
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
                    weigh(acc_s, acc_left, p, m, m_prev, rescale)
                last = blocks - 1
                hand_over(last, p, rescale, P_shared, rescale_shared, p_ready, p_free)
                if lag > 0:
                    T.mbarrier_arrive(p_ready)
                # concept: pv-gemm
                T.wgmma_gemm(
                    p, K_left[last % STAGES, :, :], acc_left, policy=T.GemmWarpPolicy.FullRow
                )
                # end
                add_up(acc_s, rescale, row_sum, l)
                T.wait_wgmma(0)
                T.copy(l, l_shared)
                for i in T.Parallel(ROWS):
                    lse_shared[i] = T.log2(l[i]) + m[i] * scale
                T.mbarrier_arrive(l_ready)
                # concept: normalise, empty-row
                for i, j in T.Parallel(ROWS, left):
                    acc_left[i, j] = T.if_then_else(l[i] > 0, acc_left[i, j] / l[i], 0)
                # end
                store(acc_left, 0, left, rows, sample, query, head, Q_left, Output)

    return main


def attention(
    q: Any,
    kv: Any,
    indices: Any,
    *,
    scale: "float | None" = None,
    first: int = 0,
    tiling: "Tiling | None" = None,
) -> Any:
    """Return the output [B, S, H, 512] in the type of q and the log2-sum-exp [B, S, H] in float32.

    q [B, S, H, 576], kv [B, N, G, 576], indices [B, S, G, topk] of int32; query head h reads K/V
    head h // (H // G), whose first 512 numbers are the value. Query s is at position first + s and
    sees listed tokens from 0 to it; one that sees none has output 0 and lse -inf. Types float16 or
    bfloat16. `scale` is 1/sqrt(576) when None. Without a `tiling`, the table of tilings has one for
    the device. ValueError or TypeError names the argument that does not fit.
    """
    dtype = _checked(q, kv, indices, first)
    heads, kv_heads, topk = q.shape[2], kv.shape[2], indices.shape[3]
    if tiling is None:
        device = launch.device_name(q.device.index)
        tiling = launch.tuned("sparse_mla", device, Tiling(), few_heads=heads <= FEW)
    launch.check_cut(tiling, Tiling, lag=(0, 1, 2))
    kernel = _compiled(heads, kv_heads, topk, scale, dtype, tiling.lag)
    return kernel(q, kv, indices, first)


def _checked(q: Any, kv: Any, indices: Any, first: int) -> str:
    """Return the type of checked tensors."""
    for name, tensor in (("q", q), ("kv", kv), ("indices", indices)):
        if not hasattr(tensor, "is_contiguous"):
            raise TypeError(
                f"{name} is a {type(tensor).__name__}, and has to be a tensor of PyTorch"
            )
        if len(tensor.shape) != 4 or 0 in tensor.shape:
            raise ValueError(f"{name} is {list(tensor.shape)}: four dimensions, none empty")
    dtype = str(q.dtype).removeprefix("torch.")
    if dtype not in launch.TYPES:
        raise TypeError(f"q is of {dtype}, and may be of {' or '.join(launch.TYPES)}")
    if not q.is_cuda:
        raise ValueError(f"q is on {q.device}: all have to be on one CUDA device")
    batch, seq_len, heads = q.shape[:3]
    tokens, kv_heads = kv.shape[1:3]
    launch.check_table("q", q, (batch, seq_len, heads, DIM + TAIL_DIM), dtype, q)
    launch.check_table("kv", kv, (batch, tokens, kv_heads, DIM + TAIL_DIM), dtype, q)
    lists = (batch, seq_len, kv_heads, indices.shape[3])
    launch.check_table("indices", indices, lists, "int32", q)
    if heads % kv_heads:
        raise ValueError(f"q has {heads} heads, no multiple of the {kv_heads} of kv")
    if first < 0:
        raise ValueError(f"first is {first}: positions begin with 0")
    return dtype


@cache
def _compiled(
    heads: int, kv_heads: int, topk: int, scale: "float | None", dtype: str, lag: int
) -> Any:
    return sparse_mla_forward(heads, kv_heads, topk, scale, dtype, lag=lag)


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`.

    NotImplementedError for head sizes other than DeepSeek's.
    """
    q, kv, indices, *rest = run.inputs
    dim, scale = run.named["dim"], run.named.get("sm_scale")
    if (dim, q.shape[3] - dim) != (DIM, TAIL_DIM):
        raise NotImplementedError(f"head sizes {DIM} and {TAIL_DIM} alone")
    kind = str(q.dtype)
    made = sparse_mla_forward(q.shape[2], kv.shape[2], indices.shape[3], scale, kind)
    output, lse = made(q, kv, indices, int(rest[0][0]) if rest else 0)
    return (output,) if run.only == (0,) else (output, lse)
