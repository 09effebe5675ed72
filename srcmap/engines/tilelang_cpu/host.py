"""Upstream's compiler as an engine of the worker."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from srcmap.engines import plain
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
        plain.serve_absent()
    _source[0] = plain.text_of(job)
    return plain.load(job)


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
