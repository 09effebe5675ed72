"""`srcmap drift` for a terminal or a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.render.layout import columns, indented, visible

if TYPE_CHECKING:
    from srcmap.render.console import Console
    from srcmap.render.drift_pages import DriftPage, DriftRow

_COLOURS = {"removed": "red", "changed": "yellow", "ambiguous": "yellow", "unjudged": "red"}


def page(shown: DriftPage, console: Console) -> str:
    """Lay out the whole page: summary, then each group, then the remarks."""
    parts = [console.style(shown.title, "bold"), _summary(shown, console)]
    parts += [_group(word, rows, console) for word, rows in shown.groups]
    if shown.documents:
        rows = [f"  {visible(line)}" for line in shown.documents]
        parts.append("\n".join([console.style(shown.documents_title, "bold"), *rows]))
    parts += ["\n".join(indented(line, console.width, "")) for line in shown.remarks]
    return "\n\n".join(parts)


def _summary(shown: DriftPage, console: Console) -> str:
    rows = [shown.head, *((v, str(n), str(p), what) for v, n, p, what in shown.summary)]
    return "\n".join(columns(rows, console.width))


def _group(word: str, rows: tuple[DriftRow, ...], console: Console) -> str:
    head = console.style(f"{word} ({len(rows)})", _COLOURS.get(word, "bold"))
    return "\n".join([head, *(_row(row, console) for row in rows)])


def _row(row: DriftRow, console: Console) -> str:
    old, new = (
        console.link(visible(row.old), row.old_url),
        console.link(visible(row.new), row.new_url),
    )
    place = " -> ".join(part for part in (old, new) if part)
    facts = ", ".join(part for part in (row.grade, row.methods, row.similarity) if part)
    subject = visible(row.subject)
    first = f"  {place}  [{facts}]" if facts else f"  {place}"
    lines = [first if subject in (row.old, row.new) else f"{first}  {subject}"]
    for detail in row.details:
        lines += indented(visible(detail), console.width, "      ")
    return "\n".join(lines)
