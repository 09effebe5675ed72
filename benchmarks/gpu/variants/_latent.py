"""What the modules of MLA share: upstream's references want a library that its kernels do not."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def einops_or_none() -> Iterator[None]:
    """Let files be loaded that import einops, where it is not installed."""
    if find_spec("einops") is not None:
        yield
        return
    absent = ModuleType("einops")
    absent.rearrange = absent.einsum = absent.repeat = None  # type: ignore[attr-defined]
    sys.modules["einops"] = absent
    try:
        yield
    finally:
        del sys.modules["einops"]
