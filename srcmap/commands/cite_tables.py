"""`srcmap cite table|inject`: tables of citations, made from the maps and put into documents."""

from __future__ import annotations

import sys
from enum import Enum
from functools import cached_property
from pathlib import Path  # noqa: TC003 - typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from srcmap import i18n
from srcmap.commands.options import Lang  # typer reads it at run time  # noqa: TC001
from srcmap.errors import SrcmapError, UsageError
from srcmap.model import Note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from srcmap.catalogue import Catalogue, Variant
    from srcmap.cite.inject import Marker
    from srcmap.commands.citing import Setup
    from srcmap.commands.collect import Pinned
    from srcmap.counterparts import Counterpart
    from srcmap.mapfile import Entry
    from srcmap.render.tables import CiteRow, CiteTable
    from srcmap.verify.results import Result


class TableFormat(str, Enum):
    """What `table --format` accepts."""

    markdown = "markdown"
    myst = "myst"
    rst = "rst"
    html = "html"
    latex = "latex"
    csv = "csv"
    json = "json"


COLUMNS = (
    "variant", "concept", "site", "name", "repo", "version", "location", "link", "digest", "ours",
    "test",
)  # fmt: skip
_DEFAULT = "variant,concept,repo,version,location,digest,ours,test"


def register(group: typer.Typer) -> None:
    """Add `table` and `inject` to the group."""

    @group.command("table", help="cite.help.table", epilog="cite.examples.table")
    def table(
        variants: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Argument(metavar="[VARIANT]...", help="cite.help.variants", show_default=False),
        ] = None,
        pin: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Option(
                "--pin", metavar="REPO@VERSION", help="cite.help.table-pin", show_default=False
            ),
        ] = None,
        concept: Annotated[
            Optional[list[str]],  # noqa: UP045
            typer.Option(
                "--concept", metavar="CONCEPT", help="cite.help.concept", show_default=False
            ),
        ] = None,
        columns: Annotated[
            str, typer.Option("--columns", metavar="NAMES", help="cite.help.columns")
        ] = _DEFAULT,
        group_by: Annotated[
            str, typer.Option("--group-by", metavar="COLUMN", help="cite.help.group")
        ] = "",
        format: Annotated[  # noqa: A002
            TableFormat, typer.Option("--format", help="cli.format")
        ] = TableFormat.markdown,
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_table(variants or [], pins=pin or [], concepts=concept or [], columns=columns,
                         group_by=group_by, format=format.value, lang=i18n.language())  # fmt: skip

    @group.command("inject", help="cite.help.inject", epilog="cite.examples.inject")
    def inject(
        files: Annotated[
            list[Path], typer.Argument(metavar="FILE...", help="cite.help.inject-files")
        ],
        check: Annotated[bool, typer.Option("--check", help="cite.help.inject-check")] = False,
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_inject(files, check=check, lang=i18n.language())


# -- table -----------------------------------------------------------------------------------


def run_table(
    variants: Sequence[str],
    *,
    pins: Sequence[str] = (),
    concepts: Sequence[str] = (),
    columns: str = _DEFAULT,
    group_by: str = "",
    format: str = "markdown",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print the table of some variants, or of all; 3 when the maps have nothing of them."""
    from srcmap.commands.citing import setup
    from srcmap.render.console import emit

    maker = TableMaker(setup(start))
    rows = list(maker.rows(variants, pins, concepts, lang))
    table = maker.table(rows, columns, group_by, lang)
    emit(written(table, format, lang))
    return 0 if rows else 3


def written(table: CiteTable, format: str, lang: str) -> str:  # noqa: A002
    """Write a table in one of the formats."""
    from srcmap.render import as_csv, as_html, as_latex, as_rst, cite_markdown

    if format == "json":
        from srcmap.render.as_json import document

        return document(
            "srcmap-cite-table", {"rows": [row.plain for g in table.groups for row in g.rows]}
        )
    if format == "csv":
        return as_csv.table(table)
    if format == "myst":
        return cite_markdown.myst(table)
    writers = {"markdown": cite_markdown.table, "rst": as_rst.table, "html": as_html.table}
    if format == "latex":
        return as_latex.table(table, lang)
    return writers[format](table)


class TableMaker:
    """Makes rows from the maps of a project's pins."""

    def __init__(self, found: Setup) -> None:
        from srcmap.catalogue import load_catalogue

        self._found = found
        self._catalogue: Catalogue = load_catalogue(found.project)

    def rows(
        self, variants: Sequence[str], pins: Sequence[str], concepts: Sequence[str], lang: str
    ) -> Iterator[CiteRow]:
        """Yield a row for every place of these variants that the maps have."""
        from srcmap.commands import collect
        from srcmap.commands.names import known_concept, known_variant
        from srcmap.lock import pick

        chosen = [known_variant(self._catalogue, name, lang) for name in variants]
        wanted = {known_concept(self._catalogue, name, lang).id for name in concepts}
        given = [pick(self._found.locks, name) for name in pins]
        for variant in chosen or self._catalogue.variants:
            repos = {request.repo for request in variant.files}
            if given:
                found = [pin for pin in given if pin[0].name in repos]
            else:
                found = collect.pins_of(variant, self._found.locks, None, None, lang)
            for lock, pin, entries in collect.entries(found, self._found.project, variant.id):
                order = self._order(variant, entries)
                ours = self._ours(variant, entries)
                for entry in sorted(entries, key=lambda e: order[e.concept, e.path, e.site]):
                    if entry.lines and (not wanted or entry.concept in wanted):
                        yield self._row(variant, (lock, pin), entry, ours.get(entry.key, ()), lang)

    def _ours(
        self, variant: Variant, entries: Sequence[Entry]
    ) -> dict[tuple[str, str, str, str], tuple[Counterpart, ...]]:
        """Give our lines for each entry, file by file."""
        from srcmap.counterparts import counterparts, paired

        marked = counterparts(self._found.project, variant.id)
        result: dict[tuple[str, str, str, str], tuple[Counterpart, ...]] = {}
        for path in dict.fromkeys(e.path for e in entries) if marked else ():
            here = [e for e in entries if e.path == path and e.lines and e.status == "found"]
            pairs = paired(marked, [(e.concept, e.lines) for e in here if e.lines])
            result.update((e.key, same) for e, same in zip(here, pairs, strict=True))
        return result

    @cached_property
    def _results(self) -> tuple[Result, ...]:
        from srcmap.verify.results import load

        return load(self._found.project)

    def _tested(self, entry: Entry) -> str:
        """Give the state of the diff test of an entry's file; empty when it never ran."""
        if not self._results:
            return ""
        from srcmap.verify.results import shown_state

        return shown_state(self._results, entry.repo, entry.pin, entry.path, entry.blob)

    def _order(
        self, variant: Variant, entries: Sequence[Entry]
    ) -> dict[tuple[str, str, str], tuple[int, str, str]]:
        ranks = {
            c: n
            for n, c in enumerate(self._catalogue.in_order(variant, (e.concept for e in entries)))
        }
        return {(e.concept, e.path, e.site): (ranks[e.concept], e.path, e.site) for e in entries}

    def _row(
        self, variant: Variant, pin: Pinned, entry: Entry, ours: Sequence[Counterpart], lang: str
    ) -> CiteRow:
        from srcmap.commands import collect
        from srcmap.render.tables import CiteRow

        assert entry.lines is not None  # noqa: S101
        concept = self._catalogue.concept(entry.concept)
        place = collect.place(entry.path, entry.lines, *pin)
        none, tested = i18n.text("cite.none-yet", lang), self._tested(entry)
        values = {
            "variant": variant.id,
            "concept": entry.concept,
            "site": entry.site,
            "name": concept.name.in_language(lang) if concept else "",
            "repo": entry.repo,
            "version": entry.pin,
            "location": str(place),
            "link": place.url or "",
            "digest": entry.digest[:12],
            "ours": ", ".join(f"{c.path}:{c.lines}" for c in ours) or none,
            "test": i18n.text(f"cite.test.{tested}", lang) if tested else none,
        }
        plain = {
            "variant": variant.id, "concept": entry.concept, "site": entry.site,
            "repo": entry.repo, "version": entry.pin, "commit": entry.commit, "path": entry.path,
            "lines": entry.lines, "url": place.url, "digest": entry.digest,
            "reimplementation": [{"path": c.path, "lines": c.lines} for c in ours] or None,
            "diff_test": tested or None,
        }  # fmt: skip
        return CiteRow(values=values, url=place.url, plain=plain)

    def table(self, rows: Sequence[CiteRow], columns: str, group_by: str, lang: str) -> CiteTable:
        """Arrange rows in columns and groups. UsageError for a column that there is not."""
        from srcmap.render.tables import CiteGroup, CiteTable

        names = [name.strip() for name in columns.split(",") if name.strip()]
        for name in [*names, *([group_by] if group_by else [])]:
            if name not in COLUMNS:
                raise UsageError(f"no column {name!r}", slug="usage", hint=", ".join(COLUMNS))
        groups: dict[str, list[CiteRow]] = {}
        for row in rows:
            groups.setdefault(row.values[group_by] if group_by else "", []).append(row)
        shown = [name for name in names if name != group_by]
        heads = tuple(i18n.text(f"cite.head.{name}", lang) for name in shown)
        return CiteTable(
            columns=tuple(shown),
            heads=heads,
            groups=tuple(CiteGroup(title=t, rows=tuple(r)) for t, r in groups.items()),
        )


# -- inject ----------------------------------------------------------------------------------


def run_inject(
    files: Sequence[Path], *, check: bool = False, lang: str = "en", start: Path | None = None
) -> int:
    """Fill the blocks between markers; with `check`, show what would change and give 1."""
    from srcmap.cite.fix import patch
    from srcmap.cite.inject import injected
    from srcmap.commands.cite_writing import _written
    from srcmap.commands.citing import known_name, setup, tell

    found = setup(start)
    filler = Filler(TableMaker(found), lang)
    total = changed = 0
    for path in files:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SrcmapError(f"{path}: cannot be read: {error.strerror}", slug="disk") from error
        after, count = injected(data, path.name, filler)
        total += count
        if after == data:
            continue
        changed += 1
        if check:
            sys.stdout.buffer.write(patch(known_name(path, found.project), data, after))
            sys.stdout.buffer.flush()
        else:
            _written(path, after)
    if not total:
        tell(Note("cite.no-markers", {"documents": str(len(files))}), lang)
        return 3
    tell(Note("cite.injected", {"markers": str(total), "changed": str(changed)}), lang)
    return 1 if check and changed else 0


class Filler:
    """Gives the text that belongs into a marker."""

    def __init__(self, maker: TableMaker, lang: str) -> None:
        self._maker, self._lang = maker, lang

    def __call__(self, marker: Marker, format: str) -> str:  # noqa: A002
        """Write what a marker asks for. UsageError for a marker that cannot be meant."""
        return (
            self._reference(marker, format) if marker.verb == "ref" else self._table(marker, format)
        )

    def _table(self, marker: Marker, format: str) -> str:  # noqa: A002
        known = {"variant", "pin", "concept", "columns", "group-by", "lang", "format"}
        _check_options(marker.options, known)
        options = marker.options
        lang = options.get("lang", self._lang)
        variants, pins = _split(options.get("variant", "")), _split(options.get("pin", ""))
        rows = list(self._maker.rows(variants, pins,
                                     _split(options.get("concept", "")), lang))  # fmt: skip
        if not rows:
            raise UsageError(
                f"srcmap:table {options}: the maps have nothing of it", slug="cite-marker"
            )
        table = self._maker.table(
            rows, options.get("columns", _DEFAULT), options.get("group-by", ""), lang
        )
        return written(table, options.get("format", format), lang)

    def _reference(self, marker: Marker, format: str) -> str:  # noqa: A002
        from srcmap.render.tables import reference

        _check_options(marker.options, {"pin", "lang", "site"})
        variant, _, rest = marker.subject.partition("/")
        concept, _, site = rest.partition("/")
        site = marker.options.get("site", site)
        lang = marker.options.get("lang", self._lang)
        if not concept:
            raise UsageError(
                f"srcmap:ref {marker.subject}: expected VARIANT/CONCEPT", slug="cite-marker"
            )
        pins = _split(marker.options.get("pin", ""))
        rows = [r for r in self._maker.rows([variant], pins, [concept], lang)
                if not site or r.values["site"] == site]  # fmt: skip
        if not rows:
            raise UsageError(
                f"srcmap:ref {marker.subject}: the maps have no such place", slug="cite-marker"
            )
        unique = {row.values["location"]: row for row in rows}
        return ", ".join(reference(row, format) for row in unique.values())


def _check_options(options: Mapping[str, str], known: set[str]) -> None:
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"srcmap marker: unknown option {unknown[0]!r}", slug="cite-marker",
                         hint=", ".join(sorted(known)))  # fmt: skip


def _split(text: str) -> list[str]:
    return [part for part in text.split(",") if part]
