"""Tensors on a GPU that is none: what a launcher looks at before it launches, and nothing else."""

from __future__ import annotations

import math


class Pretended:
    """A contiguous tensor of PyTorch, as far as a launcher asks."""

    is_cuda = True

    def __init__(self, *shape: int, dtype: str = "float16", device: str = "cuda:0") -> None:
        self.shape = shape
        self.dtype = f"torch.{dtype}"
        self.device = device
        self.contiguous_ = True

    def is_contiguous(self) -> bool:
        return self.contiguous_

    def numel(self) -> int:
        return math.prod(self.shape)

    def strided(self) -> Pretended:
        """Return the same with other strides."""
        other = Pretended(*self.shape, dtype=self.dtype.removeprefix("torch."), device=self.device)
        other.contiguous_ = False
        return other
