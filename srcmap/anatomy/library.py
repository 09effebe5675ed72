"""Definitions in tilelang's own Python that kernels lean on: a syntax tree in, sites out.

Four concepts, each one function over the definitions of a file: `warp-policy`, `reduce-clear`,
`gemm-async-note` and `tmem-docstring`. They rest on the kind of definition, on names of the
public API (members of the policy, the operation reduced, parameters) and on what a docstring's
paragraphs say; not on file names, the order of definitions or the wording of one release.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from srcmap.model import Confidence, Lines, Note, Premise, Site

if TYPE_CHECKING:
    from collections.abc import Iterator

REDUCTION = re.compile(
    r"(?:\w*_)?reduce_(?P<op>max|min|sum|absmax|abssum|mul|prod|any|all|bitand|bitor|bitxor)"
)
POLICY_MEMBERS = frozenset({"fullrow", "fullcol"})
TENSOR_MEMORY_SCOPE = "shared.tmem"
FIELD_SECTION = re.compile(r"(?:args|arguments|parameters|params|参数)\s*[:：]?$", re.IGNORECASE)
ASYNCHRONOUS = re.compile(r"asynchron|\basync\b|异步", re.IGNORECASE)
BY_HAND = re.compile(r"manual|explicit|by hand|schedul|手动|手工|显式|调度", re.IGNORECASE)
WAITING = re.compile(r"wait|barrier|等待|屏障", re.IGNORECASE)

# A file without these cannot hold a definition; most files do not, and need not be walked.
POLICY_TRACE = re.compile(r"full_?row", re.IGNORECASE)
FUNCTION_TRACE = re.compile(r"def \w*reduce_|def gemm|shared\.tmem")


class Function(NamedTuple):
    """A function definition and its name with the definitions around it."""

    node: ast.FunctionDef
    qualname: str

    @property
    def parameters(self) -> list[str]:
        """Names of all parameters that can be given by name, in order."""
        args = self.node.args
        return [arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


class Paragraph(NamedTuple):
    """A run of docstring lines without a blank one between."""

    lines: Lines
    text: str


def library_sites(tree: ast.Module, lines: list[str]) -> tuple[Site, ...]:
    """Find the library definitions in a file.

    `lines` are the file's lines; the line numbers in `tree` must be theirs.
    """
    source = "\n".join(lines)
    functions = list(_functions(tree)) if FUNCTION_TRACE.search(source) else []
    sites = [
        *(find_warp_policies(tree, lines) if POLICY_TRACE.search(source) else ()),
        *find_reductions(functions, lines),
        *find_async_notes(functions, lines),
        *find_tmem_docstrings(functions, lines),
    ]
    return tuple(sorted(sites, key=lambda site: (site.lines, site.concept, site.label)))


def _functions(tree: ast.AST, outer: str = "") -> Iterator[Function]:
    """Functions at module level and in classes, not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield Function(node, f"{outer}{node.name}")
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{outer}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions(node, outer)


def find_warp_policies(tree: ast.Module, lines: list[str]) -> list[Site]:
    """Find enumerations of how warps share a product: their line and their members."""
    sites = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not _is_enum(node):
            continue
        members = _members(node)
        if {_bare(name) for name in members} >= POLICY_MEMBERS:
            span = Lines(node.lineno, max(members.values()))
            note = Note(
                "trees.enum-of-policies", {"name": node.name, "members": ", ".join(members)}
            )
            sites.append(_site("warp-policy", span, node.name, note, lines))
    return _told_apart(sites, "enum")


def _is_enum(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).rpartition(".")[2].endswith("Enum") for base in node.bases)


def _members(node: ast.ClassDef) -> dict[str, int]:
    """Members of an enumeration and the last line of each."""
    return {
        target.id: statement.end_lineno or statement.lineno
        for statement in node.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and not target.id.startswith("_")
    }


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


def find_reductions(functions: list[Function], lines: list[str]) -> list[Site]:
    """Find reductions whose `clear` says whether the output's old values take part."""
    sites = []
    for function in functions:
        name = REDUCTION.fullmatch(function.node.name)
        if not name or not {"clear", "dim"} <= set(function.parameters):
            continue
        documented = "clear" in (ast.get_docstring(function.node) or "")
        if not documented and not _uses(function, "clear"):
            continue
        key = "trees.clear-documented" if documented else "trees.clear-passed-on"
        note = Note(key, {"name": function.node.name})
        site = _site("reduce-clear", _whole(function), function.qualname, note, lines)
        sure: Confidence = "high" if documented else "medium"
        sites.append(replace(site, label=f"op={name['op']}", detail=name["op"], confidence=sure))
    return _max_is_plain(sites)


def _uses(function: Function, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name
        for statement in function.node.body
        for node in ast.walk(statement)
    )


def _max_is_plain(sites: list[Site]) -> list[Site]:
    """Take the label off the maximum: it is what the kernels' running maximum leans on."""
    plain = next((site for site in sites if site.detail == "max"), None)
    if plain is None and len(sites) == 1:
        plain = sites[0]
    return [replace(site, label="") if site is plain else site for site in sites]


