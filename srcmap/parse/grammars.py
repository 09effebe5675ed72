"""Whether the installed grammars fit the installed tree-sitter core.

A grammar speaks one ABI version, the core a range of them, and they come in separate wheels.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

import msgspec

_GRAMMARS = (
    ("cpp", "tree_sitter_cpp", "language"),
    ("python", "tree_sitter_python", "language"),
    ("markdown", "tree_sitter_markdown", "language"),
    ("markdown_inline", "tree_sitter_markdown", "inline_language"),
)


class GrammarState(msgspec.Struct, frozen=True, kw_only=True):
    """One grammar, as installed."""

    name: str
    version: str | None
    """Of its wheel; None when it is not installed."""
    abi: int | None = None
    core: tuple[int, int] | None = None
    """The oldest and the newest ABI that the core takes; None when there is no core."""
    problem: str = ""
    """What was said when it could not be loaded; empty when it works."""


def grammar_states() -> tuple[GrammarState, ...]:
    """Load every grammar and say how that went. Never raises."""
    return tuple(_state(*grammar) for grammar in _GRAMMARS)


def _state(name: str, module: str, function: str) -> GrammarState:
    found = _version(module.replace("_", "-"))
    try:
        import tree_sitter as core

        span = (core.MIN_COMPATIBLE_LANGUAGE_VERSION, core.LANGUAGE_VERSION)
    except (ImportError, OSError) as error:
        return GrammarState(name=name, version=found, problem=str(error))
    try:
        language = core.Language(getattr(import_module(module), function)())
    except (ImportError, OSError, AttributeError, ValueError) as error:
        return GrammarState(name=name, version=found, core=span, problem=str(error))
    return GrammarState(name=name, version=found, abi=language.abi_version, core=span)


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
