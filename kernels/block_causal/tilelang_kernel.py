"""Block-causal attention on Hopper GPUs in TileLang: a noisy copy and a clean one, seen by block.

Does what tilelang's `examples/block_causal_attention/block_causal_attention.py` and
`block_causal_attention_varlen.py` compute forward, with one kernel: samples of one length are
packed samples, too. Scheduled as "FlashAttention-3" (Shah et al., 2024) proposes: one warp group
copies, and while the others compute the exponentials of one block of keys, the product with the
values of the block before is under way. Three layers: `block_causal_forward` knows heads and types,
`main` inside it is the kernel, `attention` and `attention_varlen` check tensors, choose a tiling
and launch. Numbers of samples and of tokens are arguments of the compiled kernel.

Runs on a GPU of compute capability 9.0 (tilelang >= 0.1.15), and in srcmap's interpreter anywhere.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, misc"
# TileLang reads the annotations of kernels as values, so they are no types, and must not be text.

from functools import cache
from typing import Any

import numpy as np
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
MOST = 2.0**20
"""The product of a larger scale and `LOWEST` would not be finite."""
DEFAULT = launch.Tiling(128, 128, 2, 8)
"""The tiling for devices that the table does not know. Tiles as high as blocks are wide visit the
fewest keys along the diagonals; three warp groups would visit an eighth more."""


@tilelang.jit(out_idx=[5, 6], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def block_causal_forward(
    heads: int,
    dim: int,
    dllm_block: int,
    softmax_scale: float,
    dtype: str = "float16",
    block_m: int = 128,
    block_n: int = 128,
    stages: int = 2,
    head_group: int = 1,
    turns: bool = False,
) -> Any:
    """Return the kernel: Q, K, V, cu_seqlens, max_seqlen -> Output in `dtype`, LSE in float32.

    Every 64 of the `block_m` queries of a program have a warp group; one more copies. `stages`
    blocks of keys, and of values, are on the chip at once. `head_group` heads (a divisor of
    `heads`) are worked on side by side before the next ones. With `turns`, the warp groups start
    their products one after the other, so that one has the matrix units while another has the
    exponentials.
    """
    accum = "float32"
    total, starts = T.dynamic("total, starts")
    groups = block_m // 64
    computing = groups * 128
    # concept: softmax-scale
    scale = softmax_scale * LOG2E

    @T.macro
    def softmax(t, tile, acc_s, m, m_prev, rescale, row_sum, l):
        """Turn the scores of block t into probabilities; bring maximum and denominator along."""
        first, half, noisy, clean_blocks, own = tile
        # Few blocks hide something: the tile's own noisy tokens, and the last clean ones. What
        # the first row sees of these, every row does.
        # concept: causal-mask, boundary-mask, mask-value
        if t >= clean_blocks:
            place = own + (t - clean_blocks) * block_n
            for i, j in T.Parallel(block_m, block_n):
                acc_s[i, j] = T.if_then_else(
                    ((place + j) // dllm_block == (first + i) // dllm_block) & (place + j < half),
                    acc_s[i, j],
                    -T.infinity(accum),
                )
        elif (t + 1) * block_n > T.min(half, (first // dllm_block + 1 - noisy) * dllm_block):
            for i, j in T.Parallel(block_m, block_n):
                acc_s[i, j] = T.if_then_else(
                    ((t * block_n + j) // dllm_block + noisy <= (first + i) // dllm_block)
                    & (t * block_n + j < half),
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
        Q: T.Tensor([total, heads, dim], dtype),
        K: T.Tensor([total, heads, dim], dtype),
        V: T.Tensor([total, heads, dim], dtype),
        cu_seqlens: T.Tensor([starts], "int32"),
        max_seqlen: T.int32,
        Output: T.Tensor([total, heads, dim], dtype),
        LSE: T.Tensor([heads, total], accum),
    ):
        # concept: kernel-grid
        with T.Kernel(
            T.ceildiv(max_seqlen // 2, block_m) * 2 * head_group,
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
            q_ready = T.alloc_barrier(128)
            k_ready = T.alloc_barrier([128] * stages)
            v_ready = T.alloc_barrier([128] * stages)
            k_free = T.alloc_barrier([computing] * stages)
            v_free = T.alloc_barrier([computing] * stages)
            turn = T.alloc_barrier([128] * groups)

            # concept: cu-seqlens
            sample_start = cu_seqlens[sample]
            half = (cu_seqlens[sample + 1] - sample_start) // 2

            # Rows are longer the later they are; the longest start first, and none is left over for
            # the end. A noisy tile and the clean one of the same place stand side by side.
            tiles = T.ceildiv(half, block_m)
            first = T.alloc_var("int32")
            first = (tiles - 1 - px // head_group // 2) * block_m
            noisy = px // head_group % 2
            head = py * head_group + px % head_group
            row = sample_start + (1 - noisy) * half + first
            # Clean queries see the clean half up to the end of their block, noisy ones up to its
            # start, and then their block among the noisy tokens.
            last_block = T.alloc_var("int32")
            last_block = (T.min(half, first + block_m) - 1) // dllm_block
            own = T.alloc_var("int32")
            own = first // dllm_block * dllm_block
            # concept: loop-range
            clean_blocks = T.alloc_var("int32")
            clean_blocks = T.ceildiv(T.min(half, (last_block + 1 - noisy) * dllm_block), block_n)
            blocks = T.alloc_var("int32")
            blocks = clean_blocks
            if noisy == 1:
                blocks += T.ceildiv(T.min(half, (last_block + 1) * dllm_block) - own, block_n)

            tile = (first, half, noisy, clean_blocks, own)
            tx = T.get_thread_binding()
            if px // head_group < 2 * tiles:
                if tx >= computing:  # the warp group that copies
                    T.set_max_nreg(24, 0)
                    T.tma_copy(Q[row : row + block_m, head, :], Q_shared, barrier=q_ready)
                    T.mbarrier_arrive(q_ready)
                    for t in T.serial(blocks):
                        key = sample_start + T.if_then_else(
                            t < clean_blocks,
                            half + t * block_n,
                            own + (t - clean_blocks) * block_n,
                        )
                        T.mbarrier_wait_parity(k_free[t % stages], ((t // stages) & 1) ^ 1)
                        T.tma_copy(
                            K[key : key + block_n, head, :],
                            K_shared[t % stages, :, :],
                            barrier=k_ready[t % stages],
                        )
                        T.mbarrier_arrive(k_ready[t % stages])
                        T.mbarrier_wait_parity(v_free[t % stages], ((t // stages) & 1) ^ 1)
                        T.tma_copy(
                            V[key : key + block_n, head, :],
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
                    softmax(0, tile, acc_s, m, m_prev, rescale, row_sum, l)
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
                        softmax(t, tile, acc_s, m, m_prev, rescale, row_sum, l)
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
                    # Every row sees itself, or its copy. What is past the half has no key, and is
                    # not stored.
                    # concept: normalise, empty-row
                    for i, j in T.Parallel(block_m, dim):
                        acc_o[i, j] = T.if_then_else(l[i] > 0, acc_o[i, j] / l[i], 0)
                    # concept: partial-lse
                    for i in T.Parallel(block_m):
                        if first + i < half:
                            LSE[head, row + i] = T.log2(l[i]) + m[i] * scale
                    # Rows past the half are another program's. A bulk copy writes whole tiles, so
                    # the half's last tile goes row by row.
                    # concept: varlen-guard, epilogue-store
                    if first + block_m <= half:
                        # Each warp group has read its own rows of Q for the last time.
                        T.copy(acc_o, Q_shared)
                        T.fence_proxy_async()
                        T.copy(Q_shared, Output[row : row + block_m, head, :])
                    else:
                        for i, j in T.Parallel(block_m, dim):
                            if first + i < half:
                                Output[row + i, head, j] = acc_o[i, j]

    return main


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    dllm_block: int,
    scale: "float | None" = None,
    tiling: "launch.Tiling | None" = None,
) -> tuple[Any, Any]:
    """Return the output [B, S, H, D] in the type of q, and log2-sum-exp [B, H, S] in float32.

    q, k, v [B, S, H, D]: CUDA tensors, rows up to S / 2 the noisy copy, the rest the clean one.
    `dllm_block` tokens make a block; `scale` is 1/sqrt(D) when None. Types float16 or bfloat16, D
    64 or 128. The second is a view. ValueError or TypeError names the argument that does not fit.
    """
    sizes = launch.check(q, k, v, causal=False, layout="BSHD")
    _check_alike(sizes)
    if sizes.seq_q % 2:
        raise ValueError(f"q has {sizes.seq_q} tokens, and they have to be two halves")
    starts = _starts(sizes.batch, sizes.seq_q, q.device)
    packed = (x.reshape(-1, sizes.heads, sizes.dim) for x in (q, k, v))
    out, lse = _launched(sizes, (*packed, starts, sizes.seq_q), dllm_block, scale, tiling)
    return out.reshape(q.shape), lse.reshape(sizes.heads, sizes.batch, -1).transpose(0, 1)


def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens: Any,
    *,
    dllm_block: int,
    scale: "float | None" = None,
    max_seqlen: "int | None" = None,
    tiling: "launch.Tiling | None" = None,
) -> tuple[Any, Any]:
    """Return the output [T, H, D] and log2-sum-exp [H, T] of packed samples, each as `attention`'s.

    q, k, v [T, H, D]; sample b is rows cu_seqlens[b] to cu_seqlens[b + 1], an even number of them.
    Without `max_seqlen`, the lengths are read from the GPU and checked; with it, nobody waits, and
    rows of samples that are longer, or that none owns, are left as they are found.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if hasattr(tensor, "shape") and len(tensor.shape) != 3:
            raise ValueError(f"{name} is {list(tensor.shape)}, and has to be [tokens, heads, D]")
    one = (x[None] if hasattr(x, "shape") else x for x in (q, k, v))
    sizes = launch.check(*one, causal=False, layout="BSHD")
    _check_alike(sizes)
    launch.check_starts("cu_seqlens", cu_seqlens, q)
    if max_seqlen is None:
        lengths = launch.lengths("cu_seqlens", cu_seqlens, sizes.seq_q)
        odd = [length for length in lengths if length % 2]
        if odd:
            raise ValueError(f"cu_seqlens has a sample of {odd[0]} tokens: they are no two halves")
        max_seqlen = max(lengths)
    if max_seqlen < 2:
        raise ValueError(f"max_seqlen is {max_seqlen}: the longest sample has two halves")
    out, lse = _launched(sizes, (q, k, v, cu_seqlens, max_seqlen), dllm_block, scale, tiling)
    return out, lse


