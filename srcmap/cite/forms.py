"""How references are written: one small pattern for each form, over text.

`mentions` reads a page from left to right and gives what looks like a reference; which file it
means, and whether it is one at all, is decided in `find`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from srcmap.cite.numbers import (
    CLOSE,
    WORD,
    WRAP,
    ZH,
    ZH_BARE,
    N,
    R,
    Range,
    Span,
    between_lines,
    chinese_ranges,
    listed_ranges,
    more_ranges,
    range_of,
    ranges_after,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from srcmap.cite.page import Page, RegionKind


EXTENSIONS = (
    "py|pyi|pyx|ipynb|cc|cpp|cxx|hpp|hxx|cuh|cu|c|h|inl|inc|md|markdown|mdx|rst|txt|toml|yaml|yml"
    "|json|cfg|ini|sh|bash|bat|ps1|cmake|tex|html|css|js|mjs|ts|tsx|rs|go|java|kt|swift|rb|lua"
    "|proto|mlir|ll|td|csv|xml|asm|scm|lock|diff|patch|in|S|m|mm|jl|f90"
)
_CHAR = r"(?:[A-Za-z0-9_.+@~%\-]|\\_)"
_NOT_AFTER = r"(?<![A-Za-z0-9_.+@~%/\\\-])"

_ELL = r"(?:(?<![A-Za-z0-9_#./:\-])|(?<=[\s(（`])(?<!\]\()#)"
"""Before `L12`: not a word, and no anchor of a link."""

SAME = re.compile(
    r"(?:同一?(?:份|个)?文件|该文件|此文件|同上|(?:[Tt]he )?[Ss]ame file|[Ii]bid\.?|上述文件"
    r"|同一?(?:份|个)?文档|(?:[Tt]he )?[Ss]ame document)[`*]{0,2}\s?[,，:：]?\s?(?:的|中|里)?\s?[(（「“]?\s?"  # noqa: E501
)
_HERE = (
    r"(?:同一?(?:份|个)?文件|该文件|此文件|上述文件|同上)[，,:：]?\s?(?:的|中|里)?\s?"
    rf"(?={N}[^\n]{{0,12}}?行)"
    r"|[见在于]\s?(?=\d{2,7}\s?[-–—~～]\s?\d{2,7}\s?行(?!业|列|左右|之|以|的?代码))"
)
"""Before a number that needs no 第: 同文件 62-84 行, 在 95-98 行."""
_SECTION_NUMBER = r"\d+(?:\.\d+)*"
_SECTION = re.compile(
    rf"(?P<en>(?:[Ss]ections?|[Ss]ec\.|§)[ \t~]*(?P<e>{_SECTION_NUMBER}))"
    rf"|第\s?(?P<z>{_SECTION_NUMBER}|[一二三四五六七八九十]+)\s?节"
    rf"|(?<![\d.])(?P<n>\d+(?:\.\d+)+)\s?(?:小)?节"
)
_SECTION_AFTER = re.compile(rf"{CLOSE}[,，]?\s*(?:的|中|里)?\s?[(（]?\s?(?:{_SECTION.pattern})")
_TITLE_AFTER = re.compile(
    rf"{CLOSE}\s?[,，]?\s?(?:的|中|里)?\s?[「“\"](?P<t>{_SECTION_NUMBER}[\s、.][^」”\"\n]{{1,60}})[」”\"]"
)
_TITLE_HERE = re.compile(rf"[「“\"]?(?P<t>{_SECTION_NUMBER}[\s、.][^」”\"\n]{{1,60}})[」”\"]")
_OPEN = r"(?:\\(?:path|texttt|url|nolinkurl|lstinline|verb)\*?[{|!+]|:\w+:`|[`*\"\[<]{0,3})"
"""What marks a path as one: of Markdown, of LaTeX, of reStructuredText."""
_OF = re.compile(rf"[`*]{{0,2}}\s+(?:of|in|from)\s+(?:the\s+)?(?:file\s+)?{_OPEN}")
_BEFORE_SAME = re.compile(
    r"[`*]{0,2}\s+(?:of|in)\s+(?:the|that|this)\s(?:very\s)?(?:same\s)?(?:file|document)\b"
    r"|\s?行?\s?[（(]同一?(?:份|个)?(?:文件|文档)[)）]"
)
"""Behind lines: "line 24 of the same file"."""
_OF_AHEAD = re.compile(
    r"\s+(?:(?:and|to|until|through)\s+)(?:(?:it\s)?(?:ends?|closes?|stops?)\s(?:at|on|in)\s)?lines?\s"
    rf"{N}[`*]{{0,2}}\s+(?:of|in|from)\s+(?:the\s+)?(?:file\s+)?{_OPEN}"
)
"""To the file behind a later line: "from line 3 to line 9 of a.py"."""
_IN_BRACKETS = re.compile(
    rf"\s?行?(?:开始|起|结束|为止|止)?[，,]?(?:\s?(?:到|至)?\s?第\s?{N}\s?行(?:结束|为止|止)?)?\s?[（(]\s?(?:见|在|of|in|see)?\s?{_OPEN}"
)
"""To a file in the brackets right behind lines."""
_ALSO = re.compile(
    r"\s*(?:另有|另见|另外|参见|还有|也见|亦见|[Ss]ee also|[Aa]lso|[Cc]f\.?|[Ss]ee,? too)"
)
_DOCUMENT = re.compile(r"\.(?:md|markdown|mdx|rst|txt|tex|ipynb)\Z", re.IGNORECASE)
_ALSO_WORD = re.compile(r"另|参见|还有|也见|亦见|also|Also|[Cc]f|[Ss]ee")
_TRAILING = ".,;:!?*_'\""


class Mention(NamedTuple):
    """Something written like a reference, or like the name of a file."""

    kind: Literal["file", "url", "lines", "section", "repo"]
    first: int
    last: int
    """Of the reference: path and numbers, as characters; half open."""
    name: Span | None = None
    """The path, or the URL."""
    ranges: tuple[Range, ...] = ()
    section: str = ""
    region: RegionKind | None = None
    same: bool = False
    """After words such as "same file"."""
    also: bool = False
    """In brackets that begin with "see also"."""
    joined: bool = False
    """Follows another reference with nothing but a comma or an "and" between."""
    include: bool = False
    loose: bool = False
    """Only what stands around says that it is one: `KCache[bidx]` :98."""


class Reader:
    """Patterns for the names of one shelf; names with blanks and without suffix are its own."""

    def __init__(
        self, names: Iterable[str] = (), aliases: Iterable[str] = (), repos: Iterable[str] = ()
    ) -> None:
        plain = re.compile(rf"{_CHAR}*\.(?:{EXTENSIONS})\Z")
        odd = sorted({n for n in names if not plain.match(n)}, key=len, reverse=True)
        spaced = [re.escape(n) for n in odd if not re.fullmatch(r"[A-Za-z0-9_.+@~%\-]*", n)]
        bare = [re.escape(n) for n in odd if re.fullmatch(r"[A-Z][A-Za-z]{3,}", n)]
        parts = [
            r"(?P<url>https?://[^\s<>\"'`|，。；、（）「」【】《》\\^{}\[\]]+)",
            rf"(?P<spaced>{_NOT_AFTER}(?:{_CHAR}*/)*(?:{'|'.join(spaced)}))" if spaced else "",
            rf"(?P<bare>{_NOT_AFTER}(?:{'|'.join(bare)})(?=[:#]L?\d))" if bare else "",
            rf"(?P<path>{_NOT_AFTER}(?:{_CHAR}*/(?:{_CHAR}|/)*"  # noqa: ISC004
            rf"|{_CHAR}*[A-Za-z0-9_]\.(?:{EXTENSIONS})(?![A-Za-z0-9_]|\.[A-Za-z0-9])))",
            rf"(?P<lines>(?<![A-Za-z-])(?:(?:[Ll]ines?|LINES?)[ \t~]*{WRAP}|ll?\.[ \t]+)(?=\d))",
            rf"(?P<here>{_HERE})",
            r"(?P<zh>第(?=\s?(?:\r?\n[ \t>#*]*)?\d[^\n]{0,30}?行))",
            r"(?P<colon>(?<![A-Za-z0-9_:\])}}.'\"])(?::|(?<!\w)：)(?=L?\d))",
            rf"(?P<ell>{_ELL}L(?={N}(?![A-Za-z0-9_.])))",
            rf"(?P<section>{_SECTION.pattern.replace('?P<', '?P<s_')})",
            rf"(?P<alias>(?:{_any(aliases)})(?=\s?(?:的|中|里)?\s?(?:第|§|\d|[Ss]ec)))"
            if aliases
            else "",
            rf"(?P<repo>(?<![A-Za-z0-9_/.-])(?:{_any(repos)})(?![A-Za-z0-9_/.-]))" if repos else "",
        ]
        self._anchor = re.compile("|".join(part for part in parts if part))

    def mentions(self, page: Page, *, fences: bool = False) -> Iterator[Mention]:
        """Yield what is written like a reference, in order."""
        yield from sorted(self._all(page, fences=fences), key=lambda m: (m.first, m.last))

    def _all(self, page: Page, *, fences: bool) -> Iterator[Mention]:
        text, at, last_end = page.text, 0, -1
        for include in page.includes:
            (first, last), ranges = include
            numbers = [place for pair in ranges for place in pair]
            begin = min([first, *(a for a, _ in numbers)])
            end = max([last, *(b for _, b in numbers)])
            yield Mention("file", begin, end, (first, last), ranges, include=True)
        while True:
            match = self._anchor.search(text, at)
            if match is None:
                return
            region = page.region_at(match.start())
            kind = region.kind if region else None
            if kind == "skip" and region is not None:
                at = region.last
                continue
            if kind == "fence" and region is not None and not fences:
                at = self._next_comment(page, region.first, match.start(), region.last)
                continue
            found = self._mention(page, match, kind, last_end)
            if found is None:
                at = max(match.end(), match.start() + 1)
                continue
            yield found
            at = max(found.last, match.start() + 1)
            if found.ranges or found.section:
                last_end = found.last

    @staticmethod
    def _next_comment(page: Page, first: int, at: int, end: int) -> int:
        nexts = (r.first for r in page.regions_in(max(first, at), end) if r.kind == "comment")
        return next(nexts, end)

    def _mention(
        self, page: Page, match: re.Match[str], region: RegionKind | None, last_end: int
    ) -> Mention | None:
        kind = match.lastgroup or ""
        kind = next((k for k in ("url", "spaced", "bare", "path", "lines", "here", "zh", "colon",
                                 "ell", "section", "alias", "repo")
                     if match.groupdict().get(k) is not None), kind)  # fmt: skip
        if region == "comment" and kind not in ("lines", "zh"):
            return None
        read = getattr(self, f"_{kind}")
        found: Mention | None = read(page, match, region, last_end)
        return found

    # -- files -----------------------------------------------------------------------------

    def _url(self, page: Page, match: re.Match[str], region: RegionKind | None, _: int) -> Mention:
        text = page.text
        first, last = match.start("url"), _balanced(text, *match.span("url"))
        while last > first and (
            text[last - 1] in _TRAILING
            or (
                text[last - 1] == ")"
                and text.count("(", first, last) < text.count(")", first, last)
            )
        ):
            last -= 1
        hash_at = text.find("#", first, last)
        ranges: tuple[Range, ...] = ()
        if hash_at >= 0:
            lines = re.compile(rf"#L?(?:ines-)?({N})(?:C\d+)?(?:[-:]L?({N})(?:C\d+)?)?\Z")
            found = lines.match(text, hash_at, last)
            if found:
                one = found.span(1)
                ranges = ((one, found.span(2) if found[2] else one),)
        return Mention("url", first, last, (first, last), ranges, region=region)

    def _path(
        self, page: Page, match: re.Match[str], region: RegionKind | None, _: int
    ) -> Mention | None:
        first, last = match.span()
        text = page.text
        while last > first and text[last - 1] in ".@~%+-":
            last -= 1
        while first < last and text[first] in "-+%":
            first += 1
        if last <= first or not re.search(r"[A-Za-z0-9]", text[first:last]):
            return None
        if text[first:last].startswith(("//", "..")) and "/" not in text[first + 2 : last]:
            return None
        first, last = self._unwrapped(text, first, last)
        return self._with_place(page, first, last, region)

    _spaced = _path
    _bare = _path

    @staticmethod
    def _unwrapped(text: str, first: int, last: int) -> Span:
        """Go on over a line break inside a path: it ends with a slash and a name follows."""
        if text[last - 1] != "/":
            return (first, last)
        more = re.compile(
            rf"\r?\n[ \t]*(?:[>#*][ \t]*)?({_CHAR}(?:{_CHAR}|/)*\.(?:{EXTENSIONS})(?![A-Za-z0-9_]))"
        ).match(text, last)
        return (first, more.end()) if more and "/" not in more[1] else (first, last)

    def _with_place(self, page: Page, first: int, last: int, region: RegionKind | None) -> Mention:
        text = page.text
        also = _in_also(text, first)
        ranges, end = ranges_after(text, last, region)
        if ranges:
            behind = (
                _SECTION_AFTER.match(text, end) if _DOCUMENT.search(text, first, last) else None
            )
            number = next((behind[g] for g in ("e", "z", "n") if behind[g]), "") if behind else ""
            return Mention("file", first, end, (first, last), ranges, number, region, also=also)
        document = _DOCUMENT.search(text, first, last) is not None
        section = _SECTION_AFTER.match(text, last) if document else None
        if section:
            group = next(g for g in ("e", "z", "n") if section[g])
            return Mention("file", first, section.end(group), (first, last),
                           section=section[group], region=region, also=also)  # fmt: skip
        title = _TITLE_AFTER.match(text, last) if document else None
        if title:
            return Mention("file", first, title.end("t"), (first, last),
                           section=title["t"].strip(), region=region, also=also)  # fmt: skip
        return Mention("file", first, last, (first, last), region=region, also=also)

    # -- lines of a file named elsewhere -----------------------------------------------------

    def _lines(
        self, page: Page, match: re.Match[str], region: RegionKind | None, last_end: int
    ) -> Mention | None:
        found = WORD.match(page.text, match.start())
        if found is None:
            return None
        ranges = between_lines(page.text, found) or listed_ranges(page.text, found)
        return self._of_file(page, match.start(), ranges, region, last_end)

    def _zh(
        self, page: Page, match: re.Match[str], region: RegionKind | None, last_end: int
    ) -> Mention | None:
        found = ZH.match(page.text, match.start())
        if found is None:
            return None
        return self._of_file(
            page, match.start(), chinese_ranges(page.text, found), region, last_end
        )

    def _here(
        self, page: Page, match: re.Match[str], region: RegionKind | None, last_end: int
    ) -> Mention | None:
        """Read 同文件 62-84 行: the number needs no 第 behind such a word."""
        found = ZH_BARE.match(page.text, match.end())
        if found is None:
            return None
        return self._of_file(page, match.end(), (range_of(found),), region, last_end)

    def _ell(
        self, page: Page, match: re.Match[str], region: RegionKind | None, last_end: int
    ) -> Mention | None:
        pattern = re.compile(
            rf"#?L(?P<a>{N})(?:C\d+)?(?:\s?[-–—]\s?L?(?P<b>{N})(?:C\d+)?)?(?!\w|\.\d)"
        )
        found = pattern.match(page.text, match.start())
        same = _after_same(page.text, match.start())
        if found is None or not (same or found["b"] or len(found["a"]) > 1):
            return None
        ranges = (range_of(found),)
        joined = _is_joined(page.text, last_end, match.start())
        end = ranges[-1][1][1]
        return Mention("lines", match.start(), end, None, ranges, region=region,
                       same=same, joined=joined)  # fmt: skip

    def _colon(
        self, page: Page, match: re.Match[str], region: RegionKind | None, last_end: int
    ) -> Mention | None:
        text, first = page.text, match.start()
        found = re.compile(rf"[:：]L?{R}").match(text, first)
        if found is None:
            return None
        same = _after_same(text, first)
        joined = _is_joined(text, last_end, first)
        alone = (
            region == "code"
            and text[first - 1] in "`{|"
            and text[found.end() : found.end() + 1] in "`,}|"
        )
        bracketed = text[first - 1] in "(（" and text[found.end() : found.end() + 1] in (
            ")",
            "）",
            ",",
            "，",
        )
        pointed = _POINTING.search(text, max(first - 12, 0), first) is not None
        pointed = pointed and not _PORT.search(text, max(first - 16, 0), first)
        goes_on = 0 <= first - last_end < 80 and _GOING_ON.search(text, max(first - 6, 0), first)
        spare = not _BEFORE_SPARE.search(text, max(first - 3, 0), first)
        loose = not (same or joined or alone or bracketed or pointed or goes_on)
        if loose and (spare or not _AFTER_SPARE.match(text, found.end())):
            return None
        ranges = (range_of(found), *more_ranges(text, found.end(), region))
        return Mention("lines", first, ranges[-1][1][1], None, ranges, region=region,
                       same=same, joined=joined, loose=loose)  # fmt: skip

    def _of_file(
        self, page: Page, start: int, ranges: tuple[Range, ...],
        region: RegionKind | None, last_end: int,
    ) -> Mention | None:  # fmt: skip
        """`line 24 of a.py` names its file behind it; else the file was named before."""
        text = page.text
        first, last = ranges[0][0][0], ranges[-1][1][1]
        of = _OF.match(text, last) or _OF_AHEAD.match(text, last) or _IN_BRACKETS.match(text, last)
        if of:
            path = self._anchor.match(text, of.end())
            if path and (path.groupdict().get("path") or path.groupdict().get("spaced")):
                begin, end = path.span()
                while end > begin and text[end - 1] in _TRAILING:
                    end -= 1
                closes = of.re is not _IN_BRACKETS or re.match(
                    r"[`*}]*\s?[)）]", text[end : end + 6]
                )
                if of.re is _OF_AHEAD or (closes and re.search(r"\d", of[0])):
                    return Mention("lines", first, last, (begin, end), ranges, region=region)
                if closes and not _after_same(text, start):
                    return Mention("file", first, end, (begin, end), ranges, region=region)
        same = _after_same(text, start) or _BEFORE_SAME.match(text, last) is not None
        joined = _is_joined(text, last_end, start)
        return Mention("lines", first, last, None, ranges, region=region, same=same, joined=joined)

    # -- sections --------------------------------------------------------------------------

    def _section(
        self, page: Page, match: re.Match[str], region: RegionKind | None, _: int
    ) -> Mention | None:
        text = page.text
        group = next(g for g in ("s_e", "s_z", "s_n") if match[g])
        first, last = match.span(group)
        of = _OF.match(text, match.end())
        if of:
            path = self._anchor.match(text, of.end())
            if path and any(path.groupdict().get(k) for k in ("path", "spaced")):
                end = path.end()
                while text[end - 1] in _TRAILING:
                    end -= 1
                return Mention("file", first, end, (path.start(), end), section=match[group],
                               region=region)  # fmt: skip
            alias = self.alias_at(text, of.end())
            if alias:
                return Mention("section", first, alias[1], alias, section=match[group],
                               region=region)  # fmt: skip
        same = _after_same(text, match.start())
        return Mention("section", first, last, None, section=match[group], region=region, same=same)

    def alias_at(self, text: str, at: int) -> Span | None:
        """Find the name of a document at an offset."""
        for name in self.aliases:
            if text.startswith(name, at):
                return (at, at + len(name))
        return None

    aliases: tuple[str, ...] = ()

    def _alias(
        self, page: Page, match: re.Match[str], region: RegionKind | None, _: int
    ) -> Mention | None:
        found = re.compile(
            rf"\s?(?:的|中|里)?\s?(?:{_SECTION.pattern}|(?P<p>\d+(?:\.\d+)+))"
        ).match(page.text, match.end())
        if found is None:
            return None
        group = next(g for g in ("e", "z", "n", "p") if found[g])
        return Mention("section", match.start(), found.end(group), match.span(),
                       section=found[group], region=region)  # fmt: skip

    def _repo(
        self, _page: Page, match: re.Match[str], region: RegionKind | None, _: int
    ) -> Mention:
        return Mention("repo", *match.span(), match.span(), region=region)


def _any(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def titles(page: Page) -> Iterator[Mention]:
    """Yield quoted headings after "same file": 同文件「5.2 ...」."""
    if "「" not in page.text and "“" not in page.text and '"' not in page.text:
        return
    for match in SAME.finditer(page.text):
        found = _TITLE_HERE.match(page.text, match.end())
        if found and page.text[match.end() - 1 : match.end()] in '「“"':
            yield Mention("section", *found.span("t"), None, section=found["t"].strip(), same=True)


def _balanced(text: str, first: int, last: int) -> int:
    """Give the end of a link: a bracket that it did not open closes what is around it."""
    depth = 0
    for at in range(first, last):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth < 0:
            return at
    return last


def _in_also(text: str, at: int) -> bool:
    """Whether it stands in brackets that begin with "see also"."""
    window = text[max(at - 400, 0) : at]
    if ("(" not in window and "（" not in window) or not _ALSO_WORD.search(window):
        return False
    depth = 0
    for index in range(at - 1, max(at - 400, -1), -1):
        char = text[index]
        if char in ")）":
            depth += 1
        elif char in "(（":
            if depth == 0:
                return _ALSO.match(text, index + 1) is not None
            depth -= 1
    return False


def _after_same(text: str, at: int) -> bool:
    head = text[max(at - 40, 0) : at]
    found = next(reversed([*SAME.finditer(head)]), None)
    return found is not None and found.end() >= len(head.rstrip(" \n\t`（(:："))


_POINTING = re.compile(r"(?:\b(?:at|see|on|in|from)\s|(?:见|在|于|从|自)\s?)\Z")
_BEFORE_SPARE = re.compile(r"(?:[`}|)\]）」”]|[:：,，、—→>|]|[\u4e00-\u9fff])\s?\Z")
_AFTER_SPARE = re.compile(
    r"(?:\s*\Z|[ \t]*[\r\n|)）,，。;；、`]|\.(?:\s|\Z)|\s?[\u4e00-\u9fff]"
    r"|\s(?:and|is|are|in|for|to|with)\b)"
)
"""About `:98` in running text."""
_PORT = re.compile(
    r"(?:监听|端口|绑定|[Ll]isten\w*|\b[Pp]orts?\b|\b[Bb]inds?\b|\bbound)\W{0,3}\w{0,4}\s?\Z"
)
_GOING_ON = re.compile(r"(?:\b(?:and|then)\s|[和与]\s?)\Z")
_JOIN = re.compile(
    r"[`*\s)）\]]*(?:,|，|、|;|；|/|\band\b|&|\+|与|和|及|以及|\bto\b|,\s*and)?\s*(?:lines?\s|第)?[`*\s(（]*\Z"
)


def _is_joined(text: str, last_end: int, at: int) -> bool:
    if last_end < 0 or not 0 <= at - last_end <= 14:
        return False
    between = text[last_end:at]
    return bool(_JOIN.match(between)) and between.strip("`* \t\r\n") != ""
