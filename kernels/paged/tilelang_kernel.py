"""Decoding over a paged KV cache on Hopper GPUs in TileLang: one warp group asks the block table.

Does what tilelang's `examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py`
does, for any order of the chosen blocks, all of them masked, and without a choice for all keys of a
sample. One query per sample; the query heads of a group are the rows of a tile. A warp group finds
the pages and copies, so that its waiting for the table costs the other one nothing. Blocks are
shared out over splits after those at the end of a list that name nothing are taken off: samples of
any lengths keep all programs busy. A second kernel merges the splits.

Three layers: `paged_forward` knows sizes and types, `main` inside it is the pair of kernels,
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
"""Query heads of a tile: what one warp group multiplies. Rows beyond the group are not stored."""
TURN = 32
"""Splits that are merged at once: as many registers hold their partial results."""
BLOCKS = (64, 128)
THREADS = 256
"""One warp group computes, one copies."""


class Tiling(NamedTuple):
    """How the work is cut: stages are blocks on the chip, `programs` how many there are to be."""

    stages: int = 3
    programs: int = 528

    def splits(self, tiles: int, blocks: int) -> int:
        """Return into how many splits the blocks of a tile of heads go: a power of two.

        Each number is a kernel of its own, and the number of samples changes from call to call.
        """
        wanted = max(1, min(self.programs // tiles, blocks))
        return 1 << (wanted.bit_length() - 1)


@tilelang.jit(out_idx=[6], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def paged_forward(
    heads: int,
    kv_heads: int,
    dim: int,
    page_size: int,
    block_n: int = 64,
    listed: bool = False,
    dtype: str = "float16",
    stages: int = 3,
    splits: int = 8,
) -> Any:
    """Return the kernels: Q, K, V, block_indices, cache_seqlens, block_table -> Output.

    Samples, pages, and the lengths of lists and tables may vary. `block_n` divides `page_size`.
    Without `listed`, block_indices is not read, and all keys of a sample are.
    """
    accum = "float32"
    batch, pages, chosen, width = T.dynamic("batch, pages, chosen, width")
    group = heads // kv_heads
    tiles = -(-group // ROWS)
    per_page = page_size // block_n
    turn = min(splits, TURN)
    columns = T.Fragment([turn, dim], lambda s, i: (i, s))
    # Two programs to a multiprocessor, where they fit: one computes while the other waits.
    two = 2 * stages * block_n * dim * 2 <= 110 * 1024
    # concept: softmax-scale
    scale = dim**-0.5 * LOG2E

    @T.macro
    def softmax(first, length, acc_s, m, m_prev, yard, rescale, row_sum, l):
        """Turn scores into probabilities; bring maximum and denominator along."""
        # concept: boundary-mask, mask-value
        if first + block_n > length:
            for i, j in T.Parallel(ROWS, block_n):
                acc_s[i, j] = T.if_then_else(first + j < length, acc_s[i, j], -T.infinity(accum))
        # concept: row-max
        T.copy(m, m_prev)
        T.reduce_max(acc_s, m, dim=1, clear=False)
        # A score of a key that is -inf is no maximum: -inf - -inf would be NaN.
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
        Q: T.Tensor([batch, heads, dim], dtype),
        K: T.Tensor([pages, page_size, kv_heads, dim], dtype),
        V: T.Tensor([pages, page_size, kv_heads, dim], dtype),
        # concept: block-indices-param
        block_indices: T.Tensor([batch, kv_heads, chosen], "int32"),
        # end
        cache_seqlens: T.Tensor([batch], "int32"),
        # concept: block-table-param
        block_table: T.Tensor([batch, width], "int32"),
        # end
        Output: T.Tensor([batch, heads, dim], dtype),
    ):
        partial_lse = T.alloc_global([batch, heads, splits], accum)
        partial_out = T.alloc_global([batch, heads, splits, dim], accum)

        # concept: kernel-grid
        with T.Kernel(splits, kv_heads * tiles, batch, threads=THREADS) as (split, tile, sample):
            q = T.alloc_fragment([ROWS, dim], dtype)
            K_shared = T.alloc_shared([stages, block_n, dim], dtype)
            V_shared = T.alloc_shared([stages, block_n, dim], dtype)
            firsts = T.alloc_shared([stages], "int32")
            places = T.alloc_fragment([THREADS], "int32")
            used = T.alloc_fragment([1], "int32")
            entry = T.alloc_fragment([THREADS], "int32")
            entries = T.alloc_shared([THREADS], "int32")
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
            length = cache_seqlens[sample]
            # The table's first entries are asked for beside the length and the list, not after.
            for i in T.Parallel(THREADS):
                entry[i] = T.if_then_else(i < width, block_table[sample, T.min(i, width - 1)], 0)
            if listed:
                T.fill(places, 0)
                for r in T.serial(T.ceildiv(chosen, THREADS)):
                    for i in T.Parallel(THREADS):
                        if r * THREADS + i < chosen:
                            if block_indices[sample, kv_head, r * THREADS + i] >= 0:
                                places[i] = r * THREADS + i + 1
                T.reduce_max(places, used, dim=0)
            else:
                T.fill(used, T.ceildiv(length, block_n))
            T.copy(entry, entries)
            T.sync_threads()  # all of them are for the warp group that copies
            # concept: split-range
            share = used[0] // splits
            more = used[0] % splits
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
                    # concept: block-index
                    block = block_indices[sample, kv_head, start + t] if listed else start + t
                    # Outside of the cache a copy finds zeros, and no memory is read.
                    # concept: block-table
                    seen = (block >= 0) & (block * block_n < length)
                    nth = T.if_then_else(seen, block // per_page, 0)
                    known = entries[T.min(nth, THREADS - 1)]
                    page = T.if_then_else(
                        seen, T.if_then_else(nth < THREADS, known, block_table[sample, nth]), pages
                    )
                    inside = T.if_then_else(seen, block % per_page * block_n, 0)
                    # end
                    T.mbarrier_wait_parity(free[stage], ((t // stages) & 1) ^ 1)
                    if tx == 128:
                        firsts[stage] = T.if_then_else(seen, block * block_n, length)
                    # concept: paged-load, gather
                    T.tma_copy(
                        K[page, inside : inside + block_n, kv_head, :],
                        K_shared[stage, :, :],
                        barrier=k_ready[stage],
                    )
                    T.mbarrier_arrive(k_ready[stage])
                    T.tma_copy(
                        V[page, inside : inside + block_n, kv_head, :],
                        V_shared[stage, :, :],
                        barrier=v_ready[stage],
                    )
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
                        firsts[stage],
                        length,
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
    q: Any,
    k_pages: Any,
    v_pages: Any,
    block_table: Any,
    cache_seqlens: Any,
    *,
    block_indices: Any = None,
    block_n: int = 64,
    tiling: "Tiling | None" = None,
) -> Any:
    """Return softmax(q k^T / sqrt(d)) v of one query per sample, [B, H, D] in the type of q.

    q [B, H, D], k_pages and v_pages [P, page, G, D]. Keys of sample b lie in pages
    block_table[b, 0], block_table[b, 1], ... and are the first cache_seqlens[b] there (int32 both).
    block_indices [B, G, n], when given, names the blocks of `block_n` keys that are attended to, in
    any order; negative numbers name none. Query head h reads KV head h // (H // G). No key seen: 0.
    Types float16 or bfloat16, D 64 or 128; block_n 64 or 128 divides pages. Without a `tiling`, the
    table of tilings has one for the device. ValueError or TypeError names the argument that does
    not fit. What the table says is not looked at: it has to name pages that there are.
    """
    sizes = _checked(q, k_pages, v_pages, block_table, cache_seqlens, block_indices)
    page_size = sizes.seq_kv
    if block_n not in BLOCKS or page_size % block_n:
        raise ValueError(f"block_n is {block_n}: one of {BLOCKS} that divides pages of {page_size}")
    if tiling is None:
        device = launch.device_name(q.device.index)
        tiling = launch.tuned("paged", device, Tiling(), dim=sizes.dim, block_n=block_n)
    launch.check_cut(tiling, Tiling)
    listed = block_indices is not None
    blocks = block_indices.shape[2] if listed else block_table.shape[1] * (page_size // block_n)
    tiles = sizes.batch * sizes.kv_heads * -(-sizes.heads // sizes.kv_heads // ROWS)
    kernel = _compiled(
        sizes._replace(batch=0), block_n, listed, tiling.stages, tiling.splits(tiles, blocks)
    )
    if not listed:
        block_indices = _no_list(sizes.batch, sizes.kv_heads, q.device)
    return kernel(q, k_pages, v_pages, block_indices, cache_seqlens, block_table)


def _checked(
    q: Any, k_pages: Any, v_pages: Any, block_table: Any, cache_seqlens: Any, block_indices: Any
) -> launch.Sizes:
    """Return the sizes of checked tensors; the number of keys is that of a page."""
    if len(getattr(q, "shape", ())) != 3:
        raise ValueError(f"q is {list(getattr(q, 'shape', ()))}, and has to be [B, H, D]")
    for name, tensor in (("k_pages", k_pages), ("block_table", block_table)):
        rank = 4 if name == "k_pages" else 2
        if len(getattr(tensor, "shape", ())) != rank:
            raise ValueError(f"{name} is {list(getattr(tensor, 'shape', ()))}: {rank} dimensions")
    batch, heads, dim = q.shape
    dtype = str(q.dtype).removeprefix("torch.")
    if dtype not in launch.TYPES:
        raise TypeError(f"q is of {dtype}, and may be of {' or '.join(launch.TYPES)}")
    if dim not in launch.DIMS:
        raise ValueError(f"q has head size {dim}, and may have {launch.DIMS}")
    if not q.is_cuda:
        raise ValueError(f"q is on {q.device}: all have to be on one CUDA device")
    pages, page_size, kv_heads = k_pages.shape[:3]
    if 0 in (batch, heads, pages, page_size, kv_heads, block_table.shape[1]):
        raise ValueError("q, k_pages and block_table may not be empty")
    if heads % kv_heads:
        raise ValueError(f"q has {heads} heads, no multiple of the {kv_heads} of k_pages")
    launch.check_table("q", q, (batch, heads, dim), dtype, q)
    for name, tensor in (("k_pages", k_pages), ("v_pages", v_pages)):
        launch.check_table(name, tensor, (pages, page_size, kv_heads, dim), dtype, q)
    launch.check_table("block_table", block_table, (batch, block_table.shape[1]), "int32", q)
    launch.check_table("cache_seqlens", cache_seqlens, (batch,), "int32", q)
    if block_indices is not None:
        length = (getattr(block_indices, "shape", ()) or (0,))[-1]
        wanted = (batch, kv_heads, max(1, length))
        launch.check_table("block_indices", block_indices, wanted, "int32", q)
    return launch.Sizes(batch, heads, kv_heads, 1, page_size, dim, dtype)


@cache
def _compiled(sizes: launch.Sizes, block_n: int, listed: bool, stages: int, splits: int) -> Any:
    return paged_forward(
        sizes.heads,
        sizes.kv_heads,
        sizes.dim,
        sizes.seq_kv,
        block_n,
        listed,
        sizes.dtype,
        stages,
        splits,
    )


@cache
def _no_list(batch: int, kv_heads: int, device: Any) -> Any:
    import torch

    return torch.full((batch, kv_heads, 1), -1, dtype=torch.int32, device=device)


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`."""
    q, k, v, indices, lengths, table, lse = run.inputs[:7]
    _, heads, dim = q.shape
    _, page, kv_heads, _ = k.shape
    splits, block_n, kind = lse.shape[2], run.args[5], str(q.dtype)
    made = paged_forward(heads, kv_heads, dim, page, block_n, True, kind, splits=splits)
    return (made(q, k, v, indices, lengths, table),)
