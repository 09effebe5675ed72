"""Who may import whom: the direction of ARCHITECTURE.md, read off the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "srcmap"

# From the bottom up; a module imports its own layer and those before it.
LAYERS = (
    ("errors", "model"),
    ("i18n", "lock", "catalogue", "variantfile", "mapfile", "digest", "cache", "config"),
    ("checkout",),
    ("parse",),
    ("anatomy",),
    ("locate",),
    ("mapping", "contrast", "evidence", "searching", "counterparts", "filediff"),
    ("hardware",),
    ("drift", "cite"),
    ("engines",),
    ("verify",),
    ("render",),
    ("commands",),
    ("crash", "completing", "cli"),
    ("__main__",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}

# Where an outside library may be imported, by top-level names of modules.
OUTSIDE = {
    "git": ("checkout",),
    "libcst": ("parse",),
    "tree_sitter": ("parse",),
    "tree_sitter_cpp": ("parse",),
    "tree_sitter_markdown": ("parse",),
    "tree_sitter_python": ("parse",),
    "tomlkit": ("lock",),
    "rich": ("render", "cli"),
    "typer": ("commands", "cli"),
    "numpy": ("engines",),
    "ml_dtypes": ("engines",),
    "torch": ("engines",),
    "tilelang": ("engines",),
    "kernels": (),
}
FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """Return the top-level module that a file belongs to; empty for the package itself."""
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imports(tree: ast.AST, *, types: bool) -> Iterator[str]:
    """Yield imported modules in full; those for type checkers only with `types`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            if types:
                yield from imports(node, types=types)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only: a reader sees the direction"
            assert node.module is not None
            names = (alias.name for alias in node.names)
            whole = node.module in ("srcmap", "srcmap.render", "srcmap.commands")
            yield from (f"{node.module}.{n}" for n in names) if whole else [node.module]
        else:
            yield from imports(node, types=types)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_run_in_one_direction(path: Path) -> None:
    part = part_of(path)
    if not part:
        return
    assert part in RANK, f"{part} has no layer: add it to LAYERS, and to the architecture page"
    for name in imports(ast.parse(path.read_bytes()), types=True):
        package, _, rest = name.partition(".")
        used = rest.partition(".")[0]
        if package != "srcmap" or used not in RANK:
            continue
        assert RANK[used] <= RANK[part], f"{part} imports {name}, which stands above it"
        if part == "render":
            assert used in ("render", "model", "errors", "i18n"), "render sees plain data only"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_outside_libraries_stay_where_they_belong(path: Path) -> None:
    part = part_of(path)
    for name in imports(ast.parse(path.read_bytes()), types=False):
        library = name.partition(".")[0]
        if library in OUTSIDE:
            assert part in OUTSIDE[library], f"{part} imports {library}"


def test_kernels_do_not_import_srcmap() -> None:
    for path in sorted((ROOT / "kernels").rglob("*.py")):
        for name in imports(ast.parse(path.read_bytes()), types=True):
            assert name.partition(".")[0] != "srcmap", f"{path} imports {name}"


def loaded(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has loaded after `code`."""
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    return {name.partition(".")[0] for name in done.stderr.split()}


HEAVY = {"rich", "libcst", "tree_sitter", "numpy", "torch", "tilelang", "git"}


def test_importing_srcmap_pulls_nothing_heavy() -> None:
    assert not loaded("import srcmap") & (HEAVY | {"typer", "msgspec"})


@pytest.mark.parametrize(
    "argv", [["variant", "sink"], ["where", "math.cc:1"], ["--help"], ["variant", "--help"]]
)
def test_answering_from_the_maps_pulls_nothing_heavy(argv: list[str]) -> None:
    code = f"from srcmap.cli import run\nrun({argv!r})"
    assert not loaded(code) & (HEAVY | {"pydantic", "rapidfuzz", "tomlkit"})


def test_building_the_command_line_imports_no_command() -> None:
    script = (
        "import sys; from srcmap import cli; cli.build()\n"
        "print([m for m in sys.modules if m.startswith('srcmap.commands.')])"
    )
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['srcmap.commands.options']"
