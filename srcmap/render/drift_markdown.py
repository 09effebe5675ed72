"""`srcmap drift` as Markdown: a report that fits a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.render.console import Console
    from srcmap.render.drift_pages import DriftPage, DriftRow

MOST = 60_000
"""Characters; GitHub refuses a comment of more than 65536."""
_FEWEST = 5
"""Rows that a group keeps, however long the report."""


def page(shown: DriftPage, console: Console) -> str:  # noqa: ARG001
    """Write the report; groups are cut, and say so, when it would not fit a comment."""
    limit = max((len(rows) for _, rows in shown.groups), default=0)
    while True:
        text = _page(shown, limit)
        if len(text) <= MOST or limit <= _FEWEST:
            return text
        limit = max(_FEWEST, limit * 2 // 3)


def _page(shown: DriftPage, limit: int) -> str:
    parts = [f"## {_plain(shown.title)}", _summary(shown)]
    if shown.documents:
        rows = [f"- {_plain(line)}" for line in shown.documents]
        parts.append("\n".join([f"### {_plain(shown.documents_title)}", "", *rows]))
    parts += [_group(word, rows, shown.row_head, limit) for word, rows in shown.groups]
    parts += [_plain(line) for line in shown.remarks]
    return "\n\n".join(parts)


def _summary(shown: DriftPage) -> str:
    rows = [(f"`{v}`", str(n), str(p), _plain(what)) for v, n, p, what in shown.summary]
    return _table(shown.head, rows)


def _group(word: str, rows: Sequence[DriftRow], head: Sequence[str], limit: int) -> str:
    table = _table(head, map(_row, rows[:limit]))
    left = f"\n\n… +{len(rows) - limit}" if len(rows) > limit else ""
    title = f"<summary><code>{word}</code> ({len(rows)})</summary>"
    return f"<details open>{title}\n\n{table}{left}\n\n</details>"


def _row(row: DriftRow) -> list[str]:
    facts = ", ".join(part for part in (row.grade, row.methods, row.similarity) if part)
    details = "<br>".join(_plain(line) for line in row.details)
    old, new = _place(row.old, row.old_url), _place(row.new, row.new_url)
    return [_plain(row.subject), old, new, _plain(facts), details]


def _place(text: str, url: str | None) -> str:
    if not text:
        return ""
    code = "`" + re.sub(r"[\s`]", " ", text).replace("|", r"\|") + "`"
    return f"[{code}]({url})" if url else code


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _plain(text: str) -> str:
    text = re.sub(r"\s+", " ", text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", text)
