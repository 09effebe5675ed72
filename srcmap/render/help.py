"""The help page of a command: plain, aligned by cells, readable in Chinese and at 50 columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from srcmap import i18n
from srcmap.render.console import Console, console_for
from srcmap.render.layout import columns, indented

if TYPE_CHECKING:
    from collections.abc import Sequence

_WIDEST = 100
"""Prose wider than this is hard to read, whatever the terminal."""


def page(command: Any, context: Any, commands: Sequence[tuple[str, str]]) -> str:
    """Help of `command`, a click command; `commands` are the names and lines below it."""
    console = console_for(sys.stdout, i18n.language())
    width = min(console.width or _WIDEST, _WIDEST)
    sections = [
        _usage(command, context, console),
        *_prose(command.help or "", width),
        _table(i18n.text("cli.head.commands", console.lang), commands, width, console),
        *_parameters(command, context, width, console),
        _examples(command.epilog or "", console),
    ]
    return "\n\n".join(section for section in sections if section)


def _usage(command: Any, context: Any, console: Console) -> str:
    pieces = " ".join(command.collect_usage_pieces(context))
    label = i18n.text("cli.head.usage", console.lang)
    return f"{console.style(label, 'bold')} {context.command_path} {pieces}"


def _prose(text: str, width: int) -> list[str]:
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return ["\n".join(indented(part, width, "")) for part in paragraphs]


def _parameters(command: Any, context: Any, width: int, console: Console) -> list[str]:
    rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for param in command.get_params(context):
        record = param.get_help_record(context)
        if record is not None:
            rows[param.param_type_name].append((record[0].strip(), _help(record[1], console.lang)))
    return [
        _table(i18n.text(f"cli.head.{kind}s", console.lang), found, width, console)
        for kind, found in rows.items()
    ]


def _help(text: str, lang: str) -> str:
    """Say the few words that the parser adds to a help line by itself."""
    if text.startswith("Show this message"):
        return i18n.text("cli.help", lang)
    text = text.replace("[required]", i18n.text("cli.required", lang))
    return text.replace("[default: ", i18n.text("cli.default", lang))


def _table(heading: str, rows: Sequence[tuple[str, str]], width: int, console: Console) -> str:
    if not rows:
        return ""
    widest = max(len(name) for name, _ in rows)
    if widest + 24 > width:  # no room beside the names: the text goes below
        lines = [line for row in rows for line in _stacked(row, width)]
    else:
        lines = columns(rows, width)
    return "\n".join([console.style(heading, "bold"), *lines])


def _stacked(row: tuple[str, str], width: int) -> list[str]:
    return [f"  {row[0]}", *indented(row[1], width, "      ")]


def _examples(text: str, console: Console) -> str:
    if not text:
        return ""
    heading = console.style(i18n.text("cli.head.examples", console.lang), "bold")
    return "\n".join([heading, *(f"  {line}" for line in text.splitlines())])
