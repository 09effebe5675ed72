"""A trace as text: each source line that stored something, and what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.i18n import text as said
from srcmap.render.layout import columns

if TYPE_CHECKING:
    from srcmap.render.console import Console
    from srcmap.render.trace_pages import TracePage, Value


def trace_text(page: TracePage, step: int, console: Console) -> str:
    """Return one iteration with its source, and the single numbers over all of them."""
    label = page.steps[step] if page.steps else "-"
    head = said(
        "trace.head",
        console.lang,
        path=page.path,
        check=page.check,
        row=page.row,
        block=", ".join(map(str, page.block)),
        step=label,
        first=page.steps[0] if page.steps else "-",
        last=page.steps[-1] if page.steps else "-",
    )
    shown: dict[int, list[Value]] = {}
    for value in page.at(step):
        shown.setdefault(value.line, []).append(value)
    lines = [console.style(head, "bold")]
    for line in page.lines:
        lines.append(f"{line.number:5}  {line.text}".rstrip())
        lines += [_value(value, line.concept, console) for value in shown.get(line.number, [])]
    return "\n".join([*lines, *_table(page, console)])


def _value(value: Value, concept: str, console: Console) -> str:
    role = f"{value.role} " if value.role else ""
    times = f"  ×{value.times}" if value.times > 1 else ""
    what = f"  [{concept}]" if concept else ""
    return f"       {console.style('=', 'dim')} {role}{value.buffer}: {value.text}{times}{what}"


def _table(page: TracePage, console: Console) -> list[str]:
    names, rows = page.table()
    if not names:
        return []
    head = said("trace.rows-over", console.lang)
    return ["", head, *columns([["", *names], *rows], None, indent="")]
