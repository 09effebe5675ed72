"""Region comments in `kernels/` -> where our re-implementation does what upstream's lines do.

`kernels/index.toml` says which folder re-implements a variant; comments in its files name concepts:

    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)

A comment on a line of its own opens a region. The region ends before the next line with such a
comment, a blank line, a line that is indented less, or `# end`; comments at its end are not part of
it. Behind code, the comment marks that line alone. Files are scanned as text, and only those of the
variant asked for: this runs at every `srcmap variant`. Without such a folder, as in the wheel,
nothing is said.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

FOLDER = "kernels"
INDEX = "index.toml"
_MARK = "# concept:"
_FIRST = "blocked.py"
"""The file that goes before others: it has the kernel's own structure."""
_KERNEL = "tilelang_kernel.py"
"""The file that runs on a GPU."""


class Counterpart(NamedTuple):
    """Lines of ours that do a concept."""

    concept: str
    path: str
    """Relative to the project, with forward slashes."""
    lines: Lines


def counterparts(project: Path | None, variant: str) -> tuple[Counterpart, ...]:
    """Return what our re-implementation of a variant marks, in order; empty without one."""
    folder = folder_of(project, variant)
    if folder is None or project is None:
        return ()
    paths = sorted(folder.glob("*.py"), key=lambda path: (path.name != _FIRST, path.name))
    return tuple(
        Counterpart(concept, path.relative_to(project).as_posix(), lines)
        for path in paths
        for concept, lines in regions(path.read_text(encoding="utf-8"))
    )


def paired(
    ours: Sequence[Counterpart], places: Sequence[tuple[str, Lines]]
) -> list[tuple[Counterpart, ...]]:
    """Return, for each place (concept, lines) of one upstream file, what does the same in ours.

    When a concept has as many places there as in one of our files, the first goes with the first,
    and so on; else every place has all of that file's.
    """
    theirs: dict[str, list[Lines]] = {}
    for concept, lines in places:
        theirs.setdefault(concept, []).append(lines)
    mine: dict[tuple[str, str], list[Counterpart]] = {}
    for found in ours:
        mine.setdefault((found.concept, found.path), []).append(found)
    paths = list(dict.fromkeys(found.path for found in ours))
    pairs = []
    for concept, lines in places:
        ranked = sorted(theirs[concept])
        same = [mine.get((concept, path), []) for path in paths]
        pairs.append(tuple(c for found in same for c in _of(found, ranked, lines)))
    return pairs


def worth_showing(same: Sequence[Counterpart]) -> tuple[Counterpart, ...]:
    """Return one place to read and one that runs on a GPU, of all that do a concept of ours.

    A concept has a place in every form of a kernel; a page has room for the plain form, or the
    first that there is, and the kernel's own file. JSON has them all.
    """
    kernel = (found for found in same if found.path.endswith("/" + _KERNEL))
    return tuple(dict.fromkeys([*same[:1], *islice(kernel, 1)]))


def _of(found: list[Counterpart], ranked: list[Lines], lines: Lines) -> list[Counterpart]:
    return [found[ranked.index(lines)]] if len(found) == len(ranked) else found


def folder_of(project: Path | None, variant: str) -> Path | None:
    """Return the folder with our re-implementation of a variant; None when there is none."""
    if project is None:
        return None
    try:
        index = (project / FOLDER / INDEX).read_text(encoding="utf-8")
    except OSError:
        return None
    name = folders(index).get(variant, "")
    folder = project / FOLDER / name
    return folder if name and folder.is_dir() else None


def folders(index: str) -> dict[str, str]:
    """Return the table `[folders]` of the index: variant -> folder. Other tables are not read."""
    found, inside = {}, False
    for line in index.splitlines():
        if line.startswith("["):
            inside = line.strip() == "[folders]"
        elif inside and "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key.strip()] = value.split("#")[0].strip().strip('"')
    return found


def regions(text: str) -> list[tuple[str, Lines]]:
    """Return (concept, lines) of each region in order; neighbours of one concept are joined."""
    found: list[tuple[str, Lines]] = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        code, mark, names = line.partition(_MARK)
        if not mark:
            continue
        last = number if code.strip() else _last(lines, number, len(code))
        first = number if code.strip() else number + 1
        if last >= first:
            found += ((name.strip(), Lines(first, last)) for name in names.split(","))
    return list(_joined(found, lines))


def _last(lines: list[str], opened: int, indent: int) -> int:
    """Return the last line of code of the region that the comment on line `opened` opens."""
    last = opened
    for number, line in enumerate(lines[opened:], opened + 1):
        code = line.strip()
        if not code or len(line) - len(line.lstrip()) < indent:
            break
        if code == "# end" or _MARK in code:
            break
        if not code.startswith("#"):
            last = number
    return last


def _joined(found: Iterable[tuple[str, Lines]], lines: list[str]) -> Iterator[tuple[str, Lines]]:
    """Join regions of one concept between which there are only comments."""
    joined: dict[str, list[Lines]] = {}
    for name, run in found:
        before = joined.setdefault(name, [])
        between = lines[before[-1].last : run.first - 1] if before else [""]
        if before and all(line.strip().startswith("#") for line in between):
            before[-1] = Lines(before[-1].first, run.last)
        else:
            before.append(run)
    pairs = [(name, run) for name, runs in joined.items() for run in runs]
    yield from sorted(pairs, key=lambda pair: (pair[1].first, pair[1].last))
