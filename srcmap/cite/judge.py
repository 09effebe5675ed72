"""A citation and what the document says about it -> a verdict, the first in order that applies.

`ok` speaks of the place alone: that what the document shows or names stands on those lines. What
the document claims about it is for people to judge.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from srcmap.cite.compare import norm
from srcmap.cite.comparing import Comparing
from srcmap.cite.find import with_target
from srcmap.cite.findings import SHOWN, Finding, by_digest, by_names, by_quotes
from srcmap.cite.items import by_beside
from srcmap.cite.nouns import Candidate, Judged
from srcmap.model import Lines, Note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.cite.compare import FileText
    from srcmap.cite.concepts import Concepts
    from srcmap.cite.evidence import Evidence
    from srcmap.cite.nouns import Citation, Place, Verdict
    from srcmap.cite.shelf import Shelf, Tree


class Judge:
    """Judges citations against the pins of a shelf."""

    def __init__(self, shelf: Shelf, concepts: Concepts) -> None:
        self._shelf, self._concepts = shelf, concepts
        self._comparing = Comparing(shelf)
        self._products = frozenset(part for repo in shelf.locks for part in re.split(r"[-_]", repo))
        """The names of what the documents are about: they stand everywhere, and prove nothing."""

    def judge(
        self, document: str, citation: Citation, evidence: Evidence, digest: str | None = None,
        before: Citation | None = None,
    ) -> Judged:  # fmt: skip
        """Give the verdict on one citation; `digest` is what the record says of its lines.

        `before` is the citation before it, with the file that it was found to mean.
        """
        advice = () if citation.plain else (Note("cite.advice.plain"),)
        early = self._before_looking(citation)
        if early is not None:
            verdict, reason = early
            return Judged(document=document, citation=citation, verdict=verdict, judged_at=None,
                          reason=reason, warnings=advice)  # fmt: skip
        citation = self.settled(citation, evidence, before)
        if len(citation.options) > 1:
            return self._ambiguous(document, citation, advice)
        place = citation.options[0] if citation.options else None
        tree, flags = self._tree(citation, place)
        if place is None or tree is None or not tree.has(place.path):
            return self._no_file(document, citation, place, tree, flags, advice)
        judged = self._in_file(document, citation, evidence, tree, place.path, digest)
        more = (*judged.warnings, *advice)
        return _with(judged, flags=flags, warnings=more)

    def scanned(
        self, document: str, citation: Citation, evidence: Evidence,
        before: Citation | None = None,
    ) -> Judged:  # fmt: skip
        """Say which file is meant, and no more: what `scan` shows."""
        citation = self.settled(citation, evidence, before)
        place = citation.options[0] if len(citation.options) == 1 else None
        tree, flags = self._tree(citation, place)
        return Judged(document=document, citation=citation, verdict="plausible", flags=flags,
                      judged_at=tree.label if tree else None, reason=Note("cite.reason.scanned"))  # fmt: skip  # noqa: E501

    # -- what needs no file --------------------------------------------------------------

    @staticmethod
    def _before_looking(citation: Citation) -> tuple[Verdict, Note] | None:
        if citation.foreign:
            name = citation.options[0].repo if citation.options else citation.target.pin or ""
            return "unknown-repo", Note("cite.reason.unknown-repo", {"name": name})
        if citation.pinned == "branch":
            return "unpinned", Note("cite.reason.unpinned", {"name": citation.target.pin or ""})
        lines = citation.target.lines
        if lines is not None and (lines.first < 1 or lines.last < lines.first):
            return "malformed", Note("cite.reason.malformed", {"lines": str(lines)})
        return None

    def _tree(self, citation: Citation, place: Place | None) -> tuple[Tree | None, tuple[str, ...]]:
        """Choose the pin to judge at: the one asked for, else the one named, else the current."""
        if place is None or place.repo not in self._shelf.locks:
            return None, ()
        named = citation.target.pin
        lock, default = self._shelf.locks[place.repo], self._shelf.default(place.repo)
        if named is None:
            return default, ()
        tree = self._shelf.tree(place.repo, named)
        pin = lock.find(named)
        if pin is None:
            return default, ("no-such-pin", "other-pin")
        if place.repo in self._shelf.chosen and default is not None:
            return default, (() if default.pin.version == named else ("other-pin",))
        if tree is None:
            return default, ("not-synced", "other-pin")
        from srcmap.lock.nouns import matches

        covered = not tree.checkout.partial or tree.has(place.path) or (
            bool(pin.covers) and matches(place.path, pin.covers)
        )  # fmt: skip
        if not covered:
            return default, ("partial", "other-pin")
        return tree, ()

    # -- which file ----------------------------------------------------------------------

    def settled(
        self, citation: Citation, evidence: Evidence, before: Citation | None = None
    ) -> Citation:
        """Choose between several files by what stands in them; else the nearest of "same file".

        Lines go on in the file of the lines before them in their sentence.
        """
        options = citation.options
        if len(options) < 2:
            return citation
        agreeing = [p for p in options if self._agrees(citation, evidence, p)]
        if len(agreeing) == 1 or (agreeing and citation.rule in ("continuation", "comment")):
            return with_target(citation, agreeing[0])
        if citation.same:
            return with_target(citation, options[0])
        if before is not None and evidence.follows(before) and before.options[0] in options:
            return with_target(citation, before.options[0])
        return citation

    def _agrees(self, citation: Citation, evidence: Evidence, place: Place) -> bool:
        tree, _ = self._tree(citation, place)
        text = self._shelf.file(tree, place.path) if tree else None
        lines = citation.target.lines
        if tree is None or text is None or lines is None or lines.last > text.size:
            return False
        found = self._comparing.compare(tree, place.path, text, lines, evidence)
        return found is not None and found.agrees

    @staticmethod
    def _why(citation: Citation) -> str:
        return "cite.why.same-name" if citation.written else "cite.why.named-before"

    def _ambiguous(self, document: str, citation: Citation, advice: tuple[Note, ...]) -> Judged:
        why = self._why(citation)
        candidates = tuple(
            Candidate(path=p.path, repo=p.repo, lines=citation.target.lines,
                      why=Note(why))
            for p in citation.options[:SHOWN]
        )  # fmt: skip
        names = ", ".join(f"{p.repo}:{p.path}" for p in citation.options[:SHOWN])
        reason = Note(
            "cite.reason.ambiguous", {"count": str(len(citation.options)), "names": names}
        )
        return Judged(document=document, citation=citation, verdict="ambiguous", judged_at=None,
                      reason=reason, candidates=candidates, warnings=advice)  # fmt: skip

    # -- no such file --------------------------------------------------------------------

    def _no_file(
        self, document: str, citation: Citation, place: Place | None, tree: Tree | None,
        flags: tuple[str, ...], advice: tuple[Note, ...],
    ) -> Judged:  # fmt: skip
        path = place.path if place else citation.written
        found = tuple(self._elsewhere(path, place, tree, citation.target.lines))
        at = tree.label if tree else ""
        key = "cite.reason.no-such-file" if at else "cite.reason.nowhere"
        reason = Note(key, {"path": path, "pin": at})
        return Judged(document=document, citation=citation, verdict="no-such-file",
                      judged_at=tree.label if tree else None, reason=reason, flags=flags,
                      candidates=found[:SHOWN], warnings=advice)  # fmt: skip

    def _elsewhere(  # noqa: C901
        self, path: str, place: Place | None, tree: Tree | None, lines: Lines | None
    ) -> Iterable[Candidate]:
        """Propose where a file went: same bytes, same name, another pin or repository."""
        seen: set[tuple[str, str]] = set()

        def propose(repo: str, found: str, why: str, **args: str) -> Iterable[Candidate]:
            if (repo, found) not in seen:
                seen.add((repo, found))
                yield Candidate(
                    path=found, repo=repo, lines=lines, why=Note(f"cite.why.{why}", args)
                )

        name = path.rpartition("/")[2]
        if place is not None and tree is not None:
            for other in self._shelf.trees(place.repo):
                blob = other.blobs.get(path)
                moved = [p for p, b in tree.blobs.items() if b == blob] if blob else []
                for found in moved:
                    yield from propose(place.repo, found, "renamed", pin=other.pin.version)
            for found in sorted(tree.ending(name), key=lambda p: -_shared(p, path))[:3]:
                yield from propose(place.repo, found, "moved")
            for other in self._shelf.trees(place.repo):
                if path in other.blobs:
                    yield from propose(place.repo, path, "other-pin", pin=other.pin.version)
        for repo in self._shelf.locks:
            there = self._shelf.look_up(repo, path) or self._shelf.look_up(repo, name)
            for found in sorted(there, key=lambda p: -_shared(p, path))[:3]:
                yield from propose(repo, found, "other-repo", name=repo)
        yield from self._similar(name, place, propose)

    def _similar(self, name: str, place: Place | None, propose: object) -> Iterable[Candidate]:
        from rapidfuzz import fuzz, process

        repos = [place.repo] if place and place.repo in self._shelf.locks else [*self._shelf.locks]
        for repo in [*repos, *(r for r in self._shelf.locks if r not in repos)]:
            tree = self._shelf.default(repo)
            if tree is None or not name:
                continue
            names = {p.rpartition("/")[2]: p for p in tree.blobs}
            near = process.extract(name, names.keys(), scorer=fuzz.ratio, limit=2, score_cutoff=80)
            stem = name.rpartition(".")[0]
            holding = [n for n in names if len(stem) > 7 and stem in n][:2]
            for found in [*holding, *(n for n, *_ in near)]:
                yield from propose(repo, names[found], "similar")  # type: ignore[operator]

    # -- in the file ---------------------------------------------------------------------

    def _in_file(
        self, document: str, citation: Citation, evidence: Evidence, tree: Tree, path: str,
        digest: str | None,
    ) -> Judged:  # fmt: skip
        text = self._shelf.file(tree, path)
        lines, section = citation.target.lines, citation.target.section
        base = Judged(document=document, citation=citation, verdict="plausible",
                      judged_at=tree.label, reason=Note("cite.reason.plausible"))  # fmt: skip
        if text is None:
            return _with(base, reason=Note("cite.reason.folder"))
        place = _section_place(text, section) if section else None
        if section and place is None:
            return self._no_section(base, text, section, path)
        base = _with(base, warnings=tuple(_lacking(text, evidence)))
        if lines is None:
            return self._whole(base, tree, path, text, evidence, place)
        if lines.last > text.size:
            moved = tuple(self._moved(citation, tree, path, text, digest))
            right = (*moved, *self._right(tree, path, text, evidence, place))[:SHOWN]
            reason = Note("cite.reason.out-of-range",
                          {"lines": str(lines), "size": str(text.size), "path": path})  # fmt: skip
            return _with(base, verdict="out-of-range", reason=reason, candidates=right)
        if text.blank(lines):
            moved = tuple(self._moved(citation, tree, path, text, digest))
            right = (*moved, *self._right(tree, path, text, evidence, place))[:SHOWN]
            return _with(base, verdict="blank", reason=Note("cite.reason.blank"), candidates=right)
        base = _with(base, digest=text.digest(lines))
        digest = digest or self._as_named(citation, tree, path)
        found = self._compared(tree, path, text, lines, evidence, place, digest)
        if found is None:
            return base
        if found.agrees:
            return _with(base, verdict="ok", reason=found.reason)
        right = found.candidates or self._right(tree, path, text, evidence, place)
        return _with(base, verdict="off", reason=found.reason, candidates=right[:SHOWN])

    def _as_named(self, citation: Citation, tree: Tree, path: str) -> str | None:
        """Give the digest of the lines at the pin that is named, when judged at another."""
        named, lines = citation.target.pin, citation.target.lines
        other = self._shelf.tree(tree.lock.name, named) if named else None
        if other is None or other is tree or lines is None:
            return None
        text = self._shelf.file(other, path)
        if text is None or lines.last > text.size or text.blank(lines):
            return None
        return text.digest(lines)

    def _no_section(self, base: Judged, text: FileText, section: str, path: str) -> Judged:
        head = section.partition(".")[0]
        near = [
            Candidate(
                path=path, lines=Lines(line, line), why=Note("cite.why.heading", {"title": title})
            )
            for line, _, title in text.headings
            if re.match(rf"{re.escape(head)}(?!\d)", title)
        ]
        reason = Note("cite.reason.no-section", {"section": section, "path": path})
        return _with(base, verdict="out-of-range", reason=reason, candidates=tuple(near[:SHOWN]))

    def _whole(
        self, base: Judged, tree: Tree, path: str, text: FileText, evidence: Evidence,
        place: Lines | None,
    ) -> Judged:  # fmt: skip
        """A file or a section: it agrees when something of the sentence stands in it."""
        lines = place or Lines(1, text.size)
        if place is not None:
            title = text.lines[place.first - 1]
            other = _other_title(text, place, evidence.piece)
            if other is not None:
                return _with(base, verdict="off", candidates=(other,), reason=Note(
                    "cite.reason.section-elsewhere", {"lines": str(other.lines)}))  # fmt: skip
            shown = re.sub(r"\A[\d.]+\W*", "", base.citation.target.section or "")
            told = norm(re.sub(r"\A[#\W\d]+", "", title))
            if (shown and norm(shown) in norm(title)) or (
                len(told) > 3 and told in norm(evidence.clause)
            ):
                return _with(
                    base,
                    verdict="ok",
                    reason=Note("cite.reason.heading", {"title": title.strip("# \r")}),
                )
        for name in (*evidence.names, *evidence.sentence_names):
            if place is not None and name.casefold() in self._products:
                continue
            hits = text.word(name.rpartition(".")[2].rpartition("::")[2])
            if any(lines.first <= n <= lines.last for n in hits):
                return _with(base, verdict="ok", reason=Note("cite.reason.name", {"name": name}))
        found = _shown_in(path, text, lines, evidence)
        if found is not None:
            return _with(base, verdict="ok" if found.agrees else "off", reason=found.reason,
                         candidates=found.candidates)  # fmt: skip
        entries = self._shelf.entries(tree, path)
        concepts = (*evidence.concepts, *evidence.told)
        named = next((e for c in concepts for e in entries if e.concept == c), None)
        if named and named.lines and named.lines.overlap(lines):
            return _with(
                base, verdict="ok", reason=Note("cite.reason.concept", {"name": named.concept})
            )
        return base

    # -- comparing -----------------------------------------------------------------------

    def _compared(
        self, tree: Tree, path: str, text: FileText, lines: Lines, evidence: Evidence,
        place: Lines | None, digest: str | None,
    ) -> Finding | None:  # fmt: skip
        if place is not None and not (place.first <= lines.first and lines.last <= place.last):
            reason = Note("cite.reason.section-elsewhere", {"lines": str(place)})
            right = Candidate(path=path, lines=place, why=Note("cite.why.section"), proven=True)
            return Finding(False, reason, (right,))
        found = self._comparing.compare(tree, path, text, lines, evidence)
        if digest and (found is None or found.agrees):
            return by_digest(path, text, lines, digest) if found is None else found
        if found is None and place is not None:
            return Finding(True, Note("cite.reason.in-section"))
        return found

    def _moved(
        self, citation: Citation, tree: Tree, path: str, text: FileText, digest: str | None
    ) -> Iterable[Candidate]:
        """Find where the recorded lines are now."""
        digest, lines = digest or self._as_named(citation, tree, path), citation.target.lines
        if digest and lines:
            places = text.like(digest, lines.last - lines.first + 1)
            for place in places[:SHOWN]:
                yield Candidate(path=path, lines=place, why=Note("cite.why.digest"),
                                proven=len(places) == 1)  # fmt: skip

    def _right(
        self, tree: Tree, path: str, text: FileText, evidence: Evidence,
        place: Lines | None,
    ) -> tuple[Candidate, ...]:  # fmt: skip
        """Propose the right lines when the cited ones cannot be: text, concepts, names."""
        found: list[Candidate] = []
        if place is not None:
            found.append(
                Candidate(path=path, lines=place, why=Note("cite.why.section"), proven=True)
            )
        quote = by_quotes(path, text, Lines(0, 0), evidence.quotes)
        concept = self._comparing.by_concept(tree, path, text, Lines(0, 0), evidence.concepts)
        for finding in (concept, quote):
            found.extend(finding.candidates if finding else ())
        found.extend(self._hinted(tree, path, evidence))
        names = by_names(path, text, Lines(0, 0), evidence.names)
        found.extend(names.candidates if names else ())
        unique = {c.lines: c for c in reversed(found)}
        return (
            tuple(c for c in found if unique.get(c.lines) is c)[:SHOWN]
            or tuple({c.lines: c for c in found}.values())[:SHOWN]
        )

    def _hinted(self, tree: Tree, path: str, evidence: Evidence) -> Iterable[Candidate]:
        """Concepts of the file whose names share words with the text around, best first."""
        words = _tokens(evidence.around)
        ranked = []
        for entry in self._shelf.entries(tree, path):
            said = [*self._concepts.names.get(entry.concept, ()), entry.concept.replace("-", " ")]
            share = max(_share(_tokens(name), words) for name in said)
            share += 0.25 * _share(_tokens(entry.detail), words)
            if share >= 0.34:
                ranked.append((-share, entry.lines or Lines(0, 0), entry.concept))
        for _, lines, concept in sorted(set(ranked))[:3]:
            yield Candidate(path=path, lines=lines, why=Note("cite.why.concept", {"name": concept}))


def _with(judged: Judged, **changes: object) -> Judged:
    from msgspec.structs import replace

    return replace(judged, **changes)


def _shared(one: str, other: str) -> int:
    """How many names two paths have in common."""
    return len(set(one.split("/")) & set(other.split("/")))


def _shown_in(path: str, text: FileText, lines: Lines, evidence: Evidence) -> Finding | None:
    """Look for quoted prose in a file or section; elsewhere only when it stands right beside."""
    for quote in evidence.quotes:
        places = [p for line in quote.lines for p in text.find_elided(line)] if quote.prose else []
        if any(lines.first <= p.first and p.last <= lines.last for p in places):
            return Finding(True, Note("cite.reason.quote"))
    found = by_beside(path, text, lines, evidence.beside) if evidence.beside else None
    return (
        found if found and (found.agrees or (evidence.beside and evidence.beside.prose)) else None
    )


def _section_place(text: FileText, section: str) -> Lines | None:
    number = re.match(r"\d+(?:\.\d+)*|[一二三四五六七八九十]+\Z", section)
    if number is None:
        return text.section(section)
    shown = number[0]
    if not shown[0].isdigit():
        from srcmap.cite.compare import chinese_number

        shown = next((str(n) for n in range(1, 100) if chinese_number(str(n)) == shown), shown)
    return text.section(shown)


def _lacking(text: FileText, evidence: Evidence) -> Iterable[Note]:
    """Names set as code that the cited file does not have."""
    for name in evidence.marked:
        last = name.rpartition(".")[2].rpartition("::")[2]
        telling = "_" in last or re.search(r"[a-z][A-Z]", last)
        if telling and not text.word(last) and last not in text.path:
            yield Note("cite.warning.no-name", {"name": name})


def _tokens(text: str) -> set[str]:
    """Words of Latin script, and pairs of Chinese characters."""
    words = {w.casefold() for part in re.findall(r"[A-Za-z]+", text)
             for w in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", part)}  # fmt: skip
    wide = re.findall(r"[\u4e00-\u9fff]+", text)
    return words | {run[i : i + 2] for run in wide for i in range(max(len(run) - 1, 1))}


_IN_QUOTES = re.compile(r"「([^」]+)」|『([^』]+)』|“([^”]+)”|\"([^\"\n]+)\"|《([^》]+)》")


def _other_title(text: FileText, place: Lines, clause: str) -> Candidate | None:
    """Find the section whose title is quoted where another one is cited."""

    def bare(title: str) -> str:
        return norm(re.sub(r"\A(?:[#\W\d]+|[一二三四五六七八九十]+[、.])", "", title))

    own = bare(text.lines[place.first - 1])
    for match in _IN_QUOTES.finditer(clause):
        told = bare(next(group for group in match.groups() if group))
        if len(told) < 4 or told in own or own in told:
            return None
        there = [(line, title) for line, _, title in text.headings if bare(title) == told]
        if len(there) == 1 and not place.first <= there[0][0] <= place.last:
            line, title = there[0]
            return Candidate(path=text.path, lines=Lines(line, line),
                             why=Note("cite.why.heading", {"title": title}))  # fmt: skip
    return None


def _share(name: set[str], words: set[str]) -> float:
    return len(name & words) / len(name) if name else 0.0
