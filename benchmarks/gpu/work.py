"""What is done in processes of their own: compiling a contender, checking and timing a shape.

Everything is named by plain values, so that it can be sent: a variant, the number of a shape in its
`SHAPES`, a contender's name.
"""

from __future__ import annotations

import logging
import subprocess
import time
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu import agreement, crew, results, variants
from benchmarks.gpu.timing import alone, beside, ceilings, medians

if TYPE_CHECKING:
    from collections.abc import Callable

ALL, MISSING = "all", "missing"
"""For which shapes tilings are tried: for all, or where the table has none."""
OURS = "ours"
SHIPPED = "upstream as shipped"


class Contender(NamedTuple):
    """Who can compute a shape: `make()` compiles or loads, and gives a function of the inputs."""

    name: str
    kind: str
    """ours, upstream or pytorch."""
    tiling: dict[str, Any] | None
    make: Callable[[], Callable[..., Any]]


def contenders(module: Any, shape: Any, sweep: bool, tiling: Any = None) -> list[Contender]:
    """Return everybody; ours with `tiling` or the table's, in a sweep with each one tried."""
    found = [Contender(OURS, OURS, tiling, partial(module.ours, shape, tiling))]
    if sweep:
        found += [
            Contender(f"ours {short(t)}", OURS, t, partial(module.ours, shape, t))
            for t in module.sweep(shape)
        ]
    found += [Contender(name, "upstream", None, make) for name, make in module.upstream(shape)]
    found += [Contender(name, "pytorch", None, make) for name, make in module.pytorch(shape)]
    return found


def short(tiling: dict[str, Any]) -> str:
    """Return a tiling's numbers, as they stand in a contender's name."""
    return " ".join(str(int(value)) for value in tiling.values())


def plan(variant: str, sweep: str | None) -> list[list[str]]:
    """Return the names of the contenders of each shape; `sweep` is ALL, MISSING or None."""
    module = variants.load(variant)
    tried = set(range(len(module.SHAPES))) if sweep else set()
    if sweep == MISSING:
        import torch

        keys = [shape.key for shape in module.SHAPES]
        tried = set(results.untuned(variant, torch.cuda.get_device_name(), keys))
    return [
        [one.name for one in contenders(module, shape, number in tried)]
        for number, shape in enumerate(module.SHAPES)
    ]


def prepare(variant: str, number: int, name: str, sweep: bool) -> None:
    """Compile one contender and run it once: the compiler's cache on disk keeps what it made."""
    import torch

    _be_quiet()
    module = variants.load(variant)
    shape = module.SHAPES[number]
    (one,) = (c for c in contenders(module, shape, sweep) if c.name == name)
    one.make()(*module.inputs(shape))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def _be_quiet() -> None:
    """Leave out what TileLang says of each kernel, and that a tiling is unknown: hence sweeps."""
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore", "no tiling of")


def sound() -> bool:
    """Return whether CUDA still works in this process; after a wild store it never does."""
    import torch

    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except Exception:  # noqa: BLE001 - whatever it is, this process is spoilt
        return False
    return True


def measure(
    variant: str, number: int, names: list[str], sweep: bool, rounds: int, tiling: Any = None
) -> dict[str, Any]:
    """Compare the contenders of these names, time those who agree, and return the figures.

    `ms`: milliseconds by name; `tilings`: of ours; `kinds`; `wrong`: who is left out, and why.
    """
    _be_quiet()
    module = variants.load(variant)
    shape = module.SHAPES[number]
    with beside():
        crew.doing("inputs")
        inputs = module.inputs(shape)
    calls: dict[str, Callable[[], Any]] = {}
    wrong: dict[str, str] = {}
    chosen = [c for c in contenders(module, shape, sweep, tiling) if c.name in names]
    for one in chosen:
        with beside():
            crew.doing(one.name)
            call = _attempt(one, inputs)
        if isinstance(call, str):
            wrong[one.name] = call
        else:
            calls[one.name] = call
    with alone():
        wrong |= _disagreeing(module, shape, inputs, calls)
        good = {n: call for n, call in calls.items() if n not in wrong or _kept(module, n)}
        ms = medians(good, rounds) if good else {}
    return {
        "shape": shape._asdict(),
        "flops": shape.flops,
        "rate": getattr(module, "RATE", 1),
        "bytes": shape.bytes,
        "key": shape.key,
        "ms": ms,
        "kinds": {one.name: one.kind for one in chosen},
        "tilings": {one.name: one.tiling for one in chosen if one.kind == OURS},
        "wrong": wrong,
    }


def _attempt(one: Contender, inputs: tuple[Any, ...]) -> Callable[[], Any] | str:
    """Return a call that has worked once, or why it has not: a line of the table, either way."""
    import torch

    try:
        call = partial(one.make(), *inputs)
        call()
        torch.cuda.synchronize()
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is said
        return f"{type(problem).__name__}: {problem}"[:300]
    return call


def _kept(module: Any, name: str) -> bool:
    """Say whether a contender is timed though it is off: upstream, against a float64 reference."""
    return hasattr(module, "truth") and name.startswith("upstream")


def _disagreeing(
    module: Any, shape: Any, inputs: tuple[Any, ...], calls: dict[str, Callable[[], Any]]
) -> dict[str, str]:
    """Return who differs from the variant's truth, or from upstream as shipped, and by how much."""
    import torch

    if hasattr(module, "truth"):
        crew.doing("computing the truth")
        wanted = agreement.truth(module.truth(shape, *inputs))
    elif SHIPPED in calls:
        crew.doing(f"a second call of {SHIPPED}")
        wanted = calls[SHIPPED]()
        torch.cuda.synchronize()
    else:
        return dict.fromkeys(calls, f"{SHIPPED} did not run, and there is nothing to compare with")
    tolerance = getattr(module, "TOLERANCE", agreement.TOLERANCE)
    found = {}
    for name, call in calls.items():
        crew.doing(f"comparing {name}")
        found[name] = agreement.difference(call(), wanted, tolerance)
    return {name: why for name, why in found.items() if why}


def machine(rounds: int) -> dict[str, Any]:
    """Return what the figures depend on, and what this GPU reaches now."""
    import tilelang
    import torch

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    return {
        "device": torch.cuda.get_device_name(),
        "driver": driver,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "torch": torch.__version__,
        "tilelang": tilelang.__version__,
        "date": time.strftime("%Y-%m-%d"),
        **ceilings(rounds),
    }
