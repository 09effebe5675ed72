"""One answer, in the format that was asked for, to stdout."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from srcmap.render.console import Console, console_for, emit

if TYPE_CHECKING:
    from srcmap.render.interface import Renderer

_RENDERERS = {"text": "srcmap.render.as_text", "markdown": "srcmap.render.as_markdown"}


def renderer(format: str) -> Renderer:  # noqa: A002
    """Return the renderer of a format that people read; JSON is written by `as_json`."""
    found: Any = import_module(_RENDERERS[format])
    return found  # type: ignore[no-any-return]


def write(kind: str, page: Any, format: str, lang: str) -> None:  # noqa: A002
    """Write `page`, one of `interface`'s, with the renderer's function called `kind`."""
    console = console_for(sys.stdout, lang) if format == "text" else Console(lang=lang)
    emit(getattr(renderer(format), kind)(page, console))
