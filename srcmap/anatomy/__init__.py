"""What each statement of a kernel does, by data flow: bytes of a file to its anatomy."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from srcmap.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.model import FileAnatomy

PYTHON = {".py", ".pyi"}
CPP = {".cc", ".h", ".cpp", ".hpp", ".cu", ".cuh", ".cxx", ".hh"}
MARKDOWN = {".md", ".markdown"}
SUFFIXES = PYTHON | CPP | MARKDOWN


def read_source(
    data: bytes, path: str, sibling: Callable[[str], bytes | None] | None = None
) -> FileAnatomy:
    """The anatomy of a file, by its suffix.

    `sibling` gives the bytes of a file in the same folder, by name, or None: helpers that a kernel
    imports from its neighbours are followed through it.
    Raises ParseError when nothing of it can be read, or when srcmap does not read such files.
    """
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in PYTHON:
        from srcmap.anatomy.python import read_python

        return read_python(data, path, sibling)
    if suffix in CPP:
        from srcmap.anatomy.cpp import read_cpp

        return read_cpp(data, path)
    if suffix in MARKDOWN:
        from srcmap.anatomy.markdown import read_markdown

        return read_markdown(data, path)
    raise ParseError(
        f"{path}: srcmap reads Python, C++ and Markdown, not {suffix or 'files without a suffix'}",
        slug="parse",
        hint="name a file that ends in .py, .cc, .h, .cu or .md",
    )
