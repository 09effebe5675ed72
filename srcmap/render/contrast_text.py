"""Pages that set things side by side, to text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.i18n import text as said
from srcmap.render.as_text import colon, linked, location, paragraphs, remarks, warned
from srcmap.render.layout import cells, columns, indented, pad, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.render.console import Console
    from srcmap.render.contrast_pages import (
        Change,
        ComparePage,
        ConceptList,
        ConceptPage,
        DiffBlock,
        DiffPage,
        Doing,
        Facing,
        Hit,
        Pair,
        SearchPage,
        Spot,
    )


def diff(page: DiffPage, console: Console) -> str:
    """Write what a variant does otherwise than its base."""
    what = indented(page.what, console.width, "  ") if page.what else []
    head = [console.style(page.title, "bold"), *what]
    blocks = [part for block in page.blocks for part in _diff_block(block, console)]
    return paragraphs([head, *blocks, remarks(page.remarks, console)])


def _wrapped(text: str, console: Console) -> list[str]:
    return indented(text, console.width, "")


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
        [*_wrapped(heading, console), *_changes(changes, block.names, console)]
        for heading, changes in block.parts
    ]
    return [head, *parts, _wrapped(block.same, console) if block.same else []]


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


# -- compare ---------------------------------------------------------------------------------


def compare(page: ComparePage, console: Console) -> str:
    """Write two machines side by side; one below the other where there is no room."""
    head = [console.style(page.title, "bold"), *indented(page.what, console.width, "  ")]
    pairs = [part for pair in page.pairs for part in _pair(pair, page.machines, console)]
    return paragraphs([head, *pairs, remarks(page.remarks, console)])


def _pair(pair: Pair, machines: tuple[str, str], console: Console) -> list[list[str]]:
    rows = list(zip(machines, pair.names, pair.pins, map(visible, pair.paths), strict=True))
    head = [line.rstrip() for line in columns(rows, None, indent="")]
    head[0] = console.style(head[0], "bold")
    head[1] = console.style(head[1], "bold")
    head += [line for remark in pair.remarks for line in warned(remark, console)]
    parts = []
    for heading, rows_below in pair.parts:
        write = _alone if any(row.why for row in rows_below) else _facing
        parts.append([*_wrapped(heading, console), *write(rows_below, machines, console)])
    return [head, *parts]


def _facing(rows: Sequence[Facing], machines: tuple[str, str], console: Console) -> list[str]:
    if console.width is None:
        label = max(cells(row.concept) for row in rows)
        return [
            f"  {pad(row.concept, label)}  {_places(row.left)} | {_places(row.right)}"
            for row in rows
        ]
    table = [_facing_cells(row) for row in rows]
    widths = [max(cells(line[at][0]) for block in table for line in block) for at in (0, 1, 2)]
    if sum(widths) + 6 <= console.width:
        head = f"  {pad('', widths[0])}  {pad(machines[0], widths[1])}  {machines[1]}"
        return [head, *(_facing_line(line, widths, console) for b in table for line in b)]
    return [line for row in rows for line in _stacked_facing(row, machines, console)]


def _places(spots: Sequence[Spot]) -> str:
    return " ".join(str(s.place) for s in spots)


_Cell = tuple[str, str]


def _facing_cells(row: Facing) -> list[tuple[_Cell, _Cell, _Cell]]:
    """Lay a concept out in three columns: itself, and the places of both sides by file name."""
    count = max(len(row.left), len(row.right))
    left = [_short(s) for s in row.left] + [("", "")] * (count - len(row.left))
    right = [_short(s) for s in row.right] + [("", "")] * (count - len(row.right))
    names = [(row.concept, "")] + [("", "")] * (count - 1)
    return list(zip(names, left, right, strict=True))


def _short(found: Spot) -> _Cell:
    """Name a place by file name and lines: its folder stands in the heading."""
    name = f"{found.place.path.rpartition('/')[2]}:{found.place.lines}"
    behind = " ".join(part for part in (found.site, bracketed(found.detail)) if part)
    return f"{visible(name)} {behind}".rstrip(), found.place.url or ""


def _facing_line(line: tuple[_Cell, _Cell, _Cell], widths: Sequence[int], console: Console) -> str:
    shown = [
        linked(text, url, width, console) for (text, url), width in zip(line, widths, strict=True)
    ]
    return ("  " + "  ".join(shown)).rstrip()


def _stacked_facing(row: Facing, machines: tuple[str, str], console: Console) -> list[str]:
    lines = indented(row.what, console.width, f"  {row.concept}  ", "    ")
    width = max(map(cells, machines))
    for machine, spots in zip(machines, (row.left, row.right), strict=True):
        lines += [f"    {pad(machine, width)}  {spot(s, console)}" for s in spots]
    return lines


def _alone(rows: Sequence[Facing], machines: tuple[str, str], console: Console) -> list[str]:
    """Write what one side has, and why the other has not; a shared reason is said once."""
    del machines
    if console.width is None:
        label = max(cells(row.concept) for row in rows)
        return [
            f"  {pad(row.concept, label)}  {_places(row.left or row.right)}  {row.why}"
            for row in rows
        ]
    reasons: dict[str, list[Facing]] = {}
    for row in rows:
        reasons.setdefault(row.why, []).append(row)
    lines = []
    for reason, shared in reasons.items():
        lines += indented(reason, console.width, "  ")
        label = max(cells(row.concept) for row in shared)
        for row in shared:
            for number, found in enumerate(row.left or row.right):
                name = "" if number else row.concept
                lines.append(f"    {pad(name, label)}  {spot(found, console)}".rstrip())
    return lines


# -- concept ---------------------------------------------------------------------------------


def concept(page: ConceptPage, console: Console) -> str:
    """Write one concept: its definition, then pin by pin which variants have it and where."""
    facts = [(label + colon(console), value) for label, value in page.facts]
    head = [console.style(page.title, "bold"), *indented(page.what, console.width, "  ")]
    groups = [part for pin, parts in page.groups for part in _doings(pin, parts, console)]
    gone = [_gone(heading, reasons, console) for heading, reasons in page.gone]
    body = [[*head, *columns(facts, console.width)], *groups, *gone]
    return paragraphs([*body, remarks(page.remarks, console)])


def _doings(
    pin: str, parts: Sequence[tuple[str, Sequence[Doing]]], console: Console
) -> list[list[str]]:
    blocks = [[console.style(pin, "bold")]]
    for heading, doings in parts:
        label = max(cells(doing.variant) for doing in doings)
        lines = _wrapped(heading, console)
        for doing in doings:
            lines += indented(doing.doubt, console.width, "  ! ") if doing.doubt else []
            for number, found in enumerate(doing.spots):
                # In a pipe every line says whose it is.
                name = doing.variant if not number or console.width is None else ""
                lines.append(f"  {pad(name, label)}  {spot(found, console)}")
        blocks.append(lines)
    return blocks


def _gone(heading: str, reasons: Sequence[tuple[str, str]], console: Console) -> list[str]:
    lines = _wrapped(heading, console)
    for reason, names in reasons:
        lines += indented(reason, console.width, "  ")
        lines += indented(names, console.width, "    ")
    return lines


def concepts(page: ConceptList, console: Console) -> str:
    """Write the list of concepts, theme by theme."""
    widest = max((cells(c.id) for _, listed in page.groups for c in listed), default=0)
    groups = []
    for heading, listed in page.groups:
        gap = "" if console.lang == "zh" else " "
        rows = [
            (pad(c.id, widest), f"{c.name}{colon(console)}{gap}{c.what}{gap}{c.count}")
            for c in listed
        ]
        groups.append([console.style(heading, "bold"), *columns(rows, console.width)])
    return paragraphs([*groups, remarks(page.remarks, console)])


# -- search ----------------------------------------------------------------------------------


def search(page: SearchPage, console: Console) -> str:
    """Write what was found, best first."""
    kinds = max((cells(hit.kind) for hit in page.hits), default=0)
    hits = [line for hit in page.hits for line in _hit(hit, kinds, console)]
    return paragraphs([[console.style(page.title, "bold")], hits, remarks(page.remarks, console)])


def _hit(hit: Hit, kinds: int, console: Console) -> list[str]:
    name = visible(hit.name)
    head = f"  {pad(hit.kind, kinds)}  {name}  "
    if console.width is None:
        return [f"{head}{hit.text}  {_places(hit.spots)}".rstrip()]
    lines = [f"  {pad(hit.kind, kinds)}  {console.style(name, 'bold')}"]
    below = " " * (kinds + 4)
    lines += indented(hit.text, console.width, below) if hit.text else []
    lines += [f"{below}{spot(s, console)}" for s in hit.spots]
    if hit.command:
        more = said("search.more", console.lang, command=hit.command)
        lines += indented(more, console.width, below)
    return [line.rstrip() for line in lines]
