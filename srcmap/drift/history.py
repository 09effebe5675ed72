"""The commits between two trees in, where a range was carried by them out: a second opinion.

Every commit is a small diff, so most lines can be followed by arithmetic. Alone this is worse
than looking at both trees (a block that is moved in one commit is lost); where it comes to the
same place, it has never been wrong.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from srcmap.drift.align import Aligner, Gap, Likeness
from srcmap.drift.text import Text
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from srcmap.checkout.objects import Commit

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_PULL = re.compile(r"\(#(\d+)\)|[Mm]erge pull request #(\d+)|\(!(\d+)\)|See merge request !(\d+)")


class Hunk(NamedTuple):
    """Lines taken out and lines put in. An empty side has its count 0 and stands after `*_at`."""

    old_at: int
    old_count: int
    new_at: int
    new_count: int
    removed: list[str]
    added: list[str]


class FileChange(NamedTuple):
    """What one commit did to one file; no new path: deleted; no old path: added."""

    old_path: str | None
    new_path: str | None
    hunks: list[Hunk]


class Step(NamedTuple):
    """One commit that did something to the lines that are followed."""

    commit: Commit
    what: str
    """moved, changed, renamed, carried (to another file) or removed."""
    path: str
    lines: Lines | None

    @property
    def pull(self) -> str:
        """The number of the pull request that the subject names; empty when it names none."""
        return pull_request(self.commit.subject)


class Trail(NamedTuple):
    """Where the commits took a range."""

    path: str | None
    """None: nothing of it is left."""
    at: dict[int, int]
    """Old line to new line, for the lines that were followed to the end."""
    steps: tuple[Step, ...]
    carried: bool
    """A commit took the lines out of one file and put them into another place."""

    @property
    def lines(self) -> Lines | None:
        """From the first to the last line that is left."""
        return Lines(min(self.at.values()), max(self.at.values())) if self.at else None

    @property
    def removed_by(self) -> Commit | None:
        """The commit that took the last of it out."""
        return self.steps[-1].commit if self.path is None and self.steps else None


class History:
    """The commits from an old to a new tree, oldest first, ready to follow many ranges."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        self.commits = commits
        self._changes: dict[int, list[FileChange]] = {}

    def changes(self, number: int) -> list[FileChange]:
        """Parse the patch of one commit."""
        if number not in self._changes:
            self._changes[number] = list(read_patch(self.commits[number].patch))
        return self._changes[number]

    @cached_property
    def _touching(self) -> dict[str, list[tuple[int, FileChange]]]:
        found: dict[str, list[tuple[int, FileChange]]] = defaultdict(list)
        for number in range(len(self.commits)):
            for change in self.changes(number):
                if change.old_path is not None:
                    found[change.old_path].append((number, change))
        return found

    def follow(self, text: Text, lines: Lines) -> Trail:
        """Carry a range of a file of the old tree to the new tree."""
        path, start = text.path, 0
        at = {n: n for n in range(lines.first, lines.last + 1)}
        words = {n: text.lines[n - 1] for n in at if n <= len(text.lines)}
        telling = set(text.telling_lines(lines))
        steps: list[Step] = []
        carried = False
        while (found := self._next(path, start)) is not None:
            number, change = found
            commit, start = self.commits[number], number + 1
            before = dict(at)
            lost = _apply(change, at, words)
            gone = [n for n in before if n not in at and n in (telling or before)]
            if change.new_path is not None and not (
                gone and not (at.keys() & (telling or before.keys()))
            ):
                what = "changed" if lost or gone else "moved"
                if change.new_path != path:
                    steps.append(Step(commit, "renamed", change.new_path, _span(at)))
                elif at != before:
                    steps.append(Step(commit, what, change.new_path, _span(at)))
                path = change.new_path
                continue
            home = self._put_in(number, before, words, telling, change)
            if home is None:
                steps.append(Step(commit, "removed", path, None))
                return Trail(None, {}, tuple(steps), carried)
            path, at = home
            carried = True
            steps.append(Step(commit, "carried", path, _span(at)))
        return Trail(path, at, tuple(steps), carried)

    def _next(self, path: str, start: int) -> tuple[int, FileChange] | None:
        touching = self._touching.get(path, ())
        return next(((n, c) for n, c in touching if n >= start), None)

    def _put_in(
        self,
        number: int,
        before: dict[int, int],
        words: dict[int, str],
        telling: set[int],
        source: FileChange,
    ) -> tuple[str, dict[int, int]] | None:
        """Find where the same commit put the lines that it took out."""
        wanted = {"".join(words[n].split()): n for n in before if n in telling}
        if not wanted:
            return None
        ranked = []
        for change in self.changes(number):
            if change.new_path is None:
                continue
            for hunk in change.hunks:
                keys = {"".join(line.split()) for line in hunk.added}
                common = len(wanted.keys() & keys)
                if common >= max(1, 0.6 * len(wanted)):
                    ranked.append((common, change, hunk))
        if len(wanted) < 3:
            ranked = [r for r in ranked if _neighbour_came_too(before, words, source, r[2])]
        ranked.sort(key=lambda r: -r[0])
        if not ranked or (len(ranked) > 1 and ranked[1][0] == ranked[0][0]):
            return None
        _, change, hunk = ranked[0]
        at: dict[int, int] = {}
        order = sorted(before)
        pairs = aligned_rows([words[n] for n in order], hunk.added)
        for i, j in pairs.items():
            at[order[i]] = hunk.new_at + j
            words[order[i]] = hunk.added[j]
        if not at or change.new_path is None or _span_size(at) > 3 * len(order) + 10:
            return None
        return change.new_path, at


