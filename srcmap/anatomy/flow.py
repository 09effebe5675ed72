"""The abstract interpreter: statements of a kernel to events, by what flows where.

Values are sets of roles (`roles.Value`).  Fills, copies and full writes are strong updates; serial
loops run twice, loops whose every write is indexed by their variable once; `if` joins are unions.
Global memory of one pass is read in the next, so that what one half of a kernel hands to the other
(workspaces, shared tiles of another warp role) arrives; events are kept from the last pass only.
No variable name, comment, line number or source text is looked at.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import NamedTuple

from srcmap.anatomy import ops, roles
from srcmap.anatomy.context import Context, base_name, index_items
from srcmap.anatomy.deps import Dependencies
from srcmap.anatomy.roles import Value, merge
from srcmap.anatomy.tree import Stmt, loop_kind, loop_variables

MIN_PASSES, MAX_PASSES = 2, 4
MAX_TURNS = 4
"""A serial loop is run until another turn changes no role, at most this often."""

RegionKey = tuple[int, int]
"""`uid` of the launch, and the part of it: a grid synchronisation begins another part."""


class Event(NamedTuple):
    """Something that the premise table recognised at a statement."""

    kind: str
    statement: Stmt
    region: RegionKey
    target: str | None
    """The buffer or scalar that the statement writes."""
    because: tuple[tuple[str, int], ...]
    """The roles of the operands and the statements that made them."""


class Product(NamedTuple):
    """One matrix product: operands with their roles, before it ran."""

    kind: str
    statement: Stmt
    region: RegionKey
    call: ast.Call
    left: Value
    right: Value
    target: str | None


class Access(NamedTuple):
    """A read or a write of global memory."""

    name: str
    statement: Stmt
    region: RegionKey
    expr: ast.expr
    """The subscript (or whole tensor) as written."""
    value: Value
    """What is written; empty for a read."""
    buffer: str | None
    """The tile on the other side."""


class Write(NamedTuple):
    """A value that a tile received."""

    statement: Stmt
    buffer: str
    value: Value


class Unread(NamedTuple):
    """A call that the table of operations does not know."""

    name: str
    statement: Stmt
    buffers: tuple[str, ...]


class Reading:
    """What one run over a kernel found."""

    def __init__(self) -> None:
        self.events: dict[tuple[str, int, str | None], Event] = {}
        self.products: dict[int, Product] = {}
        self.loads: dict[tuple[int, str, int], Access] = {}
        self.stores: dict[tuple[int, str], Access] = {}
        self.writes: list[Write] = []
        self.unread: dict[int, Unread] = {}

    def of(self, *kinds: str) -> list[Event]:
        """Events of some kinds, in reading order."""
        found = [event for event in self.events.values() if event.kind in kinds]
        return sorted(found, key=lambda event: event.statement.uid)

    def at(self, statement: Stmt) -> set[str]:
        """Kinds of events at one statement."""
        return {event.kind for event in self.events.values() if event.statement is statement}

    def signature(self) -> frozenset[object]:
        """Equal when two passes saw the same."""
        kinds = {(event.kind, event.statement.uid) for event in self.events.values()}
        return frozenset(kinds | {(p.kind, p.statement.uid) for p in self.products.values()})


ArmPath = tuple[tuple[int, str], ...]
Memory = dict[tuple[RegionKey, str], Value]
SHARED_TILES = {"alloc_shared", "alloc_tmem"}


class Flow:
    """Runs one kernel to a fixpoint."""

    def __init__(self, context: Context, deps: Dependencies) -> None:
        self.context = context
        self.deps = deps
        self.reading = Reading()
        self._env: dict[str, Value] = {}
        self._memory: Memory = {}
        self._memory_before: Memory = {}
        self._side: dict[str, dict[ArmPath, Value]] = {}
        self._side_before: dict[str, dict[ArmPath, Value]] = {}
        self._arm: ArmPath = ()
        self._region: RegionKey = (-1, 0)
        self._now: Stmt = context.top[0]
        self._target: str | None = None
        self._outer: dict[str, Value] = {}
        self._once: dict[int, bool] = {}
        self._fresh: dict[int, set[str]] = {}

    def run(self) -> Reading:
        """The events of the last pass, when another pass would see the same."""
        before: object = None
        for count in range(MAX_PASSES):
            self.reading = Reading()
            self._env, self._region = {}, (-1, 0)
            self._memory_before, self._memory = self._memory, {}
            self._side_before, self._side = self._side, {}
            self._block(self.context.top)
            seen = self.reading.signature()
            if count + 1 >= MIN_PASSES and seen == before:
                break
            before = seen
        return self.reading

    # statements

    def _block(self, block: Iterable[Stmt]) -> None:
        for statement in block:
            self._now = statement
            self._target = None
            self._statement(statement)

    def _statement(self, statement: Stmt) -> None:
        handlers: dict[str, Callable[[Stmt], None]] = {
            "loop": self._loop,
            "if": self._if,
            "with": self._with,
            "inline": self._body,
            "simple": self._simple,
        }
        handler = handlers.get(statement.kind)
        if handler is not None:
            handler(statement)

    def _body(self, statement: Stmt) -> None:
        self._block(statement.arms.get("body", ()))

    def _loop(self, statement: Stmt) -> None:
        for name in loop_variables(statement):
            self._env[name] = {"inv": statement.uid}
        if self._runs_once(statement):
            self._body(statement)
            return
        fresh = {slot: self._env.get(slot) for slot in self._fresh_tiles(statement)}
        seen: dict[str, frozenset[str]] | None = None
        for _ in range(MAX_TURNS):
            if seen is not None:
                for slot, value in fresh.items():
                    self._restore(slot, value)
            self._body(statement)
            after = _roles_of(self._env)
            if after == seen:
                break
            seen = after

    def _restore(self, slot: str, value: Value | None) -> None:
        if value is None:
            self._env.pop(slot, None)
        else:
            self._env[slot] = value

    def _fresh_tiles(self, statement: Stmt) -> set[str]:
        """Tiles of which every turn of a loop touches another part: they start each turn anew."""
        if statement.uid not in self._fresh:
            self._fresh[statement.uid] = _indexed_tiles(self.context, statement)
        return self._fresh[statement.uid]

    def _runs_once(self, statement: Stmt) -> bool:
        if statement.uid not in self._once:
            self._once[statement.uid] = _is_map_loop(self.context, statement)
        return self._once[statement.uid]

    def _with(self, statement: Stmt) -> None:
        if statement in self.context.regions:
            self._region, self._env = (statement.uid, 0), {}
            self._body(statement)
        elif self._is_role_scope(statement):
            with self._role_arm((statement.uid, "body")):
                self._body(statement)
        else:
            self._body(statement)

    def _is_role_scope(self, statement: Stmt) -> bool:
        assert isinstance(statement.node, ast.With)
        names = {self.context.name(item.context_expr) for item in statement.node.items}
        return bool(names & {"ws", "WSScope", "warp_specialize"})

    def _if(self, statement: Stmt) -> None:
        assert isinstance(statement.node, ast.If)
        self._guard_events(statement, statement.node.test)
        if self._is_role_test(statement):
            self._role_if(statement)
            return
        before = dict(self._env)
        self._block(statement.arms.get("body", ()))
        then, self._env = self._env, dict(before)
        self._block(statement.arms.get("orelse", ()))
        reloaded = set() if "orelse" in statement.arms else self._reloaded(statement)
        for name, value in then.items():
            other = self._env.get(name)
            self._env[name] = value if other is None or name in reloaded else merge(value, other)

    def _is_role_test(self, statement: Stmt) -> bool:
        assert isinstance(statement.node, ast.If)
        atoms = self.deps.atoms(statement.node.test, statement, lookups=False)
        return any(atom.origin == "thread" for atom in atoms)

    def _role_if(self, statement: Stmt) -> None:
        before = dict(self._env)
        after: list[dict[str, Value]] = []
        for arm in ("body", "orelse"):
            self._env = dict(before)
            with self._role_arm((statement.uid, arm)):
                self._block(statement.arms.get(arm, ()))
            after.append(self._env)
        self._env = {
            name: merge(after[0].get(name, {}), after[1].get(name, {}))
            for name in {**after[0], **after[1]}
        }

    @contextmanager
    def _role_arm(self, step: tuple[int, str]):  # type: ignore[no-untyped-def]
        """Run a warp role: shared tiles that other roles wrote in the last pass are visible."""
        outer = self._arm
        self._arm = (*outer, step)
        for slot, by_arm in self._side_before.items():
            others = [value for arm, value in by_arm.items() if _exclusive(arm, self._arm)]
            if others:
                self._env[slot] = merge(self._env.get(slot, {}), *others)
        yield
        self._arm = outer

    def _reloaded(self, statement: Stmt) -> set[str]:
        """Tiles that a one-armed `if` loads again from memory keep only what was loaded."""
        found: set[str] = set()
        for below in statement.arms.get("body", ()):
            call = self.context.call(below)
            row = ops.TILE_OPS.get(self.context.name(call) or "") if call is not None else None
            if call is not None and row is not None and row.kind == "copy" and row.dst is not None:
                found |= {slot for slot, _ in self._slots(ops.argument(call, row.dst, row.names))}
        return found

    def _simple(self, statement: Stmt) -> None:
        node = statement.node
        match node:
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value)
            case ast.AnnAssign(value=value) if value is not None:
                self._assign(node.target, value)
            case ast.AugAssign():
                self._augment(node)
            case ast.Expr(value=ast.Call() as call):
                self._call_statement(call)

    def _assign(self, target: ast.expr, source: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = (
                source.elts
                if isinstance(source, (ast.Tuple, ast.List))
                else [source] * len(target.elts)
            )
            for one, its in zip(target.elts, values, strict=False):
                self._assign(one, its)
            return
        if isinstance(source, ast.Call) and self._is_allocation(source):
            return
        self._target = base_name(target)
        if self._target in self.context.globals and isinstance(source, ast.Name):
            return
        value = self._eval(source)
        self._note_copy(source, value)
        self._write(target, value)

    def _is_allocation(self, call: ast.Call) -> bool:
        name = self.context.name(call) or ""
        if name in ops.ALLOCATIONS:
            return name != "alloc_var" or not call.args
        return (
            name in ops.GLOBAL_ALLOCATIONS or name in ops.BARRIER_ALLOCATIONS or name in ops.ALIASES
        )

    def _augment(self, node: ast.AugAssign) -> None:
        op = _OPERATORS.get(type(node.op))
        self._target = base_name(node.target)
        left, right = self._eval(node.target), self._eval(node.value)
        self._write(node.target, self._binary(op, left, right) if op else {})

    def _call_statement(self, call: ast.Call) -> None:
        name = self.context.name(call)
        row = ops.TILE_OPS.get(name or "")
        if row is not None:
            self._operate(call, row)
        elif name in ("sync_grid", "sync_all"):
            self._region = (self._region[0], self._region[1] + 1)
        elif name is None or not ops.is_known(name):
            self._unknown(call, name)

    def _unknown(self, call: ast.Call, name: str | None) -> None:
        arguments = [*call.args, *(item.value for item in call.keywords)]
        buffers = tuple(sorted({b for a in arguments if (b := self.context.buffer(a)) is not None}))
        if name is not None or buffers:
            shown = name or ast.unparse(call.func)
            self.reading.unread[self._now.uid] = Unread(shown, self._now, buffers)

    # tile operations

    def _operate(self, call: ast.Call, row: ops.Row) -> None:
        assert row.dst is not None
        target = ops.argument(call, row.dst, row.names)
        sources = [
            found
            for operand in row.src
            if (found := ops.argument(call, operand, row.names)) is not None
        ]
        self._target = base_name(target)
        if target is None:
            return
        if row.kind == "gemm":
            self._gemm(call, target, sources)
        elif row.kind.startswith("reduce"):
            self._reduce(call, row.kind, target, sources)
        else:
            self._write(target, self._rectified(call, self._result(row.kind, target, sources)))

    def _result(self, kind: str, target: ast.expr, sources: list[ast.expr]) -> Value:
        if kind in ("copy", "atomic", "alias"):
            value = self._eval(sources[0]) if sources else {}
            self._note_copy(sources[0] if sources else None, value)
            return value
        if kind == "clear":
            return {"zero": self._now.uid}
        if kind == "fill":
            value = self._eval(sources[0]) if sources else {}
            self._event("FILL", value)
            return value
        if kind in ("axpy", "mul_add"):
            product = self._binary("mul", *(self._eval(source) for source in sources[:2]))
            return self._binary("add", self._eval(target), product)
        if kind == "select":
            return self._choice(sources[0], [self._eval(source) for source in sources[1:3]])
        if kind in _BINARY_KINDS and len(sources) >= 2:
            return self._binary(kind, self._eval(sources[0]), self._eval(sources[1]))
        if kind in _UNARY_KINDS and sources:
            return self._unary(kind, self._eval(sources[0]))
        values = [self._eval(source) for source in sources]
        if kind == "topk":
            self._event("TOPK", merge(*values))
            return {"topk": self._now.uid}
        if kind == "index_vector":
            return {"inv": self._now.uid}
        if kind.startswith(("bitwise", "compare")):
            return {"zero": self._now.uid, "one": self._now.uid}
        return {}

    def _note_copy(self, source: ast.AST | None, value: Value) -> None:
        if "max" in value and isinstance(source, (ast.Name, ast.Subscript, ast.Call)):
            if base_name(source) not in (None, self._target) and _is_reference(
                source, self.context
            ):
                self._event("SAVE-MAX", {"max": value["max"]})

    def _rectified(self, call: ast.Call, value: Value) -> Value:
        """A copy out of the matrix unit can take the relu along (Ascend)."""
        relu = ops.keyword(call, "enable_relu")
        if "score" not in value or relu is None or self.deps.fold(relu, self._now) == 0.0:
            return value
        return self._unary("relu", value)

    def _gemm(self, call: ast.Call, target: ast.expr, sources: list[ast.expr]) -> None:
        left, right = (self._eval(source) for source in sources[:2])
        kind, made = _product(left, right)
        buffer = self.context.buffer(target)
        key = self._now.uid
        self.reading.products[key] = Product(
            kind, self._now, self._region, call, left, right, buffer
        )
        if kind in ("QK", "PV"):
            self._event(kind, merge(left, right))
        old = {} if self._overwrites(call) else self._eval(target)
        if made == "score":
            old = {
                tag: maker for tag, maker in old.items() if tag in roles.SCALARS or tag == "score"
            }
        self._write(target, merge({made: self._now.uid} if made else {}, old))

    def _overwrites(self, call: ast.Call) -> bool:
        return any(
            self.deps.fold(value, self._now) == 1.0
            for name in ("init", "clear_accum", "zero_init", "clear")
            if (value := ops.keyword(call, name)) is not None
        )

    def _reduce(self, call: ast.Call, kind: str, target: ast.expr, sources: list[ast.expr]) -> None:
        value = self._unary(kind, self._eval(sources[0])) if sources else {}
        clear = ops.argument(call, 3, ("buffer", "out", "dim", "clear"))
        if clear is not None and self.deps.fold(clear, self._now) == 0.0:
            old = self._eval(target)
            if kind == "reduce_max" and "max" in value and "max" in old:
                self._event("MAX-MERGE", old)
            if kind == "reduce_sum":
                value = merge(self._binary("add", old, value), {} if "rowsum" in value else value)
        self._write(target, value)

    # expressions

    def _eval(self, expr: ast.AST | None) -> Value:
        uid = self._now.uid
        match expr:
            case ast.Constant():
                return _constant(expr.value, uid)
            case ast.Name():
                return self._name(expr.id)
            case ast.Subscript():
                return self._subscript(expr)
            case ast.BinOp():
                return self._bin_op(expr)
            case ast.UnaryOp(op=ast.USub()):
                return self._negated(expr)
            case ast.Call():
                return self._call(expr)
            case ast.IfExp():
                return self._choice(expr.test, [self._eval(expr.body), self._eval(expr.orelse)])
            case ast.Compare():
                for side in (expr.left, *expr.comparators):
                    self._eval(side)
                return {"zero": uid, "one": uid}
            case ast.BoolOp():
                for side in expr.values:
                    self._eval(side)
                return {"zero": uid, "one": uid}
            case ast.UnaryOp(operand=operand):
                return self._eval(operand)
            case ast.Tuple() | ast.List():
                return merge(*(self._eval(element) for element in expr.elts))
        return {"inv": uid}

    def _bin_op(self, expr: ast.BinOp) -> Value:
        op = _OPERATORS.get(type(expr.op))
        number = self.deps.fold(expr, self._now)
        if number is not None:
            return _constant(number, self._now.uid)
        left, right = self._eval(expr.left), self._eval(expr.right)
        if op is None:
            tables = {
                tag: maker for tag, maker in merge(left, right).items() if tag.startswith("L:")
            }
            return tables or {"inv": self._now.uid}
        return self._binary(op, left, right)

    def _negated(self, expr: ast.UnaryOp) -> Value:
        number = self.deps.fold(expr, self._now)
        if number is not None:
            return _constant(number, self._now.uid)
        return self._unary("neg", self._eval(expr.operand))

    def _name(self, name: str) -> Value:
        buffer = (
            self.context.buffer(ast.Name(name, ast.Load()))
            if name in self.context.aliases
            else name
        )
        if buffer in self.context.globals and name not in self._env:
            return self._read_global(buffer, ast.Name(name, ast.Load()))
        if buffer in self.context.tiles:
            return self._read_tile(buffer, None)
        if name in self._env:
            return self._env[name]
        return self._outer_scalar(name)

    def _outer_scalar(self, name: str) -> Value:
        if name not in self._outer:
            self._outer[name] = {"inv": self._now.uid}
            number = self.deps.fold(ast.Name(name, ast.Load()), self._now)
            definitions = self.deps.outer(name)
            if number is not None:
                self._outer[name] = _constant(number, self._now.uid)
            elif (
                len(definitions) == 1
                and definitions[0].value is not None
                and definitions[0].index is None
            ):
                value = self._eval(definitions[0].value)
                kept = {tag: maker for tag, maker in value.items() if tag in roles.SCALARS}
                self._outer[name] = kept or self._outer[name]
        return self._outer[name]

    def _subscript(self, expr: ast.Subscript) -> Value:
        buffer = self.context.buffer(expr)
        if buffer in self.context.globals:
            return self._read_global(buffer, expr)
        if buffer in self.context.tiles:
            return self._read_tile(buffer, expr)
        base = base_name(expr)
        if base in self._env:
            return self._env[base]
        return {"inv": self._now.uid}

    def _read_global(self, name: str, expr: ast.expr) -> Value:
        key = (self._region, name)
        written = self._memory.get(key), self._memory_before.get(key)
        access = Access(name, self._now, self._region, expr, {}, self._target)
        self.reading.loads[
            self._now.uid, name, id(expr) if isinstance(expr, ast.Subscript) else 0
        ] = access
        self._index_lookups(expr)
        if any(written):
            return merge(*(value for value in written if value))
        return {f"L:{name}": self._now.uid}

    def _index_lookups(self, expr: ast.expr) -> None:
        """Tables looked up inside an index are read too."""
        for item in index_items(expr):
            for node in ast.walk(item):
                if isinstance(node, ast.Subscript):
                    self._eval(node)

    def _read_tile(self, buffer: str, expr: ast.expr | None) -> Value:
        slot = _slot(buffer, expr)
        if slot != buffer and slot in self._env:
            return self._env[slot]
        if slot != buffer:
            return self._env.get(buffer, {})
        parts = [
            value
            for name, value in self._env.items()
            if name == buffer or name.startswith(buffer + "#")
        ]
        return merge(*parts)

    def _call(self, call: ast.Call) -> Value:
        name = self.context.name(call)
        if name in ops.SCALAR_TYPES or name == "dtype":
            return self._eval(call.args[0]) if call.args else {"inv": self._now.uid}
        number = self.deps.fold(call, self._now)
        if number is not None:
            return _constant(number, self._now.uid)
        kind = ops.EXPRESSIONS.get(name or "") or _PYTHON_CALLS.get(_python_name(call) or "")
        if name in ops.ALLOCATIONS and call.args:
            return self._eval(call.args[0]) if name == "alloc_var" else {}
        if name in ops.ALIASES and call.args:
            return self._eval(call.args[0])
        return self._call_value(call, kind)

    def _call_value(self, call: ast.Call, kind: str | None) -> Value:
        values = [self._eval(argument) for argument in call.args]
        if kind == "choice" and len(values) >= 3:
            return self._choice(call.args[0], values[1:3])
        if kind in _BINARY_KINDS and len(values) >= 2:
            result = values[0]
            for value in values[1:]:
                result = self._binary(kind, result, value)
            return result
        if kind in _UNARY_KINDS and values:
            return self._unary(kind, values[0])
        if kind == "fma" and len(values) >= 3:
            return self._binary("add", self._binary("mul", values[0], values[1]), values[2])
        if kind == "keep_first" and values:
            return values[0]
        if kind == "keep_second" and len(values) > 1:
            return values[1]
        tables = {
            tag: maker for value in values for tag, maker in value.items() if tag.startswith("L:")
        }
        return tables or {"inv": self._now.uid}

    def _binary(self, op: str, left: Value, right: Value) -> Value:
        if op in ("add", "max", "min") and not (left and right):
            return left or right  # what was not understood takes nothing away
        result: Value = {}
        for one, maker in left.items():
            for other, its in right.items():
                outcome = roles.binary(op, one, other)
                for tag in outcome.tags:
                    kept = maker if tag == one else its if tag == other else self._now.uid
                    result.setdefault(tag, kept)
                if outcome.event:
                    self._event(outcome.event, {one: maker, other: its})
        return result

    def _unary(self, op: str, value: Value) -> Value:
        result: Value = {}
        for tag, maker in value.items():
            outcome = roles.unary(op, tag)
            for made in outcome.tags:
                result.setdefault(made, maker if made == tag else self._now.uid)
            if outcome.event:
                self._event(outcome.event, {tag: maker})
        if not result and op == "exp" and roles.SCALARS & value.keys():
            return {"inv": self._now.uid}
        return result

    def _choice(self, test: ast.AST, arms: list[Value]) -> Value:
        """A value chosen by a test: the union, and what such a choice can mean."""
        tested = self._tested(test)
        for one, other in (arms[:2], arms[1::-1]) if len(arms) == 2 else ():
            self._choice_events(one, other, tested)
        return merge(*arms)

    def _choice_events(self, kept: Value, other: Value, tested: Value) -> None:
        plain = bool(other) and other.keys() <= roles.SCALARS
        if "max" in kept and plain and "max" in tested and tested.keys() & {"neg", "inv"}:
            self._event("CHECK-INF", {"max": kept["max"]})
        if "nmax" in kept and plain and tested.keys() & {"nmax", "max"}:
            self._event("CHECK-INF", {"nmax": kept["nmax"]})
        if kept.keys() & {"acc", "norm"} and other.keys() == {"zero"}:
            self._event("EMPTY-ROW", {tag: kept[tag] for tag in ("acc", "norm") if tag in kept})
        if (
            kept.keys() & {"denom", "lse", "rdenom"}
            and plain
            and tested.keys() & {"denom", "max", "L"}
        ):
            self._event(
                "EMPTY-ROW", {tag: kept[tag] for tag in ("denom", "lse", "rdenom") if tag in kept}
            )

    def _tested(self, test: ast.AST) -> Value:
        """Union of the roles that a test compares."""
        found: list[Value] = []
        for node in ast.walk(test):
            if isinstance(node, ast.Compare):
                found += [self._eval(side) for side in (node.left, *node.comparators)]
        return merge(*found)

    def _guard_events(self, statement: Stmt, test: ast.expr) -> None:
        """An `if` that tests the maximum or the denominator, and sets it."""
        self._eval(test)
        tested = self._tested(test)
        if "max" in tested and "neg" in tested and _assigns_number(self, statement):
            self._event("CHECK-INF", {"max": tested["max"]})
        if "denom" in tested and tested.keys() & roles.SCALARS:
            self._event("EMPTY-ROW", {"denom": tested["denom"]})

    # effects

    def _slots(self, target: ast.expr | None) -> list[tuple[str, str]]:
        buffer = self.context.buffer(target)
        if buffer in self.context.tiles:
            return [(_slot(buffer, target), buffer)]
        return [(target.id, target.id)] if isinstance(target, ast.Name) else []

    def _write(self, target: ast.expr, value: Value) -> None:
        buffer = self.context.buffer(target)
        if buffer in self.context.globals and not (
            isinstance(target, ast.Name) and target.id in self._env
        ):
            self._store(buffer, target, value)
            return
        for slot, name in self._slots(target):
            self._env[slot] = value
            if slot == name:
                for part in [part for part in self._env if part.startswith(name + "#")]:
                    del self._env[part]
            if name in self.context.tiles:
                self.reading.writes.append(Write(self._now, name, value))
                self._share(slot, name, value)

    def _share(self, slot: str, name: str, value: Value) -> None:
        if self._arm and self.context.tiles[name] in SHARED_TILES:
            by_arm = self._side.setdefault(slot, {})
            by_arm[self._arm] = merge(by_arm.get(self._arm, {}), value)

    def _store(self, name: str, target: ast.expr, value: Value) -> None:
        key = (self._region, name)
        self._memory[key] = merge(self._memory.get(key, {}), value)
        access = Access(name, self._now, self._region, target, value, None)
        self.reading.stores[self._now.uid, name] = access

    def _event(self, kind: str, because: Value) -> None:
        key = (kind, self._now.uid, self._target)
        seen = self.reading.events.get(key)
        makers = dict(seen.because) if seen else {}
        merged = tuple(sorted({**because, **makers}.items()))
        self.reading.events[key] = Event(kind, self._now, self._region, self._target, merged)


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
}
_BINARY_KINDS = {"add", "sub", "mul", "div", "max", "min"}
_UNARY_KINDS = {"exp", "log", "neg", "reciprocal", "relu", "reduce_max", "reduce_sum", "reduce_min"}
_PYTHON_CALLS = {"max": "max", "min": "min"}


def _product(left: Value, right: Value) -> tuple[str, str | None]:
    """What a matrix product is, and the role of its result."""
    both = left.keys() | right.keys()
    if "prob" in both:
        return "PV", "acc"
    if "prob-b" in both or "ds" in both:
        return "GRAD", "grad"
    loaded = [any(tag.startswith("L:") for tag in side) for side in (left, right)]
    if all(loaded) and not both & {"score", "acc"}:
        return "QK", "score"
    return "OTHER", None


def _slot(buffer: str, expr: ast.AST | None) -> str:
    """A constant leading index of a tile names a slot of its own (ring buffers)."""
    items = index_items(expr) if expr is not None else []
    if items and isinstance(items[0], ast.Constant) and isinstance(items[0].value, int):
        return f"{buffer}#{items[0].value}"
    return buffer


def _constant(value: object, uid: int) -> Value:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return {"one" if value is True else "zero" if value is False else "inv": uid}
    return {_number_role(float(value)): uid}


def _number_role(value: float) -> str:
    if value == 0:
        return "zero"
    if value == 1:
        return "one"
    if value <= -1e4:
        return "neg"
    if value >= 1e6 or math.isinf(value):
        return "pos"
    return "minus" if value < 0 else "num"


def _is_reference(expr: ast.AST, context: Context) -> bool:
    if isinstance(expr, ast.Call):
        return context.name(expr) in ops.ALIASES | {"access_ptr", "cast"}
    return True


def _python_name(call: ast.Call) -> str | None:
    return call.func.id if isinstance(call.func, ast.Name) else None


def _exclusive(one: ArmPath, other: ArmPath) -> bool:
    """Two arms that no thread runs both of."""
    shorter = min(len(one), len(other))
    return one[:shorter] != other[:shorter]


def _is_map_loop(context: Context, statement: Stmt) -> bool:
    """Whether every tile write of a loop is indexed by its variable, so one run tells all."""
    kind = loop_kind(statement, context.root.aliases)
    if kind in ops.MAP_LOOPS:
        return True
    verdicts = [
        _mentions(target, _own_variables(statement, below))
        for below in statement.walk()
        for target in _targets(context, below)
    ]
    return bool(verdicts) and all(verdicts)


def _own_variables(loop: Stmt, below: Stmt) -> set[str]:
    """Variables of a loop that no inner loop around a statement binds again."""
    variables = set(loop_variables(loop))
    for parent in (below, *below.ancestors()):
        if parent is loop:
            break
        variables -= set(loop_variables(parent))
    return _with_offsets(loop, variables)


def _with_offsets(loop: Stmt, variables: set[str]) -> set[str]:
    """Scalars that a loop computes from its variable, one for each turn: not a ring (`i % 2`)."""
    names = set(variables)
    for below in loop.walk():
        node = below.node
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.BinOp)
        ):
            used = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
            wraps = any(
                isinstance(part, (ast.Mod, ast.FloorDiv, ast.BitAnd))
                for part in ast.walk(node.value)
            )
            if used & names and not wraps:
                names.add(node.targets[0].id)
    return names


def _indexed_tiles(context: Context, statement: Stmt) -> set[str]:
    """Tiles whose every write in a loop is indexed by the loop's own variable."""
    verdicts: dict[str, bool] = {}
    for below in statement.walk():
        for target in _targets(context, below):
            buffer = context.buffer(target)
            if buffer in context.tiles:
                verdicts[buffer] = verdicts.get(buffer, True) and _mentions(
                    target, _own_variables(statement, below)
                )
    return {buffer for buffer, indexed in verdicts.items() if indexed}


def _roles_of(env: dict[str, Value]) -> dict[str, frozenset[str]]:
    return {name: frozenset(value) for name, value in env.items()}


def _targets(context: Context, statement: Stmt) -> list[ast.expr]:
    node = statement.node
    if isinstance(node, ast.Assign):
        return [target for target in node.targets if not isinstance(target, ast.Name)]
    if isinstance(node, ast.AugAssign):
        return [node.target]
    call = context.call(statement)
    row = ops.TILE_OPS.get(context.name(call) or "") if call is not None else None
    if call is None or row is None or row.dst is None:
        return []
    target = ops.argument(call, row.dst, row.names)
    return [] if target is None else [target]


def _mentions(target: ast.expr, names: set[str]) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id in names
        for item in index_items(target)
        for node in ast.walk(item)
    )


def _assigns_number(flow: Flow, statement: Stmt) -> bool:
    """Whether the body of an `if` only sets something to a number."""
    body = statement.arms.get("body", [])
    return any(
        isinstance(below.node, ast.Assign) and flow.deps.fold(below.node.value, below) is not None
        for below in body
    )
