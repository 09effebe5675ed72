"""`srcmap variant [NAME]`: the variants, or where one of them does what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeAlias

import msgspec
import typer

from srcmap import i18n
from srcmap.catalogue import load_catalogue
from srcmap.commands import collect, measured
from srcmap.commands.names import known_variant
from srcmap.commands.options import Format, FormatOption, Lang, Pin, Repo
from srcmap.commands.tested import Tested
from srcmap.lock import find_project, known_locks
from srcmap.render import interface as page
from srcmap.render.as_json import document
from srcmap.render.console import emit
from srcmap.render.write import write

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from srcmap.catalogue import Catalogue, Remark, Variant
    from srcmap.counterparts import Counterpart
    from srcmap.mapfile import Entry


def register(app: typer.Typer) -> None:
    """Add `srcmap variant`."""

    @app.command("variant", help="variant.help", epilog="variant.examples")
    def command(
        name: Annotated[
            Optional[str],  # noqa: UP045
            typer.Argument(metavar="[NAME]", help="variant.name", show_default=False),
        ] = None,
        pin: Pin = None,
        repo: Repo = None,
        show: Annotated[bool, typer.Option("--show", help="variant.show")] = False,
        format: FormatOption = Format.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(name, pin=pin, repo=repo, show=show, format=format.value, lang=i18n.language())


def run(
    name: str | None,
    *,
    pin: str | None = None,
    repo: str | None = None,
    show: bool = False,
    format: str = "text",  # noqa: A002
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Print the list of variants or the page of one; 1 or 3 when these pins have none of it."""
    project = find_project(start or Path.cwd())
    catalogue = load_catalogue(project)
    if name is None:
        _list(catalogue, format, lang)
        return 0
    variant = known_variant(catalogue, name, lang)
    chosen = collect.pins_of(variant, known_locks(project), repo, pin, lang)
    found = collect.entries(chosen, project, variant.id)
    reader = collect.Reader(project) if show else None
    if format == "json":
        facts = variant_facts(variant) | {"notes": _notes(variant, chosen, project)}
        rows = collect.json_entries(found, lang, reader)
        _add_tests(rows, Tested(project))
        _add_ours(rows, _ours(project, variant, found))
        hardware = measured.as_json(variant.id, found, project)
        parts = {"variant": facts, "entries": rows, "hardware": hardware}
        emit(document("srcmap-variant", parts))
    else:
        shown = assemble(variant, catalogue, found, lang, reader)
        shown = _with_tests(shown, found, Tested(project), lang)
        shown = _with_hardware(shown, found, project, lang)
        changed = _changed(catalogue, variant, found, project, lang)
        ours = _ours(project, variant, found)
        shown = msgspec.structs.replace(
            shown,
            blocks=tuple(_with_ours(_with_changes(block, changed), ours) for block in shown.blocks),
            notes=tuple(_remarks(variant, chosen, project, lang)),
        )
        write("variant", shown, format, lang)
    return collect.exit_code(found)


def _add_tests(rows: list[dict[str, Any]], tested: Tested) -> None:
    """Fill in what the diff test said of each entry's file."""
    for row in rows:
        blob = row.get("blob", "")
        row["diff_test"] = tested.as_json(row["repo"], row["pin"], row["path"], blob)


def _with_tests(
    shown: page.VariantPage, found: Sequence[collect.PinEntries], tested: Tested, lang: str
) -> page.VariantPage:
    """Say under each file what the diff test said of it."""
    blocks = []
    for block in shown.blocks:
        rows = [e for *_, es in found for e in es if (e.pin, e.path) == (block.pin, block.path)]
        said = tested.remark(block.repo, block.pin, rows, lang)
        blocks.append(msgspec.structs.replace(block, remarks=(*block.remarks, *said)))
    return msgspec.structs.replace(shown, blocks=tuple(blocks))


def _with_hardware(
    shown: page.VariantPage,
    found: Sequence[collect.PinEntries],
    project: Path | None,
    lang: str,
) -> page.VariantPage:
    """Say under each file what real hardware said of our kernel beside it."""
    blobs = {(pin.version, e.path): e.blob for _, pin, entries in found for e in entries}
    blocks = (
        measured.with_hardware(b, blobs.get((b.pin, b.path), ""), shown.id, project, lang)
        for b in shown.blocks
    )
    return msgspec.structs.replace(shown, blocks=tuple(blocks))


def _changed(
    catalogue: Catalogue,
    variant: Variant,
    found: Sequence[collect.PinEntries],
    project: Path | None,
    lang: str,
) -> dict[tuple[str, str], str]:
    """Say, by pin and path, what the variant changes against its base."""
    base = catalogue.variant(variant.base or "")
    if base is None:
        return {}
    from srcmap.commands.diff import compared, summary

    blocks = compared(catalogue, variant, base, found, known_locks(project), project)
    return {
        (block.pin[1].version, block.pair.after[0].path): summary(block, lang) for block in blocks
    }


