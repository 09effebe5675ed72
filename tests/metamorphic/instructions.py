"""Whether two programs compile to the same instructions but for the names of variables."""

from __future__ import annotations

import dis
import sys
import warnings
from types import CodeType

import pytest

# From 3.13 on, loads are fused two by two in the order in which closures list their names.
comparable = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="instructions depend on how names sort from Python 3.13 on"
)

# How closures are set up depends on the order of their names, not on what they do.
_SET_UP = {"MAKE_CELL", "COPY_FREE_VARS", "LOAD_CLOSURE", "BUILD_TUPLE", "LOAD_FAST_CHECK"}
_NAMED = ("FAST", "DEREF", "_NAME", "GLOBAL")


def difference(old: str, new: str) -> str:
    """Say where the second program does something else; nothing when it does the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in upstream strings
        return _difference(compile(old, "old", "exec"), compile(new, "new", "exec"))


def _difference(old: CodeType, new: CodeType) -> str:
    before, after = _instructions(old), _instructions(new)
    if [i.opname for i in before] != [i.opname for i in after]:
        return f"{old.co_name}: other instructions"
    there: dict[str, str] = {}
    back: dict[str, str] = {}
    for a, b in zip(before, after, strict=True):
        if isinstance(a.argval, CodeType) and (inner := _difference(a.argval, b.argval)):
            return f"{old.co_name}.{inner}"
        named = isinstance(a.argval, str) and any(kind in a.opname for kind in _NAMED)
        if named and "IMPORT" not in a.opname:
            once = there.setdefault(a.argval, b.argval) == b.argval
            if not once or back.setdefault(b.argval, a.argval) != a.argval:
                return f"{old.co_name}: {a.argval} became {b.argval} and something else"
    return ""


def _instructions(code: CodeType) -> list[dis.Instruction]:
    return [i for i in dis.get_instructions(code) if i.opname not in _SET_UP]
