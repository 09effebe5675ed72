"""What stands for "no maximum yet" in our TileLang kernels: the interpreter cannot see its use."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(
    path
    for path in (ROOT / "kernels").glob("*/tilelang_*.py")
    if "\nLOWEST = " in path.read_text(encoding="utf-8")
)


def lowest(path: Path) -> float:
    """Return the constant of a file, without importing it."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LOWEST":
            return float(eval(ast.unparse(node.value), {}))  # noqa: S307 - our own constant
    raise AssertionError(path)


def test_there_are_some() -> None:
    assert {path.parent.name for path in FILES} >= {"varlen", "sink_gqa_varlen", "block_causal"}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.parent.name)
@pytest.mark.parametrize("scale", [64**-0.5, 128**-0.5, 0.3, 1.0])
def test_a_fused_difference_of_products_is_zero(path: Path, scale: float) -> None:
    """A GPU computes `a * s - b * s` as fma(a, s, -round(b * s)), and what was rounded stays."""
    factor = np.float32(scale * math.log2(math.e))
    m = np.float32(lowest(path))
    rounded = np.float32(m * factor)
    assert np.float64(m) * np.float64(factor) - np.float64(rounded) == 0
    assert np.isfinite(rounded)


PACKED = [p for p in FILES if p.parent.name in ("varlen", "sink_gqa_varlen", "block_causal")]


@pytest.mark.parametrize("path", PACKED, ids=lambda p: p.parent.name)
def test_no_score_of_numbers_of_a_half_type_is_lower(path: Path) -> None:
    largest = 65504.0  # of float16, in all places of vectors of 256
    assert lowest(path) < -256 * largest**2
