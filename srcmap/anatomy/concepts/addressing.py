"""Where keys and values come from: KV heads, prefix sums, page tables, sparse indices, splits."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import NamedTuple, TYPE_CHECKING

from srcmap.anatomy.concepts.base import Found, Kernel
from srcmap.anatomy.concepts.masking import Masks, concepts_of, parameter_line
from srcmap.anatomy.context import index_items
from srcmap.model import Lines

if TYPE_CHECKING:
    from srcmap.anatomy.flow import Access
    from srcmap.anatomy.deps import Atom, Definition
    from srcmap.anatomy.tree import Stmt
    from collections.abc import Iterator


def kv_heads(kernel: Kernel) -> Iterator[Found]:
    """How many KV heads there are, and which one a query head reads."""
    yield from _kv_head_count(kernel)
    seen: set[Lines] = set()
    for operand, access in _key_value_loads(kernel):
        for found in _kv_head(kernel, operand, access):
            if found.lines not in seen:
                seen.add(found.lines)
                yield found


def _kv_head_count(kernel: Kernel) -> Iterator[Found]:
    key = {name for tensor in kernel.facts.key_tensors for name in shape_names(kernel, tensor)}
    query = {name for tensor in kernel.facts.query_tensors for name in shape_names(kernel, tensor)}
    for name in sorted(key - query):
        for definition in _scalar_definitions(kernel, name)[-1:]:
            if definition.value is not None and _divides(kernel, definition.value):
                yield kernel.outside("kv-head-count", _lines(definition), "roles.kv-head-count")


def shape_names(kernel: Kernel, tensor: str) -> set[str]:
    """Names of the extents in a parameter's annotation, a named shape followed."""
    annotation = _annotation(kernel, tensor)
    if not isinstance(annotation, ast.Call) or not annotation.args:
        return set()
    shape: ast.expr | None = annotation.args[0]
    if isinstance(shape, ast.Name):
        values = [d.value for d in _scalar_definitions(kernel, shape.id)]
        shape = values[-1] if values else None
    elements = shape.elts if isinstance(shape, (ast.List, ast.Tuple)) else []
    return {element.id for element in elements if isinstance(element, ast.Name)}


def _scalar_definitions(kernel: Kernel, name: str) -> list[Definition]:
    """Definitions in the kernel (eager style), else around it."""
    return kernel.deps.all_of(name) or list(kernel.deps.outer(name))


def _annotation(kernel: Kernel, tensor: str) -> ast.expr | None:
    function = kernel.context.root.function
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if argument.arg == tensor and argument.annotation is not None:
            return argument.annotation
    for node in function.body:
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == tensor
        ):
            return node.annotation
    return None


def _key_value_loads(kernel: Kernel) -> Iterator[tuple[str, Access]]:
    for operand, names in (("K", kernel.facts.key_tensors), ("V", kernel.facts.value_tensors)):
        for name in sorted(names):
            for access in kernel.facts.loads_of(name):
                yield operand, access


def _kv_head(kernel: Kernel, operand: str, access: Access) -> Iterator[Found]:
    query = kernel.facts.all_atoms(kernel.facts.query_tensors)
    for item in index_items(access.expr):
        if isinstance(item, ast.Slice) or _moves_with_keys(kernel, item, access.statement):
            continue
        if isinstance(item, ast.Name):
            for definition in kernel.deps.definitions(item.id, access.statement):
                if _is_kv_head(kernel, definition, query):
                    assert definition.statement is not None
                    yield kernel.at("kv-head", kernel.spans.place(definition.statement))
        elif _divides(kernel, item) and _rests_on_grid(kernel, item, access.statement):
            yield kernel.at("kv-head", kernel.spans.place(access.statement), operand=operand)


def _moves_with_keys(kernel: Kernel, item: ast.expr, at: Stmt) -> bool:
    return bool(kernel.deps.atoms(item, at, lookups=True) & kernel.facts.key_names)


