"""Online softmax: scale, state, products, maximum, rescaling, denominator, normalising, sink, epilogue."""

from __future__ import annotations

import ast

from srcmap.anatomy import ops, roles
from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.facts import tensors
from srcmap.anatomy.spans import Place
from srcmap.model import Lines
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.tree import Stmt
    from srcmap.anatomy.flow import Event, Product
    from srcmap.anatomy.deps import Definition
    from collections.abc import Iterator


def softmax_scale(kernel: Kernel) -> Iterator[Found]:
    """The factor that scores or the maximum are multiplied with before the exponential."""
    scaled = [
        event for event in kernel.facts.events("SCALE", "MAX-NEG") if _scales_scores(kernel, event)
    ]
    seen: set[Lines] = set()
    for event in scaled:
        for name in _factors(kernel, event.statement):
            for lines in _assignments(kernel, name, event.statement):
                if lines not in seen:
                    seen.add(lines)
                    yield Found("softmax-scale", None, lines, events=(event,))


def _scales_scores(kernel: Kernel, event: Event) -> bool:
    tags = {tag for tag, _ in event.because}
    queries = {f"L:{name}" for name in kernel.facts.query_tensors}
    return bool(tags & ({"score", "max", "s-m", "m-m", "nmax"} | queries))


def _factors(kernel: Kernel, statement: Stmt) -> list[str]:
    """Names of scalars that a statement multiplies or divides by."""
    call = statement.call
    if call is not None:
        row = ops.TILE_OPS.get(kernel.context.name(call) or "")
        operands = [ops.argument(call, operand, row.names) for operand in row.src] if row else []
    else:
        operands = [
            side
            for node in ast.walk(statement.node)
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div))
            for side in (node.left, node.right)
        ]
        if isinstance(statement.node, ast.AugAssign):
            operands.append(statement.node.value)
    names = [_bare_name(operand) for operand in operands]
    return [name for name in dict.fromkeys(names) if name and _is_scalar(kernel, name)]


def _bare_name(expr: ast.expr | None) -> str | None:
    while isinstance(expr, ast.UnaryOp):
        expr = expr.operand
    return expr.id if isinstance(expr, ast.Name) else None


def _is_scalar(kernel: Kernel, name: str) -> bool:
    return name not in kernel.context.tiles and name not in kernel.context.globals


def _assignments(kernel: Kernel, name: str, at: Stmt) -> Iterator[Lines]:
    """Lines of the assignment of a factor; the whole `if` when both arms set it."""
    definitions = [
        d
        for d in kernel.deps.definitions(name, at)
        if d.node is not None and d.atom.origin == "scalar"
    ]
    if not definitions:
        return
    whole = _common_if(kernel, definitions)
    if whole is not None:
        yield whole
    else:
        yield Lines(definitions[-1].line, _end(definitions[-1]))


def _end(definition: Definition) -> int:
    assert definition.node is not None
    return definition.node.end_lineno or definition.line


def _common_if(kernel: Kernel, definitions: list[Definition]) -> Lines | None:
    """The `if` whose two arms both hold a definition of the name, when nothing later redefines it."""
    nodes = {id(d.node) for d in definitions}
    last = definitions[-1]
    for scope in kernel.context.root.scopes:
        for node in ast.walk(scope):
            if isinstance(node, ast.If) and node.orelse and last.line <= (node.end_lineno or 0):
                arms = [
                    {id(below) for step in arm for below in ast.walk(step)}
                    for arm in (node.body, node.orelse)
                ]
                if all(arm & nodes for arm in arms):
                    return Lines(node.lineno, node.end_lineno or node.lineno)
    return None


def state_init(kernel: Kernel) -> Iterator[Found]:
    """The fills of accumulator, denominator and maximum before the key loop."""
    tiles = kernel.facts.tiles_with("max", "nmax", "denom", "acc")
    statements = [
        write.statement
        for write in kernel.reading.writes
        if write.buffer in tiles
        and write.value
        and not _copies(kernel, write.statement)
        and write.value.keys() <= roles.SCALARS - {"inv", "ninv"}
        and kernel.facts.kv_loop_of(write.statement) is None
        and _before_loops(kernel, write.statement)
    ]
    yield from (kernel.at("state-init", place) for place in kernel.spans.places(statements))


