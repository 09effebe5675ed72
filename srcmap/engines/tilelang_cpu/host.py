"""Upstream's compiler as an engine of the worker."""

from __future__ import annotations

import ast
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from srcmap.engines.interpreter.loader import without_demos
from srcmap.engines.interpreter.standins import AbsentFinder
from srcmap.engines.interpreter.tensors import to_numpy, to_torch
from srcmap.engines.tilelang_cpu import patches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from srcmap.engines.jobs import Found, Job

_CANNOT = ("bfloat16", "float8")
_MARKS = {
    "alloc_tmem": "tensor memory is not to be had on a CPU",
    "get_thread_binding": "the kernel uses the number of a thread, which a CPU block does not have",
    "thread_binding": "the kernel uses the number of a thread, which a CPU block does not have",
}
_ready: list[Any] = []
_beside: list[str] = []
_source: list[str] = [""]


def load(job: Job) -> Any:
    """Load the file of a job with the patched tilelang."""
    if job.repo != "tilelang":
        raise ModuleNotFoundError(
            "the C target is tilelang's; Ascend kernels need its own compiler"
        )
    if not _ready:
        logging.getLogger("tilelang").setLevel(logging.ERROR)
        _ready.append(patches.apply())
        # Examples compare themselves with these; no kernel needs them.
        sys.meta_path.append(AbsentFinder(("triton", "flash_attn", "fla", "einops")))
    path = Path(job.root) / job.path
    text = path.read_text(encoding="utf-8") if job.source is None else job.source
    _source[0] = text
    for name in _beside:
        sys.modules.pop(name, None)
    before = set(sys.modules)
    sys.path.insert(0, str(path.parent))
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    try:
        kept = ast.Module(without_demos(ast.parse(text)), [])
        exec(compile(kept, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102
    finally:
        sys.path.remove(str(path.parent))
    folder = str(path.parent)
    loaded = set(sys.modules) - before
    _beside[:] = [
        n for n in loaded if str(getattr(sys.modules[n], "__file__", "")).startswith(folder)
    ]
    return module


def begin(_job: Job) -> None:
    """Nothing is kept between checks."""


def refuses(check: Any) -> str:
    """Return why the C target cannot run a check."""
    for value in (*check.run.inputs, check.stored, *check.run.named.values()):
        kind = str(getattr(value, "dtype", value if isinstance(value, str) else ""))
        if any(word in kind for word in _CANNOT):
            return f"the C target has no {kind}"
    for mark, reason in _MARKS.items():
        if f"T.{mark}(" in _source[0]:
            return reason
    return ""


def unable(error: BaseException) -> str:
    """Return what the compiler could not do: no verdict on the kernel."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:200]


def execute(module: Any, run: Any, runner: Callable[[Any, Any], Any]) -> Any:
    """Run one kernel on torch tensors and return arrays."""
    import numpy as np

    inputs = tuple(to_torch(np.array(x)) if isinstance(x, np.ndarray) else x for x in run.inputs)
    finish = run.finish
    made = runner(module, run._replace(inputs=inputs, finish=None))
    outputs = tuple(to_numpy(value) for value in made)
    return finish(outputs) if finish is not None else outputs


def findings(_job: Job) -> Iterator[Found]:
    """Yield nothing: compiled code says nothing."""
    return iter(())


def trace(_job: Job) -> None:
    """Nothing is traced."""
