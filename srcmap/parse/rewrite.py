"""Rewrites of Python source that keep its meaning: source in, source and line map out.

Every rewrite is a pure function on a string that changes the bytes it must and no others, and says
where each line went. They are the moves under which anatomy must not change its mind, and the tools
that mutations and code actions are made of. LibCST is used here and nowhere else in `parse`.
"""

from __future__ import annotations

import ast
import builtins
import io
import itertools
import tokenize
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import msgspec

from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import libcst
    from libcst.metadata import Scope


class LineMap(msgspec.Struct, frozen=True):
    """Where the lines of one text stand in another; all numbers 1-based.

    A line may have several images: when `f(a, b)` is broken over lines, what began on the one line
    now begins on several. The first image is that of the outermost code.
    """

    starts: dict[int, tuple[int, ...]]
    """Old line -> lines on which something begins that began on the old line."""
    ends: dict[int, tuple[int, ...]]
    """Old line -> lines on which something ends that ended on the old line."""

    def image(self, old: Lines) -> Lines | None:
        """Where `old` stands now, or None when nothing begins or ends where it did."""
        first, last = self.starts.get(old.first), self.ends.get(old.last)
        return Lines(first[0], last[0]) if first and last else None

    def agrees(self, old: Lines, new: Lines) -> bool:
        """Whether `new` may be what became of `old`."""
        return new.first in self.starts.get(old.first, ()) and new.last in self.ends.get(
            old.last, ()
        )

    def then(self, later: LineMap) -> LineMap:
        """Follow the map by a second one."""
        return LineMap(_chain(self.starts, later.starts), _chain(self.ends, later.ends))


class Rewritten(msgspec.Struct, frozen=True):
    """A new source, where the old lines went, and which names were given for which."""

    source: str
    lines: LineMap
    names: dict[str, frozenset[str]] = {}
    """Old name -> its new names (a name that two scopes define gets one for each)."""

    def then(self, rewrite: Callable[[str], Rewritten]) -> Rewritten:
        """Follow the rewrite by another, as one."""
        later = rewrite(self.source)
        names = {
            old: frozenset(n for new in news for n in later.names.get(new, {new}))
            for old, news in self.names.items()
        }
        return Rewritten(later.source, self.lines.then(later.lines), {**later.names, **names})


class CannotRewriteError(ValueError):
    """Raised when a rewrite would change what the source means."""


def unchanged(source: str) -> Rewritten:
    """Return the rewrite that does nothing, to begin a chain with."""
    return Rewritten(source, _shifted(source, lambda line: line))


# --- renaming -----------------------------------------------------------------------------------


def rename_locals(
    source: str, name: Callable[[str, int], str] | None = None, *, everything: bool = False
) -> Rewritten:
    """Rename the variables, parameters and buffers of all functions, scope by scope.

    `name(old, ordinal)` gives the new name of the ordinal-th variable of the file; by default fresh
    ones. Functions, classes, imports, attributes and module variables keep their names. Keyword
    arguments follow when the called function is defined in the file; a parameter that is also
    named in a string or in a call to something unseen (`autotune(configs={"block_M": ...})`) is
    kept, unless `everything` asks for a source that need only be read, not run.
    """
    code = _scoped(source)
    kept = frozenset[str]() if everything else _named_elsewhere(source)
    give = name or _fresh(source)
    renames: dict[libcst.CSTNode, str] = {}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for ordinal, (scope, old) in enumerate(_variables(code)):
        if old in kept and _is_parameter(code, scope, old):
            continue
        new = give(old, ordinal)
        names[old].add(new)
        renames.update((node, new) for node in _occurrences(code, scope, old))
    renames.update(_keywords(code, renames))
    return _finish(source, _with_names(code.module, renames, None), names)


def rename_definitions(source: str) -> Rewritten:
    """Rename the functions and the module variables of a file; methods and imports stay.

    Readers of other files may know those names: the new source is one to be read, not imported.
    """
    code = _scoped(source)
    give = _fresh(source)
    renames: dict[libcst.CSTNode, str] = {}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for ordinal, (scope, old) in enumerate(_definitions(code)):
        new = give(old, ordinal)
        names[old].add(new)
        renames.update((node, new) for node in _occurrences(code, scope, old))
    return _finish(source, _with_names(code.module, renames, None), names)


