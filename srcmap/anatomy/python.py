"""A Python file to its anatomy: every kernel, and the library definitions that kernels lean on."""

from __future__ import annotations

from srcmap.anatomy.kernel_reader import Definitions, read_kernel
from srcmap.anatomy.kernels import kernel_roots, qualnames
from srcmap.model import FileAnatomy, KernelAnatomy
from srcmap.parse.python import PythonFile, parse_python


def read_python(data: bytes, path: str) -> FileAnatomy:
    """The anatomy of one Python file.

    Raises ParseError when no top-level statement of it can be read.
    """
    file = parse_python(data, path)
    names = qualnames(file.tree)
    definitions = Definitions(names)
    kernels = [read_kernel(root, names[root.function], file, definitions) for root in kernel_roots(file.tree)]
    return FileAnatomy(
        path=path, language="python", kernels=(*kernels, *_library(file)), problems=file.problems
    )


def _library(file: PythonFile) -> tuple[KernelAnatomy, ...]:
    from srcmap.anatomy.library import library_sites
    from srcmap.model import Lines

    sites = library_sites(file.tree, file.lines)
    if not sites:
        return ()
    whole = Lines(1, max(1, len(file.lines)))
    return (KernelAnatomy(qualname=file.path, kind="file", lines=whole, sites=tuple(sites)),)