def _neighbour_came_too(
    before: dict[int, int], words: dict[int, str], source: FileChange, hunk: Hunk
) -> bool:
    """Whether a line that stood beside these in the old place stands beside them in the new."""
    rows = ["".join(row.split()) for row in hunk.added]
    for home in source.hunks:
        for n, line in before.items():
            at = line - home.old_at
            if not 0 <= at < len(home.removed):
                continue
            key = "".join(words[n].split())
            for step in (-1, 1, -2, 2):
                if not 0 <= at + step < len(home.removed):
                    continue
                beside = "".join(home.removed[at + step].split())
                near = [
                    k for k, row in enumerate(rows)
                    if row == key and 0 <= k + step < len(rows) and rows[k + step] == beside
                ]  # fmt: skip
                if len(beside) > 5 and near:
                    return True
    return False


def _apply(change: FileChange, at: dict[int, int], words: dict[int, str]) -> bool:
    """Carry line numbers through one change of a file; whether any text changed."""
    if change.new_path is None:
        at.clear()
        return True
    changed = False
    moved: dict[int, int] = {}
    inside: dict[int, list[int]] = defaultdict(list)
    for n, line in at.items():
        shift, hunk_at = 0, None
        for number, hunk in enumerate(change.hunks):
            first = hunk.old_at if hunk.old_count else hunk.old_at + 1
            if line < first:
                break
            if line < first + hunk.old_count:
                hunk_at = number
                break
            shift += hunk.new_count - hunk.old_count
        if hunk_at is None:
            moved[n] = line + shift
        else:
            inside[hunk_at].append(n)
    for number, numbers in inside.items():
        changed = True
        hunk = change.hunks[number]
        pairs = aligned_rows(hunk.removed, hunk.added)
        for n in numbers:
            place = pairs.get(at[n] - hunk.old_at)
            if place is not None:
                moved[n] = hunk.new_at + place
                words[n] = hunk.added[place]
    at.clear()
    at.update(moved)
    return changed


def aligned_rows(removed: list[str], added: list[str]) -> dict[int, int]:
    """Pair the lines of two sides of a hunk, 0-based."""
    if not removed or not added or len(removed) * len(added) > 300_000:
        return {}
    old, new = (_text(side) for side in (removed, added))
    found = Aligner(Likeness(old, new)).chained(Gap(1, len(removed), 1, len(added)))
    return {i - 1: t.first - 1 for i, t in found.items() if t.likeness >= 0.6 or t.first != t.last}


def _text(rows: list[str]) -> Text:
    return Text("hunk", "".join(f"{row}\n" for row in rows).encode("utf-8", "surrogateescape"))


def _span(at: dict[int, int]) -> Lines | None:
    return Lines(min(at.values()), max(at.values())) if at else None


def _span_size(at: dict[int, int]) -> int:
    return max(at.values()) - min(at.values()) + 1


def pull_request(subject: str) -> str:
    """Read the number of a pull request off the first line of a message."""
    found = _PULL.findall(subject)
    return next((n for n in found[-1] if n), "") if found else ""


# -- patches --------------------------------------------------------------------------------


def read_patch(patch: str) -> Iterator[FileChange]:
    """Read what `git log -p -U0 -M` prints for one commit."""
    for part in re.split(r"^diff --git ", patch, flags=re.MULTILINE)[1:]:
        yield _file_change(part.split("\n"))


def _file_change(rows: list[str]) -> FileChange:
    old_path, new_path = _paths_of(rows)
    hunks: list[Hunk] = []
    left = right = 0
    for row in rows:
        if left <= 0 and right <= 0:
            if head := _HUNK.match(row):
                a, b, c, d = (int(v) if v is not None else 1 for v in head.groups())
                hunks.append(Hunk(a, b, c, d, [], []))
                left, right = b, d
        elif row.startswith("-"):
            hunks[-1].removed.append(row[1:].removesuffix("\r"))
            left -= 1
        elif row.startswith("+"):
            hunks[-1].added.append(row[1:].removesuffix("\r"))
            right -= 1
    return FileChange(old_path, new_path, hunks)


def _paths_of(rows: list[str]) -> tuple[str | None, str | None]:
    old: str | None = None
    new: str | None = None
    header = rows[0]
    seen = False
    for row in rows[1:]:
        if row.startswith(("@@", "Binary")):
            break
        if row.startswith("rename from "):
            old = _unquoted(row[12:])
        elif row.startswith("rename to "):
            new = _unquoted(row[10:])
        elif row.startswith("--- "):
            seen = True
            old = (
                None if row[4:].rstrip("\t") == "/dev/null" else _unquoted(row[4:].rstrip("\t"))[2:]
            )
        elif row.startswith("+++ "):
            new = (
                None if row[4:].rstrip("\t") == "/dev/null" else _unquoted(row[4:].rstrip("\t"))[2:]
            )
    if not seen and old is None and new is None:
        half = header[: len(header) // 2]
        old = new = _unquoted(half)[2:]
    return old, new


_ESCAPE = re.compile(r"\\([0-7]{3}|.)")
_LETTERS = {"n": 10, "t": 9, "r": 13, '"': 34, "\\": 92, "a": 7, "b": 8, "f": 12, "v": 11}


def _unquoted(name: str) -> str:
    """Undo git's quoting of names that are not plain ASCII."""
    if not (name.startswith('"') and name.endswith('"')):
        return name
    out = bytearray()
    at = 1
    while at < len(name) - 1:
        if name[at] == "\\" and (found := _ESCAPE.match(name, at)):
            code = found[1]
            out.append(int(code, 8) if len(code) == 3 else _LETTERS.get(code, ord(code)))
            at = found.end()
        else:
            out += name[at].encode("utf-8", "surrogateescape")
            at += 1
    return out.decode("utf-8", "surrogateescape")
