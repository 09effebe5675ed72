"""Decoding on Hopper GPUs in TileLang: keys are split over programs, and a second kernel merges.

Does what tilelang's `examples/flash_decoding/example_gqa_decode.py` does, with partial results in
float32, splits of any length, and splits or queries that see no key ("Flash-Decoding", Dao et al.,
2023). One query per sample; the query heads of a group are the rows of a tile, so that a KV head
is read once for all of them.

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
    stages: int = 2,
    splits: int = 8,
) -> Any:
    """Return the kernels of these sizes: Q, K, V, Mask -> Output.

    Without `masked`, Mask is [1, 1, 1] and not read. Each of the `splits` programs of a head reads
    as many blocks of `block_n` keys as the others, the last ones fewer.
    """
    accum = "float32"
    q_shape = [batch, heads, dim]
    kv_shape = [batch, seq_kv, kv_heads, dim]
    mask_shape = [batch, seq_kv, kv_heads] if masked else [1, 1, 1]
    group = heads // kv_heads
    tiles = -(-group // ROWS)
    all_blocks = -(-seq_kv // block_n)
    chunk = -(-all_blocks // splits) * block_n
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

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
        with T.Kernel(splits, kv_heads * tiles, batch, threads=128) as (split, tile, sample):
            Q_shared = T.alloc_shared([ROWS, dim], dtype)
            K_shared = T.alloc_shared([block_n, dim], dtype)
            V_shared = T.alloc_shared([block_n, dim], dtype)
            acc_s = T.alloc_fragment([ROWS, block_n], accum)
            p = T.alloc_fragment([ROWS, block_n], dtype)
            acc_o = T.alloc_fragment([ROWS, dim], accum)
            m = T.alloc_fragment([ROWS], accum)
            m_prev = T.alloc_fragment([ROWS], accum)
            yard = T.alloc_fragment([ROWS], accum)
            rescale = T.alloc_fragment([ROWS], accum)
            row_sum = T.alloc_fragment([ROWS], accum)
            l = T.alloc_fragment([ROWS], accum)
            seen = T.alloc_fragment([block_n], "uint8")

            # concept: kv-head
            kv_head = tile // tiles

            head = kv_head * group + tile % tiles * ROWS
            rows = T.min(ROWS, group - tile % tiles * ROWS)
            # concept: split-range
            start = split * chunk
            end = T.min(seq_kv, start + chunk)

            # concept: loop-range
            blocks = T.max(0, T.ceildiv(end - start, block_n))

            T.copy(Q[sample, head : head + ROWS, :], Q_shared)
            # concept: state-init
            T.fill(acc_o, 0)
            T.fill(l, 0)
            T.fill(m, -T.infinity(accum))

            for t in T.Pipelined(blocks, num_stages=stages):  # concept: kv-loop
                T.copy(
                    K[sample, start + t * block_n : start + (t + 1) * block_n, kv_head, :], K_shared
                )
                # concept: qk-gemm
                T.gemm(
                    Q_shared,
                    K_shared,
                    acc_s,
                    transpose_B=True,
                    policy=T.GemmWarpPolicy.FullRow,
                    clear_accum=True,
                )
                # concept: boundary-mask, mask-value
                if masked:
                    T.copy(
                        Mask[sample, start + t * block_n : start + (t + 1) * block_n, kv_head], seen
                    )
                    for i, j in T.Parallel(ROWS, block_n):
                        acc_s[i, j] = T.if_then_else(
                            (seen[j] != 0) & (start + t * block_n + j < end),
                            acc_s[i, j],
                            -T.infinity(accum),
                        )
                else:
                    for i, j in T.Parallel(ROWS, block_n):
                        acc_s[i, j] = T.if_then_else(
                            start + t * block_n + j < end, acc_s[i, j], -T.infinity(accum)
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
                # concept: acc-rescale
                for i, j in T.Parallel(ROWS, dim):
                    acc_o[i, j] *= rescale[i]
                # end
                T.copy(acc_s, p)
                T.copy(
                    V[sample, start + t * block_n : start + (t + 1) * block_n, kv_head, :], V_shared
                )
                # concept: pv-gemm
                T.gemm(p, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)

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
            out = T.alloc_fragment([dim], accum)
            top = T.alloc_var(accum)
            total = T.alloc_var(accum)
            weight = T.alloc_var(accum)
            # concept: combine-max
            top = -T.infinity(accum)
            for s in T.serial(splits):
                top = T.max(top, partial_lse[one, q_head, s])
            # concept: check-inf
            top = T.if_then_else(top == -T.infinity(accum), 0.0, top)
            # concept: combine-logsumexp
            total = 0.0
            for s in T.serial(splits):
                total += T.exp2(partial_lse[one, q_head, s] - top)
            # end
            T.fill(out, 0)
            for s in T.serial(splits):
                # concept: combine-weights
                weight = T.exp2(partial_lse[one, q_head, s] - top)
                # concept: combine-accumulate
                for i in T.Parallel(dim):
                    out[i] += partial_out[one, q_head, s, i] * weight
            # concept: epilogue-store
            for i in T.Parallel(dim):
                Output[one, q_head, i] = T.if_then_else(total > 0, out[i] / total, 0)

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
