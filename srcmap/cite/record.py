"""`srcmap.cites.toml`, beside the documents: what each citation's lines were when they were right.

Entries that a run does not touch keep their bytes, comments included, so that a diff shows what
changed and nothing else.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from srcmap.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from srcmap.cite.nouns import Judged

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "srcmap.cites.toml"
_FORMAT = "1.0"
_HEAD = f"""\
# What the citations of the documents here refer to. Written by `srcmap cite record`.
format = "{_FORMAT}"
"""
_ENTRY = re.compile(r"^\[\[cite\]\][ \t]*\r?$", re.MULTILINE)


class Kept(NamedTuple):
    """One entry: which citation of which document, what it says, and its bytes."""

    document: str
    text: str
    nth: int
    """Which of the citations of the document that are written so."""
    fields: dict[str, Any]
    raw: str


class Record:
    """A record file that was read."""

    def __init__(self, head: str, entries: Iterable[Kept]) -> None:
        self.head, self.entries = head, list(entries)

    def digests(self, document: str) -> dict[tuple[str, int], str]:
        """Give the digests of a document's citations, by text and number."""
        return {
            (entry.text, entry.nth): str(entry.fields.get("digest", ""))
            for entry in self.entries
            if entry.document == document
        }

    def renewed(self, documents: dict[str, list[Judged]]) -> Record:
        """Give the record after a run over some documents: their entries new, all others kept."""
        old = {(e.document, e.text, e.nth): e for e in self.entries}
        found: list[Kept] = []
        done: set[str] = set()
        for entry in self.entries:
            if entry.document not in documents:
                found.append(entry)
            elif entry.document not in done:
                done.add(entry.document)
                found.extend(_entries(entry.document, documents[entry.document], old))
        for name, judged in documents.items():
            if name not in done:
                found.extend(_entries(name, judged, old))
        return Record(self.head, found)

    def encode(self) -> bytes:
        """Give the bytes of the file."""
        parts = [self.head or _HEAD + "\n"]
        parts += [entry.raw for entry in self.entries]
        return "".join(parts).encode("utf-8", "surrogateescape")


def read_record(path: Path) -> Record:
    """Read a record; an empty one when there is no file. UsageError when it is not one."""
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return Record("", ())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}", slug="cite-record") from error
    try:
        whole = tomllib.loads(text)
        version = str(whole.get("format", ""))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: {error}", slug="cite-record") from error
    if version.partition(".")[0] != _FORMAT.partition(".")[0]:
        raise UsageError(f"{path}: format {version!r}, expected {_FORMAT!r}", slug="cite-record")
    starts = [match.start() for match in _ENTRY.finditer(text)]
    fields = whole.get("cite", [])
    if len(starts) != len(fields):
        raise UsageError(f"{path}: entries must begin with [[cite]]", slug="cite-record")
    raws = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    return Record(text[: starts[0]] if starts else text,
                  [_kept(f, raw, path) for f, raw in zip(fields, raws, strict=True)])  # fmt: skip


def _kept(fields: dict[str, Any], raw: str, path: Path) -> Kept:
    try:
        return Kept(
            str(fields["document"]), str(fields["text"]), int(fields.get("nth", 1)), fields, raw
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: an entry lacks {error}", slug="cite-record") from error


def _entries(
    document: str, judged: list[Judged], old: dict[tuple[str, str, int], Kept]
) -> Iterable[Kept]:
    seen: dict[str, int] = {}
    for found in judged:
        text = found.citation.text
        nth = seen[text] = seen.get(text, 0) + 1
        fields = _fields(document, nth, found)
        before = old.get((document, text, nth))
        if fields is None:
            continue
        if before is not None and before.fields == fields:
            yield before
        else:
            yield Kept(document, text, nth, fields, _raw(fields))


def _fields(document: str, nth: int, found: Judged) -> dict[str, Any] | None:
    """Give what is written down of a citation; nothing of one that is at fault."""
    target = found.citation.target
    if found.verdict not in ("ok", "plausible") or not found.digest or target.lines is None:
        return None
    fields: dict[str, Any] = {"document": document, "text": found.citation.text}
    if nth > 1:
        fields["nth"] = nth
    fields["pin"] = found.judged_at
    fields["path"] = target.path
    fields["lines"] = [target.lines.first, target.lines.last]
    fields["digest"] = found.digest
    return fields


def _raw(fields: dict[str, Any]) -> str:
    lines = ["", "[[cite]]", *(f"{name} = {_toml(value)}" for name, value in fields.items())]
    return "\n".join([*lines[1:], "", ""])


def _toml(value: object) -> str:
    if isinstance(value, str):
        return toml_string(value)
    return str(value)


def toml_string(value: str) -> str:
    """Write a basic string; what TOML cannot hold (a lone surrogate) becomes a question mark."""
    out = []
    for char in value:
        code = ord(char)
        if char in '"\\':
            out.append("\\" + char)
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\u{code:04X}")
        else:
            out.append("?" if 0xD800 <= code < 0xE000 else char)
    return '"' + "".join(out) + '"'
