"""Kernels as objects: `prim_func`, `macro`, `jit`; binding arguments; launching a grid."""

from __future__ import annotations

import ast
import inspect
import itertools
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter import tensors
from srcmap.engines.interpreter.dtypes import DType, cast, dtype
from srcmap.engines.interpreter.findings import Findings
from srcmap.engines.interpreter.machine import (
    Block,
    KernelError,
    Role,
    Run,
    SplitError,
    here,
)
from srcmap.engines.interpreter.memory import GLOBAL, Buffer, allocate
from srcmap.engines.interpreter.rewriting import rewrite
from srcmap.engines.interpreter.symbols import Symbol, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class TensorType:
    """What an annotation says about a parameter: `T.Tensor(shape, dtype)`."""

    def __init__(self, shape: Any, kind: Any, scope: str = GLOBAL) -> None:
        self.shape = tuple(shape) if isinstance(shape, list | tuple) else (shape,)
        self.dtype = dtype(kind)
        self.scope = scope


class Options:
    """What the person who runs a kernel wants: set by the loader for the whole process."""

    def __init__(self) -> None:
        self.watcher: Any = None
        self.findings = Findings()
        self.sources: dict[str, ast.Module] = {}
        """Parsed files that may be rewritten, by the name in their code objects."""
        self.block_limit: int | None = None
        self.backwards = False
        """Whether the last block of the grid runs first."""
        self.names: tuple[list[str], list[str]] = ([], [])
        """What the last kernel that was called takes, and what it returns."""
        self.waits: dict[str, bool] | None = None
        """Lines that wait for barriers, and whether that ever ordered anything; if asked for."""

    def forget(self, path: str) -> None:
        """A file is loaded again, perhaps with another text."""
        self.sources.pop(path, None)


options = Options()


def _tree(path: str) -> ast.Module:
    if path not in options.sources:
        options.sources[path] = ast.parse(Path(path).read_bytes())
    return options.sources[path]


