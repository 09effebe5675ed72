"""`.srcmap.toml`: what a project says about itself. Each area of srcmap has a table of its own."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from srcmap.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = ".srcmap.toml"


def read_table(project: Path | None, name: str) -> dict[str, Any]:
    """Give one table of the settings; empty when there is none. UsageError for bad TOML."""
    if project is None:
        return {}
    path = project / FILE
    try:
        whole = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}", slug="settings") from error
    table = whole.get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {name}: expected a table", slug="settings")
    return table
