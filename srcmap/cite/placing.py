"""Whether a citation gives the place of something named in its sentence, or only stands near it.

"The row sum is computed at a.py:86" places the row sum; "unlike the row sum, a.py:90 is plain" and
"a.py:90 comes after the row sum" do not. Only what is placed can be in the wrong place.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Literal

from srcmap.cite.glue import BEHIND, GLUE, SAYS
from srcmap.cite.words import speaks

if TYPE_CHECKING:
    from srcmap.cite.spots import Spots

AWAY_BEFORE = re.compile(
    r"(?:\b(?:before|after|behind|above|below|outside|without|unlike|no|not|than|until|except"
    r"|besides|instead of|follows|precedes|replaces|like|contrast to|compared? (?:to|with)|every"
    r"|once|per|never|how|why|whether|if|when|while|because of|thanks to|due to|despite|beyond"
    r"|under|given|in (?:the )?case of)"
    r"\s+(?:(?:the|an?|its|this|each|any)\s+)?"
    r"|(?:非|non-?|除了|没有|并非|不是|不同于|无需|不需要|不用|区别于|替代|代替|而非|不像|未|不|由于|因为"
    r"|每个|每次|读完|看完|只有|对于|别把|不涉及|为了)\s?)[`*]*\Z",
    re.IGNORECASE,
)
AWAY_AFTER = re.compile(
    r"[`*]*\s?(?:body\b|的?\s?(?:之前|之后|以前|以后|前面|后面|前的|后的|之外|以外|体|内部|上面|下面|上方"
    r"|下方|上一行|下一行|上一步|下一步|旁边|附近|不同|相比|相反|无关|而言|来说|的存在|算完|执行完)"
    r"|\s?的?(?:情况)?下(?=[的循起会才要第]|\s?[，,]))"
)
"""What is near something named, and is not it."""
FRAME_BEFORE = re.compile(
    r"(?i:\b(?:in|inside|within|of|for|from|to|with|by|under|into|on|at|and its|per))\s+"
    r"(?:(?:the|an?|its|this|that|each|every|our|their)\s+)?[`*]*\Z|(?:由|给|按|每个)\s?[`*]*\Z"
)
FRAME_AFTER = re.compile(r"[`*]*\s?的?\s?(?:里|中|内|时|所|使用|需要|用到|依赖|读取的|之间)")
"""What something named is a part or a purpose of."""
OTHER = re.compile(
    r"\b(?:ours?|replac\w+|instead|formerly|previously|used\sto|once|suggest\w*|propos\w+|should"
    r"|could|must|would|becomes?|rather|followed|next|before|after|later|port(?:ed)?|counterpart"
    r"|equivalent|chang\w+|rewrit\w+)\b"
    r"|我们|本项目|建议|应为|应当|应该|改成|改为|改写成|替换|换成|从前|以前|原来|原本|曾"
    r"|下一|上一|之后|之前|随后|然后|后面|前面|相当于|等价|移植|类似",
    re.IGNORECASE,
)
"""What makes code near a citation the code of another place, or of another time."""
_DENIED = re.compile(
    r"不(?![小大等多少]于|超过)|没有|无关|未|非|并非|\b(?:not|never|no|without|nothing|neither|nor|cannot|another)\b|n['’]t\b"
)
_APART = re.compile(
    r"[;；](?!\s*(?:(?:its|their|the)\s(?:code|place|lines?)\b"
    r"|(?:it|they)\s(?:is|are|sits?|stands?)\s(?:at|in|on)\b|其|它|代码|位置))"
    r"|[。！？!?]|\.\s|\n\s*\n"
)
_LOCATOR = re.compile(
    r"(?:[(（【:：—–|>→]|[,，;；]\s(?:it\s)?(?:is|are)|code is|代码是"
    r"|\b(?:at|in|on|see|lines?|here|under|via)|\bt?here,|\bof(?=\s+[`*]*\Z)"
    r"|(?<!same )(?<!such )\bas(?=\s+[`*]*\Z)"
    r"|同一?文件|该文件|[Ss]ame file[,:]?|见|在|位于|于|处|源码|出处|来源|第|从|自|对应|参考|分别"
    r"|对照|参照|\bcompare)"
    r"[\s`*“\"'(（\[{\\]*(?:\\?\w+\{)?(?::\w+:)?[`*]*\Z"
)
"""What introduces a place at the end of the text before it."""
_BELOW = re.compile(
    r"(?:\b(?:where|whereas|compared?|next to)\s+|[与和同跟比]\s?)[`*\[]*\Z", re.IGNORECASE
)
"""What a citation is held against stands behind these."""
_LINKS = re.compile(
    r"\b(?:what|that|because|since|so|feeds?|needs?|needed|uses?|while|whose|when|if|cf|see)\b"
    r"|见[下上]|参见|需要|依赖|使得|供|交给|[由被把给再]",
    re.IGNORECASE,
)
"""What makes code behind a citation a part of what is said of its lines."""
_COMMA = re.compile(r"[`*)）\]]*行?[,，]\s?(?:the\s)?[`*]*")
_BULLET = re.compile(r"[ \t>]*(?:[-*+•]|\d+[.)、])\s+(?:[Ll]ines?\s|L|第\s?)?[`*:：]*")
_COMMA_LED = re.compile(r"[,，]\s*(?:[由被经让给供把])?[\s`*\\{]*(?:\\\w+\{)?(?::\w+:)?[`*]*\Z")
_ENDS = re.compile(r"[`*]*\s?(?:\Z|[。，；,.;\n（(|)）])")
_BRACKET = re.compile(r"[\s`*]*[(（][\s`*]*")
_ALONE = re.compile(r"[(（][\s`*]*(?:[a-z]+\s)?\Z")
_CLOSED = re.compile(r"[\s`*]*([)）])[,，]")
"""What brackets hold alone is another name for what stands before them."""
_NONE = re.compile(
    r"(?:\b(?:without|unlike|no|not|never)\s+(?:(?:the|an?|its|this|any)\s+)?"
    r"|(?:非|non-?|除了|没有|并非|不是|无需|不需要|不用|而非|不像|未|不)\s?)[`*]*\Z",
    re.IGNORECASE,
)
"""In brackets right behind something named stands its place, unless it is not there at all."""
_OBJECT = re.compile(
    r"(?:\b(?:(?:multiplied|divided|scaled|rescaled) (?:with|by)|times|minus|plus|subtracts?)\s+"
    r"(?:(?:the|an?|its|this|that|old|new)\s+){0,2}|(?:乘以|除以|减去|加上|乘上|减掉)\s?)[`*]*\Z"
)
"""What stands behind these is what something else is computed with."""
_ORDERED = re.compile(r"\w[ \t]+(?:right\s|just\s)?(?:before|until)\s+(?:the\s|an?\s)?[`*]*\Z")
"""What is done before something that brackets follow is there as well as that."""
_LATER = re.compile(r"\b(?:comes|follows|later|elsewhere|needs?|waits?|already)\b|之后|再|等|已经")
"""What is said of something that is not where the citation is."""
_PIECE = re.compile(r"[,，;；。、|]|\.(?:\s|\Z)|\n\s*\n")

Placed = Literal["beside", "apart", ""]


def is_away(gap: str) -> bool:
    """Whether words between a label and its citation part the two."""
    return bool(AWAY_BEFORE.search(gap[-28:]) or _BELOW.search(gap) or _DENIED.search(gap))


class Placing:
    """Looks at the words between what is named and a citation."""

    def __init__(self, spots: Spots) -> None:
        self._spots, self._text = spots, spots.text

    def before(self, first: int, last: int, at: int, end: int) -> Placed:
        """Say how a citation at `at` gives the place of what stands before it."""
        head = self._text[max(first - 28, 0) : first]
        gap = self._text[last:at]
        if _ALONE.search(head) and _CLOSED.match(gap):
            gap = gap[gap.find(_CLOSED.match(gap)[1]) + 1 :]  # type: ignore[index]
        if _OBJECT.search(head):
            return ""
        if _BRACKET.fullmatch(gap) and not _NONE.search(head):
            return "" if _ORDERED.search(head) else "beside"
        if AWAY_BEFORE.search(head) or AWAY_AFTER.match(self._text, last):
            return ""
        if len(gap) <= 60 and GLUE.fullmatch(gap):
            return "" if _COMMA_LED.search(gap) and self.goes_on(end) else "beside"
        if len(gap) > 240 or _DENIED.search(gap) or _APART.search(gap):
            return ""
        framed = FRAME_BEFORE.search(head) or FRAME_AFTER.match(self._text, last)
        earlier = self._spots.edge_before(at)
        if 0 < earlier <= first and self.behind(first, last, earlier):
            return ""
        return "apart" if not framed and _LOCATOR.search(gap) else ""

    def behind(self, first: int, last: int, end: int) -> bool:
        """Say whether what stands behind a citation is said to be there."""
        gap = self._text[end:first]
        away = AWAY_AFTER.match(self._text, last)
        if gap.rstrip(" `*").endswith("为") and not _ENDS.match(self._text, last):
            return False
        later = _PIECE.split(self._text[last : last + 40])[0]
        if away or _DENIED.search(later) or _LATER.search(later):
            return False
        if len(gap) <= 40 and SAYS.fullmatch(gap) is not None:
            return True
        return _COMMA.fullmatch(gap) is not None and self._is_item(last, end)

    def _is_item(self, last: int, end: int) -> bool:
        """Say whether a list item is nothing but a citation, a comma and what it is called."""
        first, stop = self._spots.line_of(end)
        index = bisect_left(self._spots.starts, end) - 1
        at = self._spots.places[index][0] if index >= 0 else first
        bare = re.sub(r"[\s`*.;；。]", "", self._text[last:stop])
        return not bare and first <= at and _BULLET.fullmatch(self._text, first, at) is not None

    def gives(self, first: int, last: int, cited: tuple[int, int]) -> bool:
        """Say whether a citation gives the place of what stands before it, or behind."""
        if last <= cited[0]:
            return self.before(first, last, *cited) != ""
        gap = self._text[cited[1] : first]
        if self.is_other(cited, gap) or _LINKS.search(gap):
            return False
        shown = BEHIND.match(gap) or gap.rstrip(" \n`*").endswith((":", "："))
        return bool(shown) and len(gap) < 120 and not _DENIED.search(gap)

    def is_other(self, cited: tuple[int, int], gap: str) -> bool:
        """Say whether code behind a citation, over a gap, is said to be other code than its."""
        head = self._text[max(cited[0] - 28, 0) : cited[0]]
        away = AWAY_BEFORE.search(head) or _BELOW.search(head)
        return away is not None or OTHER.search(gap) is not None

    def goes_on(self, end: int) -> bool:
        """Whether the clause goes on behind a citation: it is what the clause speaks of."""
        rest = self._text[end : min(self._spots.edge_after(end), end + 80)]
        piece = _PIECE.search(rest)
        return speaks(rest[: piece.start() if piece else None])
