"""Tables of citations in Markdown: pipes for GitHub, a list-table for MyST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.render.tables import CODE

if TYPE_CHECKING:
    from srcmap.render.tables import CiteRow, CiteTable


def table(page: CiteTable) -> str:
    """Write pipe tables, one for each group."""
    parts = []
    for group in page.groups:
        head = [*map(_plain, page.heads)]
        rows = [[_cell(row, column) for column in page.columns] for row in group.rows]
        lines = [head, ["---"] * len(head), *rows]
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        parts.append(f"**{_plain(group.title)}**\n\n{text}" if group.title else text)
    return "\n\n".join(parts)


def myst(page: CiteTable) -> str:
    """Write `list-table` directives, one for each group."""
    parts = []
    for group in page.groups:
        rows = [[*map(_plain, page.heads)]]
        rows += [[_cell(row, column, pipes=False) for column in page.columns] for row in group.rows]
        lines = [f"```{{list-table}} {_plain(group.title)}".rstrip(), ":header-rows: 1", ""]
        for cells in rows:
            lines += [
                f"{'* -' if n == 0 else '  -'} {cell}".rstrip() for n, cell in enumerate(cells)
            ]
        parts.append("\n".join([*lines, "```"]))
    return "\n\n".join(parts)


def link(text: str, url: str | None) -> str:
    """Write a place as code, linked where there is a page."""
    shown = _code(text)
    return f"[{shown}]({url})" if url else shown


def _cell(row: CiteRow, column: str, *, pipes: bool = True) -> str:
    value = row.values[column]
    if column == "location":
        shown = link(value, row.url)
    elif column == "link":
        shown = f"<{value}>" if value else ""
    else:
        shown = _code(value) if column in CODE and value else _plain(value)
    return shown if not pipes else shown.replace("|", "\\|").replace("\\\\|", "\\|")


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _plain(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\`*_[]<>" else char for char in text)
