# ruff: noqa: E501  (marks make lines of kernels longer than code would be)
"""Small TileLang kernels of our own, in both dialects, marked with what their lines do.

`#: concept` at the end of a line says that this line belongs to that concept; neighbouring lines
with one mark are one place. A mark may carry a label to part neighbours: `#: qk-gemm/2`.
"""

from __future__ import annotations

import re

PREFILL = '''\
import math

import tilelang
import tilelang.language as T


def plain(query, key, value):
    """What the kernel must compute; not a kernel itself."""
    weight = (query @ key.T / math.sqrt(query.shape[-1])).softmax(-1)
    return weight @ value


@tilelang.jit(out_idx=[4])
def attend(tokens, past, heads, kv_heads, width, rows=64, cols=32):
    factor = width**-0.5 * 1.4426950408889634  #: softmax-scale
    share = heads // kv_heads
    shift = past  # keys that were there before the first query

    @T.prim_func
    def body(
        queries: T.Tensor((heads, tokens, width), "bfloat16"),
        keys: T.Tensor((kv_heads, past + tokens, width), "bfloat16"),
        values: T.Tensor((kv_heads, past + tokens, width), "bfloat16"),
        drain: T.Tensor((heads,), "float32"),
        result: T.Tensor((heads, tokens, width), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(tokens, rows), heads, threads=128) as (tile, head):  #: kernel-grid
            query_tile = T.alloc_shared((rows, width), "bfloat16")
            key_tile = T.alloc_shared((cols, width), "bfloat16")
            value_tile = T.alloc_shared((cols, width), "bfloat16")
            logits = T.alloc_fragment((rows, cols), "float32")
            weights = T.alloc_fragment((rows, cols), "bfloat16")
            total = T.alloc_fragment((rows, width), "float32")
            peak = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            shrink = T.alloc_fragment((rows,), "float32")
            added = T.alloc_fragment((rows,), "float32")
            weight_sum = T.alloc_fragment((rows,), "float32")
            T.copy(queries[head, tile * rows : (tile + 1) * rows, :], query_tile)
            T.clear(total)  #: state-init
            T.clear(weight_sum)  #: state-init
            T.fill(peak, -T.infinity("float32"))  #: state-init
            stop = T.ceildiv((tile + 1) * rows + shift, cols)  #: loop-range
            for step in T.Pipelined(stop, num_stages=2):  #: kv-loop
                T.copy(keys[head // share, step * cols : (step + 1) * cols, :], key_tile)
                T.clear(logits)
                T.gemm(query_tile, key_tile, logits, transpose_B=True)  #: qk-gemm
                for r, c in T.Parallel(rows, cols):  #: causal-mask
                    logits[r, c] = T.if_then_else(  #: causal-mask, mask-value
                        step * cols + c <= tile * rows + r + shift,  #: causal-mask, mask-value
                        logits[r, c],  #: causal-mask, mask-value
                        -T.infinity("float32"),  #: causal-mask, mask-value
                    )  #: causal-mask, mask-value
                T.copy(peak, before)  #: row-max
                T.reduce_max(logits, peak, dim=1, clear=False)  #: row-max
                for r in T.Parallel(rows):  #: rescale-factor
                    shrink[r] = T.exp2((before[r] - peak[r]) * factor)  #: rescale-factor
                for r, c in T.Parallel(rows, cols):  #: probability
                    logits[r, c] = T.exp2((logits[r, c] - peak[r]) * factor)  #: probability
                T.reduce_sum(logits, added, dim=1)  #: row-sum
                for r in T.Parallel(rows):  #: denominator
                    weight_sum[r] = weight_sum[r] * shrink[r] + added[r]  #: denominator
                for r, c in T.Parallel(rows, width):  #: acc-rescale
                    total[r, c] = total[r, c] * shrink[r]  #: acc-rescale
                T.copy(logits, weights)
                T.copy(values[head // share, step * cols : (step + 1) * cols, :], value_tile)  #: pv-gemm
                T.gemm(weights, value_tile, total)  #: pv-gemm
            for r in T.Parallel(rows):  #: sink-epilogue
                weight_sum[r] += T.exp2(drain[head] * 1.4426950408889634 - peak[r] * factor)  #: sink-epilogue
            for r, c in T.Parallel(rows, width):  #: normalise
                total[r, c] = total[r, c] / weight_sum[r]  #: normalise
            T.copy(total, query_tile)  #: epilogue-store
            T.copy(query_tile, result[head, tile * rows : (tile + 1) * rows, :])  #: epilogue-store

    return body
'''

