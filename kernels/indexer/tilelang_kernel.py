"""The lightning indexer's scores on Hopper GPUs in TileLang: one kernel scores and hides.

Does what tilelang's `examples/deepseek_v32/fp8_lighting_indexer.py` does in two kernels. There a
program has a few queries and reads all their keys, and the second kernel goes over the scores
again. Here a program has a block of keys, which stays on the chip, and the queries come by: a tile
of keys by (queries x heads) is multiplied, cut off at 0, weighted and summed over the heads in
registers, and what is out of a query's range is written as -inf at once, scored or not.

With few components the product is quick, and what follows it counts: two operations for each score
of a head, if a thread can add up alone. So the copy of the queries lays the heads out such that a
thread's columns of the product belong to one query: see `side_by_side`.

Three layers: `indexer_forward` knows sizes and types, `main` inside it is the kernel, `logits`
checks tensors, chooses a tiling and launches. Selecting the best keys is not done here. Runs on a
GPU of compute capability 9.0 (tilelang >= 0.1.15), and in srcmap's interpreter anywhere.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, misc"
# TileLang reads the annotations of kernels as values, so they are no types, and must not be text.

import math
from functools import cache
from typing import Any, NamedTuple

import tilelang
import tilelang.language as T

from kernels import launch

TYPES = ("float8_e4m3fn", "bfloat16", "float16")
DIMS = (64, 128)
HEADS = (8, 16, 32, 64, 128)
AFTER = 2**30
"""Where the range of a query that sees no key begins."""


class Tiling(NamedTuple):
    """How the kernel is cut: numbers that change its speed and nothing it computes."""

    groups: int = 2
    """Warp groups that compute: each has 64 keys of a tile."""
    tiles: int = 4
    """Tiles of keys that a program keeps."""
    columns: int = 256
    """Queries times heads of a tile."""
    queries: int = 64
    """Queries that come by at a program."""
    stages: int = 2
    """Groups of queries that are on the chip at once."""


def side_by_side(each: int) -> tuple[int, int]:
    """Return how many of `each` queries lie side by side, and how many heads of one in a row.

    4 threads share a row of a product, and of every 8 columns each has the next 2. With 4 queries
    side by side, 2 heads of each in a row, all that a thread has is of one query, and it sums up
    the heads alone; with 2 or 1, so many threads do it together.
    """
    beside = math.gcd(each, 4)
    return beside, 8 // beside


def arranged(q: Any, heads: int, columns: int) -> Any:
    """Return q [M * H, D] or [M, H, D] as the kernel wants it, [H / run, M, run, D]: a view."""
    _, run = side_by_side(max(1, columns // heads))
    return q.reshape(-1, heads // run, run, q.shape[-1]).swapaxes(0, 1)


@tilelang.jit(out_idx=[6], pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True})
def indexer_forward(
    heads: int,
    dim: int,
    dtype: str = "float8_e4m3fn",
    groups: int = 2,
    tiles: int = 4,
    columns: int = 256,
    queries: int = 64,
    stages: int = 2,
) -> Any:
    """Return the kernel: Q, K, KScale, Weights, Starts, Ends -> Logits, for any lengths.

    Q is [heads / run, queries, run, dim]: see `side_by_side`. The rest is explained at `Tiling`.
    """
    accum = "float32"
    seq_len, seq_kv = T.dynamic("seq_len, seq_kv")
    computing = 128 * groups
    block = 64 * groups
    keep = block * tiles
    each = max(1, columns // heads)
    columns = each * heads
    rounds = -(-queries // each)
    queries = rounds * each
    beside, run = side_by_side(each)
    more, runs = each // beside, heads // run
    span = dim if dtype == TYPES[0] else 64  # components that lie side by side on the chip

    def over(combine, numbers, r):
        """Combine the numbers of a round's queries."""
        found = numbers[r * each]
        for i in range(1, each):
            found = combine(found, numbers[r * each + i])
        return found

    @T.macro
    def score(key, r, u, by_head, weights, part, summed, scales, starts, ends, latest, earliest):
        """Turn the products of a tile, whose first key is `key`, into scores."""
        for n, m, j, q, h in T.Parallel(block, more, runs, beside, run):
            by_head[n, m, j, q, h] = T.max(by_head[n, m, j, q, h], 0) * weights[m, j, q, h]
        T.reduce_sum(by_head, part, dim=2, clear=True)
        T.reduce_sum(part, summed, dim=3, clear=True)
        # A key's scale is positive and the same for all heads: once is enough.
        for n, m, q in T.Parallel(block, more, beside):
            summed[n, m, q] *= scales[u * block + n]
        # Most tiles are in the range of all their queries.
        # concept: boundary-mask, mask-value
        if (latest > key) | (earliest < key + block):
            for n, m, q in T.Parallel(block, more, beside):
                summed[n, m, q] = T.if_then_else(
                    (key + n >= starts[r * each + m * beside + q])
                    & (key + n < ends[r * each + m * beside + q]),
                    summed[n, m, q],
                    -T.infinity(accum),
                )

    @T.macro
    def hide(Logits, query, key, many):
        """Write -inf for the queries of a round and `many` keys, of those that exist."""
        for q, n in T.Parallel(each, many):
            if (query + q < seq_len) & (key + n < seq_kv):
                # concept: mask-value
                Logits[query + q, key + n] = -T.infinity(accum)

    @T.prim_func
    def main(
        Q: T.StridedTensor([runs, seq_len, run, dim], [run * dim, heads * dim, dim, 1], dtype),
        K: T.Tensor([seq_kv, dim], dtype),
        KScale: T.Tensor([seq_kv], accum),
        Weights: T.Tensor([seq_len, heads], accum),
        Starts: T.Tensor([seq_len], "int32"),
        Ends: T.Tensor([seq_len], "int32"),
        Logits: T.Tensor([seq_len, seq_kv], accum),
    ):
        # concept: kernel-grid
        with T.Kernel(
            T.ceildiv(seq_kv, keep), T.ceildiv(seq_len, queries), threads=computing + 128
        ) as (bx, by):
            K_shared = T.alloc_shared([tiles, block, dim], dtype)
            Q_shared = T.alloc_shared([stages, columns, dim], dtype)
            Q_parts = T.reshape(Q_shared, [stages, more, runs, beside, run, dim])
            W_shared = T.alloc_shared([stages, columns], accum)
            scales = T.alloc_shared([keep], accum)
            starts = T.alloc_shared([queries], "int32")
            ends = T.alloc_shared([queries], "int32")
            s = T.alloc_fragment([block, columns], accum)
            by_head = T.reshape(s, [block, more, runs, beside, run])
            weights = T.alloc_fragment([columns], accum)
            of_heads = T.reshape(weights, [more, runs, beside, run])
            part = T.alloc_fragment([block, more, beside, run], accum)
            summed = T.alloc_fragment([block, more, beside], accum)
            ahead = T.alloc_fragment([columns], accum)
            turn = T.alloc_var("int32", init=0)
            k_ready = T.alloc_barrier(128)
            q_ready = T.alloc_barrier([128] * stages)
            q_free = T.alloc_barrier([computing] * stages)

            first_key = bx * keep
            first = by * queries
            # Each query's range within these keys; an empty one begins after all and ends before.
            # concept: loop-range
            for i in T.Parallel(queries):
                lower = T.max(Starts[T.min(first + i, seq_len - 1)], first_key)
                upper = T.min(Ends[T.min(first + i, seq_len - 1)], T.min(first_key + keep, seq_kv))
                sees = (first + i < seq_len) & (lower < upper)
                starts[i] = T.if_then_else(sees, lower, AFTER)
                ends[i] = T.if_then_else(sees, upper, 0)
            # end
            for i in T.Parallel(keep):
                scales[i] = T.if_then_else(first_key + i < seq_kv, KScale[first_key + i], 0)
            T.sync_threads()

            tx = T.get_thread_binding()
            if tx >= computing:  # the warp group that copies
                T.set_max_nreg(24, 0)
                for r in T.serial(rounds):
                    begin = over(T.min, starts, r)
                    if begin < AFTER:
                        if turn == 0:
                            for u in T.serial(tiles):
                                T.tma_copy(
                                    K[first_key + u * block : first_key + (u + 1) * block, :],
                                    K_shared[u, :, :],
                                    barrier=k_ready,
                                )
                            T.mbarrier_arrive(k_ready)
                        query = first + r * each
                        for i in T.Parallel(columns):
                            q = query + i // (heads * beside) * beside + i // run % beside
                            h = i % (heads * beside) // (beside * run) * run + i % run
                            ahead[i] = T.if_then_else(
                                q < seq_len, Weights[T.min(q, seq_len - 1), h], 0
                            )
                        T.mbarrier_wait_parity(q_free[turn % stages], ((turn // stages) & 1) ^ 1)
                        for m in T.unroll(more):
                            for c in T.unroll(dim // span):
                                T.tma_copy(
                                    Q[
                                        0:runs,
                                        query + m * beside : query + (m + 1) * beside,
                                        0:run,
                                        c * span : (c + 1) * span,
                                    ],
                                    Q_parts[
                                        turn % stages,
                                        m,
                                        0:runs,
                                        0:beside,
                                        0:run,
                                        c * span : (c + 1) * span,
                                    ],
                                    barrier=q_ready[turn % stages],
                                )
                        for i in T.Parallel(columns):
                            W_shared[turn % stages, i] = ahead[i]
                        T.mbarrier_arrive(q_ready[turn % stages])
                        turn += 1
            else:  # those that compute
                T.set_max_nreg(launch.registers(groups), 1)
                for r in T.serial(rounds):
                    begin = over(T.min, starts, r)
                    latest = over(T.max, starts, r)
                    earliest = over(T.min, ends, r)
                    end = over(T.max, ends, r)
                    if begin < AFTER:
                        if turn == 0:
                            T.mbarrier_wait_parity(k_ready, 0)
                        T.mbarrier_wait_parity(q_ready[turn % stages], (turn // stages) & 1)
                        T.copy(W_shared[turn % stages, :], weights)
                        for u in T.serial(tiles):  # concept: kv-loop
                            key = first_key + u * block
                            if (begin < key + block) & (end > key):
                                # concept: qk-gemm
                                T.wgmma_gemm(
                                    K_shared[u, :, :],
                                    Q_shared[turn % stages, :, :],
                                    s,
                                    transpose_B=True,
                                    policy=T.GemmWarpPolicy.FullRow,
                                    clear_accum=True,
                                )
                                T.wait_wgmma(0)
                                # end
                                score(
                                    key, r, u, by_head, of_heads, part, summed, scales,
                                    starts, ends, latest, earliest,
                                )  # fmt: skip
                                for n, m, q in T.Parallel(block, more, beside):
                                    query = first + r * each + m * beside + q
                                    if (query < seq_len) & (key + n < seq_kv):
                                        Logits[query, key + n] = summed[n, m, q]
                            else:
                                hide(Logits, first + r * each, key, block)
                        T.mbarrier_arrive(q_free[turn % stages])
                        turn += 1
                    else:
                        hide(Logits, first + r * each, first_key, keep)

    return main


def logits(
    q: Any,
    k: Any,
    k_scale: Any,
    weights: Any,
    ks: Any,
    ke: Any,
    *,
    tiling: "Tiling | None" = None,
) -> Any:
    """Return [M, N] of float32: sum over heads of max(q . k, 0) w, times the key's scale.

    q [M, H, D], k [N, D] of float8_e4m3fn, bfloat16 or float16; k_scale [N], weights [M, H] of
    float32; query m sees keys ks[m] to ke[m] (not included), both int32 [M], and the others are
    -inf. All on one CUDA device; D 64 or 128, H 8, 16, 32, 64 or 128. Without a `tiling`, the table
    of tilings has one for the device. ValueError or TypeError names the argument that does not fit.
    """
    seq_len, heads, dim, dtype = _checked(q)
    seq_kv = k.shape[0] if len(getattr(k, "shape", ())) == 2 else 1
    launch.check_table("k", k, (seq_kv, dim), dtype, q)
    if seq_kv == 0:
        raise ValueError("k is empty: there has to be a key")
    launch.check_table("k_scale", k_scale, (seq_kv,), "float32", q)
    launch.check_table("weights", weights, (seq_len, heads), "float32", q)
    launch.check_table("ks", ks, (seq_len,), "int32", q)
    launch.check_table("ke", ke, (seq_len,), "int32", q)
    if tiling is None:
        device = launch.device_name(q.device.index)
        key = {"heads": heads, "dim": dim, "dtype": dtype}
        tiling = launch.tuned("indexer", device, _default(heads, dim, dtype), **key)
    launch.check_cut(tiling, Tiling, groups=(1, 2, 3, 4), columns=range(8, 257, 8))
    kernel = _compiled(heads, dim, dtype, tiling)
    return kernel(arranged(q, heads, tiling.columns), k, k_scale, weights, ks, ke)


def _checked(q: Any) -> tuple[int, int, int, str]:
    """Return queries, heads, components and the type of q; raise when one does not fit."""
    if not hasattr(q, "is_contiguous"):
        raise TypeError(f"q is a {type(q).__name__}, and has to be a tensor of PyTorch")
    if len(q.shape) != 3 or 0 in q.shape:
        raise ValueError(f"q is {list(q.shape)}, and has to be [M, H, D] and not empty")
    dtype = str(q.dtype).removeprefix("torch.")
    if dtype not in TYPES:
        raise TypeError(f"q is of {dtype}, and may be of {', '.join(TYPES)}")
    seq_len, heads, dim = q.shape
    if heads not in HEADS:
        raise ValueError(f"q has {heads} heads, and may have {HEADS}")
    if dim not in DIMS:
        raise ValueError(f"q has {dim} components, and may have {DIMS}")
    if not q.is_contiguous():
        raise ValueError("q is not contiguous: q.contiguous() is")
    if not q.is_cuda:
        raise ValueError(f"q is on {q.device}: all have to be on one CUDA device")
    return seq_len, heads, dim, dtype


def _default(heads: int, dim: int, dtype: str) -> Tiling:
    """Return a tiling that fits into registers and shared memory."""
    wide = dim == 128 and dtype != TYPES[0]
    return Tiling(tiles=2 if wide else 4, columns=min(256, 16 * heads))


@cache
def _compiled(heads: int, dim: int, dtype: str, tiling: Tiling) -> Any:
    return indexer_forward(heads, dim, dtype, *tiling)


def like_upstream(run: Any) -> tuple[Any, ...]:
    """Return what upstream's kernel returns, computed by this one: see `srcmap verify`.

    NotImplementedError for the selection and the cleaning of logits: this one gives clean logits.
    """
    if run.build != "mqa_attn_return_logits":
        raise NotImplementedError("the logits alone")
    q, _, _, weights = run.inputs[:4]
    heads = weights.shape[1]
    cut = _default(heads, q.shape[1], str(q.dtype))
    made = indexer_forward(heads, q.shape[1], str(q.dtype), *cut)
    return (made(arranged(q, heads, cut.columns), *run.inputs[1:]),)
