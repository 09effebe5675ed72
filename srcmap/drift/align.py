"""Two lists of lines in, which line became which out: one monotone alignment.

First the lines that are equal but for white space, unique ones leading (patience); then, in the
gaps, the heaviest chain of pairs that look alike; then lines that were split or joined.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import Indel, LCSseq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from srcmap.drift.text import Text


class Target(NamedTuple):
    """Where one old line is in the new file, and how alike the two are, from 0 to 1."""

    first: int
    last: int
    likeness: float


Alignment = dict[int, Target]
"""Old line to its place; lines that are gone are not in it."""

Allowed = "Callable[[int, int], bool]"

_PER_LINE = 14
"""How many look-alikes of one line are weighed."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


class Gap(NamedTuple):
    """Runs of lines between two anchors: 1-based, `last` included, empty when last < first."""

    old_first: int
    old_last: int
    new_first: int
    new_last: int


# -- exact ----------------------------------------------------------------------------------


def equal_pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Pair equal items (0-based), as a histogram diff would: rare ones first, no crossing."""
    pairs: list[tuple[int, int]] = []
    work = [(0, len(old), 0, len(new))]
    while work:
        a, b, c, d = work.pop()
        while a < b and c < d and old[a] == new[c]:
            pairs.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
            pairs.append((b, d))
        if a < b and c < d:
            anchors = _unique_anchors(old, new, a, b, c, d)
            if not anchors:
                pairs.extend(_longest(old, new, a, b, c, d))
                continue
            for i, j in anchors:
                work.append((a, i, c, j))
                pairs.append((i, j))
                a, c = i + 1, j + 1
            work.append((a, b, c, d))
    return sorted(pairs)


def _unique_anchors(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int
) -> list[tuple[int, int]]:
    counts_old, counts_new = Counter(old[a:b]), Counter(new[c:d])
    where = {new[j]: j for j in range(c, d) if counts_new[new[j]] == 1}
    pairs = [
        (i, where[old[i]])
        for i in range(a, b)
        if counts_old[old[i]] == 1 and old[i] in where and len(old[i]) > 2
    ]
    return _increasing(pairs)


def _increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Keep the longest run of pairs that increases on both sides."""
    tails: list[int] = []
    at: list[int] = []
    back: list[int] = []
    for number, (_, j) in enumerate(pairs):
        place = bisect_left(tails, j)
        if place == len(tails):
            tails.append(j)
            at.append(number)
        else:
            tails[place] = j
            at[place] = number
        back.append(at[place - 1] if place else -1)
    chain: list[tuple[int, int]] = []
    number = at[-1] if at else -1
    while number >= 0:
        chain.append(pairs[number])
        number = back[number]
    return chain[::-1]


def _longest(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int
) -> Iterator[tuple[int, int]]:
    codes: dict[str, int] = {}
    left = [codes.setdefault(x, len(codes)) for x in old[a:b]]
    right = [codes.setdefault(x, len(codes)) for x in new[c:d]]
    if not set(left) & set(right):
        return
    for block in LCSseq.opcodes(left, right).as_matching_blocks():
        for step in range(block.size):
            yield a + block.a + step, c + block.b + step


# -- alike ----------------------------------------------------------------------------------


