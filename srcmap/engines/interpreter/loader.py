"""An upstream file -> a module with its kernels, without running its demos.

Definitions and plain constants of the file's top level are executed; calls for their effect, loops,
and whatever rests on their results are left out, and `__name__` is not `__main__`. Files beside it
can be imported as usual, with the same care.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from srcmap.engines.interpreter.kernels import options
from srcmap.engines.interpreter.standins import install

if TYPE_CHECKING:
    from collections.abc import Sequence

_TRUSTED = {
    *("dict", "list", "tuple", "set", "int", "float", "str", "len", "min", "max", "range", "zip"),
    *("sum", "abs", "sorted", "round", "getattr", "hasattr", "Path", "TypeVar", "namedtuple"),
    *("partial", "lru_cache", "getLogger", "environ", "get", "join", "dirname", "abspath", "sqrt"),
    *("jit", "autotune", "macro", "prim_func", "dtype", "dynamic", "symbolic", "infinity"),
    *("ceildiv", "cdiv", "next_power_of_2", "DataType", "device", "product", "compile", "const"),
}
"""Functions that a constant may be computed with: they have no effect."""


_beside: list[_Beside] = []


def prepare(dialect: str) -> None:
    """Make this process ready to load upstream files of a dialect."""
    import numpy as np

    np.seterr(all="ignore")
    install(dialect)


def load(path: Path, source: str | None = None) -> ModuleType:
    """Load one file. `source` stands for its text when that was mutated."""
    for old in _beside:
        old.leave()
    finder = _Beside(path.parent)
    _beside[:] = [finder]
    sys.meta_path.insert(1, finder)
    options.forget(str(path))
    text = path.read_text(encoding="utf-8") if source is None else source
    return _executed(path.stem, path, text)


def _executed(name: str, path: Path, text: str) -> ModuleType:
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    _beside[0].loaded.add(name)
    tree = ast.parse(text)
    options.sources[str(path)] = ast.parse(text)
    options.findings.sources.add(str(path))
    kept = ast.Module(without_demos(tree), [])
    exec(compile(kept, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102 - what importing does
    return module


class _Beside(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports neighbours of the file, without their demos either."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loaded: set[str] = set()
        sys.path.insert(0, str(folder))

    def leave(self) -> None:
        """Forget the folder and its modules: other folders have files of the same names."""
        sys.meta_path.remove(self)
        sys.path.remove(str(self.folder))
        for name in self.loaded:
            sys.modules.pop(name, None)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec when there is such a file beside."""
        path = self.folder / f"{name}.py"
        if "." in name or not path.is_file():
            return None
        self.loaded.add(name)
        return importlib.machinery.ModuleSpec(name, self, origin=str(path))

    def create_module(self, _spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the file's definitions."""
        path = Path(str(module.__spec__ and module.__spec__.origin))
        text = path.read_text(encoding="utf-8")
        module.__file__ = str(path)
        options.sources[str(path)] = ast.parse(text)
        options.findings.sources.add(str(path))
        kept = ast.Module(without_demos(ast.parse(text)), [])
        exec(compile(kept, str(path), "exec", dont_inherit=True), vars(module))  # noqa: S102


def without_demos(tree: ast.Module) -> list[ast.stmt]:
    """Return the statements of a file that define something, without those that do something."""
    dropped: set[str] = set()
    return [statement for statement in tree.body if _kept(statement, dropped)]


def _kept(node: ast.stmt, dropped: set[str]) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or _extends_path(node.value)
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        return _kept_assignment(node, dropped)
    if isinstance(node, ast.If):
        if "__name__" in {n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)}:
            return False
        node.body = [s for s in node.body if _kept(s, dropped)] or [ast.Pass()]
        node.orelse = [s for s in node.orelse if _kept(s, dropped)]
        ast.fix_missing_locations(node)
        return _is_pure(node.test, dropped)
    return isinstance(node, ast.Try)


def _kept_assignment(node: Any, dropped: set[str]) -> bool:
    if node.value is None or _is_pure(node.value, dropped):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        dropped.update(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
    return False


def _is_pure(value: ast.expr, dropped: set[str]) -> bool:
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id in dropped:
            return False
        if isinstance(node, ast.Call):
            named = node.func
            name = getattr(named, "attr", getattr(named, "id", ""))
            if name not in _TRUSTED:
                return False
    return True


def _extends_path(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in (
        "sys.path.insert",
        "sys.path.append",
    )
