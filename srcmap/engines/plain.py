"""A file of upstream's -> a module, with the real libraries and without its demo."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from srcmap.engines.interpreter.loader import without_demos
from srcmap.engines.interpreter.standins import AbsentFinder

if TYPE_CHECKING:
    from srcmap.engines.jobs import Job

ABSENT = ("triton", "flash_attn", "fla", "einops")
"""Examples compare themselves with these; no kernel needs them."""
_beside: list[str] = []


def serve_absent() -> None:
    """Let files be imported that import libraries which are not here."""
    sys.meta_path.append(AbsentFinder(ABSENT))


def text_of(job: Job) -> str:
    """Return the text of a job's file."""
    path = Path(job.root) / job.path
    return path.read_text(encoding="utf-8") if job.source is None else job.source


def load(job: Job) -> Any:
    """Run a file's definitions. Modules that it finds beside it are forgotten at the next one."""
    path = Path(job.root) / job.path
    for name in _beside:
        sys.modules.pop(name, None)
    before = set(sys.modules)
    sys.path.insert(0, str(path.parent))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    try:
        kept = ast.Module(without_demos(ast.parse(text_of(job))), [])
        exec(compile(kept, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102
    finally:
        sys.path.remove(str(path.parent))
    folder = str(path.parent)
    loaded = set(sys.modules) - before
    _beside[:] = [
        n for n in loaded if str(getattr(sys.modules[n], "__file__", "")).startswith(folder)
    ]
    return module