def _check_alike(sizes: launch.Sizes) -> None:
    if (sizes.kv_heads, sizes.seq_kv) != (sizes.heads, sizes.seq_q):
        raise ValueError(
            f"k has {sizes.seq_kv} tokens and {sizes.kv_heads} heads, and has to have those of q: "
            f"{sizes.seq_q} and {sizes.heads}"
        )


def _launched(
    sizes: launch.Sizes,
    given: tuple[Any, ...],
    dllm_block: int,
    scale: "float | None",
    tiling: "launch.Tiling | None",
) -> Any:
    """Run the kernel on packed tensors: q, k, v, cu_seqlens, max_seqlen."""
    if dllm_block < 1:
        raise ValueError(f"dllm_block is {dllm_block}: a block has a token")
    if scale is not None and not 0 < scale < MOST:
        raise ValueError(f"scale is {scale}: the kernel takes one above 0 and below {MOST:g}")
    if tiling is None:
        device = launch.device_name(given[0].device.index)
        tiling = launch.tuned("block_causal", device, DEFAULT, dim=sizes.dim)
    scale = sizes.dim**-0.5 if scale is None else scale
    return _compiled(sizes.heads, sizes.dim, dllm_block, scale, sizes.dtype, tiling)(*given)


@cache
def _starts(samples: int, length: int, device: Any) -> Any:
    """Return where samples of one length start."""
    import torch

    return torch.arange(samples + 1, dtype=torch.int32, device=device) * length


@cache
def _compiled(
    heads: int, dim: int, dllm_block: int, scale: float, dtype: str, tiling: launch.Tiling
) -> Any:
    return block_causal_forward(
        heads,
        dim,
        dllm_block,
        scale,
        dtype,
        tiling.block_m,
        tiling.block_n,
        tiling.stages,
        launch.divisor(tiling.head_group, heads),
        tiling.turns,
    )


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`."""
    q, k, v = run.inputs[:3]
    heads, dim = q.shape[-2:]
    size, scale = run.args[3:5] if q.ndim == 3 else run.args[4:6]
    made = block_causal_forward(heads, dim, size, scale, str(q.dtype), block_n=64, turns=True)
    if q.ndim == 3:
        return tuple(made(q, k, v, *run.inputs[3:5]))
    batch, seq = q.shape[:2]
    starts = np.arange(batch + 1, dtype=np.int32) * seq
    packed = (x.reshape(batch * seq, heads, dim) for x in (q, k, v))
    output, lse = made(*packed, starts, seq)
    return output.reshape(q.shape), lse.reshape(heads, batch, seq).swapaxes(0, 1)