class _Source:
    """A function that is rewritten when it is first needed, and made anew for each call."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.name = function.__name__
        self._maker: Callable[..., Any] | None = None

    def ready(self) -> Any:
        """Return the rewritten function with what its closure holds now."""
        from srcmap.engines.interpreter import runtime

        if self._maker is None:
            path = self.function.__code__.co_filename
            options.findings.sources.add(path)
            self._maker = rewrite(self.function, _tree(path), runtime)
        cells = {}
        names = self.function.__code__.co_freevars
        for name, cell in zip(names, self.function.__closure__ or (), strict=True):
            try:
                cells[name] = runtime.frozen(cell.cell_contents)
            except ValueError:  # noqa: PERF203 - few cells
                continue
        return self._maker(cells)


class Macro:
    """`@T.macro`: a piece of kernel that is put in where it is called."""

    collective = True
    takes_regions = True

    def __init__(self, function: Any) -> None:
        self._source = _Source(function)
        self.__name__ = function.__name__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._source.ready()(*args, **named)

    def __get__(self, instance: Any, _owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = lambda *args, **named: self(instance, *args, **named)  # noqa: E731
        bound.collective = bound.takes_regions = True  # type: ignore[attr-defined]
        return bound


class PrimFunc:
    """`@T.prim_func`: a kernel, its parameters, and what the builder fixed."""

    def __init__(self, function: Any) -> None:
        self.source = _Source(function)
        self.__name__ = function.__name__
        self.__wrapped__ = function
        self.attrs: dict[str, Any] = {}
        self.parameters = _parameters(function)

    def __call__(self, *args: Any) -> Any:
        return Kernel(self, (), ())(*args)

    def with_attr(self, *_args: Any, **_named: Any) -> PrimFunc:
        """Return itself: attributes steer compiling."""
        return self


def _parameters(function: Any) -> list[tuple[str, Any]]:
    """Return names and annotations; those written as strings are evaluated where they stand."""
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        if type(kind) is str:
            scope = dict(function.__globals__)
            for free, cell in zip(
                function.__code__.co_freevars, function.__closure__ or (), strict=True
            ):
                scope[free] = cell.cell_contents
            kind = eval(kind, scope)  # noqa: S307 - what Python itself does with annotations
        found.append((name, kind))
    return found


class Kernel:
    """A compiled kernel, as `jit` returns it: call it with the inputs, get the outputs."""

    def __init__(self, function: PrimFunc, out_idx: Any, workspace_idx: Any) -> None:
        self.prim_func = function
        count = len(function.parameters)
        self.outputs = _positions(out_idx, count)
        self.workspaces = _positions(workspace_idx, count)
        self.latency = self.ref_latency = 0.0
        self.config: Any = None

    @property
    def parameters(self) -> list[tuple[str, Any]]:
        return self.prim_func.parameters

    def __call__(self, *args: Any, **named: Any) -> Any:
        made = {*self.outputs, *self.workspaces}
        given = [i for i in range(len(self.parameters)) if i not in made]
        if len(args) + len(named) == len(self.parameters):
            given, made = list(range(len(self.parameters))), set()
        values = self._by_position(given, args, named)
        names = [name for name, _ in self.parameters]
        options.names = ([names[i] for i in given], [names[i] for i in self.outputs if i in made])
        back = _Back(values.values())
        buffers = self._bound(values)
        run_program(self.prim_func, buffers)
        back.write(buffers[i] for i in values)
        results = [back.out(buffers[i]) for i in self.outputs if i in made]
        for position in self.outputs:
            if position in made:
                _note_unwritten(buffers[position])
        return None if not results else results[0] if len(results) == 1 else results

    def _by_position(
        self, given: list[int], args: tuple[Any, ...], named: dict[str, Any]
    ) -> dict[int, Any]:
        names = [name for name, _ in self.parameters]
        values = dict(zip(given, args, strict=False))
        values.update({names.index(name): value for name, value in named.items()})
        if len(values) != len(given):
            wanted = ", ".join(names[i] for i in given)
            raise KernelError(
                f"{self.prim_func.__name__} takes {len(given)} inputs ({wanted}), "
                f"{len(args) + len(named)} were given"
            )
        return values

    def _bound(self, values: dict[int, Any]) -> list[Any]:
        bind_symbols(
            [(self.parameters[i][1], v) for i, v in values.items()],
        )
        buffers = []
        for position, (name, kind) in enumerate(self.parameters):
            if position in values:
                buffers.append(bound_value(name, kind, values[position]))
            else:
                shape = tuple(int(resolve(size)) for size in kind.shape)
                buffers.append(allocate(name, shape, kind.dtype, GLOBAL))
        for position in self.workspaces:
            if isinstance(buffers[position], Buffer):
                buffers[position].workspace = True
        return buffers

    # What drivers ask of a compiled kernel besides calling it.

    def get_kernel_source(self, *_args: Any, **_named: Any) -> str:
        """Return nothing: there is no generated code."""
        return ""

    def get_profiler(self, *_args: Any, **_named: Any) -> Any:
        """Return an object whose measurements are zero."""
        from srcmap.engines.interpreter.profiling import Profiler

        return Profiler(self)


def _positions(index: Any, count: int) -> list[int]:
    if index is None:
        return []
    many = index if isinstance(index, list | tuple) else [index]
    return [int(i) % count for i in many]


class _Back:
    """Hands results back in the kind that the inputs came in."""

    def __init__(self, values: Any) -> None:
        self.given = list(values)
        self.torch = any(tensors.is_torch(value) for value in self.given)

    def out(self, buffer: Buffer) -> Any:
        return tensors.to_torch(buffer.data) if self.torch else buffer.data

    def write(self, buffers: Any) -> None:
        for value, buffer in zip(self.given, buffers, strict=True):
            if isinstance(buffer, Buffer):
                tensors.write_back(value, buffer.data)


def bind_symbols(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Give every plain symbol of the annotations the size that the argument has there."""
    for kind, value in pairs:
        shape = getattr(value, "shape", None)
        if isinstance(kind, TensorType) and shape is not None and len(shape) == len(kind.shape):
            for size, actual in zip(kind.shape, shape, strict=True):
                if isinstance(size, Symbol) and size.plain:
                    size.bound = int(actual)
        elif isinstance(kind, Symbol) and kind.plain:
            kind.bound = int(value)


def bound_value(name: str, kind: Any, value: Any) -> Any:
    """Return an argument as a kernel sees it. KernelError when its shape or type is another."""
    if not isinstance(kind, TensorType):
        return (
            int(value)
            if isinstance(kind, Symbol)
            else cast(value, dtype(kind)).item()
            if (isinstance(kind, DType))
            else value
        )
    data = _viewed(tensors.to_numpy(value), kind)
    _check_argument(name, kind, data)
    return Buffer(name, data, kind.dtype, GLOBAL)


