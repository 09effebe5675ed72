"""One call in a process of its own, for tools that look into processes: ncu, compute-sanitizer.

python -m benchmarks.gpu.one small VARIANT      ours, at small sizes
python -m benchmarks.gpu.one profile VARIANT    ours and upstream's, profiled, at the first shape,
                                                or at another: VARIANT:NUMBER, from 0
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import variants, work

if TYPE_CHECKING:
    from collections.abc import Callable

SEQUENCES = ("seq", "longest", "context", "keys", "queries", "tokens", "length")
"""What the name of a field with a length begins with."""
LENGTH = 320
"""More than two blocks of keys, and the last one partial."""
HEADS = 8
CALLING, CALLED, FAILED = "== calling", "== called", "== failed"
"""What this process says, each followed by a variant."""


def small(module: Any) -> list[Any]:
    """Return shapes that take a tool no minutes: the module's `SMALL`, or its first, cut down."""
    if hasattr(module, "SMALL"):
        return [module.SMALL] if hasattr(module.SMALL, "_fields") else list(module.SMALL)
    shape = module.SHAPES[0]
    less: dict[str, Any] = {}
    for name, value in shape._asdict().items():
        if isinstance(value, int) and not isinstance(value, bool) and name.startswith(SEQUENCES):
            less[name] = min(value, LENGTH)
    if hasattr(shape, "batch"):
        less["batch"] = min(shape.batch, 2)
    heads = getattr(shape, "heads", HEADS)
    if heads > HEADS and heads % HEADS == 0 and heads <= 64:
        less["heads"] = HEADS
        if hasattr(shape, "kv_heads"):
            less["kv_heads"] = max(1, shape.kv_heads * HEADS // heads)
    return [shape._replace(**less)]


def run_small(names: list[str]) -> None:
    """Call our kernels, each once for each small shape. A tool around this process watches.

    Every tensor gets memory of its own, so that what is written behind its end is seen. When the
    GPU stops to answer, the process ends: the rest needs another one.
    """
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch

    for name in names:
        print(CALLING, name, flush=True)
        try:
            module = variants.load(name)
            for shape in small(module):
                module.ours(shape, None)(*module.inputs(shape))
                torch.cuda.synchronize()
            print(CALLED, name, flush=True)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is said
            print(FAILED, name, _line(problem), flush=True)
            if not work.sound():
                sys.exit(3)


def profile(names: list[str]) -> None:
    """Call ours and upstream as shipped, compiled before, between a profiler's start and stop.

    Kernels of PyTorch's part them: hyperbolic sines ours from upstream's, cosines the variants.
    """
    import torch

    mark = torch.zeros(1, device="cuda")
    torch.sinh(mark), torch.cosh(mark)
    for name in names:
        try:
            calls = _calls(name)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is said
            print(FAILED, name, _line(problem), flush=True)
            if not work.sound():
                sys.exit(3)
            continue
        print(CALLED, name, flush=True)
        torch.cuda.profiler.start()
        calls[0]()
        torch.sinh(mark)
        calls[1]()
        torch.cosh(mark)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        del calls
        torch.cuda.empty_cache()


def shape_of(name: str) -> tuple[str, int]:
    """Return the variant and the number of its shape, from 0, that `VARIANT[:NUMBER]` names."""
    variant, _, number = name.partition(":")
    return variant, int(number or 0)


def _calls(name: str) -> list[Callable[[], Any]]:
    """Return the calls of ours and of upstream as shipped at a shape; both have worked."""
    import torch

    variant, number = shape_of(name)
    module = variants.load(variant)
    shape = module.SHAPES[number]
    inputs = module.inputs(shape)
    found = {c.name: c for c in work.contenders(module, shape, sweep=False)}
    calls: list[Callable[[], Any]] = [
        partial(found[who].make(), *inputs) for who in (work.OURS, work.SHIPPED)
    ]
    for call in calls:
        call()
        torch.cuda.synchronize()
    return calls


def _line(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:200]


if __name__ == "__main__":
    {"small": run_small, "profile": profile}[sys.argv[1]](sys.argv[2:])
