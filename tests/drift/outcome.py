"""An answer beside what a person read: right, refused, wrong in sight, or silently wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srcmap.model import Lines

if TYPE_CHECKING:
    from srcmap.drift.nouns import Answer, Spot


def outcome(row: dict[str, Any], answer: Answer) -> str:
    """`silent`: wrong, with a verdict after which nobody looks and no place near that is right."""
    if answer.verdict in ("ambiguous", "unjudged"):
        return "right" if row["ambiguous_ok"] else "refused"
    if answer.verdict == "removed":
        if row["removed_ok"]:
            return "right"
        near = any(_is_right(row, guess.spot) for guess in answer.candidates)
        return "removed, near" if near else "silent"
    if answer.new is not None and _is_right(row, answer.new):
        return "right"
    return "wrong proposal" if answer.verdict == "changed" else "silent"


def _is_right(row: dict[str, Any], spot: Spot) -> bool:
    """Whether a place is one of the answers; an edge may be off where most lines are common."""
    for known in row["answers"]:
        lines = Lines(*known["lines"])
        off = max(abs(lines.first - spot.lines.first), abs(lines.last - spot.lines.last))
        if known["path"] == spot.path and (lines.overlap(spot.lines) >= 0.6 or off <= 1):
            return True
    return False


def exactly_right(row: dict[str, Any], answer: Answer) -> bool:
    """Whether both edges are those of an answer, or there is no place and none was given."""
    if answer.new is None:
        return outcome(row, answer) == "right"
    place = {"path": answer.new.path, "lines": [answer.new.lines.first, answer.new.lines.last]}
    return any({"path": k["path"], "lines": k["lines"]} == place for k in row["answers"])