def local_names(source: str) -> frozenset[str]:
    """Return the names that only functions' variables bear; permuting them changes no meaning."""
    code = _scoped(source)
    variables = list(_variables(code))
    nodes = {node for scope, old in variables for node in _occurrences(code, scope, old)}
    others = {n.value for n in _names(code.module) if n not in nodes} | set(dir(builtins))
    return frozenset(old for _, old in variables) - others


def rename_alias(source: str, alias: str | None = None) -> Rewritten:
    """Rename what `tilelang.language` is called, and import it in the other of its two ways.

    `import tilelang.language as T` becomes `from tilelang import language as X` and the other way
    round; every use of the name follows, whatever scope the import stands in.
    """
    code = _scoped(source)
    new = alias or _fresh(source)("", 0)
    renames: dict[libcst.CSTNode, str] = {}
    names: dict[str, set[str]] = {}
    for scope, old in _language_imports(code):
        renames.update((node, new) for node in code.uses.get((scope, old), set()))
        names[old] = {new}
    return _finish(source, _with_names(code.module, renames, new), names)


# --- layout ---------------------------------------------------------------------------------------


def reformat(source: str, formatter: Callable[[str], str]) -> Rewritten:
    """Lay the source out anew with a formatter that keeps its syntax tree, such as black."""
    new = formatter(source)
    return Rewritten(new, corresponding_lines(source, new))


def corresponding_lines(old: str, new: str) -> LineMap:
    """Map lines between two layouts of one program by walking both syntax trees in step.

    Headers (`for ...:`), `else:` and comments have no node of their own and are paired in order.
    Raises CannotRewriteError when the trees differ in more than layout.
    """
    pairs = [*_paired_nodes(ast.parse(old), ast.parse(new)), *_paired_tokens(old, new)]
    starts: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    ends: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for before, after in pairs:
        size = before.last - before.first
        starts[before.first].append((-size, after.first))
        ends[before.last].append((-size, after.last))
    return LineMap(_by_size(starts), _by_size(ends))


def insert_lines(source: str, texts: Mapping[int, Sequence[str]]) -> Rewritten:
    """Put lines before lines: `{7: ["# a comment", ""]}` puts two of them before line 7."""
    lines = source.split("\n")
    ending = "\r" if lines[0].endswith("\r") else ""
    moved, out = {}, list[str]()
    for number, line in enumerate(lines, start=1):
        out += [text + ending for text in texts.get(number, ())]
        out.append(line)
        moved[number] = len(out)
    return Rewritten("\n".join(out), _shifted(source, moved.__getitem__))


def comment_statements(
    source: str, comment: Callable[[int], Sequence[str]], *, blank: bool = True
) -> Rewritten:
    """Put own-line comments (and a blank line) before statements, at their indentation.

    `comment(n)` gives the texts, without `#`, for the n-th statement of the file; none to leave
    it alone. Comments change nothing, even those that look like code.
    """
    texts: dict[int, list[str]] = {}
    for n, (line, indent) in enumerate(sorted(_statement_starts(source))):
        said = [f"{indent}# {text}" for text in comment(n)]
        texts[line] = [*([""] if blank and said else []), *said]
    return insert_lines(source, texts)


# --- order and place ------------------------------------------------------------------------------


class Pair(msgspec.Struct, frozen=True, order=True):
    """Two neighbouring statements that may change places."""

    first: Lines
    second: Lines


# What may be moved past one another when no buffer is shared; flags, barriers and unknown
# operations never are.
_MOVABLE = frozenset(
    {"copy", "fill", "clear", "cast", "gemm", "gemm_v0", "mma", "Parallel", "serial", "ceildiv"}
    | {"exp", "exp2", "log", "log2", "max", "min", "infinity", "if_then_else", "add", "sub", "mul"}
    | {"div", "reduce_max", "reduce_sum", "reduce_min", "alloc_shared", "alloc_fragment"}
    | {"alloc_local", "alloc_L1", "alloc_ub", "alloc_L0A", "alloc_L0B", "alloc_L0C"}
)


