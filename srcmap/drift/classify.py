"""The old and the new lines of a range in: equal, cosmetic or changed, and which tokens differ."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from typing import TYPE_CHECKING, Literal, NamedTuple

from rapidfuzz.distance import Indel

from srcmap.digest import CodeText
from srcmap.drift.scopes import CPP, MARKDOWN
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.drift.text import Text

Kind = Literal["exact", "cosmetic", "changed"]
_MOST_SHOWN = 6


class Class(NamedTuple):
    """What a change is, and the tokens that it is made of, `old -> new`."""

    kind: Kind
    what: tuple[str, ...] = ()
    comments_only: bool = False
    """The range is nothing but comments, and they changed: it may be the thing cited."""
    renames: tuple[tuple[str, str], ...] = ()
    """Names that were replaced, each always by the same other name."""


def classify(
    old: Text,
    lines: Lines,
    new: Text,
    place: Lines,
    known: Callable[[str, str], bool] | None = None,
) -> Class:
    """Say what became of the text. `known` tells names that the whole bump renamed."""
    before = [line.rstrip() for line in old.lines[lines.first - 1 : lines.last]]
    after = [line.rstrip() for line in new.lines[place.first - 1 : place.last]]
    if before == after:
        return Class("exact")
    if old.path.endswith(MARKDOWN):
        same = " ".join(before).split() == " ".join(after).split()
        return Class("cosmetic") if same else _changed(_words(before), _words(after))
    left, right = _code(old, lines), _code(new, place)
    if left == right:
        silent = all(not line.strip() or old.is_comment(lines.first + n)
                     for n, line in enumerate(before))  # fmt: skip
        return Class("cosmetic", comments_only=silent and "".join(before) != "")
    if _same_tree(old, before, after) or _same_joined(old, lines, new, place):
        return Class("cosmetic")
    renames = _renamed(left, right)
    if renames and known is not None and all(known(a, b) for a, b in renames):
        what = tuple(f"name: {a} -> {b}" for a, b in renames)
        return Class("cosmetic", what[:_MOST_SHOWN], renames=renames)
    return _changed(left, right, renames or ())


def code_words(text: Text, first: int, last: int) -> frozenset[str]:
    """Give the tokens of a run of lines; words of comments and docstrings are not among them."""
    return frozenset(_code(text, Lines(first, last)))


def _code(text: Text, lines: Lines) -> list[str]:
    language = _language(text.path)
    if language is None:
        return _words(text.lines[lines.first - 1 : lines.last])
    tokens = _lexed(text, language)
    found = tokens.tokens(lines)
    if all(text.is_comment(n) or not text.bare[n - 1] for n in range(lines.first, lines.last + 1)):
        return []
    return _opened(_plain(found)) if language == "python" else found


_JOINED = 6
"""How many lines next to a range a formatter may have joined with it."""


def _same_joined(old: Text, lines: Lines, new: Text, place: Lines) -> bool:
    """Whether the tokens are the same once the lines that were joined or split are taken in."""
    if _language(old.path) is None or lines.last - lines.first > 60:
        return False
    wider = {tuple(_code(new, w)) for w in _widened(new, place)}
    return any(tuple(_code(old, w)) in wider for w in _widened(old, lines) if _code(old, w))


def _widened(text: Text, lines: Lines) -> list[Lines]:
    low, high = max(1, lines.first - _JOINED), min(len(text.lines), lines.last + _JOINED)
    return [
        Lines(first, last)
        for first in range(low, lines.first + 1)
        for last in range(lines.last, high + 1)
    ]


def _lexed(text: Text, language: str) -> CodeText:
    known: CodeText | None = text.__dict__.get("_code_text")
    if known is None:
        known = text.__dict__["_code_text"] = CodeText(text.lines, language)  # type: ignore[arg-type]
    return known


def _language(path: str) -> str | None:
    if path.endswith((".py", ".pyi", ".pyx")):
        return "python"
    return "cpp" if path.endswith(CPP) else None


def _plain(tokens: list[str]) -> list[str]:
    """Leave out docstrings, which stand where a statement does."""
    return [t for n, t in enumerate(tokens) if not (t.startswith(('"""', 'r"""', "'''")) and
            (n == 0 or tokens[n - 1] == ":"))]  # fmt: skip


_PART = re.compile(r"\{[^{}]*\}|[^{}]+|[{}]")


def _opened(tokens: list[str]) -> list[str]:
    """Cut f-strings into what they say and the names that they show."""
    found: list[str] = []
    for token in tokens:
        if token[:2].lower() in ('f"', "f'", "rf", "fr") and token[-1:] in "\"'":
            for part in _PART.findall(token):
                shown = part.startswith("{")
                found += re.findall(r"\w+|\S", part) if shown else [f'"{part}']
        else:
            found.append(token)
    return found


def _same_tree(old: Text, before: list[str], after: list[str]) -> bool:
    """Whether Python reads both as the same, such as added brackets around an expression."""
    if not old.path.endswith((".py", ".pyi")):
        return False
    left, right = _dumped(before), _dumped(after)
    return left is not None and left == right


def _dumped(lines: list[str]) -> str | None:
    text = textwrap.dedent("\n".join(lines)).strip("\n")
    if re.match(r"\s*(else|elif|except|finally)\b", text) or text.rstrip().endswith(":"):
        text = re.sub(r"^\s*elif\b", "if", text)
        text += "\n    pass" if text.rstrip().endswith(":") else ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_text(body[0]):
            node.body = body[1:]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _renamed(left: list[str], right: list[str]) -> tuple[tuple[str, str], ...] | None:
    """Give the one-to-one renaming of names that turns one into the other, if one does."""
    if len(left) != len(right):
        return None
    there: dict[str, str] = {}
    back: dict[str, str] = {}
    for at, (a, b) in enumerate(zip(left, right, strict=True)):
        if a == b and _is_fixed(left, at):
            continue
        if a != b and not (_is_name(a) and _is_name(b)):
            return None
        if (_is_name(a) or _is_name(b)) and (
            there.setdefault(a, b) != b or back.setdefault(b, a) != a
        ):
            return None
    return tuple(sorted((a, b) for a, b in there.items() if a != b))


def _is_fixed(tokens: list[str], at: int) -> bool:
    """Whether a name belongs to something else: an attribute, or the keyword of a call."""
    before = tokens[at - 1] if at else ""
    after = tokens[at + 1] if at + 1 < len(tokens) else ""
    return before in (".", "->") or (after == "=" and before in ("(", ","))


def _is_name(token: str) -> bool:
    return token.isidentifier()


def _changed(left: list[str], right: list[str], renames: tuple[tuple[str, str], ...] = ()) -> Class:
    what = [
        (op.src_start, op.src_end, op.dest_start, op.dest_end)
        for op in Indel.opcodes(left, right)
        if op.tag != "equal"
    ]
    # Indel has no replacement: a deletion beside an insertion is one.
    joined: list[tuple[int, int, int, int]] = []
    for a, b, c, d in what:
        if joined and joined[-1][1] == a and joined[-1][3] == c:
            joined[-1] = (joined[-1][0], b, joined[-1][2], d)
        else:
            joined.append((a, b, c, d))
    said = [
        f"{_sort(left, a, b, right[c:d])}: {_short(left[a:b])} -> {_short(right[c:d])}"
        for a, b, c, d in joined
    ]
    return Class("changed", tuple(dict.fromkeys(said))[:_MOST_SHOWN], renames=renames)


_LOOPS = frozenset(
    ("for", "range", "serial", "unroll", "Parallel", "Pipelined", "Persistent", "vectorized",
     "while", "Serial", "Unroll", "Vectorized")
)  # fmt: skip


_NAMED = frozenset(("True", "False", "None", "true", "false", "nullptr", "-"))


def _sort(left: list[str], start: int, end: int, right: list[str]) -> str:
    """Name the sort of a difference: a bound of a loop, a literal, a name, or an operation."""
    parts = [*left[start:end], *right]
    if _LOOPS & {*left[start:end], *right} or _in_loop_head(left, start):
        return "bound"
    if parts and all(part[:1].isdigit() or part[:1] in "\"'" or part in _NAMED for part in parts):
        return "literal"
    return "name" if all(map(_is_name, parts)) else "operation"


def _in_loop_head(tokens: list[str], at: int) -> bool:
    """Whether a token stands in the head of a loop or among what the loop is made with."""
    depth = 0
    for part in reversed(tokens[max(0, at - 40) : at]):
        if part in _LOOPS:
            return True
        depth += (part in ")]}") - (part in "([{")
        if depth >= 0 and part in _ENDS:
            return False
    return False


_ENDS = (":", ";", "{", "}")


def _short(tokens: list[str]) -> str:
    text = " ".join(tokens) or "(nothing)"
    return text if len(text) <= 60 else text[:59] + "…"


def _words(lines: list[str]) -> list[str]:
    return " ".join(lines).split()
