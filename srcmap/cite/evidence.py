"""What a document says about a place that it cites: quoted code and prose, names, concepts.

A citation is judged by what stands near it: the code before or after it, the sentence that it
closes, the comment's own line. Nearer is surer, so evidence comes in that order.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.compare import norm, without_comment
from srcmap.cite.concepts import CJK, Concepts
from srcmap.cite.page import Region
from srcmap.cite.words import (
    HAS_CJK,
    NAME,
    PROSE_NAME,
    is_code,
    is_path,
    names_of,
    shown_lines,
    telling,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.cite.nouns import Citation
    from srcmap.cite.page import Block, Page

_SHORTENED = "".join(
    rf"(?<!\b{word})" for word in ("[Ii]bid", "e\\.g", "i\\.e", "[Cc]f", "vs", "[Ff]ig", "[Ss]ec")
)
_END = re.compile(
    rf"[。！？](?![」』”])|(?:[!?]|{_SHORTENED}\.)(?=\s|\Z)"
    r"|[:：][ \t*`]*\r?\n|\n[ \t]*\r?\n|；\s*\n"
)
_CLOSED = re.compile(r"[`*)）\]」。.]+\s*\n")
"""A reference at the end of its line: what follows is about something else."""
_GROUP = re.compile(r"[`*]{0,2}\s?(?:行\s?)?[(（][^()（）\n]{1,60}[)）]")
"""Brackets right behind a reference say what is there."""
_IN_LINK = re.compile(r"[`*\s]*(?:\]\(\s*<?|\s<|\}\s*\{(?:\\\w+\s*\{)*)\Z")
_WORD = re.compile(
    rf"(?<![A-Za-z0-9_./-])[A-Za-z_][A-Za-z0-9_]{{2,}}(?![A-Za-z0-9_/-])(?=\s?[（{CJK}])"
)
"""A word in Chinese text: more often a name than a word in English text is."""
_PATH = re.compile(r"\S+/\S+\.\w{1,5}(?:[:#]\S*)?")
_LATIN_RUN = re.compile(rf"[^{CJK}\n|]+(?:\n[^{CJK}\n|]+)*")
_QUOTED = re.compile(r"“([^”]{6,400})”|「([^」]{4,400})」|\"([^\"\n]{12,400})\"|『([^』]{4,400})』")


_EDGES = re.compile(
    r"(?P<first>\b(?:starts?|begins?|opens?|opened|defined|declared)\b|开始于|始于|起于|从|起点|入口|定义在)"
    r"|(?P<last>\b(?:ends?|closes?)\b|结束于|止于|终点)"
)


class Quote(NamedTuple):
    """Text that the document shows as the place's own."""

    lines: tuple[str, ...]
    near: bool
    """Belongs to this citation and to no other."""
    prose: bool = False
    own: bool = False
    """The line of code that the citation is a comment of."""