def independent_pairs(source: str) -> tuple[Pair, ...]:
    """Find neighbours inside kernels that share no buffer, nor a variable that either writes.

    Conservative: names reached through a call count as written, views and buffers placed by hand
    forbid everything, and only operations known to be free of side effects are moved.
    """
    tree = ast.parse(source)
    taken = Counter(line for body in _blocks(tree) for s in body for line in {s.lineno})
    pairs = list[Pair]()
    for kernel in _kernel_scopes(tree):
        if _places_by_hand(kernel):
            continue
        constant = _constants(tree, kernel)
        for body in _blocks(kernel):
            for a, b in itertools.pairwise(body):
                if _may_swap(a, b, constant) and taken[a.lineno] == taken[b.lineno] == 1:
                    pairs.append(Pair(_lines(a), _lines(b)))
    return tuple(sorted(set(pairs)))


def swap(source: str, pairs: Iterable[Pair]) -> Rewritten:
    """Exchange the lines of each pair; what stands between them stays between them.

    The pairs must not overlap. Use `independent_pairs` to find them. What holds both statements
    of a pair begins and ends where it did, so their outer lines have two images.
    """
    chosen = sorted(pairs)
    order = list(range(1, source.count("\n") + 2))
    for pair in chosen:
        a, b = pair.first, pair.second
        between = order[a.last : b.first - 1]
        head, tail = order[a.first - 1 : a.last], order[b.first - 1 : b.last]
        if head[0] != a.first or tail[-1] != b.last:
            raise CannotRewriteError(f"the pair at lines {a} and {b} overlaps another pair")
        order[a.first - 1 : b.last] = [*tail, *between, *head]
    lines = source.split("\n")
    moved = {old: new for new, old in enumerate(order, start=1)}
    where = _shifted(source, moved.__getitem__)
    for pair in chosen:
        where.starts[pair.first.first] += (pair.first.first,)
        where.ends[pair.second.last] += (pair.second.last,)
    return Rewritten("\n".join(lines[old - 1] for old in order), where)


def wrap(source: str, name: str) -> Rewritten:
    """Put the whole file into the body of a function `name`, called nowhere.

    `__future__` and `*` imports move above it, strings over several lines keep their text.
    Raises CannotRewriteError for what a function cannot hold (`global`, form feeds).
    """
    if "\f" in source or any(isinstance(n, ast.Global) for n in ast.walk(ast.parse(source))):
        raise CannotRewriteError("this source cannot stand inside a function")
    top, lines = _without_top_imports(source)
    inside = {n for first, last in _multiline_strings(source) for n in range(first + 1, last + 1)}
    for n, line in enumerate(lines, start=1):
        if n not in inside and line.strip():
            lines[n - 1] = "    " + line
    if not any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        raise CannotRewriteError("there is nothing to wrap")
    return insert_lines("\n".join(lines), {1: [*top, f"def {name}():"]})


def append_to(other: str, source: str) -> Rewritten:
    """Move the file's content to the end of another file; `__future__` imports go to its top."""
    top, lines = _without_top_imports(source)
    head = "\n".join([*top, other.rstrip("\n"), "", "", ""])
    shift = head.count("\n")
    return Rewritten(head + "\n".join(lines), _shifted(source, lambda line: line + shift))


def _without_top_imports(source: str) -> tuple[list[str], list[str]]:
    """Take out the imports that must stand at the top of a file; blank lines stay for them."""
    lines = source.split("\n")
    top = list[str]()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and (
            statement.module == "__future__" or statement.names[0].name == "*"
        ):
            span = _lines(statement)
            top += [line.rstrip("\r") for line in lines[span.first - 1 : span.last]]
            lines[span.first - 1 : span.last] = [""] * (span.last - span.first + 1)
    return top, lines


# --- scopes (LibCST) ------------------------------------------------------------------------------


class _Scoped(msgspec.Struct):
    """A module and who binds its names.

    LibCST's own answer to the last question differs from Python's where a function reads a name
    above its assignment, so its scopes and accesses are taken and the names resolved here.
    """

    module: libcst.Module
    scope_of: Mapping[libcst.CSTNode, Scope]
    bound: Mapping[Scope, Mapping[str, list[libcst.CSTNode | None]]]
    """Scope -> name -> the nodes that bind it there."""
    uses: Mapping[tuple[Scope, str], set[libcst.Name]]
    """(binding scope, name) -> the name nodes that read it."""


