"""What the `cite` commands share: documents to judged citations, those to pages and findings."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.cite.audit import Audited, Task, audit, documents
from srcmap.cite.nouns import BAD, VERDICTS, Judged
from srcmap.cite.settings import Settings, read_settings
from srcmap.config import read_table
from srcmap.errors import CheckoutError, UsageError
from srcmap.lock import find_project, known_locks, pick
from srcmap.render.cite_pages import ShownCandidate, ShownCitation
from srcmap.render.findings import Finding
from srcmap.render.links import permalink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from srcmap.cite.nouns import Candidate
    from srcmap.lock import Lock
    from srcmap.model import Note

_IN_MEMORY = 16 << 20


class Setup(NamedTuple):
    """A project and what it says about its citations."""

    project: Path | None
    locks: tuple[Lock, ...]
    settings: Settings


def setup(start: Path | None) -> Setup:
    """Look around the folder that a command runs in."""
    project = find_project(start or Path.cwd())
    settings = read_settings(read_table(project, "cite"))
    return Setup(project, known_locks(project), settings)


def task(found: Setup, pins: Sequence[str], *, fences: bool = False, judge: bool = True) -> Task:
    """Give all that an audit needs. CheckoutError when no pin at all is here."""
    chosen = [pick(found.locks, name) for name in pins]
    for name, version in found.settings.pins.items():
        pick(found.locks, f"{name}@{version}")
    catalogue = load_catalogue(found.project)
    names = {c.id: (c.name.en, c.name.zh) for c in catalogue.concepts}
    forced = {lock.name: pin.version for lock, pin in chosen}
    _check_here(found, forced)
    return Task(found.locks, found.project, found.settings, names, forced, fences, judge)


def _check_here(found: Setup, forced: Mapping[str, str]) -> None:
    from srcmap.checkout import find_checkout

    for lock in found.locks:
        version = forced.get(lock.name) or found.settings.pins.get(lock.name) or lock.current
        pin = lock.find(version)
        if pin and lock.name in forced and find_checkout(lock, pin, found.project) is None:
            name = f"{lock.name}@{version}"
            raise CheckoutError(f"{name} is not here", slug="checkout", hint=f"srcmap sync {name}")
    if not any(
        find_checkout(lock, pin, found.project) for lock in found.locks for pin in lock.pins
    ):
        names = " ".join(lock.name for lock in found.locks)
        raise CheckoutError("no pin is here, so no citation can be looked up", slug="checkout",
                            hint=f"srcmap sync {names}")  # fmt: skip


def chosen_documents(named: Sequence[Path], found: Setup) -> list[tuple[Path, str]]:
    """List the documents to read. UsageError when none is named, here or in the settings."""
    for path in named:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder", slug="usage")
    if not named and not found.settings.documents:
        raise UsageError("no document is named", slug="usage",
                         hint="srcmap cite check FILE..., or [cite] documents in .srcmap.toml")  # fmt: skip  # noqa: E501
    return documents(named, found.settings, found.project)


class Spool:
    """Judged citations on their way to a page: counted, kept on disk when they are many."""

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # type: ignore[assignment]  # noqa: SIM115
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Judged)
        self.verdicts = dict.fromkeys(VERDICTS, 0)
        self.kinds = {"lines": 0, "sections": 0, "files": 0}
        self.documents = self.citations = self.known = 0
        self.problems: list[tuple[str, str]] = []
        self.remarks = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def take(self, audited: Audited) -> None:
        """Take the citations of one document."""
        self.documents += 1
        if audited.problem is not None:
            self.problems.append((audited.document, audited.problem))
        for judged in audited.judged:
            self._count(judged)
            data = self._encoder.encode(judged)
            self._file.write(len(data).to_bytes(4, "big") + data)

    def _count(self, judged: Judged) -> None:
        self.citations += 1
        self.verdicts[judged.verdict] += 1
        self.known += judged.known
        target = judged.citation.target
        kind = "lines" if target.lines else "sections" if target.section else "files"
        self.kinds[kind] += 1

    def __iter__(self) -> Iterator[Judged]:
        self._file.seek(0)
        while size := self._file.read(4):
            yield self._decoder.decode(self._file.read(int.from_bytes(size, "big")))

    @property
    def faults(self) -> int:
        """How many citations are at fault and not known to be."""
        return sum(self.verdicts[verdict] for verdict in BAD) - self.known

    def counts(self, *, judged: bool) -> dict[str, int]:
        """Give the counts that every format shows."""
        found = {"documents": self.documents, "citations": self.citations, **self.kinds}
        if judged:
            found.update({str(name): count for name, count in self.verdicts.items()})
            found["known"] = self.known
        return found


class Baseline:
    """Known faults: each excuses one citation, and has to go once it excuses none."""

    def __init__(self, settings: Settings) -> None:
        self._left: dict[tuple[str, str, str], int] = {}
        for known in settings.baseline:
            key = (known.document, known.text, known.verdict)
            self._left[key] = self._left.get(key, 0) + 1
        self._read: set[str] = set()

    def applied(self, audited: Audited, name: str) -> Audited:
        """Mark the known faults of a document; `name` is how the settings call it."""
        self._read.add(name)
        judged = tuple(self._marked(found, name) for found in audited.judged)
        return msgspec.structs.replace(audited, judged=judged)

    def _marked(self, found: Judged, name: str) -> Judged:
        key = (name, " ".join(found.citation.text.split()), found.verdict)
        if found.verdict not in BAD or not self._left.get(key):
            return found
        self._left[key] -= 1
        return msgspec.structs.replace(found, known=True)

    def fixed(self) -> list[tuple[str, str, str]]:
        """List the entries about documents that were read that excuse nothing any more."""
        return [key for key, left in self._left.items() if left > 0 and key[0] in self._read]


def run_audit(found: Setup, work: Task, paths: Sequence[tuple[Path, str]], into: Spool) -> Baseline:
    """Audit documents into a spool, known faults marked."""
    baseline = Baseline(found.settings)
    for (path, _), audited in zip(paths, audit(work, paths), strict=True):
        into.take(baseline.applied(audited, known_name(path, found.project)))
    return baseline


def known_name(path: Path, project: Path | None) -> str:
    """Name a document as the settings do: from the project's folder."""
    full = path.absolute()
    if project is not None and full.is_relative_to(project.absolute()):
        return full.relative_to(project.absolute()).as_posix()
    return path.as_posix()


