"""What the tests of backwards on a GPU share: poisoned outputs, PyTorch's gradients, upstream's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.mha.reference import attention as reference
from tests.kernels.gpu.world import UNIT, compare, wide

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

NAMES = ("dq", "dk", "dv")


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill what `torch.empty` and `torch.empty_like` give with NaN: who leaves a row is seen."""
    import torch

    for name in ("empty", "empty_like"):
        monkeypatch.setattr(torch, name, _filled(getattr(torch, name)))


def _filled(make: Callable[..., Any]) -> Callable[..., Any]:
    def filled(*args: Any, **options: Any) -> Any:
        found = make(*args, **options)
        return found.fill_(float("nan")) if found.is_floating_point() else found

    return filled


def by_pytorch(given: tuple[Any, ...], causal: bool) -> tuple[Any, ...]:
    """Return PyTorch's gradients for q, k, v and do in BHSD, in their type."""
    import torch

    *leaves, do = (x.detach().clone() for x in given)
    q, k, v = (x.requires_grad_() for x in leaves)
    return tuple(torch.autograd.grad(attend(q, k, v, causal), (q, k, v), do))


def attend(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Return PyTorch's attention of q, k and v in BHSD.

    Where values are shorter than keys, not by cuDNN, which PyTorch prefers on Hopper: it takes
    some seconds to get ready for each pair of lengths.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    mask = seen.tril(k.shape[2] - q.shape[2]) if causal else None
    attention = torch.nn.functional.scaled_dot_product_attention
    if q.shape[3] == v.shape[3]:
        return attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):  # it knows no groups
        return attention(q, k, v, attn_mask=mask)


def check_forward(label: str, given: tuple[Any, ...], out: Any, causal: bool, dtype: str) -> None:
    """Compare an output in BHSD with float64; the budget is the error of PyTorch in the type."""
    q, k, v, _ = given
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    exact = reference(*map(wide, (q, k, v)), causal=causal)
    error = float(np.abs(wide(attend(q, k, v, causal)) - exact).max())
    assert np.isfinite(error)
    compare(f"{label} out", out, exact, error, dtype)


def largest(got: tuple[Any, ...], exact: tuple[Any, ...]) -> tuple[float, ...]:
    """Return the largest error of each gradient."""
    errors = tuple(float(np.abs(wide(a) - b).max()) for a, b in zip(got, exact, strict=True))
    assert np.isfinite(errors).all()
    return errors


def check(
    label: str,
    got: tuple[Any, ...],
    exact: tuple[Any, ...],
    theirs: tuple[float, ...],
    dtype: str,
) -> None:
    """Compare each gradient; `theirs` are errors in float16, roundings of `dtype` are larger."""
    factor = UNIT[dtype] / UNIT["float16"]
    for name, ours, right, error in zip(NAMES, got, exact, theirs, strict=True):
        compare(f"{label} {name}", ours, right, error * factor, dtype)
