"""`ast` and LibCST agree on the lines of every definition, so either may be asked."""

from __future__ import annotations

import os

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from srcmap.errors import ParseError
from srcmap.parse.python import parse_python
from tests.corpus.pins import PINS, checkout, python_files

pytestmark = pytest.mark.pins

# LibCST with positions takes a tenth of a second a file; SRCMAP_ALL_FILES=1 takes all of them.
_EVERY = 1 if os.environ.get("SRCMAP_ALL_FILES") else 12

Span = tuple[str, int, int]


def _by_ast(data: bytes, path: str) -> list[Span]:
    import ast

    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = [n for n in ast.walk(parse_python(data, path).tree) if isinstance(n, definitions)]
    return sorted((n.name, n.lineno, n.end_lineno or 0) for n in nodes)


def _by_libcst(data: bytes) -> list[Span]:
    wrapper = MetadataWrapper(cst.parse_module(data), unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    return sorted(
        (node.name.value, span.start.line, span.end.line)
        for node, span in positions.items()
        if isinstance(node, (cst.FunctionDef, cst.ClassDef))
    )


@pytest.mark.parametrize("pin", PINS)
def test_spans_of_definitions(pin: str) -> None:
    here = checkout(pin)
    compared, differing = 0, dict[str, list[Span]]()
    for path in python_files(pin)[::_EVERY]:
        data = here.read(path)
        try:
            ours, theirs = _by_ast(data, path), _by_libcst(data)
        except (ParseError, cst.ParserSyntaxError):
            continue
        compared += len(ours)
        if ours != theirs:
            differing[path] = sorted(set(ours) ^ set(theirs))
    assert not differing
    assert compared > 200
