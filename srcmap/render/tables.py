"""Tables of citations as renderers take them, and single references in every markup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable


class CiteRow(msgspec.Struct, frozen=True, kw_only=True):
    """One place: its values by column, and the page that its location leads to."""

    values: dict[str, str]
    url: str | None = None
    plain: dict[str, Any] = {}
    """What JSON says of it."""


class CiteGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Rows under one title; an empty title for a table without groups."""

    title: str
    rows: tuple[CiteRow, ...]


class CiteTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table: the ids and titles of its columns, and its rows in groups."""

    columns: tuple[str, ...]
    heads: tuple[str, ...]
    groups: tuple[CiteGroup, ...]


CODE = frozenset({"variant", "concept", "site", "location", "digest", "version", "repo"})
"""Columns that are set as code."""


def reference(row: CiteRow, format: str) -> str:  # noqa: A002
    """Write the location of a row as a link, in the markup of a document."""
    from srcmap.render import as_html, as_latex, as_rst, cite_markdown

    writers: dict[str, Callable[[str, str | None], str]] = {
        "markdown": cite_markdown.link, "myst": cite_markdown.link, "rst": as_rst.link,
        "html": as_html.link, "latex": as_latex.link,
    }  # fmt: skip
    return writers[format](row.values["location"], row.url)
