"""One module for each variant that is measured; its name is the folder's under `kernels/`.

A module has

- `SHAPES`: NamedTuples of plain JSON values, the first field `variant`, with the properties
  `flops`, `bytes` (the fewest: each input read once, each output written once) and `key` (a dict:
  what `kernels.launch.tuned` looks a tiling up by);
- `inputs(shape)`: a tuple of CUDA tensors, always the same;
- `ours(shape, tiling)`: a function of the inputs, with a tiling (a dict) or the table's (None);
- `sweep(shape)`: the tilings that are tried, dicts;
- `upstream(shape)`: pairs of a name and a function without arguments that makes a function of the
  inputs; the first is `"upstream as shipped"`;
- `pytorch(shape)`: the same of PyTorch; none, where it has no such attention.

And, where they are needed,

- `truth(shape, *inputs)`: for each output a pair of an index and what `output[index]` is to be, in
  float64. Everybody is compared with that, and upstream stays in the table where it differs.
  Without it, everybody is compared with upstream as shipped;
- `TOLERANCE`: the relative error (norm of the difference over the norm) that passes, else 0.01;
- `SMALL`: a shape, or several, for the tools that are slow: else the first shape is cut down.

Results keep the digests of the files that a module names: of ours those it imports (`from
kernels.mha.tilelang_kernel import ...`), of upstream's those whose path below `examples/` is a
string in it. So write them out whole.
Outputs are tensors, or tuples and lists of outputs; None is compared with nothing.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.gpu.upstream import PIN

HERE = Path(__file__).parent


def names() -> list[str]:
    """Return what can be measured."""
    return sorted(file.stem for file in HERE.glob("*.py") if not file.stem.startswith("_"))


def load(name: str) -> Any:
    """Return the module of a variant."""
    return importlib.import_module(f"{__name__}.{name}")


class Sources(NamedTuple):
    """The files that a variant's figures depend on."""

    ours: list[str]
    """Below the root of the repository."""
    theirs: list[str]
    """Below `examples/` of the checkout."""


def sources(name: str) -> Sources:
    """Return the files that a variant's module names."""
    tree = ast.parse((HERE / f"{name}.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {m for m in imported if m and m.startswith("kernels.") and m != "kernels.launch"}
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    paths = {text for text in strings if isinstance(text, str) and text.endswith(".py")}
    return Sources(
        sorted(module.replace(".", "/") + ".py" for module in ours),
        sorted(path for path in paths if "\n" not in path and (PIN / path).is_file()),
    )
