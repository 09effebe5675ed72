"""Moving data: copies between memories, fills, pointers, asynchronous copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from srcmap.engines.interpreter.dtypes import cast
from srcmap.engines.interpreter.machine import KernelError, here
from srcmap.engines.interpreter.memory import (
    LEVELS,
    Buffer,
    Elements,
    Region,
    Var,
    region,
    store,
    value_of,
)
from srcmap.engines.interpreter.ops.registry import operation
from srcmap.engines.interpreter.traffic import ATOMIC, flying, line_of, pipe


def _non_one(extents: list[int]) -> list[int]:
    return [e for e in extents if e != 1]


def legalize(src: list[int], dst: list[int]) -> tuple[list[int], list[int]]:
    """Right-align two extent lists and widen ones, unless as many dimensions move on both sides.

    `tilelang/utils/language.py`, legalize_pairwise_extents.
    """
    a, b = list(src), list(dst)
    if len(_non_one(a)) == len(_non_one(b)):
        return a, b
    for i in range(1, min(len(a), len(b)) + 1):
        wide = max(a[-i], b[-i]) if 1 not in (a[-i], b[-i]) else a[-i] * b[-i]
        a[-i] = b[-i] = wide
    return a, b


def paired(src: Region, dst: Region) -> tuple[Region, Region]:
    """Return the boxes that a copy really moves.

    The loop domain is that of the side closer to the arithmetic, the source on a tie; the other
    side goes as far from where it starts (`src/op/copy.cc`, MakeIterVars and MakeIndices).
    """
    a = src.extents if src.explicit else [1] * len(dst.extents)
    b = dst.extents if dst.explicit else [1] * len(src.extents)
    a, b = legalize(a, b)
    a, b = _fitted(a, len(src.extents)), _fitted(b, len(dst.extents))
    base = a if LEVELS.get(src.scope, 0) >= LEVELS.get(dst.scope, 0) else b
    domain = _non_one(base)
    return src.resized(_stretched(a, domain)), dst.resized(_stretched(b, domain))


def _fitted(extents: list[int], rank: int) -> list[int]:
    """Extents taken over from a partner with another number of dimensions, aligned at the right."""
    extra = len(extents) - rank
    return extents[extra:] if extra >= 0 else [1] * -extra + extents


def _stretched(extents: list[int], domain: list[int]) -> list[int]:
    moving = [place for place, e in enumerate(extents) if e != 1]
    if len(moving) != len(domain):
        raise KernelError(f"a copy of {extents} cannot go over {domain}")
    result = list(extents)
    for place, size in zip(moving, domain, strict=True):
        result[place] = size
    return result


@operation("copy", defined_in="tilelang/language/copy_op.py")
def copy(src: Any, dst: Any, *_args: Any, **_options: Any) -> None:
    """Copy a box to a box, converting the type; 0 comes from outside, what goes outside is lost."""
    if isinstance(dst, Elements) or isinstance(src, Elements):
        _copy_elements(src, dst)
        return
    source, target = region(src), region(dst)
    if not source.explicit and not target.explicit:
        store(target.buffer, tuple(target.starts), source.value())
        return
    source, target = paired(source, target)
    values, marks = source.read(check=False), source.written()
    if marks is not None:
        marks = marks.reshape(target.extents)
    here.run.role.loads.clear()
    here.run.moving_from = source.scope
    target.write(values.reshape(target.extents), marks)
    here.run.moving_from = ""


def _copy_elements(src: Any, dst: Any) -> None:
    value = value_of(src)
    if isinstance(dst, Elements):
        dst.set(value)
    else:
        region(dst).fill(value)


@operation("tma_copy", defined_in="tilelang/language/copy_op.py")
def tma_copy(src: Any, dst: Any, *, barrier: Any = None, **_options: Any) -> None:
    """Copy with the tensor memory accelerator; who waits on the barrier sees it done.

    It announces bytes on the barrier and does not arrive: the program does. A store to global
    memory has no barrier; `tma_store_wait` waits for it.
    """
    if barrier is not None:
        flight = barrier.copying(line_of("tma_copy"))
    else:
        flight = pipe("tma-store").start(line_of("tma_copy"))
        pipe("tma-store").close()
    with flying(flight):
        copy(src, dst)


@operation("async_copy", defined_in="tilelang/language/copy_op.py")
def async_copy(src: Any, dst: Any, *_args: Any, **_options: Any) -> None:
    """Copy by `cp.async`, a group of its own, which runs on until its group is waited for."""
    copies = pipe("cp.async")
    with flying(copies.start(line_of("async_copy"))):
        copy(src, dst)
    copies.close()


@operation("fill", defined_in="tilelang/language/fill_op.py")
def fill(buffer: Any, value: Any, **_options: Any) -> None:
    """Fill a buffer or a box with one value."""
    here.run.role.loads.clear()
    if isinstance(buffer, Var | Elements):
        buffer.set(value)
    else:
        region(buffer).fill(value)


@operation("clear", defined_in="tilelang/language/fill_op.py")
def clear(buffer: Any, **_options: Any) -> None:
    """Fill with zeros."""
    fill(buffer, 0)


@operation(
    "access_ptr",
    "tvm_access_ptr",
    "address_of",
    defined_in="tilelang/language/builtin.py",
    collective=False,
)
def access_ptr(place: Any, *_args: Any, **_options: Any) -> Any:
    """Point at an element; what uses the pointer says how far it reaches."""
    return place


@operation("ptx_cp_async", "cp_async", defined_in="tilelang/language/tir/op.py", collective=False)
def ptx_cp_async(dst: Any, src: Any, count: Any, predicate: Any = None) -> None:
    """Copy `count` elements in a row from one pointer to another, for each thread.

    It runs on until its group is waited for, or a barrier that was told of it. Threads whose
    `predicate` is false read nothing, and write zeros.
    """
    along = np.arange(int(value_of(count)))
    with flying(pipe("cp.async").start(line_of("cp.async"))):
        if predicate is None:
            values = _run_of(src, along, None)
        else:
            values = _run_where(np.asarray(value_of(predicate)).astype(bool), src, along)
        _run_of(dst, along, values)


def _run_where(reads: Any, place: Any, along: Any) -> Any:
    """Load a run of elements behind each pointer that may be read, zeros for the others."""
    role = here.run.role
    saved, role.mask = role.mask, reads if role.mask is None else role.mask & reads
    try:
        values = _run_of(place, along, None)
    finally:
        role.mask = saved
    return np.where(reads[..., None], values, np.zeros((), values.dtype))


def _run_of(place: Any, along: Any, values: Any) -> Any:
    """Load, or store when values are given, a run of elements behind each pointer."""
    buffer, arrays = _pointer(place)
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays))
    index = [np.broadcast_to(a, shape)[..., None] for a in arrays]
    index[-1] = index[-1] + along
    role = here.run.role
    saved, role.mask = role.mask, None if role.mask is None else role.mask[..., None]
    try:
        if values is None:
            return buffer[tuple(index)]
        store(buffer, tuple(index), values)
    finally:
        role.mask = saved
    return None


def _pointer(place: Any) -> tuple[Buffer, list[Any]]:
    if isinstance(place, Elements):
        return place.buffer, place.arrays()
    found = region(place)
    return found.buffer, [np.asarray(s) for s in found.starts]


@operation(
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    defined_in="tilelang/language/atomic.py",
    collective=False,
)
def atomic_add(dst: Any, value: Any, **_options: Any) -> Any:
    """Add to memory; many lanes may add to one element. Returns what was there before."""
    return _atomic(dst, value, np.add)


@operation("atomic_max", defined_in="tilelang/language/atomic.py", collective=False)
def atomic_max(dst: Any, value: Any, **_options: Any) -> Any:
    """Keep the larger of memory and value."""
    return _atomic(dst, value, np.maximum)


@operation("atomic_min", defined_in="tilelang/language/atomic.py", collective=False)
def atomic_min(dst: Any, value: Any, **_options: Any) -> Any:
    """Keep the smaller of memory and value."""
    return _atomic(dst, value, np.minimum)


def _atomic(dst: Any, value: Any, combine: Any) -> Any:
    run = here.run
    by_thread = not run.role.rank and not isinstance(value, Region | Buffer)
    once = run.apart if by_thread else run.together
    with flying(ATOMIC):
        return once(lambda: _combined(dst, value, combine))


def _combined(dst: Any, value: Any, combine: Any) -> Any:
    if isinstance(dst, Elements):
        return _atomic_elements(dst, value_of(value), combine)
    target = region(dst)
    if isinstance(value, Region | Buffer):
        source, target = paired(region(value), target)
        more = source.read().reshape(target.extents)
    else:
        more = value_of(value)
    old = np.array(target.read())
    role = here.run.role
    if old.size == 1 and not role.rank and not isinstance(value, Region | Buffer):
        return _by_thread(target, old, more, combine)
    count = 1
    if isinstance(more, np.ndarray) and more.size > 1 and old.size == 1:
        more = combine.reduce(more if role.mask is None else more[role.mask], axis=None)
    elif not target.explicit and role.mask is not None:
        count = int(np.sum(role.mask))
        more = more * count if combine is np.add else more
    if count:
        target.write(
            cast(
                combine(
                    old.astype(
                        np.result_type(old, np.float32)
                        if (old.dtype.kind not in "iub")
                        else old.dtype
                    ),
                    more,
                ),
                target.dtype,
            )
        )
    return old.reshape(-1)[0] if old.size == 1 else old


def _by_thread(target: Region, old: Any, more: Any, combine: Any) -> Any:
    """Every thread adds to one element; each finds what those before it left."""
    role = here.run.role
    active = np.ones(role.threads, bool) if role.mask is None else np.asarray(role.mask)
    amounts = np.broadcast_to(more, active.shape)
    kept = amounts[active]
    if not kept.size:
        return np.zeros(active.shape, old.dtype)
    final = combine.reduce(np.concatenate([old.reshape(-1), kept.reshape(-1)]))
    target.write(np.reshape(final, old.shape))
    if combine is not np.add:
        return old.reshape(-1)[0]
    added = np.where(active, amounts, 0)
    before = old.reshape(-1)[0] + np.cumsum(added) - added
    return before if active.size > 1 else before[0]


def _atomic_elements(dst: Elements, value: Any, combine: Any) -> Any:
    arrays = dst.arrays()
    mask = here.run.role.mask
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays), np.shape(value))
    if mask is not None:
        shape = np.broadcast_shapes(shape, mask.shape)
    keep = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    for array, size in zip(arrays, dst.buffer.shape, strict=True):
        keep = keep & (array >= 0) & (array < size)
    chosen = tuple(np.broadcast_to(a, shape)[keep] for a in arrays)
    more = np.broadcast_to(value, shape)[keep]
    before = np.zeros(shape, dst.buffer.data.dtype)
    if combine is np.add and dst.buffer.data.dtype.kind in "iu":
        before[keep] = _before_adding(dst.buffer, chosen, more)
    combine.at(dst.buffer.data, chosen, more.astype(dst.buffer.data.dtype))
    if dst.buffer.shadow.flat is not None:
        dst.buffer.written()[chosen] = True
        dst.buffer.shadow.settle()
    return before


def _before_adding(buffer: Buffer, chosen: tuple[Any, ...], more: Any) -> Any:
    """What each lane finds when lanes add one after another, in their order."""
    flat = np.ravel_multi_index(chosen, buffer.shape)
    found = buffer.data.reshape(-1)[flat].copy()
    seen: dict[int, int] = {}
    for place, (where, amount) in enumerate(zip(flat.tolist(), more.tolist(), strict=True)):
        found[place] += seen.get(where, 0)
        seen[where] = seen.get(where, 0) + amount
    return found
