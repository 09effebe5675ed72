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

    q, k, v, do = given
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    mask = seen.tril(k.shape[2] - q.shape[2]) if causal else None
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(
        *leaves, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1]
    )
    return tuple(torch.autograd.grad(out, leaves, do))


def check_forward(label: str, given: tuple[Any, ...], out: Any, causal: bool, dtype: str) -> None:
    """Compare an output in BHSD with float64; the budget is the error of PyTorch in the type."""
    import torch

    q, k, v, _ = given
    many = [x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v)]
    exact = reference(*map(wide, (q, *many)), causal=causal)
    seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    mask = seen.tril(k.shape[2] - q.shape[2]) if causal else None
    theirs = torch.nn.functional.scaled_dot_product_attention(q, *many, attn_mask=mask)
    error = float(np.abs(wide(theirs) - exact).max())
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