DECODE = """\
import tilelang
from tilelang import language as lang


@tilelang.jit(out_idx=[5])
def decode(batch, heads, length, width, parts, cols=64):
    natural = (1.0 / width) ** 0.5  #: softmax-scale
    chunk = length // parts

    @lang.prim_func
    def two_steps(
        q: lang.Tensor((batch, heads, width), "float16"),
        k: lang.Tensor((batch, length, heads, width), "float16"),
        v: lang.Tensor((batch, length, heads, width), "float16"),
        logsums: lang.Tensor((batch, heads, parts), "float32"),
        pieces: lang.Tensor((batch, heads, parts, width), "float32"),
        out: lang.Tensor((batch, heads, width), "float16"),
    ):
        with lang.Kernel(heads // 16, batch, parts, threads=128) as (group, sample, part):
            qs = lang.alloc_shared((16, width), "float16")
            ks = lang.alloc_shared((cols, width), "float16")
            vs = lang.alloc_shared((cols, width), "float16")
            s = lang.alloc_fragment((16, cols), "float32")
            p = lang.alloc_fragment((16, cols), "float16")
            o = lang.alloc_fragment((16, width), "float32")
            m = lang.alloc_fragment((16,), "float32")
            m_was = lang.alloc_fragment((16,), "float32")
            a = lang.alloc_fragment((16,), "float32")
            d = lang.alloc_fragment((16,), "float32")
            l = lang.alloc_fragment((16,), "float32")
            lang.copy(q[sample, group * 16 : group * 16 + 16, :], qs)
            lang.fill(o, 0)
            lang.fill(l, 0)
            lang.fill(m, -lang.infinity("float32"))
            for n in lang.Pipelined(chunk // cols, num_stages=1):  #: kv-loop
                lang.copy(k[sample, part * chunk + n * cols : part * chunk + (n + 1) * cols, group, :], ks)
                lang.gemm(qs, ks, s, transpose_B=True, clear_accum=True)  #: qk-gemm
                lang.copy(m, m_was)  #: row-max
                lang.reduce_max(s, m, dim=1, clear=False)  #: row-max
                for i in lang.Parallel(16):  #: rescale-factor
                    a[i] = lang.exp(m_was[i] * natural - m[i] * natural)  #: rescale-factor
                for i, j in lang.Parallel(16, cols):  #: probability
                    s[i, j] = lang.exp(s[i, j] * natural - m[i] * natural)  #: probability
                lang.reduce_sum(s, d, dim=1)  #: row-sum
                for i in lang.Parallel(16):  #: denominator
                    l[i] = l[i] * a[i] + d[i]  #: denominator
                lang.copy(s, p)
                for i, j in lang.Parallel(16, width):  #: acc-rescale
                    o[i, j] *= a[i]  #: acc-rescale
                lang.copy(v[sample, part * chunk + n * cols : part * chunk + (n + 1) * cols, group, :], vs)  #: pv-gemm
                lang.gemm(p, vs, o)  #: pv-gemm
            for i, j in lang.Parallel(16, width):  #: normalise
                o[i, j] /= l[i]  #: normalise
            for i in lang.Parallel(16):  #: partial-lse
                logsums[sample, group * 16 + i, part] = lang.log(l[i]) + m[i] * natural  #: partial-lse
            lang.copy(o, pieces[sample, group * 16 : group * 16 + 16, part, :])  #: partial-output
        with lang.Kernel(heads, batch, threads=128) as (head, sample):  #: combine
            best = lang.alloc_local((1,), "float32")  #: combine
            joint = lang.alloc_local((1,), "float32")  #: combine
            share = lang.alloc_local((1,), "float32")  #: combine
            whole = lang.alloc_fragment((width,), "float32")  #: combine
            lang.clear(joint)  #: combine
            lang.clear(whole)  #: combine
            best[0] = -lang.infinity("float32")  #: combine
            for i in lang.serial(parts):  #: combine, combine-max
                best[0] = lang.max(best[0], logsums[sample, head, i])  #: combine, combine-max
            for i in lang.serial(parts):  #: combine, combine-logsumexp
                joint[0] += lang.exp(logsums[sample, head, i] - best[0])  #: combine, combine-logsumexp
            joint[0] = lang.log(joint[0]) + best[0]  #: combine, combine-logsumexp
            for i in lang.serial(parts):  #: combine
                share[0] = lang.exp(logsums[sample, head, i] - joint[0])  #: combine, combine-weights
                for j in lang.Parallel(width):  #: combine, combine-accumulate
                    whole[j] += share[0] * pieces[sample, head, i, j]  #: combine, combine-accumulate
            for j in lang.Parallel(width):  #: combine
                out[sample, head, j] = whole[j]  #: combine

    return two_steps
"""

