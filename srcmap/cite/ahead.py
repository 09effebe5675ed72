"""Code that follows a citation and belongs to it: "In `a.py:24` it reads `x = y`".

Nothing but words that connect may stand between, and no other citation may claim it. In a table
the code is a cell of the citation's row, also when each cell has its own line.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.compare import norm
from srcmap.cite.glue import GLUE
from srcmap.cite.placing import AWAY_AFTER, Placing
from srcmap.cite.words import is_path

if TYPE_CHECKING:
    from srcmap.cite.nouns import Citation, Span
    from srcmap.cite.spots import Spots

_WORDS = (
    "it this the a which one you we there then just now really simply only also still again"
    " itself line lines code statement call loop assignment expression block condition test says"
    " say reads read shows show writes wrote written has have holds hold contains contain defines"
    " define sets set assigns assign computes compute calls calling stands stand appears is are"
    " does find finds found see sees get looks as namely i.e. exactly literally verbatim"
    " word for following here it's source text being"
)
_WIDE_WORDS = (
    "的 里 里面 中 上 处 那里 这里 这 那 一 两 三 四 几 个 行 句 段 代码 语句 原文 原样 内容"
    " 注释 调用 赋值 表达式 定义了 定义 声明 声明了 条件 有 是 为 写着 写的是 写的 写成 写作"
    " 写道 写 就 就是 即 也 同样 一样 说 读 读作 读到 可以 可见 看到 看 能 用的是 用了 调用了"
    " 调用的是 执行 执行的是 给出 设置 如下 也就是 正是 还 也都 源码 那一行 这一行 为证 实际"
)
_SAME = (
    r"(?:with|in|by|using)\s(?:the\s|these\s|those\s)?(?:very\s|exact\s)?(?:same\s)?"
    r"(?:words?|code|text|line|statement|expression|form|call|way)\b"
    r"|the\ssame\b|用同样的?(?:写法|代码|话)"
)


def _any(words: str) -> str:
    return "|".join(map(re.escape, sorted(words.split(), key=len, reverse=True)))


_LEAD = re.compile(
    rf"(?:[\s&`*)）\]}}(（:：,，–—~→⇒=>-]|{_SAME}|(?:{_any(_WORDS)})(?![A-Za-z0-9_])"
    rf"|{_any(_WIDE_WORDS)}){{0,30}}"
)
"""From a citation to code that is its own."""
_ITEM = re.compile(r"\n[ \t>]*(?:[-*+|]|\d+[.)、])[ \t]|\n[ \t]*\r?\n|```")
_SAYS = re.compile(r"[ \t]{3}|[\t&:：(（–—→⇒=>-]|\w")
"""Anything that connects: a comma alone does not."""
_LABEL = re.compile(
    r"[`*)）\]]*[ \t]*(?:-|–|—|→|=>|[:：])[ \t]*[^\n:：`|。；;]{1,60}[:：][ \t]*(?=\S)"
)
"""From the citation that a list item begins with to code, over what it is called."""
_WIDE = r"\u4e00-\u9fff"
BARE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_.]*(?:\[[^\]\n]*\])?\s*(?:[-+*/|&@]|//)?=(?!=)"
    rf"\s*[^;；。`=\n{_WIDE}]{{1,160}}?|[A-Za-z_][A-Za-z0-9_.]*\([^\n`{_WIDE}]*?\))"
    r"[ \t]*(?=\r?(?:\n|\Z)|\.(?:\s|\Z)|[。；，]|\s\||[与和及、])"
)
_CLOSES = re.compile(r"[`*)）]*\s*(?:[.。;；]|\r?\n\s*\n|\Z)")
"""Behind a comma, code that ends its sentence belongs to the citation, too."""
_DEFINES = re.compile(
    r"\b(?:defines?|sets?|assigns?|declares?|computes?|reads?|holds?|contains?)\b"
    r"|定义|声明|设置|写着|给出"
)
_NAME = re.compile(r"(?=\w*[a-z]\w*_\w|\w*[a-z][A-Z]|\w+\.\w)[A-Za-z_][\w.]*(?:\(\))?")
_GONE = re.compile(
    r"\W{0,3}(?:(?:is|was|has)\s)?(?:no longer|gone|removed|moved|missing|instead|elsewhere)\b"
    r"|\W{0,3}(?:已经?|早就?)?(?:不在|不见|没了|移走|删掉|挪到|被删)"
)


class Code(NamedTuple):
    """Code that belongs to a citation before it, and how sure that is."""

    body: str
    at: Span
    sure: bool = True


class Ahead:
    """Finds the code behind the citations of one page."""

    def __init__(self, spots: Spots) -> None:
        self._spots, self._text = spots, spots.text
        self._placing = Placing(spots)

    def of(self, citation: Citation, end: int) -> Code | None:
        """Give the code that follows a citation, or several that end together."""
        return self._following(end, sure=True) or self._labelled(citation, end)

    def _following(self, end: int, *, sure: bool) -> Code | None:
        edge = self._spots.edge_after(end)
        lead = _LEAD.match(self._text, end, min(edge, end + 120))
        if lead is None or _ITEM.search(lead[0]):
            return None
        code = self._code(end, lead.end(), edge)
        said = _SAYS.search(lead[0]) is not None
        if code is not None and _CLOSES.match(self._text, code.at[1]):
            said = said or "," in lead[0] or "，" in lead[0]
        if code is None or self._is_other(end, code) or self._claimed(code.at[1], edge, said=said):
            return None
        return code._replace(sure=sure and said and code.sure)

    def owned(self, at: int) -> int:
        """Give the end of the code that belongs to the citation before an offset; else 0."""
        index = bisect_left(self._spots.starts, at) - 1
        end = self._spots.places[index][1] if index >= 0 else 0
        code = self._following(end, sure=True) if 0 < end <= at < end + 400 else None
        return code.at[1] if code and code.sure and code.at[1] <= at else 0

    def _labelled(self, citation: Citation, end: int) -> Code | None:
        if not self._spots.begins(citation):
            return None
        _, stop = self._spots.line_of(end)
        edge = min(self._spots.edge_after(end), stop)
        lead = _LABEL.match(self._text, end, edge)
        code = self._code(end, lead.end(), edge) if lead else None
        ends = code and not re.search(r"\w", self._text[code.at[1] : stop])
        return code if code and ends and not self._is_other(end, code) else None

    def _is_other(self, end: int, code: Code) -> bool:
        index = bisect_right(self._spots.starts, end - 1) - 1
        gap = self._text[end : code.at[0]]
        return self._placing.is_other(self._spots.places[max(index, 0)], gap)

    def _code(self, end: int, begin: int, edge: int) -> Code | None:
        """Read a code span, or bare code, that begins at an offset."""
        for first, last, body in self._spots.codes(end, min(edge, begin + 3)):
            if -2 <= first - begin <= 2 and last <= edge + 1:
                return self._kept(Code(body, (first, last)), self._text[end:begin])
        if re.search(r"[:：][ \t]*\r?\n\s*\Z", self._text[end:begin]):  # a block of code
            return None
        bare = BARE.match(self._text, begin, edge)
        return self._kept(Code(bare[1], bare.span(1)), "") if bare else None

    def _kept(self, code: Code, lead: str) -> Code | None:
        named = _DEFINES.search(lead) is not None and _NAME.fullmatch(code.body) is not None
        if not (named or is_long(code.body)) or AWAY_AFTER.match(self._text, code.at[1]):
            return None
        return code._replace(sure=_GONE.match(self._text, code.at[1]) is None)

    def _claimed(self, last: int, edge: int, *, said: bool) -> bool:
        """Whether the next citation gives the place of code that ends at an offset."""
        if edge >= len(self._text) or not GLUE.fullmatch(self._text, last, edge):
            return False
        between = self._text[last:edge]
        if _ITEM.search(between):
            return False
        led = between.strip("` *").startswith((",", "，", "\n"))
        index = bisect_left(self._spots.starts, edge)
        if said and re.match(r"[`*]*[,，、;；]", between):
            return False
        return not (led and self._following(self._spots.places[index][1], sure=True))


def is_long(body: str) -> bool:
    """Whether code is more than a name."""
    told = re.search(r"[=(\[+*/<>-]|\s", body) is not None and re.search(r"\w", body) is not None
    return told and len(norm(body)) >= 8 and not is_path(body)
