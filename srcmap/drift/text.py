"""One file as lines, and what comparing lines asks of it again and again."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.drift.scopes import CPP, MARKDOWN, Scope, scopes_of
from srcmap.parse.python import decode
from srcmap.parse.spans import git_lines

if TYPE_CHECKING:
    from srcmap.model import Lines

_WORD = re.compile(r"\w+")
_TAIL = re.compile(r"(?:\s+#|\s*//)[^'\"]*$")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_COMMENTS = {"cpp": ("//", "/*", "*"), "python": ("#",), "": ("#", "//", "/*", "*")}


class Text:
    """The lines of one file. Line numbers are 1-based; `lines[n - 1]` is line n."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self.lines = git_lines(decode(data)[0])

    @cached_property
    def keys(self) -> list[str]:
        """Each line without any white space: what `git diff -w` compares."""
        return ["".join(line.split()) for line in self.lines]

    @cached_property
    def codes(self) -> list[str]:
        """The keys again, without a comment behind the code; empty where there is nothing else."""
        return [
            "".join(_TAIL.sub("", line).split()) if "#" in line or "//" in line else key
            for line, key in zip(self.lines, self.keys, strict=True)
        ]

    @cached_property
    def bare(self) -> list[str]:
        """Each line without the white space around it."""
        return [line.strip() for line in self.lines]

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line."""
        return [_WORD.findall(line) for line in self.lines]

    @cached_property
    def parts(self) -> list[set[str]]:
        """The words of each line and what they are made of: `ldmatrix_16x32` has `16` too."""
        return [
            {*words, *(part for word in words for part in _PARTS.findall(word))}
            for words in self.words
        ]

    @cached_property
    def telling(self) -> list[bool]:
        """Whether a line says something: at least three letters or digits."""
        return [sum(map(len, words)) >= 3 for words in self.words]

    @cached_property
    def key_counts(self) -> Counter[str]:
        """How often each key stands in the file."""
        return Counter(self.keys)

    @cached_property
    def word_counts(self) -> Counter[str]:
        """How many lines each word stands in."""
        return Counter(word for words in self.words for word in set(words))

    @cached_property
    def scopes(self) -> list[Scope]:
        """The definitions or headings, by first line; parents before their children."""
        return scopes_of(self.path, self.lines)

    @cached_property
    def _scope_at(self) -> list[int]:
        at = [-1] * (len(self.lines) + 2)
        for number, scope in enumerate(self.scopes):
            last = min(scope.last, len(self.lines))
            at[scope.first : last + 1] = [number] * (last + 1 - scope.first)
        return at

    def scope_at(self, line: int) -> int:
        """Give the number of the innermost scope around a line; -1: none."""
        return self._scope_at[line] if 0 < line < len(self._scope_at) else -1

    def scope_of(self, lines: Lines) -> int:
        """Give the innermost scope that holds all of some lines; -1: none."""
        found = self.scope_at(lines.first)
        while found >= 0 and self.scopes[found].last < lines.last:
            found = self.scopes[found].parent
        return found

    def is_comment(self, line: int) -> bool:
        """Whether a line looks like nothing but a comment."""
        return self.bare[line - 1].startswith(self._comment_starts)

    @cached_property
    def _comment_starts(self) -> tuple[str, ...]:
        if self.path.endswith(MARKDOWN):
            return ("<!--",)
        kind = "python" if self.path.endswith((".py", ".pyi")) else ""
        return _COMMENTS["cpp" if self.path.endswith(CPP) else kind]

    def telling_lines(self, lines: Lines) -> list[int]:
        """List the lines of a run that say something."""
        last = min(lines.last, len(self.lines))
        return [n for n in range(lines.first, last + 1) if self.telling[n - 1]]
