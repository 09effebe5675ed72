# ruff: noqa: E501  (marks make lines of kernels longer than code would be)
"""Small kernels of our own, put together from steps, and the questions that tests ask about them.

A kernel is a template with a default for every step; a test replaces the one that it is about.
`#: concept` at the end of a line says that this line belongs to that concept; neighbouring lines
with one mark are one place, `#: qk-gemm/2` parts neighbours. Marks are taken off before reading.
"""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

import pytest

from srcmap.anatomy import read_source
from srcmap.anatomy.kernel_reader import open_kernel
from srcmap.anatomy.kernels import KernelRoot, kernel_roots
from srcmap.parse.python import parse_python
from tests.metamorphic.kernels import marked, unmarked

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Kernel
    from srcmap.anatomy.tree import Stmt
    from srcmap.model import FileAnatomy, KernelAnatomy, Site

NVIDIA = """\
import tilelang
import tilelang.language as T
<module>

@tilelang.jit(out_idx=[3])
def build(B, H, S, D, bq=64, bk=32, causal=True):
    <scale>
    <builder>

    @T.prim_func
    def main(
        Q: T.Tensor((B, H, S, D), "float16"),
        <keys>
        V: T.Tensor((B, H, S, D), "float16"),
        O: T.Tensor((B, H, S, D), "float16"),
        <parameters>
    ):
        <grid>
            q = T.alloc_shared((bq, D), "float16")
            k = T.alloc_shared((bk, D), "float16")
            v = T.alloc_shared((bk, D), "float16")
            s = T.alloc_fragment((bq, bk), "float32")
            p = T.alloc_fragment((bq, bk), "float16")
            o = T.alloc_fragment((bq, D), "float32")
            m = T.alloc_fragment((bq,), "float32")
            m0 = T.alloc_fragment((bq,), "float32")
            r = T.alloc_fragment((bq,), "float32")
            d = T.alloc_fragment((bq,), "float32")
            l = T.alloc_fragment((bq,), "float32")
            <allocate>
            <load_q>
            <init>
            <before>
            <loop>
                <load_k>
                <scores>
                <mask>
                <maximum>
                <check>
                <rescale>
                <exponential>
                <after_exp>
                <row_sum>
                <denominator>
                <accumulator>
                <values>
            <after>
            <normalise>
            <store>
        <later>

    return main
<tail>
"""

DEFAULTS = {
    "scale": "scale = D**-0.5 * 1.44  #: softmax-scale",
    "keys": 'K: T.Tensor((B, H, S, D), "float16"),',
    "grid": "with T.Kernel(T.ceildiv(S, bq), H, B, threads=128) as (x, h, b):  #: kernel-grid",
    "load_q": "T.copy(Q[b, h, x * bq : (x + 1) * bq, :], q)",
    "init": """
        T.fill(o, 0)  #: state-init
        T.fill(l, 0)  #: state-init
        T.fill(m, -T.infinity("float32"))  #: state-init
        """,
    "loop": "for n in T.Pipelined(S // bk, num_stages=2):  #: kv-loop",
    "load_k": "T.copy(K[b, h, n * bk : (n + 1) * bk, :], k)",
    "scores": "T.gemm(q, k, s, transpose_B=True, clear_accum=True)  #: qk-gemm",
    "maximum": """
        T.copy(m, m0)  #: row-max
        T.reduce_max(s, m, dim=1, clear=False)  #: row-max
        """,
    "rescale": """
        for i in T.Parallel(bq):  #: rescale-factor
            r[i] = T.exp2(m0[i] * scale - m[i] * scale)  #: rescale-factor
        """,
    "exponential": """
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        """,
    "row_sum": "T.reduce_sum(s, d, dim=1)  #: row-sum",
    "denominator": """
        for i in T.Parallel(bq):  #: denominator
            l[i] = l[i] * r[i] + d[i]  #: denominator
        """,
    "accumulator": """
        for i, j in T.Parallel(bq, D):  #: acc-rescale
            o[i, j] *= r[i]  #: acc-rescale
        """,
    "values": """
        T.copy(s, p)
        T.copy(V[b, h, n * bk : (n + 1) * bk, :], v)  #: pv-gemm
        T.gemm(p, v, o)  #: pv-gemm
        """,
    "normalise": """
        for i, j in T.Parallel(bq, D):  #: normalise
            o[i, j] /= l[i]  #: normalise
        """,
    "store": "T.copy(o, O[b, h, x * bq : (x + 1) * bq, :])  #: epilogue-store",
}

