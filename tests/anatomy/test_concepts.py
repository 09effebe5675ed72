# ruff: noqa: E501  (marks make lines of kernels longer than code would be)
"""One little kernel for each family of concepts, every line marked with what it does.

All concepts are compared, so a line without a mark must not be reported.
"""

from __future__ import annotations

import textwrap

import pytest

from tests.anatomy.little import DEFAULTS, ascend, nvidia, only, wrong

CAUSAL = nvidia(
    before="stop = T.ceildiv((x + 1) * bq, bk)  #: loop-range",
    loop="for n in T.Pipelined(stop, num_stages=2):  #: kv-loop",
    mask="""
    for i, j in T.Parallel(bq, bk):  #: causal-mask
        s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -T.infinity("float32"))  #: causal-mask, mask-value
    """,
)

RIGHT_ALIGNED = nvidia(
    builder="past = S - bq  #: query-offset",
    before="stop = T.min(T.ceildiv(S, bk), T.ceildiv(past + (x + 1) * bq, bk))  #: loop-range",
    loop="for n in T.Pipelined(stop, num_stages=2):  #: kv-loop",
    mask="""
    for i, j in T.Parallel(bq, bk):  #: causal-mask
        row = x * bq + i + past  #: causal-mask
        s[i, j] = T.if_then_else(row >= n * bk + j, s[i, j], -1e9)  #: causal-mask, mask-value
    """,
)

BRANCHES = nvidia(
    mask="""
    if causal:  #: causal-mask
        for i, j in T.Parallel(bq, bk):  #: causal-mask
            s[i, j] = T.if_then_else(x * bq + i < n * bk + j, -T.infinity("float32"), s[i, j])  #: causal-mask, mask-value
    else:  #: boundary-mask
        for i, j in T.Parallel(bq, bk):  #: boundary-mask
            s[i, j] = T.if_then_else(n * bk + j >= S, -T.infinity("float32"), s[i, j])  #: boundary-mask, mask-value/2
    """,
)

WINDOW = nvidia(
    builder="window = 128",
    before="""
    first = T.max(0, (x * bq - window) // bk)  #: window-start
    stop = T.ceildiv((x + 1) * bq, bk)  #: loop-range
    """,
    loop="for n in T.Pipelined(first, stop, num_stages=2):  #: kv-loop",
    mask="""
    for i, j in T.Parallel(bq, bk):  #: window-mask
        row = x * bq + i  #: window-mask
        col = n * bk + j  #: window-mask
        s[i, j] = T.if_then_else(col <= row and col > row - window, s[i, j], -T.infinity("float32"))  #: window-mask, mask-value
    """,
)

VARLEN = nvidia(
    keys='K: T.Tensor((B, H, S, D), "float16"),\nstarts: T.Tensor((B + 1,), "int32"),',
    before="""
    begin = starts[b]  #: cu-seqlens
    end = starts[b + 1]  #: cu-seqlens
    length = end - begin  #: cu-seqlens
    """,
    load_q="T.copy(Q[0, h, starts[b] + x * bq : starts[b] + (x + 1) * bq, :], q)",
    load_k="T.copy(K[0, h, begin + n * bk : begin + (n + 1) * bk, :], k)",
    loop="for n in T.Pipelined(T.ceildiv(length, bk), num_stages=2):  #: kv-loop",
    mask="""
    for i, j in T.Parallel(bq, bk):  #: padding-mask, causal-mask
        s[i, j] = T.if_then_else(  #: padding-mask, causal-mask, mask-value
            x * bq + i < n * bk + j or x * bq + i >= length or n * bk + j >= length,  #: padding-mask, causal-mask, mask-value
            -1e9,  #: padding-mask, causal-mask, mask-value
            s[i, j],  #: padding-mask, causal-mask, mask-value
        )  #: padding-mask, causal-mask, mask-value
    """,
    store="""
    for i, j in T.Parallel(bq, D):  #: varlen-guard, epilogue-store
        if x * bq + i < length:  #: varlen-guard, epilogue-store
            O[0, h, begin + x * bq + i, j] = o[i, j]  #: varlen-guard, epilogue-store
    """,
)

