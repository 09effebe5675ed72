"""Pages that set things side by side, to Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.render.as_markdown import code, join, place, plain, table, titles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.render.console import Console
    from srcmap.render.contrast_pages import Change, DiffBlock, DiffPage, Spot


def diff(page: DiffPage, console: Console) -> str:
    """Write what a variant does otherwise than its base, a table for each file."""
    blocks = (_diff_block(block, console) for block in page.blocks)
    return join([f"# {plain(page.title)}", plain(page.what), *blocks, *map(plain, page.remarks)])


def _diff_block(block: DiffBlock, console: Console) -> str:
    mark, concept, why = titles(("mark", "concept", "why"), console)
    head = [mark, concept, *map(code, block.names), why]
    files = zip(block.names, block.paths, strict=True)
    paths = "\n".join(f"- {code(name)}: {code(path)}" for name, path in files if path)
    quoted = (f"> {plain(remark)}" for remark in block.remarks)
    parts = [f"## {plain(block.heading)}", paths, *quoted]
    for heading, changes in block.parts:
        parts.append(f"### {plain(heading)}\n\n{table(head, map(_change, changes))}")
    return join([*parts, plain(block.same)])


def _change(change: Change) -> list[str]:
    places = (spots(change.after), spots(change.before))
    return [code(change.mark), code(change.concept), *places, plain(change.why)]


def spots(found: Iterable[Spot]) -> str:
    """Write places one below the other in a cell."""
    return "<br>".join(_spot(spot) for spot in found)


def _spot(spot: Spot) -> str:
    detail = code(spot.detail) if spot.detail else ""
    behind = (plain(part) for part in (spot.site, spot.unsure) if part)
    return " ".join(part for part in (place(spot.place), *behind, detail) if part)
