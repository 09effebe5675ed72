"""What upstream's compiler needs to compile GPU kernels for the CPU, each change with its reason.

They fit one version of tilelang and are refused on any other: patching what one has not read is
guessing. Nothing outside this module changes upstream.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

VERSION = "0.1.15"

PASS_CONFIGS = {
    # The C code generator has no vector types.
    "tirx.disable_vectorize": True,
    # Fragments become plain memory (below); the check would take their uses for races.
    "tl.disable_buffer_init_check": True,
    # Warnings about partial blocks, which load out of range by design.
    "tl.disable_out_of_bound_warning": True,
}


class VersionError(RuntimeError):
    """Another tilelang than the one that the patches were read against."""


def apply() -> Any:
    """Patch tilelang for the C target and return it. VersionError when it is another version."""
    import tilelang

    found = str(tilelang.__version__).partition("+")[0]
    if found != VERSION:
        raise VersionError(f"the patches fit tilelang {VERSION}, and {found} is installed")
    tilelang.disable_cache()
    _allocate_locally(tilelang)
    _reduce_through_a_copy(tilelang)
    _skip_the_index_check()
    _pass_bool_as_bytes()
    _compile_for_c(tilelang)
    _tune_nothing(tilelang)
    _compile_no_wrappers()
    _name_a_device()
    _keep_plain_layouts(tilelang)
    return tilelang


def _allocate_locally(tilelang: Any) -> None:
    """Shared memory and fragments are arrays of the block: layout inference needs GPU threads."""
    language = tilelang.language
    local = sys.modules["tilelang.language.allocate"].alloc_local

    def allocate(shape: Any, dtype: Any, scope: Any = None) -> Any:  # noqa: ARG001
        return local(shape, dtype)

    language.alloc_shared = language.alloc_fragment = allocate


def _reduce_through_a_copy(tilelang: Any) -> None:
    """The CPU lowering of reductions wants one type; GPU kernels reduce float16 into float32."""
    language = tilelang.language
    local = sys.modules["tilelang.language.allocate"].alloc_local
    for name in ("reduce_max", "reduce_min", "reduce_sum"):
        setattr(language, name, _widened(getattr(language, name), local, language))


def _widened(original: Any, local: Any, language: Any) -> Any:
    def reduce(buffer: Any, out: Any, *args: Any, **named: Any) -> Any:
        if buffer.dtype == out.dtype:
            return original(buffer, out, *args, **named)
        wide = local(buffer.shape, out.dtype)
        language.evaluate(language.copy(buffer, wide))
        return original(wide, out, *args, **named)

    return reduce


def _skip_the_index_check() -> None:
    """The semantic check forbids local arrays in parallel loops, which is what they are now."""
    import_module("tilelang.engine.lower")
    lowering: Any = sys.modules["tilelang.engine.lower"]
    lowering.PreLowerSemanticCheck = lambda _module: None


def _pass_bool_as_bytes() -> None:
    """The wrapper hands over `bool*` where the generated kernel takes `int8_t*`."""
    import tilelang.jit.adapter.wrapper  # noqa: F401

    wrapper: Any = sys.modules["tilelang.jit.adapter.wrapper"]
    for value in vars(wrapper).values():
        types = getattr(value, "_TYPE_MAP", None)
        if isinstance(types, dict) and types.get("bool") == "bool":
            types["bool"] = "int8_t"


def _compile_for_c(tilelang: Any) -> None:
    """Examples name no target, and the automatic one fails without a GPU."""
    original = tilelang.jit

    def jit(function: Any = None, **options: Any) -> Any:
        options["target"] = "c"
        options["pass_configs"] = dict(PASS_CONFIGS)
        options.pop("compile_flags", None)  # flags of nvcc
        return original(function, **options) if function is not None else original(**options)

    tilelang.jit = jit


def _compile_no_wrappers() -> None:
    """torch.compile decorates autograd wrappers at import and looks for triton, which is absent."""
    import torch

    def compile_nothing(model: Any = None, **_options: Any) -> Any:
        return model if model is not None else compile_nothing

    torch.compile = compile_nothing


def _name_a_device() -> None:
    """Builders ask for the capability of the GPU to choose block sizes: Hopper's are chosen."""
    import torch

    cuda: Any = torch.cuda
    cuda.get_device_capability = lambda *_args: (9, 0)


def _keep_plain_layouts(tilelang: Any) -> None:
    """A layout says where elements lie for tensor cores; the C target indexes them as written."""

    def annotate(*_args: Any, **_named: Any) -> None:
        return None

    tilelang.language.annotate_layout = annotate


def _tune_nothing(tilelang: Any) -> None:
    """Configurations are given by the caller; tuning would run the kernel on a GPU."""
    import_module("tilelang.autotuner")
    tuner: Any = sys.modules["tilelang.autotuner"]

    def autotune(function: Any = None, **_options: Any) -> Any:
        return (lambda target: target) if function is None else function

    tuner.autotune = tilelang.autotune = autotune
