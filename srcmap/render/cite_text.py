"""Citations for people: one paragraph each, its place first so that an editor can follow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.render.layout import indented, visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from srcmap.render.cite_pages import ShownCitation
    from srcmap.render.console import Console

_STYLES = {"ok": "green", "plausible": "dim"}


def citation(shown: ShownCitation, console: Console) -> str:
    """Write one citation, its reason and its candidates."""
    place = f"{shown.document}:{shown.line}"
    written = visible(shown.text)
    if not shown.verdict:
        return f"{console.style(place, 'cyan')}  {written}  ->  {visible(shown.target)}"
    style = _STYLES.get(shown.verdict, "yellow" if shown.known else "red")
    head = f"{console.style(place, 'cyan')}  {console.style(shown.verdict, style)}  {written}"
    return "\n".join([head, *_details(shown, console)])


def _details(shown: ShownCitation, console: Console) -> Iterator[str]:
    for text in (shown.target, shown.reason, *shown.remarks):
        if text:
            yield from indented(visible(text), console.width, "    ")
    for candidate in shown.candidates:
        yield from indented(
            f"{visible(candidate.place)}  {candidate.why}", console.width, "    ? ", "      "
        )
        yield from (f"      {line.number:>5}  {visible(line.text)}" for line in candidate.code)


def counts(numbers: Mapping[str, int], console: Console) -> str:
    """Write the counts on one line."""
    return console.style("  ".join(f"{name} {count}" for name, count in numbers.items()), "bold")