class Likeness:
    """How alike two lines of two texts are."""

    def __init__(self, old: Text, new: Text) -> None:
        self.old = old
        self.new = new
        self._counts = old.word_counts + new.word_counts
        self._known: dict[tuple[int, int], float] = {}
        self._norms: dict[tuple[bool, int], float] = {}

    def of(self, i: int, j: int) -> float:
        """Weigh line i of the old and j of the new text: 1 is equal but for white space."""
        found = self._known.get((i, j))
        if found is None:
            found = self._known[i, j] = self._measure(i, j)
        return found

    def _measure(self, i: int, j: int) -> float:
        if self.old.keys[i - 1] == self.new.keys[j - 1]:
            return 1.0
        if self.old.telling[i - 1] and self.old.codes[i - 1] == self.new.codes[j - 1] != "":
            return 0.97
        ratio = fuzz.ratio(self.old.bare[i - 1], self.new.bare[j - 1], score_cutoff=50) / 100
        if ratio < 0.5:
            return 0.0
        return min(0.99, ratio * (0.35 + 0.65 * self._cosine(i, j)))

    def weight(self, word: str) -> float:
        """Weigh a word: the rarer, the more."""
        return 1.0 / math.sqrt(self._counts.get(word, 1) or 1)

    def _cosine(self, i: int, j: int) -> float:
        left, right = set(self.old.words[i - 1]), set(self.new.words[j - 1])
        common = sum(self.weight(w) ** 2 for w in left & right)
        norm = self._norm(True, i, left) * self._norm(False, j, right)
        return common / norm if norm else 0.0

    def _norm(self, is_old: bool, line: int, words: set[str]) -> float:
        found = self._norms.get((is_old, line))
        if found is None:
            found = math.sqrt(sum(self.weight(w) ** 2 for w in words))
            self._norms[is_old, line] = found
        return found


