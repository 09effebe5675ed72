"""Tests of the engines leave the process as they found it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("numpy", reason="needs the extra run: numpy and ml-dtypes")
pytest.importorskip("ml_dtypes", reason="needs the extra run: numpy and ml-dtypes")


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Take stand-ins and loaded kernels out again."""
    import numpy as np

    from srcmap.engines.interpreter import loader
    from tests.engines.world import forget

    before, path = set(sys.modules), list(sys.path)
    with np.errstate(all="ignore"):
        yield
    forget()
    loader._beside.clear()
    sys.path[:] = path
    for name in set(sys.modules) - before:
        module = sys.modules[name]
        if "/pytest-" in str(getattr(module, "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for kernel files."""
    return tmp_path