def _copies(kernel: Kernel, statement: Stmt) -> bool:
    row = ops.TILE_OPS.get(kernel.context.call_name(statement) or "")
    return row is not None and row.kind == "copy"


def _before_loops(kernel: Kernel, statement: Stmt) -> bool:
    region = kernel.context.region_of(statement)
    loops = [loop for loop in kernel.facts.kv_loops if kernel.context.region_of(loop) is region]
    return any(statement.uid < loop.uid for loop in loops) or not kernel.facts.kv_loops


def products(kernel: Kernel) -> Iterator[Found]:
    """The two matrix products; the second with the load of the values right before it."""
    queries = [product.statement for product in kernel.facts.qk_products]
    yield from (
        kernel.at("qk-gemm", place, kernel.facts.events("QK")) for place in _calls(kernel, queries)
    )
    for place in _by_probabilities(kernel):
        inside = [
            product for product in kernel.facts.pv_products if product.statement in place.core
        ]
        taken = kernel.spans.extend_back(
            place, lambda s, p=inside: _loads_values(kernel, s, p), across_barriers=False
        )
        yield kernel.at("pv-gemm", taken, kernel.facts.events("PV"))


def _by_probabilities(kernel: Kernel) -> list[Place]:
    """Products of one probability tile side by side are one place; of two tiles, two."""
    groups: dict[str, list[Stmt]] = {}
    for product in kernel.facts.pv_products:
        operand = product.call.args[0 if "prob" in product.left else 1]
        groups.setdefault(ast.dump(operand), []).append(product.statement)
    return [place for statements in groups.values() for place in kernel.spans.places(statements)]


def _calls(kernel: Kernel, statements: list[Stmt]) -> list[Place]:
    return kernel.spans.places(statements)


def _loads_values(kernel: Kernel, statement: Stmt, inside: list[Product]) -> bool:
    """Whether a statement (or everything in it) loads the operand of these products from V."""
    wanted: set[str] = set()
    for product in inside:
        side = product.right if "prob" in product.left else product.left
        wanted |= tensors(side)
    names = {
        access.name
        for access in kernel.reading.loads.values()
        if _within(access.statement, statement)
    }
    return bool(names & wanted) and all(
        kernel.spans._is_staging(below) or kernel.context.is_noise(below)
        for below in statement.walk()
        if below.kind == "simple"
    )


def _within(inner: Stmt, outer: Stmt) -> bool:
    return inner is outer or inner.inside(outer)


def row_max(kernel: Kernel) -> Iterator[Found]:
    """Save the old maximum, reduce, merge; on Ascend the negated, scaled maximum may be kept."""
    negated = kernel.facts.tiles_with("nmax")
    events = kernel.facts.events("REDUCE-MAX", "MAX-MERGE", in_loop=True)
    events += [
        event for event in kernel.facts.events("MAX-NEG", in_loop=True) if event.target in negated
    ]
    saves = {event.statement for event in kernel.facts.events("SAVE-MAX")}
    tiles = kernel.facts.tiles_with("max", "nmax")
    resets = {
        write.statement
        for write in kernel.reading.writes
        if write.buffer in tiles and write.value and write.value.keys() <= {"neg", "pos"}
    }
    for place in kernel.spans.places(event.statement for event in events):
        yield kernel.at(
            "row-max", kernel.spans.extend_back(place, lambda s: s in saves | resets), events
        )


