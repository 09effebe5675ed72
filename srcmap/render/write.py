"""One answer, in the format that was asked for, to stdout."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from srcmap.render.console import Console, console_for, emit

_HOMES = {"variants": "as", "variant": "as", "where": "as", "show": "as", "anatomy": "as"}
"""Which pair of modules writes a page; whatever is not here sets things side by side."""


def renderer(format: str, kind: str = "variant") -> Any:  # noqa: A002
    """Return the module that writes pages of a kind in a format that people read."""
    home = _HOMES.get(kind)
    name = f"{home}_{format}" if home else f"contrast_{format}"
    return import_module(f"srcmap.render.{name}")


def write(kind: str, page: Any, format: str, lang: str) -> None:  # noqa: A002
    """Write `page`, one of `interface`'s, with the renderer's function called `kind`."""
    console = console_for(sys.stdout, lang) if format == "text" else Console(lang=lang)
    emit(getattr(renderer(format, kind), kind)(page, console))
