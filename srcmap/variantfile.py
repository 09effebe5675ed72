"""TOML files of concepts and variants -> Catalogue, strictly: a slip is named with its key path."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from srcmap.catalogue import (
    COMPILED,
    FORMAT,
    Catalogue,
    Concept,
    Evidence,
    FileRequest,
    KernelKind,
    Lack,
    Remark,
    Text,
    Theme,
    Variant,
)
from srcmap.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_Identifier = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


def read_catalogue(folder: Path) -> Catalogue:
    """Read `concepts.toml` and `variants/*.toml` under `folder`."""
    concepts, sets = _read_concepts(folder / "concepts.toml")
    empty = Catalogue(format=FORMAT, concepts=concepts, variants=(), sets=sets)
    return joined(empty, sorted((folder / "variants").glob("*.toml")))


def compile_shipped() -> bytes:
    """Make the bytes that `data/catalogue.json` must have from the TOML files beside it."""
    return (
        msgspec.json.format(msgspec.json.encode(read_catalogue(COMPILED.parent)), indent=1) + b"\n"
    )


def project_files(project: Path) -> list[Path]:
    """List a project's variant files: `srcmap-variants/*.toml`, or as `.srcmap.toml` says."""
    folder = "srcmap-variants"
    settings = project / ".srcmap.toml"
    if settings.is_file():
        chosen = _read_toml(settings).get("variants", folder)
        if not isinstance(chosen, str):
            raise _error(settings, "variants", "expected the name of a folder")
        folder = chosen
    return sorted((project / folder).glob("*.toml"))


def joined(catalogue: Catalogue, paths: Sequence[Path]) -> Catalogue:
    """Add the variants of these files. CatalogueError for a bad file or a name that is taken."""
    homes: dict[str, Path | None] = {v.id: None for v in catalogue.variants}
    variants = list(catalogue.variants)
    for path in paths:
        variant = _read_variant(path, catalogue)
        if variant.id in homes:
            raise _error(path, "id", f"{variant.id!r} is already {_home(homes[variant.id])}")
        homes[variant.id] = path
        variants.append(variant)
    for variant in variants:
        _check_links(variant, homes)
    variants.sort(key=lambda v: v.id)
    return msgspec.structs.replace(catalogue, variants=tuple(variants))


def _home(path: Path | None) -> str:
    return "a shipped variant" if path is None else f"the variant of {path.name}"


def _check_links(variant: Variant, homes: dict[str, Path | None]) -> None:
    home = homes[variant.id] or Path(f"{variant.id}.toml")
    evidence = (e.variant for note in variant.notes for e in note.evidence)
    shown = tuple(name for name in evidence if name not in ("", "*"))
    links = {"base": (variant.base,), "counterparts": variant.counterparts, "note": shown}
    for key, names in links.items():
        for name in names:
            if name is not None and name not in homes:
                raise _error(home, key, f"no variant is called {name!r}")


# -- one file -------------------------------------------------------------------------------

_T = TypeVar("_T")


class _RawConcept(msgspec.Struct, forbid_unknown_fields=True):
    theme: Theme
    name: Text
    what: Text
    alone: Text | None = None


class _RawConcepts(msgspec.Struct, forbid_unknown_fields=True):
    format: int
    sets: dict[str, list[str]]
    concept: dict[str, _RawConcept]


class _RawAliases(msgspec.Struct, forbid_unknown_fields=True):
    en: list[str] = []
    zh: list[str] = []


