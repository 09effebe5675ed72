"""Upstream is changed one located statement at a time, and the inputs that notice are named.

A mutant that nobody notices says that the inputs are too easy, or that the statement does not do
what the map says, or that it changes nothing in this kernel. The last is evidence of nothing, and
is told apart when it is proven (`equivalence`), or when a run shows that a wait does nothing.
Line numbers stay: a mutant has its line where the statement was.
"""

from __future__ import annotations

import ast
import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from srcmap.checkout import find_checkout
from srcmap.engines.caselist import listed
from srcmap.engines.jobs import Job
from srcmap.model import Lines, Note
from srcmap.verify import equivalence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from srcmap.catalogue import Variant
    from srcmap.engines.jobs import Limits, Outcome
    from srcmap.lock import Lock, Pin
    from srcmap.mapfile import Entry

# Places that say how a kernel is laid out or launched, not what it computes.
_NOT_COMPUTED = {
    *("kernel-grid", "warp-policy", "shared-alloc", "fragment-alloc", "scale-fold", "num-stages"),
    *("kv-loop", "cube-scope", "vector-scope", "workspace-param", "block-table-param"),
    *("mask-param", "block-mask-param", "block-indices-param", "cu-seqlens-param", "swizzle"),
    *("sink-param", "pipeline", "layout-annotation", "address-annotation", "persistent-split"),
}
_LONGEST = 12
"""Lines of a place that is still one statement or two; longer ones are whole loops."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one mutant."""

    variant: str
    path: str
    concept: str
    site: str
    lines: Lines
    change: str
    noticed_by: str
    """The first check that noticed; empty when none did."""
    how: str = ""
    """How it was noticed: the failure, or the error in units of its budget."""
    proven: Note | None = None
    """Why it computes the same whatever the inputs; None when that is not proven."""
    explained: Note | None = None
    """Why it is not noticed, where a run shows it and nothing proves it."""


class Mutant(NamedTuple):
    """A changed file."""

    source: str
    change: str
    lines: Lines


class _Usual(NamedTuple):
    """What a file does without any change."""

    text: str
    seen: set[tuple[str, str, str]]
    """What the interpreter sees: check, kind and buffer."""
    idle: set[int]
    """Lines of barrier waits that order nothing which is not ordered already."""


def mutate(
    variant: Variant,
    pins: Sequence[tuple[Lock, Pin]],
    project: Path | None,
    seed: int,
    allowed: Limits,
    seen: set[tuple[str, str]] | None = None,
    heard: Callable[[int], None] | None = None,
) -> list[Verdict]:
    """Try every mutant of every located statement of a variant's files.

    `seen` holds mutants (path, text) that were tried already, for another variant. `heard` is told
    how many there are, before they run.
    """
    known: set[tuple[str, str]] = set() if seen is None else seen
    from srcmap.engines.child import run_jobs

    work = [
        (entry, mutant, root)
        for lock, pin in pins
        for entry, mutant, root in _work(variant, lock, pin, project, known)
    ]
    if heard is not None and work:
        heard(len(work))
    files = list({(e.repo, e.path): (e, root) for e, _, root in work}.values())
    jobs = [_job(entry, None, root, seed) for entry, root in files]
    jobs += [_job(entry, mutant, root, seed) for entry, mutant, root in work]
    answers: dict[int, list[Outcome]] = {}
    for outcome in run_jobs(jobs, allowed):
        answers.setdefault(outcome.job, []).append(outcome)
    usual = {
        (entry.repo, entry.path): _usual(root / entry.path, answers.get(n, []))
        for n, (entry, root) in enumerate(files)
    }
    return [
        _verdict(
            variant.id,
            entry,
            mutant,
            answers.get(len(files) + n, []),
            usual[entry.repo, entry.path],
        )
        for n, (entry, mutant, _) in enumerate(work)
    ]


def _seen(outcomes: Sequence[Outcome]) -> set[tuple[str, str, str]]:
    """Return what the interpreter sees: check, kind and buffer."""
    return {(o.name, f.kind, f.buffer) for o in outcomes for f in o.findings}


def _usual(path: Path, outcomes: Sequence[Outcome]) -> _Usual:
    waits = [o.trace["waits"] for o in outcomes if o.trace]
    useful = {line for one in waits for line, orders in one.items() if orders}
    idle = {int(line) for one in waits for line in one if line not in useful}
    return _Usual(path.read_text(encoding="utf-8"), _seen(outcomes), idle)


