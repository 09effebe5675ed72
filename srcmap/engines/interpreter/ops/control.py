"""Loops, launches, threads and hints."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter.kernels import Grid
from srcmap.engines.interpreter.lanes import Lane
from srcmap.engines.interpreter.machine import here
from srcmap.engines.interpreter.memory import value_of
from srcmap.engines.interpreter.ops.registry import expression, operation
from srcmap.engines.interpreter.symbols import resolve
from srcmap.engines.interpreter.traffic import flying, line_of, pipe

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOPS = "tilelang/language/loop.py"


def _whole(value: Any) -> int:
    return int(resolve(value_of(value)))


@expression("Parallel", "parallel", "vectorized_parallel", defined_in=_LOOPS, is_parallel=True)
def parallel(
    *extents: Any,
    _nest: tuple[int, int] = (0, 0),
    _single: bool = False,
    annotations: Any = None,
    **_options: Any,
) -> Iterator[Any]:
    """All iterations at once, statement by statement; each index is a lane along its own axis.

    A loop that is annotated so copies by `cp.async`, and leaves closing and waiting to the program.
    """
    sizes = [_whole(e) for e in extents]
    if not all(size > 0 for size in sizes):
        return
    role = here.run.role
    saved = role.rank
    rank, used = _nest
    role.rank = max(rank, used + len(sizes))
    lanes = tuple(Lane(used + n, role.rank, 0, size) for n, size in enumerate(sizes))
    late = (annotations or {}).get("parallel_async_without_async_commit_wait")
    flight = pipe("cp.async").start(line_of("cp.async"), reads=False) if late else role.flight
    try:
        with flying(flight):
            yield lanes[0] if len(lanes) == 1 else lanes
    finally:
        role.rank = saved


@expression("serial", "unroll", "vectorized", "Serial", "Unroll", defined_in=_LOOPS, is_loop=True)
def serial(start: Any, stop: Any = None, step: Any = None, **_options: Any) -> Iterator[int]:
    """One iteration after another."""
    first, last = (0, start) if stop is None else (start, stop)
    return iter(range(_whole(first), _whole(last), 1 if step is None else _whole(step)))


@expression("Pipelined", "pipelined", defined_in=_LOOPS, is_loop=True)
def pipelined(start: Any, stop: Any = None, *_args: Any, **_options: Any) -> Iterator[int]:
    """One iteration after another: a software pipeline must not change what is computed."""
    found: Iterator[int] = serial(start, stop)
    return found


@expression("grid", defined_in=_LOOPS, is_loop=True)
def grid(*extents: Any, **_options: Any) -> Iterator[Any]:
    """Nested sequential loops."""
    return itertools.product(*(range(_whole(e)) for e in extents))


@expression("Persistent", "persistent", defined_in=_LOOPS, is_loop=True)
def persistent(
    domain: Any, wave_size: Any, index: Any, group_size: Any = 8, **_options: Any
) -> Iterator[Any]:
    """The share of one of `wave_size` resident blocks in a grid of tiles.

    Tiles are numbered in groups along the last dimension (`src/ir.cc`, PersistentFor).
    """
    sizes = [_whole(size) for size in domain]
    total, step, first = int(np.prod(sizes)), _whole(wave_size), _whole(index)
    group = min(_whole(group_size), sizes[-1])
    for tile in range(first, total, step):
        found, rest = [], tile
        rest, inner = divmod(rest, group)
        numbers = [*sizes[:-1], -(-sizes[-1] // group)]
        for size in numbers[:-1]:
            found.append(rest % size)
            rest //= size
        last = rest * group + inner
        if last < sizes[-1]:
            yield (*found, last)


@expression("Kernel", defined_in="tilelang/language/kernel.py", launches=True)
def kernel(*extents: Any, threads: Any = None, is_npu: bool = False, **_options: Any) -> Grid:
    """Launch a grid of blocks."""
    return Grid([value_of(e) for e in extents], threads, is_npu)


@expression("get_thread_binding", defined_in="tilelang/language/kernel.py")
def get_thread_binding(_dim: int = 0) -> Any:
    """The number of the thread: one number for each thread of the role."""
    role = here.run.role
    return np.arange(role.first, role.last) if role.threads > 1 else role.first


@expression("thread_binding", defined_in=_LOOPS, is_loop=False)
def thread_binding(*_args: Any, thread: str = "threadIdx.x", **_options: Any) -> Any:
    """The number of the thread along an axis."""
    return get_thread_binding() if thread.endswith("x") else 0


@expression(
    "get_warp_idx",
    "get_warp_idx_sync",
    "canonical_warp_idx_sync",
    defined_in="tilelang/language/builtin.py",
)
def get_warp_idx(*_args: Any) -> Any:
    """The number of the warp."""
    return get_thread_binding() // 32


@expression("get_warp_group_idx", defined_in="tilelang/language/builtin.py")
def get_warp_group_idx(*_args: Any) -> Any:
    """The number of the warp group."""
    return get_thread_binding() // 128


@expression("get_lane_idx", defined_in="tilelang/language/builtin.py")
def get_lane_idx(*_args: Any) -> Any:
    """The number of the thread in its warp."""
    return get_thread_binding() % 32


@expression("shuffle_elect", defined_in="tilelang/language/builtin.py")
def shuffle_elect(extent: Any) -> Any:
    """True in one thread of each group."""
    return get_thread_binding() % max(_whole(extent), 1) == 0


@expression("loop_break", defined_in="tilelang/language/builtin.py", is_break=True)
def loop_break() -> None:
    """Leave the innermost loop; the rewriter turns it into `break`."""


@expression("Layout", "Fragment", defined_in="tilelang/layout")
def layout(*_args: Any, **_options: Any) -> None:
    """A layout: where things lie does not change what they are."""


_HINTS = (
    *("annotate_layout", "annotate_safe_value", "annotate_l2_hit_ratio", "annotate_padding"),
    *("annotate_restrict_buffers", "annotate_min_blocks_per_sm", "annotate_compile_flags"),
    *("annotate_pass_configs", "annotate_ws_schedule", "use_swizzle", "set_max_nreg"),
    *("inc_max_nreg", "dec_max_nreg", "annotate_producer_reg_dealloc", "no_set_max_nreg"),
    *("annotate_consumer_reg_alloc", "disable_warp_group_reg_alloc", "func_attr", "attr"),
    *("block_attr", "evaluate", "print", "assume", "device_assert", "import_source", "prefetch"),
    *("pdl_sync", "pdl_trigger", "deallocate_tmem", "create_tma_descriptor", "hint", "setprio"),
    *("reads", "writes", "printf", "dump_tensor", "tcgen05_dealloc"),
)
for _name in _HINTS:
    operation(_name, defined_in="tilelang/language/annotations.py", collective=False)(
        lambda *_args, **_options: None
    )