ASCEND = """\
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[3], workspace_idx=[4, 5, 6])
def npu(batch, heads, length, width):
    rows, cols = 64, 128
    half = rows // 2
    factor = (1.0 / width) ** 0.5  #: softmax-scale
    tiles = length // rows
    blocks = tiles * heads * batch

    @T.prim_func
    def program(
        q: T.Tensor([batch, heads, length, width], "float16"),
        k: T.Tensor([batch, heads, length, width], "float16"),
        v: T.Tensor([batch, heads, length, width], "float16"),
        o: T.Tensor([batch, heads, length, width], "float16"),
        scores: T.Tensor([blocks, rows, cols], "float"),  #: workspace-param
        probs: T.Tensor([blocks, rows, cols], "float16"),  #: workspace-param
        parts: T.Tensor([blocks, rows, width], "float"),  #: workspace-param
    ):
        with T.Kernel(blocks, is_npu=True) as (core, sub):
            tile = core % tiles
            head = core // tiles % heads
            sample = core // tiles // heads
            q_near = T.alloc_L1([rows, width], "float16")
            kv_near = T.alloc_L1([cols, width], "float16")
            p_near = T.alloc_L1([rows, cols], "float16")
            s_out = T.alloc_L0C([rows, cols], "float")
            o_out = T.alloc_L0C([rows, width], "float")
            s = T.alloc_ub([half, cols], "float")
            p = T.alloc_ub([half, cols], "float16")
            acc = T.alloc_ub([half, width], "float")
            piece = T.alloc_ub([half, width], "float")
            done = T.alloc_ub([half, width], "float16")
            top = T.alloc_ub([half], "float")
            top_was = T.alloc_ub([half], "float")
            norm = T.alloc_ub([half], "float")
            gain = T.alloc_ub([half], "float")

            with T.Scope("C"):  #: cube-scope
                T.copy(q[sample, head, tile * rows : (tile + 1) * rows, :], q_near)  #: cube-scope
                T.barrier_all()  #: cube-scope
                for n in T.serial(length // cols):  #: cube-scope, kv-loop/C
                    T.copy(k[sample, head, n * cols : (n + 1) * cols, :], kv_near)  #: cube-scope
                    T.barrier_all()  #: cube-scope
                    T.gemm_v0(q_near, kv_near, s_out, transpose_B=True, init=True)  #: cube-scope, qk-gemm
                    T.barrier_all()  #: cube-scope
                    T.copy(s_out, scores[core, :, :])  #: cube-scope, workspace-write
                    T.set_cross_flag("FIX", 0)  #: cube-scope, cross-flag-set
                    T.wait_cross_flag(1)  #: cube-scope, cross-flag-wait
                    T.copy(probs[core, :, :], p_near)  #: cube-scope, workspace-read
                    T.copy(v[sample, head, n * cols : (n + 1) * cols, :], kv_near)  #: cube-scope
                    T.barrier_all()  #: cube-scope
                    T.gemm_v0(p_near, kv_near, o_out, init=True)  #: cube-scope, pv-gemm
                    T.barrier_all()  #: cube-scope
                    T.copy(o_out, parts[core, :, :])  #: cube-scope, workspace-write
                    T.set_cross_flag("FIX", 2)  #: cube-scope, cross-flag-set
                    T.wait_cross_flag(3)  #: cube-scope, cross-flag-wait

            with T.Scope("V"):  #: vector-scope
                T.tile.fill(acc, 0.0)  #: vector-scope, state-init
                T.tile.fill(norm, 0.0)  #: vector-scope, state-init
                T.tile.fill(top, -(2**30))  #: vector-scope, state-init
                T.barrier_all()  #: vector-scope
                for n in T.serial(length // cols):  #: vector-scope, kv-loop/V
                    T.copy(top, top_was)  #: vector-scope
                    T.wait_cross_flag(0)  #: vector-scope, cross-flag-wait
                    T.copy(scores[core, sub * half : sub * half + half, :], s)  #: vector-scope, workspace-read
                    T.barrier_all()  #: vector-scope
                    T.tile.mul(s, s, factor)  #: vector-scope
                    T.reduce_max(s, top, dim=-1)  #: vector-scope, row-max
                    T.tile.max(top, top, top_was)  #: vector-scope, row-max
                    T.tile.sub(gain, top_was, top)  #: vector-scope, rescale-factor
                    T.tile.exp(gain, gain)  #: vector-scope, rescale-factor
                    for r in range(half):  #: vector-scope, probability
                        T.tile.sub(s[r, :], s[r, :], top[r])  #: vector-scope, probability
                    T.tile.exp(s, s)  #: vector-scope, probability
                    T.reduce_sum(s, top_was, dim=-1)  #: vector-scope, row-sum
                    T.tile.mul(norm, norm, gain)  #: vector-scope, denominator
                    T.tile.add(norm, norm, top_was)  #: vector-scope, denominator
                    T.copy(s, p)  #: vector-scope
                    T.copy(p, probs[core, sub * half : sub * half + half, :])  #: vector-scope, workspace-write
                    T.set_cross_flag("MTE3", 1)  #: vector-scope, cross-flag-set
                    for r in range(half):  #: vector-scope, acc-rescale
                        T.tile.mul(acc[r, :], acc[r, :], gain[r])  #: vector-scope, acc-rescale
                    T.wait_cross_flag(2)  #: vector-scope, cross-flag-wait
                    T.copy(parts[core, sub * half : sub * half + half, :], piece)  #: vector-scope, workspace-read
                    T.tile.add(acc, acc, piece)  #: vector-scope
                    T.set_cross_flag("V", 3)  #: vector-scope, cross-flag-set
                for r in range(half):  #: vector-scope, normalise
                    T.tile.div(acc[r, :], acc[r, :], norm[r])  #: vector-scope, normalise
                T.copy(acc, done)  #: vector-scope, epilogue-store
                T.copy(done, o[sample, head, tile * rows + sub * half : tile * rows + sub * half + half, :])  #: vector-scope, epilogue-store

    return program
"""