def _work(
    variant: Variant, lock: Lock, pin: Pin, project: Path | None, seen: set[tuple[str, str]]
) -> Iterator[tuple[Entry, Mutant, Path]]:
    from srcmap.mapfile import find_map

    checkout = find_checkout(lock, pin, project)
    source_map = find_map(lock.name, pin.version, project)
    if checkout is None or source_map is None:
        return
    root = Path(checkout.root)
    for entry in source_map.entries:
        if entry.variant != variant.id or not _usable(entry, lock.name):
            continue
        text = (root / entry.path).read_text(encoding="utf-8")
        for mutant in mutants(text, entry.lines or Lines(1, 1), entry.concept):
            if (entry.path, mutant.source) not in seen:
                seen.add((entry.path, mutant.source))
                yield entry, mutant, root


def _usable(entry: Entry, repo: str) -> bool:
    lines = entry.lines
    return (
        entry.status == "found"
        and lines is not None
        and lines.last - lines.first < _LONGEST
        and entry.concept not in _NOT_COMPUTED
        and listed(repo, entry.path) is not None
    )


def _job(entry: Entry, mutant: Mutant | None, root: Path, seed: int) -> Job:
    row = listed(entry.repo, entry.path)
    return Job(
        kind="check",
        repo=entry.repo,
        root=str(root),
        path=entry.path,
        case=row.case if row else "",
        seed=seed,
        source=None if mutant is None else mutant.source,
        stop_early=mutant is not None,
        extra={"waits": True} if mutant is None else {},
    )


def _verdict(
    variant: str,
    entry: Entry,
    mutant: Mutant,
    outcomes: Sequence[Outcome],
    usual: _Usual,
) -> Verdict:
    """Judge a mutant: noticed when a check fails, or when the interpreter sees something new."""
    noticed = next((o for o in outcomes if o.state == "failed" or _seen([o]) - usual.seen), None)
    proven = None if noticed else equivalence.proven(usual.text, mutant.source, mutant.lines)
    return Verdict(
        variant=variant,
        path=entry.path,
        concept=entry.concept,
        site=entry.site,
        lines=mutant.lines,
        change=mutant.change,
        noticed_by="" if noticed is None else noticed.name or "-",
        how="" if noticed is None else _how(noticed, usual.seen),
        proven=proven,
        explained=None if noticed or proven else _explanation(mutant, usual.idle),
    )


def _explanation(mutant: Mutant, idle: set[int]) -> Note | None:
    """Return what a run showed of a statement that nobody misses."""
    waits = mutant.change == "drop" and mutant.lines.first in idle
    return Note("mutant.idle-wait") if waits else None


def _how(outcome: Outcome, usual: set[tuple[str, str, str]]) -> str:
    if outcome.state != "failed":
        return ", ".join(sorted(f"{kind} {buffer}" for _, kind, buffer in _seen([outcome]) - usual))
    if outcome.failure is not None:
        return outcome.failure.message
    ratios = [c.ratio for c in outcome.compared]
    known = [r for r in ratios if r is not None]
    return f"{max(known):.1f}" if len(known) == len(ratios) and known else "nan"


# -- making mutants ------------------------------------------------------------------------------


def mutants(source: str, lines: Lines, concept: str = "") -> Iterator[Mutant]:
    """Yield the mutants of the statements on these lines: dropped, altered, ranges cut short."""
    tree = ast.parse(source)
    for body, place in _places(tree, lines):
        statement = body[place]
        span = Lines(statement.lineno, statement.end_lineno or statement.lineno)
        if _droppable(statement):
            yield Mutant(_without(source, statement), "drop", span)
        for change, altered in (*_altered(statement), *_shortened(statement, concept)):
            yield Mutant(_with(source, statement, altered), change, span)


def _places(tree: ast.Module, lines: Lines) -> Iterator[tuple[list[ast.stmt], int]]:
    """Yield the outermost statements that lie within the lines, with the block they stand in."""
    pending: list[list[ast.stmt]] = [tree.body]
    while pending:
        body = pending.pop()
        for place, statement in enumerate(body):
            last = statement.end_lineno or statement.lineno
            if lines.first <= statement.lineno and last <= lines.last:
                yield body, place
            elif statement.lineno <= lines.last and lines.first <= last:
                pending += [b for b in _bodies(statement) if b]