def _scoped(source: str) -> _Scoped:
    import libcst
    from libcst.metadata import MetadataWrapper, ScopeProvider

    wrapper = MetadataWrapper(libcst.parse_module(source), unsafe_skip_copy=True)
    found = wrapper.resolve(ScopeProvider)
    scope_of = {n: s for n, s in found.items() if s is not None}
    scopes = dict.fromkeys(scope_of.values())
    bound: dict[Scope, dict[str, list[libcst.CSTNode | None]]] = {s: {} for s in scopes}
    for scope in scopes:
        for one in scope.assignments:
            if one.scope is scope:
                bound[scope].setdefault(one.name, []).append(getattr(one, "node", None))
    uses: defaultdict[tuple[Scope, str], set[libcst.Name]] = defaultdict(set)
    for scope in scopes:
        for access in scope.accesses:
            name = _leftmost(access.node)
            if name and (owner := _binder(access.scope, name.value, bound)):
                uses[owner, name.value].add(name)
    return _Scoped(wrapper.module, scope_of, bound, uses)


def _binder(
    scope: Scope, name: str, bound: Mapping[Scope, Mapping[str, list[libcst.CSTNode | None]]]
) -> Scope | None:
    """Return the scope that a name read in `scope` belongs to, by Python's rules."""
    from libcst.metadata import ClassScope

    at = scope
    while name not in bound.get(at, {}) or (isinstance(at, ClassScope) and at is not scope):
        if at.parent is at or at.parent is None:
            return None
        at = at.parent
    return at


def _variables(code: _Scoped) -> Iterator[tuple[Scope, str]]:
    """Each variable of each function and comprehension, in a stable order."""
    from libcst.metadata import ComprehensionScope, FunctionScope

    kept = _declared_elsewhere(code.module.code)
    for scope, names in code.bound.items():
        if not isinstance(scope, (FunctionScope, ComprehensionScope)):
            continue
        for name, nodes in names.items():
            if all(map(_is_variable, nodes)) and name not in kept and not name.startswith("__"):
                yield scope, name


def _declared_elsewhere(source: str) -> set[str]:
    """Names that a function shares by `global` or `nonlocal`, which LibCST does not follow."""
    nodes = ast.walk(ast.parse(source))
    return {name for n in nodes if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}


def _definitions(code: _Scoped) -> Iterator[tuple[Scope, str]]:
    """Each function that is no method, and each variable of the module."""
    import libcst as cst
    from libcst.metadata import FunctionScope, GlobalScope

    kept = _declared_elsewhere(code.module.code)
    for scope, names in code.bound.items():
        if not isinstance(scope, (FunctionScope, GlobalScope)):
            continue
        for name, nodes in names.items():
            functions = all(isinstance(node, cst.FunctionDef) for node in nodes)
            variables = all(map(_is_variable, nodes)) and isinstance(scope, GlobalScope)
            if (functions or variables) and name not in kept and not name.startswith("__"):
                yield scope, name


def _is_variable(node: libcst.CSTNode | None) -> bool:
    import libcst as cst

    definitions = (cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom, cst.ImportAlias)
    return node is not None and not isinstance(node, definitions)


def _occurrences(code: _Scoped, scope: Scope, name: str) -> set[libcst.Name]:
    """Return the name nodes that bind or read this variable."""
    import libcst as cst

    nodes = code.bound[scope][name]
    own = [n.name if isinstance(n, (cst.Param, cst.FunctionDef)) else n for n in nodes]
    named = {n for n in own if isinstance(n, cst.Name) and n.value == name}
    return named | code.uses.get((scope, name), set())


def _leftmost(node: libcst.CSTNode) -> libcst.Name | None:
    import libcst as cst

    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def _names(module: libcst.Module) -> list[libcst.Name]:
    import libcst as cst
    from libcst import matchers

    return [n for n in matchers.findall(module, matchers.Name()) if isinstance(n, cst.Name)]


def _is_parameter(code: _Scoped, scope: Scope, name: str) -> bool:
    import libcst as cst

    return any(isinstance(node, cst.Param) for node in code.bound[scope][name])


