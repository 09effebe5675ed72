"""A bug in srcmap -> a log file with everything that a report needs."""

from __future__ import annotations

import platform
import sys
import traceback
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from srcmap import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LIBRARIES = ("typer", "rich", "msgspec", "libcst", "tree-sitter", "GitPython", "tomlkit")


def write_log(error: BaseException, argv: Sequence[str]) -> Path | None:
    """Write versions, arguments and traceback; return where, or None when that failed too."""
    text = "\n".join([*_facts(argv), "", *traceback.format_exception(error)])
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"bug-{datetime.now(timezone.utc):%Y%m%dT%H%M%S%f}.log"
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError:
        return None
    return path


def _folder() -> Path:
    from platformdirs import user_log_dir

    return Path(user_log_dir("srcmap", appauthor=False))


def _facts(argv: Sequence[str]) -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, version

    yield f"srcmap {__version__}"
    yield f"arguments: {list(argv)!r}"
    yield f"Python {sys.version.splitlines()[0]} on {platform.platform()}"
    for name in _LIBRARIES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:  # noqa: PERF203
            yield f"{name} is not installed"
