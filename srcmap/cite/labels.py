"""What names a citation from above or beside: a heading, the first cell of its row, a caption."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.glue import GLUE
from srcmap.cite.placing import is_away
from srcmap.cite.words import speaks

if TYPE_CHECKING:
    from srcmap.cite.nouns import Citation, Span
    from srcmap.cite.spots import Spot, Spots


_COLON = re.compile(r"(?<=[^\s`*])[`*]*(?:\s?(?:：|:(?=[\s`*]))|\s?(?:—+|–)|\s[-=＝]\s)")
_HEAD = re.compile(r"[ \t>]*(?:(?:[-*+•|]|\d+[.)、])\s+)?\**(?=[\w`])")
_END = re.compile(r"[`*)）\]]*[;；.。,，]?[ \t]*(?:\r?\n|\||\Z)")
_ELSE = re.compile(
    r"\b(?:initiali[sz]\w*|alloc\w*|buffers?|else|otherwise|offset|cleared|zeroed|declared)\b"
    r"|初始化|初值|清零|分配|缓冲|否则|偏移|声明",
    re.IGNORECASE,
)
"""What else may be said of something than what it does."""
_STOP = re.compile(r"[.。;；！？!?]\s|[。；]")


def item_label(spots: Spots, spot: Spot) -> tuple[int, int] | None:
    """Give what a line is called that explains it behind a colon and ends with its citation."""
    at = spot.head[1]
    if len(spot.group) > 1 or not _END.match(spots.text, spot.after[0]):
        return None
    start = spots.line_of(at)[0]
    head, colon = _HEAD.match(spots.text, start), _COLON.search(spots.text, start, at)
    if head is None or colon is None or spots.edge_before(at) > start:
        return None
    gap = spots.text[colon.end() : at]
    if not speaks(gap) or GLUE.fullmatch(gap) or spots.codes(colon.end(), at - 2):
        return None
    parted = _STOP.search(gap) or _ELSE.search(gap) or is_away(gap)
    return None if parted or head.end() >= colon.start() else (head.end(), colon.start())


def first_cell(spots: Spots, citation: Citation) -> tuple[int, int] | None:
    """Give the cell that a table row begins with, for the citations of its other columns."""
    block = spots.page.blocks[spots.page.block_at(citation.at[0])] if spots.page.blocks else None
    if block is None or block.kind != "row":
        return None
    match = re.compile(r"\s*\|?\s*([^|\n]+?)\s*\|").match(spots.text, block.first, citation.at[0])
    if match is None or spots.edge_before(match.end(1)) > block.first:
        return None
    return match.span(1)


def heading(spots: Spots, citation: Citation) -> tuple[int, int] | None:
    """Give the heading, or the label, above a paragraph that holds nothing but citations."""
    index = spots.page.block_at(citation.at[0])
    if index < 1:
        return None
    block, above = spots.page.blocks[index], spots.page.blocks[index - 1]
    rest = spots.without_places(block.first, citation.at[0])
    shown = spots.text[above.first : above.last].strip()
    if speaks(rest) or spots.edge_before(citation.at[0]) > above.first:
        return None
    label = len(shown) < 60 and (shown.endswith((":", "：")) or re.fullmatch(r"\*\*.+\*\*", shown))
    return above[:2] if above.kind == "heading" or label else None


_VARIANT = re.compile(
    r"[ \t>#]*(?:(?:[-*+•]|\d+[.)、])\s+)?(?:(?:the\s|in\s|在)?(?:upstream|ours|dense|varlen|paged"
    r"|sparse|block[- ]sparse|sink|forward|backward|decod\w+|GPU|NPU|NVIDIA|Ascend|NSA|GQA|MHA"
    r"|MLA|MQA|BHSD|BSHD|Triton|上游|主干|稠密|变长|分页|稀疏|块稀疏|前向|反向|解码|昇腾|固定形状)"
    r"(?:\s?(?:one|kernel|file|version|port|的|版|版本|内核|那份|那边|里|中))*)[\s`*:：—–()（）-]*"
    r"(?::\w+:`*)?",
    re.IGNORECASE,
)
"""Before a citation in its line: which of several variants it is of, and no more."""
_TITLE = re.compile(r"[ \t>#*\"'-]*([^,，:：\n]{2,40}?)\**(?:[,，][^:：\n]*)?[:：]\**[ \t]*\r?\Z")


def variants(spots: Spots, at: int) -> tuple[int, int] | None:
    """Give what a line names whose following lines give its place in several variants."""
    first, _ = spots.line_of(at)
    for _ in range(12):
        begin = spots.edge_after(first)
        blank = not spots.text[slice(*spots.line_of(first))].strip()
        if not blank and (begin > at or not _VARIANT.fullmatch(spots.text, first, begin)):
            return None
        first, stop = spots.line_of(max(first - 1, 0))
        if first < stop and spots.edge_after(first) > stop:
            title = _TITLE.match(spots.text, first, stop)
            return title.span(1) if title else None
    return None


_ANSWER = re.compile(
    r"[ \t>*_-]*(?:A|Answer|答|回答)?[*_]*\s?[:：.]?[*_\s]*(?:[Ss]ee|[Ii]n|[Aa]t|在|见)?[\s`*]*"
)
_ASKS = re.compile(r"[?？][*_`]*\s*\Z")


def question(spots: Spots, citation: Citation) -> tuple[int, int] | None:
    """Give the line above that asks what a citation answers."""
    first, _ = spots.line_of(citation.at[0])
    above, stop = spots.line_of(max(first - 1, 0))
    if first < 1 or not _ANSWER.fullmatch(spots.text, first, citation.at[0]):
        return None
    asks = _ASKS.search(spots.text, above, stop)
    return (above, asks.start()) if asks and spots.edge_before(first) <= above else None


def of_include(spots: Spots, citation: Citation) -> tuple[Span, Span, Span, None, bool]:
    """Read the caption of a directive, else the sentence that announces it."""
    first, last = citation.at
    region = spots.page.region_at(first)
    told = spots.page.caption(first)
    if told is None:
        at = region.first if region else first
        end = len(spots.text[:at].rstrip())
        announced = spots.text[:end].endswith((":", "：")) and at - end < 4
        low, _ = spots.sentence(end - 1, end - 1) if announced else (end, end)
        told = (max(low, spots.edge_before(end)), end)
    return told, told, (last, last), None, False
