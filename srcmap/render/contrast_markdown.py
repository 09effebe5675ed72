"""Pages that set things side by side, to Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.render.as_markdown import code, join, place, plain, table, titles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.render.console import Console
    from srcmap.render.contrast_pages import (
        Change,
        ComparePage,
        ConceptList,
        ConceptPage,
        DiffBlock,
        DiffPage,
        Pair,
        SearchPage,
        Spot,
    )


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


def compare(page: ComparePage, console: Console) -> str:
    """Write two machines side by side, a table for each pair of files."""
    pairs = (_pair(pair, page.machines, console) for pair in page.pairs)
    return join([f"# {plain(page.title)}", plain(page.what), *pairs, *map(plain, page.remarks)])


def _pair(pair: Pair, machines: tuple[str, str], console: Console) -> str:
    concept, why = titles(("concept", "why"), console)
    facts = zip(machines, pair.names, pair.pins, pair.paths, strict=True)
    lines = [
        f"- {plain(m)}: {code(name)}, {plain(pin)}, {code(path)}" for m, name, pin, path in facts
    ]
    parts = [
        f"## {code(pair.names[0])} | {code(pair.names[1])}".replace("|", "/"),
        "\n".join(lines),
    ]
    parts += [f"> {plain(remark)}" for remark in pair.remarks]
    for heading, rows in pair.parts:
        head = [concept, *map(plain, machines), why]
        cells = ([code(r.concept), spots(r.left), spots(r.right), plain(r.why)] for r in rows)
        parts.append(f"### {plain(heading)}\n\n{table(head, cells)}")
    return join(parts)


def concept(page: ConceptPage, console: Console) -> str:
    """Write one concept: a table of places for each pin."""
    head = titles(("variant", "location"), console)
    facts = "\n".join(f"- {plain(label)}: {plain(value)}" for label, value in page.facts)
    parts = [f"# {plain(page.title)}", plain(page.what), facts]
    for pin, groups in page.groups:
        parts.append(f"## {plain(pin)}")
        for heading, doings in groups:
            rows = ([code(d.variant), join_cell(plain(d.doubt), spots(d.spots))] for d in doings)
            parts.append(f"### {plain(heading)}\n\n{table(head, rows)}")
    for heading, reasons in page.gone:
        lines = (f"- {plain(names)}: {plain(reason)}" for reason, names in reasons)
        parts.append("\n".join([f"## {plain(heading)}", "", *lines]))
    return join([*parts, *map(plain, page.remarks)])


def join_cell(*parts: str) -> str:
    """Put what is not empty one below the other in a cell."""
    return "<br>".join(part for part in parts if part)


def concepts(page: ConceptList, console: Console) -> str:
    """Write the list of concepts, a table for each theme."""
    head = titles(("concept", "does"), console)
    parts = []
    for heading, listed in page.groups:
        rows = [(code(c.id), plain(f"{c.name}: {c.what} {c.count}")) for c in listed]
        parts.append(f"## {plain(heading)}\n\n{table(head, rows)}")
    return join([*parts, *map(plain, page.remarks)])


def search(page: SearchPage, console: Console) -> str:
    """Write what was found, best first, as one table."""
    head = titles(("kind", "name", "is", "location"), console)
    rows = ([plain(h.kind), code(h.name), plain(h.text), spots(h.spots)] for h in page.hits)
    found = table(head, rows) if page.hits else ""
    return join([f"# {plain(page.title)}", found, *map(plain, page.remarks)])
