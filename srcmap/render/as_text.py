"""Pages to text: aligned, wrapped by cells, each location whole so that it can be copied.

With room (or in a pipe, where nothing is wrapped) a concept is one line. On a narrow terminal its
location goes on a line of its own rather than being cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.i18n import text as said
from srcmap.render.layout import cells, columns, indented, pad, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.render.console import Console
    from srcmap.render.interface import (
        Belonging,
        Block,
        CodeLine,
        Excerpt,
        Place,
        ReadFile,
        ReadKernel,
        Remark,
        Row,
        ShowPage,
        VariantList,
        VariantPage,
        WherePage,
    )

_LEAST_PROSE = 34
"""Cells that an explanation needs beside a location; with fewer, rows are stacked."""
_PRESENT = ("found", "ambiguous")


def variants(page: VariantList, console: Console) -> str:
    """Write the list of variants, group by group."""
    groups = []
    widest = max((cells(v.id) for _, listed in page.groups for v in listed), default=0)
    for heading, listed in page.groups:
        rows = [(pad(v.id, widest), v.name) for v in listed]
        groups.append([console.style(heading, "bold"), *columns(rows, console.width)])
    return paragraphs([*groups, remarks(page.remarks, console)])


def variant(page: VariantPage, console: Console) -> str:
    """Write one variant: title, facts, then file by file what is where."""
    facts = [(label + colon(console), value) for label, value in page.facts]
    head = [f"{console.style(page.id, 'bold')}  {page.name}"]
    head += indented(page.summary, console.width, "  ")
    blocks = [part for block in page.blocks for part in _block(block, console)]
    notes = _notes(page.notes, console) if page.notes else []
    return paragraphs([[*head, *columns(facts, console.width)], *blocks, notes])


def where(page: WherePage, console: Console) -> str:
    """Write what some lines belong to."""
    groups: list[list[str]] = []
    for heading, found in page.groups:
        lines = [console.style(heading, "bold")]
        lines += _table([_belonging(b, console) for b in found], console)
        groups.append(lines)
    return paragraphs([*groups, remarks(page.remarks, console)])


def show(page: ShowPage, console: Console) -> str:
    """Write the code of one concept."""
    head = [console.style(page.title, "bold"), *indented(page.what, console.width, "  ")]
    excerpts = [_excerpt(excerpt, console) for excerpt in page.excerpts]
    return paragraphs([head, *excerpts, remarks(page.remarks, console)])


def anatomy(page: ReadFile, console: Console) -> str:
    """Write one file: kernel by kernel the code with its gutter, then where each concept is."""
    head = [console.style(visible(page.path), "bold") + f"  {page.title}"]
    head += [line for problem in page.problems for line in warned(problem, console)]
    parts = [part for kernel in page.kernels for part in _kernel(kernel, console)]
    return paragraphs([head, *parts])


# -- parts -----------------------------------------------------------------------------------


def _block(block: Block, console: Console) -> list[list[str]]:
    head = [console.style(f"{block.repo} {block.pin}", "bold") + f"  {visible(block.path)}"]
    head += indented(block.changed, console.width, "  ") if block.changed else []
    head += [line for said in block.measured for line in indented(said, console.width, "  ")]
    head += [line for remark in block.remarks for line in warned(remark, console)]
    present = [row for row in block.rows if row.status in _PRESENT]
    parts = [
        ("own", [row for row in present if row.own]),
        ("rest", [row for row in present if not row.own]),
    ]
    if not all(rows for _, rows in parts):
        parts = [("concepts", present)]
    return [head, *_parts([*parts, *_gone(block.rows)], console)]


def _parts(parts: Iterable[tuple[str, Sequence[Row]]], console: Console) -> list[list[str]]:
    """Write each part that has rows under its heading."""
    return [
        [said(f"page.{name}", console.lang), *_rows(rows, console)] for name, rows in parts if rows
    ]


def _gone(rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    """Take apart what should be there and is not, and what is rightly not there."""
    return [
        ("not-found", [row for row in rows if row.status == "missing"]),
        ("not-here", [row for row in rows if row.status == "absent"]),
    ]


def _rows(rows: Sequence[Row], console: Console) -> list[str]:
    if all(row.status not in _PRESENT for row in rows):
        return _reasons(rows, console)
    return _table([_row(row, console) for row in rows], console)


def _reasons(rows: Sequence[Row], console: Console) -> list[str]:
    """Write why each is not there; a reason that several share is said once."""
    shared: dict[str, list[str]] = {}
    for row in rows:
        shared.setdefault(_why_not(row, console), []).append(row.label)
    alone = [(names[0], reason) for reason, names in shared.items() if len(names) == 1]
    lines = columns(alone, console.width)
    for reason, names in shared.items():
        if len(names) > 1:
            lines += indented(reason, console.width, "  ")
            lines += indented(", ".join(names), console.width, "    ")
    return lines


def _why_not(row: Row, console: Console) -> str:
    near = ", ".join(map(str, row.candidates))
    if not near:
        return row.reason
    return _sentence(row.reason, said("page.near", console.lang, places=near), console)


Cell = tuple[list[tuple[str, str]], tuple[str, str], str, list[str]]
"""Locations (text, link target), concept and site, explanation, lines below."""


def _row(row: Row, console: Console) -> Cell:
    below = _reimplementation(row, console)
    if row.excerpt is not None:
        below = [*below, *_code(row.excerpt, console)]
    if row.place is not None and row.status == "found":
        what = _sentence(row.what, row.detail and f"[{row.detail}]", console, row.unsure)
        return [location(row.place)], (row.concept, row.site), what, below
    doubt = said("page.one-of", console.lang, why=row.reason)
    places = [location(place) for place in row.candidates] or [("?", "")]
    return places, (row.concept, row.site), doubt, below


def _belonging(found: Belonging, console: Console) -> Cell:
    what = _sentence(", ".join(found.variants) + colon(console), found.what, console)
    below = _code(found.excerpt, console) if found.excerpt is not None else []
    return [location(found.place)], (found.concept, found.site), what, below


def _table(rows: Sequence[Cell], console: Console) -> list[str]:
    where = max((cells(place) for places, *_ in rows for place, _ in places), default=0)
    label = max((cells(" ".join(row[1]).strip()) for row in rows), default=0)
    if console.width is None or 2 + where + 2 + label + 2 + _LEAST_PROSE <= console.width:
        return [line for row in rows for line in _wide(row, where, label, console)]
    concept = max((cells(row[1][0]) for row in rows), default=0)
    return [line for row in rows for line in _stacked(row, concept, console)]


def _wide(row: Cell, where: int, label: int, console: Console) -> list[str]:
    places, name, what, below = row
    (place, target), *more = places
    prose = indented(what, console.width, " " * (where + label + 6))
    head = f"  {linked(place, target, where, console)}  {pad(' '.join(name).strip(), label)}  "
    lines = [(head + prose[0].lstrip()).rstrip(), *prose[1:]]
    lines += [f"  {linked(text, url, 0, console)}" for text, url in more]
    return lines + below


def _stacked(row: Cell, label: int, console: Console) -> list[str]:
    """Write the explanation beside the concept, and below it the location with its site."""
    places, (concept, site), what, below = row
    width = console.width or 80
    if 2 + label + 2 + 20 <= width:
        lines = indented(what, width, f"  {pad(concept, label)}  ")
    else:
        lines = [f"  {concept}", *indented(what, width, "    ")]
    lines += [f"    {linked(text, url, 0, console)}  {site}" for text, url in places]
    return [line.rstrip() for line in lines] + below


def linked(text: str, target: str, width: int, console: Console) -> str:
    shown = console.link(console.style(text, "cyan"), target) if target else text
    return shown + " " * max(width - cells(text), 0)


def location(place: Place) -> tuple[str, str]:
    return visible(str(place)), place.url or " "


def _reimplementation(row: Row, console: Console) -> list[str]:
    if not row.ours:
        return []
    head = f"    {said('page.ours', console.lang)}{colon(console)} "
    first, *others = map(str, row.ours)
    tested = f"  {row.tested}" if row.tested else ""
    line = head + ", ".join([first, *others]) + tested
    if console.width is None or cells(line) <= console.width:
        return [line]
    room = " " * cells(head)
    return [head + first + tested, *(room + place for place in others)]


def _excerpt(excerpt: Excerpt, console: Console) -> list[str]:
    place, target = location(excerpt.place)
    head = f"{linked(place, target, 0, console)}  {excerpt.title}".rstrip()
    return [head, *_code(excerpt, console)]


def _code(excerpt: Excerpt, console: Console) -> list[str]:
    if excerpt.instead:
        return indented(excerpt.instead, console.width, "    ")
    return _gutter(excerpt.lines, console)


def _gutter(lines: Sequence[CodeLine], console: Console) -> list[str]:
    """Write number, what the statement does, code. Code is never wrapped and never markup."""
    if not lines:
        return []
    digits = len(str(lines[-1].number))
    names = [", ".join(line.roles) for line in lines]
    widest = min(max(map(cells, names)), 26)
    out, before = [], lines[0].number - 1
    for line, name in zip(lines, names, strict=True):
        if line.number != before + 1:
            out.append(console.style("  " + " " * digits + " ...", "dim"))
        before = line.number
        number = console.style(f"{line.number:>{digits}}", "dim")
        mark = "|" if line.chosen else " "
        role = console.style(pad(name, widest), "green")
        out.append(f"  {number} {role} {mark} {visible(line.text)}".rstrip())
    return out


def _kernel(kernel: ReadKernel, console: Console) -> list[list[str]]:
    head = [console.style(visible(kernel.title), "bold")]
    parts = [[*head, *_gutter(kernel.code, console)]]
    present = [row for row in kernel.rows if row.status in _PRESENT]
    parts += _parts([("concepts", present), *_gone(kernel.rows)], console)
    if kernel.unread:
        parts.append([said("page.unread", console.lang), *(f"  {x}" for x in kernel.unread)])
    return parts + [_proof(place, chain, console) for place, chain in kernel.proofs]


def _proof(place: str, chain: Sequence[str], console: Console) -> list[str]:
    lines = [said("page.because", console.lang, place=place)]
    return lines + [line for step in chain for line in indented(step, console.width, "  - ")]


def warned(remark: str, console: Console) -> list[str]:
    return [console.style(line, "yellow") for line in indented(remark, console.width, "  ! ")]


def _notes(notes: Sequence[Remark], console: Console) -> list[str]:
    lines = [said("page.notes", console.lang)]
    for note in notes:
        lines += indented(note.text, console.width, "  - ")
        for place, pin in note.places:
            text, target = location(place)
            lines.append(f"      {linked(text, target, 0, console)}  {pin}".rstrip())
    return lines


def remarks(remarks: Sequence[str], console: Console) -> list[str]:
    return [line for remark in remarks for line in indented(remark, console.width, "")]


def _sentence(first: str, second: str, console: Console, third: str = "") -> str:
    gap = "" if console.lang == "zh" else " "
    return gap.join(part for part in (first, second, third) if part)


def colon(console: Console) -> str:
    return "：" if console.lang == "zh" else ":"


def paragraphs(parts: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(part) for part in parts if part)