GROUPED = nvidia(
    builder="kv = H // 4  #: kv-head-count",
    keys='K: T.Tensor((B, kv, S, D), "float16"),',
    before="mine = h // 4  #: kv-head",
    load_k="T.copy(K[b, mine, n * bk : (n + 1) * bk, :], k)",
    values="""
    T.copy(s, p)
    T.copy(V[b, mine, n * bk : (n + 1) * bk, :], v)  #: pv-gemm
    T.gemm(p, v, o)  #: pv-gemm
    """,
)

GROUPED_INLINE = nvidia(
    load_k="T.copy(K[b, h // 4, n * bk : (n + 1) * bk, :], k)  #: kv-head",
    values="""
    T.copy(s, p)
    T.copy(V[b, h // 4, n * bk : (n + 1) * bk, :], v)  #: pv-gemm, kv-head
    T.gemm(p, v, o)  #: pv-gemm
    """,
)

SPLIT = nvidia(
    parameters="""
    lse: T.Tensor((B, H, 8), "float32"),
    parts: T.Tensor((B, H, 8, D), "float32"),
    """,
    grid="with T.Kernel(8, H, B, threads=128) as (part, h, b):  #: kernel-grid",
    load_q="T.copy(Q[b, h, 0:bq, :], q)",
    load_k="T.copy(K[b, h, part * S // 8 + n * bk : part * S // 8 + (n + 1) * bk, :], k)  #: split-range",
    values="""
    T.copy(s, p)
    T.copy(V[b, h, part * S // 8 + n * bk : part * S // 8 + (n + 1) * bk, :], v)  #: pv-gemm, split-range
    T.gemm(p, v, o)  #: pv-gemm
    """,
    store="""
    for i in T.Parallel(bq):  #: partial-lse
        lse[b, h, part] = T.log2(l[i]) + m[i] * scale  #: partial-lse
    T.copy(o, parts[b, h, part, :])  #: partial-output
    """,
    later="""
    with T.Kernel(H, B, threads=128) as (h, b):  #: combine, kernel-grid
        top = T.alloc_local((1,), "float32")  #: combine
        joint = T.alloc_local((1,), "float32")  #: combine
        share = T.alloc_local((1,), "float32")  #: combine
        whole = T.alloc_fragment((D,), "float32")  #: combine
        top[0] = -T.infinity("float32")  #: combine
        T.clear(joint)  #: combine
        T.clear(whole)  #: combine
        for c in T.serial(8):  #: combine, combine-max
            top[0] = T.max(top[0], lse[b, h, c])  #: combine, combine-max
        for c in T.serial(8):  #: combine, combine-logsumexp
            joint[0] += T.exp2(lse[b, h, c] - top[0])  #: combine, combine-logsumexp
        joint[0] = T.log2(joint[0]) + top[0]  #: combine, combine-logsumexp
        for c in T.serial(8):  #: combine
            share[0] = T.exp2(lse[b, h, c] - joint[0])  #: combine, combine-weights
            for j in T.Parallel(D):  #: combine, combine-accumulate
                whole[j] += share[0] * parts[b, h, c, j]  #: combine, combine-accumulate
        for j in T.Parallel(D):  #: combine, epilogue-store
            O[b, h, 0, j] = whole[j]  #: combine, epilogue-store
    """,
)

PAGED = nvidia(
    parameters='pages: T.Tensor((B, S // bk), "int32"),  #: block-table-param',
    load_k="""
    page = pages[b, n]  #: block-table
    T.copy(K[page, h, 0:bk, :], k)  #: paged-load
    """,
    values="""
    T.copy(s, p)
    T.copy(V[page, h, 0:bk, :], v)  #: pv-gemm, paged-load
    T.gemm(p, v, o)  #: pv-gemm
    """,
)

