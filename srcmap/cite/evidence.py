"""What a document says about a place that it cites: quoted code and prose, names, concepts.

A citation is judged by what stands near it: the code before or after it, the sentence that it
closes, the comment's own line. Nearer is surer, so evidence comes in that order.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.cite.beside import Besides
from srcmap.cite.glue import GLUE
from srcmap.cite.naming import Naming
from srcmap.cite.placing import FRAME_AFTER, FRAME_BEFORE
from srcmap.cite.quoting import Quoting
from srcmap.cite.spots import Spots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.cite.beside import Beside
    from srcmap.cite.concepts import Concepts
    from srcmap.cite.nouns import Citation, Span
    from srcmap.cite.page import Page
    from srcmap.cite.quoting import Quote
    from srcmap.cite.spots import Spot

_EDGES = re.compile(
    r"(?P<first>\b(?:starts?|begins?|opens?|opened|defined|declared|defines"
    r"|declares|definition)\b|开始于|始于|起于|从|起点|入口|定义在|定义于|定义了|声明了|声明在)"
    r"|(?P<last>\b(?:ends?|closes?)\b|结束于|止于|终点)"
)


_INNER = re.compile(
    r"\b(?:kernel|loop|block|body|branch|grid|call|loads?)\b|内核|循环|分支|函数体|主体|调用|网格"
)
_OF_IT = re.compile(
    r"的\s?(?!(?:定义|实现|声明|代码|函数|位置|源码)?[在见于是（(：:`\s])[\u4e00-\u9fff]|['’]s\b"
)
_DEFINED = re.compile(r"\b(?:defined|defines|definition)\b|定义[在于了]|的定义")


class Reading:
    """Takes the evidence for the citations of one page."""

    def __init__(self, page: Page, citations: Sequence[Citation], concepts: Concepts) -> None:
        self._text = page.text
        self._spots = Spots(page, citations)
        self.spot = self._spots.spot
        self.besides = Besides(self._spots)
        self.quoting, self.naming = Quoting(self._spots), Naming(self._spots, concepts)

    def evidence(self, citation: Citation) -> Evidence:
        """Give what the document says about one citation."""
        return Evidence(self, citation)

    def clause(self, spot: Spot) -> str:
        """Give the text of a clause, without the citation."""
        return f"{self._text[slice(*spot.before)]} {self._text[slice(*spot.after)]}"

    def is_frame(self, named: Span, cited: Span) -> bool:
        """Whether something named is said to hold what a citation gives the place of."""
        head = self._text[max(named[0] - 28, 0) : named[0]]
        gap = self._text[named[1] : cited[0]] if named[1] <= cited[0] else ""
        head = re.sub(r"(?:definition|declaration) of (?:the )?[`*]*\Z", "", head)
        framed = FRAME_BEFORE.search(head) or FRAME_AFTER.match(self._text, named[1])
        return bool(framed) or _INNER.search(gap) is not None

    def is_part(self, named: Span, cited: Span) -> bool:
        """Whether a citation may give the place of a part of something named."""
        gap = self._text[named[1] : cited[0]] if named[1] <= cited[0] else "'s"
        loose = self.naming.goes_on(cited[1]) or not GLUE.fullmatch(gap)
        return loose or self.is_frame(named, cited) or _OF_IT.search(gap) is not None

    def piece(self, spot: Spot) -> str:
        """Give the part of a clause between two commas, without the citation."""
        before = re.split(r"[,，;；。]", self._text[slice(*spot.before)])[-1]
        return f"{before} {re.split(r'[,，;；。]', self._text[slice(*spot.after)])[0]}"

    def words(self, first: int, last: int) -> bool:
        """Whether any letters stand between two offsets."""
        return re.search(r"\w", self._text[first:last]) is not None

    def edge(self, spot: Spot) -> str:
        """Tell whether a clause speaks of where something begins, or ends."""
        said = [m.lastgroup or "" for m in _EDGES.finditer(self._text, *spot.before)][::-1]
        said += [m.lastgroup or "" for m in _EDGES.finditer(self._text, *spot.after)]
        return said[0] if said else ""

    def around(self, citation: Citation, spot: Spot) -> str:
        """Give the lead, the sentence and what follows."""
        lead = self._text[slice(*spot.lead)] if spot.lead else ""
        end = min(citation.at[1] + 160, self._spots.edge_after(citation.at[1]))
        whole = self._spots.without_places(*spot.sentence)
        return " ".join((lead, whole, self._text[citation.at[1] : end]))


class Evidence:
    """All that can be compared. What is dear to collect is collected when it is asked for."""

    def __init__(self, reading: Reading, citation: Citation) -> None:
        self._reading, self._citation = reading, citation
        self._spot = reading.spot(citation)
        self._said = reading.naming.concepts(self._spot)
        self.concepts, self.distant = self._said.concepts, self._said.distant
        """The concepts that are named, the nearest first; whether they are named above the code
        that the citation closes, not in its own sentence."""

        self.subject = self._said.subject
        """What the clause speaks of when the nearest concept is only its object."""

    def follows(self, before: Citation) -> bool:
        """Whether these are lines without a file, behind others in their sentence."""
        rules = {self._citation.rule, before.rule}
        near = self._spot.sentence[0] <= before.at[0] < self._citation.at[0]
        return rules == {"continuation"} and near and len(before.options) == 1

    @cached_property
    def beside(self) -> Beside | None:
        """What stands right beside it."""
        return self._reading.besides.of(self._citation, self._spot)

    @property
    def is_frame(self) -> bool:
        """Whether what stands beside is what something else of the clause is a part of."""
        return self.beside is not None and self._reading.is_frame(self.beside.at, self._citation.at)

    @property
    def is_part(self) -> bool:
        """Whether a part of what stands beside may be meant."""
        return self.beside is not None and self._reading.is_part(self.beside.at, self._citation.at)

    @property
    def concept_is_apart(self) -> bool:
        """Whether words stand between the concept and what is named beside the citation."""
        last = self._said.last
        if self.beside is None or not 0 < last < self.beside.at[0]:
            return False
        return self._reading.words(last, self.beside.at[0])

    @property
    def beside_is_word(self) -> bool:
        """Whether what stands beside is a word that may name a concept too."""
        return self.beside is not None and all(map(str.isalpha, self.beside.items))

    @cached_property
    def quotes(self) -> tuple[Quote, ...]:
        """Quoted text, surest first."""
        return tuple(self._reading.quoting.quotes(self._citation, self._spot))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the sentence, the nearest first."""
        return self._reading.naming.names(self._spot)

    @cached_property
    def sentence_names(self) -> tuple[str, ...]:
        """Names anywhere in the sentence: they may belong to another citation of it."""
        return self._reading.naming.all_names(self._spot.sentence)

    @cached_property
    def taken(self) -> frozenset[str]:
        """Names of the sentence that stand right before another citation."""
        return self._reading.naming.taken(self._spot)

    @cached_property
    def placed(self) -> frozenset[str]:
        """Names whose place it gives: the others can agree, and not disagree."""
        return self._reading.naming.placed(self._spot)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Words between Chinese text, the nearest first: enough to agree, and not to disagree."""
        return self._reading.naming.words(self._spot)

    @cached_property
    def clause(self) -> str:
        """The text of its clause."""
        return self._reading.clause(self._spot)

    @cached_property
    def defines(self) -> bool:
        """Whether its clause says that something is defined there."""
        return _DEFINED.search(self.clause) is not None

    @cached_property
    def piece(self) -> str:
        """What stands about it, up to the next comma on either side."""
        return self._reading.piece(self._spot)

    @cached_property
    def edge(self) -> str:
        """Whether its clause says that something begins ("first") or ends ("last") there."""
        return self._reading.edge(self._spot)

    @cached_property
    def told(self) -> tuple[str, ...]:
        """Concepts named before it: enough for a file as a whole."""
        return self._reading.naming.told(self._spot)

    @cached_property
    def hints(self) -> tuple[str, ...]:
        """Concepts that a common word may mean: enough to agree, and not to disagree."""
        return self._reading.naming.hints(self._spot)

    @cached_property
    def marked(self) -> tuple[str, ...]:
        """Names that are set as code: a file that lacks one is worth a warning."""
        return tuple(dict.fromkeys(self._reading.naming.marked(*self._spot.sentence)))

    @cached_property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """Table rows beside it, as cells."""
        return self._reading.quoting.rows(self._citation)

    @cached_property
    def around(self) -> str:
        """The text about it, for guessing where the right place may be."""
        return self._reading.around(self._citation, self._spot)
