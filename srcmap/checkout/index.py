"""An archive out of the lock in, its verified bytes in a file out, by way of a package index.

Speaks the simple repository API in both its forms, JSON and HTML, over http and from folders.
httpx and not urllib: it streams, follows redirects without carrying a password along, and keeps
to proxies, all of which would have to be written and tested here.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from contextlib import contextmanager
from html.parser import HTMLParser
from netrc import NetrcParseError
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import url2pathname

import certifi
import httpx
import msgspec

from srcmap.checkout.nouns import NotThere
from srcmap.checkout.staging import disk_error
from srcmap.errors import CheckoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from srcmap.checkout.indexconfig import IndexSettings
    from srcmap.checkout.nouns import Progress
    from srcmap.lock import Archive

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, "
    "application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
)
_CHUNK = 1 << 18
_MAX_ARCHIVE = 4 * 1024**3
_MAX_PAGE = 64 * 1024**2
_TRIES = 3


def download(archive: Archive, settings: IndexSettings, into: Path, progress: Progress) -> None:
    """Write the archive to `into`, its sha256 checked. NotThere when no index can give it."""
    reasons: list[str] = []
    for place, listing in _places(archive, settings):
        try:
            links = _links(place, settings, listing=listing)
            link = next((link for link in links if _file_name(link) == archive.file), None)
            if link is None:
                reasons.append(f"{bare(place)} has no {archive.file}")
                continue
            into.unlink(missing_ok=True)  # never half from one index and half from another
            _save(link, settings, archive, into, progress)
        except (httpx.HTTPError, OSError, _Unreadable) as error:
            reasons.append(f"{bare(place)}: {_reason(error)}")
        else:
            return
    raise NotThere("; ".join(reasons) or "no package index is set up (no-index)")


def download_url(
    url: str, settings: IndexSettings, archive: Archive, into: Path, progress: Progress
) -> None:
    """`download` from an address that a person gave."""
    try:
        _save(url, settings, archive, into, progress)
    except (httpx.HTTPError, OSError) as error:
        raise NotThere(f"{bare(url)}: {_reason(error)}") from error


def verify_file(path: Path, archive: Archive) -> None:
    """CheckoutError unless the file is the archive of the lock."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    _same(digest.hexdigest(), archive, str(path))


def bare(url: str) -> str:
    """Give an address fit to be shown: without a password."""
    return re.sub(r"//[^/@]*@", "//", url)


class _Unreadable(Exception):  # noqa: N818  # a reason to try the next index
    pass


def _places(archive: Archive, settings: IndexSettings) -> Iterator[tuple[str, bool]]:
    for link in settings.links:
        yield link, True
    project = re.sub(r"[-_.]+", "-", archive.project).lower()
    for index in settings.indexes:
        yield f"{index}/{project}/", False


def _links(place: str, settings: IndexSettings, *, listing: bool) -> list[str]:
    """Every link that an index page or a folder offers."""
    folder = _local(place)
    if folder is not None:
        return _folder_links(folder)
    accept = {"Accept": _ACCEPT}
    with _client(place, settings) as client, client.stream("GET", place, headers=accept) as answer:
        answer.raise_for_status()
        page = b"".join(_limited(answer.iter_bytes(_CHUNK), _MAX_PAGE))
        kind = answer.headers.get("content-type", "").partition(";")[0].strip()
        read = _json_links if kind.endswith("+json") and not listing else _html_links
        links = read(page, str(answer.url))
        # A page of the network has no business pointing at files of this machine.
        return [link for link in links if _local(link) is None]


def _folder_links(folder: Path) -> list[str]:
    if folder.is_file():
        return _html_links(folder.read_bytes(), folder.resolve().as_uri())
    page = folder / "index.html"
    files = [path.resolve().as_uri() for path in folder.iterdir() if path.name != page.name]
    if page.is_file():
        files += _html_links(page.read_bytes(), page.resolve().as_uri())
    return files


def _json_links(page: bytes, base: str) -> list[str]:
    try:
        document: dict[str, Any] = msgspec.json.decode(page)
        return [urljoin(base, file["url"]) for file in document["files"]]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise _Unreadable("the answer is not the JSON of a package index") from error


def _html_links(page: bytes, base: str) -> list[str]:
    parser = _Anchors(base)
    parser.feed(page.decode("utf-8", "replace"))
    return parser.links


