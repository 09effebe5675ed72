"""A Python file to its anatomy: every kernel, and the library definitions that kernels lean on."""

from __future__ import annotations

from srcmap.anatomy.beside import Beside, Sibling, read_beside
from srcmap.anatomy.host import choices
from srcmap.anatomy.kernel_reader import Definitions, leading_comments, read_kernel, site_order
from srcmap.anatomy.kernels import KernelRoot, builder_names, kernel_roots, qualnames
from srcmap.anatomy.live import without_dead_code
from srcmap.model import FileAnatomy, KernelAnatomy, Lines, Note, Premise, Site
from srcmap.parse.python import PythonFile, parse_python


def read_python(data: bytes, path: str, sibling: Sibling | None = None) -> FileAnatomy:
    """The anatomy of one Python file.

    `sibling` gives the bytes of a file that this one imports from its own folder.
    Raises ParseError when no top-level statement of it can be read.
    """
    file = parse_python(data, path)
    without_dead_code(file.tree)
    names = qualnames(file.tree)
    definitions = Definitions(names)
    beside = read_beside(file.tree, sibling)
    roots = kernel_roots(file.tree, beside.functions, beside.aliases)
    kernels = [read_kernel(root, names[root.function], file, definitions) for root in roots]
    whole = _whole_file(file, [*_library(file), *_host(file, roots, kernels, beside, definitions)])
    return FileAnatomy(
        path=path, language="python", kernels=(*kernels, *whole), problems=file.problems
    )


def _library(file: PythonFile) -> tuple[Site, ...]:
    from srcmap.anatomy.library import library_sites

    return library_sites(file.tree, file.lines)


def _host(
    file: PythonFile,
    roots: list[KernelRoot],
    kernels: list[KernelAnatomy],
    beside: Beside,
    definitions: Definitions,
) -> list[Site]:
    """Choices on the host for kernels that attend or index."""
    pairs = zip(roots, kernels, strict=True)
    mine = [root for root, kernel in pairs if kernel.kind in ("attention", "indexer")]
    runners = builder_names(mine) | beside.runners
    if not runners or not any("topk" in line for line in file.lines):
        return []
    found = sorted(set(choices(file.tree, runners)))
    return [
        Site(
            concept="top-k",
            label=f"host n={number}" if len(found) > 1 else "host",
            lines=lines,
            context=leading_comments(file, lines),
            qualname=definitions.around(lines.first),
            proof=(Premise(note=Note("roles.host-choice"), lines=lines),),
        )
        for number, lines in enumerate(found, 1)
    ]


def _whole_file(file: PythonFile, sites: list[Site]) -> tuple[KernelAnatomy, ...]:
    """What belongs to the file and to no kernel: one entry named after it."""
    if not sites:
        return ()
    lines = Lines(1, max(1, len(file.lines)))
    ordered = tuple(sorted(sites, key=site_order))
    return (KernelAnatomy(qualname=file.path, kind="file", lines=lines, sites=ordered),)
