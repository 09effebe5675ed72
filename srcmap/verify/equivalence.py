"""Mutants that are proven to compute the same, whatever the inputs.

A proof compares two programs: the block of statements that the change stands in, before and after.
Both are run with symbols in place of tensors, in an algebra that knows copies, fills with minus
infinity, and maxima; everything else is a function of what it mentions and of its own text. When
all names stand for the same in the end, no input can tell the two apart.

A maximum is the set of what it is taken over: order, repetition and minus infinity do not matter.
(CUDA's maximum drops NaN, so a running maximum that starts at minus infinity never is one.)
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, Any

from srcmap.model import Note
from srcmap.verify import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.model import Lines

Value = frozenset[Any]
"""What a maximum is taken over; one symbol for what is no maximum, none for minus infinity."""
_LEAVING = (ast.Break, ast.Continue, ast.Return, ast.Raise, ast.Yield)


def proven(before: str, after: str, lines: Lines) -> Note | None:
    """Return why a change on these lines changes nothing; None when that is not proven."""
    old, new = ast.parse(before), ast.parse(after)
    if ast.dump(old) == ast.dump(new):
        return Note("mutant.proven-text")
    found, other = _block(old, lines.first), _block(new, lines.first)
    if any(_leaves(statement) for statement in (*found, *other)):
        return None
    shapes, floors, symbols = _shapes(old, lines), _floors(old, found, lines), Symbols()
    one, two = (_Block(shapes, floors, symbols).after(body) for body in (found, other))
    if one == two:
        return Note("mutant.proven-maximum")
    return Note("mutant.proven-rows") if rows.proven(old, new, lines.first) else None


def _block(tree: ast.Module, line: int) -> list[ast.stmt]:
    """Return the innermost block of statements with one on this line, parallel loops aside."""
    found, inside = tree.body, True
    while inside:
        inside = False
        for statement in found:
            if _parallel(statement) or not statement.lineno <= line <= _end(statement):
                continue
            for body in (getattr(statement, name, []) for name in ("body", "orelse", "finalbody")):
                if body and body[0].lineno <= line <= _end(body[-1]):
                    found, inside = body, True
    return found


def _parallel(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.For)
        and isinstance(statement.iter, ast.Call)
        and _name(statement.iter) == "Parallel"
    )


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _leaves(statement: ast.stmt) -> bool:
    return any(
        isinstance(node, _LEAVING)
        or (isinstance(node, ast.Attribute) and node.attr == "loop_break")
        for node in ast.walk(statement)
    )


# -- what buffers are ------------------------------------------------------------------------------


def _shapes(tree: ast.Module, lines: Lines) -> dict[str, tuple[str, str]]:
    """Return shape and type of each buffer in sight, as they are written.

    Left out are those that are declared in several ways, and those that have another name too.
    """
    found: dict[str, set[tuple[str, str]]] = {}
    shared: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and _holds(node, lines):
            shared |= _renamed(node)
            for name, declared in _declared(node):
                found.setdefault(name, set()).add(declared)
    return {
        n: next(iter(kinds)) for n, kinds in found.items() if len(kinds) == 1 and n not in shared
    }


def _renamed(function: ast.FunctionDef) -> set[str]:
    """Return names whose memory has another name: `a = b`, `a = T.view(b, ...)`."""
    found = set()
    for node in ast.walk(function):
        value = node.value if isinstance(node, ast.Assign) else None
        if isinstance(value, ast.Call) and _name(value) in ("view", "reshape") and value.args:
            value = value.args[0]
        if isinstance(value, ast.Name):
            found.add(value.id)
    return found


def _holds(function: ast.FunctionDef, lines: Lines) -> bool:
    return function.lineno <= lines.first and lines.last <= (function.end_lineno or 0)


def _declared(function: ast.FunctionDef) -> Iterator[tuple[str, tuple[str, str]]]:
    for arg in function.args.args:
        if isinstance(arg.annotation, ast.Call) and len(arg.annotation.args) == 2:
            yield arg.arg, _written(arg.annotation)
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and _name(node.value).startswith("alloc_")
            and len(node.value.args) >= 2
        ):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, _written(node.value)


def _written(call: ast.Call) -> tuple[str, str]:
    return ast.unparse(call.args[0]), ast.unparse(call.args[1])


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", "")


def _floors(tree: ast.Module, block: list[ast.stmt], lines: Lines) -> dict[str, str]:
    """Return buffers that are never below a constant: filled with it first, and only raised since.

    A name stands for a constant when it is bound once.
    """
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and _holds(n, lines)]
    if not functions:
        return {}
    bound = Counter(
        node.id
        for node in ast.walk(functions[0])
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    inner = functions[-1]
    floors: dict[str, str] = {}
    for node in ast.walk(inner):
        if isinstance(node, ast.Call) and _name(node) == "fill" and len(node.args) == 2:
            buffer, value = map(ast.unparse, node.args)
            first = node.lineno < block[0].lineno and isinstance(node.args[1], ast.Name)
            if first and bound[value] == 1 and _only_raised(inner, buffer, value):
                floors[buffer] = value
    return floors


def _only_raised(function: ast.FunctionDef, buffer: str, floor: str) -> bool:
    """Whether every statement that may write a buffer fills it with the floor or raises it."""
    for node in ast.walk(function):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if _mentions(node, buffer) and not _keeps(node.value, buffer, floor):
                return False
        elif _stores(node, buffer) and not _raises(function, node):
            return False
    return True


def _stores(node: ast.AST, buffer: str) -> bool:
    stored = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return stored and isinstance(node, ast.Subscript) and ast.unparse(node.value) == buffer


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _keeps(call: ast.Call, buffer: str, floor: str) -> bool:
    """Whether an operation on a buffer keeps it at a floor or above."""
    named, last = _name(call), call.args[-1] if call.args else None
    if named == "fill":
        return last is not None and ast.unparse(last) == floor
    if named == "reduce_max" and "clear=False" in ast.unparse(call):
        return True
    reads = named in ("copy", "reduce_max", "reduce_sum")
    return reads and last is not None and not _mentions(last, buffer)


def _raises(function: ast.FunctionDef, target: ast.AST) -> bool:
    """Whether an assignment to an element takes the maximum of it and something else."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and target in node.targets:
            value = node.value
            sides = value.args if isinstance(value, ast.Call) and _name(value) == "max" else []
            return ast.unparse(target) in map(ast.unparse, sides)
    return False


