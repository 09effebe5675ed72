"""Variants and concepts: TOML files -> Catalogue, and names that a user types -> Variant.

The shipped TOML files are compiled into one JSON file (`compile_shipped`), because a command
that answers in a few milliseconds cannot parse forty TOML files first. A test keeps the two equal.
A project's own variant files are few and are read each time.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import msgspec

from srcmap.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_DATA = Path(__file__).parent / "data"
_COMPILED = _DATA / "catalogue.json"
FORMAT = 1
"""Major version of the TOML files and of the compiled catalogue."""

Theme = Literal[
    "masking", "softmax", "loops", "addressing", "split", "sparse", "blackwell", "ascend",
    "compiler", "documents",
]  # fmt: skip
KernelKind = Literal[
    "attention", "backward", "indexer", "combine", "selection", "other", "file"
]  # fmt: skip
_Identifier = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing said in both languages."""

    en: str
    zh: str

    def in_language(self, lang: str) -> str:
        return self.zh if lang == "zh" else self.en


class Concept(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that code can do; the id means the same in every variant."""

    id: str
    theme: Theme
    name: Text
    what: Text


class Lack(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A concept that a variant does not have, and why a reader might expect it."""

    concept: str
    why: Text | None = None


class FileRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one file of a variant is asked for. Kernels are chosen by what they do, not by name."""

    repo: str
    path: str
    also: tuple[str, ...] = ()
    """Where other pins keep the same file, tried in order."""
    kernels: tuple[KernelKind, ...] = ("attention", "combine")
    having: tuple[str, ...] = ()
    """Only kernels that do all of these concepts."""
    without: tuple[str, ...] = ()
    """Only kernels that do none of these concepts."""
    branch: str = ""
    """The variant is one arm of a test: sites of other arms (label `branch=...`) are not its."""
    only: tuple[str, ...] = ()
    """The variant is only these concepts of the file; empty: all that the kernels do."""
    must: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()
    not_in: tuple[str, ...] = ()
    """Pins (version labels) that are known not to have the file."""


class Remark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something to know about a variant; the concepts' locations are its evidence."""

    text: Text
    concepts: tuple[str, ...] = ()
    corrects_chapter: bool = False
    """The sources say otherwise than the chapter does."""


class Variant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One way of computing attention, or one piece of a compiler or document."""

    id: str
    name: Text
    summary: Text
    aliases: tuple[str, ...] = ()
    base: str | None = None
    """What it was made from, and is compared with."""
    counterparts: tuple[str, ...] = ()
    """The same idea in the other repository."""
    own: tuple[str, ...] = ()
    """The concepts that make the variant what it is: shown first."""
    files: tuple[FileRequest, ...] = ()
    notes: tuple[Remark, ...] = ()

    def lack(self, concept: str) -> Lack | None:
        """Return the entry about a concept that the variant does not have."""
        return next((x for f in self.files for x in f.lacks if x.concept == concept), None)


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """Concepts in reading order, variants by id."""

    format: int
    concepts: tuple[Concept, ...]
    variants: tuple[Variant, ...]
    sets: dict[str, tuple[str, ...]] = {}

    def concept(self, name: str) -> Concept | None:
        return next((c for c in self.concepts if c.id == name), None)

    def variant(self, name: str) -> Variant | None:
        return next((v for v in self.variants if v.id == name), None)

    def repos(self) -> tuple[str, ...]:
        return tuple(sorted({f.repo for v in self.variants for f in v.files}))

    def concept_order(self) -> dict[str, int]:
        return {c.id: number for number, c in enumerate(self.concepts)}

    def in_order(self, variant: Variant, concepts: Iterable[str]) -> list[str]:
        """Concepts as the variant's page lists them: its own first, then in reading order."""
        own = {name: number - len(variant.own) for number, name in enumerate(variant.own)}
        order = {**self.concept_order(), **own}
        return sorted(set(concepts), key=lambda name: (order.get(name, len(order)), name))


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """No single variant has this name."""

    word: str
    variants: tuple[Variant, ...]
    """Best first; empty when nothing comes near."""
    shared: bool
    """True: all of them bear the name; False: near misses."""


# -- reading --------------------------------------------------------------------------------


def load_catalogue(project: Path | None = None) -> Catalogue:
    """Load the shipped catalogue, joined by the variant files of `project`."""
    try:
        shipped = msgspec.json.decode(_COMPILED.read_bytes(), type=Catalogue)
    except (OSError, msgspec.DecodeError):
        shipped = read_catalogue(_DATA)
    own = project_files(project) if project is not None else []
    return _joined(shipped, own) if own else shipped


def read_catalogue(folder: Path) -> Catalogue:
    """Read `concepts.toml` and `variants/*.toml` under `folder`."""
    concepts, sets = _read_concepts(folder / "concepts.toml")
    empty = Catalogue(format=FORMAT, concepts=concepts, variants=(), sets=sets)
    return _joined(empty, sorted((folder / "variants").glob("*.toml")))


def compile_shipped() -> bytes:
    """Make the bytes that `data/catalogue.json` must have from the TOML files beside it."""
    return msgspec.json.format(msgspec.json.encode(read_catalogue(_DATA)), indent=1) + b"\n"


def compiled_path() -> Path:
    return _COMPILED


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


def _joined(catalogue: Catalogue, paths: Sequence[Path]) -> Catalogue:
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
    for key, names in (("base", (variant.base,)), ("counterparts", variant.counterparts)):
        for name in names:
            if name is not None and name not in homes:
                raise _error(home, key, f"no variant is called {name!r}")


# -- one file -------------------------------------------------------------------------------

_T = TypeVar("_T")


class _RawConcept(msgspec.Struct, forbid_unknown_fields=True):
    theme: Theme
    name: Text
    what: Text


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
    must: list[str] = []
    may: list[str] = []
    lacks: list[str | Lack] = []
    not_in: list[str] = []


class _RawNote(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    en: str
    zh: str
    concepts: list[str] = []
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
    file: list[_RawFile] = []
    note: list[_RawNote] = []


def _read_concepts(path: Path) -> tuple[tuple[Concept, ...], dict[str, tuple[str, ...]]]:
    raw = _convert(path, _RawConcepts)
    concepts = []
    for name, value in raw.concept.items():
        _check_id(path, f"concept.{name}", name)
        concepts.append(Concept(id=name, theme=value.theme, name=value.name, what=value.what))
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
        files=tuple(_file(names, f, f"file[{n}]", common) for n, f in enumerate(raw.file)),
        notes=tuple(_remark(names, number, note) for number, note in enumerate(raw.note)),
    )


def _remark(names: _Names, number: int, note: _RawNote) -> Remark:
    return Remark(
        text=Text(note.en, note.zh),
        concepts=names.expand(f"note[{number}].concepts", note.concepts),
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


# -- names ----------------------------------------------------------------------------------


def resolve(catalogue: Catalogue, word: str) -> Variant | Choice:
    """Find the variant that a user means.

    An id wins; then a name or alias, whatever its case, spaces and dashes. A name that several
    bear, all words of one, and near misses are offered in that order.
    """
    exact = catalogue.variant(word)
    if exact is not None:
        return exact
    sought = _folded(word)
    bearers = [v for v in catalogue.variants if sought == _folded(v.id)] or [
        v for v in catalogue.variants if sought and sought in map(_folded, _all_names(v))
    ]
    if len(bearers) == 1:
        return bearers[0]
    if bearers:
        return Choice(word=word, variants=tuple(bearers), shared=True)
    return Choice(word=word, variants=tuple(_near(catalogue, word)), shared=False)


def _all_names(variant: Variant) -> tuple[str, ...]:
    return (variant.id, variant.name.en, variant.name.zh, *variant.aliases)


def _folded(word: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", word).casefold())


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def _near(catalogue: Catalogue, word: str, limit: int = 6, cutoff: float = 62.0) -> list[Variant]:
    from rapidfuzz import fuzz

    sought, words = _folded(word), _words(word)
    if not sought:
        return []
    ranked = []
    for variant in catalogue.variants:
        names = _all_names(variant)
        score = max(fuzz.ratio(sought, _folded(name)) for name in names)
        if words <= set().union(*map(_words, names)):
            score = max(score, 95.0)
        elif len(sought) > 2 and any(sought in _folded(name) for name in names):
            score = max(score, 80.0)
        ranked.append((-score, variant.id, variant))
    return [variant for score, _, variant in sorted(ranked)[:limit] if -score >= cutoff]
