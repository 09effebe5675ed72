"""Packed samples for the tests of kernels that read them, and what such a kernel may be off by."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tests.kernels.budget import Inputs, allowed

if TYPE_CHECKING:
    from collections.abc import Callable


class Batch(NamedTuple):
    """Lengths, heads and types of one call."""

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    heads: int = 2
    kv_heads: int = 1
    dim: int = 64
    dtype: str = "float16"
    size: float = 1.0
    """What queries are multiplied by: 12 makes scores of some hundreds."""


def numpy_type(name: str) -> Any:
    """Return NumPy's type of this name; bfloat16 is that of ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def starts(lengths: tuple[int, ...]) -> Any:
    """Return where samples of these lengths start, and where the last ends."""
    return np.cumsum([0, *lengths]).astype(np.int32)


def tensors(seed: int, batch: Batch) -> tuple[Any, ...]:
    """Return q, k, v, cu_seqlens_q, cu_seqlens_k.

    Each sample has keys and values of another size: what of a neighbour is read does not pass for
    its own. Later keys are longer, so that maxima move.
    """
    rng = np.random.default_rng(seed)
    kind = numpy_type(batch.dtype)
    q_starts, k_starts = starts(batch.queries), starts(batch.keys)
    q = rng.standard_normal((q_starts[-1], batch.heads, batch.dim)) * batch.size
    k, v = rng.standard_normal((2, k_starts[-1], batch.kv_heads, batch.dim))
    for number, (first, end) in enumerate(itertools.pairwise(k_starts)):
        k[first:end] *= np.linspace(0.2, 1.0 + number / 2, end - first)[:, None, None]
        v[first:end] *= 0.3 + number
    return (*(x.astype(kind) for x in (q, k, v)), q_starts, k_starts)


def compare(
    label: str,
    got: Any,
    reference: Callable[..., Any],
    given: tuple[Any, ...],
    options: dict[str, Any],
    kind: str,
) -> None:
    """Fail, naming the first bad coordinate, where an output leaves its budget."""
    exact = reference(*given, **options)
    steps = -(-max(np.diff(given[4])) // 64)
    budget = allowed(reference, Inputs(given, options), kind, int(steps), splits=False)
    assert got.shape == exact.shape, label
    assert got.dtype == numpy_type(kind), label
    wide = got.astype(np.float64)
    bad = np.argwhere(~(np.abs(wide - exact) <= budget))  # NaN is no success
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise AssertionError(
            f"{label}: {len(bad)} of {got.size} off, first {at}: {wide[at]} is not {exact[at]} "
            f"within {budget[at]:.3g}"
        )


def claiming(*shapes: tuple[int, ...], values: bool = False) -> tuple[Any, ...]:
    """Return tensors of PyTorch that claim to be on a GPU, for launchers that check first.

    They are zeros of float16; with `values`, the "shapes" are what stands in them, as int32.
    """
    import pytest

    torch = pytest.importorskip("torch")
    kind = type("Claiming", (torch.Tensor,), {"is_cuda": True})
    made = (
        torch.tensor(one, dtype=torch.int32) if values else torch.zeros(one, dtype=torch.float16)
        for one in shapes
    )
    return tuple(x.as_subclass(kind) for x in made)
