"""torch on a machine without accelerators: `cuda` and `npu` devices mean the CPU."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

_ELSEWHERE = ("cuda", "npu")


class Hook(importlib.abc.MetaPathFinder):
    """Lets torch be imported as ever, and maps its devices right after."""

    def __init__(self) -> None:
        self._busy = False

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: Any = None
    ) -> ModuleSpec | None:
        """Return the real spec of torch, with a loader that maps devices at the end."""
        if name != "torch" or self._busy:
            return None
        self._busy = True
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            real = spec.loader.exec_module

            def execute(module: ModuleType) -> None:
                real(module)
                map_devices(module)

            spec.loader.exec_module = execute  # type: ignore[method-assign]
        return spec


def here_instead(device: Any) -> Any:
    """Return the CPU for a device that is not here."""
    text = str(device)
    return "cpu" if text.partition(":")[0] in _ELSEWHERE or isinstance(device, int) else device


def map_devices(torch: Any) -> None:
    """Make every function of torch take the CPU where a device of another kind is named."""
    from torch.overrides import TorchFunctionMode

    class _Mapped(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(
            self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            named = dict(kwargs or {})
            if "device" in named and named["device"] is not None:
                named["device"] = here_instead(named["device"])
            name = getattr(function, "__name__", "")
            if name in ("cuda", "npu"):
                return args[0]
            if name == "to" and len(args) > 1 and _is_device(args[1]):
                args = (args[0], here_instead(args[1]), *args[2:])
            return function(*args, **named)

    mode = _Mapped()
    mode.__enter__()
    torch._srcmap_mode = mode  # noqa: SLF001 - keeps it alive
    for name in ("synchronize", "empty_cache", "set_device", "manual_seed", "manual_seed_all"):
        setattr(torch.cuda, name, lambda *_a, **_n: None)
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_capability = lambda *_a: (9, 0)
    torch.cuda.get_device_properties = lambda *_a: _Properties()
    torch.cuda.get_device_name = lambda *_a: "srcmap interpreter"
    torch.Tensor.npu = lambda self, *_a, **_n: self
    torch.Tensor.cuda = lambda self, *_a, **_n: self
    # Compiling would pull in a compiler that is not here, for functions that need none.
    torch.compile = lambda function=None, **_n: function or (lambda target: target)
    torch.set_default_device = lambda _device: None
    torch.npu = _Nothing()
    sys.modules.setdefault("torch.npu", ModuleType("torch.npu"))


def _is_device(value: Any) -> bool:
    return (isinstance(value, str) and value.partition(":")[0] in _ELSEWHERE) or (
        type(value).__name__ == "device"
    )


class _Properties:
    """What drivers ask of a device: enough to choose a configuration."""

    name = "srcmap interpreter"
    multi_processor_count = 132
    total_memory = 80 << 30
    shared_memory_per_block_optin = 232448
    major, minor = 9, 0


class _Nothing:
    """`torch.npu`: every function does nothing."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_a, **_n: None