class Aligner:
    """Aligns runs of lines of two texts."""

    def __init__(
        self,
        likeness: Likeness,
        allowed: Callable[[int, int, float], bool] = lambda i, j, like: True,  # noqa: ARG005
    ) -> None:
        self._like = likeness
        self._old = likeness.old
        self._new = likeness.new
        self._allowed = allowed

    def anchored(self, whole: Gap) -> Alignment:
        """Align equal lines first, then what is alike between them."""
        o, n = self._old.keys, self._new.keys
        pairs = equal_pairs(
            o[whole.old_first - 1 : whole.old_last], n[whole.new_first - 1 : whole.new_last]
        )
        found: Alignment = {}
        last_i, last_j = whole.old_first - 1, whole.new_first - 1
        ends = [(i + whole.old_first, j + whole.new_first) for i, j in pairs]
        for i, j in [*ends, (whole.old_last + 1, whole.new_last + 1)]:
            if i > last_i + 1 and j > last_j + 1:
                found.update(self.chained(Gap(last_i + 1, i - 1, last_j + 1, j - 1)))
            if i <= whole.old_last:
                found[i] = Target(j, j, 1.0)
            last_i, last_j = i, j
        return found

    def chained(self, gap: Gap) -> Alignment:
        """Align by the heaviest chain of pairs, equal or alike; then split and joined lines."""
        size = (gap.old_last - gap.old_first + 1) * (gap.new_last - gap.new_first + 1)
        if size > 400_000:
            return self.anchored_only(gap)
        pairs = self._pairs(gap)
        found = {i: Target(j, j, self._like.of(i, j)) for i, j in _heaviest(pairs)}
        self._regrouped(gap, found)
        self._widened(gap, found)
        return found

    def anchored_only(self, gap: Gap) -> Alignment:
        o, n = self._old.keys, self._new.keys
        old, new = o[gap.old_first - 1 : gap.old_last], n[gap.new_first - 1 : gap.new_last]
        anchors = _unique_anchors(old, new, 0, len(old), 0, len(new))
        if not anchors:
            pairs = equal_pairs(old, new)
            return {
                i + gap.old_first: Target(j + gap.new_first, j + gap.new_first, 1.0)
                for i, j in pairs
            }
        found: Alignment = {}
        last_i, last_j = gap.old_first - 1, gap.new_first - 1
        ends = [(i + gap.old_first, j + gap.new_first) for i, j in anchors]
        for i, j in [*ends, (gap.old_last + 1, gap.new_last + 1)]:
            if i > last_i + 1 and j > last_j + 1:
                found.update(self.chained(Gap(last_i + 1, i - 1, last_j + 1, j - 1)))
            if i <= gap.old_last:
                found[i] = Target(j, j, 1.0)
            last_i, last_j = i, j
        return found

    def _pairs(self, gap: Gap) -> dict[tuple[int, int], float]:
        new = self._new
        by_key: dict[str, list[int]] = defaultdict(list)
        by_word: dict[str, list[int]] = defaultdict(list)
        for j in range(gap.new_first, gap.new_last + 1):
            if new.keys[j - 1]:
                by_key[new.keys[j - 1]].append(j)
            for word in new.parts[j - 1]:
                by_word[word].append(j)
        raw: dict[tuple[int, int], float] = {}
        for i in range(gap.old_first, gap.old_last + 1):
            for j in self._partners(i, gap, by_key, by_word):
                like = self._like.of(i, j)
                if like > 0 and self._allowed(i, j, like):
                    raw[i, j] = like
        return {pair: self._pull(pair, like, raw) for pair, like in raw.items()}

    def _partners(
        self, i: int, gap: Gap, by_key: dict[str, list[int]], by_word: dict[str, list[int]]
    ) -> list[int]:
        old = self._old
        equal = by_key.get(old.keys[i - 1], [])
        span = max(gap.old_last - gap.old_first, 1)
        at = gap.new_first + (i - gap.old_first) / span * (gap.new_last - gap.new_first)
        if len(equal) > 30:
            equal = sorted(equal, key=lambda j: abs(j - at))[:30]
        if not old.telling[i - 1]:
            return equal
        shared: dict[int, float] = defaultdict(float)
        for word in old.parts[i - 1]:
            homes = by_word.get(word, ())
            if len(homes) <= 200:
                weight = self._like.weight(word) ** 2
                for j in homes:
                    shared[j] += weight
        best = sorted(shared, key=lambda j: (-shared[j], abs(j - at)))[:_PER_LINE]
        return [*equal, *(j for j in best if j not in equal)]

    def _pull(self, pair: tuple[int, int], like: float, raw: dict[tuple[int, int], float]) -> float:
        i, j = pair
        if not self._old.telling[i - 1]:
            weight = 0.2
        else:
            weight = 1.25 if like == 1.0 else like
            if len(self._old.bare[i - 1]) < 12:
                weight *= 0.7
            count = max(
                self._old.key_counts[self._old.keys[i - 1]],
                self._new.key_counts[self._new.keys[j - 1]],
            )
            if count > 2:
                weight /= 1 + 0.5 * math.log(count - 1)
        bonus = 1.0
        for step, share in ((1, 0.25), (2, 0.1), (3, 0.05)):
            for side in (step, -step):
                near = raw.get((i + side, j + side), 0.0)
                if near > 0.8:
                    bonus += share * ((near - 0.8) / 0.2) ** 1.5
        return weight * bonus

    def _regrouped(self, gap: Gap, found: Alignment) -> None:
        """Find the old lines whose tokens stand in lines cut at other places."""
        free = [i for i in range(gap.old_first, gap.old_last + 1) if self._regroupable(i, found)]
        if not free or gap.old_last - gap.old_first > 300 or gap.new_last - gap.new_first > 300:
            return
        for first, last in _runs(free):
            low = max((found[i].last for i in found if i < first), default=gap.new_first - 1)
            high = min((found[i].first for i in found if i > last), default=gap.new_last + 1)
            # The lines next to the run may have taken in a part of it.
            start = low if first - 1 in found and found[first - 1].likeness < 1 else low + 1
            end = high if last + 1 in found and found[last + 1].likeness < 1 else high - 1
            if max(start, gap.new_first) <= min(end, gap.new_last):
                self._by_tokens(
                    first, last, max(start, gap.new_first), min(end, gap.new_last), found
                )

    def _widened(self, gap: Gap, found: Alignment) -> None:
        """Let a line that was cut in pieces have all of its pieces."""
        loose = [i for i, t in found.items() if t.likeness < 0.97 and self._old.telling[i - 1]]
        if not loose:
            return
        used = {j for t in found.values() for j in range(t.first, t.last + 1)}
        for i in loose:
            mine = found[i]
            first, last = mine.first, mine.last
            while first > gap.new_first and first - 1 not in used and mine.first - first < 16:
                first -= 1
            while last < gap.new_last and last + 1 not in used and last - mine.last < 16:
                last += 1
            if (first, last) != (mine.first, mine.last):
                wider = self._pieces(i, first, last)
                if wider is not None:
                    found[i] = wider
                    used.update(range(wider.first, wider.last + 1))

    def _pieces(self, i: int, first: int, last: int) -> Target | None:
        """Give the run of lines that holds the tokens of one old line, and hardly any other."""
        left = _TOKEN.findall(self._old.lines[i - 1])
        right = [
            (t, j) for j in range(first, last + 1) for t in _TOKEN.findall(self._new.lines[j - 1])
        ]
        if len(left) < 4 or len(left) * len(right) > 100_000:
            return None
        blocks = Indel.opcodes(left, [t for t, _ in right]).as_matching_blocks()
        lines = [right[b.b + step][1] for b in blocks for step in range(b.size)]
        if len(lines) < 0.95 * len(left):
            return None
        run = (min(lines), self._closed(i, min(lines), max(lines), last))
        size = sum(run[0] <= j <= run[1] for _, j in right)
        return Target(*run, 0.95) if len(lines) >= 0.75 * size else None

    def _closed(self, i: int, first: int, last: int, limit: int) -> int:
        """Take in the line of closing brackets that a formatter puts below."""
        text = "".join(self._new.lines[first - 1 : last])
        open_now = _balance(text) - _balance(self._old.lines[i - 1])
        beside = self._new.keys[last] if last < limit else ""
        return last + 1 if open_now > 0 and beside and not beside.strip(")]},:;") else last

    def _regroupable(self, i: int, found: Alignment) -> bool:
        return i not in found and bool(self._old.keys[i - 1])

    def _by_tokens(self, a: int, b: int, c: int, d: int, found: Alignment) -> None:
        left = [(t, i) for i in range(a, b + 1) for t in _TOKEN.findall(self._old.lines[i - 1])]
        right = [(t, j) for j in range(c, d + 1) for t in _TOKEN.findall(self._new.lines[j - 1])]
        if not left or not right or len(left) * len(right) > 1_000_000:
            return
        hits: dict[int, list[int]] = defaultdict(list)
        blocks = Indel.opcodes([t for t, _ in left], [t for t, _ in right]).as_matching_blocks()
        for block in blocks:
            for step in range(block.size):
                hits[left[block.a + step][1]].append(right[block.b + step][1])
        sizes = Counter(i for _, i in left)
        for i, places in hits.items():
            share = len(places) / sizes[i]
            if self._old.telling[i - 1] and share >= 0.7 and self._spoken(i, places):
                found[i] = Target(min(places), max(places), min(share, 0.99) * 0.9)

    def _spoken(self, i: int, places: list[int]) -> bool:
        """Whether the words, and not the brackets alone, are there."""
        there = {w for j in set(places) for w in self._new.words[j - 1]}
        words = self._old.words[i - 1]
        wide = max(places) - min(places) <= 16
        return wide and sum(w in there for w in words) >= 0.6 * len(words)