def _is_kv_head(kernel: Kernel, definition: Definition, query: set[Atom]) -> bool:
    if definition.value is None or definition.statement is None or definition.atom in query:
        return False
    return _divides(kernel, definition.value) and _rests_on_grid(
        kernel, definition.value, definition.statement
    )


def _divides(kernel: Kernel, expr: ast.expr) -> bool:
    for node in ast.walk(expr):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
            return True
        if isinstance(node, ast.Call) and kernel.context.name(node) in ("floordiv", "truncdiv"):
            return True
    return False


def _rests_on_grid(kernel: Kernel, expr: ast.expr, at: Stmt) -> bool:
    return any(
        atom.origin in ("grid", "loop") for atom in kernel.deps.atoms(expr, at, lookups=False)
    )


def _lines(definition: Definition) -> Lines:
    node = definition.node
    return Lines(
        definition.line,
        (node.end_lineno or definition.line) if node is not None else definition.line,
    )


def prefix_sums(kernel: Kernel) -> Iterator[Found]:
    """Start, end and length of a sample: scalars looked up at `i` and `i + 1` of one tensor."""
    tensors = _prefix_tensors(kernel)
    first = [s for s in kernel.context.statements if _looks_up(kernel, s, tensors)]
    names = {name for statement in first for name in kernel.spans.written(statement)}
    lengths = [s for s in kernel.context.statements if s not in first and _is_length(s, names)]
    for place in kernel.spans.places([*first, *lengths], grow=False):
        if any(core in first for core in place.core):
            yield kernel.at("cu-seqlens", place)


def _prefix_tensors(kernel: Kernel) -> set[str]:
    indices: dict[str, set[str]] = {}
    for access in kernel.reading.loads.values():
        items = index_items(access.expr)
        if len(items) == 1 and not isinstance(items[0], ast.Slice):
            indices.setdefault(access.name, set()).add(
                ast.dump(kernel.deps.expand(items[0], access.statement))
            )
    return {name for name, seen in indices.items() if any(_next_of(kernel, name, seen))}


def _next_of(kernel: Kernel, name: str, seen: set[str]) -> Iterator[bool]:
    for access in kernel.facts.loads_of(name):
        item = index_items(access.expr)[0]
        if (
            isinstance(item, ast.BinOp)
            and isinstance(item.op, ast.Add)
            and isinstance(item.right, ast.Constant)
        ):
            before = ast.dump(kernel.deps.expand(item.left, access.statement))
            yield item.right.value == 1 and before in seen


def _looks_up(kernel: Kernel, statement: Stmt, tensors: set[str]) -> bool:
    if not kernel.spans._is_scalar(statement):
        return False
    value = statement.node.value  # type: ignore[attr-defined]
    return any(
        isinstance(node, ast.Subscript) and kernel.context.buffer(node) in tensors
        for node in ast.walk(value)
    )


def _is_length(statement: Stmt, names: set[str]) -> bool:
    node = statement.node
    if (
        not isinstance(node, ast.Assign)
        or not isinstance(node.value, ast.BinOp)
        or not isinstance(node.value.op, ast.Sub)
    ):
        return False
    used = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
    return bool(used) and used <= names


def query_offset(kernel: Kernel) -> Iterator[Found]:
    """A difference of two lengths that shifts the causal diagonal."""
    seen: set[Lines] = set()
    for expr, at in _diagonals(kernel):
        for definition in _named_below(kernel, expr, at):
            lines = _lines(definition)
            if lines not in seen and _is_shift(kernel, definition):
                seen.add(lines)
                if definition.statement is None:
                    yield kernel.outside("query-offset", lines, "roles.query-offset")
                else:
                    yield kernel.at("query-offset", kernel.spans.place(definition.statement))


