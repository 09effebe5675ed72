"""Memory: shared, fragments, variables, tensor memory, outputs, and other views of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from srcmap.engines.interpreter.dtypes import dtype
from srcmap.engines.interpreter.machine import KernelError, here
from srcmap.engines.interpreter.memory import (
    GLOBAL,
    SHARED_SCOPES,
    Buffer,
    Region,
    Var,
    allocate,
    value_of,
)
from srcmap.engines.interpreter.ops.registry import expression, operation
from srcmap.engines.interpreter.symbols import resolve
from srcmap.engines.interpreter.traffic import Traffic

_FILE = "tilelang/language/allocate.py"


def sizes(shape: Any) -> tuple[int, ...]:
    """Return a shape as numbers."""
    many = shape if isinstance(shape, list | tuple) else (shape,)
    return tuple(int(resolve(value_of(size))) for size in many)


def fresh(shape: Any, kind: Any, scope: str) -> Buffer:
    """Return new memory: one for the block when all its roles see it, else one for each role."""
    role, block = here.run.role, here.run.block
    role.allocated += 1
    if scope in SHARED_SCOPES and len(block.roles) > 1:
        known = block.shared.get(role.allocated)
        if known is None:
            known = block.shared[role.allocated] = allocate("?", sizes(shape), dtype(kind), scope)
            if not role.core:  # Ascend's cores are ordered by flags, which are checked apart
                known.shadow.traffic = Traffic(shared=True)
        found: Buffer = known
        return found
    return allocate("?", sizes(shape), dtype(kind), scope)


@operation("alloc_shared", defined_in=_FILE, collective=False, placed_by_use=True)
def alloc_shared(
    shape: Any,
    dtype: Any,
    scope: str = "shared",  # noqa: ARG001
    core_memory: str = "",
) -> Buffer:
    """Allocate memory that all threads of the block see.

    On Ascend the compiler decides where it lies, by its use (`core_memory`).
    """
    return fresh(shape, dtype, core_memory or "shared")


@operation("alloc_fragment", defined_in=_FILE, collective=False, placed_by_use=True)
def alloc_fragment(
    shape: Any,
    dtype: Any,
    scope: str = "fragment",  # noqa: ARG001
    core_memory: str = "",
) -> Buffer:
    """Allocate registers, spread over the threads that use them; on Ascend placed by their use."""
    return fresh(shape, dtype, core_memory or "fragment")


@operation("alloc_reducer", defined_in=_FILE, collective=False)
def alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: Any = None) -> Buffer:  # noqa: ARG001
    """Allocate registers in which threads add up; whole at all times here."""
    return fresh(shape, dtype, "fragment")


@operation("alloc_local", defined_in=_FILE, collective=False)
def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Any:  # noqa: ARG001
    """Allocate an array of each thread; the threads of a role lie along a further dimension."""
    from srcmap.engines.interpreter.locals import LocalArray

    return LocalArray("?", sizes(shape), dtype)


@operation("alloc_tmem", defined_in=_FILE, collective=False)
def alloc_tmem(shape: Any, dtype: Any) -> Buffer:
    """Allocate tensor memory of Blackwell: written by products, read by copies."""
    return fresh(shape, dtype, "tmem")


@operation("alloc_var", defined_in=_FILE, collective=False, makes_variable=True)
def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Var:  # noqa: ARG001
    """Allocate a variable of each thread, with a first value if one is given."""
    from srcmap.engines.interpreter.dtypes import dtype as named

    values = [arg for arg in args if not isinstance(arg, str)]
    first = values[0] if values else init
    var = Var("?", named(dtype))
    if first is not None:
        var.set(first)
    return var


@operation("alloc_global", defined_in=_FILE, collective=False)
def alloc_global(shape: Any, dtype: Any, scope: str = GLOBAL) -> Buffer:  # noqa: ARG001
    """Allocate a workspace in global memory."""
    return _global(shape, dtype)


@operation("empty", defined_in=_FILE, collective=False, makes_output=True)
def empty(*shape: Any, dtype: Any = "float32") -> Buffer:
    """Allocate an output of an eager kernel."""
    if len(shape) == 2 and not isinstance(shape[1], int) and isinstance(shape[0], list | tuple):
        return _global(shape[0], shape[1])
    whole = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    return _global(whole, dtype)


def _global(shape: Any, kind: Any) -> Buffer:
    role, block = here.run.role, here.run.block
    if not block.roles:
        return allocate("?", sizes(shape), dtype(kind), GLOBAL)
    role.allocated += 1
    known = here.run.globals_shared.get(role.allocated)
    if known is None:
        known = allocate("?", sizes(shape), dtype(kind), GLOBAL)
        here.run.globals_shared[role.allocated] = known
    found: Buffer = known
    return found


@operation("reshape", "view", defined_in="tilelang/language/customize.py", collective=False)
def reshape(source: Any, shape: Any = None, dtype: Any = None) -> Buffer:
    """See the same memory in another shape, or its bits as another type."""
    from srcmap.engines.interpreter.dtypes import dtype as named

    if isinstance(source, Region):
        raise KernelError("a part of a buffer cannot be reshaped")
    kind = None if dtype is None else named(dtype)
    seen: Buffer = source.view(source.shape if shape is None else sizes(shape), kind)
    return seen


@expression("reinterpret", defined_in="tilelang/language/tir/op.py")
def reinterpret(kind: Any, value: Any) -> Any:
    """Read the bits of a value as another type; arguments in either order."""
    if isinstance(kind, str) is False and isinstance(value, str):
        kind, value = value, kind
    array = np.asarray(value_of(value))
    target = dtype(kind)
    if array.dtype.itemsize != target.itemsize:
        sized = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}[target.itemsize]
        array = array.astype(sized)
    seen = array.view(target.numpy)
    return seen if seen.ndim else seen[()]