def _balance(text: str) -> int:
    """Count how many brackets are open at the end of a text."""
    return sum(text.count(c) for c in "([{") - sum(text.count(c) for c in ")]}")


def _heaviest(pairs: dict[tuple[int, int], float]) -> list[tuple[int, int]]:
    """Choose the chain of pairs, increasing on both sides, that weighs most."""
    if not pairs:
        return []
    columns = {j: n for n, j in enumerate(sorted({j for _, j in pairs}), 1)}
    tree: list[tuple[float, int]] = [(0.0, -1)] * (len(columns) + 1)
    ordered = sorted(pairs, key=lambda p: (p[0], -p[1]))
    back: list[int] = []
    best = (0.0, -1)
    for number, (i, j) in enumerate(ordered):
        place = columns[j]
        reach = (0.0, -1)
        at = place - 1
        while at > 0:
            reach = max(reach, tree[at])
            at -= at & -at
        total = (reach[0] + pairs[i, j], number)
        back.append(reach[1])
        best = max(best, total)
        at = place
        while at <= len(columns):
            tree[at] = max(tree[at], total)
            at += at & -at
    chain = []
    number = best[1]
    while number >= 0:
        chain.append(ordered[number])
        number = back[number]
    return chain[::-1]


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Join consecutive numbers."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
