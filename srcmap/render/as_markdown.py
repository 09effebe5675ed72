"""Pages to Markdown, for notes and issues: tables of places, each a link to the pinned lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.i18n import text as said

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.render.console import Console
    from srcmap.render.interface import (
        Block,
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


_ORDER = ("found", "ambiguous", "missing", "absent")


def variants(page: VariantList, console: Console) -> str:
    """Write the list of variants, a table for each group."""
    head = titles(("variant", "is"), console)
    parts = []
    for heading, listed in page.groups:
        rows = [(code(v.id), f"{plain(v.name)}: {plain(v.summary)}") for v in listed]
        parts.append(f"## {plain(heading)}\n\n{table(head, rows)}")
    return join([*parts, *map(plain, page.remarks)])


def variant(page: VariantPage, console: Console) -> str:
    """Write one variant: a table for each file."""
    facts = [f"- {plain(label)}: {plain(value)}" for label, value in page.facts]
    notes = [_note(note) for note in page.notes]
    return join(
        [
            f"# {code(page.id)}: {plain(page.name)}",
            plain(page.summary),
            "\n".join(facts),
            *(_block(block, console) for block in page.blocks),
            "\n".join([said("page.notes", console.lang), "", *notes]) if notes else "",
        ]
    )


def _note(note: Remark) -> str:
    places = ", ".join(f"{place(where)} {plain(pin)}".rstrip() for where, pin in note.places)
    return f"- {plain(note.text)} ({places})" if places else f"- {plain(note.text)}"


def where(page: WherePage, console: Console) -> str:
    """Write what some lines belong to."""
    head = titles(("location", "concept", "variants", "does"), console)
    parts = [f"# {code(page.asked)}"]
    for heading, found in page.groups:
        rows = [
            (
                place(b.place),
                code(b.concept) + (f" {plain(b.site)}" if b.site else ""),
                ", ".join(map(code, b.variants)),
                plain(b.what),
            )
            for b in found
        ]
        parts.append(f"## {plain(heading)}\n\n{table(head, rows)}")
    return join([*parts, *map(plain, page.remarks)])


def show(page: ShowPage, console: Console) -> str:  # noqa: ARG001 - one signature for all
    """Write the code of one concept."""
    excerpts = (_excerpt(excerpt) for excerpt in page.excerpts)
    return join([f"# {plain(page.title)}", plain(page.what), *excerpts, *page.remarks])


def anatomy(page: ReadFile, console: Console) -> str:
    """Write one file: a table of concepts for each kernel."""
    problems = [f"- {plain(problem)}" for problem in page.problems]
    kernels = (_kernel(kernel, console) for kernel in page.kernels)
    title = f"# {code(page.path)}"
    return join([title, plain(page.title), "\n".join(problems), *kernels])


def _block(block: Block, console: Console) -> str:
    head = f"## {plain(block.repo)} {plain(block.pin)}: {code(block.path)}"
    remarks = "\n".join(f"> {plain(remark)}" for remark in block.remarks)
    codes = (_excerpt(row.excerpt) for row in block.rows if row.excerpt is not None)
    measured = "\n".join(plain(said) for said in block.measured)
    said = [plain(block.changed), measured, remarks]
    return join([head, *said, _rows(block.rows, console), *codes])


def _rows(rows: Sequence[Row], console: Console) -> str:
    if not rows:
        return ""
    ours = any(row.ours for row in rows)
    names = ("location", "concept", "does", *(("ours", "test") if ours else ()))
    cells = []
    for row in sorted(rows, key=lambda row: _ORDER.index(row.status)):
        cell = [_where(row, console), _label(row), _what(row, console)]
        if ours:
            cell += ["<br>".join(map(place, row.ours)), plain(row.tested)]
        cells.append(cell)
    return table(titles(names, console), cells)


def _where(row: Row, console: Console) -> str:
    if row.status == "found" and row.place is not None:
        return place(row.place)
    word = said(f"page.{row.status}", console.lang)
    return "<br>".join([word, *map(place, row.candidates)])


def _label(row: Row) -> str:
    return f"{code(row.concept)} {plain(row.site)}".strip()


def _what(row: Row, console: Console) -> str:  # noqa: ARG001
    if row.status != "found":
        return plain(row.reason or row.what)
    detail = code(row.detail) if row.detail else ""
    return " ".join(part for part in (plain(row.what), detail, plain(row.unsure)) if part)


def _kernel(kernel: ReadKernel, console: Console) -> str:
    unread = [f"- {code(call)}" for call in kernel.unread]
    parts = [f"## {plain(kernel.title)}", _rows(kernel.rows, console)]
    if unread:
        parts.append("\n".join([said("page.unread", console.lang), "", *unread]))
    for place, chain in kernel.proofs:
        steps = [f"- {plain(step)}" for step in chain]
        parts.append("\n".join([said("page.because", console.lang, place=place), "", *steps]))
    return join(parts)


def _excerpt(excerpt: Excerpt) -> str:
    head = f"{place(excerpt.place)} {plain(excerpt.title)}".strip()
    if excerpt.instead:
        return f"{head}\n\n{plain(excerpt.instead)}"
    text = "\n".join(line.text.rstrip("\r\n") for line in excerpt.lines)
    ticks = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{head}\n\n{fence}{_language(excerpt.place.path)}\n{text}\n{fence}"


def _language(path: str) -> str:
    suffix = path.rpartition(".")[2]
    return {"py": "python", "cc": "cpp", "h": "cpp", "cpp": "cpp", "md": "markdown"}.get(suffix, "")


def place(place: Place) -> str:
    text = code(str(place))
    return f"[{text}]({place.url})" if place.url else text


def titles(names: Iterable[str], console: Console) -> list[str]:
    return [said(f"page.head.{name}", console.lang) for name in names]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(text: str) -> str:
    """`text` as code; a path may hold back quotes, pipes and line breaks."""
    text = re.sub(r"\s", " ", text).replace("|", r"\|")
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def plain(text: str) -> str:
    """Escape what Markdown would read, but for code between backquotes."""
    parts = re.split(r"(`[^`]*`)", re.sub(r"\s+", " ", text))
    return "".join(
        part.replace("|", r"\|") if number % 2 else re.sub(r"([\\`*_\[\]<>|])", r"\\\1", part)
        for number, part in enumerate(parts)
    )


def join(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part)