CHOSEN_BLOCKS = nvidia(
    parameters='chosen: T.Tensor((B, H, 16), "int32"),  #: block-indices-param',
    loop="for n in T.Pipelined(16, num_stages=2):  #: kv-loop",
    load_k="""
    at = chosen[b, h, n] * bk  #: block-index
    T.copy(K[b, h, at : at + bk, :], k)  #: gather
    """,
    values="""
    T.copy(s, p)
    T.copy(V[b, h, at : at + bk, :], v)  #: pv-gemm, gather
    T.gemm(p, v, o)  #: pv-gemm
    """,
)

# Everything that a key block does stands under the test.
_BODY = (
    "load_k",
    "scores",
    "maximum",
    "rescale",
    "exponential",
    "row_sum",
    "denominator",
    "accumulator",
    "values",
)
BLOCK_SPARSE = nvidia(
    parameters='keep: T.Tensor((B, H, S // bq, S // bk), "int8"),  #: block-mask-param',
    loop="""
    for n in T.Pipelined(S // bk, num_stages=2):  #: kv-loop
        if keep[b, h, x, n] != 0:  #: block-mask, block-skip
    """,
    **{
        step: textwrap.indent(textwrap.dedent(DEFAULTS[step]).strip("\n"), "    ") for step in _BODY
    },
)

BLOCK_MASK = nvidia(
    parameters='keep: T.Tensor((B, H, S // bq, S // bk), "int8"),  #: block-mask-param',
    mask="""
    if keep[b, h, x, n] == 0:  #: block-mask
        T.fill(s, -1e30)  #: block-mask, mask-value
    """,
)

CHOSEN_TOKENS = nvidia(
    parameters='chosen: T.Tensor((B, S, bk * 4), "int32"),  #: block-indices-param',
    grid="with T.Kernel(S, H // bq, B, threads=128) as (x, h, b):  #: kernel-grid",
    load_q="T.copy(Q[b, h * bq : (h + 1) * bq, x, :], q)",
    loop="for n in T.Pipelined(4, num_stages=2):  #: kv-loop",
    allocate='seen = T.alloc_fragment((bk,), "bool")',
    load_k="""
    for j in T.Parallel(bk):
        seen[j] = chosen[b, x, n * bk + j] <= x
    for j, w in T.Parallel(bk, D):  #: block-index, gather
        k[j, w] = K[b, chosen[b, x, n * bk + j], 0, w]  #: block-index, gather
    """,
    mask="""
    for i, j in T.Parallel(bq, bk):  #: causal-mask
        s[i, j] = T.if_then_else(seen[j], s[i, j], -T.infinity("float32"))  #: causal-mask, mask-value
    """,
    values="""
    T.copy(s, p)
    T.gemm(p, k, o)  #: pv-gemm
    """,
    store="T.copy(o, O[b, h * bq : (h + 1) * bq, x, :])  #: epilogue-store",
)

