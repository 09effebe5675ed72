"""What a document says about a place that it cites: quoted code and prose, names, concepts.

A citation is judged by what stands near it: the code before or after it, the sentence that it
closes, the comment's own line. Nearer is surer, so evidence comes in that order.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from srcmap.cite.compare import norm, without_comment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from srcmap.cite.nouns import Citation
    from srcmap.cite.page import Page

_END = re.compile(r"[。！？]|[.!?](?=\s|\Z)|[:：][ \t*`]*\r?\n|\n[ \t]*\r?\n|；\s*\n")
_CLOSED = re.compile(r"[`*)）\]」。.]+\s*\n")
"""A reference at the end of its line: what follows is about something else."""
_IN_LINK = re.compile(r"[`*\s]*(?:\]\(\s*<?|\s<|\}\s*\{(?:\\\w+\s*\{)*)\Z")
_CJK = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f"
_LATIN_RUN = re.compile(rf"[^{_CJK}\n|]+(?:\n[^{_CJK}\n|]+)*")
_HAS_CJK = re.compile(rf"[{_CJK}]")
_QUOTED = re.compile(r"“([^”]{6,400})”|「([^」]{4,400})」|\"([^\"\n]{12,400})\"|『([^』]{4,400})』")
_NAME = re.compile(
    r"(?<![A-Za-z0-9_])(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_][A-Za-z0-9_]*(?:\(\))?"
    r"|(?<![\w.])\d+e\d+|\d+\.\d{4,}"
)
_IN_PROSE = re.compile(
    r"_|[a-z][A-Z]|[A-Za-z]\.[A-Za-z]|::|\(\)|\d+e\d|\d\.\d{4}|^[A-Z][a-z]+[A-Z]"
)
_CODE_LINE = re.compile(
    r"\s*(?:(?:for|if|elif|else|with|def|return|class|import|from|while|assert|try)\b"
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


class Quote(NamedTuple):
    """Text that the document shows as the place's own."""

    lines: tuple[str, ...]
    near: bool
    """Belongs to this citation and to no other."""
    prose: bool = False


class Evidence(NamedTuple):
    """All that can be compared, surest first."""

    quotes: tuple[Quote, ...]
    names: tuple[str, ...]
    marked: tuple[str, ...]
    """Names that are set as code: a file that lacks one is worth a warning."""
    concepts: tuple[str, ...]
    distant: bool
    """The concepts are named above the code that the citation closes, not in its own sentence."""
    rows: tuple[tuple[str, ...], ...]
    """Table rows beside it, as cells."""
    around: str
    """The text about it, for guessing where the right place may be."""


class Concepts:
    """The names by which a document may call a concept, in both languages."""

    def __init__(self, names: Mapping[str, Iterable[str]]) -> None:
        self._ids: dict[str, str] = {}
        for concept, said in names.items():
            for name in (*said, *_ALSO_CALLED.get(concept, ())):
                if _is_telling(name):
                    self._ids.setdefault(_folded(name), concept)
        longest = sorted(self._ids, key=len, reverse=True)
        exact = [re.escape(concept) for concept in names if "-" in concept]
        self._exact = re.compile(rf"(?<![\w-])(?:{'|'.join(exact)})(?![\w-])" if exact else r"(?!)")
        self._pattern = re.compile("|".join(map(_flexible, longest)) or r"(?!)", re.IGNORECASE)
        self.names = {concept: tuple(said) for concept, said in names.items()}

    def named(self, text: str) -> list[str]:
        """List the concepts that a text names, in order."""
        said = [(m.start(), self._ids.get(_folded(m[0]))) for m in self._pattern.finditer(text)]
        ids = [(m.start(), m[0]) for m in self._exact.finditer(text)]
        return list(dict.fromkeys(concept for _, concept in sorted([*said, *ids]) if concept))


_ALSO_CALLED = {
    "combine": ("combine 段", "combine 阶段", "combine 内核", "combine stage"),
    "check-inf": ("check_inf",),
    "kv-loop": ("loop over the keys", "KV loop", "KV 循环"),
    "causal-mask": ("causal masking", "causal 掩码", "因果掩码"),
    "window-mask": ("sliding window mask", "滑动窗口 mask"),
    "rescale-factor": ("rescaling factor", "重缩放因子"),
    "row-max": ("row maximum", "行最大值"),
}


def _is_telling(name: str) -> bool:
    """Whether naming it is no accident: 概率 and "probability" are words of every sentence."""
    latin = re.findall(r"[A-Za-z_]+", name)
    wide = len(re.findall(rf"[{_CJK}]", name))
    return wide >= 4 or (wide >= 1 and bool(latin)) or len(latin) >= 2 or "_" in name