def _named_elsewhere(source: str) -> frozenset[str]:
    """Names in strings, and in keyword arguments of calls to what the file does not define."""
    nodes = list(ast.walk(ast.parse(source)))
    defined = {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    language = {n.asname for n in nodes if isinstance(n, ast.alias) and "language" in n.name}
    found = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    for call in nodes:
        if isinstance(call, ast.Call) and not _called(call) & (defined | language):
            found |= {word.arg for word in call.keywords if word.arg}
    return frozenset(found)


def _called(call: ast.Call) -> set[str | None]:
    func = call.func
    while isinstance(func, ast.Attribute):
        func = func.value
    return {func.id} if isinstance(func, ast.Name) else set()


def _keywords(
    code: _Scoped, renames: Mapping[libcst.CSTNode, str]
) -> Iterator[tuple[libcst.CSTNode, str]]:
    """Yield keywords of calls to functions of this file, with their parameters' new names."""
    import libcst as cst
    from libcst import matchers

    for call in matchers.findall(code.module, matchers.Call(func=matchers.Name())):
        if not isinstance(call, cst.Call):
            continue
        parameters = _parameters(code, call.func)
        for word in (arg.keyword for arg in call.args):
            if word is not None and (new := renames.get(parameters.get(word.value, word))):
                yield word, new


def _parameters(code: _Scoped, func: libcst.BaseExpression) -> dict[str, libcst.Name]:
    """Return the parameters of the function of this file that a name stands for, if it does."""
    import libcst as cst

    scope = code.scope_of.get(func)
    if scope is None or not isinstance(func, cst.Name):
        return {}
    owner = _binder(scope, func.value, code.bound)
    found: dict[str, cst.Name] = {}
    for node in code.bound[owner][func.value] if owner else ():
        if isinstance(node, cst.FunctionDef):
            every = [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]
            found.update((p.name.value, p.name) for p in every)
    return found


def _language_imports(code: _Scoped) -> Iterator[tuple[Scope, str]]:
    """Yield the scopes that import `tilelang.language`, and the name that they give it."""
    import libcst as cst

    for scope, names in code.bound.items():
        for name, nodes in names.items():
            imports = [n for n in nodes if isinstance(n, (cst.Import, cst.ImportFrom))]
            if any(name in _language_names(node) for node in imports):
                yield scope, name


def _language_names(node: libcst.Import | libcst.ImportFrom) -> dict[str, libcst.ImportAlias]:
    """Return the names under which this import brings `tilelang.language`."""
    import libcst as cst

    if isinstance(node.names, cst.ImportStar):
        return {}
    found = {}
    for alias in node.names:
        written = "import tilelang.language" if isinstance(node, cst.Import) else "from tilelang"
        full = f"import {alias.evaluated_name}"
        if isinstance(node, cst.ImportFrom) and alias.evaluated_name == "language":
            full = f"from {_dotted(node.module)}"
        name = alias.evaluated_alias or alias.evaluated_name
        if full == written and "." not in name:
            found[name] = alias
    return found


def _dotted(node: libcst.CSTNode | None) -> str | None:
    from libcst.helpers import get_full_name_for_node

    return get_full_name_for_node(node) if node is not None else None


def _with_names(
    module: libcst.Module, renames: Mapping[libcst.CSTNode, str], alias: str | None
) -> libcst.Module:
    """Rename these name nodes and, given an alias, import tilelang.language under it."""
    import libcst as cst

    class Renamer(cst.CSTTransformer):
        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:  # noqa: N802
            new = renames.get(original_node)
            return updated_node.with_changes(value=new) if new else updated_node

        def leave_Import(  # noqa: N802
            self, _: cst.Import, updated_node: cst.Import
        ) -> cst.Import | cst.ImportFrom:
            return _imported_as(updated_node, alias) if alias else updated_node

        def leave_ImportFrom(  # noqa: N802
            self, _: cst.ImportFrom, updated_node: cst.ImportFrom
        ) -> cst.Import | cst.ImportFrom:
            return _imported_as(updated_node, alias) if alias else updated_node

    return module.visit(Renamer())


def _imported_as(
    node: libcst.Import | libcst.ImportFrom, alias: str
) -> libcst.Import | libcst.ImportFrom:
    """Import `tilelang.language` under the new name, in the other form if it is alone."""
    import libcst as cst

    brought = list(_language_names(node).values())
    if not brought or isinstance(node.names, cst.ImportStar):
        return node
    bound = cst.AsName(cst.Name(alias))
    if len(node.names) > 1:
        names = [a.with_changes(asname=bound) if a in brought else a for a in node.names]
        return node.with_changes(names=names)
    if isinstance(node, cst.Import):
        only = cst.ImportAlias(cst.Name("language"), asname=bound)
        return cst.ImportFrom(cst.Name("tilelang"), [only], semicolon=node.semicolon)
    dotted = cst.Attribute(cst.Name("tilelang"), cst.Name("language"))
    return cst.Import([cst.ImportAlias(dotted, asname=bound)], semicolon=node.semicolon)


def _fresh(source: str) -> Callable[[str, int], str]:
    """Return a giver of names that occur nowhere in the source."""
    prefix = "v"
    while prefix in source and any(f"{prefix}{n}" in source for n in range(10)):
        prefix += "_"
    return lambda _old, ordinal: f"{prefix}{ordinal}"


def _finish(source: str, module: libcst.Module, names: Mapping[str, set[str]]) -> Rewritten:
    """Return the rewritten module, every line where it was."""
    return Rewritten(
        module.code, unchanged(source).lines, {old: frozenset(new) for old, new in names.items()}
    )


# --- lines ----------------------------------------------------------------------------------------


def _shifted(source: str, where: Callable[[int], int]) -> LineMap:
    """Return the map of a rewrite that keeps lines whole."""
    moved: dict[int, tuple[int, ...]] = {n: (where(n),) for n in range(1, source.count("\n") + 2)}
    return LineMap(moved, dict(moved))


def _chain(
    first: Mapping[int, tuple[int, ...]], second: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    return {
        old: tuple(dict.fromkeys(n for m in middle for n in second.get(m, ())))
        for old, middle in first.items()
    }


def _by_size(found: Mapping[int, list[tuple[int, int]]]) -> dict[int, tuple[int, ...]]:
    """Return the images of each line, those of the longest code first."""
    return {
        old: tuple(dict.fromkeys(new for _, new in sorted(images, key=lambda i: i[0])))
        for old, images in found.items()
    }


def _lines(node: ast.AST) -> Lines:
    """Return the lines of a node; a decorated definition begins at its first decorator."""
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    for decorator in getattr(node, "decorator_list", ()):
        first = min(first, decorator.lineno)
    return Lines(first, last)


def _undecorated(node: ast.AST) -> Lines:
    return Lines(getattr(node, "lineno", 0), getattr(node, "end_lineno", 0))


def _paired_nodes(old: ast.AST, new: ast.AST) -> Iterator[tuple[Lines, Lines]]:
    """Yield the lines of each node beside those of the same node in the other tree."""
    if type(old) is not type(new):
        raise CannotRewriteError(f"{type(old).__name__} became {type(new).__name__}")
    if hasattr(old, "lineno"):
        yield _lines(old), _lines(new)
        yield _undecorated(old), _undecorated(new)
    before, after = list(ast.iter_child_nodes(old)), list(ast.iter_child_nodes(new))
    if len(before) != len(after):
        raise CannotRewriteError(f"the parts of a {type(old).__name__} changed in number")
    for a, b in zip(before, after, strict=True):
        yield from _paired_nodes(a, b)


def _paired_tokens(old: str, new: str) -> Iterator[tuple[Lines, Lines]]:
    """Headers up to their colon, and comments, paired in order."""
    before, after = _headers(old), _headers(new)
    if len(before) != len(after):
        raise CannotRewriteError("the headers changed in number")
    yield from zip(before, after, strict=True)
    comments = _comments(old), _comments(new)
    if len(comments[0]) == len(comments[1]):
        yield from zip(*comments, strict=True)


_HEADS = frozenset(
    {"if", "elif", "else", "for", "while", "with", "def", "class", "try", "except", "finally"}
    | {"async"}
)


def _headers(source: str) -> list[Lines]:
    """From the keyword to the colon of each compound statement's clause."""
    found = list[Lines]()
    first, depth, lambdas, fresh = 0, 0, 0, True
    for token in _tokens(source):
        if token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
            fresh, first = True, 0
        elif token.type not in (tokenize.NL, tokenize.COMMENT):
            if fresh and token.string in _HEADS:
                first, depth, lambdas = token.start[0], 0, 0
            fresh = False
            depth += (token.string in "([{") - (token.string in ")]}") if token.string else 0
            lambdas += token.string == "lambda"
            if token.string == ":" and first and depth == 0:
                if lambdas == 0:
                    found.append(Lines(first, token.start[0]))
                    first = 0
                lambdas -= lambdas > 0
    return found


def _comments(source: str) -> list[Lines]:
    rows = [t.start[0] for t in _tokens(source) if t.type == tokenize.COMMENT]
    return [Lines(row, row) for row in rows]


def _tokens(source: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(source).readline))


# --- statements -----------------------------------------------------------------------------------


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every run of statements, wherever it is nested."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _statement_starts(source: str) -> set[tuple[int, str]]:
    """(line, indentation) of each statement that begins its line."""
    lines = source.split("\n")
    found = set()
    for statement in (s for block in _blocks(ast.parse(source)) for s in block):
        row = _lines(statement).first
        indent = lines[row - 1][: len(lines[row - 1]) - len(lines[row - 1].lstrip(" \t"))]
        if len(indent) == statement.col_offset:
            found.add((row, indent))
    return found


def _multiline_strings(source: str) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(source)):
        text = isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
        )
        if text and (span := _lines(node)).last > span.first:
            yield span.first, span.last


