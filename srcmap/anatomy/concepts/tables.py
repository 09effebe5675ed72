"""Keys and values behind a table: page tables, sparse indices, the loads that they feed.

Indices that stay while the keys move tell the two apart: exactly one, equal to the batch of the
query, is a page table (PagedAttention, Kwon and others 2023); otherwise the table is per query.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.concepts.kv_heads import key_value_loads
from srcmap.anatomy.context import index_items
from srcmap.anatomy.definitions import scalar_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.reading import Access
    from srcmap.anatomy.spans import Place
    from srcmap.anatomy.tree import Stmt


def tables(kernel: Kernel) -> Iterator[Found]:
    """Page table or sparse indices: the parameter, the look-up, the load that it feeds."""
    known = Tables(kernel)
    for table in sorted(known.names):
        paged = known.is_page_table(table)
        yield from kernel.parameter_line(
            "block-table-param" if paged else "block-indices-param", table
        )
        lookups = [one.statement for one in kernel.facts.loads_of(table) if known.feeds(one)]
        lookups += _scalar_reads(kernel, table)
        for place in kernel.spans.places(lookups, join=False, grow=False):
            yield kernel.at("block-table" if paged else "block-index", _whole_load(kernel, place))
    yield from _loads(kernel, known)


class Tables:
    """Page tables and sparse indices of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names = kernel.facts.address_tables - kernel.facts.workspaces
        """Tables that K's or V's address rests on."""
        self._pages: dict[str, bool] = {}

    def feeds(self, lookup: Access) -> bool:
        """Whether a look-up is for K's or V's address, and not only for a mask."""
        facts, tiles = self.kernel.facts, self.kernel.context.tiles
        operands = facts.key_tensors | facts.value_tensors
        if any(load.statement is lookup.statement for load in facts.loads_of_all(operands)):
            return True
        written = self.kernel.feeders.written(lookup.statement) & set(tiles)
        return (
            not written
            or bool(written & facts.address_tiles(operands))
            or "alloc_var" in {tiles[tile] for tile in written}
        )

    def is_page_table(self, table: str) -> bool:
        """Looked up by what a sparse index gave, or by Q's batch and a key block.

        A table that a mask reads back holds positions of keys, not places where they are kept.
        """
        if table not in self._pages:
            self._pages[table] = self._judge(table)
        return self._pages[table]

    def _judge(self, table: str) -> bool:
        if table not in self.names:
            return False
        lookups = self.kernel.facts.loads_of(table)
        if any(self._is_behind_index(lookup) for lookup in lookups):
            return True
        if table in self._positions:
            return False
        flat = bool(lookups) and all(len(index_items(one.expr)) == 1 for one in lookups)
        return flat or any(map(self._looks_like_pages, lookups))  # one of each query has two

    def _is_behind_index(self, lookup: Access) -> bool:
        others = self.kernel.facts.address_tables - {lookup.name}
        return any(
            self.kernel.deps.looked_up(item, lookup.statement) & others
            for item in index_items(lookup.expr)
        )

    @cached_property
    def _positions(self) -> set[str]:
        """Tables whose values are compared with the query or in a mask."""
        found: set[str] = set()
        for write in self.kernel.masks.writes:
            for one in write.comparisons:
                for side in (one.left, one.right):
                    found |= self.kernel.deps.looked_up(side, one.statement)
        for statement in self.kernel.context.statements:
            if statement.kind in ("simple", "if"):
                found |= self._compared_with_query(statement)
        return found

    def _compared_with_query(self, statement: Stmt) -> set[str]:
        deps, queries = self.kernel.deps, self.kernel.facts.query_names
        found: set[str] = set()
        for node in ast.walk(statement.test or statement.node):
            if isinstance(node, ast.Compare):
                left, right = node.left, node.comparators[0]
                for one, other in ((left, right), (right, left)):
                    if deps.atoms(other, statement, lookups=False) & queries:
                        found |= deps.looked_up(one, statement)
        return found

    def _looks_like_pages(self, lookup: Access) -> bool:
        items = index_items(lookup.expr)
        still = [item for place, item in enumerate(items) if not self._moves(item, lookup, place)]
        if len(still) != 1 or len(items) != 2:
            return False
        return _expanded(self.kernel, still[0], lookup.statement) in self._query_batches

    def _moves(self, item: ast.expr, lookup: Access, place: int) -> bool:
        """Whether an index moves with the keys, be they in a loop or written out by hand."""
        atoms = self.kernel.deps.atoms(item, lookup.statement, lookups=True)
        if isinstance(item, ast.Slice) or atoms & self.kernel.facts.key_names:
            return True
        if not self.kernel.facts.is_unrolled(lookup.name):
            return False
        others = (index_items(one.expr) for one in self.kernel.facts.loads_of(lookup.name))
        return len({ast.dump(items[place]) for items in others if len(items) > place}) > 1

    @cached_property
    def _query_batches(self) -> set[str]:
        """The first index of the query's loads."""
        return {
            _expanded(self.kernel, item, access.statement)
            for access in self.kernel.facts.loads_of_all(self.kernel.facts.query_tensors)
            for item in index_items(access.expr)[:1]
        }