def _diagonals(kernel: Kernel) -> Iterator[tuple[ast.expr, Stmt]]:
    for write in Masks(kernel).writes:
        if concepts_of(write.kinds) & {"causal-mask", "window-mask", "padding-mask"}:
            for comparison in write.comparisons:
                yield comparison.left, comparison.statement
                if comparison.right is not None:
                    yield comparison.right, comparison.statement


def _named_below(kernel: Kernel, expr: ast.expr, at: Stmt, depth: int = 4) -> Iterator[Definition]:
    """Definitions of the scalars that are added up in an expression, casts and definitions followed."""
    for node in _terms(expr):
        if isinstance(node, ast.Name) and depth:
            for definition in kernel.deps.definitions(node.id, at):
                yield definition
                if definition.value is not None and definition.unpacked is None:
                    yield from _named_below(
                        kernel, definition.value, definition.statement or at, depth - 1
                    )


def _terms(expr: ast.expr) -> Iterator[ast.expr]:
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, (ast.Add, ast.Sub)):
        yield from _terms(expr.left)
        yield from _terms(expr.right)
    elif isinstance(expr, ast.BinOp):
        yield from _terms(expr.left)
    elif isinstance(expr, ast.Call) and len(expr.args) == 1:
        yield from _terms(expr.args[0])
    else:
        yield expr


def _is_shift(kernel: Kernel, definition: Definition) -> bool:
    value = definition.value
    if not isinstance(value, ast.BinOp) or definition.node is None:
        return False
    at = definition.statement or kernel.context.top[0]
    if isinstance(value.op, ast.Add):
        return _adds_loaded_shift(kernel, value, at)
    if not isinstance(value.op, ast.Sub):
        return False
    if (
        kernel.deps.fold(value.left, at) is not None
        or kernel.deps.fold(value.right, at) is not None
    ):
        return False
    atoms = kernel.deps.atoms(value, at, lookups=False)
    if any(atom.origin in ("grid", "loop") for atom in atoms):
        return False
    return not _same_tensor(kernel, value, at)


def _adds_loaded_shift(kernel: Kernel, value: ast.BinOp, at: Stmt) -> bool:
    """The query's position plus a start that was handed in: `q_start[0] + s_i`."""
    terms = list(_terms(value))
    loaded = [term for term in terms if kernel.context.buffer(term) in kernel.context.globals]
    moving = [t for t in terms if kernel.deps.atoms(t, at, lookups=False) & kernel.facts.row_names]
    return len(terms) == 2 and len(loaded) == 1 and len(moving) == 1 and loaded[0] is not moving[0]


def _same_tensor(kernel: Kernel, value: ast.BinOp, at: Stmt) -> bool:
    """End minus start of one prefix sum is a length, not an offset."""
    left = {
        atom.name
        for atom in kernel.deps.atoms(value.left, at, lookups=False)
        if atom.origin == "lookup"
    }
    right = {
        atom.name
        for atom in kernel.deps.atoms(value.right, at, lookups=False)
        if atom.origin == "lookup"
    }
    return bool(left) and left == right


def varlen_guard(kernel: Kernel) -> Iterator[Found]:
    """A store of the output under a test of the query row against this sample's length."""
    flat = Masks(kernel).flat
    guarded = []
    for access in kernel.facts.stores:
        if (
            access.value.keys() & {"acc", "norm"}
            and kernel.facts.kv_loop_of(access.statement) is None
        ):
            axes = flat.axes_of(access.expr, access.statement)
            for parent in access.statement.ancestors():
                if (
                    isinstance(parent.node, ast.If)
                    and parent.kind == "if"
                    and _near(parent, access.statement)
                ):
                    tests = list(flat.comparisons(parent.node.test, parent, hides=False))
                    if any(
                        _against_length(kernel, test.left, test.right, parent)
                        for test in tests
                        if axes
                    ):
                        guarded.append(access.statement)
    yield from (kernel.at("varlen-guard", place) for place in kernel.spans.places(guarded))


