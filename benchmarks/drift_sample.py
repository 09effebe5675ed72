"""Draw fresh ranges from real bumps, lay them out for a person to read, and score what was read.

    python benchmarks/drift_sample.py draw CLONE OLD NEW --seed 7 --count 20 > ranges.txt
    python benchmarks/drift_sample.py score benchmarks/drift_read.json CLONE

`draw` shows ranges on which the methods disagree first, with the old and the new text: its output
holds upstream code and is not for the repository. What the reader decides is: `drift_read.json`
has one object a range, with nothing of upstream's but paths and numbers:
`{"clone", "old", "new", "seed", "path", "lines", "kind", "answers": [{"path", "lines"}],
"removed_ok", "ambiguous_ok", "note"}`.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srcmap.checkout.nouns import NotThere
from srcmap.checkout.objects import Objects
from srcmap.drift.history import History
from srcmap.drift.judge import Judge
from srcmap.drift.nouns import Answer, Spot
from srcmap.drift.sides import CommitSide, FolderSide
from srcmap.drift.trees import Trees
from srcmap.errors import UsageError
from srcmap.model import Lines

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.drift.outcome import exactly_right, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LEAVE_OUT = ("3rdparty/**", "images/**")
KINDS = (
    "changed", "changed", "twin", "deletion", "cross", "gone", "cosmetic", "literal", "easy",
)  # fmt: skip
"""Drawn in turn; what changed is drawn twice as often."""


class Bump:
    """Two trees of one clone, and the methods at work on them."""

    def __init__(self, objects: Objects, old: str, new: str) -> None:
        first, last = _commit(objects, old), _commit(objects, new)
        self.trees = Trees(CommitSide(objects, first, old, LEAVE_OUT), _side(objects, last, new))
        self.history = _history(objects, first, last)
        self.judge = Judge(self.trees, self.history)


def _history(objects: Objects, old: str, new: str) -> History | None:
    try:
        return History(objects.history(old, new)) if new else None
    except NotThere as missing:
        print(f"no history: {missing.why}", file=sys.stderr)
        return None


def _commit(objects: Objects, name: str) -> str:
    if Path(name).is_dir():
        return ""
    found = objects.resolve(name)
    if found is None:
        raise UsageError(f"{objects.clone} has no '{name}'", slug="ref")
    return found


def _side(objects: Objects, commit: str, name: str) -> CommitSide | FolderSide:
    return CommitSide(objects, commit, name, LEAVE_OUT) if commit else FolderSide(Path(name), name)


# -- drawing --------------------------------------------------------------------------------


class Drawer:
    """Draws ranges of the hard kinds from one bump."""

    def __init__(self, trees: Trees, seed: int) -> None:
        self._trees = trees
        self._random = random.Random(seed)  # noqa: S311 - a draw, and no secret
        blobs = trees.old.blobs
        code = (".py", ".cc", ".h", ".md", ".cpp", ".cu")
        paths = sorted(p for p in blobs if p.endswith(code))
        self.gone = [p for p in paths if trees.counterpart(p) is None]
        self.touched = [
            p for p in paths
            if p not in set(self.gone) and not trees.identical(p)
            if trees.old.blobs[p] != trees.new.blobs[trees.counterpart(p) or ""]
        ]  # fmt: skip

    def draw(self, count: int) -> Iterator[tuple[str, Spot]]:
        """Give as many ranges, by kind in turn."""
        seen: set[str] = set()
        tries = drawn = 0
        while drawn < count and tries < 60 * count:
            kind = KINDS[drawn % len(KINDS)] if tries % 40 else self._random.choice(KINDS)
            tries += 1
            spot = self._one(kind)
            if spot is not None and str(spot) not in seen:
                seen.add(str(spot))
                drawn += 1
                yield kind, spot

    def _one(self, kind: str) -> Spot | None:
        homes = self.gone if kind == "gone" else self.touched
        if not homes:
            return None
        path = self._random.choice(homes)
        text = self._trees.old_text(path)
        starts = [n for n in range(1, len(text.lines) + 1) if self._fits(kind, path, n)]
        if not starts:
            return None
        first = self._random.choice(starts)
        last = min(len(text.lines), first + self._length(kind) - 1)
        while last > first and not text.telling[last - 1]:
            last -= 1
        return Spot(path=path, lines=Lines(first, last))

    def _length(self, kind: str) -> int:
        if kind in ("twin", "literal"):
            return 1
        roll = self._random.random()
        if roll < 0.35:
            return 1
        return self._random.randint(2, 5) if roll < 0.7 else self._random.randint(6, 15)

    def _fits(self, kind: str, path: str, line: int) -> bool:
        trees, text = self._trees, self._trees.old_text(path)
        if not text.telling[line - 1]:
            return False
        if kind in ("easy", "gone"):
            return True
        stays = trees.stays(path, line)
        if kind == "twin":
            return text.key_counts[text.keys[line - 1]] > 1
        if kind == "cosmetic":
            return stays and self._reindented(path, line)
        if stays:
            return False
        if kind == "literal":
            return bool(re.search(r"\d", text.lines[line - 1]))
        if kind == "cross":
            places = trees.free.get(text.keys[line - 1], [])
            return any(there != path for there, _ in places)
        if kind == "deletion":
            home = trees.counterpart(path) or ""
            return line not in trees.pair(path, home).lines
        return True

    def _reindented(self, path: str, line: int) -> bool:
        home = self._trees.counterpart(path) or ""
        old, new = self._trees.old_text(path), self._trees.new_text(home)
        place = dict(self._trees.equal_lines(path, home)).get(line - 1)
        return place is not None and old.lines[line - 1].rstrip() != new.lines[place].rstrip()


def draw(arguments: argparse.Namespace) -> None:
    """Print ranges for a person to read, those on which methods disagree first."""
    with Objects(Path(arguments.clone)) as objects:
        bump = Bump(objects, arguments.old, arguments.new)
        drawn = list(Drawer(bump.trees, arguments.seed).draw(arguments.count))
        judged = [(kind, bump.judge.judge(spot)) for kind, spot in drawn]
        judged.sort(key=lambda pair: _calm(pair[1]))
        for number, (kind, answer) in enumerate(judged, 1):
            print(_laid_out(bump.trees, number, kind, answer, arguments.around))


def _calm(answer: Answer) -> tuple[int, str]:
    """Rank by how much the methods agree; the least first."""
    rank = 3 if answer.grade == "proven" else 2 if len(answer.methods) > 1 else 1
    return (0 if answer.against or answer.verdict == "ambiguous" else rank, str(answer.old))


def _laid_out(trees: Trees, number: int, kind: str, answer: Answer, around: int) -> str:
    old = trees.old_text(answer.old.path).lines
    head = (
        f"\n#### {number} {kind}: {answer.old} -> {answer.verdict} {answer.new or ''}\n"
        f"     {answer.grade}; for: {answer.methods}; against: {answer.against}; "
        f"{[(note.key, *note.args.values()) for note in answer.reason]}"
    )
    parts = [head, _excerpt(old, answer.old.lines, around)]
    places = [answer.new] if answer.new else []
    places += [guess.spot for guess in answer.candidates[:2]]
    for place in places:
        shown = _excerpt(trees.new_text(place.path).lines, place.lines, around)
        parts.append(f"  -- {place}\n{shown}")
    return "\n".join(parts)


def _excerpt(lines: Sequence[str], place: Lines, around: int) -> str:
    first, last = max(1, place.first - around), min(len(lines), place.last + around)
    if last - first > 60:
        last = first + 60
    return "\n".join(
        f"{'>' if place.first <= n <= place.last else ' '}{n:6} {lines[n - 1][:120]}"
        for n in range(first, last + 1)
    )


# -- scoring --------------------------------------------------------------------------------


def score(arguments: argparse.Namespace) -> None:
    """Print how many of the ranges that a person read are right, by kind and by grade."""
    rows = json.loads(Path(arguments.file).read_bytes())
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    by_grade: Counter[tuple[str, str]] = Counter()
    exact = 0
    started = time.perf_counter()
    for clone in arguments.clone:
        with Objects(Path(clone)) as objects:
            for row, answer in _answers(objects, rows, Path(clone)):
                result = outcome(row, answer)
                by_kind[row["kind"]][result] += 1
                by_grade[answer.grade or "-", result] += 1
                exact += exactly_right(row, answer)
                if result != "right" or (
                    answer.grade == "proven" and not exactly_right(row, answer)
                ):
                    print(
                        f"  {result}: {row['path']}:{row['lines']} -> {answer.verdict} "
                        f"{answer.new} {answer.grade} {answer.methods} {answer.against}"
                    )
    _print(by_kind, by_grade, exact, time.perf_counter() - started)


def _answers(
    objects: Objects, rows: list[dict[str, Any]], clone: Path
) -> Iterator[tuple[dict[str, Any], Answer]]:
    bumps: dict[tuple[str, str], Bump] = {}
    for row in rows:
        if row["clone"] not in str(clone):
            continue
        key = (row["old"], row["new"])
        if key not in bumps:
            bumps[key] = Bump(objects, *key)
        spot = Spot(path=row["path"], lines=Lines(*row["lines"]))
        yield row, bumps[key].judge.judge(spot)


def _print(
    by_kind: dict[str, Counter[str]], by_grade: Counter[tuple[str, str]], exact: int, seconds: float
) -> None:
    total: Counter[str] = Counter()
    for kind, counts in sorted(by_kind.items()):
        total.update(counts)
        print(f"{kind:10} {dict(counts)}")
    count = sum(total.values())
    print(f"all {count}: {dict(total)}, both edges exact: {exact}, {seconds:.1f} s")
    proven = {result: n for (grade, result), n in by_grade.items() if grade == "proven"}
    print(f"proven {sum(proven.values())} of {count}: {proven}")


def main(argv: Sequence[str]) -> int:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    drawing = commands.add_parser("draw")
    for name in ("clone", "old", "new"):
        drawing.add_argument(name)
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--count", type=int, default=20)
    drawing.add_argument("--around", type=int, default=3)
    drawing.set_defaults(run=draw)
    scoring = commands.add_parser("score")
    scoring.add_argument("file")
    scoring.add_argument("clone", nargs="+")
    scoring.set_defaults(run=score)
    arguments = parser.parse_args(argv)
    arguments.run(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
