"""What a C++ file of the compiler does: bytes in, a FileAnatomy out.

Three concepts, each one function over the syntax tree: `workspace-rewrite`, `pass-registration`
and `infinity-lowering`. They rest on the strings that the compiler's parts call each other by
(operation names, registered pass names, attribute names) and on where a declaration stands,
never on the names of variables, functions, files or on line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from srcmap.model import (
    Absence,
    FileAnatomy,
    KernelAnatomy,
    Lines,
    Note,
    Premise,
    Site,
)
from srcmap.parse.treesitter import Match, Parsed, ancestors, parse, problems_of, whole

if TYPE_CHECKING:
    from tree_sitter import Node

MOVE = re.compile(
    r"(?P<from>(?:.*[^a-z0-9])?(?P<src>[a-z0-9]+)_to_)(?P<dst>[a-z0-9]+)", re.IGNORECASE
)
"""The name of a copy from one memory to another: `copy_l0c_to_ub`."""

GLOBAL_MEMORIES = frozenset({"gm", "global", "hbm", "ddr", "workspace", "ws"})

PASS_NAME = re.compile(r"(?:tl|tilelang)(?:\.\w+)*\.transform\.(?P<name>\w+)")
INFINITY_NAME = re.compile(r"(?:tl|tilelang)(?:\.\w+)*\.infinity")

STATEMENTS = frozenset(
    {"field_declaration", "declaration", "expression_statement", "return_statement"}
)
NAMESPACE_LEVEL = frozenset(
    {"translation_unit", "declaration_list", "preproc_if", "preproc_ifdef", "preproc_else", "ERROR"}
)

Finder = Callable[[Parsed], list[Site]]


class Concept(NamedTuple):
    """How one concept is found, and how a file that cannot have it is told from its bytes."""

    id: str
    find: Finder
    trace: re.Pattern[bytes]
    """Every place of the concept holds a match of this, so a file without one has none."""


def read_cpp(data: bytes, path: str) -> FileAnatomy:
    """Read one C++ file; any bytes will do.

    A file whose bytes hold no trace of a concept is not parsed at all.
    """
    wanted = [concept for concept in CONCEPTS if concept.trace.search(data)]
    parsed = parse(data, "cpp") if wanted else None
    sites = [site for concept in wanted if parsed for site in concept.find(parsed)]
    found = {site.concept for site in sites}
    kernel = KernelAnatomy(
        qualname=PurePosixPath(path).name,
        kind="file",
        lines=whole(data),
        sites=tuple(sorted(sites, key=lambda site: (site.lines, site.concept, site.label))),
        absences=tuple(_absence(c, parsed) for c in CONCEPTS if c.id not in found),
    )
    problems = problems_of(data, parsed)
    return FileAnatomy(path=path, language="cpp", kernels=(kernel,), problems=problems)


def _absence(concept: Concept, parsed: Parsed | None) -> Absence:
    unsure = parsed is not None and bool(parsed.errors) and concept.trace.search(parsed.data)
    return Absence(
        concept=concept.id, reason=Note(f"trees.no-{concept.id}"), judged=not bool(unsure)
    )


# workspace-rewrite: a table of strings that gives a copy another destination


def find_rewrite_tables(parsed: Parsed) -> list[Site]:
    """Find declarations with a table in which a copy is sent to global memory instead."""
    tables: dict[int, tuple[Node, list[tuple[str, ...]]]] = {}
    for match in parsed.find("cpp-string-rows"):
        statement = _statement(match["table"][0])
        if statement is not None:
            row = _strings(parsed, match["row"][0])
            tables.setdefault(statement.start_byte, (statement, []))[1].append(row)
    return [
        _table_site(parsed, statement, rows)
        for statement, rows in tables.values()
        if all(_is_route(row) for row in rows) and any(_by_global_memory(row) for row in rows)
    ]


def _is_route(row: tuple[str, ...]) -> bool:
    return len(row) > 1 and all(MOVE.fullmatch(name) for name in row)


def _by_global_memory(row: tuple[str, ...]) -> bool:
    """Whether the first copy's source goes to global memory, where it did not go before."""
    direct, first_leg = MOVE.fullmatch(row[0]), MOVE.fullmatch(row[1])
    if direct is None or first_leg is None:
        return False
    return (
        direct["from"].lower() == first_leg["from"].lower()
        and direct["dst"].lower() not in GLOBAL_MEMORIES
        and first_leg["dst"].lower() in GLOBAL_MEMORIES
    )