def _near(parent: Stmt, statement: Stmt) -> bool:
    """Whether an `if` holds little more than the store: not the whole kernel."""
    return sum(1 for below in parent.walk() if below.kind == "simple") <= 3 and statement.inside(
        parent
    )


def _against_length(kernel: Kernel, left: ast.expr, right: ast.expr | None, at: Stmt) -> bool:
    return any(
        atom.origin == "lookup"
        for side in (left, right)
        for atom in kernel.deps.atoms(side, at, lookups=False)
    )


class Lookup(NamedTuple):
    """A look-up of a table that K's or V's address rests on."""

    table: str
    statement: Stmt
    expr: ast.expr
    load: Access


class Tables:
    """Page tables and sparse indices of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    @cached_property
    def lookups(self) -> list[Lookup]:
        """Look-ups that move with the keys, in reading order."""
        tables = self.kernel.facts.address_tables
        return [
            Lookup(access.name, access.statement, access.expr, access)
            for access in self.kernel.reading.loads.values()
            if access.name in tables and access.name not in self.kernel.facts.workspaces
        ]

    def feeds(self, lookup: Lookup) -> bool:
        """Whether a look-up is for K's or V's address, and not only for a mask."""
        names = self.kernel.facts.key_tensors | self.kernel.facts.value_tensors
        if any(
            access.statement is lookup.statement
            for name in names
            for access in self.kernel.facts.loads_of(name)
        ):
            return True
        written = self.kernel.spans.written(lookup.statement)
        tiles = written & set(self.kernel.context.tiles)
        return (
            not tiles
            or bool(tiles & self.kernel.facts.address_tiles(names))
            or "alloc_var" in {self.kernel.context.tiles[tile] for tile in tiles}
        )

    def is_page_table(self, table: str) -> bool:
        """Looked up by what a sparse index gave; or by Q's batch and a key block that no mask reads back."""
        mine = [lookup for lookup in self.lookups if lookup.table == table]
        if any(self._behind_index(lookup) for lookup in mine):
            return True
        return table not in self._positions and any(
            self._looks_like_pages(lookup) for lookup in mine
        )

    def _behind_index(self, lookup: Lookup) -> bool:
        others = self.kernel.facts.address_tables - {lookup.table}
        items = index_items(lookup.expr)
        atoms = {
            a
            for item in items
            for a in self.kernel.deps.atoms(item, lookup.statement, lookups=False)
        }
        return any(atom.origin == "lookup" and atom.name in others for atom in atoms)

    @cached_property
    def _positions(self) -> set[str]:
        """Tables whose values are compared with the query or in a mask: where a key stands, not where it is kept."""
        found: set[str] = set()
        for write in Masks(self.kernel).writes:
            for comparison in write.comparisons:
                for side in (comparison.left, comparison.right):
                    found |= self._looked_up(side, comparison.statement)
        for statement in self.kernel.context.statements:
            if statement.kind in ("simple", "if"):
                found |= self._compared_with_query(statement)
        return found

    def _compared_with_query(self, statement: Stmt) -> set[str]:
        root = statement.node.test if isinstance(statement.node, ast.If) else statement.node
        found: set[str] = set()
        for node in ast.walk(root):
            if isinstance(node, ast.Compare):
                for one, other in (
                    (node.left, node.comparators[0]),
                    (node.comparators[0], node.left),
                ):
                    if (
                        self.kernel.deps.atoms(other, statement, lookups=False)
                        & self.kernel.facts.query_names
                    ):
                        found |= self._looked_up(one, statement)
        return found

    def _looked_up(self, expr: ast.expr | None, at: Stmt) -> set[str]:
        atoms = self.kernel.deps.atoms(expr, at, lookups=False)
        return {atom.name for atom in atoms if atom.origin == "lookup"}

    def _looks_like_pages(self, lookup: Lookup) -> bool:
        items = index_items(lookup.expr)
        still = [item for place, item in enumerate(items) if not self._moves(item, lookup, place)]
        if len(still) != 1 or len(items) != 2:
            return False
        index = ast.dump(self.kernel.deps.expand(still[0], lookup.statement))
        return index in self._query_batches()

    def _moves(self, item: ast.expr, lookup: Lookup, place: int) -> bool:
        atoms = self.kernel.deps.atoms(item, lookup.statement, lookups=True)
        if isinstance(item, ast.Slice) or atoms & self.kernel.facts.key_names:
            return True
        if not self.kernel.facts.is_unrolled(lookup.table):
            return False
        written = {
            ast.dump(items[place])
            for one in self.kernel.facts.loads_of(lookup.table)
            if len(items := index_items(one.expr)) > place
        }
        return len(written) > 1

    def _query_batches(self) -> set[str]:
        found: set[str] = set()
        for name in self.kernel.facts.query_tensors:
            for access in self.kernel.facts.loads_of(name):
                items = index_items(access.expr)
                if items:
                    found.add(ast.dump(self.kernel.deps.expand(items[0], access.statement)))
        return found


