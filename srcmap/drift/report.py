"""A repository, two versions and questions in, a report out: what `srcmap drift` is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srcmap.drift.history import History
from srcmap.drift.judge import Judge
from srcmap.drift.judged import Answers
from srcmap.drift.maps import Anatomy, chosen, from_maps, map_of, spot_of
from srcmap.drift.nouns import Answer, Item, Report, Spot
from srcmap.drift.trees import Trees
from srcmap.mapfile import find_map
from srcmap.model import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from srcmap.catalogue import Catalogue
    from srcmap.drift.sides import Side
    from srcmap.drift.sources import Sources, Tree
    from srcmap.lock import Lock
    from srcmap.mapfile import SourceMap


class Question(NamedTuple):
    """What is asked about a bump."""

    entries: bool = True
    """Every location of the old map."""
    variant: str | None = None
    concept: str | None = None
    lines: tuple[Spot, ...] = ()
    citations: tuple[tuple[str, Spot], ...] = ()
    """Where a citation stands, and what it cites in the old version."""
    after: SourceMap | None = None
    """The new map, where it is at hand already."""


def report(
    lock: Lock, old: Tree, new: Tree, sources: Sources, catalogue: Catalogue,
    project: Path | None, question: Question,
) -> Report:  # fmt: skip
    """Judge everything that is asked about a bump."""
    items, notes = _from_trees(lock, old, new, sources, catalogue, project, question)
    return Report(
        repo=lock.name, url=lock.url, old=old.version, new=new.version,
        items=tuple(items), notes=tuple(notes),
    )  # fmt: skip


def _from_trees(
    lock: Lock, old: Tree, new: Tree, sources: Sources, catalogue: Catalogue,
    project: Path | None, question: Question,
) -> tuple[list[Item], list[Note]]:  # fmt: skip
    if old.side is None or new.side is None:
        return _from_maps(lock, old, new, project, question)
    trees = Trees(old.side, new.side)
    history = sources.history(old, new)
    followed = history if isinstance(history, History) else None
    mark = " ".join(c.id for c in followed.commits) if followed else "none"
    answers = Answers(old.side, new.side, mark, Judge(trees, followed).judge)
    notes = [_how(history)]
    items: list[Item] = []
    if question.entries:
        before = _map(catalogue, lock, old, old.side, project)
        after = question.after or _map(catalogue, lock, new, new.side, project)
        asked = chosen(before, question.variant, question.concept)
        anatomy = Anatomy(trees, after)
        given = answers.all([spot_of(e) for e in asked])
        items += [anatomy.item(e, a) for e, a in zip(asked, given, strict=True)]
        items += anatomy.new(chosen(after, question.variant, question.concept))
    items += _asked(answers.all, question)
    return items, notes


def _asked(ask: Callable[[Sequence[Spot]], list[Answer]], question: Question) -> list[Item]:
    spots = [*question.lines, *(spot for _, spot in question.citations)]
    given = ask(spots) if spots else []
    plain = [Item(kind="lines", answer=a) for a in given[: len(question.lines)]]
    cited = given[len(question.lines) :]
    return [
        *plain,
        *(
            Item(kind="citation", answer=answer, document=where)
            for (where, _), answer in zip(question.citations, cited, strict=True)
        ),
    ]


def _map(
    catalogue: Catalogue, lock: Lock, tree: Tree, side: Side, project: Path | None
) -> SourceMap:
    """Give the map that is kept of a pin, else one that is made now."""
    kept = find_map(lock.name, tree.pin.version, project) if tree.pin is not None else None
    if kept is not None:
        return kept
    return map_of(catalogue, lock, tree.pin, side)


def _how(history: History | Note) -> Note:
    if isinstance(history, History):
        return Note("drift.history.read", {"count": str(len(history.commits))})
    return history


# -- without the trees ----------------------------------------------------------------------


def _from_maps(
    lock: Lock, old: Tree, new: Tree, project: Path | None, question: Question
) -> tuple[list[Item], list[Note]]:
    missing = [t.version.name for t in (old, new) if t.side is None]
    command = " ".join(f"{lock.name}@{name}" for name in missing)
    notes = [Note("drift.no-tree", {"command": f"srcmap sync {command}"})]
    before = find_map(lock.name, old.version.name, project) if old.pin else None
    after = find_map(lock.name, new.version.name, project) if new.pin else None
    items: list[Item] = []
    if question.entries and before is not None:
        asked = chosen(before, question.variant, question.concept)
        if after is not None:
            items += from_maps(asked, after)
        else:
            items += [
                Item(kind="entry", answer=_unjudged(spot_of(e), command), variant=e.variant,
                     concept=e.concept, site=e.site)
                for e in asked
            ]  # fmt: skip
    items += _asked(lambda spots: [_line_from_maps(s, before, after, command) for s in spots],
                    question)  # fmt: skip
    return items, notes


def _line_from_maps(
    spot: Spot, before: SourceMap | None, after: SourceMap | None, command: str
) -> Answer:
    """Judge any lines from the maps alone: only where the whole file is the same."""
    old = {e.path: e.blob for e in before.entries if e.blob} if before else {}
    new = {e.path: e.blob for e in after.entries if e.blob} if after else {}
    if spot.path in old and old[spot.path] == new.get(spot.path):
        return Answer(old=spot, new=spot, verdict="same", grade="proven",
                      methods=("identical",), similarity=1.0)  # fmt: skip
    return _unjudged(spot, command)


def _unjudged(spot: Spot, command: str) -> Answer:
    note = Note("drift.needs-tree", {"command": f"srcmap sync {command}"})
    return Answer(old=spot, new=None, verdict="unjudged", grade="", reason=(note,))
