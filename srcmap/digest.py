"""Lines of a file -> the digests by which a location is recognised again.

`lines_digest` is over the text of the lines as it is. `CodeText.digest` leaves out comments and
layout, so that reformatting does not change it; `CodeText.form` the choice of names as well. The
lexers are small on purpose: they must not fail on a file that its own language refuses, and a
digest needs no more than where tokens end.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.model import Lines

Language = Literal["python", "cpp", "markdown"]

_PYTHON = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>[rbfuRBFU]{0,2}(?:'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"
        |'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
    |(?P<other>\w+|\*\*=?|//=?|[<>]{2}=?|->|[-+*/%&|^@=!<>:]=|[^\s\\])""",
    re.VERBOSE | re.DOTALL,
)
_CPP = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<other>\w+|::|->|[^\s\\])""",
    re.VERBOSE | re.DOTALL,
)
_MARKDOWN = re.compile(r"(?P<other>\S+)")
_NAME = re.compile(r"[^\W\d]\w*")
_LEXERS = {"python": _PYTHON, "cpp": _CPP, "markdown": _MARKDOWN}


def lines_digest(lines: Sequence[str], span: Lines) -> str:
    """SHA-256 over the lines of `span`, joined with LF and without a last one, in UTF-8."""
    return _sha256("\n".join(lines[span.first - 1 : span.last]))


class CodeText:
    """One file's tokens, cut once and asked for many spans."""

    def __init__(self, lines: Sequence[str], language: Language) -> None:
        self._text = "\n".join(lines)
        self._starts = _line_starts(lines)
        self._lexer = _LEXERS[language]
        self._tokens = list(self._lexer.finditer(self._text))
        self._ends = [token.end() for token in self._tokens]

    def digest(self, span: Lines) -> str:
        """SHA-256 over the tokens of `span`; over its comments when it holds nothing else."""
        return _sha256("\x00".join(self.tokens(span)))

    def form(self, *spans: Lines) -> str:
        """Digest of the tokens with their names numbered: equal where only names differ.

        Of several spans as of one: a name keeps its number from one to the next.

        What is called, attributes and keywords of calls keep their names. 16 hexadecimal digits:
        it says whether two places are alike, and never finds one again.
        """
        tokens = [token for span in spans for token in self.tokens(span)]
        return _sha256("\x00".join(_numbered(tokens)))[:16]

    def tokens(self, span: Lines) -> list[str]:
        """Tokens of `span` without comments and trailing commas, quotes written one way."""
        code: list[str] = []
        comments: list[str] = []
        for kind, text in self._inside(span):
            if kind == "comment":
                comments.extend(text.strip("#/*").split())
            else:
                if text in ")]}" and code and code[-1] == ",":
                    code.pop()
                code.append(_one_quote(text) if kind == "string" else text)
        return code or comments

    def _inside(self, span: Lines) -> Iterator[tuple[str | None, str]]:
        first = self._starts[min(span.first - 1, len(self._starts) - 1)]
        last = self._starts[min(span.last, len(self._starts) - 1)]
        for token in self._tokens[bisect_left(self._ends, first + 1) :]:
            if token.start() >= last:
                return
            start, end = max(token.start(), first), min(token.end(), last)
            text = self._text[start:end]
            whole = end - start == token.end() - token.start()
            # A span inside a docstring holds a piece of one token: its words are what counts.
            yield token.lastgroup, text if whole else " ".join(text.split())


def _numbered(tokens: Sequence[str]) -> Iterator[str]:
    """Write each name as the place of its first appearance among names."""
    numbers: dict[str, str] = {}
    depth = 0
    around = ["", *tokens, ""]
    for before, word, after in zip(around, tokens, around[2:], strict=False):
        depth += (word in "([{") - (word in ")]}")
        own = _NAME.fullmatch(word) is not None and not keyword.iskeyword(word)
        fixed = before == "." or after == "(" or (depth > 0 and after == "=")
        yield numbers.setdefault(word, f"${len(numbers)}") if own and not fixed else word


def _line_starts(lines: Sequence[str]) -> list[int]:
    """Offset of each line, and the end of the text."""
    starts, offset = [], 0
    for line in lines:
        starts.append(offset)
        offset += len(line) + 1
    return [*starts, offset]


def _one_quote(text: str) -> str:
    prefix = re.match(r"[a-zA-Z]*", text)
    head = prefix.group().lower() if prefix else ""
    body = text[len(head) :]
    if (
        len(body) > 1
        and body[0] == "'"
        and body[1:2] != "'"
        and '"' not in body
        and "\\" not in body
    ):
        body = f'"{body[1:-1]}"'
    return head + body


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
