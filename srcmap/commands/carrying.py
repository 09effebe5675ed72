"""The documents of a bump: their citations as questions, and what is proven written back.

This is the seam between drift and citations: `srcmap.cite` finds and rewrites, drift judges.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from srcmap.cite.audit import Auditor
from srcmap.cite.fix import apply, changes
from srcmap.cite.record import FILE, Kept, Record, read_record, toml_string
from srcmap.commands.citing import Setup, chosen_documents, setup, task
from srcmap.digest import lines_digest
from srcmap.drift.nouns import Spot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from srcmap.cite.fix import Change
    from srcmap.cite.nouns import Judged
    from srcmap.drift.nouns import Item, Report
    from srcmap.lock import Lock, Pin

CARRIED = frozenset({"same", "moved", "cosmetic"})
"""Verdicts whose citations may be rewritten when they are proven: the meaning stayed."""


class Cited(NamedTuple):
    """One citation of the old version."""

    path: Path
    shown: str
    nth: int
    """Its number among the citations of its document."""
    judged: Judged
    spot: Spot

    @property
    def place(self) -> str:
        """Where it stands, for a reader."""
        return f"{self.shown}:{self.judged.citation.line}"

    @property
    def names_a_version(self) -> bool:
        """Whether it goes on speaking of the old version when nothing is done."""
        return self.judged.citation.target.pin is not None


def citations(names: Sequence[str], lock: Lock, pin: Pin, start: Path | None) -> list[Cited]:
    """Find every citation, with lines, of one pin in documents or folders."""
    found = setup(start)
    work = task(found, [f"{lock.name}@{pin.version}"])
    auditor = Auditor(work)
    cited: list[Cited] = []
    for path, shown in chosen_documents([Path(name) for name in names], found):
        audited = auditor.audit(path, shown)
        filled = _filled(path)
        for nth, judged in enumerate(audited.judged):
            if any(first <= judged.citation.span[0] < last for first, last in filled):
                continue  # a table that is made anew
            if (spot := _spot(judged, lock, pin)) is not None:
                cited.append(Cited(path, shown, nth, judged, spot))
    return cited


_BLOCK = re.compile(rb"srcmap:(?:table|ref)\b.*?/srcmap\b", re.DOTALL)


def _filled(path: Path) -> list[tuple[int, int]]:
    """Find the blocks of a document that `srcmap cite inject` fills."""
    try:
        return [match.span() for match in _BLOCK.finditer(path.read_bytes())]
    except OSError:
        return []


def _spot(judged: Judged, lock: Lock, pin: Pin) -> Spot | None:
    target = judged.citation.target
    if target.lines is None or target.path is None or target.repo != lock.name:
        return None
    named = target.pin is None or target.pin in (pin.version, pin.version.removeprefix("v"))
    linked = judged.citation.commit is not None and _names(target.pin, pin)
    if not (named or linked) or judged.verdict in ("malformed", "no-such-file", "out-of-range"):
        return None
    return Spot(path=target.path, lines=target.lines)


def _names(written: str | None, pin: Pin) -> bool:
    """Whether a written version is this pin's commit, in full or as its first digits."""
    return bool(written and pin.commit and pin.commit.startswith(written)) or written == pin.version


def has_documents(names: Sequence[str], start: Path | None) -> bool:
    """Whether documents are named, here or in the project's settings."""
    return bool(names or setup(start).settings.documents)


# -- writing back ---------------------------------------------------------------------------


class Written(NamedTuple):
    """New bytes of documents and records, and what became of the citations."""

    files: dict[Path, bytes]
    before: dict[Path, bytes | None]
    carried: int
    left: tuple[Cited, ...]
    """Those that were not written."""


def carried(cited: Sequence[Cited], report: Report, new: Pin) -> Written:
    """Rewrite the digits and commits of every citation that is proven; leave all others."""
    answers = [item for item in report.items if item.kind == "citation"]
    by_path: dict[Path, list[tuple[Cited, Item]]] = {}
    for one, item in zip(cited, answers, strict=True):
        by_path.setdefault(one.path, []).append((one, item))
    files: dict[Path, bytes] = {}
    before: dict[Path, bytes | None] = {}
    count = 0
    left: list[Cited] = []
    for path, pairs in by_path.items():
        data = before[path] = path.read_bytes()
        edits: list[Change] = []
        for one, item in pairs:
            mine = _edits(one, item, data, new) if _may(one, item) else None
            if mine is None:
                left.append(one)
            else:
                edits += mine
                count += 1
        files[path] = apply(data, edits)
    return Written(files, before, count, tuple(left))


def _may(one: Cited, item: Item) -> bool:
    answer = item.answer
    return (
        answer.grade == "proven"
        and answer.verdict in CARRIED
        and answer.new is not None
        and answer.new.path == one.spot.path
        # A version that is named in words would go on naming the old one.
        and (one.judged.citation.target.pin is None or one.judged.citation.commit is not None)
    )