class _RawFile(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    repo: str
    path: str
    also: list[str] = []
    kernels: list[KernelKind] = msgspec.field(default_factory=lambda: ["attention", "combine"])
    having: list[str] = []
    without: list[str] = []
    branch: str = ""
    only: list[str] = []
    beyond: list[str] = []
    must: list[str] = []
    may: list[str] = []
    lacks: list[str | Lack] = []
    not_in: list[str] = []


class _RawNote(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    en: str
    zh: str
    concepts: list[str] = []
    evidence: list[Evidence] = []
    corrects_chapter: bool = False


class _RawVariant(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    format: int
    id: str
    name: Text
    summary: Text
    aliases: _RawAliases = msgspec.field(default_factory=_RawAliases)
    base: str | None = None
    counterparts: list[str] = []
    own: list[str] = []
    must: list[str] = []
    may: list[str] = []
    lacks: list[str | Lack] = []
    why: dict[str, Text] = {}
    file: list[_RawFile] = []
    note: list[_RawNote] = []


def _read_concepts(path: Path) -> tuple[tuple[Concept, ...], dict[str, tuple[str, ...]]]:
    raw = _convert(path, _RawConcepts)
    concepts = []
    for name, value in raw.concept.items():
        _check_id(path, f"concept.{name}", name)
        fields = msgspec.structs.asdict(value)
        concepts.append(Concept(id=name, **fields))
    for key, names in raw.sets.items():
        for number, name in enumerate(names):
            if name not in raw.concept:
                raise _error(path, f"sets.{key}[{number}]", f"no concept is called {name!r}")
    return tuple(concepts), {key: tuple(names) for key, names in raw.sets.items()}


def _read_variant(path: Path, catalogue: Catalogue) -> Variant:
    raw = _convert(path, _RawVariant)
    _check_id(path, "id", raw.id)
    names = _Names(path, catalogue)
    common = names.asked("", raw.must, raw.may, raw.lacks)
    return Variant(
        id=raw.id,
        name=raw.name,
        summary=raw.summary,
        aliases=tuple(dict.fromkeys(raw.aliases.en + raw.aliases.zh)),
        base=raw.base,
        counterparts=tuple(raw.counterparts),
        own=names.expand("own", raw.own),
        why=dict(zip(names.expand("why", list(raw.why)), raw.why.values(), strict=True)),
        files=tuple(_file(names, f, f"file[{n}]", common) for n, f in enumerate(raw.file)),
        notes=tuple(_remark(names, number, note) for number, note in enumerate(raw.note)),
    )


def _remark(names: _Names, number: int, note: _RawNote) -> Remark:
    own = names.expand(f"note[{number}].concepts", note.concepts)
    names.expand(f"note[{number}].evidence", [e.concept for e in note.evidence])
    return Remark(
        text=Text(note.en, note.zh),
        evidence=(*(Evidence(concept=concept) for concept in own), *note.evidence),
        corrects_chapter=note.corrects_chapter,
    )


class _Asked(NamedTuple):
    must: tuple[str, ...]
    may: tuple[str, ...]
    lacks: tuple[Lack, ...]


def _file(names: _Names, file: _RawFile, key: str, common: _Asked) -> FileRequest:
    """Let the file's own word about a concept go before the variant's."""
    _check_path(names.path, f"{key}.path", file.path)
    for place, path in enumerate(file.also):
        _check_path(names.path, f"{key}.also[{place}]", path)
    own = names.asked(f"{key}.", file.must, file.may, file.lacks)
    settled = {*own.must, *own.may, *(x.concept for x in own.lacks)}
    return FileRequest(
        repo=file.repo,
        path=file.path,
        also=tuple(file.also),
        kernels=tuple(file.kernels),
        having=names.expand(f"{key}.having", file.having),
        without=names.expand(f"{key}.without", file.without),
        branch=file.branch,
        only=names.expand(f"{key}.only", file.only),
        beyond=names.expand(f"{key}.beyond", file.beyond),
        must=own.must + tuple(c for c in common.must if c not in settled),
        may=own.may + tuple(c for c in common.may if c not in settled),
        lacks=own.lacks + tuple(x for x in common.lacks if x.concept not in settled),
        not_in=tuple(file.not_in),
    )


class _Names:
    """Concept ids of one variant file: checked, with `@set` written out."""

    def __init__(self, path: Path, catalogue: Catalogue) -> None:
        self.path = path
        self._sets = catalogue.sets
        self._known = {c.id for c in catalogue.concepts}

    def expand(self, key: str, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._expanded(key, names)))

    def _expanded(self, key: str, names: Sequence[str]) -> Iterator[str]:
        for number, name in enumerate(names):
            if name.startswith("@"):
                if name[1:] not in self._sets:
                    raise _error(self.path, f"{key}[{number}]", f"no set is called {name!r}")
                yield from self._sets[name[1:]]
            elif name not in self._known:
                raise _error(self.path, f"{key}[{number}]", f"no concept is called {name!r}")
            else:
                yield name

    def asked(
        self, key: str, must: Sequence[str], may: Sequence[str], lacks: Sequence[str | Lack]
    ) -> _Asked:
        """Check one table's three lists; no concept may stand in two of them."""
        denied = tuple(self._lacks(f"{key}lacks", lacks))
        written = {*must, *may, *(x if isinstance(x, str) else x.concept for x in lacks)}

        def listed(group: str, names: Sequence[str], *, but: Iterable[str] = ()) -> tuple[str, ...]:
            # What a set brings yields to a name that is written out elsewhere.
            found = self.expand(key + group, names)
            return tuple(n for n in found if n in names or n not in {*written, *but})

        musts = listed("must", must)
        asked = _Asked(musts, listed("may", may, but=musts), denied)
        seen: dict[str, str] = {}
        lists = {**asked._asdict(), "lacks": [x.concept for x in asked.lacks]}
        for group, names in lists.items():
            for name in names:
                if name in seen:
                    raise _error(self.path, key + group, f"{name!r} stands in {seen[name]!r} too")
                seen[name] = group
        return asked

    def _lacks(self, key: str, values: Sequence[str | Lack]) -> Iterator[Lack]:
        for number, value in enumerate(values):
            lack = Lack(concept=value) if isinstance(value, str) else value
            for name in self.expand(f"{key}[{number}]", [lack.concept]):
                yield Lack(concept=name, why=lack.why)


def _check_id(path: Path, key: str, name: str) -> None:
    if not _Identifier.match(name):
        raise _error(path, key, f"{name!r} is no id: lower-case words joined with '-'")
    if key == "id" and path.stem != name:
        raise _error(path, key, f"{name!r} does not agree with the file's name")


def _check_path(home: Path, key: str, path: str) -> None:
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or ".." in parts or "" in parts:
        raise _error(home, key, f"{path!r} is no path relative to the repository's root")


def _convert(path: Path, kind: type[_T]) -> _T:
    data = _read_toml(path)
    version = data.get("format")
    if not isinstance(version, int):
        raise _error(path, "format", f"expected the number {FORMAT}")
    if version > FORMAT:
        raise _error(
            path, "format", f"version {version} is newer than this srcmap reads ({FORMAT})"
        )
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _explained(path, error) from error


def _explained(path: Path, error: msgspec.ValidationError) -> CatalogueError:
    """Name file and key path: msgspec says `... - at `$.file[0]``."""
    text, _, where = str(error).partition(" - at ")
    key = where.strip("`").removeprefix("$").removeprefix(".")
    unknown = re.match(r"Object contains unknown field `(.*)`", text)
    if unknown:
        return _error(path, f"{key}.{unknown[1]}".lstrip("."), "unknown key")
    missing = re.match(r"Object missing required field `(.*)`", text)
    if missing:
        return _error(path, f"{key}.{missing[1]}".lstrip("."), "this key is required")
    return _error(path, key, text[:1].lower() + text[1:])


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]
    try:
        data: dict[str, Any] = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise _error(path, "", f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _error(path, "", f"not well-formed TOML: {error}") from error
    return data


def _error(path: Path, key: str, problem: str) -> CatalogueError:
    place = f"{path}: {key}" if key else str(path)
    return CatalogueError(f"{place}: {problem}", slug="catalogue")
