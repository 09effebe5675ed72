# ruff: noqa: E501  (marks make lines of kernels longer than code would be)
"""The interpreter, mechanism by mechanism: the smallest kernel that needs each."""

from __future__ import annotations

import pytest

from srcmap.anatomy.flow import Event
from tests.anatomy.little import ascend, nvidia, only, opened, sites, stmt, wrong

# Each is the whole answer of a kernel that one mechanism is needed for.

LOOPS_ONCE = {
    # `s = exp(s - m)` run twice would be read as an exponential of probabilities
    "element-wise, parallel": nvidia(),
    "rows by hand": nvidia(
        exponential="""
        for i in T.serial(bq):  #: probability
            for j in T.serial(bk):  #: probability
                s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        """
    ),
    "two steps, one buffer": nvidia(
        exponential="""
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = s[i, j] * scale - m[i] * scale  #: probability
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j])  #: probability
        """
    ),
    "vectorised": nvidia(
        exponential="""
        for i in T.Parallel(bq):  #: probability
            for j in T.vectorized(bk):  #: probability
                s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        """
    ),
    "grid": nvidia(
        exponential="""
        for i, j in T.grid(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)  #: probability
        """
    ),
    "row offsets": nvidia(
        exponential="""
        for i in T.serial(bq // 2):  #: probability
            row = i * 2  #: probability
            for j in T.Parallel(bk):  #: probability
                s[row, j] = T.exp2(s[row, j] * scale - m[row] * scale)  #: probability
        """
    ),
}


@pytest.mark.parametrize("name", LOOPS_ONCE)
def test_element_wise_loops_run_once(name: str) -> None:
    assert wrong(LOOPS_ONCE[name]) == []


# The saved maximum, the output and the denominator are what the turn before left.
CARRIED = {
    "saved maximum": ("M-M", "RESCALE", "DENOM-RESCALE", "ACC-RESCALE"),
    "output": ("ACC-RESCALE",),
    "denominator": ("DENOM-ADD",),
}


@pytest.mark.parametrize("name", CARRIED)
def test_key_loops_run_to_a_fixpoint(name: str) -> None:
    kinds = {event.kind for event in opened(nvidia()).reading.events.values()}
    assert kinds >= set(CARRIED[name])


def test_what_takes_three_turns() -> None:
    """A maximum handed from buffer to buffer, one turn each."""
    source = nvidia(
        allocate="a = T.alloc_fragment((bq,), 'float32')\nc = T.alloc_fragment((bq,), 'float32')",
        maximum="""
        T.copy(c, m0)
        T.copy(a, c)
        T.copy(m, a)  #: row-max
        T.reduce_max(s, m, dim=1, clear=False)  #: row-max
        """,
    )
    assert [site.concept for site in sites(source, "rescale-factor")] == ["rescale-factor"]


def test_memory_of_one_half_is_read_by_the_other() -> None:
    """Scores, probabilities and partial output cross through workspaces, against the order of lines."""
    assert wrong(ascend()) == []
    facts = opened(ascend()).facts
    assert facts.workspaces == {"ws", "wp", "wo"}


def test_the_previous_pass_only() -> None:
    """What only the first pass believed dies out: no workspace holds scores and probabilities at once."""
    reading = opened(ascend()).reading
    held = {
        name: {t for t in access.value if not t.startswith("L:")}
        for (_, name), access in reading.stores.items()
    }
    assert held["ws"] == {"score"}
    assert held["wp"] == {"prob"}


NEGATED = {
    "kept negated": nvidia(
        init="""
        T.fill(o, 0)  #: state-init
        T.fill(l, 0)  #: state-init
        T.fill(m, 2**30)  #: state-init
        """,
        allocate="up = T.alloc_fragment((bq,), 'float32')",
        maximum="""
        T.copy(m, m0)
        T.reduce_max(s, up, dim=1)  #: row-max
        for i in T.Parallel(bq):  #: row-max
            m[i] = -up[i]  #: row-max
        for i in T.Parallel(bq):  #: row-max
            m[i] = T.min(m[i], m0[i])  #: row-max
        """,
        rescale="""
        for i in T.Parallel(bq):  #: rescale-factor
            r[i] = T.exp2(m[i] * scale - m0[i] * scale)  #: rescale-factor
        """,
        exponential="""
        for i, j in T.Parallel(bq, bk):  #: probability
            s[i, j] = T.exp2(s[i, j] * scale + m[i] * scale)  #: probability
        """,
    ),
}


@pytest.mark.parametrize("name", NEGATED)
def test_negated_maximum(name: str) -> None:
    kernel = only(NEGATED[name])
    assert kernel.kind == "attention"
    assert (
        wrong(NEGATED[name], "rescale-factor", "probability", "state-init", "row-sum", "pv-gemm")
        == []
    )


def test_warp_roles_stand_side_by_side() -> None:
    """The producer loads in one arm, and the consumer of the other arm sees what it loaded."""
    kernel = only(ROLES)
    assert kernel.kind == "attention"
    facts = opened(ROLES).facts
    assert (facts.query_tensors, facts.key_tensors, facts.value_tensors) == ({"Q"}, {"K"}, {"V"})


