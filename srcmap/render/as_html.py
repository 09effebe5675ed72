"""Tables of citations as HTML fragments, made to be put into a page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from srcmap.render.tables import CODE

if TYPE_CHECKING:
    from srcmap.render.tables import CiteRow, CiteTable


def table(page: CiteTable) -> str:
    """Write one `table` element for each group."""
    return "\n".join(_group(page, number) for number in range(len(page.groups)))


def _group(page: CiteTable, number: int) -> str:
    group = page.groups[number]
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in page.heads)
    rows = [
        "<tr>" + "".join(f"<td>{_cell(row, column)}</td>" for column in page.columns) + "</tr>"
        for row in group.rows
    ]
    caption = [f"<caption>{escape(group.title)}</caption>"] if group.title else []
    return "\n".join(
        ['<table class="srcmap">', *caption, f"<thead><tr>{heads}</tr></thead>", "<tbody>",
         *rows, "</tbody>", "</table>"]
    )  # fmt: skip


def link(text: str, url: str | None) -> str:
    """Write a place as code, linked where there is a page."""
    shown = f"<code>{escape(text)}</code>"
    return f'<a href="{escape(url)}">{shown}</a>' if url else shown


def _cell(row: CiteRow, column: str) -> str:
    value = row.values[column]
    if column == "location":
        return link(value, row.url)
    if column == "link" and value:
        return f'<a href="{escape(value)}">{escape(value)}</a>'
    return f"<code>{escape(value)}</code>" if column in CODE and value else escape(value)
