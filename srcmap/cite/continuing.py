"""Lines without a file, "line 24" or "同文件 :35": which of the files named before has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.cite.forms import Mention
    from srcmap.cite.named import Known, Named
    from srcmap.cite.nouns import Place
    from srcmap.cite.page import Page

SENTENCE_END = re.compile(r"[。！？]|[.!?](?=\s|\Z)|\n\s*\n")
_IN_ITS_BRACKETS = re.compile(r"[^\s()（）:#]+\s?[(（][^()（）\n]{0,60}\Z")
"""From the name of a file to lines in the brackets right behind it."""
# Lines of something that is no file of a pin.
_NO_FILE_AFTER = re.compile(
    r"\s+of\s+(?:the\s+|this\s+|its\s+)?(?:table|output|log|matrix|listing|poem|figure|diff|plot"
    r"|chart|terminal|screen|snippet|block|message|report|tile|score|algorithm)|\s*[、，,]?\s*第?\s*\d+\s*列|\s*(?:公式|文字|诗句|数据|日志|输出)"
    r"|\s?[:：]\s?(?:[\w./-]+[:：]?\s){0,3}(?:error|warning|syntax|undefined|unexpected|exception)\b"
)
_NO_FILE_BEFORE = re.compile(
    r"(?:矩阵|表格|上表|下表|表\s?\d+|图\s?\d+|[Ff]ig(?:ure)?\.?\s?\d+|[Ll]isting\s?\d+|(?:日志|输出|[Oo]utput|[Ll]og)(?![,，])|算法\s?\d*|终端|屏幕|诗|地铁|[Mm]atrix|[Tt]able(?:\s\d+)?"
    r"|[Aa]lgorithm\s?\d*|[Ss]ubway|[Mm]etro|[Pp]oem|[Rr]ow|\b(?:[Yy]our|[Mm]y|[Oo]ur)(?:\s\w+(?:['’]s)?)?|你的\w{0,4}|我的\w{0,4})"
    r"[，,:：]?\s?(?:的|中|里|的第|中第)?\s?\Z"
)


_GOES_ON = re.compile(
    r"(?:其后|随后|紧接着|接着|接下来|再往[下后上]|往[下后上]|其前|其上|其下|[后前上下][面边]|紧随其后|紧跟其后)[的是]?[，,]?\s*第?\s*\Z"
    r"|\b(?:followed\sby|(?:right|just)\s(?:after|below|above|before)(?:\s(?:that|it|them))?,?"
    r"|further\s(?:down|up),?|then(?:\scomes?)?,?|the\s(?:next|following))"
    r"\s(?:the\s)?(?:[Ll]ines?\s)?[`*]*\Z"
)
"""What makes lines the next ones in a file."""


class Continuing:
    """Decides about lines without a file in one document."""

    def __init__(self, page: Page, named: Named) -> None:
        self._page, self._text, self._named = page, page.text, named

    def names_something_else(self, mention: Mention) -> bool:
        """Whether these lines are no place in a file."""
        if not mention.same and not mention.joined and self._names_no_file(mention):
            return True
        return self._is_row_label(mention)

    def goes_on(self, mention: Mention) -> bool:
        """Whether the words before say that these lines come next: in the file named last."""
        return _GOES_ON.search(self._text, max(mention.first - 40, 0), mention.first) is not None

    def candidates(self, mention: Mention) -> list[Known]:
        """List the files that lines may belong to: the nearest first, those in brackets last."""
        near = [k for k in self._named.files if mention.first - k.at < 9000]
        if not near:
            return []
        nearest = self._text[near[-1].at : mention.first]
        if mention.joined or _IN_ITS_BRACKETS.match(nearest):
            return [near[-1]]
        block = self._page.block_at(mention.first)
        column = self._column(mention, block)
        if column is not None:
            return [column]
        here = [k for k in near if k.block == block]
        if not here:
            last = near[-1].block
            here = [k for k in near if k.block == last or (k.block >= last - 1 and _close(k, near))]
        line = self._text.rfind("\n", 0, mention.first) + 1
        for start in (line, self._sentence_start(mention.first, block)):
            spoken = [k for k in here if k.at >= start]
            if len({k.options for k in spoken}) == 1:
                here = spoken
                break
        ranked = sorted(here, key=lambda k: (k.also, -k.at))
        unique: dict[tuple[Place, ...], Known] = {}
        for known in ranked:
            unique.setdefault(known.options, known)
        found = list(unique.values())
        plain = [k for k in found if not k.also]
        return plain if len(plain) == 1 else found

    def _is_row_label(self, mention: Mention) -> bool:
        """Whether a table row says "line 3" and names no file: it speaks of something else."""
        index = self._page.block_at(mention.first)
        if not self._page.blocks or self._page.blocks[index].kind != "row" or mention.same:
            return False
        if self._text[mention.first] in ":：" or self._column(mention, index):
            return False
        return not any(known.block == index for known in self._named.files)

    def _column(self, mention: Mention, index: int) -> Known | None:
        """Give the file that the column of a table row is about, named in a row above."""
        blocks = self._page.blocks
        if not blocks or blocks[index].kind != "row":
            return None
        if any(known.block == index for known in self._named.files):
            return None
        column = self._text.count("|", blocks[index].first, mention.first)
        first = index
        while first > 0 and blocks[first - 1].kind == "row":
            first -= 1
        for known in reversed(self._named.files):
            if known.block < first:
                return None
            if self._text.count("|", blocks[known.block].first, known.at) == column:
                return known
        return None

    def _names_no_file(self, mention: Mention) -> bool:
        """Whether the words around say that lines of something else are meant."""
        end, start = mention.ranges[-1][1][1], mention.first
        after = self._text[end : end + 60].removeprefix(" ").removeprefix("行")
        before = re.sub(r"(?:第|[Ll]ines?)\s*\Z", "", self._text[max(start - 24, 0) : start])
        told = _NO_FILE_AFTER.match(after) or _NO_FILE_AFTER.match(f" {after}")
        return bool(told or _NO_FILE_BEFORE.search(before))

    def _sentence_start(self, at: int, block: int) -> int:
        first = self._page.blocks[block].first if self._page.blocks else 0
        ends = [m.end() for m in SENTENCE_END.finditer(self._text, max(first, at - 600), at)]
        return ends[-1] if ends else first


def _close(known: Known, near: Iterable[Known]) -> bool:
    last = max(k.at for k in near)
    return last - known.at < 300
