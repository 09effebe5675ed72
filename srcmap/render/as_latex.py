"""Tables of citations in LaTeX: `longtable`, needing that package and `hyperref` alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.render.tables import CODE

if TYPE_CHECKING:
    from srcmap.render.tables import CiteRow, CiteTable

_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_\allowbreak{}", "#": r"\#",
    "%": r"\%", "&": r"\&", "$": r"\$", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "/": r"/\allowbreak{}",
}  # fmt: skip
_URL = {"%": r"\%", "#": r"\#", "\\": "/", "{": "", "}": "", "&": r"\&"}
_WIDTHS = {"location": 5, "name": 3, "link": 5, "concept": 3, "variant": 2, "digest": 2, "ours": 2}


def table(page: CiteTable, lang: str) -> str:
    """Write one `longtable` for each group; heads are repeated on every page."""
    note = "% \\usepackage{longtable,hyperref}" + (
        "  % and ctex, for Chinese" if lang == "zh" else ""
    )
    return "\n\n".join([note, *(_group(page, number) for number in range(len(page.groups)))])


def _group(page: CiteTable, number: int) -> str:
    group = page.groups[number]
    weights = [_WIDTHS.get(column, 1.6) for column in page.columns]
    room = 0.98 - 0.022 * len(weights)
    spec = "".join(f"p{{{room * weight / sum(weights):.3f}\\linewidth}}" for weight in weights)
    head = " & ".join(f"\\textbf{{{_plain(head)}}}" for head in page.heads) + r" \\ \hline"
    named = [f"\\multicolumn{{{len(weights)}}}{{l}}{{\\textbf{{{_plain(group.title)}}}}} \\\\"]
    rows = [
        " & ".join(_cell(row, column) for column in page.columns) + r" \\" for row in group.rows
    ]
    return "\n".join(
        ["{\\footnotesize\\raggedright", f"\\begin{{longtable}}{{{spec}}}",
         *(named if group.title else []), r"\hline", head, r"\endhead", *rows, r"\hline",
         r"\end{longtable}", "}"]
    )  # fmt: skip


def link(text: str, url: str | None) -> str:
    """Write a place in a typewriter face, linked where there is a page."""
    shown = f"\\texttt{{{_plain(text)}}}"
    return f"\\href{{{_target(url)}}}{{{shown}}}" if url else shown


def _cell(row: CiteRow, column: str) -> str:
    value = row.values[column]
    if column == "location":
        return link(value, row.url)
    if column == "link":
        return f"\\href{{{_target(value)}}}{{\\texttt{{{_plain(value)}}}}}" if value else ""
    return f"\\texttt{{{_plain(value)}}}" if column in CODE and value else _plain(value)


def _plain(text: str) -> str:
    return "".join(_ESCAPES.get(char, char) for char in text)


def _target(url: str) -> str:
    return "".join(_URL.get(char, char) for char in url)