def _viewed(data: Any, kind: TensorType) -> Any:
    """Return bytes as the type that the kernel takes them for."""
    same = data.dtype.itemsize == kind.dtype.numpy.itemsize
    if data.dtype != kind.dtype.numpy and same and data.dtype.kind in "bu":
        return data.view(kind.dtype.numpy)
    return data


def _check_argument(name: str, kind: TensorType, data: Any) -> None:
    wanted = tuple(int(resolve(size)) for size in kind.shape)
    if data.shape != wanted:
        raise KernelError(f"{name} has shape {list(data.shape)}, the kernel takes {list(wanted)}")
    if data.dtype != kind.dtype.numpy:
        raise KernelError(f"{name} is {data.dtype.name}, the kernel takes {kind.dtype}")


def bind(value: Any, kind: Any, name: str) -> Any:
    """Bind an argument where an eager kernel declares it: `A: T.Tensor[[n, d], dtype]`."""
    if not isinstance(kind, TensorType):
        return value
    if isinstance(value, Buffer):
        return value
    bind_symbols([(kind, value)])
    pending = _Pending.current
    if pending is None:
        return bound_value(name, kind, value)
    return pending.later(name, kind, value)


class _Pending:
    """Arguments of an eager call: bound as soon as all sizes of their type are known."""

    current: _Pending | None = None

    def __init__(self) -> None:
        self.bound: list[tuple[Any, Buffer]] = []
        self._unchecked: list[tuple[str, TensorType, Any]] = []

    def later(self, name: str, kind: TensorType, value: Any) -> Buffer:
        data = _viewed(tensors.to_numpy(value), kind)
        buffer = Buffer(name, data, kind.dtype, GLOBAL)
        self.bound.append((value, buffer))
        self._unchecked.append((name, kind, data))
        return buffer

    def check(self) -> None:
        """Compare shapes and types with the declarations; at the first launch sizes are known."""
        for name, kind, data in self._unchecked:
            _check_argument(name, kind, data)
        self._unchecked.clear()


def _note_unwritten(buffer: Buffer) -> None:
    marks = buffer.written()
    if marks is not None:
        where = tuple(int(i) for i in np.argwhere(~marks)[0])
        options.findings.add(
            "output-unwritten", buffer.name, count=int((~marks).sum()), where=where
        )


def run_program(function: PrimFunc, buffers: list[Any]) -> None:
    """Run a kernel once on bound arguments."""
    previous = here.run
    here.run = Run(options.findings, options.watcher)
    here.run.arguments = buffers
    try:
        function.source.ready()(*buffers)
    finally:
        here.run = previous


# -- launching ---------------------------------------------------------------------------------


class Grid:
    """What `T.Kernel(...)` says: the grid, its threads, and on Ascend its cores."""

    def __init__(self, extents: Sequence[Any], threads: Any = None, npu: bool = False) -> None:
        self.extents = tuple(int(resolve(extent)) for extent in extents)
        size = threads if threads is not None else 128
        self.threads = prod(size) if isinstance(size, list | tuple) else int(resolve(size))
        self.npu = npu

    def blocks(self) -> Iterator[tuple[int, ...]]:
        """Go through the grid; the first index moves fastest, as hardware numbers blocks."""
        step = -1 if options.backwards else 1
        for index in itertools.product(*(range(e)[::step] for e in reversed(self.extents))):
            yield index[::-1]


def launch(grid: Grid, body: Any, mode: str = "whole") -> None:
    """Run the body for every block of the grid; `mode` says how Ascend's cores share it."""
    if _Pending.current is not None:
        _Pending.current.check()
    if grid.npu:
        from srcmap.engines.interpreter.ascend_launch import launch as launch_ascend

        launch_ascend(grid, body, mode)
        return
    run = here.run
    parting = Parting(grid.threads)
    watcher = run.watcher
    for index in grid.blocks():
        if watcher is not None and not watcher.wants_block(index):
            continue
        _run_split(run, index, parting, body)


