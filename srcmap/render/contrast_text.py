"""Pages that set things side by side, to text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.render.as_text import linked, location, paragraphs, remarks, warned
from srcmap.render.layout import cells, indented, pad, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.render.console import Console
    from srcmap.render.contrast_pages import Change, DiffBlock, DiffPage, Spot


def diff(page: DiffPage, console: Console) -> str:
    """Write what a variant does otherwise than its base."""
    head = [console.style(page.title, "bold"), *indented(page.what, console.width, "  ")]
    blocks = [part for block in page.blocks for part in _diff_block(block, console)]
    return paragraphs([head, *blocks, remarks(page.remarks, console)])


def _diff_block(block: DiffBlock, console: Console) -> list[list[str]]:
    widest = max(map(cells, block.names))
    head = [console.style(block.heading, "bold")]
    head += [
        f"  {pad(name, widest)}  {visible(path)}"
        for name, path in zip(block.names, block.paths, strict=True)
        if path
    ]
    head += [line for remark in block.remarks for line in warned(remark, console)]
    parts = [
        [heading, *_changes(changes, block.names, console)] for heading, changes in block.parts
    ]
    return [head, *parts, indented(block.same, console.width, "") if block.same else []]


def _changes(changes: Sequence[Change], names: tuple[str, str], console: Console) -> list[str]:
    label = max((cells(change.concept) for change in changes), default=0)
    if console.width is None:
        return [_piped(change, label) for change in changes]
    lines, width = [], max(map(cells, names))
    for change in changes:
        first = f"  {change.mark} {pad(change.concept, label)}  "
        lines += [line.rstrip() for line in indented(change.why, console.width, first)]
        for name, spots in zip(names, (change.after, change.before), strict=True):
            lines += [f"      {pad(name, width)}  {spot(s, console)}" for s in spots]
    return lines


def _piped(change: Change, label: int) -> str:
    """One line, made for grep: the variant's places, then the base's behind `<-`."""
    after = " ".join(str(s.place) for s in change.after)
    before = " ".join(str(s.place) for s in change.before)
    places = " ".join(part for part in (after, before and f"<- {before}") if part)
    return f"  {change.mark} {pad(change.concept, label)}  {places}  {change.why}".rstrip()


def spot(found: Spot, console: Console) -> str:
    """Write a place, and behind it what tells it apart."""
    text, target = location(found.place)
    behind = " ".join(part for part in (found.site, bracketed(found.detail), found.unsure) if part)
    return f"{linked(text, target, 0, console)}  {behind}".rstrip()


def bracketed(detail: str) -> str:
    """Write a value as the pages do."""
    return f"[{detail}]" if detail else ""
