"""What stands right beside a citation: nothing but brackets and words of place are between.

"`kv_start` (a.py:72)", "归一化见 a.py:97-98", "`head_kv` 与 `kv_head_idx`：a.py:19,52": what is
named there is the citation's own, and it is looked for on those lines and on no others.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.ahead import Ahead
from srcmap.cite.compare import norm
from srcmap.cite.glue import BEHIND, GLUE, JOIN, NOT
from srcmap.cite.labels import item_label
from srcmap.cite.placing import Placing
from srcmap.cite.referring import referent
from srcmap.cite.words import is_path, telling
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.cite.nouns import Citation, Span
    from srcmap.cite.spots import Spot, Spots

_QUOTED = re.compile(
    r"(?:“([^”]{4,400})”|「([^」]{3,400})」|『([^』]{3,400})』"
    r"|(?<![\w\"])\"([^\"]{6,400})\"|(?<!`)``([^`]{6,400}?)'')[.,。，]?\Z"
)
_QUOTED_AHEAD = re.compile(
    r"\s?(?:“([^”]{4,400})”|「([^」]{3,400})」|『([^』]{3,400})』|\"([^\"]{6,400})\"|``([^`]{6,400}?)'')"
)
_IN_BRACKETS = re.compile(rf"[`*)\s\]}}]*[节章]?\s?[(（]{_QUOTED_AHEAD.pattern}[.。]?[)）]")
_AT_WORDS = re.compile(
    r"[`*)\s\]}]*(?:行)?(?:\s?(?:now|today|currently|these days|现在|如今))?[,，]?\s?"
    r"(?:(?:at|with|under|by)\sthe\s(?:words?|text|line|comment|sentence|string)|(?:就在|写着|写的是))"
    rf"\s?[:：,，]?\s?{_QUOTED_AHEAD.pattern}"
)
"""Behind a citation: at the words that are quoted."""
_NAME = r"(?<![A-Za-z0-9_./-])([A-Za-z_][A-Za-z0-9_.]*[A-Za-z0-9_](?:\(\))?)"
_PLAIN = re.compile(rf"{_NAME}\Z")
_PLAIN_LIST = re.compile(rf"{_NAME}\s?(?:与|和|及|、|and)\s?\Z")
_COMPARE = re.compile(
    r"[,，;；.。]\s*(?:(?:please|so)\s)?(?:compare|check|对照|对比|比较|请对照|请对比)(?:一下)?[\s`*(（\[]*\Z",
    re.IGNORECASE,
)
_YOURS = re.compile(r"[`*)）\]]*\s?(?:with|to|against|和|与|跟)\s?(?:your|our|my|你|您|我们|自己)")
_CLAUSES = re.compile(r"[;；,，。]")
_STOPS = ("。", "；", ";", "！", "？", "!", "?", ". ")
_EDGE = re.compile(r"\Z|[\s(（:：,，]|[\u4e00-\u9fff]")
_WIDE = r"\u4e00-\u9fff"
_CODE_TAIL = re.compile(
    rf"(?:\A|(?<=[\s(（;；:：,，。{_WIDE}]))("
    r"[A-Za-z_][A-Za-z0-9_.]*(?:\[[^\]\n]*\])?\s*(?:[-+*/|&@]|//)?=(?!=)"
    rf"\s*[^;；。`=\n{_WIDE}]{{1,160}}?"
    rf"|[A-Za-z_][A-Za-z0-9_.]*\([^()\n{_WIDE}]*(?:\([^()\n]*\)[^()\n{_WIDE}]*)*\)"
    rf"|(?:elif|if|while|assert|return)\s[^;；。`\n{_WIDE}]{{1,80}}?(?:==|!=|<=|>=|\s[<>]\s)"
    rf"[^;；。`=\n{_WIDE}]{{1,80}}?)\Z"
)
"""A statement or a call at the end of text that has lost its marks."""
_CODE_AHEAD = re.compile(
    r"\s?([A-Za-z_][A-Za-z0-9_.]*(?:\[[^\]\n]*\])?\s*(?:[-+*/|&@]|//)?=(?!=)"
    rf"\s*[^;；。`=\n{_WIDE}]{{1,160}}|[A-Za-z_][A-Za-z0-9_.]*\([^\n{_WIDE}]*\))"
    r"[ \t]*(?=\n|\Z|[.。;；，])"
)


class Beside(NamedTuple):
    """What is named right beside a citation."""

    items: tuple[str, ...]
    """Code as it is written; several when they share the place."""
    prose: bool = False
    """Quoted text, and no code."""
    sure: bool = True
    """Which of the items belongs to this citation is known."""
    at: Span = (0, 0)
    among: Lines | None = None
    """The lines of this citation and of those next to it that share the item."""
    verbatim: bool = False
    """Said to stand on the line itself: to be inside of what a name defines is not enough."""


class Besides:
    """Finds what stands beside the citations of one page."""

    def __init__(self, spots: Spots) -> None:
        self._spots, self._text = spots, spots.text
        self._placing, self._ahead = Placing(spots), Ahead(spots)

    def of(self, citation: Citation, spot: Spot) -> Beside | None:
        """Give what is named right before a citation, else right behind it."""
        if citation.rule in ("comment", "include") or self._spots.in_comment(citation):
            return None
        if spot.before[0] == spot.before[1] == citation.at[0] and citation.same:
            return self._behind((citation.at,), 0)
        if citation.at in self._spots.cells:
            first, last = self._spots.cells[citation.at]
            body = self._text[first:last].strip("` |\t\r\n")
            return Beside((body,), at=(first, last), verbatim=True)
        group, index = spot.group, spot.nth
        low = max(self._spots.edge_before(group[0][0]), spot.sentence[0], group[0][0] - 500)
        low = max(low, self._ahead.owned(group[0][0]))
        found = self._code(low, group[0][0]) or self._bare(low, group[0][0], spot)
        if found and not self._spots.is_ahead(found.at[1], group[0][0], group[-1][1]):
            if not self._placing.before(*found.at, group[0][0], group[-1][1]):
                return found._replace(sure=False)
            return found if found.prose else self._shared(found, group, index)
        if not found and (named := self._labelled(spot) or self._referred(group[0][0])):
            return named
        if not found and (held := self._held_against(spot, group)):
            return held
        clause = _CLAUSES.split(self._text[low : group[0][0]])[-1]
        beside = None if not found and telling(clause) else self._behind(group, index)
        beside = beside or (None if found else self._bracketed(group))
        if beside is not None or found or len(group) > 1:
            return beside
        code = self._ahead.of(citation, group[-1][1])
        return Beside((code.body,), sure=code.sure, at=code.at) if code else None

    def _shared(self, found: Beside, group: Sequence[Span], index: int) -> Beside:
        """Give the part of one of several citations that stand together."""
        if len(found.items) == len(group):
            return found._replace(items=(found.items[index],))
        sure = len(group) == 1 or len(found.items) == 1
        return found._replace(sure=sure, among=self._joined(group, index))

    def _joined(self, group: Sequence[Span], index: int) -> Lines | None:
        """Join the lines of a citation with those that follow each other: `:74, 75`."""
        here = self._spots.lines_at.get(group[index])
        for place in group if here else ():
            other = self._spots.lines_at.get(place)
            if here and other and other.first - 1 <= here.last and here.first - 1 <= other.last:
                here = Lines(min(here.first, other.first), max(here.last, other.last))
        return here

    def _code(self, low: int, at: int) -> Beside | None:
        """Read the code spans that end before an offset, with those that are joined to them."""
        found: list[str] = []
        end, between, behind = at, GLUE, at
        spans = [c for c in self._spots.codes(low, at) if c[1] <= at and not self._cites(c)]
        while spans:
            start, last, body = spans.pop()
            if end - last > 60 or not between.fullmatch(self._text, last, end) or not body.strip():
                break
            negated = NOT.search(self._text, low, start)
            if negated:
                end = negated.start()
                continue
            behind = behind if found else last
            found.insert(0, body)
            end, between = start, JOIN
        return Beside(tuple(found), at=(end, behind)) if found else None

    def _bare(self, low: int, at: int, spot: Spot) -> Beside | None:
        """Read quoted prose, or names that are not set as code."""
        head = self._text[low:at]
        plain = self._is_plain(low, at, spot)
        bare: Beside | None = None
        for cut in range(len(head), max(len(head) - 60, 0), -1):
            if head[cut:].startswith(_STOPS) or head[cut - 1 : cut + 1] == "\n\n":
                break
            if not GLUE.fullmatch(head, cut):
                continue
            quoted = _QUOTED.search(head, 0, cut) if head[cut - 1] in "”」』\"'.,。，" else None
            if quoted:
                body = next(group for group in quoted.groups() if group)
                return Beside((body,), prose=True, at=(low + quoted.start(), low + cut))
            code = _CODE_TAIL.search(head, 0, cut) if plain and _EDGE.match(head, cut) else None
            if code and norm(code[1]):
                bare = Beside((code[1],), at=(low + code.start(1), low + cut))
            names = (
                None
                if bare or re.match(r"[A-Za-z0-9_.]", head[cut:])
                else _plain_names(head[:cut]) or _set_name(head, cut)
            )
            if names:
                return Beside(names, at=(low + head.rfind(names[0], 0, cut), low + cut))
        return bare

    def _is_plain(self, low: int, at: int, spot: Spot) -> bool:
        """Whether nothing is set as code here, so that code stands bare, and in no block."""
        return not spot.begins and not self._spots.codes(low, at)

    def _behind(self, group: Sequence[Span], index: int) -> Beside | None:
        """Read what is named right behind a citation, or behind several that stand together."""
        at = group[-1][1]
        edge = self._spots.edge_after(at)
        lead = BEHIND.match(self._text, at, edge)
        if lead is None or self._placing.is_other(group[0], lead[0]):
            return None
        items, last = self._code_ahead(lead.end(), at, edge)
        if items:
            return self._shared(Beside(items, at=(lead.end(), last)), group, index)
        if len(group) > 1:
            return None
        quoted = _QUOTED_AHEAD.match(self._text, lead.end(), edge)
        if quoted:
            body = next(group for group in quoted.groups() if group)
            return Beside((body,), prose=True, at=quoted.span())
        code = _CODE_AHEAD.match(self._text, lead.end(), edge)
        if code and not self._spots.codes(at, code.end()):
            return Beside((code[1],), at=code.span(1))
        return None

    def _labelled(self, spot: Spot) -> Beside | None:
        """Read the name that a line begins with, explains, and gives the place of at its end."""
        place = item_label(self._spots, spot)
        codes = self._spots.codes(*place) if place else []
        if place is None or len(codes) != 1 or re.search(r"\w", self._text[place[0] : codes[0][0]]):
            return None
        start, last, body = codes[0]
        named = re.fullmatch(r"[A-Za-z_]\w*(?:\(\))?", body) is not None
        apart = last < place[1] - 1 and re.search(r"\w", self._text[last : place[1]])
        return Beside((body,), at=(start, last)) if named and not apart else None

    def _referred(self, at: int) -> Beside | None:
        """Read the code or the name that the clause points back to."""
        place = referent(self._spots, at)
        body = self._text[slice(*place)] if place else ""
        body = next((c[2] for c in self._spots.codes(*place) if place), body) if place else body
        return Beside((body,), at=place) if place and re.match(r"[A-Za-z_-]", body) else None

    def _held_against(self, spot: Spot, group: Sequence[Span]) -> Beside | None:
        """Read what a sentence begins with and at its end compares: "`x` is not ..; compare C"."""
        first, at = spot.sentence[0], group[0][0]
        asks = _COMPARE.search(self._text, max(first, at - 24), at)
        if asks is None or len(group) > 1 or _YOURS.match(self._text, group[0][1]) is None:
            return None
        low = max(first, self._spots.edge_before(at))
        start, last, body = next(iter(self._spots.codes(low, asks.start())), (0, 0, ""))
        opens = low == first and not re.search(r"\w", self._text[low:start])
        named = re.fullmatch(r"[A-Za-z_]\w*", body) is not None
        return Beside((body,), at=(start, last)) if opens and named else None

    def _bracketed(self, group: Sequence[Span]) -> Beside | None:
        """Read a quotation that is all that brackets behind a citation hold."""
        at = group[-1][1]
        edge = self._spots.edge_after(at)
        match = _IN_BRACKETS.match(self._text, at, edge) or _AT_WORDS.match(self._text, at, edge)
        if match is None or len(group) > 1 or self._placing.is_other(group[0], ""):
            return None
        body = next(part for part in match.groups() if part)
        return Beside((body,), prose=True, at=match.span())

    def _code_ahead(self, begin: int, at: int, edge: int) -> tuple[tuple[str, ...], int]:
        """Read code spans that are joined to each other, from an offset on."""
        found: list[str] = []
        for start, last, body in self._spots.codes(at, edge):
            near = start - begin <= 2 if not found else JOIN.fullmatch(self._text, begin, start)
            if last > edge or not near or self._cites((start, last, body)):
                break
            found.append(body)
            begin = last
        return tuple(found), begin

    def _cites(self, code: tuple[int, int, str]) -> bool:
        """Whether a code span is a citation, or the text between two of them."""
        index = bisect_left(self._spots.places, (code[0], 0))
        inside = index < len(self._spots.places) and self._spots.places[index][0] < code[1]
        return inside or is_path(code[2])


def _plain_names(head: str) -> tuple[str, ...]:
    """Read the names at the end of text, joined by "and"."""
    names: list[str] = []
    match = _PLAIN.search(head)
    while match and _is_name(match[1]):
        names.insert(0, match[1].removesuffix("()"))
        head = head[: match.start()]
        match = _PLAIN_LIST.search(head)
    return tuple(names)


_SET = re.compile(
    r"\s(?:is|are|gets?|was)\s(?:\w+ly\s)?(?:set|defined|declared|assigned)\b|\s?(?:定义|声明|设)[在于]"
)
_LONE = re.compile(
    r"(?<![A-Za-z0-9_./-])(?<!\b[Tt]he\s)(?<!\b[Aa]\s)(?<!\b[Aa]n\s)([A-Za-z]\w{2,})\Z"
)
_CAPITALS = re.compile(r"(?<![A-Za-z0-9_./-])([A-Z][A-Z0-9]{2,})\Z")


def _set_name(head: str, cut: int) -> tuple[str, ...]:
    """Read a plain word that is said to be set or defined."""
    match = _LONE.search(head, 0, cut) if _SET.match(head, cut) else None
    if match is None and re.match(r"\s?在", head[cut:]):
        match = _CAPITALS.search(head, 0, cut)
    return (match[1],) if match else ()


def _is_name(word: str) -> bool:
    telling_name = re.search(r"_|[a-z][A-Z]|\w\.\w|[a-z]\d|\(\)", word)
    return telling_name is not None and not is_path(word)
