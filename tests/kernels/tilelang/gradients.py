"""What the tests of backwards in the interpreter share: inputs, what gradients may be off by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.kernels.budget import LEAST, UNIT, largest_score
from tests.kernels.tilelang.interpreted import Run, outputs
from tests.kernels.tilelang.packed import numpy_type


class Case(NamedTuple):
    """One call; all tensors in BHSD here, whatever the kernel gets."""

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    dim: int
    causal: bool
    layout: str = "BHSD"
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    tiling: tuple[tuple[str, Any], ...] = ()
    dim_v: int = 0
    """Head size of values; 0: that of keys."""


def made(seed: int, case: Case) -> tuple[Any, ...]:
    """Return q, k, v and do. Later keys are longer, so that maxima move."""
    rng = np.random.default_rng(seed)
    dim_v = case.dim_v or case.dim
    q = rng.standard_normal((case.batch, case.heads, case.seq_q, case.dim)) * case.size
    k = rng.standard_normal((case.batch, case.kv_heads, case.seq_kv, case.dim))
    v = rng.standard_normal((case.batch, case.kv_heads, case.seq_kv, dim_v))
    do = rng.standard_normal((case.batch, case.heads, case.seq_q, dim_v))
    k *= np.linspace(0.2, 1.5, case.seq_kv)[:, None]
    return tuple(x.astype(numpy_type(case.dtype)) for x in (q, k, v, do))


def laid(layout: str, *many: Any) -> tuple[Any, ...]:
    """Return BHSD tensors in a layout, or back."""
    if layout == "BHSD":
        return many
    return tuple(np.ascontiguousarray(np.swapaxes(x, 1, 2)) for x in many)


def nan(*shape: int, dtype: Any = np.float32) -> Any:
    """Return a tensor that nobody has written to."""
    return np.full(shape, np.nan, dtype)


def allowed(given: tuple[Any, ...], causal: bool, kind: str) -> tuple[Any, ...]:
    """Return how far dq, dk and dv may be off, given q, k, v and do with as many KV heads as heads.

    Probabilities come from an exponent that is rounded some times at the size of a score (relative
    error `raised`), and are rounded once; so are the output, which goes into delta, and ds. Sums
    are in float32; the results are rounded once. `least` is what rounding nearly nothing is worth.
    """
    unit, least, wide = UNIT[kind], LEAST[kind], UNIT["float32"]
    q, k, v, do = (x.astype(np.float64) for x in given)
    scale = q.shape[3] ** -0.5
    s = q @ np.swapaxes(k, 2, 3) * scale
    if causal:
        past = k.shape[2] - q.shape[2]
        s = np.where(np.tri(q.shape[2], k.shape[2], past) > 0, s, -np.inf)
    p = np.exp(s - s.max(axis=3, keepdims=True))
    p /= p.sum(axis=3, keepdims=True)
    dp = do @ np.swapaxes(v, 2, 3)
    spread = np.abs(do) @ np.swapaxes(np.abs(v), 2, 3)  # what dp adds up, in magnitudes
    delta = (p * dp).sum(axis=3, keepdims=True)
    whole = (np.abs(do) * (p @ np.abs(v))).sum(axis=3, keepdims=True)
    ds = np.abs(p * (dp - delta)) * scale
    raised = (12 * largest_score(q, k) + 2 * k.shape[2]) * wide
    off = ds * (unit + raised) + p * scale * (wide * 16 * spread + (unit + raised) * whole) + least
    results = (ds @ np.abs(k), np.swapaxes(ds, 2, 3) @ np.abs(q))
    dq = off @ np.abs(k) + unit * results[0]
    dk = np.swapaxes(off, 2, 3) @ np.abs(q) + unit * results[1]
    dv = np.swapaxes((2 * unit + raised) * p + least, 2, 3) @ np.abs(do)
    return tuple(x + least for x in (dq, dk, dv))


class Found(NamedTuple):
    """What the kernels of one case made, in BHSD."""

    given: tuple[Any, ...]
    """q, k, v and do."""
    out: Any
    lse: Any
    gradients: tuple[Any, ...]


def through(file: str, prefix: str, cases: dict[str, Case]) -> dict[str, Found]:
    """Run the forward and the three kernels of the backward, for each a child process."""
    run = _Runner(file, prefix, list(cases.values()))
    given = [laid(case.layout, *made(seed, case)) for seed, case in enumerate(run.cases)]
    forwards = run("forward_lse", [x[:3] for x in given])
    rows = [
        (out, x[3], lse, *_workspaces(case))
        for case, x, (out, lse) in zip(run.cases, given, forwards, strict=True)
    ]
    prepared = run("backward_rows", rows)
    blocks = [
        (*x, rows, delta, *_outputs(case, x), sums)
        for case, x, (*_, rows, delta, sums) in zip(run.cases, given, prepared, strict=True)
    ]
    summed = run("backward", blocks)
    sums = [(s, np.full_like(x[0], np.nan)) for x, (*_, s) in zip(given, summed, strict=True)]
    rounded = run("backward_round", sums)
    found = {}
    rounds = _Rounds(file, prefix)
    for place, (name, case) in enumerate(cases.items()):
        (out, lse), (*_, dk, dv, _), (_, dq) = (x[place] for x in (forwards, summed, rounded))
        if dict(case.tiling).get("splits", 1) > 1:
            dk, dv = rounds(case, dk, given[place][1]), rounds(case, dv, given[place][2])
        (out, *grads) = laid(case.layout, out, dq, dk, dv)
        found[name] = Found(laid(case.layout, *given[place]), out, lse, tuple(grads))
    return found


class _Runner:
    """Runs one builder of a file for all cases."""

    def __init__(self, file: str, prefix: str, cases: list[Case]) -> None:
        self.file, self.prefix, self.cases = file, prefix, cases

    def __call__(self, builder: str, inputs: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        wanted = _ARGUMENTS[builder]
        if builder == "backward_round":
            wanted = (*wanted, "block_kv" if self.prefix == "mha" else "computing")
        runs = [
            Run({n: x for n, x in self._named(case).items() if n in wanted}, given)
            for case, given in zip(self.cases, inputs, strict=True)
        ]
        return outputs(self.file, f"{self.prefix}_{builder}", runs)

    def _named(self, case: Case) -> dict[str, Any]:
        named = {**case._asdict(), **dict(case.tiling)}
        named["dim_v"] = named["dim_v"] or case.dim
        named["computing"] = 256 if named.get("columns") else named.get("block_kv", 128) * 2
        grouped = ("kv_heads", "dim_v", "columns", "computing", "splits")
        return {n: x for n, x in named.items() if n not in grouped or self.prefix == "gqa"}


class _Rounds:
    """Rounds sums of dK or dV, as the kernel of dQ does."""

    def __init__(self, file: str, prefix: str) -> None:
        self.file, self.builder = file, f"{prefix}_backward_round"

    def __call__(self, case: Case, sums: Any, like: Any) -> Any:
        sizes = {"heads": case.kv_heads, "dim": like.shape[3], "layout": case.layout}
        run = Run({**sizes, "dtype": case.dtype}, (sums, np.full_like(like, np.nan)))
        return outputs(self.file, self.builder, [run])[0][1]


def _outputs(case: Case, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what dK and dV are written, or with splits added, to."""
    if dict(case.tiling).get("splits", 1) == 1:
        return tuple(np.full_like(x, np.nan) for x in given[1:3])
    keys = -(-case.seq_kv // 64) * 64
    lines = (keys * x.shape[3] // 256 for x in given[1:3])
    return tuple(np.zeros((case.batch, case.kv_heads, n, 256), np.float32) for n in lines)


_SIZES = ("heads", "dim", "layout", "dtype")
_MASKED = (*_SIZES, "kv_heads", "dim_v", "causal")
_CUT = ("block_q", "block_kv")
_ARGUMENTS = {
    "forward_lse": _MASKED,
    "backward_rows": (*_SIZES, "dim_v"),
    "backward": (
        *_MASKED,
        "block_q",
        "block_kv",
        "stages",
        "head_group",
        "ahead",
        "columns",
        "splits",
    ),
    "backward_round": (*_SIZES, "block_q"),
}


def _workspaces(case: Case) -> tuple[Any, ...]:
    rows = -(-case.seq_q // 128) * 128
    each = nan(case.batch, case.heads, rows)
    return each, each.copy(), nan(case.batch, case.heads, rows * case.dim // 256, 256)


def check_forward(case: Case, found: Found, exact: Any) -> None:
    """Fail where the forward, or the logarithms of its sums, are off by more than roundings.

    As many KV heads as heads.
    """
    q, k, v, _ = (x.astype(np.float64) for x in found.given)
    most = 2 * UNIT[case.dtype] * np.abs(v).max()
    assert np.abs(found.out.astype(np.float64) - exact).max() <= most
    s = q @ np.swapaxes(k, 2, 3) * case.dim**-0.5
    if case.causal:
        s = np.where(np.tri(case.seq_q, case.seq_kv, case.seq_kv - case.seq_q) > 0, s, -np.inf)
    want = np.logaddexp.reduce(s, axis=3) * np.log2(np.e)
    assert np.abs(found.lse - want).max() <= 8 * 2.0**-24 * max(1.0, float(np.abs(want).max()))


def compare(label: str, got: tuple[Any, ...], exact: tuple[Any, ...], budget: Any) -> None:
    """Fail, naming the first bad coordinate, where a gradient leaves its budget."""
    for name, ours, right, most in zip(("dq", "dk", "dv"), got, exact, budget, strict=True):
        assert ours.shape == right.shape, f"{label} {name}"
        wide = ours.astype(np.float64)
        bad = np.argwhere(~(np.abs(wide - right) <= most))  # NaN is no success
        if len(bad):
            at = tuple(int(i) for i in bad[0])
            raise AssertionError(
                f"{label} {name}: {len(bad)} of {wide.size} off, first {at}: {wide[at]} is not "
                f"{right[at]} within {most[at]:.3g}"
            )
