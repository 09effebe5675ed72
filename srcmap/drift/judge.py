"""What the methods say of one range in, one verdict with a grade out.

Agreement is what "proven" means. Disagreement is said and never resolved silently: where the
evidence of direct tracking is single, the answer is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from srcmap.drift.classify import classify
from srcmap.drift.direct import Direct, track
from srcmap.drift.names import replaced
from srcmap.drift.nouns import Answer, Guess, Spot
from srcmap.model import Lines, Note

if TYPE_CHECKING:
    from srcmap.drift.candidates import Candidate
    from srcmap.drift.history import History, Trail
    from srcmap.drift.nouns import Grade, Verdict
    from srcmap.drift.trees import Trees

_MOST_CANDIDATES = 5
_EDGE = 0.6
"""How alike the first and the last line of changed text must be for its edges to be proven."""


class Judge:
    """Judges ranges of one pair of trees."""

    def __init__(self, trees: Trees, history: History | None = None) -> None:
        self._trees = trees
        self._history = history

    def judge(self, spot: Spot) -> Answer:
        """Say what became of a range of the old tree."""
        trees = self._trees
        if wrong := self._unreadable(spot):
            return Answer(old=spot, new=None, verdict="unjudged", grade="", reason=(wrong,))
        direct = track(trees, spot.path, spot.lines)
        if direct.status == "identical":
            return _identical(spot, direct)
        trail = self._trail(spot)
        if direct.status == "found" and direct.best is not None:
            return self._found(spot, direct, direct.best, trail)
        if direct.status == "refused":
            return self._refused(spot, direct, trail)
        return self._removed(spot, direct, trail)

    def _unreadable(self, spot: Spot) -> Note | None:
        if spot.path not in self._trees.old.blobs:
            key = "drift.no-file-partial" if self._trees.old.partial else "drift.no-file"
            return Note(key, {"path": spot.path, "tree": self._trees.old.label})
        size = len(self._trees.old_text(spot.path).lines)
        if not 0 < spot.lines.first <= spot.lines.last <= size:
            args = {"path": spot.path, "lines": str(spot.lines), "size": str(size)}
            return Note("drift.no-lines", args)
        if self._trees.new.partial and spot.path not in self._trees.new.blobs:
            return Note("drift.partial", {"path": spot.path, "tree": self._trees.new.label})
        return None

    def _trail(self, spot: Spot) -> Trail | None:
        if self._history is None:
            return None
        return self._history.follow(self._trees.old_text(spot.path), spot.lines)

    # -- found ------------------------------------------------------------------------------

    def _found(self, spot: Spot, direct: Direct, best: Candidate, trail: Trail | None) -> Answer:
        agrees = trail is not None and (
            _same_place(trail, best, self._telling(spot))
            or self._no_conflict(spot, direct, best, trail)
        )
        if trail is not None and not agrees and self._doubtful(direct, best, trail):
            return self._doubt(spot, direct, trail)
        return self._answer(spot, direct, best, trail, agrees=agrees)

    def _on_the_dot(self, spot: Spot, best: Candidate, trail: Trail | None) -> bool:
        """Whether history has an edge of changed text exactly where the candidate has it."""
        telling = self._telling(spot)
        there = self._trees.new_text(best.path).telling_lines(best.lines)
        if trail is None or not telling or not there:
            return False
        first, last = trail.at.get(telling[0]), trail.at.get(telling[-1])
        if first not in (there[0], None) or last not in (there[-1], None):
            return False
        # Text that is hardly alike may have spread over lines next to it that nothing else claims.
        pair = self._trees.pair(spot.path, best.path)
        claimed = {j for t in pair.lines.values() for j in range(t.first, t.last + 1)}
        ends = ((telling[0], there[0], -1), (telling[-1], there[-1], 1))
        return all(
            pair.likeness.of(i, j) >= _EDGE or self._claimed(best.path, j + step, claimed)
            for i, j, step in ends
        )

    def _claimed(self, path: str, line: int, claimed: set[int]) -> bool:
        """Whether a line is there for another reason, or says nothing."""
        new = self._trees.new_text(path)
        return line in claimed or not 0 < line <= len(new.lines) or not new.telling[line - 1]

    def _no_conflict(self, spot: Spot, direct: Direct, best: Candidate, trail: Trail) -> bool:
        """Whether history lost a rewritten edge only, and has all else where both maps have it."""
        if not {"lines", "scope"} <= set(direct.bits) or trail.path != best.path:
            return False
        telling = self._telling(spot)
        kept = [n for n in telling if n in trail.at]
        if 2 * len(kept) < len(telling) or not {telling[0], telling[-1]} & set(kept):
            return False
        aligned = self._trees.pair(spot.path, best.path).lines
        if telling[0] not in aligned or telling[-1] not in aligned:
            return False
        return best.content >= 0.6 and all(
            n in aligned and aligned[n].first <= trail.at[n] <= aligned[n].last for n in kept
        )

    def _telling(self, spot: Spot) -> list[int]:
        return self._trees.old_text(spot.path).telling_lines(spot.lines)

    def _doubtful(self, direct: Direct, best: Candidate, trail: Trail) -> bool:
        """Whether history's other opinion outweighs evidence that is single."""
        if len(direct.bits) > 1 or (best.exact == 1.0 and best.context >= 0.8):
            return False
        if best.path != direct.home:
            return not _co_committed(trail, best)
        apart = trail.lines is not None and trail.lines.overlap(best.lines) == 0
        return trail.path == best.path and apart and best.content < 0.5

    def _answer(
        self, spot: Spot, direct: Direct, best: Candidate, trail: Trail | None, *, agrees: bool
    ) -> Answer:
        old, new = self._trees.old_text(spot.path), self._trees.new_text(best.path)
        known = replaced(self._trees, old, spot.lines, new, best.lines)
        text = classify(old, spot.lines, new, best.lines, known)
        verdict = _verdict(spot, best, text.kind)
        methods = (*direct.bits, *(("history",) if agrees else ()))
        against = ("history",) if trail is not None and not agrees else ()
        sure = agrees and (text.kind != "changed" or self._on_the_dot(spot, best, trail))
        grade = self._grade(direct, best, text.kind, agrees=sure, against=bool(against))
        reasons = [Note("drift.comments-only")] if text.comments_only else []
        if against and trail is not None:
            reasons.append(_other_place(trail))
        return Answer(
            old=spot,
            new=Spot(path=best.path, lines=best.lines),
            verdict=verdict,
            grade=grade,
            methods=methods,
            against=against,
            similarity=1.0 if text.kind == "exact" else round(min(best.content, 0.99), 2),
            candidates=_guesses(direct.others) if grade != "proven" else (),
            reason=tuple(reasons),
            what=text.what,
        )

    def _grade(
        self, direct: Direct, best: Candidate, kind: str, *, agrees: bool, against: bool
    ) -> Grade:
        if agrees:
            return "proven"
        if against:
            return "proposed"
        two = {"lines", "scope"} <= set(direct.bits)
        sure = best.structure >= 0.6 and best.context >= 0.6
        if kind in ("exact", "cosmetic") and two and sure:
            return "proven"
        # Changed, and no history to ask: only between neighbours that stayed where they were.
        firm = best.structure == 1.0 and best.context >= 0.85 and best.tight
        if self._history is None and two and firm and best.content >= 0.8:
            return "proven"
        return "proposed"

    # -- refused and removed ----------------------------------------------------------------

    def _refused(self, spot: Spot, direct: Direct, trail: Trail | None) -> Answer:
        places = [c for c in (direct.best, *direct.others) if c is not None]
        if trail is not None:
            telling = self._telling(spot)
            chosen = next((c for c in places if _same_place(trail, c, telling)), None)
            if chosen is not None and (
                chosen.path == direct.home
                or chosen.context >= 0.5
                or not self._rooted(spot, direct)
            ):
                bits = direct._replace(bits=(chosen.method,), others=tuple(places))
                answer = self._answer(spot, bits, chosen, trail, agrees=True)
                return msgspec.structs.replace(answer, grade="proposed")
            if trail.path is None and direct.why == "copies" and self._copied_line(spot, direct):
                return self._gone(spot, direct._replace(best=None, others=tuple(places)), trail)
        return self._doubt(spot, direct, trail)

    def _rooted(self, spot: Spot, direct: Direct) -> bool:
        """Whether the definition around the range is still in its file."""
        if direct.home is None:
            return False
        pair = self._trees.pair(spot.path, direct.home)
        scope = pair.old.scope_of(spot.lines)
        if scope < 0 or pair.old.scopes[scope].last - pair.old.scopes[scope].first > 300:
            return False
        return scope in pair.scopes

    def _copied_line(self, spot: Spot, direct: Direct) -> bool:
        """Whether what was found elsewhere is too little to be more than a copy."""
        best = direct.best
        return best is not None and best.path != direct.home and len(self._telling(spot)) < 4

    def _doubt(self, spot: Spot, direct: Direct, trail: Trail | None) -> Answer:
        places = [c for c in (direct.best, *direct.others) if c is not None]
        reasons = [Note(f"drift.why.{direct.why or 'disagree'}")]
        if trail is not None:
            reasons.append(_other_place(trail))
        return Answer(
            old=spot,
            new=None,
            verdict="ambiguous",
            grade="proposed",
            candidates=_guesses(places),
            reason=tuple(reasons),
        )

    def _removed(self, spot: Spot, direct: Direct, trail: Trail | None) -> Answer:
        if trail is not None and trail.path is not None and trail.lines is not None:
            return self._still_there(spot, direct, trail)
        return self._gone(spot, direct, trail)

    def _still_there(self, spot: Spot, direct: Direct, trail: Trail) -> Answer:
        """Direct tracking found nothing and history did: believe text, refuse otherwise."""
        path, lines = trail.path, trail.lines
        telling = self._telling(spot)
        share = sum(n in trail.at for n in telling) / max(len(telling), 1)
        if path is None or lines is None or path not in self._trees.new.blobs or share < 0.5:
            return self._gone(spot, direct, trail)
        new = self._trees.new_text(path)
        if lines.last > len(new.lines):
            return self._gone(spot, direct, trail)
        text = classify(self._trees.old_text(spot.path), spot.lines, new, lines)
        guess = Guess(spot=Spot(path=path, lines=lines), score=round(share, 2))
        if text.kind != "changed" and path == direct.home:
            return Answer(
                old=spot,
                new=guess.spot,
                verdict=_named(spot, guess.spot, text.kind),
                methods=("history",),
                against=("lines",),
                similarity=1.0,
                candidates=_guesses(direct.others),
            )
        reasons = (Note("drift.why.history-only"),)
        others = (guess, *_guesses(direct.others))[:_MOST_CANDIDATES]
        return Answer(old=spot, new=None, verdict="ambiguous", candidates=others, reason=reasons)

    def _gone(self, spot: Spot, direct: Direct, trail: Trail | None) -> Answer:
        taken_out = trail.removed_by if trail is not None else None
        reasons = [Note(f"drift.why.{direct.why}")]
        if taken_out is not None:
            args = {"commit": taken_out.id[:10], "date": taken_out.date[:10],
                    "subject": taken_out.subject}  # fmt: skip
            reasons.append(Note("drift.removed-by", args))
        near = list(_guesses(direct.others))
        if direct.near is not None and direct.home is not None:
            near.insert(0, Guess(spot=Spot(path=direct.home, lines=direct.near), score=0.0))
        # What was rewritten in place escapes both methods; an empty gap and a lost file do not.
        proven = taken_out is not None and (
            (direct.why == "taken-out" and direct.trace < 0.7)
            or (direct.why == "file-gone" and direct.trace < 0.45)
        )
        return Answer(
            old=spot,
            new=None,
            verdict="removed",
            grade="proven" if proven else "proposed",
            methods=("lines", "history") if taken_out is not None else ("lines",),
            candidates=tuple(near[:_MOST_CANDIDATES]),
            reason=tuple(reasons),
        )


