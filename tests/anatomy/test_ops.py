"""The table of operations: every row makes sense, and both dialects say the same with it."""

from __future__ import annotations

import ast

import pytest

from srcmap.anatomy import ops
from srcmap.anatomy.flow import Flow
from tests.anatomy.little import opened

KINDS = {
    "copy", "fill", "clear", "gemm", "reduce_max", "reduce_sum", "reduce_min", "reduce_other",
    "add", "sub", "mul", "div", "max", "min", "exp", "log", "reciprocal", "relu", "neg", "axpy",
    "mul_add", "select", "compare", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
    "index_vector", "elementwise", "topk", "atomic", "alias",
}  # fmt: skip
SOURCES = {
    "clear": 0, "copy": 1, "fill": 1, "gemm": 2, "select": 3, "axpy": 2, "mul_add": 2, "compare": 3,
    "add": 2, "sub": 2, "mul": 2, "div": 2, "max": 2, "min": 2, "exp": 1, "log": 1, "relu": 1,
    "reciprocal": 1, "neg": 1, "reduce_max": 1, "reduce_sum": 1, "reduce_min": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", ops.TILE_OPS)
def test_a_row_has_operands_that_make_sense(name: str) -> None:
    row = ops.TILE_OPS[name]
    assert row.kind in KINDS
    assert row.dst is not None
    assert row.dst not in row.src
    if not name.endswith(("gather", "gatherb")):  # those take an index along
        assert len(row.src) == SOURCES.get(row.kind, len(row.src))
    operands = [operand for operand in (row.dst, *row.src) if isinstance(operand, int)]
    assert all(operand < 5 for operand in operands)
    if row.kind.startswith("reduce") and not name.startswith("tile."):
        assert row.dst == 1  # T.reduce_max(from, to); the tile dialect writes its first
    if name.startswith("tile.") and row.kind not in ("copy", "gemm"):
        assert row.dst == 0


@pytest.mark.parametrize("name", sorted(ops.TILE_OPS))
def test_formal_names_do_not_clash(name: str) -> None:
    row = ops.TILE_OPS[name]
    assert len(row.names) == len(set(row.names))
    assert not row.names or (isinstance(row.dst, int) and row.dst < len(row.names))


def test_the_tables_do_not_contradict_each_other() -> None:
    tables = [
        set(ops.TILE_OPS),
        ops.NOISE,
        ops.BARRIERS,
        ops.GLOBAL_ALLOCATIONS - {"alloc_workspace"},
    ]
    for at, one in enumerate(tables):
        for other in tables[at + 1 :]:
            assert one & other == set()
    assert ops.FLAG_SETS | ops.FLAG_WAITS | ops.BARRIER_WAITS <= ops.BARRIERS
    assert not ops.FLAG_SETS & ops.FLAG_WAITS


ARGUMENTS = [
    ("T.copy(a, b)", 0, ("src", "dst"), "a"),
    ("T.copy(a, b)", 1, ("src", "dst"), "b"),
    ("T.copy(dst=b, src=a)", 0, ("src", "dst"), "a"),
    ("T.copy(a, dst=b)", 1, ("src", "dst"), "b"),
    ("T.copy(a)", 1, ("src", "dst"), None),
    ("T.copy(a)", 1, (), None),
    ("T.gemm(a, b, c, init=True)", "init", (), "True"),
    ("T.gemm(a, b, c)", "init", (), None),
]


@pytest.mark.parametrize(
    ("text", "operand", "names", "found"), ARGUMENTS, ids=[f"{r[0]} {r[1]}" for r in ARGUMENTS]
)
def test_an_argument_by_position_or_name(
    text: str, operand: int | str, names: tuple[str, ...], found: str | None
) -> None:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    argument = ops.argument(call, operand, names)
    assert (None if argument is None else ast.unparse(argument)) == found


def test_a_call_is_known_or_not() -> None:
    for name in ("copy", "tile.exp", "barrier_all", "annotate_layout", "alloc_shared", "empty"):
        assert ops.is_known(name)
    for name in ("conjure", "exp", "Kernel"):
        assert not ops.is_known(name)


# One step of an online softmax, written in both dialects and in two styles of each.

KERNEL = """\
import tilelang
import tilelang.language as T


@T.prim_func
def main(Q: T.Tensor((64, 64), "float16"), K: T.Tensor((8, 64, 64), "float16"), V: T.Tensor((8, 64, 64), "float16"), O: T.Tensor((64, 64), "float16")):
    with T.Kernel(1) as x:
        q = {alloc}((64, 64), "float16")
        k = {alloc}((64, 64), "float16")
        s = {alloc}((64, 64), "float")
        o = {alloc}((64, 64), "float")
        part = {alloc}((64, 64), "float")
        m = {alloc}((64,), "float")
        m0 = {alloc}((64,), "float")
        r = {alloc}((64,), "float")
        l = {alloc}((64,), "float")
        d = {alloc}((64,), "float")
        T.copy(Q, q)
{init}
        for n in T.serial(8):
            T.copy(K[n, :, :], k)
            {gemm}(q, k, s, transpose_B=True, {clear}=True)
            T.copy(m, m0)
{step}
            T.copy(V[n, :, :], k)
            {gemm}(s, k, part, {clear}=True)
{add}
{last}
        T.copy(o, O)
"""  # noqa: E501

GPU = {"alloc": "T.alloc_fragment", "gemm": "T.gemm", "clear": "clear_accum"}
NPU = {"alloc": "T.alloc_ub", "gemm": "T.gemm_v0", "clear": "init"}

DIALECTS: dict[str, tuple[dict[str, str], str, str, str, str]] = {
    "NVIDIA": (
        GPU,
        "T.clear(o)\nT.fill(l, 0)\nT.fill(m, -T.infinity('float'))",
        """\
T.reduce_max(s, m, dim=1, clear=False)
for i in T.Parallel(64):
    r[i] = T.exp(m0[i] - m[i])
for i, j in T.Parallel(64, 64):
    s[i, j] = T.exp(s[i, j] - m[i])
T.reduce_sum(s, d, dim=1)
for i in T.Parallel(64):
    l[i] = l[i] * r[i] + d[i]
for i, j in T.Parallel(64, 64):
    o[i, j] *= r[i]""",
        "for i, j in T.Parallel(64, 64):\n    o[i, j] += part[i, j]",
        "for i, j in T.Parallel(64, 64):\n    o[i, j] /= l[i]",
    ),
    "NVIDIA, by names": (
        GPU,
        "T.clear(buffer=o)\nT.fill(buffer=l, value=0)\nT.fill(value=-float('inf'), buffer=m)",
        """\
T.reduce_max(buffer=s, out=m, dim=1, clear=False)
for i in T.Parallel(64):
    r[i] = T.exp(m0[i] - m[i])
for i, j in T.Parallel(64, 64):
    s[i, j] = T.exp(s[i, j] - m[i])
T.reduce_sum(out=d, buffer=s, dim=1)
for i in T.Parallel(64):
    l[i] = d[i] + r[i] * l[i]
for i, j in T.Parallel(64, 64):
    o[i, j] = r[i] * o[i, j]""",
        "for i, j in T.Parallel(64, 64):\n    o[i, j] = part[i, j] + o[i, j]",
        "for i, j in T.Parallel(64, 64):\n    o[i, j] = o[i, j] / l[i]",
    ),
    "Ascend": (
        NPU,
        "T.tile.fill(o, 0.0)\nT.tile.fill(l, 0.0)\nT.tile.fill(m, -(2**30))",
        """\
T.tile.reduce_max(m, s, dim=-1)
T.tile.max(m, m, m0)
T.tile.sub(r, m0, m)
T.tile.exp(r, r)
for i in range(64):
    T.tile.sub(s[i, :], s[i, :], m[i])
T.tile.exp(s, s)
T.tile.reduce_sum(d, s, dim=-1)
T.tile.mul(l, l, r)
T.tile.add(l, l, d)
for i in range(64):
    T.tile.mul(o[i, :], o[i, :], r[i])""",
        "T.tile.add(o, o, part)",
        "for i in range(64):\n    T.tile.div(o[i, :], o[i, :], l[i])",
    ),
    "Ascend, other operations": (
        NPU,
        "T.tile.fill(o, 0.0)\nT.tile.fill(l, 0.0)\nT.tile.fill(m, -(2**30))",
        """\
T.reduce_max(s, m, dim=-1)
T.tile.max(m, m0, m)
T.tile.sub(r, m0, m)
T.tile.exp(r, r)
T.tile.row_expand_sub(s, s, m)
T.tile.exp(s, s)
T.reduce_sum(s, d, dim=-1)
T.tile.mul_add_dst(d, l, r)
T.copy(d, l)
T.tile.row_expand_mul(o, o, r)""",
        "T.tile.axpy(o, part, 1.0)",
        "T.tile.row_expand_div(o, o, l)",
    ),
    "Ascend, automatic": (
        NPU,
        "T.tile.clear(o)\nT.tile.clear(l)\nT.tile.fill(m, -T.infinity('float'))",
        """\
T.reduce_max(s, m, dim=-1)
for i in T.Parallel(64):
    m[i] = T.max(m0[i], m[i])
for i in T.Parallel(64):
    r[i] = T.exp(m0[i] - m[i])
for i, j in T.Parallel(64, 64):
    s[i, j] = T.exp(s[i, j] - m[i])
T.reduce_sum(s, d, dim=-1)
for i in T.Parallel(64):
    l[i] = l[i] * r[i] + d[i]
for i, j in T.Parallel(64, 64):
    o[i, j] = o[i, j] * r[i]""",
        "for i, j in T.Parallel(64, 64):\n    o[i, j] = o[i, j] + part[i, j]",
        "for i, j in T.Parallel(64, 64):\n    o[i, j] = o[i, j] / l[i]",
    ),
}
ONE_STEP = {
    "QK", "REDUCE-MAX", "MAX-MERGE", "SAVE-MAX", "M-M", "RESCALE", "S-M", "PROB", "ROWSUM",
    "DENOM-RESCALE", "DENOM-ADD", "ACC-RESCALE", "PV", "ACC-ADD", "NORM", "FILL",
}  # fmt: skip


def _assembled(dialect: str) -> str:
    words, *parts = DIALECTS[dialect]
    pads = (8, 12, 12, 8)
    texts = [
        "\n".join(" " * pad + line for line in part.split("\n"))
        for part, pad in zip(parts, pads, strict=True)
    ]
    return KERNEL.format(**words, init=texts[0], step=texts[1], add=texts[2], last=texts[3])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_say_the_same(dialect: str) -> None:
    kernel = opened(_assembled(dialect))
    events = {event.kind for event in kernel.reading.events.values()}
    assert events - {"MAX-CLAMP"} == ONE_STEP  # the first maximum, against its start, in one only
    assert kernel.reading.unread == {}
    assert kernel.facts.kernel_class == "attention"
    facts = kernel.facts
    assert (facts.query_tensors, facts.key_tensors, facts.value_tensors) == ({"Q"}, {"K"}, {"V"})


def test_an_unknown_call_is_counted_and_shown() -> None:
    source = _assembled("NVIDIA").replace(
        "T.copy(m, m0)", "T.conjure(m, m0)\n            T.annotate_layout({})"
    )
    kernel = opened(source)
    (unread,) = kernel.reading.unread.values()
    assert (unread.name, unread.buffers) == ("conjure", ("m", "m0"))
    again = Flow(kernel.context, kernel.deps).run()
    assert again.signature() == kernel.reading.signature()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('T.reduce(s, m, "max", 1, False)', "reduce_max"),
        ('T.reduce(s, m, dims=[1], reduce_mode="max")', "reduce_max"),
        ('T.reduce(s, d, dims=[1], reduce_mode="sum")', "reduce_sum"),
        ('T.reduce(s, d, dims=[1], reduce_mode="xor")', "reduce_other"),
        ("T.reduce(s, d, how, 1)", "reduce_other"),
        ("T.vand(a, b, c)", "bitwise_and"),
    ],
)
def test_a_reduction_may_be_named_by_an_argument(text: str, kind: str) -> None:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    operation = ops.operation_of(text.partition("(")[0].removeprefix("T."), call)
    assert operation is not None
    assert operation.kind == kind