ROLES = """\
import tilelang
import tilelang.language as T


@T.prim_func
def main(
    Q: T.Tensor((64, 64), "float16"),
    K: T.Tensor((8, 64, 64), "float16"),
    V: T.Tensor((8, 64, 64), "float16"),
    O: T.Tensor((64, 64), "float16"),
):
    with T.Kernel(1, threads=256) as x:
        q = T.alloc_shared((64, 64), "float16")
        k = T.alloc_shared((64, 64), "float16")
        v = T.alloc_shared((64, 64), "float16")
        s = T.alloc_fragment((64, 64), "float")
        p = T.alloc_fragment((64, 64), "float16")
        o = T.alloc_fragment((64, 64), "float")
        m = T.alloc_fragment((64,), "float")
        m0 = T.alloc_fragment((64,), "float")
        l = T.alloc_fragment((64,), "float")
        tid = T.get_thread_binding()
        if tid < 128:
            T.copy(Q, q)
            T.fill(m, -T.infinity("float"))
            T.fill(l, 0)
            T.fill(o, 0)
            for n in T.serial(8):
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(m, m0)
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(64):
                    m0[i] = T.exp2(m0[i] - m[i])
                for i, j in T.Parallel(64, 64):
                    p[i, j] = T.exp2(s[i, j] - m[i])
                for i, j in T.Parallel(64, 64):
                    o[i, j] *= m0[i]
                T.gemm(p, v, o)
            T.copy(o, O)
        else:
            for n in T.serial(8):
                T.copy(K[n, :, :], k)
                T.copy(V[n, :, :], v)
"""


def test_roles_named_by_a_scope() -> None:
    source = ROLES.replace("if tid < 128:", "with T.ws(0):").replace("else:", "with T.ws(1):")
    facts = opened(source).facts
    assert facts.kernel_class == "attention"
    assert facts.key_tensors == {"K"}


def test_fragments_do_not_cross_between_roles() -> None:
    source = ROLES.replace("k = T.alloc_shared", "k = T.alloc_fragment")
    assert opened(source).facts.key_tensors == set()


def test_ring_slots_are_apart() -> None:
    """Slot 0 holds keys and slot 1 values: together, a product would hold both."""
    source = nvidia(
        allocate='ring = T.alloc_shared((2, bk, D), "float16")',
        load_k="""
        T.copy(K[b, h, n * bk : (n + 1) * bk, :], ring[0, :, :])
        T.copy(V[b, h, n * bk : (n + 1) * bk, :], ring[1, :, :])
        """,
        scores="T.gemm(q, ring[0, :, :], s, transpose_B=True, clear_accum=True)  #: qk-gemm",
        values="T.copy(s, p)\nT.gemm(p, ring[1, :, :], o)  #: pv-gemm",
    )
    assert wrong(source) == []
    facts = opened(source).facts
    assert (facts.key_tensors, facts.value_tensors) == ({"K"}, {"V"})


def test_a_variable_slot_reads_them_all() -> None:
    source = nvidia(
        allocate='ring = T.alloc_shared((2, bk, D), "float16")',
        load_k="T.copy(K[b, h, n * bk : (n + 1) * bk, :], ring[n % 2, :, :])",
        scores="T.gemm(q, ring[n % 2, :, :], s, transpose_B=True, clear_accum=True)  #: qk-gemm",
    )
    assert wrong(source) == []


def test_a_reload_in_a_one_armed_if_keeps_only_what_was_loaded() -> None:
    """The matrix unit's tile is loaded again for the second product; it no longer holds keys."""
    source = nvidia(
        values="""
        T.copy(s, p)
        if n < S:
            T.copy(V[b, h, n * bk : (n + 1) * bk, :], k)
        T.gemm(p, k, o)
        """
    )
    facts = opened(source).facts
    assert (facts.key_tensors, facts.value_tensors) == ({"K"}, {"V"})


def test_memory_under_another_name() -> None:
    """`v = k` is a tile of its own: the same memory holds values later."""
    source = ROLES.replace('v = T.alloc_shared((64, 64), "float16")', "v = k")
    facts = opened(source).facts
    assert (facts.key_tensors, facts.value_tensors) == ({"K"}, {"V"})


def test_a_view_is_the_tile_itself() -> None:
    source = nvidia(
        allocate="flat = T.reshape(s, (bq * bk,))\nsame = T.view(m, (bq,))",
        rescale="""
        for i in T.Parallel(bq):  #: rescale-factor
            r[i] = T.exp2(m0[i] * scale - same[i] * scale)  #: rescale-factor
        """,
    )
    assert wrong(source) == []


def test_if_joins_are_unions() -> None:
    """A maximum set in one arm only is a maximum or what it was."""
    source = nvidia(
        maximum="""
        T.copy(m, m0)
        if causal:
            T.reduce_max(s, m, dim=1, clear=False)
        """
    )
    assert {site.concept for site in sites(source)} >= {"rescale-factor", "probability", "row-max"}


