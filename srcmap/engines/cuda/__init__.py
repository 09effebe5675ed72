"""The third engine: upstream's compiler, unpatched, on a real GPU; what `host` runs in a child.

It is the only one that sees layouts, pipelines, bulk copies and races as they are. It says nothing
of what it saw: a wrong result, a hang or a wild store is all that shows.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

NEEDED = ("torch", "tilelang", "numpy", "ml_dtypes")


def why_not() -> str:
    """Return why no kernel can run on a GPU here; empty when it can be tried."""
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return "the engine cuda needs an NVIDIA GPU, and this machine has none"
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return f"the engine cuda needs {', '.join(missing)}, which is not installed"
    return ""
