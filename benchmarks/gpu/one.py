"""One call in a process of its own, for tools that look into processes: ncu, compute-sanitizer.

python -m benchmarks.gpu.one small VARIANT      ours, at small sizes
python -m benchmarks.gpu.one profile VARIANT    ours and upstream's, profiled, at the first shape
"""

from __future__ import annotations

import os
import sys
from typing import Any

from benchmarks.gpu import variants, work

SEQUENCES = ("seq", "longest", "context", "keys", "queries", "tokens", "length")
"""What the name of a field with a length begins with."""
LENGTH = 320
"""More than two blocks of keys, and the last one partial."""
HEADS = 8
CALLED = "called and waited for:"


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


def run_small(variant: str) -> None:
    """Call our kernel once for each small shape. A tool around this process watches.

    Every tensor gets memory of its own, so that what is written behind its end is seen.
    """
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    import torch

    module = variants.load(variant)
    for shape in small(module):
        module.ours(shape, None)(*module.inputs(shape))
        torch.cuda.synchronize()
    print(CALLED, *small(module))


def profile(variant: str) -> None:
    """Call ours and upstream as shipped, compiled before, between a profiler's start and stop.

    A kernel of PyTorch's that computes hyperbolic sines parts the two.
    """
    import torch

    module = variants.load(variant)
    shape = module.SHAPES[0]
    inputs = module.inputs(shape)
    one = torch.zeros(1, device="cuda")
    made = {c.name: c.make() for c in work.contenders(module, shape, sweep=False)[:2]}
    for function in made.values():
        function(*inputs)
    torch.sinh(one)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    made[work.OURS](*inputs)
    torch.sinh(one)
    made[work.SHIPPED](*inputs)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    {"small": run_small, "profile": profile}[sys.argv[1]](sys.argv[2])