# -- running a block with symbols ------------------------------------------------------------------


class Symbols:
    """Numbers for what is known only by how it came about: the same for the same."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def of(self, origin: Any) -> Value:
        """Return the symbol of an origin, as a maximum over it alone."""
        return frozenset({self._numbers.setdefault(origin, len(self._numbers))})


class _Block:
    """What every name stands for while a block runs."""

    def __init__(
        self, shapes: dict[str, tuple[str, str]], floors: dict[str, str], symbols: Symbols
    ) -> None:
        self.shapes = shapes
        self.floors = floors
        self.symbols = symbols
        self.state: dict[str, Value] = {}

    def after(self, body: Sequence[ast.stmt]) -> dict[str, Value]:
        """Run a block and return what its names stand for then; unchanged ones are left out."""
        for whole in body:
            for statement in _parts(whole):
                if not self._understood(statement):
                    self._opaque(statement)
        return {name: v for name, v in self.state.items() if v != self._first(name)}

    def _first(self, name: str) -> Value:
        before = self.symbols.of(("before", name))
        if name in self.floors:
            return before | self.symbols.of(("floor", self.floors[name]))
        return before

    def _get(self, name: str) -> Value:
        return self.state.get(name, self._first(name))

    def _understood(self, statement: ast.stmt) -> bool:
        """Run a statement that the algebra knows; False when it does not."""
        if isinstance(statement, ast.Pass):
            return True
        if isinstance(statement, ast.For):
            return self._joined(statement)
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or len(call.args) != 2:
            return False
        first, second = (arg.id if isinstance(arg, ast.Name) else "" for arg in call.args)
        known = {"copy": self._copied, "fill": self._filled, "reduce_max": self._reduced}
        run = known.get(_name(call))
        return run is not None and run(call, first, second)

    def _copied(self, call: ast.Call, source: str, target: str) -> bool:
        if call.keywords or source not in self.shapes:
            return False
        if self.shapes[source] != self.shapes.get(target):
            return False
        self.state[target] = self._get(source)
        return True

    def _filled(self, call: ast.Call, buffer: str, _: str) -> bool:
        if call.keywords or buffer not in self.shapes:
            return False
        if _is_minus_infinity(call.args[1]):
            self.state[buffer] = frozenset()
        elif self.floors.get(buffer) == ast.unparse(call.args[1]):
            self.state[buffer] = self.symbols.of(("floor", self.floors[buffer]))
        else:
            return False
        return True

    def _reduced(self, call: ast.Call, source: str, target: str) -> bool:
        options = {k.arg: ast.unparse(k.value) for k in call.keywords}
        clear = options.get("clear", "True")
        if not source or target not in self.shapes or not options.keys() <= {"dim", "clear"}:
            return False
        if clear not in ("True", "False"):
            return False
        new = self.symbols.of(("row maximum", options.get("dim", "-1"), self._get(source)))
        self.state[target] = new if clear == "True" else new | self._get(target)
        return True

    def _joined(self, loop: ast.For) -> bool:
        """`for i in T.Parallel(n): a[i] = T.max(a[i], b[i])` over the whole of all buffers."""
        inner = loop.body[0]
        if not _parallel(loop) or len(loop.body) != 1 or not isinstance(inner, ast.Assign):
            return False
        value, place = inner.value, ast.unparse(loop.target)
        is_max = isinstance(value, ast.Call) and _name(value) == "max" and not value.keywords
        sides = value.args if is_max and isinstance(value, ast.Call) else [value]
        names = [_element(side, place) for side in (*inner.targets, *sides)]
        call = loop.iter
        if not isinstance(call, ast.Call) or call.keywords or len(inner.targets) != 1:
            return False
        whole = f"[{', '.join(ast.unparse(a) for a in call.args)}]"
        kinds = {self.shapes.get(name, ("", "")) for name in names}
        if len(kinds) != 1 or next(iter(kinds))[0] != whole:
            return False
        self.state[names[0]] = frozenset().union(*(self._get(name) for name in names[1:]))
        return True

    def _opaque(self, statement: ast.stmt) -> None:
        """Anything else: whatever it mentions may be read and written, and only that decides."""
        names = sorted({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)})
        seen = tuple((name, self._get(name)) for name in names)
        text = ast.unparse(statement)
        for name in names:
            self.state[name] = self.symbols.of(("after", text, name, seen))


def _parts(statement: ast.stmt) -> list[ast.stmt]:
    """A parallel loop as one loop for each statement, where each element is on its own."""
    if not isinstance(statement, ast.For) or not _parallel(statement) or len(statement.body) == 1:
        return [statement]
    place = ast.unparse(statement.target)
    inside = [node for inner in statement.body for node in ast.walk(inner)]
    subscripts = [node for node in inside if isinstance(node, ast.Subscript)]
    written = {ast.unparse(n.value) for n in subscripts if isinstance(n.ctx, ast.Store)}
    alone = all(_element(n, place) for n in subscripts if ast.unparse(n.value) in written)
    if not alone or not all(isinstance(inner, ast.Assign) for inner in statement.body):
        return [statement]
    target, over = statement.target, statement.iter
    return [ast.copy_location(ast.For(target, over, [i], []), i) for i in statement.body]


def _is_minus_infinity(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.UnaryOp)
        and isinstance(value.op, ast.USub)
        and isinstance(value.operand, ast.Call)
        and _name(value.operand) == "infinity"
    )


def _element(value: ast.expr, place: str) -> str:
    """Return the buffer of `buffer[place]`; empty when it is something else."""
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
        index = ast.unparse(value.slice).strip("()")
        return value.value.id if index == place.strip("()") else ""
    return ""