def _kernel_scopes(tree: ast.AST) -> Iterator[ast.With]:
    """Yield the `with X.Kernel(...)` statements."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and any(
            isinstance(item.context_expr, ast.Call) and _api(item.context_expr) == "Kernel"
            for item in node.items
        ):
            yield node


def _api(call: ast.Call) -> str:
    """Return the last part of the called name."""
    func = call.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _places_by_hand(kernel: ast.AST) -> bool:
    """Whether two names may be one memory: views, and addresses that the kernel gives."""
    shared = {"annotate_address", "view", "reshape", "make_tensor", "match_buffer"}
    return any(isinstance(n, ast.Attribute) and n.attr in shared for n in ast.walk(kernel))


def _constants(tree: ast.AST, kernel: ast.With) -> frozenset[str]:
    """Return what nothing in the kernel can write: grid and loop variables, builders' values."""
    inside = {id(n) for n in ast.walk(kernel)}
    bound, written = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            made = isinstance(node.value, ast.Call) or isinstance(node, ast.AnnAssign)
            names = {n for t in targets for n in _words(t)}
            (written if id(node) in inside or made else bound).update(names)
        elif isinstance(node, ast.arg):
            (bound if node.annotation is None else written).add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name)
        elif isinstance(node, (ast.For, ast.With)) and id(node) in inside:
            bound |= _bound(node)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            written.add(node.value.id)
    return frozenset(bound | {"range"}) - written


def _bound(node: ast.For | ast.With) -> set[str]:
    targets = [node.target] if isinstance(node, ast.For) else [i.optional_vars for i in node.items]
    return {name for target in targets if target is not None for name in _words(target)}


def _words(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _may_swap(a: ast.stmt, b: ast.stmt, constant: frozenset[str]) -> bool:
    if not (_is_movable(a) and _is_movable(b)):
        return False
    own = [{n for f in ast.walk(s) if isinstance(f, ast.For) for n in _bound(f)} for s in (a, b)]
    used = [_words(a), _words(b)]
    if own[0] & (used[1] - own[1]) or own[1] & (used[0] - own[0]):
        return False
    return not (used[0] - constant - own[0]) & (used[1] - constant - own[1])


_PLAIN = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.If, ast.Expr)


def _is_movable(statement: ast.stmt) -> bool:
    """Whether all that it does is on the list of things that only touch what they name."""
    for node in ast.walk(statement):
        if isinstance(node, ast.stmt) and not isinstance(node, _PLAIN):
            return False
        if isinstance(node, ast.Call) and _api(node) not in _MOVABLE:
            return False
    return not isinstance(statement, ast.Expr) or isinstance(statement.value, ast.Call)
