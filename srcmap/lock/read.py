"""The bytes of one lock file in, a `Lock` out; strict, and every error names file and key path."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from srcmap.errors import LockError
from srcmap.lock.nouns import Archive, Lock, Pin

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

FORMAT = "1.0"
"""Major: an older srcmap must refuse the file. Minor: it may read it."""

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")
"""A repository name or a version: fit for a folder name on every system, never an option."""

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ABBREVIATED = re.compile(r"[0-9a-fA-F]{4,40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REMOTE = re.compile(r"(?:https?|ssh|git|file)://[^\s\x00-\x1f]+")
_SCP = re.compile(r"(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9.-]+:(?!:)[^\s\x00-\x1f]+")
_REF_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/]|[/.]$|\.lock$|^@$")


def read_lock(path: Path) -> Lock:
    """Read one lock file. LockError when it is not what a lock file must be."""
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}"
        raise LockError(message, slug="lock-file") from error
    return parse_lock(data, path)


def parse_lock(data: bytes, path: Path) -> Lock:
    """`read_lock` for bytes at hand; `path` is what the errors name."""
    try:
        document = tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise LockError(f"{path}: is not UTF-8: {error}", slug="lock-file") from error
    except tomllib.TOMLDecodeError as error:
        raise LockError(f"{path}: is not TOML: {error}", slug="lock-file") from error
    return _lock(_Table(document, path, ""), path)


def check_url(url: str) -> str | None:
    """Say why git must not be given this URL, or None when it may be."""
    if url.startswith("-"):
        return "a URL that begins with '-' would be read as an option"
    if "::" in url.partition("/")[0]:
        return "URLs of the form 'helper::address' run programs"
    if _REMOTE.fullmatch(url) or _SCP.fullmatch(url) or url.startswith("/"):
        return None
    return "expected https://, ssh://, git://, file://, user@host:path or an absolute path"


def check_ref(ref: str) -> str | None:
    """Say why this cannot be the name of a tag or branch, or None when it can."""
    if ref.startswith("-"):
        return "a name that begins with '-' would be read as an option"
    if not ref or _REF_BAD.search(ref):
        return "that is no name that git allows for a tag or branch"
    return None


def check_label(value: str) -> str | None:
    """Say why this cannot name a repository or a version, or None when it can."""
    if LABEL.fullmatch(value) and not value.endswith("."):
        return None
    return f"expected letters, digits, '.', '_', '+' and '-', found '{value}'"


def check_commit(commit: str) -> str | None:
    """Say why this is no commit id, or None when it is one."""
    if _COMMIT.fullmatch(commit):
        return None
    if _ABBREVIATED.fullmatch(commit) and len(commit) < 40:
        return (
            "expected 40 hexadecimal digits, found an abbreviated id, "
            f"which can come to mean another commit: '{commit}'"
        )
    return f"expected 40 lower-case hexadecimal digits, found '{commit}'"


class _Table:
    """A table of the document that knows where it stands, and counts which keys were asked for."""

    def __init__(self, values: dict[str, Any], file: Path, where: str) -> None:
        self._values = values
        self._file = file
        self._where = where
        self._asked: set[str] = set()

    def key(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def error(self, name: str, what: str) -> LockError:
        return LockError(f"{self._file}: '{self.key(name)}': {what}", slug="lock-file")

    def take(self, name: str, kind: type, called: str) -> Any:
        self._asked.add(name)
        value = self._values.get(name)
        if value is not None and not isinstance(value, kind):
            raise self.error(name, f"expected {called}, found {type(value).__name__}")
        return value

    def optional(self, name: str, check: Callable[[str], str | None] | None = None) -> str | None:
        value: str | None = self.take(name, str, "a string")
        if value is not None and check and (wrong := check(value)):
            raise self.error(name, wrong)
        return value

    def text(self, name: str, check: Callable[[str], str | None] | None = None) -> str:
        value = self.optional(name, check)
        if value is None:
            raise self.error(name, "is missing")
        return value

    def texts(self, name: str, check: Callable[[str], str | None]) -> tuple[str, ...]:
        values: list[Any] = self.take(name, list, "a list of strings") or []
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise self.error(f"{name}[{index}]", "expected a string")
            if wrong := check(value):
                raise self.error(f"{name}[{index}]", wrong)
        return tuple(values)

    def pairs(self, name: str, check: Callable[[str], str | None]) -> tuple[tuple[str, str], ...]:
        values: dict[str, Any] = self.take(name, dict, "a table of strings") or {}
        for left, right in values.items():
            if not isinstance(right, str):
                raise self.error(f'{name}."{left}"', "expected a string")
            if wrong := check(left) or check(right):
                raise self.error(f'{name}."{left}"', wrong)
            if left.endswith("/**") != right.endswith("/**"):
                raise self.error(f'{name}."{left}"', "a folder can only lie in a folder")
        return tuple(values.items())

    def table(self, name: str) -> _Table:
        value = self.take(name, dict, "a table")
        if value is None:
            raise self.error(name, "is missing")
        return _Table(value, self._file, self.key(name))

    def tables(self, name: str) -> list[_Table]:
        values: list[Any] = self.take(name, list, "a list of tables") or []
        for index, value in enumerate(values):
            if not isinstance(value, dict):
                raise self.error(f"{name}[{index}]", "expected a table")
        return [
            _Table(value, self._file, self.key(f"{name}[{index}]"))
            for index, value in enumerate(values)
        ]

    def close(self) -> None:
        """Refuse what nobody asked for: it is a typing error or a newer format."""
        for name in self._values:
            if name not in self._asked:
                raise self.error(name, "unknown key")


def _lock(document: _Table, path: Path) -> Lock:
    document.text("format", _check_format)
    repo = document.table("repo")
    pins = document.tables("pin")
    document.close()
    lock = Lock(
        name=repo.text("name", check_label),
        url=repo.text("url", check_url),
        licence=repo.optional("licence") or "",
        current=repo.text("current", check_label),
        leave_out=repo.texts("leave-out", _check_pattern),
        pins=tuple(_pin(pin) for pin in pins),
        path=path,
    )
    repo.close()
    _whole(lock, repo, document)
    return lock


def _whole(lock: Lock, repo: _Table, document: _Table) -> None:
    """Check what no single table can see."""
    if lock.path is not None and lock.path.stem != lock.name:
        raise repo.error("name", f"expected the name of the file, found '{lock.name}'")
    if not lock.pins:
        raise document.error("pin", "expected at least one pin")
    _no_twins(document, "version", [pin.version.casefold() for pin in lock.pins])
    _no_twins(document, "commit", [pin.commit for pin in lock.pins])
    _no_twins(document, "archive", [a.sha256 for pin in lock.pins for a in pin.archives])
    if lock.find(lock.current) is None:
        raise repo.error("current", f"no pin has the version '{lock.current}'")


def _no_twins(document: _Table, name: str, values: Sequence[str | None]) -> None:
    seen: set[str] = set()
    for value in values:
        if value is not None and value in seen:
            raise document.error("pin", f"two pins have the same {name}: '{value}'")
        if value is not None:
            seen.add(value)


def _pin(table: _Table) -> Pin:
    archives = [_archive(archive) for archive in table.tables("archive")]
    pin = Pin(
        version=table.text("version", check_label),
        requested=table.text("requested", check_ref),
        ref=table.optional("ref", _check_full_ref),
        commit=table.optional("commit", check_commit),
        tree=table.optional("tree", check_commit),
        archives=tuple(archives),
    )
    table.close()
    if pin.commit is None and not pin.archives:
        raise table.error("commit", "is missing, and there is no archive either")
    return pin


def _archive(table: _Table) -> Archive:
    archive = Archive(
        kind="sdist" if table.text("kind", _check_kind) == "sdist" else "wheel",
        project=table.text("project", check_label),
        file=table.text("file", _check_file),
        sha256=table.text("sha256", _check_sha256),
        commit_file=table.optional("commit-file", _check_path),
        covers=table.pairs("covers", _check_pattern),
        foreign=table.texts("foreign", _check_pattern),
        lacks=table.texts("lacks", _check_pattern),
    )
    table.close()
    if archive.kind == "wheel" and not archive.covers:
        raise table.error("covers", "is missing: a wheel is never the whole repository")
    return archive


def _check_format(value: str) -> str | None:
    major, dot, minor = value.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        return f"expected a version such as '{FORMAT}', found '{value}'"
    if int(major) > int(FORMAT.partition(".")[0]):
        return f"format {value} is newer than this srcmap, which reads {FORMAT}: upgrade srcmap"
    return None


def _check_full_ref(value: str) -> str | None:
    return check_ref(value) if value.startswith("refs/") else "expected 'refs/tags/...' or such"


def _check_kind(value: str) -> str | None:
    return None if value in ("sdist", "wheel") else f"expected sdist or wheel, found '{value}'"


def _check_file(value: str) -> str | None:
    if re.fullmatch(
        r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.(?:tar\.gz|tgz|tar\.xz|tar\.bz2|whl|zip)", value
    ):
        return None
    return f"expected the name of a .tar.gz, .zip or .whl file, found '{value}'"


def _check_sha256(value: str) -> str | None:
    if _SHA256.fullmatch(value):
        return None
    return f"expected 64 lower-case hexadecimal digits, found {len(value)} characters"


def _check_path(value: str) -> str | None:
    parts = value.split("/")
    if not value or "\\" in value or any(part in ("", ".", "..") for part in parts):
        return f"expected a path inside the repository, found '{value}'"
    return None


def _check_pattern(value: str) -> str | None:
    path = value.removesuffix("/**")
    if "*" in path:
        return f"expected a path or 'folder/**', found '{value}'"
    return _check_path(path)
