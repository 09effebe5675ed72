"""One kernel from its root to its sites: names, flow, facts, concepts, labels, absences."""

from __future__ import annotations

import bisect

from srcmap.anatomy.absent import absences
from srcmap.anatomy.concepts import BY_CLASS
from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.concepts.disabled import disabled_checks
from srcmap.anatomy.context import Context
from srcmap.anatomy.deeds import deeds
from srcmap.anatomy.deps import Dependencies
from srcmap.anatomy.doubt import Doubts, settle
from srcmap.anatomy.facts import Facts
from srcmap.anatomy.flow import Flow
from srcmap.anatomy.labels import Labeller
from srcmap.anatomy.proof import premises
from srcmap.anatomy.spans import Spans
from srcmap.model import KernelAnatomy, Lines, Site, UnreadCall
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.parse.python import PythonFile
    from srcmap.anatomy.kernels import KernelRoot
    import ast

PASSIVE_EVENTS = {"SCALE", "FILL", "SAVE-MAX", "COMBINE-DIFF"}
"""Events of statements that may still be feeders of another."""


class Definitions:
    """Finds the innermost definition around a line."""

    def __init__(self, names: dict[ast.AST, str]) -> None:
        spans = [
            (node.lineno, node.end_lineno or node.lineno, name) for node, name in names.items()
        ]  # type: ignore[attr-defined]
        self.spans = sorted(spans)
        self.starts = [span[0] for span in self.spans]

    def around(self, line: int) -> str:
        """Qualified name of the innermost definition that holds a line; empty at module level."""
        at = bisect.bisect_right(self.starts, line)
        holding = [span for span in self.spans[:at] if span[1] >= line]
        return holding[-1][2] if holding else ""


def open_kernel(root: KernelRoot, file: PythonFile) -> Kernel:
    """Read one kernel as far as its facts."""
    context = Context(root)
    deps = Dependencies(context)
    reading = Flow(context, deps).run()
    facts = Facts(context, deps, reading)
    doing = {
        event.statement.uid for event in reading.events.values() if event.kind not in PASSIVE_EVENTS
    }
    lookups = {a.statement.uid for a in reading.loads.values() if a.name in facts.address_tables}
    spans = Spans(context, file.lines, _stops(facts), doing, lookups)
    return Kernel(context, deps, reading, facts, spans)


def _stops(facts: Facts) -> set[int]:
    """Loops whose header a span never takes: the key loops; all serial loops where nothing is attended."""
    if facts.kernel_class == "cleaner":
        return {statement.uid for statement in facts.context.statements if statement.kind == "loop"}
    return {loop.uid for loop in facts.kv_loops}


def read_kernel(
    root: KernelRoot, qualname: str, file: PythonFile, definitions: Definitions
) -> KernelAnatomy:
    """The anatomy of one kernel."""
    kernel = open_kernel(root, file)
    kind = kernel.facts.kernel_class
    found = [one for finder in BY_CLASS[kind] for one in finder(kernel)]
    if kind == "attention":
        found += [
            Found("check-inf-disabled", None, lines)
            for lines in disabled_checks(kernel, file.lines)
        ]
    sites, ambiguities = settle(_sites(kernel, _distinct(found), file, definitions))
    function = root.function
    return KernelAnatomy(
        qualname=qualname,
        kind="other" if kind == "cleaner" else kind,
        lines=Lines(function.lineno, function.end_lineno or function.lineno),
        sites=sites,
        absences=absences(kernel, {one.concept for one in (*sites, *ambiguities)}),
        ambiguities=ambiguities,
        deeds=deeds(kernel),
        unread=tuple(
            UnreadCall(name=unread.name, lines=unread.statement.lines)
            for unread in kernel.reading.unread.values()
        ),
    )


def _distinct(found: list[Found]) -> list[Found]:
    seen: dict[tuple[str, Lines, str], Found] = {}
    for one in found:
        seen.setdefault((one.concept, one.lines, one.operand), one)
    return list(seen.values())


def _sites(
    kernel: Kernel, found: list[Found], file: PythonFile, definitions: Definitions
) -> tuple[Site, ...]:
    labels, doubts = Labeller(kernel).label(found), Doubts(kernel)
    sites = [
        Site(
            concept=one.concept,
            label=label,
            lines=one.lines,
            context=leading_comments(file, one.lines),
            qualname=definitions.around(one.lines.first),
            confidence=doubts.confidence(one),
            detail=one.detail,
            proof=premises(kernel, one),
        )
        for one, label in zip(found, labels, strict=True)
    ]
    return tuple(sorted(sites, key=lambda site: (site.lines, site.concept, site.label)))


def leading_comments(file: PythonFile, lines: Lines) -> Lines:
    """The lines with the comments right above them."""
    first = lines.first
    while first > 1 and file.comment_on(first - 1) is not None:
        first -= 1
    return Lines(first, lines.last)