def _identical(spot: Spot, direct: Direct) -> Answer:
    best = direct.best
    path = best.path if best is not None else spot.path
    place = Spot(path=path, lines=spot.lines)
    verdict: Verdict = "same" if path == spot.path else "moved-file"
    # A file that is there under another name is proven by its bytes, when one name has them.
    return Answer(
        old=spot, new=place, verdict=verdict, grade="proven", methods=("identical",), similarity=1.0
    )


def _verdict(spot: Spot, best: Candidate, kind: str) -> Verdict:
    return _named(spot, Spot(path=best.path, lines=best.lines), kind)


def _named(old: Spot, new: Spot, kind: str) -> Verdict:
    if kind == "changed":
        return "changed"
    if old.path != new.path:
        return "moved-file"
    if kind == "cosmetic":
        return "cosmetic"
    return "same" if old.lines == new.lines else "moved"


def _same_place(trail: Trail, best: Candidate, telling: list[int]) -> bool:
    """Whether history ends where a candidate is: the first and the last telling line do."""
    if trail.path != best.path or not trail.at:
        return False
    if telling and (telling[0] not in trail.at or telling[-1] not in trail.at):
        return False
    ends = sorted(trail.at[n] for n in (telling or list(trail.at)) if n in trail.at)
    inside = best.lines.first <= ends[0] and ends[-1] <= best.lines.last
    return inside and ends[0] - best.lines.first <= 2 and best.lines.last - ends[-1] <= 2


def _co_committed(trail: Trail, best: Candidate) -> bool:
    return trail.carried and trail.path == best.path


def _other_place(trail: Trail) -> Note:
    if trail.path is None or trail.lines is None:
        commit = trail.removed_by
        args = {"commit": commit.id[:10] if commit else "?"}
        return Note("drift.history-removed", args)
    return Note("drift.history-elsewhere", {"place": f"{trail.path}:{trail.lines}"})


def _guesses(candidates: tuple[Candidate, ...] | list[Candidate]) -> tuple[Guess, ...]:
    unique = {
        (c.path, c.lines): Guess(
            spot=Spot(path=c.path, lines=Lines(c.lines.first, c.lines.last)),
            score=round(c.score, 2),
        )
        for c in candidates
    }
    return tuple(unique.values())[:_MOST_CANDIDATES]