def _strings(parsed: Parsed, row: Node) -> tuple[str, ...]:
    """All strings of a row, in order; something that is no string is an empty one."""
    found: list[str] = []
    for child in row.named_children:
        if child.type == "string_literal":
            found.append(parsed.text(child)[1:-1])
        elif child.type == "initializer_list":
            found.extend(_strings(parsed, child))
        elif child.type != "comment":
            found.append("")
    return tuple(found)


def _table_site(parsed: Parsed, statement: Node, rows: list[tuple[str, ...]]) -> Site:
    routes = ", ".join(f"{row[0]} -> {', '.join(row[1:])}" for row in rows)
    premise = Note("trees.copies-rerouted", {"routes": routes})
    return _site(parsed, "workspace-rewrite", statement, [premise], detail=routes)


# pass-registration: a registered name of the form tl.transform.X, at namespace level


def find_pass_registrations(parsed: Parsed) -> list[Site]:
    """Find the blocks at namespace level that register compiler passes under their names."""
    blocks: dict[int, tuple[Node, list[str]]] = {}
    for match in parsed.find("cpp-named-calls"):
        name = PASS_NAME.fullmatch(parsed.text(match["name"][0]))
        if not name or not _comes_first(match):
            continue
        block = _top_level(match["call"][0])
        if block is not None and _registers(parsed, match, block):
            blocks.setdefault(block.start_byte, (block, []))[1].append(name.group())
    return _told_apart(
        [_registration_site(parsed, block, names) for block, names in blocks.values()]
    )


def _registers(parsed: Parsed, match: Match, block: Node) -> bool:
    """Whether the name is handed to a global registry together with what it names."""
    callee, call = match["callee"][0], match["call"][0]
    if callee.type == "field_expression":
        member = parsed.text(callee.named_children[-1])
        given = _arguments(call)
        return member.startswith("def") and len(given) > 1 and _is_static_block(parsed, block)
    return "REGISTER_GLOBAL" in parsed.text(callee) and _is_continued(call)


def _is_continued(call: Node) -> bool:
    """Whether something is called on the result: `.set_body(...)` gives the name its function."""
    return call.parent is not None and call.parent.type == "field_expression"


def _is_static_block(parsed: Parsed, block: Node) -> bool:
    """Whether a top-level item runs at load time: a macro with a body, not a function."""
    head = parsed.text(block).partition("(")[0].strip()
    return head.isidentifier() and head.isupper()


def _registration_site(parsed: Parsed, block: Node, names: list[str]) -> Site:
    premise = Note("trees.registers-pass", {"names": ", ".join(names)})
    label = f"pass={names[0].rpartition('.')[2]}"
    return _site(
        parsed, "pass-registration", block, [premise], label=label, detail=", ".join(names)
    )


# infinity-lowering: the operation tl.infinity, joined with the functions that lower it


def find_infinity_lowering(parsed: Parsed) -> list[Site]:
    """Find where `infinity` is registered as an operation, with the functions that lower it."""
    functions = {
        parsed.text(match["name"][0]).rpartition("::")[2]: match["function"][0]
        for match in parsed.find("cpp-functions")
    }
    sites: list[Site] = []
    for match in parsed.find("cpp-named-calls"):
        operation = parsed.text(match["name"][0])
        if not INFINITY_NAME.fullmatch(operation) or not _comes_first(match):
            continue
        block = _top_level(match["call"][0])
        if block is not None:
            named = list(dict.fromkeys(_lowering_functions(parsed, block)))
            if named or "REGISTER" in parsed.text(match["callee"][0]):
                lowering = [functions[name] for name in named if name in functions]
                sites += _lowering_sites(parsed, operation, block, lowering)
    return sites


def _lowering_functions(parsed: Parsed, block: Node) -> Iterator[str]:
    """Names of the functions given to attributes such as `cuda.FLowerIntrinsic`."""
    for match in parsed.find("cpp-named-calls", block):
        if "LowerIntrinsic" in parsed.text(match["name"][0]) and _comes_first(match):
            for argument in _arguments(match["call"][0])[1:]:
                yield parsed.text(argument).lstrip("&").rpartition("::")[2]


