"""What the reader looks through: its width, colours, links and language, and the writing itself."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from srcmap.errors import SrcmapError

if TYPE_CHECKING:
    from collections.abc import Mapping

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_LINKING_PROGRAMS = ("iterm.app", "wezterm", "vscode", "ghostty", "hyper", "tabby", "rio", "zed")
_LINKING_TERMS = ("kitty", "alacritty", "foot", "ghostty", "wezterm", "contour")


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """How to write for one reader. The default is a plain pipe: no colour, nothing wrapped."""

    lang: str = "en"
    width: int | None = None
    """Cells in a line; None for a pipe, where each answer is one line, made for grep."""
    colour: bool = False
    links: bool = False
    """Whether OSC 8 hyperlinks are understood at the other end."""

    def style(self, text: str, name: str) -> str:
        """`text` in one of the styles, where there is colour."""
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if self.colour and text else text

    def link(self, text: str, target: str | None) -> str:
        """`text` that leads to `target`, where links work and there is a target."""
        if not self.links or not target:
            return text
        return f"\x1b]8;;{target}\x1b\\{text}\x1b]8;;\x1b\\"


def console_for(
    stream: TextIO | None, lang: str, environ: Mapping[str, str] | None = None
) -> Console:
    """Look at `stream`; NO_COLOR, FORCE_COLOR, FORCE_HYPERLINK, COLUMNS and TERM are heeded."""
    values = os.environ if environ is None else environ
    terminal = _is_terminal(stream)
    return Console(
        lang=lang,
        width=_width(stream, terminal, values),
        colour=_colour(terminal, values),
        links=_links(terminal, values),
    )


NARROWEST = 20
"""Cells below which nothing can be laid out."""
_width_asked: list[int | None] = [None]
_paged = [True]


def use(*, width: int | None = None, paged: bool = True) -> None:
    """Set what `--width` and `--no-pager` ask for; the command line does so, before any command."""
    _width_asked[0], _paged[0] = width, paged


_STDOUT: Any = object()


def emit(text: str, stream: TextIO | None = _STDOUT) -> None:
    """Write an answer. A reader that has gone away (`| head`) is no error.

    On a terminal that is too low for it the answer goes through a pager: `PAGER`, else less.

    SrcmapError when it cannot be written, as to a full disk.
    """
    out = sys.stdout if stream is _STDOUT else stream
    if out is None:  # started with the stream closed, `>&-`
        return
    if hasattr(out, "reconfigure"):  # an encoding without Chinese must not stop the answer
        out.reconfigure(errors="replace")
    if out is sys.stdout and _shown_by_pager(text, out):
        return
    try:
        out.write(text if text.endswith("\n") or not text else text + "\n")
        out.flush()
    except OSError as error:
        # Python flushes once more at exit and would complain again; there is nobody to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        if not isinstance(error, BrokenPipeError):
            message = f"the answer could not be written: {error.strerror}"
            raise SrcmapError(message, slug="disk") from error


def _shown_by_pager(text: str, out: TextIO) -> bool:
    """Show a long answer page by page, where there is a terminal and a pager."""
    if not _paged[0] or not _is_terminal(out) or os.environ.get("TERM") == "dumb":
        return False
    if text.count("\n") < _rows(out):
        return False
    import shlex
    import shutil
    import signal
    import subprocess

    words = shlex.split(os.environ.get("PAGER", "less"))
    if not words or words[0] == "cat" or shutil.which(words[0]) is None:
        return False
    # What git does: quit when it fits, keep colours, leave the text on the screen.
    environ = {"LESS": "FRX", "LESSCHARSET": "utf-8", **os.environ}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the pager's own business
    try:
        done = subprocess.run(words, input=text.encode(errors="replace"), env=environ, check=False)
    except OSError:  # it is there and cannot be run
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode != _CANNOT_RUN


_CANNOT_RUN = 127
"""How a pager that is a script says that its program is missing."""


def _rows(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).lines or sys.maxsize
    except (OSError, ValueError):
        return sys.maxsize


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        return False


def _width(stream: TextIO | None, terminal: bool, values: Mapping[str, str]) -> int | None:
    if _width_asked[0] is not None:
        return _width_asked[0]
    columns = values.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(int(columns), NARROWEST)
    if not terminal or stream is None:
        return None
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, NARROWEST) or 80
    except (OSError, ValueError):
        return 80


def _colour(terminal: bool, values: Mapping[str, str]) -> bool:
    if values.get("NO_COLOR"):
        return False
    if values.get("FORCE_COLOR", "0") != "0":
        return True
    return terminal and values.get("TERM") != "dumb"


def _links(terminal: bool, values: Mapping[str, str]) -> bool:
    if forced := values.get("FORCE_HYPERLINK"):
        return forced != "0"
    if not terminal or values.get("TERM") == "dumb" or values.get("CI"):
        return False
    program, term = values.get("TERM_PROGRAM", "").lower(), values.get("TERM", "").lower()
    return (
        program in _LINKING_PROGRAMS
        or any(name in term for name in _LINKING_TERMS)
        or bool(values.get("WT_SESSION") or values.get("KITTY_WINDOW_ID"))
        or _at_least(values.get("VTE_VERSION"), 5000)
        or _at_least(values.get("KONSOLE_VERSION"), 201200)
    )


def _at_least(value: str | None, least: int) -> bool:
    return bool(value) and value is not None and value.isdecimal() and int(value) >= least
