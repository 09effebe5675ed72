"""The body of a kernel -> Python that means what the tile language means.

Line numbers stay, so that errors, findings and traces name upstream's own lines. What plain Python
cannot say is handed to `runtime` (the name `__rt__` in the new code):

- `with T.Kernel(...) as (bx, by)` becomes a function of the block, launched over the grid;
- `with T.Scope("C")` and `if` become loops that run once, never, or under a mask;
- a subscript handed to a tile operation is a region, not a load;
- ternary, `and`, `or`, `not` and chained comparisons work element by element;
- assigning to a variable of `T.alloc_var` stores; a bare annotation `A: T.Tensor[...]` binds.
"""

from __future__ import annotations

import ast
import copy
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RUNTIME = "__rt__"
_UNKNOWN = object()


class NotFoundError(LookupError):
    """The source of a kernel could not be found again."""


def function_at(tree: ast.Module, code: CodeType) -> ast.FunctionDef:
    """Return the definition that a code object was made from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    raise NotFoundError(f"{code.co_filename}:{code.co_firstlineno}: {code.co_name} is not there")


def rewrite(function: Any, tree: ast.Module, runtime: Any) -> Callable[..., FunctionType]:
    """Return a maker of functions: given closure cells by name, the rewritten function."""
    definition = copy.deepcopy(function_at(tree, function.__code__))
    outer = _names_around(function)
    body = _Rewriter(definition, outer).rewritten()
    code = _compiled(body, function.__code__)
    names = {**function.__globals__, RUNTIME: runtime}

    def made(cells: dict[str, Any]) -> FunctionType:
        closure = tuple(
            CellType(cells[name]) if name in cells else CellType() for name in code.co_freevars
        )
        new = FunctionType(code, names, function.__name__, function.__defaults__, closure)
        new.__kwdefaults__ = function.__kwdefaults__
        return new

    return made


def _names_around(function: Any) -> dict[str, Any]:
    """Return what the names mean that a function sees: globals and closure."""
    names = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # noqa: PERF203 - few cells
            names[name] = _UNKNOWN
    return names


def _compiled(definition: ast.FunctionDef, old: CodeType) -> CodeType:
    """Compile one function whose free variables are those of the old one."""
    factory = ast.FunctionDef(
        name="__factory__",
        args=ast.arguments([], [ast.arg(n) for n in old.co_freevars], None, [], [], None, []),
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
        decorator_list=[],
        lineno=definition.lineno,
        col_offset=0,
        end_lineno=definition.end_lineno,
        end_col_offset=0,
    )
    _complete(factory)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    compiled = compile(module, old.co_filename, "exec", dont_inherit=True)
    return _code_named(_code_named(compiled, "__factory__"), definition.name)


def _complete(definition: Any) -> None:
    """Give a made definition the field that Python 3.12 and later ask for."""
    if hasattr(ast, "TypeAlias"):
        definition.type_params = []


def _code_named(code: CodeType, name: str) -> CodeType:
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_name == name:
            return constant
    raise NotFoundError(name)


def _call(name: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    target = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
    return ast.Call(target, list(args), keywords or [])


def _lazy(value: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), value)


def _numbers(*values: int) -> ast.Tuple:
    return ast.Tuple([ast.Constant(value) for value in values], ast.Load())


def _flat_targets(target: ast.expr) -> Iterator[str]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name):
            yield node.id


class _Rewriter(ast.NodeTransformer):
    def __init__(self, definition: ast.FunctionDef, outer: dict[str, Any]) -> None:
        self.definition = definition
        self.names = dict(outer)
        self.variables = set(self._variables(definition))
        self.counter = 0
        self.splits = False
        """Inside an Ascend launch whose statements the compiler gives to Cube and Vector."""
        self.multiplied: dict[str, str] = {}
        """Memory of the Cube that buffers of such a launch must lie in: operands and results."""
        self.depth: list[tuple[int, int]] = []
        """Rank of the parallel nest, and axes taken so far, innermost last."""
        for name in self._bound(definition):
            self.names[name] = _UNKNOWN

    def rewritten(self) -> ast.FunctionDef:
        """Return the function with its body rewritten; decorators and annotations go."""
        old = self.definition
        body = [
            new for statement in self._outputs_last(old.body) for new in self._statements(statement)
        ]
        args = ast.arguments(
            [ast.arg(a.arg) for a in old.args.posonlyargs],
            [ast.arg(a.arg) for a in old.args.args],
            ast.arg(old.args.vararg.arg) if old.args.vararg else None,
            [ast.arg(a.arg) for a in old.args.kwonlyargs],
            [None] * len(old.args.kwonlyargs),
            ast.arg(old.args.kwarg.arg) if old.args.kwarg else None,
            [],
        )
        # Defaults are set on the new function object, as they were evaluated once already.
        args.defaults = [ast.Constant(None)] * len(old.args.defaults)
        new = ast.FunctionDef(old.name, args, body, [])
        _complete(new)
        return ast.copy_location(new, old)

    def _outputs_last(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Move `x = T.empty(...)` of an eager kernel behind what says how large its sizes are."""
        launch = next((n for n, s in enumerate(body) if isinstance(s, ast.With)), len(body))
        early = [s for s in body[:launch] if isinstance(s, ast.Assign) and self._makes_output(s)]
        rest = [s for s in body[:launch] if s not in early]
        return [*rest, *early, *body[launch:]]

    def _makes_output(self, statement: ast.Assign) -> bool:
        return self._is(statement.value, "makes_output")

    # -- names ---------------------------------------------------------------------------------

    def _bound(self, definition: ast.FunctionDef) -> Iterator[str]:
        """Names that the function itself binds: what they mean outside is of no use."""
        for arg in ast.walk(definition.args):
            if isinstance(arg, ast.arg):
                yield arg.arg
        for node in ast.walk(definition):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id

    def _variables(self, definition: ast.FunctionDef) -> Iterator[str]:
        for node in ast.walk(definition):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                found = self.meaning(node.value.func)
                if getattr(found, "makes_variable", False) is True:
                    for target in node.targets:
                        yield from _flat_targets(target)

    def meaning(self, expression: ast.expr) -> Any:
        """Return the object that a dotted name means, `_UNKNOWN` when it is not known yet."""
        if isinstance(expression, ast.Name):
            return self.names.get(expression.id, _UNKNOWN)
        if isinstance(expression, ast.Attribute):
            base = self.meaning(expression.value)
            if base is _UNKNOWN:
                return _UNKNOWN
            try:
                return getattr(base, expression.attr, _UNKNOWN)
            except Exception:  # noqa: BLE001 - foreign objects: whatever they raise, it is unknown
                return _UNKNOWN
        return _UNKNOWN

    def _is(self, expression: ast.expr, mark: str) -> bool:
        return (
            isinstance(expression, ast.Call)
            and getattr(self.meaning(expression.func), mark, False) is True
        )

    def _fresh(self) -> str:
        self.counter += 1
        return f"__s{self.counter}__"

    # -- statements ----------------------------------------------------------------------------

    def _statements(self, node: ast.stmt) -> list[ast.stmt]:
        found = self.visit(node)
        many = found if isinstance(found, list) else [found]
        return [ast.fix_missing_locations(ast.copy_location(new, node)) for new in many]

    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in body for new in self._statements(statement)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        # A macro or prim_func inside: its decorator rewrites it when it runs.
        return node

    def visit_With(self, node: ast.With) -> Any:
        items = node.items
        call = items[0].context_expr
        if self._is(call, "launches"):
            return self._launch(node, items[0])
        if len(items) == 1 and self._is(call, "is_scope"):
            return ast.For(ast.Name("_", ast.Store()), self.visit(call), self._block(node.body), [])
        node.items = [ast.withitem(self.visit(i.context_expr), i.optional_vars) for i in items]
        node.body = self._block(node.body)
        return node

    def _launch(self, node: ast.With, item: ast.withitem) -> list[ast.stmt]:
        name = "__block__"
        target = item.optional_vars
        parameter = "__index__"
        body: list[ast.stmt] = []
        if target is not None:
            index: ast.expr = ast.Name(parameter, ast.Load())
            if isinstance(target, ast.Name):
                index = _call("only", index)
            body.append(ast.Assign([target], index))
        mode = self._mode(node, item)
        self.splits = mode == "split" and self._on_npu(item.context_expr)
        self.multiplied = dict(self._multiplied(node)) if self.splits else {}
        body += self._block(node.body)
        self.splits = False
        function = ast.FunctionDef(
            name, ast.arguments([], [ast.arg(parameter)], None, [], [], None, []), body, []
        )
        _complete(function)
        grid = self.visit(item.context_expr)
        launched = _call("launch", grid, ast.Name(name, ast.Load()), ast.Constant(mode))
        return [function, ast.Expr(launched)]

    def _mode(self, node: ast.With, item: ast.withitem) -> str:
        """How cores share the work on Ascend: by scopes, by the compiler's split, or not at all."""
        if any(isinstance(n, ast.With) and self._is_scope(n) for n in ast.walk(node)):
            return "scopes"
        target = item.optional_vars
        return "split" if isinstance(target, ast.Tuple) and len(target.elts) > 1 else "whole"

    def _on_npu(self, call: ast.expr) -> bool:
        named = call.keywords if isinstance(call, ast.Call) else []
        return any(k.arg == "is_npu" and ast.unparse(k.value) == "True" for k in named)

    def _multiplied(self, node: ast.With) -> Iterator[tuple[str, str]]:
        """Names of what products read and write: the compiler places memory by that."""
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "").startswith("gemm"):
                for argument, memory in zip(call.args, ("L1", "L1", "L0C"), strict=False):
                    base = argument.value if isinstance(argument, ast.Subscript) else argument
                    if isinstance(base, ast.Name):
                        yield base.id, memory

    def _is_scope(self, node: ast.With) -> bool:
        return self._is(node.items[0].context_expr, "is_scope")

    def _shared_out(
        self, kind: str, things: list[ast.expr], body: list[ast.stmt]
    ) -> list[ast.stmt]:
        """A statement that only the core runs whose memory it touches."""
        if not self.splits or not things:
            return body
        names = ast.Tuple(things, ast.Load())
        call = _call("mine", ast.Constant(kind), names)
        return [ast.For(ast.Name("_", ast.Store()), call, body, [])]

    def _touched(self, *nodes: ast.AST) -> list[ast.expr]:
        """Names that may be buffers: bases of subscripts, and arguments of tile operations."""
        found: dict[str, ast.expr] = {}
        for node in nodes:
            for n in ast.walk(node):
                if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name):
                    found[n.value.id] = ast.Name(n.value.id, ast.Load())
        return list(found.values())

    def _operands(self, call: ast.Call) -> list[ast.expr]:
        bases = []
        for argument in (*call.args, *(k.value for k in call.keywords)):
            base = argument.value if isinstance(argument, ast.Subscript) else argument
            if isinstance(base, ast.Name) and base.id not in self.variables:
                bases.append(ast.Name(base.id, ast.Load()))
        return list(bases)

    def visit_If(self, node: ast.If) -> Any:
        things = self._touched(node.test) if self.splits else []
        found = self._if(node)
        many: list[ast.stmt] = found if isinstance(found, list) else [found]
        return self._shared_out("load", things, many)

    def _if(self, node: ast.If) -> Any:
        if self._jumps(node):
            node.test = _call("truth", self.visit(node.test))
            node.body, node.orelse = self._block(node.body), self._block(node.orelse)
            return node
        name = self._fresh()
        heavy = ast.Constant(self._is_heavy(node))
        test = ast.Assign([ast.Name(name, ast.Store())], self.visit(node.test))
        first = ast.For(
            ast.Name("_", ast.Store()),
            _call("when", ast.Name(name, ast.Load()), heavy),
            self._block(node.body),
            [],
        )
        if not node.orelse:
            return [test, first]
        second = ast.For(
            ast.Name("_", ast.Store()),
            _call("unless", ast.Name(name, ast.Load()), heavy),
            self._block(node.orelse),
            [],
        )
        return [test, first, second]

    def _jumps(self, node: ast.If) -> bool:
        """Whether a branch leaves a loop or the function: it must then be a real `if`."""
        kinds = (ast.Break, ast.Continue, ast.Return, ast.Raise)
        return any(isinstance(n, kinds) or self._is_break(n) for n in ast.walk(node))

    def _is_break(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self._is(node, "is_break")

    def _is_heavy(self, node: ast.If) -> bool:
        """Whether a branch has what threads do together: tile operations, barriers, macros."""
        return any(isinstance(n, ast.Call) and self._is(n, "collective") for n in ast.walk(node))

    def visit_For(self, node: ast.For) -> Any:
        if self._is(node.iter, "is_parallel"):
            things = self._touched(node) if self.splits and not self.depth else []
            return self._shared_out("Parallel", things, [self._parallel(node)])
        watched = self._is(node.iter, "is_loop") or (
            isinstance(node.iter, ast.Call)
            and isinstance(node.iter.func, ast.Name)
            and node.iter.func.id == "range"
        )
        name = ast.Constant(ast.unparse(node.target))
        iterated = self.visit(node.iter)
        node.iter = _call("loop", iterated, name) if watched else iterated
        node.body = self._block(node.body)
        node.orelse = self._block(node.orelse)
        return node

    def _parallel(self, node: ast.For) -> ast.For:
        names = len(node.target.elts) if isinstance(node.target, ast.Tuple) else 1
        if self.depth:
            rank, used = self.depth[-1]
        else:
            rank, used = self._nest(node), 0
        self.depth.append((rank, used + names))
        call = self.visit(node.iter)
        call.keywords.append(ast.keyword("_nest", _numbers(rank, used)))
        if len(call.args) > 0 and any(isinstance(a, ast.Starred) for a in call.args):
            call.keywords.append(ast.keyword("_single", ast.Constant(names == 1)))
        node.iter = call
        node.body = self._block(node.body)
        self.depth.pop()
        return node

    def _nest(self, node: ast.For) -> int:
        """Count the indices of a nest of parallel loops, along its deepest path."""
        own = len(node.target.elts) if isinstance(node.target, ast.Tuple) else 1
        inner = [
            self._nest(n)
            for statement in node.body
            for n in ast.walk(statement)
            if isinstance(n, ast.For) and self._is(n.iter, "is_parallel")
        ]
        return own + max(inner, default=0)

    def visit_Expr(self, node: ast.Expr) -> Any:
        if self._is(node.value, "is_break"):
            return ast.Break()
        call = node.value
        shared = self.splits and self._is(call, "takes_regions") and isinstance(call, ast.Call)
        things: list[ast.expr] = []
        kind = ""
        if shared and isinstance(call, ast.Call):
            things, kind = self._operands(call), ast.unparse(call.func).partition(".")[2]
        node.value = self.visit(node.value)
        found = self._shared_out(kind, things, [node])
        return found if shared else node

    def visit_While(self, node: ast.While) -> Any:
        node.test = _call("truth", self.visit(node.test))
        node.body = self._block(node.body)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        node.test = _call("truth", self.visit(node.test))
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        things = self._touched(node) if self.splits and not self.depth else []
        value = self.visit(node.value)
        if self.splits and self._is(node.value, "placed_by_use"):
            memory = self.multiplied.get(ast.unparse(node.targets[0]), "ub")
            value.keywords.append(ast.keyword("core_memory", ast.Constant(memory)))
        if len(node.targets) == 1:
            return self._shared_out("load", things, [self._assigned(node.targets[0], value, node)])
        name = self._fresh()
        first = ast.Assign([ast.Name(name, ast.Store())], value)
        rest = [self._assigned(t, ast.Name(name, ast.Load()), node) for t in node.targets]
        return [first, *rest]

    def _assigned(self, target: ast.expr, value: ast.expr, node: ast.Assign) -> ast.stmt:
        if isinstance(target, ast.Subscript):
            return ast.Expr(
                _call("store", self._bare(target.value), self._index(target.slice), value)
            )
        if isinstance(target, ast.Name):
            if target.id in self.variables and not self._is(node.value, "makes_variable"):
                old = ast.Name(target.id, ast.Load())
                return ast.Expr(_call("set_variable", old, value))
            named = _call("named", value, ast.Constant(target.id))
            return ast.Assign([target], named if self._allocates(node.value) else value)
        return ast.Assign([target], value)

    def _allocates(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        value = self.visit(node.value)
        operation = ast.Constant(type(node.op).__name__)
        if isinstance(node.target, ast.Subscript):
            base, index = self._bare(node.target.value), self._index(node.target.slice)
            return ast.Expr(_call("augment", base, index, operation, value))
        if isinstance(node.target, ast.Name):
            old = ast.Name(node.target.id, ast.Load())
            if node.target.id in self.variables:
                return ast.Expr(_call("augment_variable", old, operation, value))
            new = _call("augmented", old, operation, value)
            return ast.Assign([ast.Name(node.target.id, ast.Store())], new)
        node.value = value
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is not None:
            return self.visit_Assign(ast.Assign([node.target], node.value))
        bound = _call(
            "bind",
            ast.Name(node.target.id, ast.Load()),
            self._plain(node.annotation),
            ast.Constant(node.target.id),
        )
        return ast.Assign([node.target], bound)

    def _plain(self, expression: ast.expr) -> ast.expr:
        """An annotation: its subscript means a type, not a region."""
        return expression

    # -- expressions ---------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and node.id in self.variables:
            return _call("get", node)
        return node

    def _bare(self, node: ast.expr) -> ast.expr:
        """A name that is not read: the left of a subscript, an argument of a tile operation."""
        return node if isinstance(node, ast.Name) else self._seen(node)

    def _seen(self, node: ast.expr) -> ast.expr:
        found: ast.expr = self.visit(node)
        return found

    def _index(self, node: ast.expr) -> ast.expr:
        """The inside of a subscript as a tuple; slices become slice objects."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return ast.Tuple([self._index_part(part) for part in parts], ast.Load())

    def _index_part(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.Slice):
            return self._seen(node)
        ends = [
            self.visit(e) if e is not None else ast.Constant(None) for e in (node.lower, node.upper)
        ]
        return ast.Call(ast.Name("slice", ast.Load()), ends, [])

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if isinstance(node.ctx, ast.Load):
            return _call("load", self._bare(node.value), self._index(node.slice))
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        found = self.meaning(node.func)
        if getattr(found, "chooses", False) is True and len(node.args) == 3:
            test, first, second = (self.visit(arg) for arg in node.args)
            return _call("choose", test, _lazy(first), _lazy(second))
        regions = getattr(found, "takes_regions", False) is True
        node.func = node.func if isinstance(node.func, ast.Name) else self.visit(node.func)
        node.args = [self._argument(arg, regions) for arg in node.args]
        for keyword in node.keywords:
            keyword.value = self._argument(keyword.value, regions)
        return node

    def _argument(self, node: ast.expr, regions: bool) -> ast.expr:
        if regions and isinstance(node, ast.Subscript):
            return _call("place", self._bare(node.value), self._index(node.slice))
        if regions and isinstance(node, ast.Name):
            return node
        if regions and isinstance(node, ast.Dict):
            return node  # annotate_address, annotate_layout: the keys are buffers
        found: ast.expr = self.visit(node)
        return found

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test, first, second = (self.visit(n) for n in (node.test, node.body, node.orelse))
        return _call("choose", test, _lazy(first), _lazy(second))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        name = "all_of" if isinstance(node.op, ast.And) else "any_of"
        return _call(name, *(_lazy(self.visit(value)) for value in node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return _call("negation", operand)
        return ast.UnaryOp(node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> Any:
        values = [self.visit(value) for value in (node.left, *node.comparators)]
        if len(node.ops) == 1:
            return ast.Compare(values[0], node.ops, values[1:])
        pairs = zip(values, values[1:], node.ops, strict=False)
        tests = [_lazy(ast.Compare(a, [op], [b])) for a, b, op in pairs]
        return _call("all_of", *tests)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        left, right = self._operand(node.left), self._operand(node.right)
        if isinstance(node.op, ast.Div):
            return _call("quotient", left, right)
        return ast.BinOp(left, node.op, right)

    def _operand(self, node: ast.expr) -> ast.expr:
        """A float literal is a float32 of the language: it widens a float16 that it meets."""
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return _call("single", node)
        found: ast.expr = self.visit(node)
        return found

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return node

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        return node