class Evidence:
    """All that can be compared. What is dear to collect is collected when it is asked for."""

    def __init__(self, reading: Reading, citation: Citation) -> None:
        self._reading, self._citation = reading, citation
        self._spot = reading.spot(citation)
        self.concepts, self.distant = reading.concepts(self._spot)
        """The concepts that are named, the nearest first; whether they are named above the code
        that the citation closes, not in its own sentence."""

    @cached_property
    def quotes(self) -> tuple[Quote, ...]:
        """Quoted text, surest first."""
        return tuple(self._reading.quotes(self._citation, self._spot))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the sentence, the nearest first."""
        return self._reading.names(self._spot)

    @cached_property
    def sentence_names(self) -> tuple[str, ...]:
        """Names anywhere in the sentence: they may belong to another citation of it."""
        return self._reading.all_names(self._spot.sentence)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Words between Chinese text, the nearest first: enough to agree, and not to disagree."""
        return self._reading.words(self._spot)

    @cached_property
    def clause(self) -> str:
        """The text of its clause."""
        return self._reading.clause(self._spot)

    @cached_property
    def edge(self) -> str:
        """Whether its clause says that something begins ("first") or ends ("last") there."""
        return self._reading.edge(self._spot)

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """Concepts that a common word may mean: enough to agree, and not to disagree."""
        return self._reading.hints(self._spot)

    @cached_property
    def marked(self) -> tuple[str, ...]:
        """Names that are set as code: a file that lacks one is worth a warning."""
        return tuple(dict.fromkeys(self._reading.marked(*self._spot.sentence)))

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Table rows beside it, as cells."""
        return self._reading.rows(self._citation)

    @cached_property
    def around(self) -> str:
        """The text about it, for guessing where the right place may be."""
        return self._reading.around(self._citation, self._spot)


class Spot(NamedTuple):
    """Where to look for evidence about one citation: runs of characters, half open."""

    sentence: tuple[int, int]
    before: tuple[int, int]
    """Its clause, up to the citation."""
    after: tuple[int, int]
    lead: tuple[int, int] | None
    """The text above, for a citation that begins its line."""
    begins: bool


class Reading:
    """Takes the evidence for the citations of one page."""

    def __init__(self, page: Page, citations: Sequence[Citation], concepts: Concepts) -> None:
        self._page, self._text, self._concepts = page, page.text, concepts
        self._places = sorted(c.at for c in citations)
        self._beginning: dict[tuple[int, int], bool] = {}
        self._starts = [start for start, _ in self._places]
        self._ends = sorted(end for _, end in self._places)
        self._labels = self._labelled()
        self._lined = sorted(c.at for c in citations if c.target.lines or c.target.section)

    def evidence(self, citation: Citation) -> Evidence:
        """Give what the document says about one citation."""
        return Evidence(self, citation)

    def spot(self, citation: Citation) -> Spot:
        """Find the sentence, the clause and the lead of a citation."""
        first, last = self._sentence(*citation.at)
        label = self._labels.get(citation.at, citation.at)
        start = self._edge_before(label[0])
        group = _GROUP.match(self._text, start, label[0])
        before = (min(max(first, group.end() if group and start else start), label[0]), label[0])
        after = self._after(citation, before, last)
        if citation.same and telling(self._text[slice(*after)]) and self._opens(citation):
            before = (citation.at[0], citation.at[0])
        if self._in_comment(citation) or citation.rule == "comment":
            line = self._line_of(citation.at[0])
            return Spot(line, line, (citation.at[1], citation.at[1]), None, False)
        begins = self._begins(citation) and bool(self._above(citation))
        return Spot((first, last), before, after, self._lead(citation) if begins else None, begins)

    def _after(self, citation: Citation, before: tuple[int, int], last: int) -> tuple[int, int]:
        """Give the rest of the sentence, where nothing before the citation says what is there."""
        at = citation.at[1]
        edge = self._edge_after(at)
        group = _GROUP.match(self._text, at, edge)
        if group:
            return (at, group.end())
        shared = edge < last and telling(self._text[slice(*before)])
        if not citation.same and (shared or _CLOSED.match(self._text, at)):
            return (at, at)
        return (at, max(at, min(last, edge)))

    def _opens(self, citation: Citation) -> bool:
        """Whether it is the first thing in brackets."""
        head = self._text[max(citation.at[0] - 16, 0) : citation.at[0]]
        return re.search(r"[(（]\s*(?:同一?文件|[Ss]ame file)\s*\Z", head) is not None

    def concepts(self, spot: Spot) -> tuple[tuple[str, ...], bool]:
        """List the concepts that are named about a citation."""
        distant = spot.begins and spot.lead is not None
        near = spot.lead if spot.begins and spot.lead else spot.before
        found = self._named(*near)[::-1]
        return (tuple(found or self._named(*spot.after)), distant and bool(found))

    def quotes(self, citation: Citation, spot: Spot) -> Iterator[Quote]:
        """Yield quoted code, then what the sentence quotes, then prose."""
        yield from self._code_quotes(citation)
        yield from self._inline(spot.before[0], citation.at[0], near=True)
        near = not telling(self._text[slice(*spot.before)])
        yield from self._inline(*spot.after, near=near)
        yield from self._prose(citation)

    def names(self, spot: Spot) -> tuple[str, ...]:
        """List the names about a citation, its clause first."""
        lead = [spot.lead] if spot.lead else []
        return self._names([spot.before, spot.after, *lead])

    def all_names(self, span: tuple[int, int]) -> tuple[str, ...]:
        """List the names between two offsets."""
        return self._names([span])

    def clause(self, spot: Spot) -> str:
        """Give the text of a clause, without the citation."""
        return f"{self._text[slice(*spot.before)]} {self._text[slice(*spot.after)]}"

    def words(self, spot: Spot) -> tuple[str, ...]:
        """List the words that Chinese text follows in a clause, the last first."""
        found = [match[0] for match in _WORD.finditer(self._text, *spot.before)]
        return tuple(dict.fromkeys(found[::-1]))

    def hints(self, spot: Spot) -> tuple[str, ...]:
        """List the concepts that common words of the clause may mean."""
        end = max(spot.after[0], min(spot.sentence[1], self._edge_after(spot.after[0])))
        behind = self._named(spot.after[0], end)
        text = self._text[slice(*spot.before)] + " " + self._text[spot.after[0] : end]
        return (*behind, *self._concepts.hinted(text))

    def edge(self, spot: Spot) -> str:
        """Tell whether a clause speaks of where something begins, or ends."""
        said = [(m.start(), m.lastgroup or "") for m in _EDGES.finditer(self._text, *spot.before)]
        return said[-1][1] if said else ""

    def around(self, citation: Citation, spot: Spot) -> str:
        """Give the lead, the sentence and what follows."""
        lead = self._text[slice(*spot.lead)] if spot.lead else ""
        end = min(citation.at[1] + 160, self._edge_after(citation.at[1]))
        whole = self._without_places(*spot.sentence)
        return " ".join((lead, whole, self._text[citation.at[1] : end]))

    def _labelled(self) -> dict[tuple[int, int], tuple[int, int]]:
        """For the target of a link, the reference that is its label, and the other way round."""
        return {
            other: one
            for one, other in pairwise(self._places)
            if other[0] - one[1] < 24 and _IN_LINK.match(self._text[one[1] : other[0]])
        }

    # -- the text about a citation -------------------------------------------------------

    def _sentence(self, first: int, last: int) -> tuple[int, int]:
        block = self._page.blocks[self._page.block_at(first)] if self._page.blocks else None
        low, high = (block.first, max(block.last, last)) if block else (0, len(self._text))
        low = max(min(low, first), first - 700)
        start = low
        for match in _END.finditer(self._text, low, first):
            start = match.end()
        end = _END.search(self._text, last, min(high, last + 700))
        return (start, end.start() if end else min(high, last + 700))

    def _edge_before(self, at: int) -> int:
        index = bisect_right(self._ends, at)
        return self._ends[index - 1] if index else 0

    def _edge_after(self, at: int) -> int:
        index = bisect_left(self._starts, at)
        return self._starts[index] if index < len(self._starts) else len(self._text)

    def _without_places(self, first: int, last: int) -> str:
        parts, at = [], first
        for index in range(bisect_left(self._starts, first), bisect_left(self._starts, last)):
            start, end = self._places[index]
            parts.append(self._text[at:start])
            at = max(end, at)
        return " ".join([*parts, self._text[at:last]])

    def _lead(self, citation: Citation) -> tuple[int, int]:
        """The text above a citation that begins its line, down from the one before it."""
        low = max(self._lined_before(citation.at[0]), citation.at[0] - 900)
        index = self._page.block_at(citation.at[0])
        for block in reversed(self._page.blocks[max(index - 12, 0) : index]):
            if block.last < low:
                break
            following = self._text[slice(*self._line_of(block.last + 1))]
            if block.kind == "heading" and not is_code(following):
                low = block.last
                break
        return (low, citation.at[0])

    def _lined_before(self, at: int) -> int:
        return max((e for _, e in self._lined if e <= at), default=0)

    # -- quoted code ---------------------------------------------------------------------

    def _code_quotes(self, citation: Citation) -> list[Quote]:
        if citation.rule == "comment" or self._in_comment(citation):
            return self._own_line(citation)
        quotes = []
        if self._begins(citation):
            above = self._above(citation)
            if above:
                quotes.append(Quote(tuple(above), near=True))
        below, announced = self._below(citation)
        if below:
            quotes.append(Quote(tuple(below), near=announced and not quotes))
        return quotes

    def _line_of(self, at: int) -> tuple[int, int]:
        first = self._text.rfind("\n", 0, at) + 1
        last = self._text.find("\n", at)
        return first, len(self._text) if last < 0 else last

    def _in_comment(self, citation: Citation) -> bool:
        """Whether it is the comment of a line of code, in text that has lost its fences."""
        if citation.written or citation.rule not in ("continuation", "comment"):
            return False
        first, _ = self._line_of(citation.at[0])
        head = self._text[first : citation.at[0]]
        mark = re.search(r"(?:#|//|←)[^#]*\Z", head)
        return mark is not None and bool(head[: mark.start()].strip()) and is_code(head)

    def _own_line(self, citation: Citation) -> list[Quote]:
        first, last = self._line_of(citation.at[0])
        code = without_comment(" " + self._text[first:last]).strip()
        lines = citation.target.lines
        count = lines.last - lines.first if lines and lines.last >= lines.first else 0
        above: list[str] = []
        at = first - 1
        while at > 0 and len(above) < min(count, 40):
            begin = self._text.rfind("\n", 0, at) + 1
            line = self._text[begin:at]
            if not is_code(line) or re.search(r"(?:line|第)\s?\d+", line):
                break
            above.insert(0, without_comment(line))
            at = begin - 1
        whole = [*above, code]
        shown = tuple(line for line in whole if line.strip())
        return [Quote(shown, near=True, own=True)] if code else []

    def _begins(self, citation: Citation) -> bool:
        """Whether nothing but brackets stands before it in its line."""
        known = self._beginning.get(citation.at)
        if known is None:
            known = self._beginning[citation.at] = self._begins_line(citation)
        return known

    def _begins_line(self, citation: Citation) -> bool:
        first, _ = self._line_of(citation.at[0])
        head = re.sub(r"(?:同一?文件|见|源码|来源|出处|[Ss]ource|[Ff]rom|[Ss]ee|[Ss]ame file)", "",
                      self._text[first : citation.at[0]])  # fmt: skip
        return not re.search(r"\w", head)

    def _above(self, citation: Citation) -> list[str]:
        """The code block or the lines of code that end above a citation's line."""
        first, _ = self._line_of(citation.at[0])
        index = self._page.block_at(max(first - 1, 0))
        for back in range(index, max(index - 2, -1), -1):
            block = self._page.blocks[back] if self._page.blocks else None
            if block and block.last <= citation.at[0]:
                if block.kind == "fence" and not self._text[block.last : first].strip("`~ \r\n\t>"):
                    return shown_lines(self._text[block.first : block.last])
                if block.kind == "fence":
                    break
        found: list[str] = []
        at = first - 1
        while at > 0 and len(found) < 60:
            begin = self._text.rfind("\n", 0, at) + 1
            line = self._text[begin:at].rstrip("\r")
            if not line.strip() and found:
                break
            if line.strip() and not is_code(line):
                break
            if line.strip():
                found.insert(0, line)
            at = begin - 1
        return found

    def _below(self, citation: Citation) -> tuple[list[str], bool]:
        """The code below a citation, and whether a colon announces it."""
        _, end = self._line_of(citation.at[1])
        index = self._page.block_at(citation.at[0])
        blocks = self._page.blocks[index : index + 2]
        if len(blocks) == 2 and blocks[1].kind == "fence":
            return self._fence_below(citation, *blocks)
        if not self._text[citation.at[1] : end].rstrip().endswith((":", "：")):
            return [], False
        found: list[str] = []
        at = end + 1
        while at < len(self._text) and len(found) < 60:
            _, stop = self._line_of(at)
            line = self._text[at:stop].rstrip("\r")
            if not line.strip() or not is_code(line):
                break
            found.append(line)
            at = stop + 1
        return ([], False) if self._claimed(at) else (found, True)

    def _fence_below(
        self, citation: Citation, block: Block, fence: Block
    ) -> tuple[list[str], bool]:
        if self._edge_after(citation.at[1]) < fence.first:
            return [], False
        closing = self._text.find("\n", fence.last)
        behind = re.compile(r"[`~ \t\r]*\n\s*").match(self._text, fence.last)
        if self._claimed(behind.end() if behind else closing + 1):
            return [], False
        closes = self._text[citation.at[1] : block.last].rstrip()
        return shown_lines(self._text[fence.first : fence.last]), closes.endswith((":", "："))

    def _claimed(self, at: int) -> bool:
        """Whether a reference that begins the next line is the one that code above belongs to."""
        _, stop = self._line_of(at)
        index = bisect_left(self._places, (at, 0))
        if index == len(self._places) or self._places[index][0] >= stop:
            return False
        head = self._text[at : self._places[index][0]]
        return not re.search(r"\w", re.sub(r"同一?文件|见|[Ss]ame file|[Ss]ee", "", head))

    # -- quoted in the sentence ----------------------------------------------------------

    def _inline(self, first: int, last: int, *, near: bool) -> Iterator[Quote]:
        """Code spans that are more than a name, quotations, and runs of code between Chinese."""
        text = self._text[first:last]
        spans = self._codes(first, last)
        for *_, body in reversed(spans):
            if len(norm(body)) >= 8 and re.search(r"[=(\[+*/<>-]|\s", body) and not is_path(body):
                yield Quote((body,), near)
        for match in _QUOTED.finditer(text):
            body = next(group for group in match.groups() if group)
            yield Quote((body,), near, prose=True)
        if not spans and HAS_CJK.search(text):
            for match in _LATIN_RUN.finditer(text):
                body = match[0].strip(" ()[]:;,.")
                if len(norm(body)) >= 9 and re.search(r"[=(\[<>]", body):
                    yield Quote((body,), near)

    def _prose(self, citation: Citation) -> Iterator[Quote]:
        """Quoted prose: a block quote beside the citation, or foreign sentences before it."""
        index = self._page.block_at(citation.at[0])
        for near in (index, index - 1, index + 1):
            if 0 <= near < len(self._page.blocks) and self._page.blocks[near].kind == "quote":
                block = self._page.blocks[near]
                body = re.sub(
                    r"^[ \t]*>[ \t]?", "", self._text[block.first : block.last], flags=re.MULTILINE
                )
                yield Quote((self._cut_places(body, block.first),), near == index, prose=True)
        yield from self._line_above(citation)
        low = self._code_before(citation.at[0], self._edge_before(citation.at[0]))
        for match in _LATIN_RUN.finditer(self._text, low, citation.at[0]):
            for part in re.split(r"(?<=[.!?])\s+", match[0]):
                for text in dict.fromkeys((part, *part.split("\n"))):
                    if len(norm(text)) >= 30:
                        yield Quote((text,), near=False, prose=True)

    def _code_before(self, at: int, low: int) -> int:
        """Give where prose begins again above an offset: behind code, and not far."""
        low = max(low, at - 700)
        kinds = ("skip", "fence")
        behind = (r.last for r in self._page.regions_in(low, at) if r.kind in kinds)
        return max((last for last in behind if last <= at), default=low)

    def _line_above(self, citation: Citation) -> Iterator[Quote]:
        """The line above one that a citation begins: quoted prose stands there, in any script."""
        first, _ = self._line_of(citation.at[0])
        if first > 1 and self._begins(citation):
            above, stop = self._line_of(first - 2)
            line = self._text[above:stop].lstrip(" \t>-*").rstrip()
            if HAS_CJK.search(line) and len(norm(line)) >= 8:
                yield Quote((line,), near=False, prose=True)

    def _cut_places(self, body: str, base: int) -> str:
        for start, end in self._places:
            shown = self._text[start:end]
            if start >= base and shown in body:
                body = body.replace(shown, "...")
        return re.sub(r"(?:——|--|—)\s*\.\.\.", "", body).strip(" \n`.()（）—-")

    def _codes(self, first: int, last: int) -> list[tuple[int, int, str]]:
        """List the code spans that begin between two offsets, without their marks."""
        found = []
        for region in self._page.regions_in(first, last):
            if region.kind == "code":
                body = self._text[region.first : region.last]
                body = re.sub(r"\A\\\w+\*?[{|!+]|[}|!+]\Z", "", body).strip("` \n")
                found.append((region.first, region.last, body))
        return found

    # -- names ---------------------------------------------------------------------------

    def marked(self, first: int, last: int) -> Iterator[str]:
        """Yield the names that are set as code between two offsets."""
        for *_, body in self._codes(first, last):
            if re.fullmatch(r"(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_]\w*(?:\(\))?", body):
                yield body.removesuffix("()")

    def _names(self, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
        """Names that may stand on the cited lines, the nearest first."""
        found: dict[str, None] = {}
        for first, last in spans:
            low, high = bisect_left(self._name_places, first), bisect_left(self._name_places, last)
            found.update(dict.fromkeys(self._all_names[1][low:high]))
        return tuple(found)

    @cached_property
    def _all_names(self) -> tuple[list[int], list[str]]:
        """Find every name of the page once: where it stands, and the name."""
        found: dict[int, str] = {}
        at = 0
        for region in [*self._page.regions, Region(len(self._text), len(self._text), "skip")]:
            if region.kind in ("fence", "skip") and region.first >= at:
                found.update(names_of(PROSE_NAME, self._text, at, region.first))
                at = region.last
        for first, last, body in self._codes(0, len(self._text)):
            if _PATH.fullmatch(body):  # the parts of a path are no names
                continue
            found.update(names_of(NAME, self._text, first, last))
        places = [at for at in sorted(found) if not self._is_cited(at)]
        return (places, [found[place] for place in places])

    def _is_cited(self, at: int) -> bool:
        index = bisect_right(self._starts, at) - 1
        return index >= 0 and at < self._places[index][1]

    @property
    def _name_places(self) -> list[int]:
        return self._all_names[0]

    @cached_property
    def _mentions(self) -> tuple[list[int], list[str]]:
        found: list[tuple[int, str]] = []
        for first, last in self._prose_runs():
            found += [(at + first, c) for at, c in self._concepts.mentions(self._text[first:last])]
        return ([at for at, _ in found], [concept for _, concept in found])

    def _prose_runs(self) -> Iterator[tuple[int, int]]:
        """Yield the text between code blocks, in pieces that are not too small."""
        start = 0
        for region in self._page.regions:
            if region.kind in ("fence", "skip") and region.first > start + 3:
                yield start, region.first
            if region.kind in ("fence", "skip"):
                start = max(start, region.last)
        if start < len(self._text):
            yield start, len(self._text)

    def _named(self, first: int, last: int) -> list[str]:
        """List the concepts that are named between two offsets, in order."""
        places, concepts = self._mentions
        part = concepts[bisect_left(places, first) : bisect_left(places, last)]
        return list(dict.fromkeys(part))

    def rows(self, citation: Citation) -> tuple[tuple[str, ...], ...]:
        """Rows of a table beside the citation."""
        index = self._page.block_at(citation.at[0])
        found = []
        for number in range(index + 1, min(index + 16, len(self._page.blocks))):
            block = self._page.blocks[number]
            if block.kind != "row":
                break
            cells = [
                norm(c) for c in self._text[block.first : block.last].strip().strip("|").split("|")
            ]
            if not all(re.fullmatch(r":?-*:?", cell) for cell in cells):
                found.append(tuple(cell for cell in cells if cell))
        return tuple(found[:12])
