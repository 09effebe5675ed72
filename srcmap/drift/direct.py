"""One range of the old tree in, its place in the new tree by content, context and structure out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from srcmap.drift.candidates import Candidate, candidate
from srcmap.drift.moves import Move, moves
from srcmap.model import Lines

if TYPE_CHECKING:
    from srcmap.drift.pair import FilePair
    from srcmap.drift.trees import Trees

_CLOSE = 0.07
_WEAK_CONTENT, _WEAK_CONTEXT = 0.72, 0.35


class Direct(NamedTuple):
    """What direct tracking says of one range."""

    status: str
    """identical, found, removed or refused."""
    best: Candidate | None
    others: tuple[Candidate, ...] = ()
    bits: tuple[str, ...] = ()
    """The maps that agree on the place: lines, scope, move."""
    why: str = ""
    """For removed and refused: the key of the reason."""
    near: Lines | None = None
    """For removed: the lines that stand there instead, in the counterpart file."""
    home: str | None = None
    trace: float = 0.0
    """For removed: the share of its rare words at the best place elsewhere."""


def track(trees: Trees, path: str, lines: Lines) -> Direct:
    """Find what became of a range. The path must be in the old tree."""
    home = trees.counterpart(path)
    if home is not None and trees.new.blobs[home] == trees.old.blobs[path]:
        same = Candidate(home, lines, 1.0, 1.0, 1.0, "identical", 1.0, tight=True)
        return Direct("identical", same, bits=("identical",), home=home)
    here = _candidates(trees.pair(path, home), lines) if home is not None else []
    best = here[0] if here else None
    if best is not None and best.content >= _WEAK_CONTENT and best.context >= _WEAK_CONTEXT:
        return _settled(here, home)
    return _look_further(trees, path, lines, home, here)


def _candidates(pair: FilePair, lines: Lines) -> list[Candidate]:
    """Place the range by the whole files and by the definition around it, best first."""
    scope = pair.old.scope_of(lines)
    matched, outer = None, scope
    while outer >= 0 and matched is None:
        if outer in pair.scopes:
            matched = pair.scopes[outer][0]
        else:
            outer = pair.old.scopes[outer].parent
    found = [candidate(pair, lines, pair.lines, "lines", matched)]
    if matched is not None:
        found.append(candidate(pair, lines, pair.inside(outer, matched), "scope", matched))
    return sorted((c for c in found if c), key=lambda c: -c.score)


def _settled(here: list[Candidate], home: str | None) -> Direct:
    best = here[0]
    bits = tuple(c.method for c in here if c.lines == best.lines)
    others = tuple(c for c in here[1:] if c.lines != best.lines)
    apart = [c for c in others if c.lines.overlap(best.lines) == 0]
    close = 0.15 if best.lines.first == best.lines.last else _CLOSE
    if any(c.score > best.score - close for c in apart) and best.exact < 1:
        return Direct("refused", best, tuple(others), bits, "twins", home=home)
    if any(c.score > best.score - _CLOSE for c in apart):
        return Direct("refused", best, tuple(others), bits, "twins", home=home)
    return Direct("found", best, others, bits, home=home)


def _look_further(
    trees: Trees, path: str, lines: Lines, home: str | None, here: list[Candidate]
) -> Direct:
    best = here[0] if here else None
    elsewhere = moves(trees, path, lines)
    moved = _moved(here, elsewhere, home)
    if moved is not None:
        return moved
    if best is not None and _holds(best):
        return _settled(here, home)
    if home is None:
        return _without_file(elsewhere)
    if any(_likely(m) for m in elsewhere):
        return _copies(elsewhere, here, home)
    return _replaced(trees.pair(path, home), lines, home, here, elsewhere)


def _moved(here: list[Candidate], elsewhere: list[Move], home: str | None) -> Direct | None:
    """Take an accepted move that is better than what stayed; refuse where two are as good."""
    accepted = [m for m in elsewhere if m.accepted]
    if not accepted or (here and here[0].score >= accepted[0].found.score):
        return None
    top = accepted[0]
    rivals = [m for m in accepted[1:] if _strength(m) > _strength(top) - _CLOSE]
    if rivals:
        found = tuple(m.found for m in rivals)
        return Direct("refused", top.found, found, ("move",), "twins", home=home)
    others = (*here, *(m.found for m in elsewhere if m is not top))
    agree = tuple(c.method for c in here if c.path == top.found.path and c.lines == top.found.lines)
    return Direct("found", top.found, others, ("move", *agree), home=home)


def _strength(move: Move) -> float:
    return move.found.score + 0.3 * move.scope


def _holds(best: Candidate) -> bool:
    """Whether a weak candidate is still the best reading."""
    if best.content >= 0.5:
        return best.context >= 0.15 or best.structure >= 0.8
    return best.content >= 0.3 and (best.context >= 0.35 or best.structure >= 0.8)


def _likely(move: Move) -> bool:
    """Whether a move that was not accepted is too good to say that the range is gone."""
    found = move.found
    good = move.recall >= 0.7 and found.content >= 0.7 and found.context >= 0.35
    # A line or two that half the tree has, such as a licence, went nowhere.
    return good and (move.evidence >= 0.05 or found.lines.last - found.lines.first > 2)


def _copies(elsewhere: list[Move], here: list[Candidate], home: str | None) -> Direct:
    """Take the one good place among added lines of the same file; refuse everything else."""
    ranked = sorted(elsewhere, key=lambda m: -m.found.score)
    top, rest = ranked[0], ranked[1:]
    others = (*(m.found for m in rest[:3]), *here)
    alone = not rest or (
        rest[0].found.score < top.found.score - _CLOSE
        and max(m.found.context for m in rest) < top.found.context - 0.15
    )
    if alone and top.found.path == home and top.found.exact == 1.0 and top.found.context >= 0.5:
        return Direct("found", top.found, others, ("move",), home=home)
    return Direct("refused", top.found, others, (), "copies", home=home)


def _without_file(elsewhere: list[Move]) -> Direct:
    if any(_likely(m) for m in elsewhere):
        return _copies(elsewhere, [], None)
    others = tuple(m.found for m in elsewhere[:3])
    return Direct("removed", None, others, (), "file-gone", trace=_trace(elsewhere))


def _trace(elsewhere: list[Move]) -> float:
    return max((max(m.recall, m.found.content) for m in elsewhere), default=0.0)


def _replaced(
    pair: FilePair, lines: Lines, home: str, here: list[Candidate], elsewhere: list[Move]
) -> Direct:
    """Look for something in the place of a range of which nothing is found."""
    others = (*here, *(m.found for m in elsewhere[:3]))
    gap = _gap(pair, lines)
    if gap is None:
        return Direct("removed", None, others, (), "no-trace", home=home)
    between, tight = gap
    telling = pair.new.telling_lines(between) if between else []
    if not telling:
        if swapped := _reordered(pair, lines, home):
            return Direct("found", swapped, others, ("move",), home=home)
        trace = max(_trace(elsewhere), here[0].content if here else 0.0)
        return Direct("removed", None, others, (), "taken-out", home=home, trace=trace)
    mine = pair.old.telling_lines(lines)
    place = Lines(telling[0], telling[-1])
    if swapped := _reordered(pair, lines, home):
        return Direct("found", swapped, others, ("move",), home=home)
    alone = _alone(pair, lines)
    if not (alone and len(mine) == len(telling) <= 3):
        place = _narrowed(pair, lines, place)
        recall = _word_recall(pair, lines, place)
        whole = alone and tight and len(telling) <= 2 * len(mine) + 1 and recall >= 0.3
        if whole:
            place = Lines(telling[0], telling[-1])
        elif recall < 0.5:
            near = Lines(telling[0], telling[-1])
            return Direct("removed", None, others, (), "rewritten", near=near, home=home)
    recall = _word_recall(pair, lines, place)
    found = Candidate(home, place, recall, 1.0 if tight else 0.5, 0.6, "gap", 0.0, tight)
    return Direct("found", found, others, ("gap",), home=home)


_REORDERED = 0.6


def _reordered(pair: FilePair, lines: Lines, home: str) -> Candidate | None:
    """Find a few lines that changed and changed places, inside what their definition became."""
    mine = pair.old.telling_lines(lines)
    scope = pair.old.scope_of(lines)
    if not mine or len(mine) > 3 or scope not in pair.scopes:
        return None
    if all(pair.old.is_comment(n) for n in mine):
        return None
    body = pair.new.scopes[pair.scopes[scope][0]]
    if body.last - body.first > 300:
        return None
    taken = {t.first for t in pair.lines.values()}
    free = [n for n in pair.new.telling_lines(Lines(body.first, body.last)) if n not in taken]
    scored = []
    for at in range(len(free) - len(mine) + 1):
        run = free[at : at + len(mine)]
        likes = [pair.likeness.of(i, j) for i, j in zip(mine, run, strict=True)]
        scored.append((sum(likes) / len(likes), Lines(run[0], run[-1])))
    scored.sort(key=lambda pair: -pair[0])
    if not scored or scored[0][0] < _REORDERED:
        return None
    if len(scored) > 1 and scored[1][0] > scored[0][0] - 0.1:
        return None
    like, place = scored[0]
    return Candidate(home, place, like, 0.5, 1.0, "move", 0.0, tight=False)


def _alone(pair: FilePair, lines: Lines) -> bool:
    """Whether the range is all that was taken out where it was."""
    above, below = lines.first - 1, lines.last + 1
    while above > 0 and not pair.old.telling[above - 1]:
        above -= 1
    while below <= len(pair.old.lines) and not pair.old.telling[below - 1]:
        below += 1
    return (above < 1 or above in pair.lines) and (
        below > len(pair.old.lines) or below in pair.lines
    )


def _gap(pair: FilePair, lines: Lines) -> tuple[Lines | None, bool] | None:
    """Give the new lines between the nearest neighbours that are there, and if those are close."""
    aligned = pair.lines
    above = next(
        (n for n in range(lines.first - 1, max(0, lines.first - 40), -1)
         if n in aligned and pair.old.telling[n - 1]), None)  # fmt: skip
    end = min(len(pair.old.lines), lines.last + 40)
    below = next(
        (n for n in range(lines.last + 1, end + 1)
         if n in aligned and pair.old.telling[n - 1]), None)  # fmt: skip
    if above is None and below is None:
        return None
    first = aligned[above].last + 1 if above is not None else 1
    last = aligned[below].first - 1 if below is not None else len(pair.new.lines)
    tight = _close(pair, above, lines.first, -1) and _close(pair, below, lines.last, 1)
    return (Lines(first, last) if first <= last else None), tight


def _close(pair: FilePair, line: int | None, edge: int, step: int) -> bool:
    """Whether a neighbour is the next telling line, and is there unchanged."""
    if line is None:
        return edge + step < 1 or edge + step > len(pair.old.lines)
    between = range(edge + step, line, step)
    unchanged = pair.lines[line].likeness == 1.0
    return unchanged and not any(pair.old.telling[n - 1] for n in between)


def _word_recall(pair: FilePair, lines: Lines, place: Lines) -> float:
    there = {w for n in range(place.first, place.last + 1) for w in pair.new.words[n - 1]}
    total = hit = 0.0
    for n in pair.old.telling_lines(lines):
        for word in set(pair.old.words[n - 1]):
            weight = 1 / math.sqrt(pair.old.word_counts[word])
            total += weight
            hit += weight * (word in there)
    return hit / total if total else 0.0


def _narrowed(pair: FilePair, lines: Lines, place: Lines) -> Lines:
    """Find the stretch, about as long as the range, that shares most of its words."""
    size = lines.last - lines.first + 1
    telling = pair.new.telling_lines(place)
    best = (-1.0, place)
    for at, first in enumerate(telling):
        for last in telling[at:]:
            length = last - first + 1
            if length > 2 * size + 3:
                break
            recall = _word_recall(pair, lines, Lines(first, last))
            score = recall - 0.03 * max(length - size, 0) / max(size, 1) - 0.002 * length
            best = max(best, (score, Lines(first, last)), key=lambda pair: pair[0])
        if at > 400:
            break
    return best[1]
