"""Tiny kernels of our own, written to a folder and run in this process or in a child."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HEAD = "import tilelang\nimport tilelang.language as T\n"


def loaded(folder: Path, source: str, dialect: str = "nvidia", name: str = "tiny") -> Any:
    """Load a kernel file into this process and return its module; findings start empty."""
    from srcmap.engines.interpreter import host, loader
    from srcmap.engines.interpreter.findings import Findings
    from srcmap.engines.interpreter.kernels import options

    path = folder / f"{name}.py"
    path.write_text(HEAD + source, encoding="utf-8")
    loader.prepare(dialect)
    host._prepared[:] = [dialect]
    options.findings = Findings()
    options.watcher = None
    return loader.load(path)


def found() -> list[tuple[str, int, str]]:
    """Return the findings so far: kind, line, buffer."""
    from srcmap.engines.interpreter.kernels import options

    return [(f.kind, f.line, f.buffer) for f in options.findings.sorted()]


def line_of(source: str, text: str) -> int:
    """Return the line of a kernel file that has `text` in it."""
    lines = (HEAD + source).split("\n")
    return next(n for n, line in enumerate(lines, 1) if text in line)


def forget() -> None:
    """Take the stand-ins, and what was imported with them, out of this process."""
    from srcmap.engines.interpreter.standins import AbsentFinder, Finder
    from srcmap.engines.interpreter.torchmap import Hook

    kinds = (Finder, AbsentFinder, Hook)
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, kinds)]
    for name, module in list(sys.modules.items()):
        served = isinstance(getattr(getattr(module, "__spec__", None), "loader", None), kinds)
        if served or ".tilelang_" in name:  # the compiler itself cannot be imported twice
            del sys.modules[name]