INDEXER = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def index(S, H, D, cols=64):
    @T.prim_func
    def score(
        Q: T.Tensor((S, H, D), "float16"),
        K: T.Tensor((S, D), "float16"),
        W: T.Tensor((S, H), "float32"),
        L: T.Tensor((S, S), "float32"),
    ):
        with T.Kernel(S, threads=128) as x:  #: kernel-grid
            q = T.alloc_shared((H, D), "float16")
            k = T.alloc_shared((cols, D), "float16")
            s = T.alloc_fragment((cols, H), "float32")
            t = T.alloc_fragment((cols,), "float32")
            T.copy(Q[x, 0, 0], q)
            for n in T.Pipelined(S // cols, num_stages=1):  #: kv-loop
                T.copy(K[n * cols, 0], k)
                T.gemm(k, q, s, transpose_B=True, clear_accum=True)  #: qk-gemm
                for j, i in T.Parallel(cols, H):
                    s[j, i] = T.max(s[j, i], 0) * W[x, i]
                T.reduce_sum(s, t, dim=-1, clear=True)
                for j in T.Parallel(cols):
                    L[x, n * cols + j] = t[j]

    return score
"""

CLEANER = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def clean(S, cols=64):
    @T.prim_func
    def body(L: T.Tensor((S, S), "float32"), first: T.Tensor((S,), "int32"), last: T.Tensor((S,), "int32")):
        with T.Kernel(S, threads=128) as x:  #: kernel-grid
            low = first[x]
            high = last[x]
            for n in T.serial(S // cols):
                for j in T.serial(cols):
                    at = n * cols + j
                    if at < low or at >= high:  #: boundary-mask
                        L[x, at] = -T.infinity("float32")  #: boundary-mask, mask-value

    return body
"""

SORT = """\
import tilelang
import tilelang.language as T


@tilelang.jit
def choose(S, D, cols=64):
    @T.prim_func
    def main(L: T.Tensor((S, D), "float32"), I: T.Tensor((S, 8), "int32")):
        with T.Kernel(S, threads=128) as x:
            a = T.alloc_ub((cols,), "float32")
            T.copy(L[x, 0], a)
            T.tile.topk(a, a, a, 8)
            T.copy(a, I[x, 0])

    return main
"""

SINK = nvidia(
    parameters='sinks: T.Tensor((H,), "float32"),',
    allocate='drain = T.alloc_fragment((bq,), "float32")',
    before="""
    for i in T.Parallel(bq):  #: sink-load
        drain[i] = sinks[h]  #: sink-load
    """,
    after="""
    for i in T.Parallel(bq):  #: sink-epilogue
        l[i] += T.exp2(drain[i] * 1.44 - m[i] * scale)  #: sink-epilogue
    """,
)

MASK_INPUT = nvidia(
    parameters='seen: T.Tensor((B, S), "uint8"),  #: mask-param',
    allocate='flags = T.alloc_fragment((bk,), "uint8")',
    scores="""
    T.copy(seen[b, n * bk : (n + 1) * bk], flags)  #: mask-load
    T.gemm(q, k, s, transpose_B=True, clear_accum=True)  #: qk-gemm
    """,
    mask="""
    for i, j in T.Parallel(bq, bk):
        s[i, j] = T.if_then_else(flags[j] != 0, s[i, j], -T.infinity("float32"))  #: mask-value
    """,
)

AFTER_EXP = nvidia(
    parameters='seen: T.Tensor((B, S), "float32"),  #: mask-param',
    after_exp="""
    for i, j in T.Parallel(bq, bk):  #: mask-after-exp, mask-load
        s[i, j] *= seen[b, n * bk + j]  #: mask-after-exp, mask-load
    """,
)

CHECK_INF = nvidia(
    check="""
    for i in T.Parallel(bq):  #: check-inf
        m[i] = T.if_then_else(m[i] == -T.infinity("float32"), 0, m[i])  #: check-inf
    """,
)

CHECK_INF_IF = nvidia(
    check="""
    for i in T.Parallel(bq):  #: check-inf
        if m[i] == -T.infinity("float32"):  #: check-inf
            m[i] = 0  #: check-inf
    """,
)

CHECK_INF_DISABLED = nvidia(
    check="""
    # for i in T.Parallel(bq):  #: check-inf-disabled
    #     m[i] = T.if_then_else(m[i] == -T.infinity("float32"), 0, m[i])  #: check-inf-disabled
    """,
)

# Says the same words about buffers that hold no maximum, and in prose.
NOT_A_DISABLED_CHECK = nvidia(
    check="""
    # for i in T.Parallel(bq):
    #     l[i] = T.if_then_else(l[i] == -T.infinity("float32"), 0, l[i])
    pass
    # a maximum of minus infinity is replaced by 0 where m[i] == -inf
    """,
)

EMPTY_ROW = nvidia(
    normalise="""
    for i, j in T.Parallel(bq, D):  #: normalise, empty-row
        o[i, j] = T.if_then_else(l[i] == 0, 0, o[i, j] / l[i])  #: normalise, empty-row
    """,
)

EMPTY_ROW_CLAMP = nvidia(
    after="""
    for i in T.Parallel(bq):  #: empty-row
        l[i] = T.max(l[i], 1e-6)  #: empty-row
    """,
)

STAGED_STORE = nvidia(
    store="""
    T.copy(o, q)  #: epilogue-store
    T.copy(q, O[b, h, x * bq : (x + 1) * bq, :])  #: epilogue-store
    """,
)

BLACKWELL = nvidia(
    allocate="""
    s_far = T.alloc_tmem([bq, bk], "float32")  #: tmem-alloc
    o_far = T.alloc_tmem([bq, D], "float32")  #: tmem-alloc
    done = T.alloc_barrier(1)
    part = T.alloc_fragment((bq, D), "float32")
    """,
    scores="""
    T.gemm(q, k, s_far, transpose_B=True, clear_accum=True, mbar=done)  #: qk-gemm
    T.mbarrier_wait_parity(done, n % 2)  #: barrier-wait
    T.copy(s_far, s)
    """,
    values="""
    T.copy(s, p)
    T.copy(V[b, h, n * bk : (n + 1) * bk, :], v)  #: pv-gemm
    T.gemm(p, v, o_far, clear_accum=True, mbar=done)  #: pv-gemm
    T.mbarrier_wait_parity(done, n % 2)  #: barrier-wait/2
    T.copy(o_far, part)
    for i, j in T.Parallel(bq, D):
        o[i, j] += part[i, j]
    """,
)

UNSCALED_INT = ascend(
    init="T.tile.fill(m, -T.infinity('float'))  #: vector-scope, state-init",
)

FAMILIES = {
    "plain": nvidia(),
    "causal": CAUSAL,
    "causal, right-aligned": RIGHT_ALIGNED,
    "causal or not": BRANCHES,
    "window": WINDOW,
    "varlen": VARLEN,
    "grouped": GROUPED,
    "grouped, inline": GROUPED_INLINE,
    "split and combine": SPLIT,
    "paged": PAGED,
    "chosen blocks": CHOSEN_BLOCKS,
    "block-sparse": BLOCK_SPARSE,
    "block mask": BLOCK_MASK,
    "chosen tokens": CHOSEN_TOKENS,
    "sink": SINK,
    "mask handed in": MASK_INPUT,
    "mask after exp": AFTER_EXP,
    "check-inf": CHECK_INF,
    "check-inf, if": CHECK_INF_IF,
    "check-inf, comment": CHECK_INF_DISABLED,
    "comments of other things": NOT_A_DISABLED_CHECK,
    "empty row": EMPTY_ROW,
    "empty row, clamp": EMPTY_ROW_CLAMP,
    "staged store": STAGED_STORE,
    "blackwell": BLACKWELL,
    "ascend": ascend(),
    "ascend, infinity": UNSCALED_INT,
}


OTHERS = {
    "indexer": (INDEXER, "indexer"),
    "cleaner": (CLEANER, "other"),
    "sort without attention": (SORT, "other"),
}
"""Kernels that are no attention, with their kind."""


@pytest.mark.parametrize("name", FAMILIES)
def test_marked_lines_and_no_others_are_found(name: str) -> None:
    assert wrong(FAMILIES[name]) == []
    assert only(FAMILIES[name]).kind == "attention"


@pytest.mark.parametrize("name", OTHERS)
def test_kernels_that_do_not_attend(name: str) -> None:
    source, kind = OTHERS[name]
    assert wrong(source) == []
    assert only(source).kind == kind


def test_a_page_number_that_is_counted_by_hand() -> None:
    source = PAGED.replace("pages[b, n]", "pages[b, at]")
    source = source.replace("            for n in", "            at = 0\n            for n in", 1)
    source = source.replace(
        "T.gemm(p, v, o)  #: pv-gemm\n",
        "T.gemm(p, v, o)  #: pv-gemm\n                at = at + 1\n",
    )
    assert wrong(source) == []


def test_cleaning_by_element() -> None:
    source = CLEANER.replace(
        "for j in T.serial(cols):", "for j in T.Parallel(cols):  #: boundary-mask"
    )
    source = source.replace("at = n * cols + j", "at = n * cols + j  #: boundary-mask")
    assert wrong(source) == []
