"""Modules of upstream's examples, from the checkout."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VERSION = "tilelang v0.1.14"
PIN = ROOT / "_vendor" / VERSION.replace(" ", "-") / "examples"

REPAIRS = {
    # The pipeline splits the loop body where this name is bound, and the half with the copies no
    # longer knows it: "variables (physical_block_idx,) are used, but are not passed in". Said in
    # both places what it stands for, the kernel compiles.
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py": (
        ("K[physical_block_idx,", "K[block_table[bid, block_table_idx],"),
        ("V[physical_block_idx,", "V[block_table[bid, block_table_idx],"),
    ),
}
"""What has to be said otherwise for tilelang 0.1.15 to compile an example, and why."""


def module(path: str) -> Any:
    """Return the module of `examples/<path>`; files beside it can be imported by it."""
    file = PIN / path
    if not file.is_file():
        raise FileNotFoundError(f"no {file}: `srcmap sync tilelang@v0.1.14` fetches the checkout")
    name = "upstream_" + file.with_suffix("").relative_to(PIN).as_posix().replace("/", "_")
    if name not in sys.modules:
        sys.modules[name] = _load(name, file)
    return sys.modules[name]


def _load(name: str, file: Path, beside: Path | None = None) -> Any:
    """Run a file; it can import those of its folder, or of `beside`."""
    folder = str(beside or file.parent)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made  # before it runs: what it defines looks itself up by this name
    sys.path.append(folder)
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(folder)
    return made


def repaired(path: str) -> Any:
    """Return the module of an example that does not compile as it is, with its REPAIRS."""
    name = "repaired_" + path.removesuffix(".py").replace("/", "_")
    if name not in sys.modules:
        text = (PIN / path).read_text(encoding="utf-8")
        for before, after in REPAIRS[path]:
            if text.count(before) != 1:
                raise ValueError(f"{path} has {text.count(before)} times {before}, and not once")
            text = text.replace(before, after)
        # TileLang reads the source of kernels from their files.
        file = Path(tempfile.mkdtemp(prefix="repaired-")) / Path(path).name
        file.write_text(text, encoding="utf-8")
        sys.modules[name] = _load(name, file, beside=(PIN / path).parent)
    return sys.modules[name]
