"""`srcmap diff FILE --base FILE`: what one file does otherwise than another, by role."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srcmap import filediff, i18n
from srcmap.catalogue import Text, Variant, load_catalogue
from srcmap.commands import collect
from srcmap.commands.diff import CHANGES, MARKS, is_path
from srcmap.contrast import CODE_ONLY
from srcmap.errors import ParseError, UsageError
from srcmap.lock import find_project
from srcmap.render import contrast_pages as page
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.interface import Place
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.catalogue import Catalogue
    from srcmap.contrast import Difference
    from srcmap.filediff import Function, Reading
    from srcmap.mapfile import Entry
    from srcmap.model import Lines


def run(name: str, base: str | None, *, pinned: bool, format: str, lang: str) -> int:  # noqa: A002
    """Print what differs between two files.

    UsageError for what is no pair of files; ParseError for a file that cannot be read, or in which
    there is nothing to compare.
    """
    if base is None or not (is_path(name) and is_path(base)):
        raise _no_pair(name, base, lang)
    if pinned:
        raise _usage("diff.files-no-pin", lang)
    catalogue = load_catalogue(find_project(Path.cwd()))
    before, after = _read(base, lang), _read(name, lang)
    found = _Found(catalogue, before, after)
    if format == "json":
        emit(document("srcmap-diff-files", found.facts(lang)))
    else:
        write("diff", found.as_page(lang), format, lang)
    return 0


def _no_pair(name: str, base: str | None, lang: str) -> UsageError:
    if base is None:
        return _usage("diff.files-no-base", lang, name=name)
    file, variant = (name, base) if is_path(name) else (base, name)
    return _usage("diff.files-mixed", lang, file=file, variant=variant)


def _usage(key: str, lang: str, **values: str) -> UsageError:
    hint = i18n.text("diff.files-how", lang)
    return UsageError(i18n.text(key, lang, **values), slug="diff-files", hint=hint)


def _read(name: str, lang: str) -> Reading:
    path = Path(name)
    if not path.is_file():
        key = "diff.files-folder" if path.is_dir() else "diff.files-none"
        raise _usage(key, lang, path=name)
    shown = os.fsencode(path).decode("utf-8", errors="replace").replace(os.sep, "/")
    try:
        reading = filediff.read(path.read_bytes(), shown, collect.neighbour_of(path))
    except OSError as error:
        why = error.strerror or str(error)
        said = i18n.text("diff.files-unreadable", lang, path=shown, why=why)
        raise ParseError(said, slug="diff-files") from error
    if reading.holds == "nothing":
        raise ParseError(
            i18n.text("diff.files-nothing", lang, path=shown),
            slug="diff-files",
            hint=i18n.text("diff.files-mark", lang),
        )
    return reading


class _Found:
    """The differences of two files, and how they are said."""

    def __init__(self, catalogue: Catalogue, before: Reading, after: Reading) -> None:
        self._catalogue, self._before, self._after = catalogue, before, after
        by_concept = {d.concept: d for d in filediff.contrasted(before, after)}
        nobody = Variant(id="", name=Text("", ""), summary=Text("", ""))
        order = catalogue.in_order(nobody, by_concept)
        self._found = [by_concept[concept] for concept in order]
        regions = before.holds == after.holds == "regions"
        self._functions = filediff.functions(before, after) if regions else []

    def _of(self, *kinds: str) -> list[Difference]:
        return [d for kind in kinds for d in self._found if d.kind == kind]

    def _differs(self) -> bool:
        return bool(self._of(*CHANGES) or self._functions)

    # -- the page ----------------------------------------------------------------------------

    def as_page(self, lang: str) -> page.DiffPage:
        """Return the page, in the form that variants have."""
        names = _names(self._after.path, self._before.path)
        return page.DiffPage(
            title=i18n.text("diff.title", lang, name=names[0], base=names[1]),
            what=_what(self._after),
            blocks=(self._block(names, lang),),
            remarks=() if self._differs() else (i18n.text("diff.files-alike", lang),),
        )

    def _block(self, names: tuple[str, str], lang: str) -> page.DiffBlock:
        changes = self._of(*CHANGES)
        rows = tuple(self._function(function, lang) for function in self._functions)
        parts = [
            (i18n.text("diff.differs", lang, count=len(changes)), self._changes(changes, lang)),
            (i18n.text("diff.functions", lang), rows),
            *(
                (i18n.text(f"diff.{kind}", lang), self._changes(self._of(kind), lang))
                for kind in ("rewritten", "disabled", "unjudged")
            ),
        ]
        same = [d.concept for d in self._of("same")]
        alike = "diff.same-role" if self._foreign else "diff.same"
        return page.DiffBlock(
            heading=self._heading(lang),
            names=names,
            paths=(self._after.path, self._before.path),
            parts=tuple((head, found) for head, found in parts if found),
            same=i18n.text(alike, lang, concepts=", ".join(same)) if same else "",
        )

    @property
    def _foreign(self) -> bool:
        return self._before.holds != self._after.holds

    def _heading(self, lang: str) -> str:
        ways = dict.fromkeys((self._after.holds, self._before.holds))
        joint = i18n.text("diff.files-against", lang)
        return joint.join(i18n.text(f"diff.by-{way}", lang) for way in ways)

    def _changes(self, found: Iterable[Difference], lang: str) -> tuple[page.Change, ...]:
        return tuple(
            page.Change(
                mark=MARKS[d.kind],
                concept=d.concept,
                why=self._why(d, lang),
                after=_spots(d.after, lang),
                before=_spots(d.before, lang),
            )
            for d in found
        )

    def _why(self, found: Difference, lang: str) -> str:
        """Say in one line what is known of the difference, else what the concept is."""
        known = [i18n.say(a, lang) for a in found.aspects if a.key not in CODE_ONLY]
        known = known or self._reasons(found, lang)
        concept = self._catalogue.concept(found.concept)
        if not known and concept is None:
            return i18n.text("diff.files-unknown", lang)
        what = concept.what.in_language(lang) if concept else ""
        return ("" if lang == "zh" else " ").join(known) or what

    def _reasons(self, found: Difference, lang: str) -> list[str]:
        """Say why one side has none, in the word of the reading."""
        if found.kind not in ("dropped", "unjudged"):
            return []
        sides = (*self._after.entries, *self._before.entries)
        reasons = (e.reason for e in sides if e.concept == found.concept)
        return [i18n.say(reason, lang) for reason in reasons if reason is not None][:1]

    def _function(self, found: Function, lang: str) -> page.Change:
        return page.Change(
            mark=MARKS[found.kind],
            concept=_called(found),
            why=_function_why(found, lang),
            after=_runs(self._after.path, found.after),
            before=_runs(self._before.path, found.before),
        )

    # -- JSON --------------------------------------------------------------------------------

    def facts(self, lang: str) -> dict[str, Any]:
        """Return the JSON."""
        return {
            "after": {"path": self._after.path, "read_by": self._after.holds},
            "before": {"path": self._before.path, "read_by": self._before.holds},
            "changed": len(self._of(*CHANGES)),
            "differences": [self._fact(found, lang) for found in self._found],
            "functions": [_function_fact(found) for found in self._functions],
        }

    def _fact(self, found: Difference, lang: str) -> dict[str, Any]:
        concept = self._catalogue.concept(found.concept)
        aspects = [{"key": a.key, "args": a.args, "text": i18n.say(a, lang)} for a in found.aspects]
        return {
            "concept": found.concept,
            "kind": found.kind,
            "what": concept.what if concept else None,
            "aspects": aspects,
            "after": [_place_fact(entry) for entry in found.after],
            "before": [_place_fact(entry) for entry in found.before],
        }


def _names(after: str, before: str) -> tuple[str, str]:
    """Return the last parts of two paths, as many as tell them apart."""
    pairs = (after.split("/"), before.split("/"))
    for count in range(1, max(map(len, pairs)) + 1):
        mine, theirs = ("/".join(parts[-count:]) for parts in pairs)
        if mine != theirs:
            return mine, theirs
    return pairs[0][-1], pairs[1][-1]


def _what(reading: Reading) -> str:
    """Return the first paragraph of the docstring: what the file says that it is."""
    if not reading.path.endswith(".py"):
        return ""
    try:
        said = ast.get_docstring(ast.parse(reading.text)) or ""
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return " ".join(said.split("\n\n")[0].split())


def _spots(entries: Iterable[Entry], lang: str) -> tuple[page.Spot, ...]:
    return tuple(
        page.Spot(
            place=Place(path=e.path, lines=e.lines),
            site=e.site,
            detail=e.detail,
            unsure=collect.unsure(e.confidence, lang),
        )
        for e in entries
        if e.lines is not None
    )


def _runs(path: str, runs: Sequence[Lines]) -> tuple[page.Spot, ...]:
    return tuple(page.Spot(place=Place(path=path, lines=lines)) for lines in runs)


def _called(found: Function) -> str:
    return found.name if found.name == filediff.MODULE else f"{found.name}()"


def _function_why(found: Function, lang: str) -> str:
    if found.kind != "changed":
        return i18n.text(f"diff.function-{found.kind}", lang)
    if found.rearranged:
        return i18n.text("diff.rearranged", lang)
    said = []
    for key, names in (("gained", found.gained), ("lost", found.lost)):
        if names:
            said.append(i18n.text(f"diff.parameters-{key}", lang, names=", ".join(names)))
    if found.after or found.before:
        said.append(i18n.text("diff.unnamed", lang))
    return ("" if lang == "zh" else " ").join(said)


def _place_fact(entry: Entry) -> dict[str, Any]:
    return {
        "path": entry.path,
        "lines": entry.lines,
        "site": entry.site,
        "detail": entry.detail,
        "qualname": entry.qualname,
    }


def _function_fact(found: Function) -> dict[str, Any]:
    return {
        "name": found.name,
        "kind": found.kind,
        "parameters": {"after": found.gained, "before": found.lost},
        "rearranged": found.rearranged,
        "after": found.after,
        "before": found.before,
    }