def _lowering_sites(
    parsed: Parsed, operation: str, block: Node, lowering: list[Node]
) -> list[Site]:
    """One place when functions and registration stand next to each other, else one each."""
    notes = [Note("trees.registers-operation", {"name": operation})]
    notes += [Note("trees.lowered-by", {"name": _head_name(parsed, f)}) for f in lowering]
    run = _adjacent_run([*lowering, block])
    if run:
        return [_site(parsed, "infinity-lowering", run[0], notes, until=run[-1])]
    parts = [_site(parsed, "infinity-lowering", f, notes) for f in lowering[:1]]
    rest = [(f, f"function={_head_name(parsed, f)}") for f in lowering[1:]]
    for node, label in [*rest, (block, "part=registration")]:
        parts.append(_site(parsed, "infinity-lowering", node, notes, label=label))
    return parts


def _head_name(parsed: Parsed, function: Node) -> str:
    declarator = function.child_by_field_name("declarator")
    return parsed.text(declarator).partition("(")[0].strip() if declarator else ""


def _adjacent_run(nodes: list[Node]) -> list[Node]:
    """Put the nodes in source order when only comments stand between them, else give nothing."""
    ordered = sorted(nodes, key=lambda node: node.start_byte)
    for before, after in pairwise(ordered):
        between = before.next_named_sibling
        while between is not None and between.type == "comment":
            between = between.next_named_sibling
        if between is None or between.id != after.id:
            return []
    return ordered


# shared by the concepts


def _site(
    parsed: Parsed,
    concept: str,
    node: Node,
    notes: list[Note],
    *,
    until: Node | None = None,
    label: str = "",
    detail: str = "",
) -> Site:
    first, last = parsed.span(node), parsed.span(until or node)
    lines = Lines(first.first, last.last)
    confidence, doubts = parsed.trust(lines)
    return Site(
        concept=concept,
        label=label,
        lines=lines,
        context=Lines(_comment_start(parsed, node), lines.last),
        qualname=_qualname(parsed, node),
        confidence=confidence,
        detail=detail,
        proof=tuple(Premise(note=note, lines=lines) for note in notes) + doubts,
    )


def _told_apart(sites: list[Site]) -> list[Site]:
    """Labels are for telling several apart; a place that is the only one has none."""
    return sites if len(sites) > 1 else [replace(site, label="") for site in sites]


def _statement(node: Node) -> Node | None:
    return next((around for around in ancestors(node) if around.type in STATEMENTS), None)


def _top_level(node: Node) -> Node | None:
    """Find the item at namespace level that holds a node; None inside a class."""
    item = node
    for around in ancestors(node):
        if around.type in NAMESPACE_LEVEL:
            return item
        item = around
    return None


def _comes_first(match: Match) -> bool:
    """Whether the string of a named call is its first argument."""
    first = next(iter(_arguments(match["call"][0])), None)
    return first is not None and first.start_byte < match["name"][0].start_byte < first.end_byte


def _arguments(call: Node) -> list[Node]:
    given = call.child_by_field_name("arguments")
    return [n for n in given.named_children if n.type != "comment"] if given else []


def _comment_start(parsed: Parsed, node: Node) -> int:
    """First line of the comments that stand right above a node, else the node's own."""
    first = parsed.span(node).first
    above = node.prev_named_sibling
    while above is not None and above.type == "comment":
        lines = parsed.span(above)
        begins_line = not parsed.lines[lines.first - 1][: above.start_point.column].strip()
        if lines.last != first - 1 or not begins_line:
            break
        first, above = lines.first, above.prev_named_sibling
    return first


def _qualname(parsed: Parsed, node: Node) -> str:
    """Namespaces, classes and functions around a node, and its own name if it is a function."""
    names = []
    for around in [node, *ancestors(node)]:
        if around.type in ("namespace_definition", "class_specifier", "struct_specifier"):
            name = around.child_by_field_name("name")
            names.append(parsed.text(name) if name else "(anonymous)")
        elif around.type == "function_definition" and not _is_static_block(parsed, around):
            names.append(_head_name(parsed, around).rpartition(" ")[2].lstrip("*&"))
    return "::".join(reversed(names))


CONCEPTS = (
    Concept(
        "workspace-rewrite",
        find_rewrite_tables,
        re.compile(rb"(?i)_to_(?:" + "|".join(sorted(GLOBAL_MEMORIES)).encode() + rb')"'),
    ),
    Concept(
        "pass-registration",
        find_pass_registrations,
        re.compile(b'"' + PASS_NAME.pattern.encode() + b'"'),
    ),
    Concept(
        "infinity-lowering",
        find_infinity_lowering,
        re.compile(b'"' + INFINITY_NAME.pattern.encode() + b'"'),
    ),
)
