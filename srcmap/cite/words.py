"""What in the text of a document is a name, a line of code, or a path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.concepts import CJK

if TYPE_CHECKING:
    from collections.abc import Iterator


HAS_CJK = re.compile(rf"[{CJK}]")
NAME = re.compile(
    r"(?<![A-Za-z0-9_])(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_][A-Za-z0-9_]*(?:\(\))?"
    r"|(?<![\w.])\d+e\d+|\d+\.\d{4,}"
)
PROSE_NAME = re.compile(
    r"(?<![A-Za-z0-9_])(?:[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|::)[A-Za-z_][A-Za-z0-9_]*)+(?:\(\))?"
    r"|[A-Za-z0-9]*_[A-Za-z0-9_]*(?:\(\))?|[A-Za-z][A-Za-z0-9]*\(\)|[a-z]+[A-Z][A-Za-z0-9_]*"
    r"|[A-Z][a-z]+[A-Z][A-Za-z0-9_]*|[A-Z]{1,2}[A-Z][a-z]{3,}[A-Za-z0-9_]*)|(?<![\w.])\d+e\d+|\d+\.\d{4,}"
)
_SAYS_NOTHING = re.compile(
    r"\b(?:[Ll]ines?|[Ss]ections?|[Ii]n|[Aa]t|[Oo]n|[Ss]ee|[Ff]rom|of|the|same file)\b"
    r"|[\W_]|见|同文件"
)
_NUMBER = re.compile(r"v?\d[\d.]*|_+")
_CODE_LINE = re.compile(
    r"\s*(?:(?:for|if|elif|else|with|def|return|class|import|from|while|assert|try|raise|yield|await|del)\b"
    r".*[:(=,)]"
    r"|@\w|#(?!\s*\d)|//|[)\]}]+[,;:]?\s*(?:#.*)?$|\.{3}\s*$|…\s*$"
    r"|[\w.\[\], :\"'()*/+-]+?\s*[-+*/|&@%]?=(?!=)\s*\S|[\w.:<>]+\(.*[,;()\]\\{]\s*(?:(?:#|//).*)?$"
    r"|(?:else|if)\s)"
)
_STOP = frozenset(
    [
        "the",
        "and",
        "for",
        "with",
        "from",
        "this",
        "that",
        "line",
        "lines",
        "see",
        "are",
        "not",
        "file",
        "code",
        "example",
        "examples",
        "in",
        "of",
        "to",
        "is",
        "self",
        "None",
        "True",
        "False",
        "int",
        "float",
        "str",
        "e.g",
        "i.e",
    ]
)


_PATH = re.compile(
    r"[^\s=()]*(?:[\w-]/[^\s=()]*|[\w-])\.(?:py|pyi|ipynb|cc|cpp|cxx|h|hpp|cuh?|md|rst|txt|tex|toml|ya?ml|json"
    r"|cfg|sh|cmake|html|in)(?:[:#]\S*)?|[^\s=()]+/[\w.-]+(?::\d\S*)?|:\d+(?:[-–]\d+)?"
)


def names_of(
    pattern: re.Pattern[str], text: str, first: int, last: int
) -> Iterator[tuple[int, str]]:
    for match in pattern.finditer(text, first, last):
        name = match[0].removesuffix("()")
        if len(name) > 1 and name not in _STOP and not _NUMBER.fullmatch(name):
            yield match.start(), name


def telling(text: str) -> bool:
    """Whether text says anything: more than brackets and a word or two."""
    return len(_SAYS_NOTHING.sub("", text)) >= 4


def speaks(text: str) -> bool:
    """Whether text says anything, be it two Chinese characters."""
    said = _SAYS_NOTHING.sub("", text)
    return len(said) + len(HAS_CJK.findall(said)) >= 4


def shown_lines(text: str) -> list[str]:
    return [line for line in text.strip("\n").split("\n") if line.strip()]


def is_code(line: str) -> bool:
    """Whether a line of flattened text is code: nothing Chinese but in a comment."""
    head = re.split(r"#|//|←", line, maxsplit=1)[0]
    if HAS_CJK.search(head) or line.lstrip().startswith(("|", "- ", "> ", "* ")):
        return False
    return _CODE_LINE.match(line) is not None


def is_path(text: str) -> bool:
    return _PATH.fullmatch(text.strip()) is not None