MATMUL = """\
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2])
def product(m, n, k, block=64):
    @T.prim_func
    def body(
        a: T.Tensor((m, k), "float16"),
        b: T.Tensor((k, n), "float16"),
        c: T.Tensor((m, n), "float32"),
    ):
        with T.Kernel(m // block, n // block, threads=128) as (x, y):
            left = T.alloc_shared((block, block), "float16")
            right = T.alloc_shared((block, block), "float16")
            held = T.alloc_fragment((block, block), "float32")
            T.clear(held)
            for i in T.Pipelined(k // block, num_stages=2):
                T.copy(a[x * block, i * block], left)
                T.copy(b[i * block, y * block], right)
                T.gemm(left, right, held)
            for r, s in T.Parallel(block, block):
                held[r, s] = T.max(held[r, s], 0)
            T.copy(held, c[x * block, y * block])

    return body
"""

ATTENTION = {"prefill": PREFILL, "decode": DECODE, "ascend": ASCEND}
EVERY = {**ATTENTION, "matmul": MATMUL}


def marked(source: str) -> set[tuple[str, int, int]]:
    """Return (concept, first line, last line) of each run of marks."""
    runs: dict[str, list[list[int]]] = {}
    for number, line in enumerate(source.split("\n"), start=1):
        found = re.search(r"#: (.*)$", line)
        for mark in found.group(1).split(", ") if found else ():
            spans = runs.setdefault(mark, [])
            if spans and spans[-1][1] == number - 1:
                spans[-1][1] = number
            else:
                spans.append([number, number])
    return {(mark.split("/")[0], a, b) for mark, spans in runs.items() for a, b in spans}


def unmarked(source: str) -> str:
    """Return the source without its marks, lines where they were."""
    return re.sub(r"  #: .*$", "", source, flags=re.MULTILINE)