class Parting:
    """Where the threads of a block part, and where they stay abreast."""

    def __init__(self, threads: int) -> None:
        self.parted = {0, threads}
        self.abreast: set[int] = set()

    def split(self, error: SplitError) -> bool:
        """Part there too; False when they do already."""
        known = self.parted | (self.abreast if error.abreast else set())
        new = set(error.bounds) - known
        (self.abreast if error.abreast else self.parted).update(new)
        return bool(new)

    def roles(self) -> list[Role]:
        """Return a role for each part."""
        found: list[Role] = []
        for start, stop in itertools.pairwise(sorted(self.parted)):
            inside = {bound for bound in self.abreast if start < bound < stop}
            pairs = itertools.pairwise(sorted({start, stop} | inside))
            beside = tuple(Role(f"threads {a}-{b - 1}", a, b) for a, b in pairs)
            for role in beside:
                role.beside = beside
            found += beside
        return found


def _run_split(run: Run, index: tuple[int, ...], parting: Parting, body: Any) -> None:
    """Run one block; when threads part, once more with more roles."""
    seen = run.findings.counts()
    while True:
        block = Block(index, parting.roles())
        try:
            run.run_block(block, lambda role: _in_role(run, role, index, body))
        except SplitError as split:
            run.findings.back_to(seen)
            if not parting.split(split):
                raise KernelError("threads part where they must act together") from split
        else:
            _check_left(run, block)
            return


def _in_role(run: Run, role: Role, index: tuple[int, ...], body: Any) -> None:
    run.role = role
    with np.errstate(all="ignore"):  # each thread has its own
        body(index)


def _check_left(run: Run, block: Block) -> None:
    for name, counter in block.counters.items():
        left = counter if isinstance(counter, int) else getattr(counter, "left", 0)
        if left:
            run.note("flag-left-set", str(name), count=left)


# -- jit ---------------------------------------------------------------------------------------


class JIT:
    """`@tilelang.jit`: a builder whose call gives a kernel, or an eager kernel that just runs."""

    def __init__(self, function: Any, out_idx: Any = None, workspace_idx: Any = None) -> None:
        self.function = function
        self.out_idx = out_idx
        self.workspace_idx = workspace_idx
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function
        self.signature = inspect.signature(function)
        self.eager = _is_eager(function)
        self._source = _Source(function) if self.eager else None

    def __call__(self, *args: Any, **named: Any) -> Any:
        named = {k: v for k, v in named.items() if not k.startswith("__tune")}
        if self.eager:
            return self._run(args, named)
        return self._built(self.function(*args, **named))

    def _built(self, made: Any) -> Any:
        if isinstance(made, PrimFunc):
            return Kernel(made, self.out_idx, self.workspace_idx)
        if isinstance(made, tuple | list):
            return type(made)(self._built(one) for one in made)
        return made

    def _run(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        source = self._source or _Source(self.function)
        previous, outer = here.run, _Pending.current
        here.run = Run(options.findings, options.watcher)
        pending = _Pending.current = _Pending()
        bound = self.signature.bind(*args, **named)
        bound.apply_defaults()
        options.names = (list(bound.arguments), [])
        try:
            result = source.ready()(*bound.args, **bound.kwargs)
        finally:
            here.run, _Pending.current = previous, outer
        torch = any(tensors.is_torch(value) for value in bound.arguments.values())
        for value, buffer in pending.bound:
            tensors.write_back(value, buffer.data)
        return _handed_back(result, torch)

    def compile(self, *args: Any, **named: Any) -> Any:
        """Build without running."""
        return self(*args, **named)

    def get_kernel_source(self, *_args: Any, **_named: Any) -> str:
        """Return nothing: there is no generated code."""
        return ""


def _handed_back(result: Any, torch: bool) -> Any:
    if isinstance(result, Buffer):
        _note_unwritten(result)
        return tensors.to_torch(result.data) if torch else result.data
    if isinstance(result, tuple | list):
        return type(result)(_handed_back(one, torch) for one in result)
    return result


def _is_eager(function: Any) -> bool:
    """Whether the function launches itself instead of returning a kernel."""
    from srcmap.engines.interpreter.rewriting import NotFoundError, function_at

    try:
        definition = function_at(_tree(function.__code__.co_filename), function.__code__)
    except (NotFoundError, OSError):
        return False
    return any(_launches(statement) for statement in definition.body)


def _launches(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef):
        return False
    if isinstance(statement, ast.With):
        call = statement.items[0].context_expr
        named = call.func if isinstance(call, ast.Call) else call
        return isinstance(named, ast.Attribute | ast.Name) and (
            getattr(named, "attr", getattr(named, "id", "")) == "Kernel"
        )
    inner = [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]
    return any(_launches(one) for one in inner if isinstance(one, ast.stmt))
