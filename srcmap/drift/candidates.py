"""An alignment and a range in, the place of the range by that alignment out, and how good it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from srcmap.model import Lines

if TYPE_CHECKING:
    from srcmap.drift.align import Alignment
    from srcmap.drift.pair import FilePair

_AROUND = 8
"""Telling lines on each side that count as context."""


class Candidate(NamedTuple):
    """A place in a new file."""

    path: str
    lines: Lines
    content: float
    """How much of the range is there, from 0 to 1."""
    context: float
    """How much of what stood around it stands around it now."""
    structure: float
    """1: inside what its definition became; 0.2: inside another one."""
    method: str
    exact: float
    """Share of the telling lines that are equal but for white space."""
    tight: bool
    """The nearest telling lines on both sides are there, and nothing came between."""

    @property
    def score(self) -> float:
        """One number to rank by."""
        bonus = 0.08 if self.method == "scope" else 0.0
        return 0.5 * self.content + 0.3 * self.context + 0.2 * self.structure + bonus


def candidate(
    pair: FilePair, lines: Lines, aligned: Alignment, method: str, matched: int | None
) -> Candidate | None:
    """Place a range by one alignment; None when the alignment has nothing of it.

    `matched` is the new definition that belongs to the range's own; None: not known.
    """
    telling = pair.old.telling_lines(lines) or [
        n for n in range(lines.first, lines.last + 1) if pair.old.keys[n - 1]
    ]
    mapped = [n for n in telling if n in aligned]
    if not mapped:
        return None
    first = min(aligned[n].first for n in mapped)
    last = max(aligned[n].last for n in mapped)
    first = _first_edge(pair, lines, aligned, mapped[0], first)
    last = _last_edge(pair, lines, aligned, mapped[-1], last)
    last = _closing(pair, aligned, lines.last, last)
    place = Lines(first, last)
    weights = {n: line_weight(pair, n) for n in telling}
    total = sum(weights.values())
    content = sum(weights[n] * aligned[n].likeness for n in mapped) / total
    exact = sum(aligned[n].likeness == 1.0 for n in mapped) / len(telling)
    context, tight = _context(pair, lines, aligned, place)
    structure = _structure(pair, place, matched)
    return Candidate(pair.new.path, place, content, context, structure, method, exact, tight)


def line_weight(pair: FilePair, line: int) -> float:
    """Weigh a line of the range: rare and long lines say more, comments less."""
    count = pair.old.key_counts[pair.old.keys[line - 1]]
    weight = 1 / (1 + 0.3 * math.log(count))
    if pair.old.is_comment(line):
        weight *= 0.5
    return weight * (0.6 if len(pair.old.bare[line - 1]) < 12 else 1.0)


# -- edges ----------------------------------------------------------------------------------


def _first_edge(pair: FilePair, lines: Lines, aligned: Alignment, start: int, first: int) -> int:
    """Take in what belongs to the range above its first telling line that was found."""
    old = pair.old
    before = list(range(lines.first, start))
    if not before:
        return first
    lost = [n for n in before if old.telling[n - 1]]
    if not lost:
        return _trivial(before[::-1], aligned, first, -1, pair)
    above = next((n for n in range(lines.first - 1, 0, -1) if n in aligned), None)
    floor = aligned[above].last + 1 if above is not None and aligned[above].last < first else None
    if floor is None:
        return first
    old_gap = [n for n in range((above or 0) + 1, start) if old.telling[n - 1]]
    new_gap = [n for n in range(floor, first) if pair.new.telling[n - 1]]
    return _by_position(old_gap, new_gap, lost[0], first)


def _last_edge(pair: FilePair, lines: Lines, aligned: Alignment, stop: int, last: int) -> int:
    old = pair.old
    after = list(range(stop + 1, lines.last + 1))
    if not after:
        return last
    lost = [n for n in after if old.telling[n - 1]]
    if not lost:
        return _trivial(after, aligned, last, 1, pair)
    end = len(old.lines) + 1
    below = next((n for n in range(lines.last + 1, end) if n in aligned), None)
    ceiling = aligned[below].first - 1 if below and aligned[below].first > last else None
    if ceiling is None:
        return last
    old_gap = [n for n in range(stop + 1, below or end) if old.telling[n - 1]]
    new_gap = [n for n in range(last + 1, ceiling + 1) if pair.new.telling[n - 1]]
    return _by_position(old_gap[::-1], new_gap[::-1], lost[-1], last)


def _closing(pair: FilePair, aligned: Alignment, old_last: int, last: int) -> int:
    """Follow a statement that ended the range and goes on now, over lines that are nothing else's.

    `});` was cut into `})` and `;`, or a C++ statement got another line before its semicolon.
    """
    ending = pair.old.keys[old_last - 1]
    if not ending.endswith(";") or pair.new.keys[last - 1].endswith((";", "{", "}", ",", "(")):
        return last
    claimed = {j for t in aligned.values() for j in range(t.first, t.last + 1)}
    for line in range(last + 1, min(last + 6, len(pair.new.lines)) + 1):
        if line in claimed or not pair.new.keys[line - 1]:
            return last
        if pair.new.keys[line - 1].endswith(";"):
            return line
    return last


def _trivial(lines: list[int], aligned: Alignment, edge: int, step: int, pair: FilePair) -> int:
    """Take in blank lines and lone brackets next to the edge."""
    for n in lines:
        key = pair.old.keys[n - 1]
        if n in aligned:
            place = aligned[n].first if step < 0 else aligned[n].last
            if 0 < (place - edge) * step <= 3:
                edge = place
                continue
        beside = edge + step
        if not 0 < beside <= len(pair.new.lines) or pair.new.keys[beside - 1] != key:
            break
        edge = beside
    return edge


def _by_position(old_gap: list[int], new_gap: list[int], wanted: int, edge: int) -> int:
    """Pair what was replaced line for line, where both sides have as many lines."""
    if not new_gap or wanted not in old_gap:
        return edge
    at = old_gap.index(wanted)
    if len(old_gap) == len(new_gap) and len(old_gap) <= 6:
        return new_gap[at]
    if at == 0 and len(new_gap) <= len(old_gap) + 2:
        return new_gap[0]
    return edge


# -- context and structure -------------------------------------------------------------------


def _context(pair: FilePair, lines: Lines, aligned: Alignment, place: Lines) -> tuple[float, bool]:
    above, near_above = _side(pair, aligned, place.first, lines.first, -1)
    below, near_below = _side(pair, aligned, place.last, lines.last, 1)
    weight = above[1] + below[1]
    score = (above[0] + below[0]) / weight if weight else 0.5
    return score, near_above and near_below


def _side(
    pair: FilePair, aligned: Alignment, edge: int, old_edge: int, step: int
) -> tuple[tuple[float, float], bool]:
    """Sum what is there and what could be there on one side; and whether the nearest is near."""
    hit = total = 0.0
    seen, near = 0, False
    n = old_edge + step
    while 0 < n <= len(pair.old.lines) and seen < _AROUND and abs(n - old_edge) < 40:
        if pair.old.telling[n - 1]:
            weight = 0.85**seen / (1 + math.log(pair.old.key_counts[pair.old.keys[n - 1]]))
            total += weight
            target = aligned.get(n)
            if target is not None:
                distance = ((target.last if step < 0 else target.first) - edge) * step
                if 0 < distance <= 2 * abs(n - old_edge) + 6:
                    hit += weight * target.likeness
                    if seen == 0:
                        near = target.likeness >= 0.8 and distance <= abs(n - old_edge) + 1
            seen += 1
        n += step
    if seen == 0:
        near = edge + step < 1 or edge + step > len(pair.new.lines)
    return (hit, total), near


def _structure(pair: FilePair, place: Lines, matched: int | None) -> float:
    mine = pair.new.scope_of(place)
    if matched is None:
        return 0.6
    while mine >= 0 and mine != matched:
        mine = pair.new.scopes[mine].parent
    return 1.0 if mine == matched else 0.2