def tables(kernel: Kernel) -> Iterator[Found]:
    """Page table or sparse indices: the parameter, the look-up, the load that it feeds."""
    known = Tables(kernel)
    pages = {table for table in kernel.facts.address_tables if known.is_page_table(table)}
    for table in sorted(kernel.facts.address_tables - kernel.facts.workspaces):
        paged = table in pages
        yield from parameter_line(
            kernel, "block-table-param" if paged else "block-indices-param", table
        )
        statements = [
            lookup.statement
            for lookup in known.lookups
            if lookup.table == table and known.feeds(lookup)
        ]
        statements += _scalar_reads(kernel, table)
        for place in kernel.spans.places(statements, join=False, grow=False):
            yield kernel.at("block-table" if paged else "block-index", _whole_load(kernel, place))
    yield from _loads(kernel, pages)


def _whole_load(kernel: Kernel, place):  # type: ignore[no-untyped-def]
    """A look-up inlined in an element-wise load takes its loop along."""
    return (
        kernel.spans.grow(place)
        if isinstance(place.anchor.node, ast.Assign) and _is_element(place.anchor)
        else place
    )


def _is_element(statement: Stmt) -> bool:
    node = statement.node
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)


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
        if kernel.spans._is_scalar(statement)
        and kernel.facts.kv_loop_of(statement) is not None
        and isinstance(statement.node, ast.Assign)
        and isinstance(statement.node.value, ast.Subscript)
        and kernel.context.buffer(statement.node.value) in staged
    ]


def _loads(kernel: Kernel, pages: set[str]) -> Iterator[Found]:
    """Loads through a table; parts of one row (latent and rope) side by side are one place."""
    groups: dict[tuple[str, str, str], list[Stmt]] = {}
    for operand, access in _key_value_loads(kernel):
        used = kernel.facts.tables_of(access)
        if used:
            key = (
                "paged-load" if used & pages else "gather",
                operand,
                _row_of(kernel, access, used),
            )
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
    flat = Masks(kernel).flat
    for statement in kernel.context.statements:
        if not isinstance(statement.node, ast.If) or kernel.facts.kv_loop_of(statement) is None:
            continue
        for comparison in flat.comparisons(statement.node.test, statement, hides=True):
            table = flat._mask_table(comparison)
            if table is not None and _skips(kernel, statement):
                yield from parameter_line(kernel, "block-mask-param", table)
                lines = Lines(
                    statement.node.lineno, statement.node.test.end_lineno or statement.node.lineno
                )
                yield Found("block-skip", kernel.spans.place(statement), lines)
                for access in kernel.facts.loads_of(table):
                    header = access.statement is statement
                    place = kernel.spans.place(access.statement)
                    yield Found("block-mask", place, lines if header else place.lines)