ASCEND = """\
import tilelang
import tilelang.language as T
<module>

@tilelang.jit(out_idx=[3], workspace_idx=[4, 5, 6])
def build(B, H, S, D, bq=64, bk=64):
    <scale>
    half = bq // 2
    <builder>

    @T.prim_func
    def main(
        Q: T.Tensor([B, H, S, D], "float16"),
        K: T.Tensor([B, H, S, D], "float16"),
        V: T.Tensor([B, H, S, D], "float16"),
        O: T.Tensor([B, H, S, D], "float16"),
        ws: T.Tensor([B * H, bq, bk], "float"),  #: workspace-param
        wp: T.Tensor([B * H, bq, bk], "float16"),  #: workspace-param
        wo: T.Tensor([B * H, bq, D], "float"),  #: workspace-param
        <parameters>
    ):
        with T.Kernel(B * H, is_npu=True) as (c, vid):  #: kernel-grid
            b = c // H
            h = c % H
            q = T.alloc_L1([bq, D], "float16")
            kv = T.alloc_L1([bk, D], "float16")
            pp = T.alloc_L1([bq, bk], "float16")
            sc = T.alloc_L0C([bq, bk], "float")
            oc = T.alloc_L0C([bq, D], "float")
            s = T.alloc_ub([half, bk], "float")
            p = T.alloc_ub([half, bk], "float16")
            o = T.alloc_ub([half, D], "float")
            part = T.alloc_ub([half, D], "float")
            m = T.alloc_ub([half], "float")
            m0 = T.alloc_ub([half], "float")
            l = T.alloc_ub([half], "float")
            d = T.alloc_ub([half], "float")
            r = T.alloc_ub([half], "float")
            <allocate>
            with T.Scope("C"):  #: cube-scope
                <load_q>
                for n in T.serial(S // bk):  #: cube-scope, kv-loop
                    T.copy(K[b, h, n * bk : (n + 1) * bk, :], kv)  #: cube-scope
                    T.barrier_all()  #: cube-scope
                    T.gemm_v0(q, kv, sc, transpose_B=True, init=True)  #: cube-scope, qk-gemm
                    T.copy(sc, ws[c, :, :])  #: cube-scope, workspace-write
                    T.set_cross_flag("FIX", 0)  #: cube-scope, cross-flag-set
                    T.wait_cross_flag(1)  #: cube-scope, cross-flag-wait
                    T.copy(wp[c, :, :], pp)  #: cube-scope, workspace-read
                    T.copy(V[b, h, n * bk : (n + 1) * bk, :], kv)  #: cube-scope
                    T.barrier_all()  #: cube-scope
                    T.gemm_v0(pp, kv, oc, init=True)  #: cube-scope, pv-gemm
                    T.copy(oc, wo[c, :, :])  #: cube-scope, workspace-write
                    T.set_cross_flag("FIX", 2)  #: cube-scope, cross-flag-set
                    T.wait_cross_flag(3)  #: cube-scope, cross-flag-wait
            with T.Scope("V"):  #: vector-scope
                T.tile.fill(o, 0.0)  #: vector-scope, state-init
                T.tile.fill(l, 0.0)  #: vector-scope, state-init
                <init>
                for n in T.serial(S // bk):  #: vector-scope, kv-loop
                    T.wait_cross_flag(0)  #: vector-scope, cross-flag-wait
                    T.copy(ws[c, vid * half : vid * half + half, :], s)  #: vector-scope, workspace-read
                    <mask>
                    <maximum>
                    <exponential>
                    T.reduce_sum(s, d, dim=-1)  #: vector-scope, row-sum
                    T.tile.mul(l, l, r)  #: vector-scope, denominator
                    T.tile.add(l, l, d)  #: vector-scope, denominator
                    T.copy(s, p)  #: vector-scope
                    T.copy(p, wp[c, vid * half : vid * half + half, :])  #: vector-scope, workspace-write
                    T.set_cross_flag("MTE3", 1)  #: vector-scope, cross-flag-set
                    for i in range(half):  #: vector-scope, acc-rescale
                        T.tile.mul(o[i, :], o[i, :], r[i])  #: vector-scope, acc-rescale
                    T.wait_cross_flag(2)  #: vector-scope, cross-flag-wait
                    T.copy(wo[c, vid * half : vid * half + half, :], part)  #: vector-scope, workspace-read
                    T.tile.add(o, o, part)  #: vector-scope
                    T.set_cross_flag("V", 3)  #: vector-scope, cross-flag-set
                for i in range(half):  #: vector-scope, normalise
                    T.tile.div(o[i, :], o[i, :], l[i])  #: vector-scope, normalise
                T.copy(o, O[b, h, vid * half : vid * half + half, :])  #: vector-scope, epilogue-store

    return main
<tail>
"""

