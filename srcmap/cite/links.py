"""Links to files on a host, and paths in `_vendor`: what names its repository and its version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from srcmap.cite.nouns import Place

if TYPE_CHECKING:
    from srcmap.cite.shelf import Shelf

_LINK = re.compile(
    r"https?://(?P<host>[^/]+)/(?P<owner>[^/]+)/(?P<name>[^/#?]+?)(?:\.git)?"
    r"(?:/-)?/(?P<verb>blob|blame|raw|tree|edit|src/commit|src/tag|src/branch)/(?P<rest>[^#?]+)"
)
_RAW = re.compile(
    r"https?://raw\.githubusercontent\.com/(?P<owner>[^/]+)/(?P<name>[^/#?]+)/(?P<rest>[^#?]+)"
)
_HEX = re.compile(r"[0-9a-f]{7,40}\Z")
VERSION = re.compile(r"v?\d+(?:\.\w+)+(?:[-+]\w[\w.]*)?\Z")
_RENDERED = (".md", ".markdown", ".rst")


class Where(NamedTuple):
    """What a written path or link means."""

    options: tuple[Place, ...]
    pin: str | None = None
    pinned: Literal["", "pin", "branch", "unknown"] = ""
    foreign: bool = False
    explicit: bool = False
    """The repository is named with it."""
    commit: tuple[int, int] | None = None
    plain: bool = True
    missing: bool = False
    """No pin has such a path."""


class Links:
    """Reads what is written in full, against the repositories of a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def vendored(self, folder: str, path: str) -> Where:
        """Read `_vendor/<repo>-<version>/path`."""
        for repo in sorted(self._shelf.locks, key=len, reverse=True):
            version = folder.removeprefix(f"{repo}-")
            if version != folder:
                known = self._shelf.locks[repo].find(version) is not None
                status: Literal["pin", "unknown"] = "pin" if known else "unknown"
                return Where((Place(repo, path),), version, status, explicit=True)
        return Where((), folder, "unknown", foreign=True)

    def link(self, url: str) -> Where | None:
        """Read a link to a file on a host; None for any other link."""
        match = _LINK.match(url) or _RAW.match(url)
        if match is None:
            return None
        repo = self._repo_at(match["owner"], match["name"])
        rest = unquoted(match["rest"])
        if repo is None:
            return Where((Place(f"{match['owner']}/{match['name']}", rest),), foreign=True)
        ref, path = self._split(repo, rest)
        at = match.start("rest")
        shown = ref.rpartition("/")[2]
        offset = match["rest"].find(shown)
        commit = (at + offset, at + offset + len(shown)) if _HEX.match(shown) else None
        lined = re.search(r"#L?\d", url) is not None
        plain = not (lined and path.lower().endswith(_RENDERED) and "plain=1" not in url)
        version, status = self._version(repo, ref)
        return Where((Place(repo, path),), version, status, explicit=True, commit=commit,
                     plain=plain or match.re is _RAW)  # fmt: skip

    def _repo_at(self, owner: str, name: str) -> str | None:
        tail = f"/{owner}/{name}".casefold()
        for lock in self._shelf.locks.values():
            if lock.url.casefold().removesuffix("/").removesuffix(".git").endswith(tail):
                return lock.name
        return None

    def _split(self, repo: str, rest: str) -> tuple[str, str]:
        """Part a link's tail into version and path; a branch's name may hold slashes."""
        for head in ("refs/tags/", "refs/heads/"):
            if rest.startswith(head):
                name, _, path = rest[len(head) :].partition("/")
                return (head + name, path)
        ref, _, path = rest.partition("/")
        parts = path.split("/")
        known = self._shelf.locks[repo].find(ref) or _HEX.match(ref) or VERSION.match(ref)
        if not known and not self._shelf.look_up(repo, path, exact=True):
            for cut in range(1, len(parts)):
                tail = "/".join(parts[cut:])
                if self._shelf.look_up(repo, tail, exact=True):
                    return ("/".join([ref, *parts[:cut]]), tail)
        return (ref, path)

    def _version(self, repo: str, ref: str) -> tuple[str, Literal["pin", "branch", "unknown"]]:
        lock = self._shelf.locks[repo]
        if ref.startswith("refs/heads/"):
            return (ref.removeprefix("refs/heads/"), "branch")
        name = ref.removeprefix("refs/tags/")
        if lock.find(name):
            return (name, "pin")
        for pin in lock.pins:
            if _HEX.match(name) and pin.commit and pin.commit.startswith(name):
                return (pin.version, "pin")
        numbered = _HEX.match(name) or VERSION.match(name) or ref.startswith("refs/tags/")
        return (name, "unknown" if numbered else "branch")


def unquoted(text: str) -> str:
    """Undo percent encoding; what does not decode stays as it is."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text, errors="strict") if _decodes(text) else text


def _decodes(text: str) -> bool:
    from urllib.parse import unquote_to_bytes

    try:
        unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        return False
    return True