_Key: TypeAlias = "tuple[str, str, str, str, str]"
"""Repository, pin, path, concept and site of an entry."""


def _ours(
    project: Path | None, variant: Variant, found: Sequence[collect.PinEntries]
) -> dict[_Key, tuple[Counterpart, ...]]:
    """Return our lines for each entry that was found; nothing without a re-implementation."""
    from srcmap.counterparts import counterparts, paired

    ours = counterparts(project, variant.id)
    if not ours:
        return {}
    files: dict[tuple[str, str, str], list[Entry]] = {}
    for lock, pin, entries in found:
        for entry in entries:
            if entry.status == "found" and entry.lines:
                files.setdefault((lock.name, pin.version, entry.path), []).append(entry)
    result: dict[_Key, tuple[Counterpart, ...]] = {}
    for key, entries in files.items():
        pairs = paired(ours, [(e.concept, e.lines) for e in entries if e.lines])
        result |= {
            (*key, e.concept, e.site): same for e, same in zip(entries, pairs, strict=True) if same
        }
    return result


def _with_ours(block: page.Block, ours: Mapping[_Key, tuple[Counterpart, ...]]) -> page.Block:
    """Show our lines beside upstream's: the first of a file where there are several."""
    from srcmap.counterparts import worth_showing

    rows = []
    for row in block.rows:
        same = ours.get((block.repo, block.pin, block.path, row.concept, row.site), ())
        shown = tuple(page.Place(path=c.path, lines=c.lines) for c in worth_showing(same))
        rows.append(msgspec.structs.replace(row, ours=shown) if shown else row)
    return msgspec.structs.replace(block, rows=tuple(rows))


def _add_ours(rows: list[dict[str, Any]], ours: Mapping[_Key, tuple[Counterpart, ...]]) -> None:
    for row in rows:
        key = (row["repo"], row["pin"], row["path"], row["concept"], row["site"])
        same = ours.get(key)
        if same:
            row["reimplementation"] = [{"path": c.path, "lines": c.lines} for c in same]


def variant_facts(variant: Variant) -> dict[str, Any]:
    """Return what JSON says of a variant: both languages, whatever was asked for."""
    names = ("id", "name", "summary", "aliases", "base", "counterparts", "own")
    return {name: getattr(variant, name) for name in names}


def _list(catalogue: Catalogue, format: str, lang: str) -> None:  # noqa: A002
    if format == "json":
        facts = [
            variant_facts(variant) | {"repos": sorted({f.repo for f in variant.files})}
            for variant in catalogue.variants
        ]
        emit(document("srcmap-variants", {"variants": facts}))
    else:
        write("variants", listing(catalogue, lang), format, lang)


def listing(catalogue: Catalogue, lang: str) -> page.VariantList:
    """Return all variants, those of each repository together."""
    groups: dict[str, list[page.ListedVariant]] = {}
    for variant in catalogue.variants:
        listed = page.ListedVariant(
            id=variant.id,
            name=variant.name.in_language(lang),
            summary=variant.summary.in_language(lang),
        )
        groups.setdefault(_group(variant, lang), []).append(listed)
    hint = i18n.text("variant.list-hint", lang)
    last = i18n.text("variant.group.reference", lang)
    ranked = sorted(groups.items(), key=lambda item: (item[0] == last, item[0]))
    found = tuple((heading, tuple(listed)) for heading, listed in ranked)
    return page.VariantList(groups=found, remarks=(hint,))


def _group(variant: Variant, lang: str) -> str:
    if all(f.kernels == ("file",) for f in variant.files):
        return i18n.text("variant.group.reference", lang)
    repos = sorted({f.repo for f in variant.files})
    return i18n.text("variant.group.kernels", lang, repos=", ".join(repos))


def assemble(
    variant: Variant,
    catalogue: Catalogue,
    entries: Sequence[collect.PinEntries],
    lang: str,
    reader: collect.Reader | None = None,
) -> page.VariantPage:
    """Return the page of a variant from the map entries of some pins."""
    blocks = [
        block
        for lock, pin, found in entries
        for block in _blocks(variant, catalogue, (lock, pin), found, lang, reader)
    ]
    return page.VariantPage(
        id=variant.id,
        name=variant.name.in_language(lang),
        summary=variant.summary.in_language(lang),
        facts=tuple(_facts(variant, lang)),
        blocks=tuple(blocks),
    )


def _with_changes(block: page.Block, changed: Mapping[tuple[str, str], str]) -> page.Block:
    sentence = changed.get((block.pin, block.path), "")
    return msgspec.structs.replace(block, changed=sentence) if sentence else block


