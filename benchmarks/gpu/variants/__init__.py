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
- `RATE`: how many times as fast as of fp16 products of its inputs can be, else 1;
- `TOLERANCE`: the relative error (norm of the difference over the norm) that passes, else 0.01;
- `SMALL`: a shape, or several, for the tools that are slow: else the first shape is cut down.

Results keep the digests of the files that a module names, or one beside it does that it imports
and that begins with `_`: of ours those it imports (`from kernels.mha.tilelang_kernel import ...`),
of upstream's those whose path below `examples/` is a string in it. So write them out whole.
Outputs are tensors, or tuples and lists of outputs; None is compared with nothing.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.gpu.upstream import PIN, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).parent


def names() -> list[str]:
    """Return what can be measured."""
    return sorted(file.stem for file in HERE.glob("*.py") if not file.stem.startswith("_"))


def unknown(asked: Iterable[str], there: Callable[[str], bool] | None = None) -> str:
    """Return what to say of names of which there is no variant; empty when there are all.

    `there` says it in place of the names: for those that name more than a variant.
    """
    bad = [name for name in asked if not (there(name) if there else name in names())]
    return f"no {', '.join(bad)}: there are {', '.join(names())}" if bad else ""


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
    """Return the files that a variant's module names, or what it shares with other modules."""
    ours: set[str] = set()
    theirs: set[str] = set()
    modules, left = {name}, [name]
    while left:
        tree = ast.parse((HERE / f"{left.pop()}.py").read_text(encoding="utf-8"))
        named = {module for node in ast.walk(tree) for module in imported(node)}
        ours |= {m for m in named if m.startswith("kernels.") and m != "kernels.launch"}
        strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        theirs |= {text for text in strings if isinstance(text, str) and text.endswith(".py")}
        shared = {m.removeprefix(f"{__name__}.") for m in named if m.startswith(f"{__name__}._")}
        new = {one for one in shared - modules if (HERE / f"{one}.py").is_file()}
        modules |= new
        left += new
    return Sources(
        sorted(path for path in map(_path, ours) if (ROOT / path).is_file()),
        sorted(path for path in theirs if "\n" not in path and (PIN / path).is_file()),
    )


def imported(node: ast.AST) -> list[str]:
    """Return the modules that `from a.b import c` may mean."""
    if not isinstance(node, ast.ImportFrom) or not node.module:
        return []
    return [node.module, *(f"{node.module}.{one.name}" for one in node.names)]


def _path(module: str) -> str:
    return module.replace(".", "/") + ".py"
