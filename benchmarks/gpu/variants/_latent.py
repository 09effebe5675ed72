"""What the modules of MLA share: upstream's files, whose own references need a library more."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from benchmarks.gpu.upstream import module


def theirs(path: str) -> Any:
    """Return a module of upstream's.

    Its reference in PyTorch imports einops, which a machine that measures kernels need not have.
    """
    if find_spec("einops") is not None:
        return module(path)
    absent = ModuleType("einops")
    absent.rearrange = absent.einsum = absent.repeat = None  # type: ignore[attr-defined]
    sys.modules["einops"] = absent
    try:
        return module(path)
    finally:
        del sys.modules["einops"]