# -- said ------------------------------------------------------------------------------------


def place(
    repo: str | None, pin: str | None, path: str | None, lines: object, section: str | None
) -> str:
    """Write a place: `REPO@VERSION:path:lines`."""
    at = "@".join(part for part in (repo, pin) if part)
    where = path or "?"
    tail = f":{lines}" if lines else ""
    return f"{at}:{where}{tail}" + (f" § {section}" if section else "")


def target_of(judged: Judged) -> str:
    """Write what a citation refers to, at the pin where it was judged."""
    target = judged.citation.target
    repo, _, version = (judged.judged_at or "").partition("@")
    return place(target.repo or repo or None, version or target.pin, target.path,
                 target.lines, target.section)  # fmt: skip


def shown(judged: Judged, lang: str, *, verdict: bool = True) -> ShownCitation:
    """Give a citation as a page shows it."""
    flags = tuple(i18n.text(f"cite.flag.{flag}", lang, pin=judged.citation.target.pin or "",
                            at=judged.judged_at or "") for flag in judged.flags)  # fmt: skip
    warnings = tuple(i18n.say(note, lang) for note in judged.warnings)
    known = (i18n.text("cite.known", lang),) if judged.known else ()
    return ShownCitation(
        document=judged.document,
        line=judged.citation.line,
        text=" ".join(judged.citation.text.split()),
        target=target_of(judged),
        verdict=judged.verdict if verdict else "",
        fault=judged.verdict in BAD,
        known=judged.known,
        reason=i18n.say(judged.reason, lang) if verdict else "",
        remarks=(*known, *flags, *warnings),
        candidates=tuple(shown_candidate(c, lang) for c in judged.candidates),
    )


def shown_candidate(candidate: Candidate, lang: str) -> ShownCandidate:
    """Give a candidate as a page shows it."""
    where = place(candidate.repo or None, None, candidate.path, candidate.lines, None)
    return ShownCandidate(place=where.removeprefix(":"), why=i18n.say(candidate.why, lang))


def as_plain(
    judged: Judged, lang: str, locks: Mapping[str, Lock], *, verdict: bool
) -> dict[str, Any]:
    """Give a citation as JSON writes it."""
    citation, target = judged.citation, judged.citation.target
    value: dict[str, Any] = {
        "document": judged.document,
        "line": citation.line,
        "span": citation.span,
        "digits": citation.digits,
        "text": citation.text,
        "rule": citation.rule,
        "target": {"repo": target.repo, "pin": target.pin, "path": target.path,
                   "lines": target.lines, "section": target.section},
        "judged_at": judged.judged_at,
        "flags": judged.flags,
    }  # fmt: skip
    if not verdict:
        return value
    return value | {
        "verdict": judged.verdict,
        "known": judged.known,
        "reason": i18n.say(judged.reason, lang),
        "warnings": [i18n.say(note, lang) for note in judged.warnings],
        "digest": judged.digest or None,
        "url": url_of(judged, locks),
        "candidates": [
            {"repo": c.repo or target.repo, "path": c.path, "lines": c.lines,
             "why": i18n.say(c.why, lang)}
            for c in judged.candidates
        ],
    }  # fmt: skip


def url_of(judged: Judged, locks: Mapping[str, Lock]) -> str | None:
    """Give the page of a citation's lines at the pin where it was judged."""
    repo, _, version = (judged.judged_at or "").partition("@")
    lock, target = locks.get(repo), judged.citation.target
    pin = lock.find(version) if lock else None
    if lock is None or pin is None or target.path is None:
        return None
    return permalink(lock.url, pin.commit, target.path, target.lines)


def finding(judged: Judged, lang: str) -> Finding:
    """Give a citation as a result for machines."""
    page = shown(judged, lang)
    level = "ok"
    if page.fault:
        level = "note" if judged.known else "error"
    elif judged.warnings:
        level = "note"
    right = [f"? {c.place}  {c.why}" for c in page.candidates]
    message = "\n".join(
        [f"{page.verdict}: {page.text}", page.target, page.reason, *page.remarks, *right]
    )
    return Finding(rule=f"cite/{judged.verdict}", level=level, message=message,  # type: ignore[arg-type]
                   path=judged.document, line=judged.citation.line, group=judged.document,
                   name=f"{judged.document}:{judged.citation.line} {page.text}")  # fmt: skip


def rules(lang: str) -> dict[str, str]:
    """Say what each verdict means."""
    return {f"cite/{verdict}": i18n.text(f"cite.verdict.{verdict}", lang) for verdict in VERDICTS}


def tell(note: Note, lang: str) -> None:
    """Say something beside the answer."""
    from srcmap.render.console import emit

    emit(i18n.say(note, lang), sys.stderr)