def _folded(name: str) -> str:
    return re.sub(r"[\s_`-]+", "", name).casefold()


def _flexible(folded: str) -> str:
    parts = re.findall(rf"[{_CJK}]|[^{_CJK}]+", folded)
    body = r"[\s`]*".join(r"[\s_`-]*".join(map(re.escape, part)) for part in parts)
    head = r"(?<![A-Za-z0-9_])" if re.match(r"\w", folded, re.ASCII) else ""
    tail = r"(?:s|es)?(?![A-Za-z0-9_])" if re.match(r"\w", folded[-1], re.ASCII) else ""
    return f"{head}{body}{tail}"


class Reading:
    """Takes the evidence for the citations of one page."""

    def __init__(self, page: Page, citations: Sequence[Citation], concepts: Concepts) -> None:
        self._page, self._text, self._concepts = page, page.text, concepts
        self._places = sorted(c.at for c in citations)
        self._labels = self._labelled()
        self._lined = sorted(c.at for c in citations if c.target.lines or c.target.section)

    def evidence(self, citation: Citation) -> Evidence:
        """Collect what the document says about one citation."""
        first, last = self._sentence(*citation.at)
        label = self._labels.get(citation.at, citation.at)
        before = max(first, self._edge_before(label[0]))
        after = min(last, self._edge_after(citation.at[1]))
        clause = self._text[before : label[0]]
        whole = self._without_places(first, last)
        code = self._code_quotes(citation)
        begins = self._begins(citation)
        lead = self._lead(citation) if begins or not _telling(clause) else ""
        if _CLOSED.match(self._text, citation.at[1]):
            after = citation.at[1]
        behind = self._text[citation.at[1] : after]
        quotes = [*code, *self._inline(before, citation.at[0], near=True)]
        quotes += self._inline(citation.at[1], after, near=not _telling(clause))
        quotes += self._prose(citation)
        spans = [(before, citation.at[0]), (citation.at[1], after)]
        if lead:
            spans.append((citation.at[0] - len(lead), citation.at[0]))
        names = self._names([*spans, (first, last)], citation)
        distant = bool(begins and lead)
        concepts = self._concepts.named(lead if distant else clause)[::-1]  # the nearest first
        distant = distant and bool(concepts)
        concepts = concepts or self._concepts.named(behind)
        around = " ".join((lead, whole, self._text[citation.at[1] : min(citation.at[1] + 160,
                          self._edge_after(citation.at[1]))]))  # fmt: skip
        marked = tuple(dict.fromkeys(self._marked(first, last)))
        return Evidence(tuple(quotes), names, marked, tuple(concepts), distant,
                        self._rows(citation), around)  # fmt: skip

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
        return max((e for _, e in self._places if e <= at), default=0)

    def _edge_after(self, at: int) -> int:
        return min((s for s, _ in self._places if s >= at), default=len(self._text))

    def _without_places(self, first: int, last: int) -> str:
        parts, at = [], first
        for start, end in self._places:
            if first <= start < last:
                parts.append(self._text[at:start])
                at = max(end, at)
        return " ".join([*parts, self._text[at:last]])

    def _lead(self, citation: Citation) -> str:
        """The text above a citation that begins its line, down from the one before it."""
        low = max(self._lined_before(citation.at[0]), citation.at[0] - 900)
        index = self._page.block_at(citation.at[0])
        for block in reversed(self._page.blocks[max(index - 12, 0) : index]):
            if block.last < low:
                break
            following = self._text[slice(*self._line_of(block.last + 1))]
            if block.kind == "heading" and not _is_code(following):
                low = block.last
                break
        return self._text[low : citation.at[0]]

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
        below = self._below(citation)
        if below:
            quotes.append(Quote(tuple(below), near=not quotes))
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
        return mark is not None and bool(head[: mark.start()].strip()) and _is_code(head)

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
            if not _is_code(line) or re.search(r"(?:line|第)\s?\d+", line):
                break
            above.insert(0, without_comment(line))
            at = begin - 1
        whole = [*above, code]
        return [Quote(tuple(line for line in whole if line.strip()), near=True)] if code else []

    def _begins(self, citation: Citation) -> bool:
        """Whether nothing but brackets stands before it in its line."""
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
                    return _shown(self._text[block.first : block.last])
                if block.kind == "fence":
                    break
        found: list[str] = []
        at = first - 1
        while at > 0 and len(found) < 60:
            begin = self._text.rfind("\n", 0, at) + 1
            line = self._text[begin:at].rstrip("\r")
            if not line.strip() and found:
                break
            if line.strip() and not _is_code(line):
                break
            if line.strip():
                found.insert(0, line)
            at = begin - 1
        return found

    def _below(self, citation: Citation) -> list[str]:
        """The code below a citation that announces it with a colon, or stands right above it."""
        _, end = self._line_of(citation.at[1])
        tail = self._text[citation.at[1] : end].rstrip()
        index = self._page.block_at(citation.at[0])
        after = self._page.blocks[index + 1] if index + 1 < len(self._page.blocks) else None
        block = self._page.blocks[index] if self._page.blocks else None
        if after and after.kind == "fence" and block:
            if self._edge_after(citation.at[1]) < after.first:
                return []
            closes = self._text[citation.at[1] : block.last].rstrip()
            announced = closes.endswith((":", "：")) or len(closes) < 160
            behind = re.compile(r"[`~ \t\r]*\n\s*").match(self._text, after.last)
            fence_end = self._text.find("\n", after.last)
            if self._claimed(behind.end() if behind else fence_end + 1):
                announced = False
            return _shown(self._text[after.first : after.last]) if announced else []
        if not tail.endswith((":", "：")):
            return []
        found: list[str] = []
        at = end + 1
        while at < len(self._text) and len(found) < 60:
            _, stop = self._line_of(at)
            line = self._text[at:stop].rstrip("\r")
            if not line.strip() or not _is_code(line):
                break
            found.append(line)
            at = stop + 1
        return [] if self._claimed(at) else found

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
            if len(norm(body)) >= 8 and re.search(r"[=(\[+*/<>-]|\s", body) and not _is_path(body):
                yield Quote((body,), near)
        for match in _QUOTED.finditer(text):
            body = next(group for group in match.groups() if group)
            yield Quote((body,), near, prose=True)
        if not spans and _HAS_CJK.search(text):
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
        low = max(self._edge_before(citation.at[0]), citation.at[0] - 700)
        for match in _LATIN_RUN.finditer(self._text, low, citation.at[0]):
            for part in re.split(r"(?<=[.!?])\s+", match[0]):
                if len(norm(part)) >= 30:
                    yield Quote((part,), near=False, prose=True)

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

    def _marked(self, first: int, last: int) -> Iterator[str]:
        for *_, body in self._codes(first, last):
            if re.fullmatch(r"(?:[A-Za-z_]\w*(?:\.|::))*[A-Za-z_]\w*(?:\(\))?", body):
                yield body.removesuffix("()")

    def _names(self, spans: Sequence[tuple[int, int]], citation: Citation) -> tuple[str, ...]:
        """Names that may stand on the cited lines, the nearest first."""
        own = {part for part in re.split(r"[/.]", citation.target.path or "") if part}
        found: dict[str, None] = {}
        for first, last in spans:
            for name in self._names_in(first, last):
                if name not in own and name.rpartition(".")[2] not in own:
                    found[name] = None
        return tuple(found)

    def _names_in(self, first: int, last: int) -> Iterator[str]:
        codes = self._codes(max(first - 80, 0), last)
        low = bisect_left(self._places, (first, 0))
        places = self._places[max(low - 1, 0) : low + 12]
        for match in _NAME.finditer(self._text, first, last):
            at, name = match.start(), match[0].removesuffix("()")
            if name in _STOP or len(name) < 2 or re.fullmatch(r"v?\d[\d.]*", name):
                continue
            if any(start <= at < end for start, end in places):
                continue
            marked = any(start <= at < end for start, end, _ in codes)
            if (marked and len(name) > 2) or _IN_PROSE.search(match[0]):
                yield name

    def _rows(self, citation: Citation) -> tuple[tuple[str, ...], ...]:
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


def _telling(text: str) -> bool:
    """Whether text says anything: more than brackets and a word or two."""
    return len(re.sub(r"[\W_]|见|同文件|see|same file", "", text)) >= 4


def _shown(text: str) -> list[str]:
    return [line for line in text.strip("\n").split("\n") if line.strip()]


def _is_code(line: str) -> bool:
    """Whether a line of flattened text is code: nothing Chinese but in a comment."""
    head = re.split(r"#|//|←", line, maxsplit=1)[0]
    if _HAS_CJK.search(head) or line.lstrip().startswith(("|", "- ", "> ", "* ")):
        return False
    return _CODE_LINE.match(line) is not None


def _is_path(text: str) -> bool:
    return (
        re.search(r"\.\w{1,5}(?:[:#]\S*)?\Z", text.strip()) is not None and " " not in text.strip()
    )