ASCEND_DEFAULTS = {
    "scale": "scale = D**-0.5  #: softmax-scale",
    "load_q": "T.copy(Q[b, h, :, :], q)  #: cube-scope",
    "init": "T.tile.fill(m, -(2**30))  #: vector-scope, state-init",
    "maximum": """
        T.tile.mul(s, s, scale)  #: vector-scope
        T.copy(m, m0)  #: vector-scope, row-max
        T.reduce_max(s, m, dim=-1)  #: vector-scope, row-max
        T.tile.max(m, m, m0)  #: vector-scope, row-max
        """,
    "exponential": """
        T.tile.sub(r, m0, m)  #: vector-scope, rescale-factor
        T.tile.exp(r, r)  #: vector-scope, rescale-factor
        for i in range(half):  #: vector-scope, probability
            T.tile.sub(s[i, :], s[i, :], m[i])  #: vector-scope, probability
        T.tile.exp(s, s)  #: vector-scope, probability
        """,
}


def known(reason: str) -> pytest.MarkDecorator:
    """Mark what does not hold yet and is to; the reason says what is missing."""
    return pytest.mark.xfail(reason=reason, strict=False)


def nvidia(**steps: str) -> str:
    """Put a fused NVIDIA attention kernel together; every step is marked with what it does."""
    return _assemble(NVIDIA, DEFAULTS, steps)


def ascend(**steps: str) -> str:
    """Put an Ascend attention kernel together, one half per core."""
    return _assemble(ASCEND, ASCEND_DEFAULTS, steps)


def _assemble(template: str, defaults: dict[str, str], steps: dict[str, str]) -> str:
    unknown = [name for name in steps if f"<{name}>" not in template]
    assert not unknown, unknown
    chosen = {**defaults, **steps}

    def text(match: re.Match[str]) -> str:
        step = chosen.get(match[2], "")
        step = (textwrap.dedent(step) if step.startswith("\n") else step).strip("\n").rstrip()
        return textwrap.indent(step, match[1]) + "\n" if step else ""

    return re.sub(r"^( *)<(\w+)>\n", text, template, flags=re.MULTILINE)


def read(source: str, **neighbours: str) -> FileAnatomy:
    """Read a marked source; `neighbours` are modules beside it."""

    def sibling(name: str) -> bytes | None:
        text = neighbours.get(name.removesuffix(".py"))
        return None if text is None else text.encode()

    return read_source(unmarked(source).encode(), "kernel.py", sibling)


def only(source: str) -> KernelAnatomy:
    """Read a source that holds one kernel."""
    (kernel,) = (kernel for kernel in read(source).kernels if kernel.kind != "file")
    return kernel


def opened(source: str) -> Kernel:
    """Read the first kernel of a source as far as its facts."""
    file = parse_python(unmarked(source).encode(), "kernel.py")
    return open_kernel(kernel_roots(file.tree)[0], file)


def roots(source: str) -> list[KernelRoot]:
    """Find the kernels of a source."""
    return kernel_roots(ast.parse(unmarked(source)))


def stmt(kernel: Kernel, start: str) -> Stmt:
    """Find the only statement whose code begins like this."""
    (found,) = (one for one in kernel.context.statements if _code(one).startswith(start))
    return found


def _code(statement: Stmt) -> str:
    return "" if statement.kind == "inline" else ast.unparse(statement.node)


def sites(source: str, *concepts: str) -> list[Site]:
    """Everything found in a source, or what is found of some concepts."""
    every = [site for kernel in read(source).kernels for site in kernel.sites]
    return [site for site in every if not concepts or site.concept in concepts]


def lines(source: str, concept: str) -> list[str]:
    """Where a concept is found, as written in citations."""
    return [str(site.lines) for site in sites(source, concept)]


def wrong(source: str, *concepts: str) -> list[str]:
    """Say what is found without a mark, and what is marked and not found; of all concepts or some."""
    text = unmarked(source).split("\n")
    found = {(s.concept, s.lines.first, s.lines.last) for s in sites(source, *concepts)}
    wanted = {mark for mark in marked(source) if not concepts or mark[0] in concepts}
    told = [("missed", one) for one in wanted - found] + [("extra", one) for one in found - wanted]
    return [
        f"{what} {concept} {first}-{last}: {text[first - 1].strip()}"
        for what, (concept, first, last) in sorted(told, key=lambda one: one[1][1])
    ]
