"""Medians of several functions, in turns: what slows the clock down slows all of them."""

from __future__ import annotations

import contextlib
import fcntl
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks.gpu.crew import doing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LOCK = Path(tempfile.gettempdir()) / "srcmap-gpu-timing.lock"
WARM = 3
CACHE = 256 * 2**20
"""Bytes that are read before each call, so that no input is in the cache on the chip (50 MB)."""
HEAD_START = 400_000
"""Cycles (about 0.2 ms) that the GPU idles before a call, so that it does not wait for Python."""
LONGEST = 32 * HEAD_START
"""The longest head start: whoever is not ready by then waits for the GPU itself, or has a reason
to be slow that belongs to the figure."""

Call: TypeAlias = "Callable[[], Any]"


def medians(functions: Mapping[str, Call], rounds: int) -> dict[str, float]:
    """Return milliseconds for each function: the median of `rounds` calls, by CUDA events.

    What is measured is the GPU's time: launches are under way before it is free.
    """
    import torch

    for name, function in functions.items():
        doing(f"timing {name}")
        for _ in range(WARM):
            function()
        torch.cuda.synchronize()
    large = torch.zeros(CACHE // 4, device="cuda")
    heads = dict.fromkeys(functions, HEAD_START)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            doing(f"timing {name}")
            found, heads[name] = patiently(partial(_timed, large, function), heads[name])
            times[name].append(found)
    return {name: statistics.median(found) for name, found in times.items()}


def patiently(timed: Callable[[int], tuple[float, bool]], head: int) -> tuple[float, int]:
    """Return milliseconds of a call, and the head start that it took.

    `timed` makes the call with a head start, in cycles, and says whether all was handed over while
    the GPU still idled. Else the figure has Python's time in it, more of it the busier the machine
    is, and the call is made again with twice the head start.
    """
    found, ahead = timed(head)
    while not ahead and head < LONGEST:
        head *= 2
        found, ahead = timed(head)
    return found, head


def _timed(large: Any, function: Call, head: int) -> tuple[float, bool]:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    large.amax()  # read and not written: nothing is left to be written back
    torch.cuda._sleep(head)  # noqa: SLF001 - PyTorch's own benchmarks do
    start.record()
    function()
    end.record()
    ahead = not start.query()
    end.synchronize()
    return start.elapsed_time(end), ahead


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other process on this machine is timing, or `beside` others."""
    with _locked(fcntl.LOCK_EX):
        yield


@contextlib.contextmanager
def beside() -> Iterator[None]:
    """Wait until no other process is timing: what runs here would be in its figures."""
    with _locked(fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def _locked(how: int) -> Iterator[None]:
    doing("waiting for another shape's timing", times=4)  # one that hangs is ended before
    with LOCK.open("w") as file:
        fcntl.flock(file, how)
        yield


def ceilings(rounds: int) -> dict[str, float]:
    """Return what this GPU reaches now: TFLOP/s of an fp16 product of 8192, TB/s of a copy."""
    import torch

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    source = torch.randn(2**30, device="cuda")
    target = torch.empty_like(source)
    found = medians({"matrix": lambda: a @ b, "copy": lambda: target.copy_(source)}, rounds)
    return {
        "matrix_tflops": 2 * 8192**3 / found["matrix"] * 1e-9,
        "copy_tbs": 2 * 4 * 2**30 / found["copy"] * 1e-9,
    }
