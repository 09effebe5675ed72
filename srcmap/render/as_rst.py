"""Tables of citations in reStructuredText, as `list-table` directives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.render.tables import CODE

if TYPE_CHECKING:
    from srcmap.render.tables import CiteRow, CiteTable


def table(page: CiteTable) -> str:
    """Write one `list-table` for each group."""
    parts = []
    for group in page.groups:
        title = f" {_plain(group.title)}" if group.title else ""
        lines = [f".. list-table::{title}", "   :header-rows: 1", ""]
        rows = [[*map(_plain, page.heads)]]
        rows += [[_cell(row, column) for column in page.columns] for row in group.rows]
        for cells in rows:
            lines += [
                f"   {'* -' if n == 0 else '  -'} {cell}".rstrip() for n, cell in enumerate(cells)
            ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def link(text: str, url: str | None) -> str:
    """Write a place as an anonymous link, or as a literal where there is no page."""
    if not url:
        return f"``{text}``"
    return f"`{_plain(text)} <{url.replace('_', '%5F') if url.endswith('_') else url}>`__"


def _cell(row: CiteRow, column: str) -> str:
    value = row.values[column]
    if column in ("location", "link"):
        return link(value, row.url) if value else ""
    return f"``{value}``" if column in CODE and value else _plain(value)


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_|<>])", r"\\\1", text)
