"""What a model hands to those who print or draw it: plain data, and the two ways to write it."""

from __future__ import annotations

import json
from dataclasses import dataclass

Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """The answer of one model."""

    model: str
    """Which model, as on the command line."""
    title: str
    """One line above the table, with the sizes."""
    columns: tuple[str, ...]
    """Names of the columns, with units."""
    rows: tuple[tuple[Cell, ...], ...]
    """As many cells as columns; None where there is nothing to say."""
    notes: tuple[str, ...] = ()
    """Sentences below the table."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one line, or the bars of one colour."""

    label: str
    x: tuple[float | str, ...]
    y: tuple[float, ...]
    style: str = "line"
    """`line`, `points` or `bars`."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """The same answer as a picture."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False


def as_text(table: Table) -> str:
    """Return the table in columns: names to the left, numbers to the right."""
    cells = [[_written(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.columns, *cells, strict=True)]
    numeric = [all(not isinstance(row[i], str) for row in table.rows) for i in range(len(widths))]
    lines = [table.title, "", _line(table.columns, widths, numeric)]
    lines += [_line(row, widths, numeric) for row in cells]
    if table.notes:
        lines += ["", *table.notes]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...] | list[str], widths: list[int], numeric: list[bool]) -> str:
    placed = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    )
    return "  ".join(placed).rstrip()


def _written(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.2f}" if 0.01 <= abs(cell) < 1e6 or cell == 0 else f"{cell:.2e}"
    return cell


def as_json(table: Table) -> str:
    """Return the table as JSON: one object for each row, keyed by column."""
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    document = {
        "format": 1,
        "model": table.model,
        "title": table.title,
        "rows": rows,
        "notes": list(table.notes),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
