"""A kernel that no case knows, compiled: what `generic` does for the interpreter.

Arguments and inputs are made up by the same rules, so that the same command means the same inputs
on every engine. Eager kernels say their shapes in their bodies, and are the interpreter's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srcmap.engines.cases.checks import Run
from srcmap.engines.generic import Maker, told
from srcmap.engines.interpreter.dtypes import dtype
from srcmap.engines.interpreter.machine import KernelError

if TYPE_CHECKING:
    from srcmap.engines.jobs import Job, Outcome


def run_compiled(number: int, job: Job, module: Any, host: Any) -> Outcome:
    """Build, compile, fill and run one kernel of a file."""

    def work(maker: Maker, inputs: list[tuple[str, Any]]) -> tuple[str, tuple[Any, ...]]:
        name, builder = _chosen(module, job.function)
        kernel = builder(**maker.arguments(builder.signature))
        inputs += _inputs(kernel, maker)
        given = tuple(value for _, value in inputs)
        run = Run(name, inputs=given)
        return name, host.execute(module, run, lambda _, run: _called(kernel, run))

    return told(number, job, host, work)


def _chosen(module: Any, name: str) -> tuple[str, Any]:
    """Return the builder that is meant, else the first of the file."""
    from tilelang.jit import JITImpl

    known = {
        label: value
        for label, value in vars(module).items()
        if isinstance(value, JITImpl)
        and value.func.orig_func.__code__.co_filename == module.__file__
    }
    wanted = name.partition(".")[0] or next(iter(known), "")
    if wanted not in known:
        raise KernelError(f"no kernel {wanted!r}; there are: {', '.join(known) or 'none'}")
    if getattr(known[wanted].func, "tensor_args", None):
        raise KernelError("an eager kernel: only the interpreter makes up its inputs")
    return wanted, known[wanted]


def _inputs(kernel: Any, maker: Maker) -> list[tuple[str, Any]]:
    """Return what the kernel gets, by name: all of its parameters that are no outputs."""
    function = kernel.prim_func
    made = {place % len(kernel.params) for place in kernel.out_idx or ()}
    found = []
    for place, (variable, kind) in enumerate(zip(function.params, kernel.params, strict=True)):
        if place in made:
            continue
        buffer = function.buffer_map.get(variable)
        name = str(buffer.name if buffer is not None else variable.name)
        found.append((name, _input(name, kind, maker)))
    return found


def _input(name: str, kind: Any, maker: Maker) -> Any:
    if not kind.shape:
        return maker.size(name)
    shape = tuple(_extent(size, maker) for size in kind.shape)
    return maker.filled(name, shape, dtype(str(kind.dtype)))


def _extent(size: Any, maker: Maker) -> int:
    """Return an extent; one that is only known at the call gets a size by its name, once."""
    if isinstance(size, int):
        return size
    name = str(size)
    if name not in maker.sizes:
        maker.sizes[name] = int(maker.size(name))
    return maker.sizes[name]


def _called(kernel: Any, run: Run) -> tuple[Any, ...]:
    """Return what a kernel gives, or its tensors when it gives nothing but fills them."""
    found = kernel(*run.inputs)
    if found is None:
        return tuple(value for value in run.inputs if hasattr(value, "shape"))
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)
