"""Stand-ins for what upstream files import: tilelang itself, and libraries that are not here.

`import tilelang.language as T` gives the operations of `ops`; what has no meaning on the way from a
kernel to numbers (profilers, caches, pass names) is there and does nothing. Libraries that are
missing (torch on a bare machine, triton, flash_attn) are served by an object that accepts anything,
so that a file can be imported; computing with it is an error.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from srcmap.engines.interpreter import dtypes
from srcmap.engines.interpreter.kernels import JIT, Macro, PrimFunc, TensorType
from srcmap.engines.interpreter.machine import UnsupportedError
from srcmap.engines.interpreter.ops import (  # noqa: F401 - imported to fill the table
    allocate,
    arithmetic,
    ascend,
    ascend_tile,
    control,
    copying,
    matrix,
    reducing,
    synchronising,
)
from srcmap.engines.interpreter.ops.arithmetic import ceildiv
from srcmap.engines.interpreter.ops.registry import ASCEND, COMMON
from srcmap.engines.interpreter.profiling import Profiler, do_bench
from srcmap.engines.interpreter.symbols import Symbol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Imported by upstream's examples and often absent; none is needed to run a kernel.
MAYBE_ABSENT = (
    *("torch", "torch_npu", "triton", "einops", "flash_attn", "flash_attn_interface", "fla"),
    *("native_sparse_attention", "tvm", "transformers", "matplotlib", "pandas", "tqdm"),
    *("flash_mla", "deep_gemm", "cuda", "cutlass", "xformers", "flashinfer", "vllm", "loguru"),
    *("acl", "torchair", "prettytable", "block_sparse_attn", "bitblas"),
)


class Anything:
    """Accepts being called, subscripted, decorated with and looked into."""

    def __init__(self, name: str = "", *_args: Any, **_named: Any) -> None:
        self.__name__ = name if isinstance(name, str) else "anything"

    def __call__(self, *args: Any, **_named: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not isinstance(args[0], Anything):
            return args[0]
        return Anything(f"{self.__name__}()")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Anything(f"{self.__name__}.{name}")

    def __getitem__(self, _index: Any) -> Anything:
        return self

    def __iter__(self) -> Any:
        return iter(())

    def __enter__(self) -> Anything:
        return self

    def __exit__(self, *_args: object) -> None:
        return None

    def __bool__(self) -> bool:
        return False

    def __or__(self, _other: Any) -> Anything:
        return self

    __ror__ = __or__

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        return (_Based,)

    def __float__(self) -> float:
        raise UnsupportedError(f"{self.__name__} is not installed here, and is computed with")

    __int__ = __float__

    def __hash__(self) -> int:
        return hash(self.__name__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Anything) and other.__name__ == self.__name__

    def __lt__(self, _other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__


class _Cuda(Anything):
    """What builders ask of the device to choose a configuration."""

    def get_device_capability(self, *_args: Any) -> tuple[int, int]:
        """Return that of a Hopper GPU."""
        return (9, 0)

    def is_available(self) -> bool:
        """Return what lets a builder go on."""
        return True


class _AnyAttribute(type):
    """The type of classes that derive from something absent: what they inherit is anything."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"{cls.__name__}.{name}")


class _Based(metaclass=_AnyAttribute):
    """The base of such classes."""


class Missing:
    """An operation of the language that no function of `ops` implements."""

    collective = True
    takes_regions = True

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Missing(f"{self._name}.{name}")

    def __getitem__(self, _index: Any) -> Any:
        return self

    def __call__(self, *_args: Any, **_named: Any) -> Any:
        raise UnsupportedError(f"operation T.{self._name} is not known", self._name)


class _TensorMaker:
    """`T.Tensor(shape, dtype)` and `T.Tensor[shape, dtype]`."""

    def __call__(self, shape: Any = (), dtype: Any = "float32", *_a: Any, **_n: Any) -> Any:
        return TensorType(shape, dtype)

    def __getitem__(self, item: Any) -> Any:
        shape, dtype = item if isinstance(item, tuple) and len(item) == 2 else (item, "float32")
        return TensorType(shape, dtype)


class _StridedMaker:
    def __call__(
        self, shape: Any = (), _strides: Any = (), dtype: Any = "float32", *_a: Any, **_n: Any
    ) -> Any:
        return TensorType(shape, dtype)


