"""What the tests of backwards in the interpreter share: inputs, what gradients may be off by."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.kernels.budget import LEAST, UNIT, largest_score
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
