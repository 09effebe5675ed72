"""The package index that the user has set up, and archives from it, over http and from disk."""

from __future__ import annotations

import base64
import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from srcmap.checkout import sync
from srcmap.checkout.indexconfig import PUBLIC, index_settings, pip_files
from srcmap.errors import CheckoutError
from tests.checkout.world import archive_of, lock_of, make_sdist, member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.lock import Archive

FILE = "kernels-1.tar.gz"


# -- what is configured ----------------------------------------------------------------------


def indexes(environ: dict[str, str], start: Path) -> tuple[str, ...]:
    quiet = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "HOME": str(start)}
    return index_settings({**quiet, **environ}, start).indexes


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, (PUBLIC,)),
        ({"PIP_INDEX_URL": "https://a/simple/"}, ("https://a/simple",)),
        (
            {"PIP_INDEX_URL": "https://a/", "PIP_EXTRA_INDEX_URL": "https://b/ https://c/"},
            ("https://a", "https://b", "https://c"),
        ),
        ({"PIP_EXTRA_INDEX_URL": "https://b"}, (PUBLIC, "https://b")),
        ({"UV_INDEX_URL": "https://u"}, ("https://u",)),
        ({"UV_DEFAULT_INDEX": "corp=https://u"}, ("https://u",)),
        ({"UV_INDEX_URL": "https://old", "UV_DEFAULT_INDEX": "https://new"}, ("https://new",)),
        ({"UV_INDEX": "x=https://u https://v"}, (PUBLIC, "https://u", "https://v")),
        ({"PIP_INDEX_URL": "https://p", "UV_INDEX_URL": "https://u"}, ("https://p", "https://u")),
        ({"PIP_NO_INDEX": "1"}, ()),
        ({"UV_NO_INDEX": "true"}, ()),
    ],
)
def test_variables(tmp_path: Path, environ: dict[str, str], expected: tuple[str, ...]) -> None:
    assert indexes(environ, tmp_path) == expected


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def conf(url: str, section: str = "global") -> str:
    return f"[{section}]\nindex-url = {url}\n"


@pytest.mark.skipif(os.name != "posix", reason="these are the places of POSIX systems")
def test_pip_files_from_far_to_near(tmp_path: Path) -> None:
    environ = {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_DIRS": f"{tmp_path / 'xdg1'}:{tmp_path / 'xdg2'}",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "VIRTUAL_ENV": str(tmp_path / "venv"),
        "UV_NO_CONFIG": "1",
    }
    places = [
        tmp_path / "xdg2/pip/pip.conf",
        tmp_path / "xdg1/pip/pip.conf",
        tmp_path / "home/.pip/pip.conf",
        tmp_path / "config/pip/pip.conf",
        tmp_path / "venv/pip.conf",
    ]
    known = pip_files(environ)
    assert [path for path in known if path in places] == places
    assert Path("/etc/pip.conf") in known
    for number, place in enumerate(places):
        write(place, conf(f"https://{number}"))
        assert index_settings(environ, tmp_path).indexes[0] == f"https://{number}"
    named = write(tmp_path / "named.conf", conf("https://named"))
    environ["PIP_CONFIG_FILE"] = str(named)
    assert index_settings(environ, tmp_path).indexes[0] == "https://named"
    environ["PIP_INDEX_URL"] = "https://variable"
    assert index_settings(environ, tmp_path).indexes[0] == "https://variable"


def test_pip_sections_and_the_rest(tmp_path: Path) -> None:
    text = (
        conf("https://global")
        + conf("https://install", "install")
        + "extra-index-url =\n    https://b\n    https://c\n"
        + "find-links = /wheels\ncert = /ca.pem\ntrusted-host = mirror\ntimeout = 7\nproxy = http://p\n"
    )
    environ = {"PIP_CONFIG_FILE": str(write(tmp_path / "pip.conf", text)), "UV_NO_CONFIG": "1"}
    environ |= {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}
    found = index_settings(environ, tmp_path)
    assert found.indexes == ("https://install", "https://b", "https://c")
    assert (found.links, found.certificate, found.trusted) == (("/wheels",), "/ca.pem", ("mirror",))
    assert (found.timeout, found.proxy) == (7.0, "http://p")


