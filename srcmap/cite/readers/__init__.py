"""Which reader a document needs, by its name. A reader never raises: odd text is plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from srcmap.cite.source import Source

if TYPE_CHECKING:
    from srcmap.cite.page import Page

Kind = Literal["markdown", "rst", "latex", "plain", "notebook", "python"]

SUFFIXES: dict[str, Kind] = {
    ".md": "markdown", ".markdown": "markdown", ".mdx": "markdown", ".qmd": "markdown",
    ".myst": "markdown", ".rst": "rst", ".rest": "rst", ".tex": "latex", ".ltx": "latex",
    ".sty": "latex", ".ipynb": "notebook", ".py": "python", ".pyi": "python", ".txt": "plain",
    ".text": "plain",
}  # fmt: skip


def kind_of(name: str) -> Kind:
    """Give the kind of a document; plain text when its name says nothing."""
    dot = name.rfind(".")
    return SUFFIXES.get(name[dot:].lower(), "plain") if dot >= 0 else "plain"


def read(data: bytes, kind: Kind) -> Page:
    """Read a document."""
    if kind == "rst":
        from srcmap.cite.readers.rst import read_rst

        return read_rst(Source(data))
    if kind == "latex":
        from srcmap.cite.readers.latex import read_latex

        return read_latex(data)
    if kind == "notebook":
        from srcmap.cite.readers.notebook import read_notebook

        return read_notebook(data)
    if kind == "python":
        from srcmap.cite.readers.python import read_python

        return read_python(Source(data))
    from srcmap.cite.readers.markdown import read_markdown

    return read_markdown(Source(data))
