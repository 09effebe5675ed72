"""A range that is not where it was: which added lines of the new tree are it, if any."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from srcmap.drift.align import Aligner, Gap
from srcmap.drift.candidates import Candidate, candidate
from srcmap.model import Lines

if TYPE_CHECKING:
    from srcmap.drift.align import Alignment
    from srcmap.drift.pair import FilePair
    from srcmap.drift.scopes import Scope
    from srcmap.drift.text import Text
    from srcmap.drift.trees import Trees

_AROUND = 10
_TRIED = 6
_ELSEWHERE = 0.6
_HERE = 0.5


class Move(NamedTuple):
    """A place to which a range may have moved."""

    found: Candidate
    recall: float
    """Share of the rare words of the range that are there."""
    evidence: float
    """How many rare lines of the paragraph are there, each counted by its rareness."""
    unique: bool
    """A line of the range is there that both trees have once."""
    scope: float
    """How alike the definition there is to the one that the range was in."""
    link: float
    """Share of what stood around the range that is around it there."""
    accepted: bool


def moves(trees: Trees, path: str, lines: Lines) -> list[Move]:
    """Find places of added lines that hold the range, best first."""
    old = trees.old_text(path)
    found = [*_with_scope(trees, path, lines), *_paragraphs(trees, old, path, lines)]
    unique: dict[tuple[str, int], Move] = {}
    for move in sorted(found, key=_rank, reverse=True):
        key = (move.found.path, move.found.lines.first)
        overlapping = any(
            m.found.path == move.found.path and m.found.lines.overlap(move.found.lines) > 0
            for m in unique.values()
        )
        if not overlapping:
            unique.setdefault(key, move)
    return sorted(unique.values(), key=_rank, reverse=True)


def _rank(move: Move) -> tuple[bool, float]:
    return (move.accepted, move.found.score + 0.3 * min(move.scope, 1.0))


# -- with the definition --------------------------------------------------------------------


def _with_scope(trees: Trees, path: str, lines: Lines) -> list[Move]:
    """Follow the definition around the range to where its lines were added."""
    old = trees.old_text(path)
    number = old.scope_of(lines)
    home = trees.counterpart(path)
    while number >= 0:
        scope = old.scopes[number]
        if home is not None and number in trees.pair(path, home).scopes:
            return []
        if scope.last - scope.first >= 2:
            hits = _scope_hits(trees, path, number, home)
            if hits:
                return [m for hit in hits if (m := _inside(trees, path, lines, number, *hit))]
        number = scope.parent
        if number >= 0 and old.scopes[number].last - old.scopes[number].first > 600:
            break
    return []


def _scope_hits(
    trees: Trees, path: str, number: int, home: str | None
) -> list[tuple[str, int, float]]:
    """Rank the definitions among the added lines by how alike they are."""
    old = trees.old_text(path)
    scope = old.scopes[number]
    span = [n for n in range(scope.first, scope.last + 1) if old.telling[n - 1]]
    if not span:
        return []
    dropped = sum(not trees.stays(path, n) for n in span) / len(span)
    bag = Counter(old.keys[n - 1] for n in span)
    votes: dict[tuple[str, int], float] = defaultdict(float)
    for key, count in bag.items():
        places = trees.free.get(key, ())
        if len(places) > 60:
            continue
        weight = min(count, 1) / max(len(places), trees.old_counts[key], 1)
        for there, line in places:
            text = trees.new_text(there)
            inner = text.scope_at(line)
            while inner >= 0:
                votes[there, inner] += weight
                inner = text.scopes[inner].parent
    ranked = sorted(votes, key=lambda k: -votes[k])[:12]
    scored = []
    for there, inner in ranked:
        if there != home and dropped < 0.7:
            continue
        score = _scope_dice(trees, bag, there, inner)
        score += _named_alike(scope, trees.new_text(there).scopes[inner])
        score += 0.15 if there == home else 0.0
        if score >= (_HERE if there == home else _ELSEWHERE):
            scored.append((there, inner, score))
    return sorted(scored, key=lambda s: -s[2])[:3]


def _named_alike(old: Scope, new: Scope) -> float:
    if old.name != new.name:
        return 0.0
    return 0.3 if old.qualname == new.qualname else 0.2


def _scope_dice(trees: Trees, bag: Counter[str], path: str, number: int) -> float:
    text = trees.new_text(path)
    scope = text.scopes[number]
    span = range(scope.first - 1, min(scope.last, len(text.lines)))
    other = Counter(text.keys[n] for n in span if text.telling[n])

    def weight(key: str) -> float:
        return 1 / max(len(trees.free.get(key, ())), trees.old_counts[key], 1)

    common = sum(min(c, other[k]) * weight(k) for k, c in bag.items() if k in other)
    total = sum(c * weight(k) for k, c in bag.items()) + sum(
        c * weight(k) for k, c in other.items()
    )
    return 2 * common / total if total else 0.0


def _inside(
    trees: Trees, path: str, lines: Lines, number: int, there: str, inner: int, score: float
) -> Move | None:
    pair = trees.pair(path, there)
    found = candidate(pair, lines, pair.inside(number, inner), "move", inner)
    if found is None:
        return None
    recall, evidence, unique = _recall(trees, pair, lines, found.lines)
    good = found.content >= 0.35 or (recall >= 0.5)
    return Move(found, recall, evidence, unique, score, found.context, good)


# -- without it -----------------------------------------------------------------------------


def _paragraphs(trees: Trees, old: Text, path: str, lines: Lines) -> list[Move]:
    """Let the added lines vote for a place; then align the range with what is there."""
    votes: dict[tuple[str, int], float] = defaultdict(float)
    for n in range(lines.first - _AROUND, lines.last + _AROUND + 1):
        if not 0 < n <= len(old.lines) or not old.telling[n - 1]:
            continue
        inside = lines.first <= n <= lines.last
        if not inside and trees.stays(path, n):
            continue
        key = old.keys[n - 1]
        places = trees.free.get(key, ())
        if not places or len(places) > 80:
            continue
        weight = (1.0 if inside else 0.5) / max(len(places), trees.old_counts[key], 1)
        for there, line in places:
            slot = (line - (n - lines.first)) // 4
            votes[there, slot] += weight
            votes[there, slot + 1] += weight * 0.6
            votes[there, slot - 1] += weight * 0.6
    best = sorted(votes, key=lambda k: -votes[k])
    tried: list[tuple[str, int]] = []
    for there, slot in best:
        if any(there == p and abs(slot - s) < 4 for p, s in tried):
            continue
        tried.append((there, slot))
        if len(tried) >= _TRIED:
            break
    found = (_placed(trees, path, lines, there, slot * 4) for there, slot in tried)
    return [move for move in found if move is not None]


def _placed(trees: Trees, path: str, lines: Lines, there: str, start: int) -> Move | None:
    pair = trees.pair(path, there)
    size = lines.last - lines.first + 1
    gap = Gap(
        max(1, lines.first - _AROUND),
        min(len(pair.old.lines), lines.last + _AROUND),
        max(1, start - _AROUND - size // 2),
        min(len(pair.new.lines), start + size + _AROUND + size // 2),
    )
    free = trees.free_lines.get(there, set())

    def allowed(i: int, j: int, like: float) -> bool:  # noqa: ARG001
        return j in free or not pair.new.telling[j - 1]

    aligned = Aligner(pair.likeness, allowed).chained(gap)
    around_it = pair.old.scope_of(lines)
    match = pair.named_scopes.get(around_it) if around_it >= 0 else None
    found = candidate(pair, lines, aligned, "move", match)
    if found is None:
        return None
    recall, evidence, unique = _recall(trees, pair, lines, found.lines)
    same_file = trees.counterpart(path) == there
    around = _paragraph_recall(pair, lines, aligned)
    inside = match is not None and found.structure == 1.0 and found.context >= 0.2
    accepted = (
        recall >= 0.55
        and found.content >= 0.35
        and (unique or (around >= 0.72 and evidence >= 0.8) or inside)
    )
    anchored = _anchored(trees, pair, lines, aligned, found.lines)
    if accepted and not same_file and not anchored:
        accepted = found.context >= 0.5 and (
            len(pair.old.telling_lines(lines)) > 3 or _left(trees, path, lines)
        )
    if not same_file and _rare_line_stays(trees, path, lines):
        accepted = anchored = False
    accepted = accepted or (anchored and recall >= 0.55 and found.content >= 0.8)
    scope = 0.7 if anchored else 0.0
    return Move(found, recall, evidence, unique, scope, found.context, accepted)


def _anchored(trees: Trees, pair: FilePair, lines: Lines, aligned: Alignment, place: Lines) -> bool:
    """Whether the paragraph has a line that both trees have once, and it came along."""
    here = _paragraph(pair.new, place)
    for n in range(*_ends(_paragraph(pair.old, lines))):
        target = aligned.get(n)
        key = pair.old.keys[n - 1]
        if target is None or target.likeness < 1.0 or len(key) < 12:
            continue
        once = trees.old_counts[key] == 1 and len(trees.free.get(key, ())) == 1
        if once and here.first <= target.first <= here.last:
            return True
    return False


def _paragraph(text: Text, lines: Lines) -> Lines:
    """Give the lines around a range up to the next blank ones, at most a dozen away."""
    first, last = lines.first, min(lines.last, len(text.lines))
    while first > 1 and text.keys[first - 2] and lines.first - first < 12:
        first -= 1
    while last < len(text.lines) and text.keys[last] and last - lines.last < 12:
        last += 1
    return Lines(first, last)


def _ends(lines: Lines) -> tuple[int, int]:
    return lines.first, lines.last + 1


def _left(trees: Trees, path: str, lines: Lines) -> bool:
    """Whether the definition around a range has left its file, and not a few of its lines only."""
    old = trees.old_text(path)
    number = old.scope_of(lines)
    if number < 0 or old.scopes[number].last - old.scopes[number].first > 300:
        return True
    scope = old.scopes[number]
    span = old.telling_lines(Lines(scope.first, scope.last))
    return sum(not trees.stays(path, n) for n in span) >= 0.5 * len(span)


def _rare_line_stays(trees: Trees, path: str, lines: Lines) -> bool:
    old = trees.old_text(path)
    return any(
        trees.stays(path, n) and trees.old_counts[old.keys[n - 1]] <= 2
        for n in old.telling_lines(lines)
    )


def _recall(trees: Trees, pair: FilePair, lines: Lines, place: Lines) -> tuple[float, float, bool]:
    """Say how many rare words and lines of the range are in a place."""
    old, new = pair.old, pair.new
    there = {w for n in range(place.first, place.last + 1) for w in new.words[n - 1]}
    keys = {new.keys[n - 1] for n in range(place.first, place.last + 1)}
    total = hit = evidence = 0.0
    unique = False
    telling = old.telling_lines(lines)
    code = [n for n in telling if not old.is_comment(n)]
    for n in code or telling:
        for word in set(old.words[n - 1]):
            weight = 1 / math.sqrt(old.word_counts[word])
            total += weight
            hit += weight * (word in there)
        key = old.keys[n - 1]
        if key in keys:
            count = max(trees.old_counts[key], len(trees.free.get(key, ())), 1)
            evidence += 1 / count
            unique = unique or (count == 1 and len(key) >= 12)
    return (hit / total if total else 0.0), evidence, unique


def _paragraph_recall(pair: FilePair, lines: Lines, aligned: Alignment) -> float:
    first, last = max(1, lines.first - 3), min(len(pair.old.lines), lines.last + 3)
    telling = pair.old.telling_lines(Lines(first, last))
    return sum(n in aligned for n in telling) / len(telling) if telling else 0.0
