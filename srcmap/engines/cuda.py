"""The third engine: upstream's compiler on a real GPU. Here it says why it cannot run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def why_not() -> str:
    """Return why no kernel can run on a GPU here."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return "the engine cuda needs an NVIDIA GPU, and this machine has none"
    missing = [name for name in ("torch", "tilelang") if find_spec(name) is None]
    if missing:
        return f"the engine cuda needs {', '.join(missing)}, which is not installed"
    return "the engine cuda is not wired up yet: run upstream's own driver on the GPU"
