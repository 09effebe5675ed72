"""Modules of upstream's examples, from the checkout."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSION = "tilelang v0.1.14"
PIN = ROOT / "_vendor" / VERSION.replace(" ", "-") / "examples"


def module(path: str) -> Any:
    """Return the module of `examples/<path>`; files beside it can be imported by it."""
    file = PIN / path
    if not file.is_file():
        raise FileNotFoundError(f"no {file}: `srcmap sync tilelang@v0.1.14` fetches the checkout")
    name = "upstream_" + file.with_suffix("").relative_to(PIN).as_posix().replace("/", "_")
    if name not in sys.modules:
        sys.modules[name] = _load(name, file)
    return sys.modules[name]


def _load(name: str, file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # before it runs: what it defines looks itself up by this name
    sys.path.append(str(file.parent))
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(file.parent))
    return made
