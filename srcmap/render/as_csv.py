"""Tables of citations as CSV: one table, groups as a first column."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.render.tables import CiteTable


def table(page: CiteTable) -> str:
    """Write comma separated values with a head of column ids, lines ended as RFC 4180 says."""
    out = io.StringIO()
    writer = csv.writer(out)
    grouped = any(group.title for group in page.groups)
    writer.writerow([*(["group"] if grouped else []), *page.columns])
    for group in page.groups:
        for row in group.rows:
            head = [group.title] if grouped else []
            writer.writerow([*head, *(_safe(row.values[column]) for column in page.columns)])
    return out.getvalue()


def _safe(value: str) -> str:
    """Keep a spreadsheet from reading a value as a formula."""
    return f"'{value}" if value[:1] in "=+-@\t\r" and len(value) > 1 else value