def _bodies(statement: ast.stmt) -> list[list[ast.stmt]]:
    return [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]


# Statements run in order here: what only orders pipes of one core cannot be noticed.
_ORDER_ONLY = ("barrier_all", "pipe_barrier", "sync_threads", "syncthreads", "use_swizzle")


def _droppable(statement: ast.stmt) -> bool:
    """Whether leaving it out leaves a program: later code must not need a name that it gives."""
    if _operation(statement).rpartition(".")[2] in _ORDER_ONLY:
        return False
    if isinstance(statement, ast.Assign):
        return all(isinstance(t, ast.Subscript) for t in statement.targets)
    return isinstance(statement, ast.Expr | ast.AugAssign | ast.For | ast.If)


def _operation(statement: ast.stmt) -> str:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return ast.unparse(call.func) if isinstance(call, ast.Call) else type(statement).__name__


def _without(source: str, statement: ast.stmt) -> str:
    return _replaced(source, statement, "pass")


def _with(source: str, statement: ast.stmt, altered: ast.stmt) -> str:
    return _replaced(source, statement, ast.unparse(altered))


def _replaced(source: str, statement: ast.stmt, text: str) -> str:
    """Put text in place of a statement; lines that it does not fill stay empty."""
    lines = source.split("\n")
    first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
    indent = lines[first][: statement.col_offset]
    new = [indent + line for line in text.split("\n")]
    new += [""] * (last - first + 1 - len(new))
    return "\n".join([*lines[:first], *new, *lines[last + 1 :]])


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_CHOICES = {"if_then_else", "Select"}


def _altered(statement: ast.stmt) -> Iterator[tuple[str, ast.stmt]]:
    """Yield altered copies of a statement, one change each."""
    count = sum(1 for _ in _nodes(statement))
    for number in range(count):
        made = copy.deepcopy(statement)
        node = next(n for place, n in enumerate(_nodes(made)) if place == number)
        change = _change(node)
        if change:
            yield change, made


_CUT = {"loop-range": (ast.Sub, "one block less"), "window-start": (ast.Add, "one block later")}


def _shortened(statement: ast.stmt, concept: str) -> Iterator[tuple[str, ast.stmt]]:
    """Cut a range of blocks short by one."""
    if concept in _CUT and isinstance(statement, ast.Assign):
        operation, change = _CUT[concept]
        made = copy.deepcopy(statement)
        made.value = ast.BinOp(made.value, operation(), ast.Constant(1))
        yield change, ast.fix_missing_locations(made)


def _nodes(statement: ast.stmt) -> Iterator[Any]:
    """Yield what can be altered, in order."""
    for node in ast.walk(statement):
        if (
            (isinstance(node, ast.Compare) and len(node.ops) == 1 and _is_data(node))
            or (isinstance(node, ast.Call) and _named(node) in {*_CHOICES, "max", "min"})
            or isinstance(node, ast.BoolOp)
        ):
            yield node


def _named(call: ast.Call) -> str:
    return getattr(call.func, "attr", "") if len(call.args) >= 2 else ""


def _is_data(node: ast.Compare) -> bool:
    """Whether it compares numbers, not whether something was given."""
    return type(node.ops[0]) in _COMPARISONS


def _change(node: Any) -> str:
    """Change a node in place; empty when there is nothing to change."""
    if isinstance(node, ast.Compare):
        old = ast.unparse(node)
        node.ops = [_COMPARISONS[type(node.ops[0])]()]
        return f"{_short(old)} -> {_short(ast.unparse(node))}"
    if isinstance(node, ast.BoolOp):
        old = ast.unparse(node)
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return f"{_short(old)} -> {_short(ast.unparse(node))}"
    if _named(node) in _CHOICES and len(node.args) == 3:
        node.args[1], node.args[2] = node.args[2], node.args[1]
        return "sides of the choice swapped"
    if _named(node) in ("max", "min"):
        old = ast.unparse(node)
        kept = node.args[0]
        node.args = [kept, copy.deepcopy(kept)]
        return f"{_short(old)} -> {_short(ast.unparse(kept))}"
    return ""


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