class _Names:
    """An enumeration whose members are their own names."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{self._name}.{name}"

    def __call__(self, *args: Any, **_named: Any) -> Any:
        return args[0] if args else self


def symbols(names: str, *_args: Any, **_named: Any) -> Any:
    """`T.const("a, b")` and `T.dynamic("a")`: sizes that the arguments give."""
    found = tuple(Symbol(name.strip()) for name in names.split(",") if name.strip())
    return found[0] if len(found) == 1 else found


class Language(ModuleType):
    """`tilelang.language` for one dialect."""

    def __init__(self, name: str, dialect: str, prefix: str = "") -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._prefix = prefix
        self._table = {**COMMON, **ASCEND} if dialect == "ascend" else COMMON
        if not prefix:
            vars(self).update(_fixed_names())
            self.tile = Language(f"{name}.tile", dialect, "tile.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        entry = self._table.get(self._prefix + name)
        found: Any = Missing(self._prefix + name) if entry is None else entry.function
        setattr(self, name, found)
        return found


def _fixed_names() -> dict[str, Any]:
    tensor = _TensorMaker()
    names: dict[str, Any] = {}
    for name in ("Tensor", "Buffer", "SharedBuffer", "FragmentBuffer", "LocalBuffer", "Ptr", "Ref"):
        names[name] = tensor
    for kind in (*dtypes.NAMES, "float", "half", "int", "double", "float8_e4m3"):
        names[kind] = dtypes.dtype(kind)
    return {
        **names,
        "StridedTensor": _StridedMaker(),
        "dtype": dtypes.dtype,
        "DataType": dtypes.dtype,
        "prim_func": _decorator(PrimFunc),
        "macro": _decorator(Macro),
        "GemmWarpPolicy": _Names("GemmWarpPolicy"),
        "dynamic": symbols,
        "symbolic": symbols,
        "const": symbols,
        "var": symbols,
        "handle": dtypes.dtype("uint64"),
        "bool_": dtypes.dtype("bool"),
    }


def _decorator(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def decorate(function: Any = None, **_options: Any) -> Any:
        return kind if function is None else kind(function)

    return decorate


def jit(function: Any = None, *_args: Any, **options: Any) -> Any:
    """`@tilelang.jit`, with or without arguments; also `jit(prim_func, ...)`."""
    out, workspace = options.get("out_idx"), options.get("workspace_idx")

    def decorate(target: Any) -> Any:
        if isinstance(target, PrimFunc):
            return compile_function(target, out, workspace_idx=workspace)
        return JIT(target, out, workspace)

    return decorate if function is None or not callable(function) else decorate(function)


def compile_function(function: Any, out_idx: Any = None, *_args: Any, **options: Any) -> Any:
    """`tilelang.compile(func, out_idx)`: a kernel to call."""
    from srcmap.engines.interpreter.kernels import Kernel

    return Kernel(function, out_idx, options.get("workspace_idx"))


def autotune(function: Any = None, **_options: Any) -> Any:
    """`@autotune(configs=...)`: the configuration is what the caller gives; nothing is tuned."""
    return (lambda target: target) if function is None or not callable(function) else function


def next_power_of_2(value: int) -> int:
    """Return the power of two that is not smaller."""
    return 1 << max(int(value) - 1, 0).bit_length()


class _Served(ModuleType):
    """A module of tilelang's besides its language."""

    def __init__(self, name: str, known: dict[str, Any] | None = None) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        vars(self).update(known or {})

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in vars(self) if not n.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(f"{self.__name__}.{name}")


def _modules(dialect: str) -> dict[str, ModuleType]:
    language = Language("tilelang.language", dialect)
    maths = _Served("tilelang.math", {"next_power_of_2": next_power_of_2, "cdiv": ceildiv})
    tuner = _Served("tilelang.autotuner", {"autotune": autotune})
    profiler = _Served("tilelang.profiler", {"do_bench": do_bench, "Profiler": Profiler})
    jit_module = _Served("tilelang.jit", {"jit": jit})
    known = {
        "language": language,
        "math": maths,
        "autotuner": tuner,
        "profiler": profiler,
        "jit": jit,
        "lazy_jit": jit,
        "compile": compile_function,
        "autotune": autotune,
        "cdiv": ceildiv,
        "next_power_of_2": next_power_of_2,
        "do_bench": do_bench,
        "PassConfigKey": _Names("PassConfigKey"),
        "TensorSupplyType": _Names("TensorSupplyType"),
        "DataType": dtypes.dtype,
        "__version__": "0",
    }
    root = _Served("tilelang", known)
    found: dict[str, ModuleType] = {"tilelang": root, "tilelang.language": language}
    found.update({m.__name__: m for m in (maths, tuner, profiler)})
    found["tilelang.jit"] = jit_module
    found["tilelang.language.tile"] = language.tile
    return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves `tilelang*` always, and absent libraries when asked for."""

    def __init__(self, dialect: str) -> None:
        self.modules = _modules(dialect)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for what is served here."""
        if name.partition(".")[0] != "tilelang":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        return self.modules.get(spec.name) or _Served(spec.name)

    def exec_module(self, _module: ModuleType) -> None:
        """Do nothing: stand-ins are complete."""


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last: serves libraries that nobody else could."""

    def __init__(self, names: tuple[str, ...] = MAYBE_ABSENT) -> None:
        self.names = names

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec for an absent library that examples import."""
        if name.partition(".")[0] not in self.names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a module that accepts anything."""
        known = {"cuda": _Cuda("torch.cuda")} if spec.name == "torch" else {}
        return _Served(spec.name, known)

    def exec_module(self, _module: ModuleType) -> None:
        """Do nothing."""


def install(dialect: str) -> None:
    """Serve the stand-ins in this process, and map devices that are not here to the CPU."""
    known = (Finder, AbsentFinder)
    has_torch = importlib.util.find_spec("torch") is not None
    again = any(isinstance(finder, known) for finder in sys.meta_path)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, known)]
    for name in [n for n in sys.modules if n.partition(".")[0] == "tilelang"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Finder(dialect))
    sys.meta_path.append(AbsentFinder())
    if again:
        return
    if has_torch:
        from srcmap.engines.interpreter import torchmap

        sys.meta_path.insert(0, torchmap.Hook())
