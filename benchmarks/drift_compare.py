"""srcmap's tracking beside `git diff -M --histogram -w`, on the same ranges, in one run.

    python benchmarks/drift_compare.py --tilelang CLONE --ascend CLONE [--tree FOLDER]

The ranges are those of `tests/drift/ranges.json`; `--tree` is the unpacked tilelang 0.1.14, whose
commit no mirror has. What git says of a range: its surviving lines, from first to last; a replaced
hunk of as many lines is taken line by line; a replaced hunk is the answer where nothing survives.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from srcmap.checkout.objects import Objects
from srcmap.drift.history import FileChange, History, read_patch
from srcmap.drift.judge import Judge
from srcmap.drift.nouns import Answer, Spot
from srcmap.drift.sides import CommitSide, FolderSide
from srcmap.drift.trees import Trees
from srcmap.model import Lines

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.drift.outcome import exactly_right, outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.drift.sides import Side

RANGES = Path(__file__).parents[1] / "tests" / "drift" / "ranges.json"
LEAVE_OUT = ("3rdparty/**", "images/**")
Row = dict[str, Any]


class Score(NamedTuple):
    """One method on one bump."""

    outcomes: list[tuple[Row, str, bool]]
    seconds: float


def by_srcmap(old: Side, new: Side, objects: Objects, rows: Sequence[Row]) -> Score:
    """Judge the ranges as `srcmap drift` does, cold."""
    started = time.perf_counter()
    history = None
    if new.commit is not None and old.commit is not None:
        history = History(objects.history(old.commit, new.commit))
    judge = Judge(Trees(old, new), history)
    answers = [judge.judge(_spot(row)) for row in rows]
    seconds = time.perf_counter() - started
    return Score(_scored(rows, answers), seconds)


def by_git(clone: Path, tree: Path | None, old: Path | None, rows: Sequence[Row]) -> Score:
    """Read one diff of the whole bump and map every range through it."""
    started = time.perf_counter()
    options = ["-M", "--histogram", "-w", "-U0", "--no-color", "-l0"]
    if tree is not None and old is not None:
        command = ["git", "diff", "--no-index", *options, str(old), str(tree)]
    else:
        pair = [rows[0]["old_commit"], rows[0]["new_commit"]]
        command = ["git", "-C", str(clone), "diff", *options, *pair]
    done = subprocess.run(command, capture_output=True, check=False)
    patch = done.stdout.decode("utf-8", "surrogateescape")
    changes = {_plain(c.old_path, old): c for c in read_patch(patch) if c.old_path}
    answers = [_mapped(row, changes.get(row["path"]), tree) for row in rows]
    seconds = time.perf_counter() - started
    return Score(_scored(rows, answers), seconds)


def _plain(path: str | None, root: Path | None) -> str:
    text = path or ""
    return text.removeprefix(str(root).lstrip("/") + "/") if root is not None else text


def _mapped(row: Row, change: FileChange | None, tree: Path | None) -> Answer:
    spot = _spot(row)
    if change is None:
        return _answer(spot, spot.path, spot.lines)
    if change.new_path is None:
        return Answer(old=spot, new=None, verdict="removed")
    path = _plain(change.new_path, tree)
    first, last = spot.lines.first, spot.lines.last
    kept: list[int] = []
    stands_in: list[int] = []
    for line in range(first, last + 1):
        place, inside = _line(change, line)
        if place is not None:
            kept.append(place)
        stands_in += inside
    places = kept or stands_in
    if not places:
        return Answer(old=spot, new=None, verdict="removed")
    return _answer(spot, path, Lines(min(places), max(places)))


def _line(change: FileChange, line: int) -> tuple[int | None, list[int]]:
    """Give where a line is, else the lines that stand in its place."""
    shift = 0
    for hunk in change.hunks:
        first = hunk.old_at if hunk.old_count else hunk.old_at + 1
        if line < first:
            break
        if line < first + hunk.old_count:
            if hunk.old_count == hunk.new_count:
                return hunk.new_at + line - first, []
            return None, list(range(hunk.new_at, hunk.new_at + hunk.new_count))
        shift += hunk.new_count - hunk.old_count
    return line + shift, []


def _answer(spot: Spot, path: str, lines: Lines) -> Answer:
    # A diff gives no verdict; `moved` makes every wrong place count as one nobody looks at.
    return Answer(old=spot, new=Spot(path=path, lines=lines), verdict="moved")


def _spot(row: Row) -> Spot:
    return Spot(path=row["path"], lines=Lines(*row["lines"]))


def _scored(rows: Sequence[Row], answers: Sequence[Answer]) -> list[tuple[Row, str, bool]]:
    return [
        (row, outcome(row, answer), exactly_right(row, answer))
        for row, answer in zip(rows, answers, strict=True)
    ]


# -- both -----------------------------------------------------------------------------------


def compare(clones: dict[str, Path], old_tree: Path | None, tree: Path | None) -> None:
    """Run both on every bump that is here, and print a table by kind."""
    rows = json.loads(RANGES.read_bytes())
    results: dict[str, list[Score]] = defaultdict(list)
    for bump in dict.fromkeys(row["bump"] for row in rows):
        mine = [row for row in rows if row["bump"] == bump]
        clone = clones["tl" if bump.startswith("tl") else "asc"]
        from_tree = mine[0]["new_commit"].startswith("tree:")
        if from_tree and tree is None:
            print(f"{bump}: left out, no --tree")
            continue
        with Objects(clone) as objects:
            before = CommitSide(objects, mine[0]["old_commit"], "old", LEAVE_OUT)
            after: Side
            if from_tree and tree is not None:
                after = FolderSide(tree)
            else:
                after = CommitSide(objects, mine[0]["new_commit"], "new", LEAVE_OUT)
            results["srcmap"].append(by_srcmap(before, after, objects, mine))
        results["git"].append(
            by_git(clone, tree if from_tree else None, old_tree if from_tree else None, mine)
        )
        times = [results[name][-1].seconds for name in ("srcmap", "git")]
        print(f"{bump}: {len(mine)} ranges, srcmap {times[0]:.1f} s, git {times[1]:.1f} s")
    _print(results)


def _print(results: dict[str, list[Score]]) -> None:
    kinds: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for name, scores in results.items():
        for score in scores:
            for row, result, exact in score.outcomes:
                for kind in (row["kind"], "all"):
                    kinds[kind][name][result] += 1
                    kinds[kind][name]["exact"] += exact
    print("\n| kind | ranges | srcmap right | git right | srcmap silent | git silent |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind, by_name in sorted(kinds.items(), key=lambda pair: (pair[0] == "all", pair[0])):
        ours, theirs = by_name["srcmap"], by_name["git"]
        size = sum(n for result, n in ours.items() if result != "exact")
        cells = [kind, size, _share(ours["right"], size), _share(theirs["right"], size),
                 ours["silent"], theirs["silent"]]  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |")
    for name, scores in results.items():
        print(f"{name}: {sum(s.seconds for s in scores):.1f} s in all")


def _share(count: int, size: int) -> str:
    return f"{count} ({count / size:.1%})"


def main(argv: Sequence[str]) -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tilelang", type=Path, required=True)
    parser.add_argument("--ascend", type=Path, required=True)
    parser.add_argument("--tree", type=Path, help="the unpacked tilelang 0.1.14")
    parser.add_argument("--old-tree", type=Path, help="the unpacked tilelang 0.1.13, for git")
    arguments = parser.parse_args(argv)
    clones = {"tl": arguments.tilelang, "asc": arguments.ascend}
    compare(clones, arguments.old_tree, arguments.tree)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
