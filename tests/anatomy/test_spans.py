# ruff: noqa: E501  (marks make lines of kernels longer than code would be)
"""From statements to lines: growing over headers, joining neighbours, merging arms.

Every row is a kernel whose marks are the answer; one concept is asked about.
"""

from __future__ import annotations

import pytest

from tests.anatomy.little import ascend, nvidia, read, sites, wrong

PROBABILITY = {
    "a loop that holds nothing else": """
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        """,
    "two loops, one in the other": """
        for i in T.Parallel(bq):  #: probability
            for j in T.Parallel(bk):  #: probability
                s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        """,
    "a loop that holds more": """
        for i, j in T.Parallel(bq, bk):
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
            p[i, j] = s[i, j]
        """,
    "a scalar that only this reads": """
        for i, j in T.Parallel(bq, bk):  #: probability
            top = m[i] * scale  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - top)  #: probability
        """,
    "a feeder of a feeder": """
        for i, j in T.Parallel(bq, bk):  #: probability
            top = m[i]  #: probability
            scaled = top * scale  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - scaled)  #: probability
        """,
    "a scalar that something else reads too": """
        for i, j in T.Parallel(bq, bk):
            top = m[i] * scale
            s[i, j] = T.exp2(s[i, j] * scale - top)  #: probability
            p[i, j] = top
        """,
    "an if without an else": """
        if causal:  #: probability
            for i, j in T.Parallel(bq, bk):  #: probability
                s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        """,
    "a docstring and a comment beside it": """
        for i, j in T.Parallel(bq, bk):  #: probability
            "the exponential"  #: probability
            # of the shifted scores  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
            # nothing follows
        """,
    "the end is the last real statement": """
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
            T.sync_threads()
        """,
    "one statement on many lines": """
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(  #: probability
                s[i, j] * scale  #: probability
                - m[i] * scale  #: probability
            )  #: probability
        """,
    "neighbours across blank lines, comments and barriers": """
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = s[i, j] * scale - m[i] * scale  #: probability
          #: probability
        # and now the exponential  #: probability
        T.sync_threads()  #: probability
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j])  #: probability
        """,
    "neighbours parted by a statement": """
        for i, j in T.Parallel(bq, bk):  #: probability/1
            s[i, j] = s[i, j] * scale - m[i] * scale  #: probability/1
        T.clear(d)
        for i, j in T.Parallel(bq, bk):  #: probability/2
            s[i, j] = T.exp2(s[i, j])  #: probability/2
        """,
    "both arms of one if": """
        if causal:  #: probability
            for i, j in T.Parallel(bq, bk):  #: probability
                s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        else:  #: probability
            for i, j in T.Parallel(bq, bk):  #: probability
                s[i, j] = T.exp2((s[i, j] - m[i]) * scale)  #: probability
        """,
    "both arms, one of them more": """
        if causal:
            T.clear(d)
            for i, j in T.Parallel(bq, bk):  #: probability/1
                s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability/1
        else:  #: probability/2
            for i, j in T.Parallel(bq, bk):  #: probability/2
                s[i, j] = T.exp2((s[i, j] - m[i]) * scale)  #: probability/2
        """,
}


THREE_ARMS = """
    if causal:  #: probability
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
    elif S > 3:  #: probability
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2((s[i, j] - m[i]) * scale)  #: probability
    else:  #: probability
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j] - m[i])  #: probability
    """


def test_three_arms_are_one_place() -> None:
    assert wrong(nvidia(exponential=THREE_ARMS), "probability") == []


SAVED_LATE = """
    T.reduce_max(s, d, dim=1)  #: row-max
    T.copy(m, m0)  #: row-max
    for i in T.Parallel(bq):  #: row-max
        m[i] = T.max(d[i], m0[i])  #: row-max
    """


def test_a_save_in_the_middle_of_the_maximum() -> None:
    assert wrong(nvidia(maximum=SAVED_LATE), "row-max") == []