class _Anchors(HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self._base = base

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if address and tag == "base":
            self._base = urljoin(self._base, address)
        elif address and tag == "a":
            self.links.append(urljoin(self._base, address))


def _save(
    link: str, settings: IndexSettings, archive: Archive, into: Path, progress: Progress
) -> None:
    """Bring one file; a connection that breaks is taken up where it broke."""
    local = _local(link)
    if local is not None:
        _copy(local, archive, into)
        return
    with _client(link, settings) as client:
        for left in reversed(range(_TRIES)):
            try:
                _receive(client, link.partition("#")[0], into, progress)
            except httpx.TransportError:  # noqa: PERF203  # three tries
                if not left:
                    raise
            else:
                break
    verify_file(into, archive)


def _receive(client: httpx.Client, link: str, into: Path, progress: Progress) -> None:
    have = into.stat().st_size if into.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with client.stream("GET", link, headers=headers) as response:
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # the whole file is here; its digest will tell
        response.raise_for_status()
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        done = have if resumed else 0
        total = done + int(response.headers.get("content-length") or 0)
        with _written(into, "ab" if resumed else "wb") as write:
            for chunk in _limited(response.iter_raw(_CHUNK), _MAX_ARCHIVE):
                write(chunk)
                done += len(chunk)
                progress.advance_to(min(done / total, 1.0) if total else 0.0)


def _copy(path: Path, archive: Archive, into: Path) -> None:
    with path.open("rb") as source, _written(into, "wb") as write:
        while chunk := source.read(_CHUNK):
            write(chunk)
    verify_file(into, archive)


@contextmanager
def _written(into: Path, mode: str) -> Iterator[Callable[[bytes], object]]:
    """Give a function that writes to a file; its failures are the disk's, not the network's."""
    try:
        file = into.open(mode)
    except OSError as error:
        raise disk_error(error, into) from error

    def write(data: bytes) -> None:
        try:
            file.write(data)
            file.flush()
        except OSError as error:
            raise disk_error(error, into) from error

    with file:
        yield write


def _limited(chunks: Iterator[bytes], most: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > most:
            raise CheckoutError(f"refused: an answer of more than {most >> 20} MiB", slug="hostile")
        yield chunk


def _client(url: str, settings: IndexSettings) -> httpx.Client:
    return httpx.Client(
        auth=_auth(url, settings),
        verify=_trust(url, settings),
        proxy=settings.proxy or None,
        timeout=httpx.Timeout(settings.timeout, connect=min(settings.timeout, 20.0)),
        follow_redirects=True,
        headers={"User-Agent": "srcmap"},
    )


def _auth(url: str, settings: IndexSettings) -> httpx.Auth | None:
    """Give the password of the index, also for files on its host; else what ~/.netrc says."""
    host = urlsplit(url).hostname
    for index in (*settings.indexes, *settings.links):
        parts = urlsplit(index)
        if parts.hostname == host and parts.username:
            return httpx.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
    netrc = Path(os.environ.get("NETRC") or Path.home() / ".netrc")
    try:
        return httpx.NetRCAuth(str(netrc)) if netrc.is_file() else None
    except (OSError, NetrcParseError):
        return None


def _trust(url: str, settings: IndexSettings) -> ssl.SSLContext | bool:
    parts = urlsplit(url)
    if {parts.hostname, f"{parts.hostname}:{parts.port}", "*"} & set(settings.trusted):
        return False
    if settings.certificate:
        there = Path(settings.certificate)
        context = ssl.create_default_context(
            cafile=None if there.is_dir() else str(there),
            capath=str(there) if there.is_dir() else None,
        )
    else:
        context = ssl.create_default_context()
        context.load_verify_locations(certifi.where())  # for systems that bring no certificates
    if settings.client_certificate:
        context.load_cert_chain(settings.client_certificate)
    return context


def _local(place: str) -> Path | None:
    """Give the path that a place means, when it is one of this machine."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme in ("http", "https") else Path(place)


def _file_name(link: str) -> str:
    return unquote(urlsplit(link).path).rpartition("/")[2]


def _same(found: str, archive: Archive, where: str) -> None:
    if found != archive.sha256:
        raise CheckoutError(
            f"{where}: is not {archive.file}: expected sha256 {archive.sha256}, found {found}",
            slug="not-verified",
            hint="the index or the way to it changed the file; use another index, or --from",
        )


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"answered {error.response.status_code}"
    return str(error) or type(error).__name__