def test_a_pip_file_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    bad = write(tmp_path / "pip.conf", "not an ini file")
    assert indexes({"PIP_CONFIG_FILE": str(bad)}, tmp_path)


def test_certificates(tmp_path: Path) -> None:
    environ = {"PIP_CONFIG_FILE": os.devnull, "UV_NO_CONFIG": "1", "SSL_CERT_FILE": "/a"}
    assert index_settings(environ, tmp_path).certificate == "/a"
    assert index_settings({**environ, "PIP_CERT": "/b"}, tmp_path).certificate == "/b"


UV = '[[index]]\nurl = "https://named"\ndefault = true\n[[index]]\nurl = "https://more"\n'
EXPLICIT = '[[index]]\nname = "x"\nurl = "https://never"\nexplicit = true\n'


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("uv.toml", UV + EXPLICIT, ("https://named", "https://more")),
        ("uv.toml", 'index-url = "https://old"\n', ("https://old",)),
        ("uv.toml", '[pip]\nindex-url = "https://pip"\n', ("https://pip",)),
        ("uv.toml", "no-index = true\n", ()),
        ("uv.toml", "this is not toml", (PUBLIC,)),
        ("pyproject.toml", '[tool.uv]\nextra-index-url = ["https://x"]\n', (PUBLIC, "https://x")),
        (
            "pyproject.toml",
            '[[tool.uv.index]]\nurl = "https://y"\ndefault = true\n',
            ("https://y",),
        ),
        ("pyproject.toml", "[project]\n", (PUBLIC,)),
    ],
)
def test_uv_files(tmp_path: Path, name: str, text: str, expected: tuple[str, ...]) -> None:
    write(tmp_path / name, text)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    environ = {
        "PIP_CONFIG_FILE": os.devnull,
        "XDG_CONFIG_HOME": str(tmp_path / "none"),
        "XDG_CONFIG_DIRS": str(tmp_path / "none"),
    }
    assert index_settings(environ, inner).indexes == expected


def test_the_users_uv_file(tmp_path: Path) -> None:
    write(tmp_path / "config/uv/uv.toml", 'index-url = "https://user"\n')
    environ = {
        "PIP_CONFIG_FILE": os.devnull,
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CONFIG_DIRS": str(tmp_path / "none"),
    }
    assert index_settings(environ, tmp_path).indexes == ("https://user",)


# -- what is fetched -------------------------------------------------------------------------