def find_async_notes(functions: list[Function], lines: list[str]) -> list[Site]:
    """Find the paragraph of a product's docstring on scheduling it asynchronously by hand."""
    sites = []
    for function in functions:
        if not _is_product(function):
            continue
        for paragraph in _paragraphs(function, lines):
            signs = (ASYNCHRONOUS, BY_HAND, WAITING)
            if all(sign.search(paragraph.text) for sign in signs):
                note = Note("trees.paragraph-on-async", {"name": function.node.name})
                site = _site(
                    "gemm-async-note", paragraph.lines, function.qualname, note, lines, at=function
                )
                sites.append(site)
                break
    return _told_apart(sites, "function")


def _is_product(function: Function) -> bool:
    """Whether this is the public `gemm`: of two operands into a third."""
    first = [name.lower() for name in function.parameters if name != "self"][:3]
    return re.fullmatch(r"gemm(?:_v\d+)?", function.node.name) is not None and len(first) == 3


def find_tmem_docstrings(functions: list[Function], lines: list[str]) -> list[Site]:
    """Find what the allocation of Blackwell tensor memory says about itself.

    From the definition to the line that ends its description: the heading of the arguments.
    """
    sites = []
    for function in functions:
        if not {"shape", "dtype"} <= set(function.parameters):
            continue
        if not _allocates_tensor_memory(function.node) or not ast.get_docstring(function.node):
            continue
        node = function.node
        span = Lines(node.lineno, _description_end(function, lines))
        note = Note("trees.allocates-tensor-memory", {"name": node.name})
        sites.append(_site("tmem-docstring", span, function.qualname, note, lines))
    return _told_apart(sites, "function")


def _allocates_tensor_memory(node: ast.FunctionDef) -> bool:
    """Whether the function gives back a buffer in `shared.tmem`, or does so by default."""
    defaults = zip(reversed(node.args.args), reversed(node.args.defaults), strict=False)
    if any(arg.arg == "scope" and _is_tensor_memory(value) for arg, value in defaults):
        return True
    given = [part.value for part in _own_nodes(node) if isinstance(part, ast.Return) and part.value]
    names = {value.id for value in given if isinstance(value, ast.Name)}
    given += [value for name, value in _assignments(node) if name in names]
    return any(_makes_tensor_memory(value) for value in given)


def _makes_tensor_memory(value: ast.expr) -> bool:
    return any(
        keyword.arg == "scope" and _is_tensor_memory(keyword.value)
        for part in ast.walk(value)
        if isinstance(part, ast.Call)
        for keyword in part.keywords
    )


def _is_tensor_memory(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value == TENSOR_MEMORY_SCOPE


def _assignments(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """Names assigned in a function and what each is assigned."""
    for part in _own_nodes(function):
        if isinstance(part, ast.Assign):
            for target in part.targets:
                if isinstance(target, ast.Name):
                    yield target.id, part.value


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """All nodes of a function's body but those of functions inside it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            waiting += ast.iter_child_nodes(node)


def _description_end(function: Function, lines: list[str]) -> int:
    """Line of the heading of the arguments, else the docstring's last line."""
    docstring = function.node.body[0]
    last = docstring.end_lineno or docstring.lineno
    for number in range(docstring.lineno, last + 1):
        if FIELD_SECTION.fullmatch(_line(lines, number).strip()):
            return number
    return last


def _paragraphs(function: Function, lines: list[str]) -> list[Paragraph]:
    """Part a docstring into its paragraphs, with their lines in the file."""
    if not ast.get_docstring(function.node, clean=False):
        return []
    docstring = function.node.body[0]
    found: list[Paragraph] = []
    run: list[int] = []
    for number in range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1):
        if _line(lines, number).strip(" \t\f'\""):
            run.append(number)
        elif run:
            found.append(_paragraph(run, lines))
            run = []
    return [*found, _paragraph(run, lines)] if run else found


def _paragraph(run: list[int], lines: list[str]) -> Paragraph:
    return Paragraph(Lines(run[0], run[-1]), " ".join(_line(lines, number) for number in run))


def _line(lines: list[str], number: int) -> str:
    return lines[number - 1] if 0 < number <= len(lines) else ""


def _whole(function: Function) -> Lines:
    return Lines(function.node.lineno, function.node.end_lineno or function.node.lineno)


def _site(
    concept: str,
    span: Lines,
    qualname: str,
    note: Note,
    lines: list[str],
    at: Function | None = None,
) -> Site:
    first = _comment_start(at.node.lineno if at else span.first, lines)
    return Site(
        concept=concept,
        label="",
        lines=span,
        context=span if at else Lines(first, span.last),
        qualname=qualname,
        proof=(Premise(note=note, lines=span),),
    )


def _comment_start(line: int, lines: list[str]) -> int:
    """First line of the comments right above a line, else the line itself."""
    while _line(lines, line - 1).lstrip().startswith("#"):
        line -= 1
    return line


def _told_apart(sites: list[Site], kind: str) -> list[Site]:
    """Label the second and later places of a concept with the definition that each is in."""
    return [
        site if n == 0 else replace(site, label=f"{kind}={site.qualname}")
        for n, site in enumerate(sites)
    ]