def _edits(one: Cited, item: Item, data: bytes, new: Pin) -> list[Change] | None:
    """Give the bytes to change; None where the way it is written cannot take them."""
    place = item.answer.new
    if place is None:
        return None
    commit = new.commit if one.judged.citation.commit is not None else None
    found = changes(one.judged, place.lines, commit, data)
    moved = place.lines != one.spot.lines
    return list(found) if found or not moved else None


def renewed_records(
    cited: Sequence[Cited],
    report: Report,
    new: Pin,
    lock: Lock,
    written: Written,
    read: Callable[[str], Sequence[str]],
) -> dict[Path, bytes]:
    """Carry the entries of `srcmap.cites.toml` of what was carried; all others keep their bytes."""
    answers = [item for item in report.items if item.kind == "citation"]
    fresh: dict[tuple[Path, str, str], tuple[Cited, Item]] = {}
    for one, item in zip(cited, answers, strict=True):
        if one not in written.left:
            fresh[one.path.parent, one.path.name, one.judged.citation.text] = (one, item)
    files: dict[Path, bytes] = {}
    for folder in {one.path.parent for one in cited}:
        record = read_record(folder / FILE)
        if not record.entries:
            continue
        entries = [_renewed(e, folder, fresh, written, new, lock, read) for e in record.entries]
        files[folder / FILE] = Record(record.head, entries).encode()
    return files


def _renewed(
    entry: Kept,
    folder: Path,
    fresh: Mapping[tuple[Path, str, str], tuple[Cited, Item]],
    written: Written,
    new: Pin,
    lock: Lock,
    read: Callable[[str], Sequence[str]],
) -> Kept:
    pair = fresh.get((folder, entry.document, entry.text))
    if pair is None or pair[1].answer.new is None:
        return entry
    one, place = pair[0], pair[1].answer.new
    before = written.before[one.path] or b""
    first, last = one.judged.citation.span
    edits = _edits(one, pair[1], before, new) or []
    inside = [e._replace(first=e.first - first, last=e.last - first)
              for e in edits if first <= e.first and e.last <= last]  # fmt: skip
    text = apply(before[first:last], inside).decode("utf-8", "surrogateescape")
    fields = {
        **entry.fields,
        "text": text,
        "pin": f"{lock.name}@{new.version}",
        "path": place.path,
        "lines": [place.lines.first, place.lines.last],
        "digest": lines_digest(read(place.path), place.lines),
    }
    rows = ["[[cite]]", *(f"{k} = {toml_string(v) if isinstance(v, str) else v}"
                          for k, v in fields.items())]  # fmt: skip
    return Kept(entry.document, text, entry.nth, fields, "\n".join([*rows, "", ""]))


# -- injected tables ------------------------------------------------------------------------


def injected_documents(
    names: Sequence[str], written: Mapping[Path, bytes], project: Path, lang: str,
    planned: Mapping[Path, bytes],
) -> dict[Path, bytes]:  # fmt: skip
    """Fill the tables of documents as the project will be: with its new lock and its new map."""
    from srcmap.cite.inject import injected
    from srcmap.commands.cite_tables import Filler, TableMaker
    from srcmap.lock import known_locks

    found = setup(project)
    paths = [path for path, _ in chosen_documents([Path(name) for name in names], found)]
    marked = [p for p in paths if b"srcmap:" in written.get(p, p.read_bytes())]
    if not marked:
        return {}
    with overlay(project, planned) as future:
        view = Setup(future, known_locks(future), found.settings)
        filler = Filler(TableMaker(view), lang)
        files = {}
        for path in marked:
            data = written.get(path, path.read_bytes())
            after, count = injected(data, path.name, filler)
            if count and after != data:
                files[path] = after
        return files


class overlay:  # noqa: N801 - a context manager
    """A folder that looks like the project, with some files as they will be."""

    def __init__(self, project: Path, planned: Mapping[Path, bytes]) -> None:
        import tempfile

        self._project = project
        self._planned = planned
        self._temporary = tempfile.TemporaryDirectory(prefix="srcmap-bump-")

    def __enter__(self) -> Path:
        root = Path(self._temporary.name)
        own = {path.relative_to(self._project).parts[0] for path in self._planned}
        for entry in self._project.iterdir():
            if entry.name not in own:
                (root / entry.name).symlink_to(entry, target_is_directory=entry.is_dir())
        for name in own:
            source = self._project / name
            for path in source.rglob("*") if source.is_dir() else []:
                if path.is_file() and not path.name.endswith(".lock"):
                    place = root / path.relative_to(self._project)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(path.read_bytes())
        for path, data in self._planned.items():
            place = root / path.relative_to(self._project)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        return root

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()


def planned_lock(text: str, path: Path, pin: Pin, *, current: bool) -> bytes:
    """Give the bytes of a lock file with a pin added, and made current."""
    from srcmap.lock.write import with_pin

    return with_pin(text, path, pin, current=current)


def as_current(lock: Lock, pin: Pin) -> Lock:
    """Give a lock that has a pin."""
    if lock.find(pin.version) is not None:
        return lock
    return msgspec.structs.replace(lock, pins=(*lock.pins, pin))
