"""What the diff tests on a GPU share: inputs, upstream's compiled kernels, poison, the budget."""

from __future__ import annotations

import importlib.util
import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from benchmarks.gpu.upstream import PIN, ROOT, module

__all__ = ["PIN", "ROOT"]
FACTOR = 2.0
"""Our error against float64 may be this much of upstream's. Both round the same things, in another
order; the largest of many errors scatters by some ten percent, and short rows have few."""
UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def why_not() -> str:
    """Return why the kernels cannot run here; empty when they can."""
    for name in ("torch", "tilelang"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed: pip install '.[kernels]'"
    import torch

    if not torch.cuda.is_available():
        return "no CUDA device"
    found = torch.cuda.get_device_capability()
    return "" if found == (9, 0) else f"the GPU has capability {found}, and the kernels need (9, 0)"


class Call(NamedTuple):
    """The sizes and options of one comparison; `kv_heads` 0: as many as heads."""

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    dim: int
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""
    options: tuple[tuple[str, Any], ...] = ()


def tensors(name: str, call: Call) -> tuple[Any, Any, Any]:
    """Return q, k, v in BHSD, seeded by the test's name. Later keys are longer: maxima move."""
    import torch

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    kv_heads = call.kv_heads or call.heads
    q = rng.standard_normal((call.batch, call.heads, call.seq_q, call.dim)) * call.size
    k, v = rng.standard_normal((2, call.batch, kv_heads, call.seq_kv, call.dim))
    k *= np.linspace(0.2, 1.5, call.seq_kv)[:, None]
    kind = getattr(torch, call.dtype)
    q, k, v = (torch.from_numpy(x).to("cuda", kind) for x in (q, k, v * 0.5))
    return q, k, v


def wide(tensor: Any) -> Any:
    """Return a tensor as a float64 array."""
    return tensor.double().cpu().numpy()


def swapped(*many: Any) -> tuple[Any, ...]:
    """Return BHSD tensors as BSHD, or back."""
    return tuple(x.transpose(1, 2).contiguous() for x in many)


used: set[str] = set()
"""Upstream's files below `examples/` that the test at work has asked for; results name them."""
ratios: list[float] = []
"""Our largest error over upstream's, for each comparison with float64 of the test at work."""
BESIDE = "against PyTorch"
"""In the labels of comparisons that are not with float64."""


def upstream(path: str) -> Any:
    """Return a module of upstream's examples, from the checkout; skips without one."""
    if not (PIN / path).is_file():
        pytest.skip("no checkout of tilelang v0.1.14: `srcmap sync tilelang@v0.1.14` fetches it")
    used.add(path)
    return module(path)


def run_poisoned(function: Any, *inputs: Any) -> Any:
    """Call a kernel whose output, and whose workspaces, take places that were full of NaN."""
    import torch

    poison = [torch.full_like(inputs[0], float("nan")) for _ in range(64)]
    places = [(x.data_ptr(), x.data_ptr() + x.nbytes) for x in poison]
    poison.clear()
    out = function(*inputs)
    torch.cuda.synchronize()
    start = out.data_ptr()
    assert any(a <= start < b for a, b in places), "the output is not where the poison was"
    return out


def compare(label: str, ours: Any, exact: Any, theirs: float, dtype: str) -> None:
    """Fail, naming the first bad coordinate, where ours is off by more than the budget.

    `theirs` is upstream's largest error in `dtype`. One rounding of the output comes on top: where
    upstream happens to be exact, ours need not be.
    """
    allowed = FACTOR * theirs + UNIT[dtype] * np.abs(exact)
    got = wide(ours)
    assert got.shape == exact.shape, label
    off = np.abs(got - exact)
    if theirs and BESIDE not in label and off.size and np.isfinite(off).all():
        ratios.append(float(off.max()) / theirs)
    bad = np.argwhere(~(off <= allowed))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise AssertionError(
            f"{label}: {len(bad)} of {got.size} off, first {at}: {got[at]} is not {exact[at]} "
            f"within {allowed[at]:.3g} (upstream is off by {theirs:.3g} at most)"
        )
