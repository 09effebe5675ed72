"""A GPU as an engine of the worker: load, compile, run, bring back."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from srcmap.engines import plain
from srcmap.engines.interpreter.tensors import is_torch, to_numpy, to_torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from srcmap.engines.jobs import Found, Job

DEVICE = "cuda"
COPIES = 16
"""How many blocks of each size are poisoned: outputs and workspaces take their places."""
SIZES = (512, 1 << 21)
"""Bytes: what small and large allocations are cut from."""
CUT = 2.0**-13
"""Where Hopper's matrix units cut each fp8 product, as a part of the largest one beside it: 14 bits
are left, in registers too (DeepSeek-V3 Technical Report, arXiv 2412.19437, section 3.5.2)."""
_TENSOR_MEMORY = "alloc_tmem("
_BLACKWELL = 10
_ready: list[Any] = []
_source: list[str] = [""]
_memory: list[int] = [0]


def limit(memory: int) -> None:
    """Say how many bytes of the GPU may be used.

    The address space of the process cannot be limited: CUDA takes more than any machine has.
    """
    _memory[0] = memory


def load(job: Job) -> Any:
    """Load the file of a job; its kernels compile when they are called."""
    if job.repo != "tilelang":
        raise ModuleNotFoundError("Ascend kernels need an NPU and their own compiler")
    if not _ready:
        _ready.append(_prepared())
    _source[0] = plain.text_of(job)
    return plain.load(job)


def _prepared() -> Any:
    import tilelang
    import torch

    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise ModuleNotFoundError("torch sees no CUDA device: is it built for this driver?")
    if DEVICE == "cuda" and _memory[0]:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, _memory[0] / total))
    logging.getLogger("tilelang").setLevel(logging.ERROR)
    plain.serve_absent()
    _tune_nothing(tilelang)
    return tilelang


def _tune_nothing(tilelang: Any) -> None:
    """A check has its configuration: tuning would compile dozens of others."""
    import_module("tilelang.autotuner")
    tuner: Any = sys.modules["tilelang.autotuner"]

    def autotune(function: Any = None, **_options: Any) -> Any:
        return (lambda target: target) if function is None else function

    tuner.autotune = tilelang.autotune = autotune


def begin(_job: Job) -> None:
    """Nothing is kept between checks."""


def refuses(_check: Any) -> str:
    """Return why this GPU cannot run a check."""
    if _TENSOR_MEMORY not in _source[0]:
        return ""
    import torch

    found = torch.cuda.get_device_capability()
    if found[0] >= _BLACKWELL:
        return ""
    return (
        f"tensor memory needs a GPU of capability {_BLACKWELL}, and this has {found[0]}.{found[1]}"
    )


def unable(error: BaseException) -> str:
    """Return what the compiler could not do: no verdict on the kernel. What the GPU says is one."""
    text = str(error)
    if any(word in text for word in ("CUDA error", "CUDA_ERROR", "illegal memory access")):
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:200]


def execute(module: Any, run: Any, runner: Callable[[Any, Any], Any]) -> Any:
    """Run one kernel on tensors of the GPU and return arrays. Memory is full of NaN before."""
    import numpy as np

    _poison([x.nbytes for x in run.inputs if isinstance(x, np.ndarray)])
    inputs = tuple(
        to_torch(np.array(x)).to(DEVICE) if isinstance(x, np.ndarray) else x for x in run.inputs
    )
    made = runner(module, run._replace(inputs=inputs, finish=None))
    _wait()
    outputs = tuple(to_numpy(value.cpu()) if is_torch(value) else value for value in made)
    return run.finish(outputs) if run.finish is not None else outputs


def _poison(sizes: list[int]) -> None:
    """Fill memory with bytes that are NaN in every floating type, and give it back."""
    import torch

    made = [
        torch.full((size,), 255, dtype=torch.uint8, device=DEVICE)
        for size in {*sizes, *SIZES}
        for _ in range(COPIES)
    ]
    del made


def _wait() -> None:
    if DEVICE == "cuda":
        import torch

        torch.cuda.synchronize()


def after_failure() -> None:
    """End the process when the GPU no longer answers it: after a wild store it never does."""
    try:
        _wait()
    except Exception as error:
        raise SystemExit(f"the GPU does not answer any more: {error}".splitlines()[0]) from error


def findings(_job: Job) -> Iterator[Found]:
    """Yield nothing: compiled code says nothing."""
    return iter(())


def trace(_job: Job) -> None:
    """Nothing is traced."""