OVERWRITES = [
    ("T.gemm(q, k, s, transpose_B=True, clear_accum=True)", True),
    ("T.gemm(q, k, s, transpose_B=True, init=True)", True),
    ("T.clear(s)\nT.gemm(q, k, s, transpose_B=True)", True),
    ("T.fill(s, 0)\nT.gemm(q, k, s, transpose_B=True)", True),
    ("for i, j in T.Parallel(bq, bk):\n    s[i, j] = 0\nT.gemm(q, k, s, transpose_B=True)", True),
    # the mask is laid down first, and the product added to it
    (
        "for i, j in T.Parallel(bq, bk):\n    s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, 0, -T.infinity('float32'))\nT.gemm(q, k, s, transpose_B=True)",
        False,
    ),
]


@pytest.mark.parametrize(
    ("scores", "plain"), OVERWRITES, ids=[r[0].split("\n")[0] for r in OVERWRITES]
)
def test_products_write_or_add(scores: str, plain: bool) -> None:
    source = nvidia(scores=scores)
    assert only(source).kind == "attention"
    assert (sites(source, "causal-mask") == []) == plain


# What a tile holds after a row of steps, in roles.
HOLDS = [
    ("cleared", "T.clear(d)", {"zero"}),
    ("filled", "T.fill(d, -1e30)", {"neg"}),
    ("loaded", "T.copy(Q[b, h, 0:bq, 0], d)", {"L:Q"}),
    ("written over", "T.fill(d, -1e30)\nT.clear(d)", {"zero"}),
    ("one", "T.fill(d, 1.0)", {"one"}),
    ("a choice", "T.fill(d, T.if_then_else(n > 3, 0, 1))", {"zero", "one"}),
    ("an if", "T.clear(d)\nif causal:\n    T.fill(d, 1)", {"zero", "one"}),
    ("both arms", "if causal:\n    T.fill(d, 1)\nelse:\n    T.clear(d)", {"zero", "one"}),
    ("a scalar on the way", "w = Q[b, h, 0, 0]\nT.fill(d, w)", {"L:Q"}),
    (
        "added twice",
        "T.copy(Q[b, h, 0:bq, 0], d)\nfor i in T.Parallel(bq):\n    d[i] += K[b, h, i, 0]",
        {"L:Q", "L:K"},
    ),
    (
        "not understood",
        "T.copy(Q[b, h, 0:bq, 0], d)\nfor i in T.Parallel(bq):\n    d[i] = d[i] ** 2",
        {"L:Q"},
    ),
    ("an unknown operation leaves it", "T.fill(d, -1e30)\nT.conjure(d)", {"neg"}),
    ("a cast", "for i in T.Parallel(bq):\n    d[i] = T.cast(Q[b, h, i, 0], 'float32')", {"L:Q"}),
    ("the greater of constants", "T.fill(d, max(1, 0))", {"inv"}),
]


@pytest.mark.parametrize(("before", "tags"), [r[1:] for r in HOLDS], ids=[r[0] for r in HOLDS])
def test_what_a_tile_holds(before: str, tags: set[str]) -> None:
    kernel = opened(nvidia(before=before + "\nT.copy(d, O[b, h, 0, 0:bq])", store="T.print(o)"))
    assert set(kernel.reading.stores[stmt(kernel, "T.copy(d").uid, "O"].value) == tags


def test_provenance() -> None:
    """An event knows which statement made each role that it rests on."""
    kernel = opened(nvidia())
    (event,) = kernel.reading.of("PROB")
    assert isinstance(event, Event)
    assert {tag for tag, _ in event.because} == {"s-m"}
    (difference,) = kernel.reading.of("S-M")
    makers = {tag: kernel.facts.statement(uid) for tag, uid in difference.because}
    assert makers["score"] is kernel.facts.qk_products[0].statement
    assert makers["max"] is stmt(kernel, "T.reduce_max")


def test_a_grid_synchronisation_begins_another_part() -> None:
    source = nvidia(
        parameters='W: T.Tensor((B, S), "float32"),',
        after="T.copy(l, W[b, 0:bq])\nT.sync_grid()\nT.copy(W[b, 0:bq], l)",
    )
    assert opened(source).facts.workspaces == set()
    assert opened(source.replace("            T.sync_grid()\n", "")).facts.workspaces == {"W"}


def test_backward_kernels_are_no_forwards() -> None:
    """`exp(score - lse)` recomputes a probability from what the forward has saved."""
    source = nvidia(
        parameters='L: T.Tensor((B, H, S), "float32"),',
        allocate="saved = T.alloc_fragment((bq,), 'float32')",
        before="T.copy(L[b, h, 0:bq], saved)",
        maximum="T.print(m)",
        rescale="T.print(r)",
        exponential="for i, j in T.Parallel(bq, bk):\n    s[i, j] = T.exp2(s[i, j] * scale - saved[i])",
        row_sum="T.print(d)",
        denominator="T.print(l)",
        accumulator="T.print(o)",
        normalise="T.print(o)",
    )
    kernel = only(source)
    assert kernel.kind == "backward"
    assert kernel.sites == ()
