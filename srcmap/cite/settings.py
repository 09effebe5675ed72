"""What a project says about its citations; the defaults where it says nothing."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from srcmap.cite.nouns import Place
from srcmap.errors import UsageError

# Documents that people call by a name. A project adds its own in `.srcmap.toml`.
DOCUMENTS = {
    "编程指南": Place("tilelang-ascend", "docs/TileLang-Ascend Programming Guide.md"),
    "Programming Guide": Place("tilelang-ascend", "docs/TileLang-Ascend Programming Guide.md"),
}


class Baseline(NamedTuple):
    """A known fault: where it is written, what is written, and its verdict."""

    document: str
    text: str
    verdict: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The `[cite]` table of `.srcmap.toml`."""

    documents: tuple[str, ...] = ()
    """What `scan` and `check` read when nothing is named: files, folders, patterns."""
    pins: dict[str, str] = {}
    """The version to judge at, by repository."""
    repos: dict[str, str] = {}
    """Other names of repositories."""
    named: dict[str, tuple[str, str]] = {}
    """Names of documents: repository and path."""
    default_repo: str | None = None
    own: tuple[str, ...] = ()
    """Patterns of paths that are the project's own, with `*` and `**`."""
    baseline: tuple[Baseline, ...] = ()

    def places(self) -> dict[str, Place]:
        """Give the documents that have a name, those of the project over the shipped ones."""
        return DOCUMENTS | {name: Place(*where) for name, where in self.named.items()}


def pattern(glob: str) -> re.Pattern[str]:
    """Compile a path pattern: `*` stays in a folder, `**` does not, a folder means all in it."""
    parts = re.split(r"(\*\*/?|\*|\?)", glob.strip("/"))
    shown = {"**": ".*", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    body = "".join(shown.get(part, re.escape(part)) for part in parts)
    return re.compile(rf"{body}(?:/.*)?\Z", re.DOTALL)


_KEYS = {"documents", "pins", "repos", "named", "default-repo", "own", "baseline"}


def read_settings(table: dict[str, Any], home: str = ".srcmap.toml") -> Settings:
    """Read the `[cite]` table. UsageError names the key that is not as it must be."""
    unknown = sorted(set(table) - _KEYS)
    if unknown:
        raise _bad(home, f"cite.{unknown[0]}", f"unknown key; known are {', '.join(sorted(_KEYS))}")
    return Settings(
        documents=_strings(table, "documents", home),
        pins=_pairs(table, "pins", home),
        repos=_pairs(table, "repos", home),
        named={name: _named(name, value, home) for name, value in table.get("named", {}).items()},
        default_repo=_string(table, "default-repo", home),
        own=_strings(table, "own", home),
        baseline=tuple(_known(entry, home) for entry in table.get("baseline", ())),
    )


def _bad(home: str, key: str, why: str) -> UsageError:
    return UsageError(f"{home}: {key}: {why}", slug="settings")


def _string(table: dict[str, Any], key: str, home: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise _bad(home, f"cite.{key}", "expected a string")
    return value


def _strings(table: dict[str, Any], key: str, home: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _bad(home, f"cite.{key}", "expected a list of strings")
    return tuple(value)


def _pairs(table: dict[str, Any], key: str, home: str) -> dict[str, str]:
    value = table.get(key, {})
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise _bad(home, f"cite.{key}", "expected a table of strings")
    return value


def _named(name: str, value: object, home: str) -> tuple[str, str]:
    if isinstance(value, dict) and {*value} == {"repo", "path"}:
        repo, path = value["repo"], value["path"]
        if isinstance(repo, str) and isinstance(path, str):
            return (repo, path)
    raise _bad(home, f"cite.named.{name}", 'expected { repo = "...", path = "..." }')


def _known(entry: object, home: str) -> Baseline:
    if isinstance(entry, dict) and {*entry} == {"document", "text", "verdict"}:
        return Baseline(str(entry["document"]), str(entry["text"]), str(entry["verdict"]))
    raise _bad(home, "cite.baseline", "expected document, text and verdict in each entry")
