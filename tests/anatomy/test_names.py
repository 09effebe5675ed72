"""Which expression means which name of tilelang: by imports and scope, never by spelling."""

from __future__ import annotations

import ast

import pytest

from srcmap.anatomy.names import aliases_in, all_arguments, canonical

IMPORTS = [
    ("import tilelang.language as T", "T.copy", "copy"),
    ("from tilelang import language as L", "L.copy", "copy"),
    ("import tilelang", "tilelang.language.copy", "copy"),
    ("import tilelang.language", "tilelang.language.copy", "copy"),
    ("import tilelang as tl", "tl.language.copy", "copy"),
    ("from tilelang.language import copy", "copy", "copy"),
    ("from tilelang.language import copy as move", "move", "copy"),
    ("import tilelang.language as T", "T.tile.fill", "tile.fill"),
    ("import tilelang as tl", "tl.jit", "tilelang.jit"),
    ("from tilelang import jit", "jit", "tilelang.jit"),
    ("from tilelang.autotuner import autotune as tune", "tune", "tilelang.autotuner.autotune"),
    ("import tilelang", "tilelang", "tilelang"),
    ("import tilelang.language as T\nL = T", "L.copy", "copy"),
    ("import tilelang.language as T\nmove = T.copy", "move", "copy"),
    ("try:\n    import tilelang.language as T\nexcept ImportError:\n    pass", "T.copy", "copy"),
    ("try:\n    x\nexcept ImportError:\n    import tilelang.language as T", "T.copy", "copy"),
    ("if x:\n    pass\nelse:\n    import tilelang.language as T", "T.copy", "copy"),
    # what only looks like it
    ("import triton.language as T", "T.copy", None),
    ("from tvm.script import tir as T", "T.copy", None),
    ("", "T.copy", None),
    ("import tilelang.language as X", "T.copy", None),
    ("from .tilelang import language as T", "T.copy", None),
    ("from . import language as T", "T.copy", None),
    ("import tilelang.language as T", "T().copy", None),
    ("import tilelang.language as T", "x.T.copy", None),
    ("import tilelang.language as T\nT2 = T.copy(a, b)", "T2", None),
]


@pytest.mark.parametrize(
    ("source", "expression", "name"), IMPORTS, ids=[f"{s!r}: {e}" for s, e, _ in IMPORTS]
)
def test_meaning_of_a_name(source: str, expression: str, name: str | None) -> None:
    aliases = aliases_in((ast.parse(source),))
    assert canonical(ast.parse(expression, mode="eval").body, aliases) == name


SCOPES = [
    ("the module's import is seen inside", "def f():\n    pass", "copy"),
    ("a parameter hides it", "def f(T):\n    pass", None),
    ("so does a keyword parameter", "def f(*, T=None):\n    pass", None),
    ("and a variadic one", "def f(*T):\n    pass", None),
    ("and a dictionary", "def f(**T):\n    pass", None),
    (
        "an import inside wins over the parameter",
        "def f(T):\n    import tilelang.language as T",
        "copy",
    ),
    ("an own alias", "def f(X):\n    T = X", "copy"),
]


@pytest.mark.parametrize(
    ("function", "name"), [row[1:] for row in SCOPES], ids=[r[0] for r in SCOPES]
)
def test_scopes(function: str, name: str | None) -> None:
    tree = ast.parse(f"import tilelang.language as T\n\n\n{function}\n")
    inner = tree.body[-1]
    assert isinstance(inner, ast.FunctionDef)
    assert canonical(ast.parse("T.copy", mode="eval").body, aliases_in((tree, inner))) == name


def test_arguments_in_the_order_of_the_signature() -> None:
    function = ast.parse("def f(a, /, b, *c, d, **e): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert sorted(one.arg for one in all_arguments(function)) == ["a", "b", "c", "d", "e"]
    assert [one.arg for one in all_arguments(function)][:2] == ["a", "b"]