def _expanded(kernel: Kernel, expr: ast.expr, at: Stmt) -> str:
    """Equal for two expressions that are the same when their scalars are written out."""
    return ast.dump(kernel.deps.expand(expr, at))


def _whole_load(kernel: Kernel, place: Place) -> Place:
    """A look-up inlined in an element-wise load takes its loop along."""
    match place.anchor.node:
        case ast.Assign(targets=[ast.Subscript(), *_]):
            return kernel.spans.grow(place)
    return place


def _scalar_reads(kernel: Kernel, table: str) -> list[Stmt]:
    """Scalars read from a tile in which the table is staged, once per key block."""
    staged = {
        buffer
        for buffer in kernel.context.tiles
        for _, source in kernel.deps.sources(buffer)
        if kernel.context.buffer(source) == table
    }
    return [
        statement
        for statement in kernel.context.statements
        if isinstance(statement.node, ast.Assign)
        and isinstance(value := scalar_value(statement), ast.Subscript)
        and kernel.context.buffer(value) in staged
        and kernel.facts.kv_loop_of(statement) is not None
    ]


def _loads(kernel: Kernel, known: Tables) -> Iterator[Found]:
    """Loads through a table; parts of one row (latent and rope) side by side are one place."""
    groups: dict[tuple[str, str, str], list[Stmt]] = {}
    for operand, access in key_value_loads(kernel):
        used = kernel.facts.tables_of(access)
        if used:
            concept = "paged-load" if any(map(known.is_page_table, used)) else "gather"
            key = (concept, operand, _row_of(kernel, access, used))
            groups.setdefault(key, []).append(access.statement)
    seen: set[Stmt] = set()
    for (concept, operand, _), statements in groups.items():
        for place in kernel.spans.places(statements):
            if not set(place.core) <= seen:  # a latent that is key and value at once is one load
                yield kernel.at(concept, place, operand=operand)
            seen |= set(place.core)


def _row_of(kernel: Kernel, access: Access, tables: set[str]) -> str:
    """The look-ups of an address: loads with the same ones fetch parts of one row."""
    whole = kernel.deps.expand(access.expr, access.statement)
    looked = {
        ast.dump(node)
        for node in ast.walk(whole)
        if isinstance(node, ast.Subscript) and kernel.context.buffer(node) in tables
    }
    return " ".join(sorted(looked))


def block_masks(kernel: Kernel) -> Iterator[Found]:
    """A 0/1 table of blocks: its parameter, its load, the test that skips a block."""
    for statement in kernel.context.statements:
        if statement.test is None or kernel.facts.kv_loop_of(statement) is None:
            continue
        tests = kernel.masks.flattener.comparisons(statement.test, statement, hides=True)
        for comparison in tests:
            table = kernel.masks.classifier.mask_table(comparison)
            if table is not None and _skips(kernel, statement):
                yield from _block_mask(kernel, statement, table)


def _block_mask(kernel: Kernel, skip: Stmt, table: str) -> Iterator[Found]:
    yield from kernel.parameter_line("block-mask-param", table)
    header = skip.header_lines
    yield Found("block-skip", kernel.spans.place(skip), header)
    for access in kernel.facts.loads_of(table):
        place = kernel.spans.place(access.statement)
        yield Found("block-mask", place, header if access.statement is skip else place.lines)


def _skips(kernel: Kernel, statement: Stmt) -> bool:
    """Whether the product of queries and keys stands under the test."""
    return any(product.statement.inside(statement) for product in kernel.facts.qk_products)