class Server(BaseHTTPRequestHandler):
    """An index in JSON under /json/, in HTML under /html/; files elsewhere, with ranges."""

    archive: ClassVar[bytes] = b""
    password: ClassVar[str] = ""
    breaks: ClassVar[int] = 0
    """How many downloads break in the middle."""
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).seen.append(self.path)
        if self.password and self.headers.get("Authorization") != self.password:
            self.answer(401, b"", "text/plain")
        elif self.path == "/json/kernels/":
            files = [{"url": f"../../files/{FILE}", "filename": FILE, "hashes": {}}]
            kind = "application/vnd.pypi.simple.v1+json"
            self.answer(200, json.dumps({"files": files}).encode(), kind)
        elif self.path == "/html/kernels/":
            page = f'<base href="/moved/"><a href="{FILE}#sha256=0">x</a><a>y</a>'
            self.answer(200, page.encode(), "text/html; charset=utf-8")
        elif self.path == "/local/kernels/":
            page = f'<a href="file:///etc/{FILE}">x</a>'
            self.answer(200, page.encode(), "text/html")
        elif self.path == f"/moved/{FILE}":
            self.send_response(302)
            self.send_header("Location", f"/files/{FILE}")
            self.end_headers()
        elif self.path == f"/files/{FILE}":
            self.send_file()
        else:
            self.answer(404, b"", "text/plain")

    def send_file(self) -> None:
        start = int(self.headers.get("Range", "bytes=0-")[6:].rstrip("-"))
        data = self.archive[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if type(self).breaks:
            type(self).breaks -= 1
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        else:
            self.wfile.write(data)

    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def serving() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def host(archive: Archive, tmp_path: Path) -> Iterator[str]:
    Server.archive = (tmp_path / FILE).read_bytes()
    Server.password, Server.breaks = "", 0
    Server.seen.clear()
    with serving() as host:
        yield host


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    path = tmp_path / FILE
    make_sdist(path, [member("kernels-1/a.py", os.urandom(300_000))])
    return archive_of(path)


def fetch(archive: Archive, project: Path, source: str | None = None) -> int:
    lock, pin = lock_of("https://invalid.example/k", None, archives=(archive,))
    return len(sync(lock, pin, project, source=source).paths())


@pytest.mark.parametrize("form", ["json", "html"])
def test_both_forms_of_an_index(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/{form}")
    assert fetch(archive, project) == 1


def test_the_next_index_is_asked(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/none")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"http://127.0.0.1:1/dead http://{host}/json")
    assert fetch(archive, project) == 1


def test_an_index_on_disk(
    archive: Archive, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = write(tmp_path / "simple/kernels/index.html", f'<a href="../../{FILE}">x</a>')
    monkeypatch.setenv("PIP_INDEX_URL", page.parents[1].as_uri())
    assert fetch(archive, project) == 1


@pytest.mark.parametrize("form", ["path", "uri"])
def test_a_folder_of_files(
    archive: Archive, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path) if form == "path" else tmp_path.as_uri())
    assert fetch(archive, project) == 1


def test_a_password_in_the_address_counts_for_the_file_too(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Server.password = "Basic " + base64.b64encode(b"me:s3 cret").decode()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:s3%20cret@{host}/json")
    assert fetch(archive, project) == 1
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:wrong@{host}/json")
    with pytest.raises(CheckoutError) as caught:
        fetch(archive, project.parent / "second")
    assert "answered 401" in caught.value.message
    assert "wrong" not in caught.value.message


def test_a_password_from_netrc(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Server.password = "Basic " + base64.b64encode(b"me:pw").decode()
    write(Path(os.environ["HOME"], ".netrc"), "machine 127.0.0.1 login me password pw\n").chmod(
        0o600
    )
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/json")
    assert fetch(archive, project) == 1


def test_a_connection_that_breaks_is_taken_up_again(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Server.breaks = 2
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/json")
    assert fetch(archive, project) == 1
    assert Server.seen.count(f"/files/{FILE}") == 3


def test_a_connection_that_always_breaks(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Server.breaks = 9
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/json")
    with pytest.raises(CheckoutError, match="could not be fetched"):
        fetch(archive, project)
    assert not (project / "_vendor/kernels-v1").exists()


def test_another_file_of_that_name(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Server.archive = b"something else"
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/json")
    with pytest.raises(CheckoutError) as caught:
        fetch(archive, project)
    assert "is not kernels-1.tar.gz: expected sha256" in caught.value.message
    assert caught.value.slug == "not-verified"


def test_a_page_that_points_at_this_machine(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/local")
    with pytest.raises(CheckoutError, match=r"has no kernels-1\.tar\.gz"):
        fetch(archive, project)


def test_an_archive_by_its_address(archive: Archive, project: Path, host: str) -> None:
    assert fetch(archive, project, f"http://{host}/files/{FILE}") == 1
    with pytest.raises(CheckoutError, match="answered 404"):
        fetch(archive, project, f"http://{host}/gone/{FILE}")


def test_no_network(archive: Archive, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    with pytest.raises(CheckoutError) as caught:
        fetch(archive, project)
    assert caught.value.exit_code == 3
    assert "http://127.0.0.1:1/simple/kernels/" in caught.value.message
    assert "check the network, proxy and package index" in (caught.value.hint or "")


def test_git_first_then_the_archive(
    archive: Archive, project: Path, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"http://{host}/json")
    lock, pin = lock_of((project / "gone").as_uri(), "c" * 40, archives=(archive,))
    assert sync(lock, pin, project).manifest.source == FILE
