"""The table of what bounds kernels, from ncu's counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.gpu.profile import by_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

UNITS = {
    "matrix units": "tensor",
    "exponentials": "special",
    "memory": "dram",
    "instructions": "issue",
}
"""Heads of columns, and the counters: in percent of what there can be."""
INTRODUCTION = """\
How busy parts of the GPU are in one call, in percent, as `ncu` counts it: ours and, behind the \
stroke, upstream's as shipped; of several kernels the longest. Where nothing is near 100, parts \
wait for one another.
"""


def table(
    rows: list[dict[str, Any]], label: Callable[[dict[str, Any]], str], shapes: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the table; `shapes` are those of each variant in order, `label` puts one into words."""
    if not rows:
        return
    yield f"{INTRODUCTION}\n| variant | shape | {' | '.join(UNITS)} |\n"
    yield f"|---|---|{'--:|' * len(UNITS)}\n"
    for many in by_place(rows).values():
        variant, number = many[0]["variant"], many[0].get("shape", 0)
        if {"ours", "upstream"} <= {row["who"] for row in many}:
            cells = [variant, label(shapes[variant][number]), *_cells(many)]
            yield f"| {' | '.join(cells)} |\n"


def _cells(rows: list[dict[str, Any]]) -> Iterator[str]:
    ours, theirs = (longest(rows, who) for who in ("ours", "upstream"))
    for counter in UNITS.values():
        yield f"{percent(ours, counter)} / {percent(theirs, counter)}"


def longest(rows: list[dict[str, Any]], who: str) -> dict[str, Any]:
    """Return the row of the kernel that takes the longest."""
    return max((row for row in rows if row["who"] == who), key=lambda row: float(row["ms"] or 0))


def percent(row: dict[str, Any], counter: str) -> str:
    value = row.get(counter)
    return "-" if value is None else f"{value:.0f}"
