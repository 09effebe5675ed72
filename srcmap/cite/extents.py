"""Where the concepts of a file are: what the map says, and what anatomy sees beyond it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.cite.shelf import Shelf, Tree
    from srcmap.model import Lines

_READ = 300
"""How many files are kept as anatomy saw them."""


class Extent(NamedTuple):
    """One place that does one concept."""

    concept: str
    lines: Lines
    context: Lines
    detail: str = ""


class Extents:
    """Knows the concepts of every file of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._seen = lru_cache(_READ)(_anatomy)

    def mapped(self, tree: Tree, path: str) -> list[Extent]:
        """List what the map has in a file."""
        entries = self._shelf.entries(tree, path)
        return [
            Extent(e.concept, e.lines, e.context or e.lines, e.detail) for e in entries if e.lines
        ]

    def named(self, tree: Tree, path: str, concepts: Sequence[str]) -> list[Extent]:
        """List the places of some concepts; anatomy is asked for those that the map lacks."""
        mapped = self.mapped(tree, path) if concepts else []
        found = [e for c in concepts for e in mapped if e.concept == c]
        lacking = [c for c in concepts if not any(e.concept == c for e in found)]
        if lacking:
            seen = self._read(tree, path)
            found += [e for c in lacking for e in seen if e.concept == c]
        if "check-inf" in lacking and not any(e.concept == "check-inf" for e in found):
            found += self.named(tree, path, ["check-inf-disabled"])
        return found

    def _read(self, tree: Tree, path: str) -> Sequence[Extent]:
        text = self._shelf.file(tree, path)
        if text is None or not path.endswith(".py") or "T.Kernel" not in text.text:
            return ()
        return self._seen(tree.blobs[path], path, text.text)


def _anatomy(_blob: str, path: str, text: str) -> tuple[Extent, ...]:
    from srcmap.anatomy import read_source
    from srcmap.errors import SrcmapError

    try:
        kernels = read_source(text.encode(), path).kernels
    except SrcmapError:
        return ()
    return tuple(_unique(
        Extent(site.concept, site.lines, site.context, site.detail)
        for kernel in kernels if kernel.kind != "backward" for site in kernel.sites
    ))  # fmt: skip


def _unique(extents: Iterable[Extent]) -> Iterable[Extent]:
    return dict.fromkeys(extents)
