"""One kernel from its root to its sites: names, flow, facts, concepts, labels, absences."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

from srcmap.anatomy.absent import absences
from srcmap.anatomy.concepts import BY_CLASS
from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.concepts.disabled import disabled_checks
from srcmap.anatomy.context import Context
from srcmap.anatomy.deeds import deeds
from srcmap.anatomy.deps import Dependencies
from srcmap.anatomy.doubt import Doubts, settle
from srcmap.anatomy.facts import Facts
from srcmap.anatomy.feeders import Feeders
from srcmap.anatomy.flow import Flow
from srcmap.anatomy.labels import Labeller
from srcmap.anatomy.proof import premises
from srcmap.anatomy.spans import Spans
from srcmap.model import KernelAnatomy, Lines, Site, UnreadCall
from srcmap.parse.spans import node_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.kernels import KernelRoot, Named
    from srcmap.parse.python import PythonFile

PASSIVE_EVENTS = {"SCALE", "FILL", "SAVE-MAX", "COMBINE-DIFF"}
"""Events of statements that may still be feeders of another."""


class Definitions:
    """Finds the innermost definition around a line."""

    def __init__(self, names: dict[Named, str]) -> None:
        self.spans = sorted((node_lines(node), name) for node, name in names.items())
        self.starts = [lines.first for lines, _ in self.spans]

    def around(self, line: int) -> str:
        """Qualified name of the innermost definition that holds a line; empty at module level."""
        before = self.spans[: bisect.bisect_right(self.starts, line)]
        return next((name for lines, name in reversed(before) if lines.last >= line), "")


def open_kernel(root: KernelRoot, file: PythonFile) -> Kernel:
    """Read one kernel as far as its facts."""
    context = Context(root)
    deps = Dependencies(context)
    reading = Flow(context, deps).run()
    facts = Facts(context, deps, reading)
    events = reading.events.values()
    doing = {event.statement.uid for event in events if event.kind not in PASSIVE_EVENTS}
    feeders = Feeders(context, doing)
    lookups = {one.statement.uid for one in facts.loads_of_all(facts.address_tables)}
    spans = Spans(context, feeders, file.lines, stops=_stops(facts), lookups=lookups)
    return Kernel(context, deps, reading, facts, feeders, spans)


def _stops(facts: Facts) -> set[int]:
    """Loops whose header a span never takes: key loops; all serial ones where none attends."""
    if facts.kernel_class == "cleaner":
        context = facts.context
        loops = (one for one in context.statements if one.kind == "loop")
        return {loop.uid for loop in loops if not context.is_map_loop(loop)}
    return {loop.uid for loop in facts.kv_loops}


def read_kernel(
    root: KernelRoot, qualname: str, file: PythonFile, definitions: Definitions
) -> KernelAnatomy:
    """The anatomy of one kernel."""
    kernel = open_kernel(root, file)
    kind = kernel.facts.kernel_class
    sites, ambiguities = settle(_sites(kernel, _found(kernel, file), file, definitions))
    have = {site.concept for site in sites} | {several.concept for several in ambiguities}
    return KernelAnatomy(
        qualname=qualname,
        kind="other" if kind == "cleaner" else kind,
        lines=node_lines(root.function),
        sites=sites,
        absences=absences(kernel, have),
        ambiguities=ambiguities,
        deeds=deeds(kernel),
        unread=tuple(
            UnreadCall(name=unread.name, lines=unread.statement.lines)
            for unread in kernel.reading.unread.values()
        ),
    )


def _found(kernel: Kernel, file: PythonFile) -> list[Found]:
    """Everything that the concepts of the kernel's class find, each once."""
    distinct: dict[tuple[str, Lines, str], Found] = {}
    for one in _every(kernel, file):
        distinct.setdefault((one.concept, one.lines, one.operand), one)
    return list(distinct.values())


def _every(kernel: Kernel, file: PythonFile) -> Iterator[Found]:
    kind = kernel.facts.kernel_class
    for finder in BY_CLASS[kind]:
        yield from finder(kernel)
    if kind == "attention":
        for lines in disabled_checks(kernel, file.lines):
            yield Found("check-inf-disabled", None, lines)


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
    return tuple(sorted(sites, key=site_order))


def site_order(site: Site) -> tuple[Lines, str, str]:
    """Sites are kept by first line, concept, label."""
    return site.lines, site.concept, site.label


def leading_comments(file: PythonFile, lines: Lines) -> Lines:
    """The lines with the comments right above them."""
    first = lines.first
    while first > 1 and file.comment_on(first - 1) is not None:
        first -= 1
    return Lines(first, lines.last)