def _skips(kernel: Kernel, statement: Stmt) -> bool:
    """Whether the product of queries and keys stands under the test."""
    return any(product.statement.inside(statement) for product in kernel.facts.qk_products)


def split_range(kernel: Kernel) -> Iterator[Found]:
    """The keys of one split: a grid variable in K's rows that the query does not know."""
    if kernel.facts.kernel_class != "attention":
        return
    query = kernel.facts.all_atoms(kernel.facts.query_tensors, lookups=True)
    seen: set[Lines] = set()
    for operand, access in _key_value_loads(kernel):
        for item in index_items(access.expr):
            split = _split_atoms(kernel, item, access, query)
            if split:
                for found in _split_places(kernel, operand, item, access, split):
                    if found.lines not in seen:
                        seen.add(found.lines)
                        yield found


def _split_atoms(kernel: Kernel, item: ast.expr, access: Access, query: set[Atom]) -> set[Atom]:
    atoms = kernel.deps.atoms(item, access.statement, lookups=True)
    if not atoms & kernel.facts.key_names:
        return set()
    grid = {
        atom for atom in atoms - query if atom.origin == "grid" and not _is_subcore(kernel, atom)
    }
    return grid or {atom for atom in atoms - query if _is_tile_split(kernel, atom)}


def _is_tile_split(kernel: Kernel, atom: Atom) -> bool:
    """In a persistent kernel the split is a scalar cut from the tile number: `tile % num_split`."""
    if atom.origin != "scalar" or not kernel.facts.events("COMBINE-ACC"):
        return False
    statement = kernel.facts.statement(atom.at)
    value = getattr(statement.node, "value", None) if statement is not None else None
    if statement is None or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mod):
        return False
    return not kernel.deps.atoms(value, statement, lookups=True) & kernel.facts.key_names


def _is_subcore(kernel: Kernel, atom: Atom) -> bool:
    """Ascend's last grid variable numbers the vector cores of one block."""
    region = kernel.facts.statement(atom.at)
    if (
        region is None
        or region not in kernel.context.regions
        or not isinstance(region.node, ast.With)
    ):
        return False
    call = kernel.context.launch_call(region)
    is_npu = any(keyword.arg == "is_npu" for keyword in call.keywords)
    names = [
        name
        for item in region.node.items
        if isinstance(item.optional_vars, ast.Tuple)
        for name in _names(item)
    ]
    return is_npu and bool(names) and names[-1] == atom.name


def _names(item: ast.withitem) -> list[str]:
    assert isinstance(item.optional_vars, ast.Tuple)
    return [element.id for element in item.optional_vars.elts if isinstance(element, ast.Name)]


def _split_places(
    kernel: Kernel, operand: str, item: ast.expr, access: Access, split: set[Atom]
) -> Iterator[Found]:
    """Assignments that carry the split into the address, else the load that inlines it."""
    statements = list(_carriers(kernel, item, access.statement, split))
    if statements:
        yield from (
            kernel.at("split-range", place) for place in kernel.spans.places(statements, grow=False)
        )
    else:
        yield kernel.at("split-range", kernel.spans.place(access.statement), operand=operand)


def _carriers(
    kernel: Kernel, expr: ast.AST, at: Stmt, split: set[Atom], depth: int = 3
) -> Iterator[Stmt]:
    for node in ast.walk(expr):
        if isinstance(node, ast.Name):
            for definition in kernel.deps.definitions(node.id, at):
                if (
                    definition.statement is None
                    or definition.value is None
                    or definition.atom.origin != "scalar"
                ):
                    continue
                if isinstance(definition.value, ast.Name):
                    continue
                if kernel.deps.atoms(definition.value, definition.statement, lookups=False) & split:
                    yield definition.statement
                elif (
                    depth
                    and kernel.deps.atoms(definition.value, definition.statement, lookups=True)
                    & split
                ):
                    yield from _carriers(
                        kernel, definition.value, definition.statement, split, depth - 1
                    )