def _remarks(
    variant: Variant, pins: Sequence[collect.Pinned], project: Path | None, lang: str
) -> Iterator[page.Remark]:
    """Yield what is to be known about the variant, each with the places where it can be seen."""
    for remark, entries in _evidence(variant, pins, project):
        places = (
            (
                collect.place(e.path, e.lines, *pin),
                "" if pin in pins else f"{pin[0].name} {pin[1].version}",
            )
            for pin, e in entries
            if e.lines
        )
        yield page.Remark(text=remark.text.in_language(lang), places=tuple(places))


def _notes(
    variant: Variant, pins: Sequence[collect.Pinned], project: Path | None
) -> list[dict[str, Any]]:
    fields = ("variant", "concept", "site", "repo", "pin", "path", "lines")
    return [
        {
            "text": remark.text,
            "corrects_chapter": remark.corrects_chapter,
            "evidence": [{name: getattr(e, name) for name in fields} for _, e in entries],
        }
        for remark, entries in _evidence(variant, pins, project)
    ]


def _evidence(
    variant: Variant, pins: Sequence[collect.Pinned], project: Path | None
) -> Iterator[tuple[Remark, list[tuple[collect.Pinned, Entry]]]]:
    """Look for evidence at the pins asked about, and at those that a remark names or leads to."""
    if not variant.notes:
        return
    from srcmap.evidence import other_pins, seen

    locks = known_locks(project)
    named = other_pins(variant.notes)
    asked = {lock.name for lock, _ in pins}
    further = [
        (lock, pin)
        for lock in locks
        for pin in lock.pins
        if (lock.name, pin.version) in named or (lock.name not in asked and pin is lock.current_pin)
    ]
    elsewhere = any(e.variant or e.pin for note in variant.notes for e in note.evidence)
    every = dict.fromkeys([*pins, *(further if elsewhere else ())])
    rows = [((lock, pin), entries) for lock, pin, entries in collect.entries(every, project)]
    main = [pair for pair in rows if pair[0] in pins or pair[0][0].name not in asked]
    for remark in variant.notes:
        found = [
            (pin, entry)
            for evidence in remark.evidence
            for pin, entries in (rows if evidence.pin else main)
            for entry in sorted(seen(evidence, variant, entries), key=collect.by_line)
        ]
        unique = {(e.repo, e.pin, e.path, e.lines): (pin, e) for pin, e in found}
        yield remark, list(unique.values())


def _facts(variant: Variant, lang: str) -> list[tuple[str, str]]:
    facts = [
        ("variant.base", variant.base or ""),
        ("variant.counterparts", ", ".join(variant.counterparts)),
        ("variant.aliases", ", ".join(variant.aliases)),
    ]
    return [(i18n.text(key, lang), value) for key, value in facts if value]


def _blocks(
    variant: Variant,
    catalogue: Catalogue,
    pin: collect.Pinned,
    found: Sequence[Entry],
    lang: str,
    reader: collect.Reader | None,
) -> list[page.Block]:
    paths = list(dict.fromkeys(entry.path for entry in found))
    blocks = []
    for path in paths:
        rows = [entry for entry in found if entry.path == path]
        blocks.append(_block(variant, catalogue, pin, path, rows, lang, reader))
    return blocks or [_empty(variant, pin, lang)]


def _block(
    variant: Variant,
    catalogue: Catalogue,
    pin: collect.Pinned,
    path: str,
    found: Sequence[Entry],
    lang: str,
    reader: collect.Reader | None,
) -> page.Block:
    order = {c: n for n, c in enumerate(catalogue.in_order(variant, (e.concept for e in found)))}
    ranked = sorted(found, key=lambda e: (order[e.concept], _first(e), e.site))
    rows = [collect.row(entry, variant, catalogue, pin, lang) for entry in ranked]
    if reader is not None:
        rows = [collect.with_code(row, reader, pin, lang) for row in rows]
    return page.Block(
        repo=pin[0].name,
        pin=pin[1].version,
        path=path,
        rows=tuple(rows),
        remarks=collect.pin_remarks(pin, lang),
    )


def _first(entry: Entry) -> int:
    return entry.lines.first if entry.lines else 0


def _empty(variant: Variant, pin: collect.Pinned, lang: str) -> page.Block:
    """Return a block that says that no map of this pin has the variant."""
    request = next((f for f in variant.files if f.repo == pin[0].name), variant.files[0])
    return page.Block(
        repo=pin[0].name,
        pin=pin[1].version,
        path=request.path,
        rows=(),
        remarks=(*collect.pin_remarks(pin, lang), collect.no_map(pin, lang)),
    )
