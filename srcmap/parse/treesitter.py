"""Bytes in, a tree-sitter tree out: C++, Markdown (blocks and inline) and Python.

The parsers never refuse a file: what they cannot read becomes an error node, and `trouble_near`
says whether one stands near a place, so that whoever reports the place can trust it less.
Queries stand in `data/queries/<language>-<what>.scm` and are run by that name.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from srcmap.errors import ParseError
from srcmap.model import Confidence, Lines, Note, Premise
from srcmap.parse.spans import from_rows

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Query, Tree

Grammar = Literal["cpp", "markdown", "markdown_inline", "python"]

Match = dict[str, list["Node"]]
"""What one match of a query captured: capture name to nodes, in source order."""

QUERIES = Path(__file__).parent.parent / "data" / "queries"

NEAR = 3
"""An error this many lines away from a place still counts as near it."""

_GRAMMARS: dict[str, tuple[str, str]] = {
    "cpp": ("tree_sitter_cpp", "language"),
    "markdown": ("tree_sitter_markdown", "language"),
    "markdown_inline": ("tree_sitter_markdown", "inline_language"),
    "python": ("tree_sitter_python", "language"),
}


class Trouble(NamedTuple):
    """A parse error, and whether it lies inside the place that was asked about."""

    lines: Lines
    inside: bool


class Parsed:
    """One parsed text. Nodes are only good while this lives."""

    def __init__(self, data: bytes, grammar: Grammar, tree: Tree) -> None:
        self.data = data
        self.grammar = grammar
        self.tree = tree

    @property
    def root(self) -> Node:
        """The node that holds the whole text."""
        return self.tree.root_node

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines as git counts them, without their ends; at least one."""
        lines = self.data.split(b"\n")
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        return lines

    @cached_property
    def errors(self) -> tuple[Lines, ...]:
        """Where the grammar could not follow, in source order."""
        if not self.root.has_error:
            return ()
        found = self.find(f"{self.grammar}-errors")
        return tuple(sorted({self.span(node) for match in found for node in match["error"]}))

    def find(self, query: str, inside: Node | None = None) -> list[Match]:
        """Run the query `data/queries/<query>.scm`, over everything or inside one node."""
        from tree_sitter import QueryCursor

        cursor = QueryCursor(_query(query))
        return [captures for _, captures in cursor.matches(inside or self.root)]

    def text(self, node: Node) -> str:
        """Give the node's text; bytes that are not UTF-8 become replacement characters."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def span(self, node: Node) -> Lines:
        """Give the lines of a node, without the blank lines that Markdown nodes end with."""
        rows = from_rows(node.start_point.row, node.end_point.row, node.end_point.column)
        last = min(rows.last, len(self.lines))
        while last > rows.first and not self.lines[last - 1].strip():
            last -= 1
        return Lines(min(rows.first, last), last)

    def trouble_near(self, place: Lines) -> Trouble | None:
        """Find the parse error nearest to a place, when one lies in it or within NEAR lines."""
        near = [
            (max(place.first - error.last, error.first - place.last, 0), error)
            for error in self.errors
            if error.first <= place.last + NEAR and error.last >= place.first - NEAR
        ]
        if not near:
            return None
        distance, error = min(near)
        return Trouble(error, inside=distance == 0)

    def trust(self, place: Lines) -> tuple[Confidence, tuple[Premise, ...]]:
        """Say how far a place can be trusted; a parse error in it or near it is said, as doubt."""
        trouble = self.trouble_near(place)
        if trouble is None:
            return "high", ()
        note = Note("trees.parse-error-near", {"lines": str(trouble.lines)})
        return "low" if trouble.inside else "medium", (Premise(note=note, lines=trouble.lines),)


def parse(data: bytes, grammar: Grammar) -> Parsed:
    """Parse bytes; never refuses them.

    Raises ParseError when the parser itself gives up, which no input is known to cause.
    """
    from tree_sitter import Parser

    # A parser of its own each time: it is cheap, and parsers may not be shared by threads.
    tree = cast("Tree | None", Parser(language(grammar)).parse(data))
    if tree is None:
        raise ParseError(f"tree-sitter gave up on this text as {grammar}", slug="parse")
    return Parsed(data, grammar, tree)


def whole(data: bytes) -> Lines:
    """All lines of a text; an empty one has line 1."""
    return Lines(1, max(data.count(b"\n") + (not data.endswith(b"\n")), 1))


def problems_of(data: bytes, parsed: Parsed | None) -> tuple[Note, ...]:
    """Say what is odd about a file's bytes, and how much of it the grammar could not follow."""
    notes = []
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        notes.append(Note("trees.not-utf8", {"line": _line_at(data, error.start)}))
    if (nul := data.find(b"\0")) >= 0:
        notes.append(Note("trees.nul-byte", {"line": _line_at(data, nul)}))
    if parsed and parsed.errors:
        count, first = str(len(parsed.errors)), str(parsed.errors[0].first)
        notes.append(Note("trees.parse-errors", {"count": count, "line": first}))
    return tuple(notes)


def _line_at(data: bytes, offset: int) -> str:
    return str(data.count(b"\n", 0, offset) + 1)


def ancestors(node: Node) -> list[Node]:
    """List the nodes around a node, innermost first."""
    found = []
    while (parent := node.parent) is not None:
        found.append(node := parent)
    return found


def query_names() -> tuple[str, ...]:
    """Every query that ships, by name."""
    return tuple(sorted(path.stem for path in QUERIES.glob("*.scm")))


@cache
def language(grammar: Grammar) -> Language:
    """Load a grammar, once."""
    from tree_sitter import Language

    module, function = _GRAMMARS[grammar]
    return Language(getattr(import_module(module), function)())


@cache
def _query(name: str) -> Query:
    from tree_sitter import Query, QueryError

    source = (QUERIES / f"{name}.scm").read_text("utf-8")
    grammar = cast("Grammar", name.partition("-")[0])
    try:
        return cast("Query", Query(language(grammar), source))
    except QueryError as error:
        raise ParseError(f"{name}.scm does not fit the grammar: {error}", slug="query") from error
