"""Where results are kept: apart, so that a look-up that finds none imports nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def home(project: Path) -> Path:
    """Return where a project keeps its results."""
    return project / ".srcmap" / "results" / "verify.json"
