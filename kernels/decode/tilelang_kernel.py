"""Decoding on Hopper GPUs in TileLang: keys are split over programs, and a second kernel merges.

Does what tilelang's `examples/flash_decoding/example_gqa_decode.py` does, with partial results in
float32, splits of any length, and splits or queries that see no key ("Flash-Decoding", Dao et al.,
2023). One query per sample; the query heads of a group are the rows of a tile, so that a KV head
is read once for all of them. A warp group copies keys, values and the mask some blocks ahead of the
one that computes, and the second kernel is launched before the first has ended.

Three layers: `decode_forward` knows sizes and types, `main` inside it is the pair of kernels,
`attention` checks tensors, chooses a tiling and launches. Runs on a GPU of compute capability 9.0
(tilelang >= 0.1.15), and in srcmap's interpreter anywhere.
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
ROWS = 64
"""Query heads of a tile: what one warp group multiplies. Rows beyond the group are not stored."""
TURN = 32
"""Splits that are merged at once: as many registers hold their partial results."""


@tilelang.jit(out_idx=[4], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def decode_forward(
    batch: int,
    heads: int,
    kv_heads: int,
    seq_kv: int,
    dim: int,
    masked: bool = False,
    dtype: str = "float16",
    block_n: int = 64,
    stages: int = 3,
    splits: int = 8,
) -> Any:
    """Return the kernels of these sizes: Q, K, V, Mask -> Output.

    Without `masked`, Mask is [1, 1, 1] and not read. Each of the `splits` programs of a head reads
    as many blocks of `block_n` keys as the others, or one less.
    """
    accum = "float32"
    q_shape = [batch, heads, dim]
    kv_shape = [batch, seq_kv, kv_heads, dim]
    mask_shape = [batch, seq_kv, kv_heads] if masked else [1, 1, 1]
    group = heads // kv_heads
    tiles = -(-group // ROWS)
    share, more = divmod(-(-seq_kv // block_n), splits)
    turn = min(splits, TURN)
    columns = T.Fragment([turn, dim], lambda s, i: (i, s))
    # Two programs to a multiprocessor, where they fit: one computes while the other waits.
    two = 2 * stages * block_n * dim * 2 <= 110 * 1024
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    @T.macro
    def softmax(first, stage, seen, acc_s, m, m_prev, yard, rescale, row_sum, l):
        """Turn scores into probabilities; bring maximum and denominator along."""
        # concept: boundary-mask, mask-value
        if masked:
            for i, j in T.Parallel(ROWS, block_n):
                acc_s[i, j] = T.if_then_else(seen[stage, j] != 0, acc_s[i, j], -T.infinity(accum))
        else:
            if first + block_n > seq_kv:
                for i, j in T.Parallel(ROWS, block_n):
                    acc_s[i, j] = T.if_then_else(
                        first + j < seq_kv, acc_s[i, j], -T.infinity(accum)
                    )
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=False)
        # concept: check-inf
        for i in T.Parallel(ROWS):
            yard[i] = T.if_then_else(m[i] == -T.infinity(accum), 0, m[i])
        # concept: rescale-factor
        for i in T.Parallel(ROWS):
            rescale[i] = T.exp2(m_prev[i] * scale - yard[i] * scale)
        # concept: probability
        for i, j in T.Parallel(ROWS, block_n):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - yard[i] * scale)
        # concept: row-sum
        T.reduce_sum(acc_s, row_sum, dim=1)
        # concept: denominator
        for i in T.Parallel(ROWS):
            l[i] = l[i] * rescale[i] + row_sum[i]

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Mask: T.Tensor(mask_shape, "uint8"),
        Output: T.Tensor(q_shape, dtype),
    ):
        partial_lse = T.alloc_global([batch, heads, splits], accum)
        partial_out = T.alloc_global([batch, heads, splits, dim], accum)

        # concept: kernel-grid
        with T.Kernel(splits, kv_heads * tiles, batch, threads=256) as (split, tile, sample):
            q = T.alloc_fragment([ROWS, dim], dtype)
            K_shared = T.alloc_shared([stages, block_n, dim], dtype)
            V_shared = T.alloc_shared([stages, block_n, dim], dtype)
            seen = T.alloc_shared([stages, block_n], "uint8")
            acc_s = T.alloc_fragment([ROWS, block_n], accum)
            p = T.alloc_fragment([ROWS, block_n], dtype)
            acc_o = T.alloc_fragment([ROWS, dim], accum)
            m = T.alloc_fragment([ROWS], accum)
            m_prev = T.alloc_fragment([ROWS], accum)
            yard = T.alloc_fragment([ROWS], accum)
            rescale = T.alloc_fragment([ROWS], accum)
            row_sum = T.alloc_fragment([ROWS], accum)
            l = T.alloc_fragment([ROWS], accum)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            free = T.alloc_barrier([128] * stages)

            # concept: kv-head
            kv_head = tile // tiles

            head = kv_head * group + tile % tiles * ROWS
            rows = T.min(ROWS, group - tile % tiles * ROWS)
            # concept: split-range
            start = share * split + T.min(split, more)

            # concept: loop-range
            blocks = share + T.if_then_else(split < more, 1, 0)

            tx = T.get_thread_binding()
            if two:
                T.annotate_min_blocks_per_sm(2)
            if tx >= 128:  # the warp group that copies
                if two:
                    T.set_max_nreg(24, 0)
                for t in T.serial(blocks):
                    stage = t % stages
                    first = (start + t) * block_n
                    T.mbarrier_wait_parity(free[stage], ((t // stages) & 1) ^ 1)
                    T.tma_copy(
                        K[sample, first : first + block_n, kv_head, :],
                        K_shared[stage, :, :],
                        barrier=k_ready[stage],
                    )
                    T.tma_copy(
                        V[sample, first : first + block_n, kv_head, :],
                        V_shared[stage, :, :],
                        barrier=v_ready[stage],
                    )
                    # While the copies are under way.
                    # concept: mask-load
                    if masked:
                        if tx - 128 < block_n:
                            key = first + tx - 128
                            seen[stage, tx - 128] = T.if_then_else(
                                key < seq_kv, Mask[sample, T.min(key, seq_kv - 1), kv_head], 0
                            )
                    # end
                    T.mbarrier_arrive(k_ready[stage])
                    T.mbarrier_arrive(v_ready[stage])
            else:  # the one that computes
                if two:
                    T.set_max_nreg(232, 1)
                # concept: state-init
                T.fill(acc_o, 0)
                T.fill(l, 0)
                T.fill(m, -T.infinity(accum))

                # Queries stay in registers: shared memory is for what is on the way.
                T.copy(Q[sample, head : head + ROWS, :], q)
                for t in T.serial(blocks):  # concept: kv-loop
                    stage = t % stages
                    T.mbarrier_wait_parity(k_ready[stage], (t // stages) & 1)
                    # concept: qk-gemm
                    T.wgmma_gemm(
                        q,
                        K_shared[stage, :, :],
                        acc_s,
                        transpose_B=True,
                        policy=T.GemmWarpPolicy.FullRow,
                        clear_accum=True,
                    )
                    T.wait_wgmma(0)
                    # end
                    softmax(
                        (start + t) * block_n,
                        stage,
                        seen,
                        acc_s,
                        m,
                        m_prev,
                        yard,
                        rescale,
                        row_sum,
                        l,
                    )
                    # concept: acc-rescale
                    for i, j in T.Parallel(ROWS, dim):
                        acc_o[i, j] *= rescale[i]
                    # end
                    T.copy(acc_s, p)
                    T.mbarrier_wait_parity(v_ready[stage], (t // stages) & 1)
                    # concept: pv-gemm
                    T.wgmma_gemm(p, V_shared[stage, :, :], acc_o, policy=T.GemmWarpPolicy.FullRow)
                    T.wait_wgmma(0)
                    # end
                    T.mbarrier_arrive(free[stage])
                T.pdl_trigger()  # the second kernel may get ready
                # A split that saw no key has lse -inf, so that its zeros weigh nothing.
                # concept: normalise
                for i, j in T.Parallel(ROWS, dim):
                    acc_o[i, j] = T.if_then_else(l[i] > 0, acc_o[i, j] / l[i], 0)
                # concept: partial-lse
                for i in T.Parallel(ROWS):
                    if i < rows:
                        partial_lse[sample, head + i, split] = T.if_then_else(
                            l[i] > 0, T.log2(l[i]) + m[i] * scale, -T.infinity(accum)
                        )
                # concept: partial-output
                for i, j in T.Parallel(ROWS, dim):
                    if i < rows:
                        partial_out[sample, head + i, split, j] = acc_o[i, j]

        # concept: combine
        with T.Kernel(heads, batch, threads=dim) as (q_head, one):
            # A thread has one component of many splits at once: all loads are under way together,
            # and no thread waits for another.
            part = T.alloc_fragment([turn, dim], accum)
            lse = T.alloc_fragment([turn, dim], accum)
            top = T.alloc_fragment([dim], accum)
            before = T.alloc_fragment([dim], accum)
            yard = T.alloc_fragment([dim], accum)
            total = T.alloc_fragment([dim], accum)
            out = T.alloc_fragment([dim], accum)
            T.annotate_layout({part: columns, lse: columns})
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity(accum))
            T.pdl_sync()  # until all splits are there
            for r in T.serial(-(-splits // turn)):
                for s, i in T.Parallel(turn, dim):
                    part[s, i] = partial_out[one, q_head, T.min(r * turn + s, splits - 1), i]
                for s, i in T.Parallel(turn, dim):
                    lse[s, i] = T.if_then_else(
                        r * turn + s < splits,
                        partial_lse[one, q_head, T.min(r * turn + s, splits - 1)],
                        -T.infinity(accum),
                    )
                # concept: combine-max
                T.copy(top, before)
                T.reduce_max(lse, top, dim=0, clear=False)
                # concept: check-inf
                for i in T.Parallel(dim):
                    yard[i] = T.if_then_else(top[i] == -T.infinity(accum), 0, top[i])
                # concept: combine-weights
                for s, i in T.Parallel(turn, dim):
                    lse[s, i] = T.exp2(lse[s, i] - yard[i])
                # concept: combine-logsumexp
                for i in T.Parallel(dim):
                    out[i] *= T.exp2(before[i] - yard[i])
                    total[i] *= T.exp2(before[i] - yard[i])
                T.reduce_sum(lse, total, dim=0, clear=False)
                # concept: combine-accumulate
                for s, i in T.Parallel(turn, dim):
                    part[s, i] *= lse[s, i]
                T.reduce_sum(part, out, dim=0, clear=False)
            # end
            for i in T.Parallel(dim):
                out[i] = T.if_then_else(total[i] > 0, out[i] / total[i], 0)
            # concept: epilogue-store
            T.copy(out, Output[one, q_head, :])

    return main


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, *, tiling: "launch.Splitting | None" = None
) -> Any:
    """Return softmax(q k^T / sqrt(d)) v of one query per sample, over the keys the mask leaves.

    q [B, H, D], k and v [B, Skv, G, D] -> [B, H, D]; query head h reads KV head h // (H // G).
    mask [B, Skv, G], uint8: 0 hides a key. A query that sees no key gives 0. Types float16 or
    bfloat16, D 64 or 128, on a CUDA device. ValueError or TypeError names the argument that does
    not fit.
    """
    if len(getattr(q, "shape", ())) != 3:
        raise ValueError(f"q is {list(getattr(q, 'shape', ()))}, and has to be [B, H, D]")
    sizes = launch.check(q[:, None], k, v, causal=False, layout="BSHD")
    if mask is not None:
        launch.check_mask(mask, k)
    tiling = tiling or launch.splitting_for("decode", launch.device_name(q.device.index), sizes.dim)
    splits = tiling.splits(sizes)
    kernel = _compiled(sizes, mask is not None, tiling.block_n, tiling.stages, splits)
    return kernel(q, k, v, mask if mask is not None else _no_mask(q.device))


@cache
def _compiled(sizes: launch.Sizes, masked: bool, block_n: int, stages: int, splits: int) -> Any:
    return decode_forward(
        sizes.batch,
        sizes.heads,
        sizes.kv_heads,
        sizes.seq_kv,
        sizes.dim,
        masked,
        sizes.dtype,
        block_n,
        stages,
        splits,
    )


@cache
def _no_mask(device: Any) -> Any:
    import torch

    return torch.ones(1, 1, 1, dtype=torch.uint8, device=device)


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`.

    NotImplementedError for several queries of one sample, which have the tiles of other variants.
    """
    if run.inputs[0].ndim != 3:
        raise NotImplementedError("one query for each sample, and no more")
    q, k, v, mask = run.inputs
    batch, heads, dim = q.shape
    made = decode_forward(
        batch, heads, k.shape[2], k.shape[1], dim, True, str(q.dtype), splits=run.args[7]
    )
    return (made(q, k, v, mask),)
