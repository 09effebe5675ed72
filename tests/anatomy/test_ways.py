# ruff: noqa: E501  (marks make lines of kernels longer than code would be)
"""Other ways to write an attention kernel: what the answers must not rest on."""

from __future__ import annotations

import pytest

from tests.anatomy.little import nvidia, only, wrong

WAYS = {
    "transposed keys first": nvidia(
        scores="T.gemm(k, q, s, transpose_B=True, clear_accum=True)  #: qk-gemm",
        mask="""
for j, i in T.Parallel(bk, bq):  #: causal-mask
    s[j, i] = T.if_then_else(x * bq + i >= n * bk + j, s[j, i], -1e9)  #: causal-mask, mask-value
""",
    ),
    "mla two products": nvidia(
        parameters='QR: T.Tensor((B, H, S, 64), "float16"),\nKR: T.Tensor((B, H, S, 64), "float16"),',
        allocate='qr = T.alloc_shared((bq, 64), "float16")\nkr = T.alloc_shared((bk, 64), "float16")',
        load_q="T.copy(Q[b, h, x * bq : (x + 1) * bq, :], q)\nT.copy(QR[b, h, x * bq : (x + 1) * bq, :], qr)",
        load_k="T.copy(K[b, h, n * bk : (n + 1) * bk, :], k)\nT.copy(KR[b, h, n * bk : (n + 1) * bk, :], kr)",
        scores="""
T.gemm(q, k, s, transpose_B=True, clear_accum=True)  #: qk-gemm
T.gemm(qr, kr, s, transpose_B=True)  #: qk-gemm
""",
        values="""
T.copy(s, p)
T.gemm(p, k, o)  #: pv-gemm
""",
    ),
    "persistent": nvidia(
        grid="with T.Kernel(132, threads=128) as (c):  #: kernel-grid\n    for t in T.serial(8):\n        x = (c + t * 132) % (S // bq)\n        h = (c + t * 132) // (S // bq) % H\n        b = (c + t * 132) // (S // bq) // H"
    ),
    "reverse loop": nvidia(
        loop="for n_rev in T.Pipelined(S // bk, num_stages=2):  #: kv-loop\n    n = S // bk - 1 - n_rev",
        mask="""
for i, j in T.Parallel(bq, bk):  #: causal-mask
    s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)  #: causal-mask, mask-value
""",
    ),
    "while loop": nvidia(
        before="n = T.alloc_var('int32')\nn = 0",
        loop="while n < S // bk:  #: kv-loop",
        values="""
T.copy(s, p)
T.copy(V[b, h, n * bk : (n + 1) * bk, :], v)  #: pv-gemm
T.gemm(p, v, o)  #: pv-gemm
n = n + 1
""",
    ),
    "scale on q": nvidia(
        load_q="T.copy(Q[b, h, x * bq : (x + 1) * bq, :], q)\nfor i, j in T.Parallel(bq, D):\n    q[i, j] *= scale",
        rescale="""
for i in T.Parallel(bq):  #: rescale-factor
    r[i] = T.exp2(m0[i] - m[i])  #: rescale-factor
""",
        exponential="""
for i, j in T.Parallel(bq, bk):  #: probability
    s[i, j] = T.exp2(s[i, j] - m[i])  #: probability
""",
    ),
    "scale once": nvidia(
        mask="for i, j in T.Parallel(bq, bk):\n    s[i, j] *= scale",
        rescale="""
for i in T.Parallel(bq):  #: rescale-factor
    r[i] = T.exp(m0[i] - m[i])  #: rescale-factor
""",
        exponential="""
for i, j in T.Parallel(bq, bk):  #: probability
    s[i, j] = T.exp(s[i, j] - m[i])  #: probability
""",
    ),
    "scale inline number": nvidia(
        scale="",
        rescale="""
for i in T.Parallel(bq):  #: rescale-factor
    r[i] = T.exp2((m0[i] - m[i]) * 0.18)  #: rescale-factor
""",
        exponential="""
for i, j in T.Parallel(bq, bk):  #: probability
    s[i, j] = T.exp2((s[i, j] - m[i]) * 0.18)  #: probability
""",
    ),
    "divide in store": nvidia(
        normalise="",
        store="""
for i, j in T.Parallel(bq, D):  #: normalise, epilogue-store
    O[b, h, x * bq + i, j] = o[i, j] / l[i]  #: normalise, epilogue-store
""",
    ),
    "sum clear false": nvidia(
        row_sum="for i in T.Parallel(bq):  #: denominator\n    l[i] *= r[i]  #: denominator\nT.reduce_sum(s, l, dim=1, clear=False)  #: row-sum, denominator",
        denominator="",
    ),
    "lse stored": nvidia(
        parameters='L: T.Tensor((B, H, S), "float32"),',
        after="",
        store="""
T.copy(o, O[b, h, x * bq : (x + 1) * bq, :])  #: epilogue-store
for i in T.Parallel(bq):
    L[b, h, x * bq + i] = T.log2(l[i]) + m[i] * scale
""",
    ),
    "past len loaded": nvidia(
        parameters='past: T.Tensor((B,), "int32"),',
        mask="""
for i, j in T.Parallel(bq, bk):  #: causal-mask
    s[i, j] = T.if_then_else(x * bq + i + past[b] >= n * bk + j, s[i, j], -1e9)  #: causal-mask, mask-value
""",
    ),
    "kv cache lens": nvidia(
        parameters='lens: T.Tensor((B,), "int32"),',
        before="valid = lens[b]\nstop = T.ceildiv(valid, bk)  #: loop-range",
        loop="for n in T.Pipelined(stop, num_stages=2):  #: kv-loop",
        mask="""
for i, j in T.Parallel(bq, bk):  #: boundary-mask
    s[i, j] = T.if_then_else(n * bk + j < valid, s[i, j], -1e9)  #: boundary-mask, mask-value
""",
    ),
    "mask else none": nvidia(
        mask="""
if (n + 1) * bk > x * bq:  #: causal-mask
    for i, j in T.Parallel(bq, bk):  #: causal-mask
        s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)  #: causal-mask, mask-value
"""
    ),
    "two loops, full and masked": nvidia(loop="for n in T.serial(x * bq // bk):  #: kv-loop"),
    "alibi bias": nvidia(
        mask="for i, j in T.Parallel(bq, bk):\n    s[i, j] += (n * bk + j - x * bq - i) * 0.5"
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_another_way_to_write_it(name: str) -> None:
    assert only(WAYS[name]).kind == "attention"
    assert wrong(WAYS[name]) == []


def test_capped_scores_are_scores() -> None:
    capped = "for i, j in T.Parallel(bq, bk):\n    s[i, j] = T.tanh(s[i, j] / 50.0) * 50.0"
    assert wrong(nvidia(mask=capped)) == []
