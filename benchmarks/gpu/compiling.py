"""Compiling many kernels at once; a module of its own, so that other processes can import it."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.gpu.contenders import contenders, inputs_of

if TYPE_CHECKING:
    from benchmarks.gpu.contenders import Shape


def compile_all(shapes: list[Shape], sweep: bool, workers: int) -> None:
    """Compile in processes of their own: the compiler's cache on disk keeps what they made."""
    jobs = [(shape, sweep, c.name) for shape in shapes for c in contenders(shape, sweep)]
    jobs = [job for job in jobs if not job[2].startswith("pytorch")]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool:
        list(pool.map(_compile, jobs))


def _compile(job: tuple[Shape, bool, str]) -> None:
    """Run the kernel once; what it cannot do shows again when it is measured."""
    shape, sweep, name = job
    (one,) = (c for c in contenders(shape, sweep) if c.name == name)
    try:
        one.make(inputs_of(shape))()
    except Exception as problem:  # noqa: BLE001 - whatever it is, measuring shows it
        print(f"{shape} {name}: {problem!r}"[:300])
