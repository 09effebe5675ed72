"""Two files, bytes in -> what the second does otherwise than the first, by role and by function.

Where a file does what is read off the file itself: its kernels where `srcmap.anatomy` finds any,
else the regions that comments mark (`# concept: row-sum`, see `srcmap.counterparts`). Of two files
with regions, what no concept names is compared too, function by function and statement by
statement. Layout, comments and names of variables are no difference. Statements are compared one by
one; that they stand in another order, or that names are exchanged, is said of the function.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, Literal

import msgspec

from srcmap.catalogue import Text, Variant
from srcmap.contrast import Difference, FilePair, differences
from srcmap.counterparts import regions
from srcmap.digest import CodeText
from srcmap.errors import ParseError
from srcmap.mapfile import Entry
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from srcmap.model import FileAnatomy, KernelAnatomy

Holds = Literal["kernels", "regions", "nothing"]
MODULE = "<module>"
"""What statements outside functions belong to."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one file says of itself."""

    path: str
    holds: Holds
    entries: tuple[Entry, ...]
    text: str


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One function of two files, in what no concept names. Lines are those of the statements."""

    name: str
    """Dotted, as `outer.inner` for a method; `MODULE` for what is outside."""
    kind: Literal["added", "changed", "dropped"]
    after: tuple[Lines, ...] = ()
    before: tuple[Lines, ...] = ()
    gained: tuple[str, ...] = ()
    """Parameters that only the second has, or with another default."""
    lost: tuple[str, ...] = ()
    rearranged: bool = False
    """The same statements, in another order or with other names for each other."""


def read(data: bytes, path: str, neighbour: Callable[[str], bytes | None]) -> Reading:
    """Read one file; ParseError when it is no source that srcmap reads."""
    from srcmap.anatomy import read_source
    from srcmap.parse.python import decode

    text = decode(data)[0]
    anatomy = read_source(data, path, neighbour)
    found = tuple(_kernel_entries(anatomy, text))
    if any(entry.status == "found" for entry in found):
        return Reading(path=path, holds="kernels", entries=found, text=text)
    marked = tuple(_region_entries(text, path)) if anatomy.language == "python" else ()
    return Reading(path=path, holds="regions" if marked else "nothing", entries=marked, text=text)


def contrasted(before: Reading, after: Reading) -> list[Difference]:
    """Compare by concept; between kernels and regions nothing but what each of them does."""
    foreign = before.holds != after.holds
    sides = (_plain(side.entries) if foreign else [*side.entries] for side in (before, after))
    found = differences(_nobody(after), _nobody(before), FilePair(*sides))
    return [_by_role(difference) if foreign else difference for difference in found]


def _plain(entries: Iterable[Entry]) -> list[Entry]:
    """Leave out the values: a comment tells none."""
    return [msgspec.structs.replace(entry, detail="") for entry in entries]


def _by_role(found: Difference) -> Difference:
    """Make nothing of the number of places: a comment marks as many lines as it likes."""
    known = tuple(a for a in found.aspects if a.key != "diff.places")
    kind = "same" if found.kind == "changed" and not known else found.kind
    return msgspec.structs.replace(found, kind=kind, aspects=known)


def _nobody(reading: Reading) -> Variant:
    """Stand in for a variant: the catalogue says nothing of a file that somebody names."""
    name = Text(reading.path, reading.path)
    return Variant(id=reading.path, name=name, summary=Text("", ""))


# -- what stands where -----------------------------------------------------------------------


def _kernel_entries(anatomy: FileAnatomy, text: str) -> Iterator[Entry]:
    kernels = [k for k in anatomy.kernels if k.kind != "file"] or list(anatomy.kernels)
    code = CodeText(_git_lines(text), anatomy.language)
    named = len({kernel.qualname for kernel in kernels}) > 1
    found: set[str] = set()
    for kernel in kernels:
        for site in {(s.concept, s.label, s.lines): s for s in kernel.sites}.values():
            found.add(site.concept)
            where = f"kernel={kernel.qualname}" if named else ""
            yield _entry(
                anatomy.path,
                "kernels",
                site.concept,
                site.lines,
                code,
                site=" ".join(part for part in (site.label, where) if part),
                qualname=site.qualname,
                detail=site.detail,
                confidence=site.confidence,
            )
    yield from _not_found(anatomy.path, kernels, found)


def _not_found(path: str, kernels: Sequence[KernelAnatomy], found: set[str]) -> Iterator[Entry]:
    """Yield why a concept has no place, where no kernel of the file has one."""
    for kernel in kernels:
        for doubt in kernel.ambiguities:
            if doubt.concept not in found:
                yield _entry(
                    path, "kernels", doubt.concept, status="ambiguous", reason=doubt.reason
                )
        for lack in kernel.absences:
            if lack.concept not in found:
                status = "absent" if lack.judged else "missing"
                yield _entry(path, "kernels", lack.concept, status=status, reason=lack.reason)


def _region_entries(text: str, path: str) -> Iterator[Entry]:
    code = CodeText(_git_lines(text), "python")
    for concept, lines in regions(text):
        yield _entry(path, "regions", concept, lines, code)


def _entry(
    path: str,
    holds: Holds,
    concept: str,
    lines: Lines | None = None,
    code: CodeText | None = None,
    **more: object,
) -> Entry:
    """Write a place as a map would. The repository says how it was read: two ways are foreign."""
    values: dict[str, object] = {
        "variant": path, "site": "", "repo": holds, "pin": "", "commit": None, "path": path,
        "context": None, "qualname": "", "status": "found", "lines": lines, "concept": concept,
    }  # fmt: skip
    if lines is not None and code is not None:
        values |= {"form": code.form(lines), "code_digest": code.digest(lines)}
    return Entry(**{**values, **more})  # type: ignore[arg-type]


def _git_lines(text: str) -> list[str]:
    from srcmap.parse.spans import git_lines

    return git_lines(text)


# -- what no concept names -------------------------------------------------------------------


class _Function(msgspec.Struct, frozen=True):
    """Parameters as they are written, and the forms of the statements."""

    lines: Lines
    parameters: dict[str, str]
    statements: tuple[tuple[str, Lines], ...]
    """Those that no region holds."""
    forms: tuple[str, ...]
    """Those of all statements, sorted."""
    whole: str
    """The form of all in one, in their order, behind the signature."""


def functions(before: Reading, after: Reading) -> list[Function]:
    """Compare functions by name, new ones first; both files are Python, else ParseError."""
    old, new = _functions_of(before), _functions_of(after)
    added = [
        Function(name=name, kind="added", after=(found.lines,))
        for name, found in new.items()
        if name not in old
    ]
    changed = [_compared(name, old[name], new[name]) for name in new if name in old]
    dropped = [
        Function(name=name, kind="dropped", before=(found.lines,))
        for name, found in old.items()
        if name not in new
    ]
    return [*added, *(f for f in changed if f is not None), *dropped]


def _compared(name: str, old: _Function, new: _Function) -> Function | None:
    gained = tuple(text for key, text in new.parameters.items() if old.parameters.get(key) != text)
    lost = tuple(text for key, text in old.parameters.items() if new.parameters.get(key) != text)
    after, before = _surplus(new, old), _surplus(old, new)
    if gained or lost or after or before:
        return Function(
            name=name, kind="changed", after=after, before=before, gained=gained, lost=lost
        )
    if old.forms != new.forms or old.whole == new.whole:
        return None  # alike, or what differs is in a region
    after, before = (new.lines,), (old.lines,)
    return Function(name=name, kind="changed", after=after, before=before, rearranged=True)


def _surplus(mine: _Function, other: _Function) -> tuple[Lines, ...]:
    """Return the statements of one that the other lacks, neighbours as one run."""
    left = Counter(form for form, _ in other.statements)
    runs: list[Lines] = []
    joins = False
    for form, lines in mine.statements:
        left[form] -= 1
        if left[form] >= 0:
            joins = False
        elif joins and lines.first == runs[-1].last + 1:
            runs[-1] = Lines(runs[-1].first, lines.last)
        else:
            runs.append(lines)
            joins = True
    return tuple(runs)


def _functions_of(reading: Reading) -> dict[str, _Function]:
    try:
        tree = ast.parse(reading.text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ParseError(f"{reading.path}: {error}", slug="parse") from error
    held = {
        number
        for entry in reading.entries
        if entry.lines is not None
        for number in range(entry.lines.first, entry.lines.last + 1)
    }
    reader = _Reader(CodeText(_git_lines(reading.text), "python"), held)
    reader.read(tree.body, "")
    return reader.found


class _Reader:
    """Collects the functions of one file."""

    def __init__(self, code: CodeText, held: set[int]) -> None:
        self._code, self._held = code, held
        self.found: dict[str, _Function] = {}

    def read(self, body: Sequence[ast.stmt], inside: str) -> None:
        loose = []
        for statement in body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._function(statement, f"{inside}{statement.name}")
            elif isinstance(statement, ast.ClassDef):
                self.read(statement.body, f"{inside}{statement.name}.")
            elif not _imports(statement) and not _says(statement):
                loose.append(statement)
        if loose:
            span = Lines(loose[0].lineno, loose[-1].end_lineno or loose[-1].lineno)
            name = inside.rstrip(".") or MODULE
            self.found.setdefault(name, self._of(span, {}, loose, []))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        span = Lines(node.lineno, node.end_lineno or node.lineno)
        head = Lines(node.lineno, max(node.lineno, node.body[0].lineno - 1))
        self.found[name] = self._of(span, _parameters(node.args), node.body, [head])

    def _of(
        self, span: Lines, parameters: dict[str, str], body: Sequence[ast.stmt], head: list[Lines]
    ) -> _Function:
        units = [(self._code.form(lines), lines) for lines in _units(body)]
        return _Function(
            lines=span,
            parameters=parameters,
            statements=tuple((form, lines) for form, lines in units if self._free(lines)),
            forms=tuple(sorted(form for form, _ in units)),
            whole=self._code.form(*head, *(lines for _, lines in units)),
        )

    def _free(self, lines: Lines) -> bool:
        return self._held.isdisjoint(range(lines.first, lines.last + 1))


def _imports(statement: ast.stmt) -> bool:
    """Whether it only brings names in, be it for type checkers alone."""
    if isinstance(statement, ast.If):
        return all(map(_imports, [*statement.body, *statement.orelse]))
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def _says(statement: ast.stmt) -> bool:
    """Whether it is a docstring, or as good as one."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _units(body: Iterable[ast.stmt]) -> Iterator[Lines]:
    """Yield the lines of each statement, of compound ones their heads; no docstrings."""
    for node in body:
        if _says(node):
            continue
        inner = list(_blocks(node))
        first, last = node.lineno, node.end_lineno or node.lineno
        if inner and inner[0][0].lineno > first:
            # The head ends with the colon; blank lines and comments after it are no code.
            yield Lines(first, inner[0][0].lineno - 1)
            for block in inner:
                yield from _units(block)
        else:
            yield Lines(first, last)


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        inside = getattr(node, name, [])
        if not isinstance(inside, list):
            continue
        if name in ("handlers", "cases"):
            for part in inside:
                yield from _blocks(part)
        elif inside:
            yield inside


def _parameters(found: ast.arguments) -> dict[str, str]:
    """Return name -> the parameter as it is written, without its annotation."""
    plain = [*found.posonlyargs, *found.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(found.defaults))
    pairs = [*zip(plain, [*defaults, *found.defaults], strict=True)]
    pairs += zip(found.kwonlyargs, found.kw_defaults, strict=True)
    written = {a.arg: a.arg if d is None else f"{a.arg}={ast.unparse(d)}" for a, d in pairs}
    for mark, rest in (("*", found.vararg), ("**", found.kwarg)):
        if rest is not None:
            written[mark + rest.arg] = mark + rest.arg
    return written