@pytest.mark.parametrize("name", PROBABILITY)
def test_span_of_the_probability(name: str) -> None:
    assert wrong(nvidia(exponential=PROBABILITY[name]), "probability") == []


OTHERS = {
    "an else arm alone takes its `else:`": (
        "causal-mask",
        nvidia(
            mask="""
            if S > 99:
                T.clear(d)
            else:  #: causal-mask
                for i, j in T.Parallel(bq, bk):  #: causal-mask
                    s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)  #: causal-mask
            """
        ),
    ),
    "an arm with an else beside it takes its `if`": (
        "causal-mask",
        nvidia(
            mask="""
            if causal:  #: causal-mask
                for i, j in T.Parallel(bq, bk):  #: causal-mask
                    s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)  #: causal-mask
            else:
                T.clear(d)
            """
        ),
    ),
    "masks side by side are two": (
        "causal-mask",
        nvidia(
            mask="""
            for i, j in T.Parallel(bq, bk):  #: causal-mask/1
                s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)  #: causal-mask/1
            for i, j in T.Parallel(bq, bk):  #: causal-mask/2
                s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)  #: causal-mask/2
            """
        ),
    ),
    "index assignments feed the mask": (
        "causal-mask",
        nvidia(
            mask="""
            for i, j in T.Parallel(bq, bk):  #: causal-mask
                row = x * bq + i  #: causal-mask
                col = n * bk + j  #: causal-mask
                if row < col:  #: causal-mask
                    s[i, j] = -1e9  #: causal-mask
            """
        ),
    ),
    "the key loop's header is never taken": (
        "qk-gemm",
        nvidia(),
    ),
    "the load of V is part of its product": (
        "pv-gemm",
        nvidia(
            values="""
            T.copy(s, p)
            T.copy(V[b, h, n * bk : (n + 1) * bk, :], v)  #: pv-gemm

            # no barrier between  #: pv-gemm
            T.gemm(p, v, o)  #: pv-gemm
            """.replace("\n\n", "\n")
        ),
    ),
    "unless a barrier parts them": (
        "pv-gemm",
        nvidia(
            values="""
            T.copy(s, p)
            T.copy(V[b, h, n * bk : (n + 1) * bk, :], v)
            T.sync_threads()
            T.gemm(p, v, o)  #: pv-gemm
            """
        ),
    ),
    "or another statement": (
        "pv-gemm",
        nvidia(
            values="""
            T.copy(V[b, h, n * bk : (n + 1) * bk, :], v)
            T.copy(s, p)
            T.gemm(p, v, o)  #: pv-gemm
            """
        ),
    ),
    "save and reset belong to the maximum": (
        "row-max",
        nvidia(
            maximum="""
            T.copy(m, m0)  #: row-max
            T.fill(m, -T.infinity("float32"))  #: row-max
            T.reduce_max(s, m, dim=1, clear=False)  #: row-max
            for i in T.Parallel(bq):  #: row-max
                m[i] = T.max(m[i], m0[i])  #: row-max
            """
        ),
    ),
    "a save that does not stand right before does not": (
        "row-max",
        nvidia(
            maximum="""
            T.copy(m, m0)
            T.clear(d)
            T.reduce_max(s, m, dim=1, clear=False)  #: row-max
            """
        ),
    ),
    "fills side by side are one place": (
        "state-init",
        nvidia(
            init="""
            T.clear(o)  #: state-init
            # the denominator  #: state-init
            T.clear(l)  #: state-init
            T.sync_threads()  #: state-init
            T.fill(m, -T.infinity("float32"))  #: state-init
            """
        ),
    ),
    "fills by loop": (
        "state-init",
        nvidia(
            init="""
            for i, j in T.Parallel(bq, D):  #: state-init
                o[i, j] = 0  #: state-init
            for i in T.Parallel(bq):  #: state-init
                l[i] = 0  #: state-init
                m[i] = -T.infinity("float32")  #: state-init
            """
        ),
    ),
    "a store with the copies before it": (
        "epilogue-store",
        nvidia(
            allocate="o2 = T.alloc_shared((bq, D), 'float16')",
            store="""
            T.copy(o, o2)  #: epilogue-store
            T.sync_threads()  #: epilogue-store
            T.copy(o2, O[b, h, x * bq : (x + 1) * bq, :])  #: epilogue-store
            """,
        ),
    ),
    "a store in a loop": (
        "epilogue-store",
        nvidia(
            store="""
            for i, j in T.Parallel(bq, D):  #: epilogue-store
                O[b, h, x * bq + i, j] = o[i, j]  #: epilogue-store
            """
        ),
    ),
    "the stop with what feeds it": (
        "loop-range",
        nvidia(
            before="""
            last = (x + 1) * bq  #: loop-range
            stop = T.ceildiv(last, bk)  #: loop-range
            """,
            loop="for n in T.Pipelined(stop, num_stages=2):",
        ),
    ),
    "the stop chosen by an if": (
        "loop-range",
        nvidia(
            before="""
            if causal:  #: loop-range
                stop = T.ceildiv((x + 1) * bq, bk)  #: loop-range
            else:  #: loop-range
                stop = T.ceildiv(S, bk)  #: loop-range
            """,
            loop="for n in T.Pipelined(stop, num_stages=2):",
        ),
    ),
    "the stop on several lines": (
        "loop-range",
        nvidia(
            before="""
            stop = (  #: loop-range
                T.min(T.ceildiv(S, bk), T.ceildiv((x + 1) * bq, bk))  #: loop-range
                if causal  #: loop-range
                else T.ceildiv(S, bk)  #: loop-range
            )  #: loop-range
            """,
            loop="for n in T.Pipelined(stop, num_stages=2):",
        ),
    ),
    "a scale chosen by an if is the whole if": (
        "softmax-scale",
        nvidia(
            scale="""
            if causal:  #: softmax-scale
                scale = D**-0.5  #: softmax-scale
            else:  #: softmax-scale
                scale = 1.0  #: softmax-scale
            """
        ),
    ),
    "a header on several lines": (
        "kv-loop",
        nvidia(
            loop="""
            for n in T.Pipelined(  #: kv-loop
                S // bk,  #: kv-loop
                num_stages=2,  #: kv-loop
            ):  #: kv-loop
            """
        ),
    ),
    "a launch on several lines": (
        "kernel-grid",
        nvidia(
            grid="""
            with T.Kernel(  #: kernel-grid
                T.ceildiv(S, bq), H, B, threads=128  #: kernel-grid
            ) as (x, h, b):  #: kernel-grid
            """
        ),
    ),
    "one broadcast right before, on Ascend": (
        "probability",
        ascend(
            allocate="wide = T.alloc_ub([half, bk], 'float')",
            exponential="""
            T.tile.sub(r, m0, m)
            T.tile.exp(r, r)
            T.tile.broadcast(wide, m)  #: probability
            T.barrier_all()  #: probability
            T.tile.sub(s, s, wide)  #: probability
            T.barrier_all()  #: probability
            T.tile.exp(s, s)  #: probability
            """,
        ),
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_span(name: str) -> None:
    concept, source = OTHERS[name]
    assert wrong(source, concept) == []


def test_leading_comments_are_context_and_not_lines() -> None:
    source = nvidia(
        row_sum="""
        T.clear(d)

        # unrelated

        # the sum of
        # this block
        T.reduce_sum(s, d, dim=1)
        """
    )
    (site,) = sites(source, "row-sum")
    assert (site.lines.first - site.context.first, site.lines.last) == (2, site.context.last)


def test_line_ends_move_nothing() -> None:
    plain = read(nvidia()).kernels[0].sites
    crlf = read(nvidia().replace("\n", "\r\n").rstrip()).kernels[0].sites
    assert [(s.concept, s.lines) for s in crlf] == [(s.concept, s.lines) for s in plain]
