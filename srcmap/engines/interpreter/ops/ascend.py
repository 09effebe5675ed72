"""Ascend: its memories, copies between them, products in L0, scopes and flags."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter.machine import KernelError, here
from srcmap.engines.interpreter.memory import Buffer, Elements, Region, region, store, value_of
from srcmap.engines.interpreter.ops.allocate import fresh
from srcmap.engines.interpreter.ops.matrix import multiply
from srcmap.engines.interpreter.ops.reducing import reduced
from srcmap.engines.interpreter.ops.registry import operation

if TYPE_CHECKING:
    from collections.abc import Iterator

_ALLOCATE = "tilelang/language/allocate.py"
_FILE = "tilelang/language/ascend.py"
_REDUCE = "tilelang/language/reduce_ascend.py"


@operation("alloc_ub", defined_in=_ALLOCATE, ascend=True, collective=False)
def alloc_ub(shape: Any, dtype: Any) -> Buffer:
    """Allocate in the unified buffer of a Vector."""
    return fresh(shape, dtype, "ub")


@operation("alloc_L1", defined_in=_ALLOCATE, ascend=True, collective=False)
def alloc_l1(shape: Any, dtype: Any) -> Buffer:
    """Allocate in L1 of the Cube."""
    return fresh(shape, dtype, "L1")


@operation("alloc_L0A", defined_in=_ALLOCATE, ascend=True, collective=False)
def alloc_l0a(shape: Any, dtype: Any) -> Buffer:
    """Allocate where the Cube takes its left operand from."""
    return fresh(shape, dtype, "L0A")


@operation("alloc_L0B", defined_in=_ALLOCATE, ascend=True, collective=False)
def alloc_l0b(shape: Any, dtype: Any) -> Buffer:
    """Allocate where the Cube takes its right operand from."""
    return fresh(shape, dtype, "L0B")


@operation("alloc_L0C", defined_in=_ALLOCATE, ascend=True, collective=False)
def alloc_l0c(shape: Any, dtype: Any) -> Buffer:
    """Allocate where the Cube accumulates."""
    return fresh(shape, dtype, "L0C")


@operation(
    "Scope",
    defined_in="tilelang/language/memscope.py",
    ascend=True,
    collective=False,
    is_scope=True,
)
def scope(name: str) -> Iterator[None]:
    """Run the body on the Cube (`C`) or on both Vectors (`V`)."""
    if here.run.role.core in ("", name):
        yield


@operation("copy", "npu_copy_v2", defined_in="tilelang/language/copy.py", ascend=True)
def copy(
    src: Any,
    dst: Any,
    enable_relu: bool = False,
    transpose: bool = False,
    pad_value: Any = None,
    **_options: Any,
) -> None:
    """Copy between memories, converting to nearest even; L0C may pass a ReLU, L1 to L0 a transpose.

    A destination in UB that is larger than what there is to copy is filled up with `pad_value`.
    """
    if isinstance(src, Elements) or isinstance(dst, Elements):
        value = value_of(src)
        dst.set(value) if isinstance(dst, Elements) else region(dst).fill(value)
        return
    source, target = _paired(region(src), region(dst))
    if not source.explicit and not target.explicit:
        store(target.buffer, tuple(target.starts), source.value())
        return
    values, marks = source.read(check=False), source.written()
    if enable_relu:
        values = np.maximum(values, 0)
    if transpose:
        values = np.swapaxes(values, -1, -2)
        marks = None if marks is None else np.swapaxes(marks, -1, -2)
    if values.size == prod(target.extents):
        marks = None if marks is None else marks.reshape(target.extents)
        here.run.moving_from = source.scope
        target.write(values.reshape(target.extents), marks)
        here.run.moving_from = ""
    else:
        _copy_part(values, target, 0 if pad_value is None else value_of(pad_value))


def _paired(source: Region, target: Region) -> tuple[Region, Region]:
    """Give a side that names one element the extents of the other, aligned at the right."""
    if source.explicit == target.explicit:
        return source, target
    whole, point = (source, target) if source.explicit else (target, source)
    rank = len(point.extents)
    extents = [1] * max(rank - len(whole.extents), 0) + list(whole.extents)
    resized = point.resized(extents[-rank:])
    return (whole, resized) if source.explicit else (resized, whole)


def _copy_part(values: Any, target: Region, pad: Any) -> None:
    """Copy what there is to the start of the destination, and fill up the rest."""
    shape = [e for e in target.extents if e != 1]
    part = values.reshape([n for n in values.shape if n != 1] or [1])
    if part.ndim != len(shape):
        raise KernelError(f"a copy of {list(values.shape)} does not fit {target.extents}")
    filled = np.full(shape, pad, dtype=values.dtype)
    cut = tuple(slice(0, min(a, b)) for a, b in zip(part.shape, shape, strict=True))
    filled[cut] = part[cut]
    target.write(filled.reshape(target.extents))


@operation("gemm_v0", "gemm_v1", defined_in=_FILE, ascend=True)
def gemm_v0(
    A: Any,  # noqa: N803 - upstream's names, which callers use
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    transpose_A: bool = False,  # noqa: N803
    transpose_B: bool = False,  # noqa: N803
    init: Any = False,
    **_options: Any,
) -> None:
    """C += op(A) op(B) from L1 into L0C, or = with `init`."""
    multiply(A, B, C, (transpose_A, transpose_B), init)


@operation("mma", defined_in=_FILE, ascend=True)
def mma(A: Any, B: Any, C: Any, init: Any = False, **_options: Any) -> None:  # noqa: N803
    """C += A B from L0A and L0B into L0C, or = with `init`."""
    multiply(A, B, C, (False, False), init)


@operation("reduce_max", defined_in=_REDUCE, ascend=True)
def reduce_max(
    buffer: Any, out: Any, dim: int = -1, *args: Any, clear: bool = True, **_o: Any
) -> None:
    """The largest along a dimension."""
    reduced(buffer, out, dim, _clears(args, clear), np.fmax)


@operation("reduce_min", defined_in=_REDUCE, ascend=True)
def reduce_min(
    buffer: Any, out: Any, dim: int = -1, *args: Any, clear: bool = True, **_o: Any
) -> None:
    """The smallest along a dimension."""
    reduced(buffer, out, dim, _clears(args, clear), np.fmin)


@operation("reduce_sum", defined_in=_REDUCE, ascend=True)
def reduce_sum(
    buffer: Any, out: Any, dim: int = -1, *args: Any, clear: bool = True, **_o: Any
) -> None:
    """The sum along a dimension."""
    reduced(buffer, out, dim, _clears(args, clear), np.add)


def _clears(args: tuple[Any, ...], clear: bool) -> bool:
    """Older calls hand `clear` over by position, beside the real shape."""
    given = [arg for arg in args if isinstance(arg, bool)]
    return given[0] if given else clear


# -- flags -------------------------------------------------------------------------------------


@operation("set_cross_flag", defined_in=_FILE, ascend=True, collective=False)
def set_cross_flag(_pipe: str, flag: Any, _mode: int = 2, **_options: Any) -> None:
    """Count a flag up for the cores on the other side, each for itself."""
    block, role = here.run.block, here.run.role
    number = int(value_of(flag))
    for other in block.roles:
        if other.core != role.core:
            key = ("cross flag", number, f"for {other.name}", f"of {role.name}")
            block.counters[key] = block.counters.get(key, 0) + 1


@operation("wait_cross_flag", defined_in=_FILE, ascend=True, collective=False)
def wait_cross_flag(flag: Any, _pipe: str = "", **_options: Any) -> None:
    """Wait for a flag of every core on the other side, and count it down."""
    run = here.run
    number, role = int(value_of(flag)), run.role
    keys = [
        ("cross flag", number, f"for {role.name}", f"of {other.name}")
        for other in run.block.roles
        if other.core != role.core
    ]
    counters = run.block.counters
    run.wait_until(lambda: all(counters.get(key, 0) > 0 for key in keys), f"cross flag {number}")
    for key in keys:
        counters[key] -= 1


@operation("set_flag", defined_in=_FILE, ascend=True, collective=False)
def set_flag(src: str, dst: str, eventId: Any) -> None:  # noqa: N803
    """Count a flag between two pipes of one core up."""
    counters, key = here.run.block.counters, _pipe_key(src, dst, eventId)
    counters[key] = counters.get(key, 0) + 1


@operation("wait_flag", defined_in=_FILE, ascend=True, collective=False)
def wait_flag(src: str, dst: str, eventId: Any) -> None:  # noqa: N803
    """Wait for a flag between two pipes: statements run in order here, so it must be set."""
    counters, key = here.run.block.counters, _pipe_key(src, dst, eventId)
    if counters.get(key, 0) <= 0:
        here.run.note("flag-not-set", " ".join(map(str, key)))
        return
    counters[key] -= 1


def _pipe_key(src: str, dst: str, event: Any) -> tuple[Any, ...]:
    return ("flag", src.upper(), dst.upper(), int(value_of(event)), here.run.role.name)


@operation(
    "annotate_address", defined_in="tilelang/language/__init__.py", ascend=True, collective=False
)
def annotate_address(addresses: dict[Buffer, Any]) -> None:
    """Put buffers at addresses; those of one memory that overlap destroy each other's content."""
    placed = []
    for buffer, address in addresses.items():
        if isinstance(buffer, Buffer):
            buffer.address = int(value_of(address))
            placed.append(buffer)
    for buffer in placed:
        for other in placed:
            if other is not buffer and other.scope == buffer.scope:
                _alias(buffer, other)


def _alias(buffer: Buffer, other: Buffer) -> None:
    start, begin = buffer.address or 0, other.address or 0
    first = max(start, begin)
    last = min(start + buffer.data.nbytes, begin + other.data.nbytes)
    if first < last:
        buffer.aliases.append((other, first - begin, last - begin))


_WAITS = ("barrier_all", "pipe_barrier", "init_flag", "clear_flag", "set_deq_scale", "sync_block")
for _name in _WAITS:
    operation(_name, defined_in=_FILE, ascend=True, collective=False)(lambda *_a, **_n: None)