def rescaling(kernel: Kernel) -> Iterator[Found]:
    """Rescale factor, probabilities, row sum, denominator and the rescaled accumulator."""
    facts = kernel.facts
    yield from _with_broadcast(
        kernel, "rescale-factor", facts.events("M-M", "RESCALE", in_loop=True)
    )
    yield from _with_broadcast(kernel, "probability", facts.events("S-M", "PROB", in_loop=True))
    yield from kernel.at_events("row-sum", facts.events("ROWSUM", in_loop=True))
    yield from _with_broadcast(
        kernel, "denominator", facts.events("DENOM-RESCALE", "DENOM-ADD", in_loop=True)
    )
    yield from _with_broadcast(kernel, "acc-rescale", facts.events("ACC-RESCALE", in_loop=True))
    yield from kernel.at_events("check-inf", facts.events("CHECK-INF"))
    yield from kernel.at_events("mask-after-exp", facts.events("MASK-AFTER-EXP"))


def _with_broadcast(kernel: Kernel, concept: str, events: list[Event]) -> Iterator[Found]:
    """Places, with the one broadcast right before that only they read (Ascend has no implicit one)."""
    for place in kernel.spans.places(event.statement for event in events):
        yield kernel.at(concept, _take_broadcast(kernel, place), events)


def _take_broadcast(kernel: Kernel, place: Place) -> Place:
    before = kernel.spans.previous(place)
    if before is None or place.arm or kernel.context.call_name(before) not in _BROADCASTS:
        return place
    if not kernel.spans.feeds(before, place.anchor, set(place.core)) and not _feeds_core(
        kernel, before, place
    ):
        return place
    return Place(before.lines.first, place.last, place.anchor, (before, *place.core))


_BROADCASTS = {"tile.broadcast", "tile.brcb", "tile.brcb_experiment"}


def _feeds_core(kernel: Kernel, before: Stmt, place: Place) -> bool:
    written = kernel.spans.written(before)
    return any(
        core in kernel.spans.readers.get(name, ()) for name in written for core in place.core
    )


def normalising(kernel: Kernel) -> Iterator[Found]:
    """Division by the denominator, and what a row that sees no key returns."""
    yield from _with_broadcast(kernel, "normalise", kernel.facts.events("NORM"))
    yield from kernel.at_events("empty-row", kernel.facts.events("EMPTY-ROW"))


def sink(kernel: Kernel) -> Iterator[Found]:
    """The sink logit's load, and its term in the denominator."""
    events = kernel.facts.events("SINK-DIFF", "SINKEXP", "SINK-ADD", "MAX-SINK")
    if not any(event.kind == "SINK-ADD" for event in events):
        return
    makers = {maker for event in events for tag, maker in event.because if tag.startswith("L:")}
    loads = [
        statement
        for uid in sorted(makers)
        if (statement := kernel.facts.statement(uid)) is not None
    ]
    yield from (kernel.at("sink-load", place) for place in kernel.spans.places(loads))
    yield from _with_broadcast(kernel, "sink-epilogue", events)


def epilogue(kernel: Kernel) -> Iterator[Found]:
    """The normalised accumulator to the output, from the first copy to the store."""
    stores = [
        access
        for access in kernel.facts.stores
        if access.value.keys() & {"acc", "norm", "wacc"}
        and access.name not in kernel.facts.workspaces
        and access.name not in kernel.facts.handed_on
        and ("norm" in access.value or kernel.facts.kv_loop_of(access.statement) is None)
    ]
    yield from stored_runs(kernel, "epilogue-store", [access.statement for access in stores])


def stored_runs(kernel: Kernel, concept: str, statements: list[Stmt]) -> Iterator[Found]:
    """Stores, back over the copies that lead to them."""
    for place in kernel.spans.places(statements):
        yield kernel.at(
            concept, kernel.spans.extend_back(place, lambda s, p=place: is_staging_copy(kernel, s))
        )


def is_staging_copy(kernel: Kernel, statement: Stmt) -> bool:
    """A copy (or one-line copying loop) from tile to tile of an accumulator or its like."""
    inner = [
        below
        for below in statement.walk()
        if below.kind == "simple" and not kernel.context.is_noise(below)
    ]
    if len(inner) != 1 or not kernel.spans._is_staging(inner[0]):
        return False
    writes = [write for write in kernel.reading.writes if write.statement is inner[0]]
    return any(write.value.keys() & {"acc", "norm", "wacc", "lse", "denom"} for write in writes)
