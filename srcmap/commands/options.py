"""Options that several commands take, with one wording."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Optional

import typer


class Language(str, Enum):
    """What `--lang` accepts."""

    en = "en"
    zh = "zh"


class Format(str, Enum):
    """What `--format` accepts."""

    text = "text"
    json = "json"
    markdown = "markdown"


# typer evaluates these on Python 3.10, where `Language | None` inside Annotated is not yet safe.
Lang = Annotated[
    Optional[Language],  # noqa: UP045
    typer.Option("--lang", help="cli.lang", show_default=False),
]
"""Declared for the parser and the help; `i18n.language()` is what was asked for."""
FormatOption = Annotated[Format, typer.Option("--format", help="cli.format")]
Pin = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--pin", metavar="VERSION", help="cli.pin", show_default=False),
]
Repo = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--repo", metavar="REPO", help="cli.repo", show_default=False),
]
