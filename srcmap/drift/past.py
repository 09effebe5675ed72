"""The commits of one file in, the life of some of its lines out: followed backwards from today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.drift.history import FileChange, Hunk, Step, aligned_rows, read_patch
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.checkout.objects import Commit


def life(commits: Sequence[Commit], path: str, lines: Lines) -> list[Step]:
    """List what happened to lines of the last commit's file, newest first.

    `what` of a step: introduced; changed; moved (up or down, by what came or went above); shifted
    (to another place of its file, by the commit that took it out where it was); renamed (the file).
    """
    at = {n: n for n in range(lines.first, lines.last + 1)}
    steps: list[Step] = []
    for commit in reversed(commits):
        change = _of(commit, path)
        if change is None:
            continue
        here = _span(at)
        before = _back(change, at)
        if change.old_path is None or not before:
            elsewhere = _taken_from(change, at)
            what = "shifted" if elsewhere else "introduced"
            steps.append(Step(commit, what, path, here))
            if not elsewhere or change.old_path is None:
                return steps
            path, at = change.old_path, elsewhere
            continue
        if change.old_path != path:
            steps.append(Step(commit, "renamed", path, here))
        if len(before) < len(at) or _touched(change, at):
            steps.append(Step(commit, "changed", path, here))
        elif before != at:
            steps.append(Step(commit, "moved", path, here))
        path, at = change.old_path, before
    return steps


def _of(commit: Commit, path: str) -> FileChange | None:
    return next((c for c in read_patch(commit.patch) if c.new_path == path), None)


def _span(at: dict[int, int]) -> Lines:
    return Lines(min(at.values()), max(at.values()))


def _back(change: FileChange, at: dict[int, int]) -> dict[int, int]:
    """Carry line numbers from after a change to before it; lines that it brought are left out."""
    found: dict[int, int] = {}
    pairs: dict[int, dict[int, int]] = {}
    for n, line in at.items():
        hunk, shift = _hunk_at(change.hunks, line)
        if hunk is None:
            found[n] = line + shift
            continue
        known = pairs.get(hunk.new_at)
        if known is None:
            forth = aligned_rows(hunk.removed, hunk.added)
            known = pairs[hunk.new_at] = {j: i for i, j in forth.items()}
        old = known.get(line - hunk.new_at)
        if old is not None:
            found[n] = hunk.old_at + old
    return found


def _taken_from(change: FileChange, at: dict[int, int]) -> dict[int, int]:
    """Find the lines among those that the same change took out of the file elsewhere."""
    rows: dict[int, str] = {}
    for n, line in at.items():
        hunk, _ = _hunk_at(change.hunks, line)
        if hunk is not None:
            rows[n] = hunk.added[line - hunk.new_at]
    wanted = {"".join(row.split()): n for n, row in rows.items() if len(row.strip()) > 5}
    found: dict[int, int] = {}
    for hunk in change.hunks:
        here = {
            wanted[key]: hunk.old_at + number
            for number, row in enumerate(hunk.removed)
            if (key := "".join(row.split())) in wanted
        }
        found = max(found, here, key=len)
    return found if wanted and len(found) >= 0.6 * len(wanted) else {}


def _hunk_at(hunks: Sequence[Hunk], line: int) -> tuple[Hunk | None, int]:
    """Give the hunk that brought a line, else how far the line moved, backwards."""
    shift = 0
    for hunk in hunks:
        first = hunk.new_at if hunk.new_count else hunk.new_at + 1
        if line < first:
            break
        if line < first + hunk.new_count:
            return hunk, 0
        shift += hunk.old_count - hunk.new_count
    return None, shift


def _touched(change: FileChange, at: dict[int, int]) -> bool:
    return any(_hunk_at(change.hunks, line)[0] is not None for line in at.values())
