"""Launching on Ascend (next slice)."""

from __future__ import annotations

from typing import Any


def launch(grid: Any, body: Any) -> None:
    """Refuse."""
    raise NotImplementedError(f"{grid} {body}")
