"""Which package index the user has set up: pip's and uv's variables and files in, addresses out.

Many people sit behind a mirror, so what pip and uv would ask is what is asked here. Within each
tool a variable beats a file, and a nearer file beats a farther one, as in the tool itself. When
both tools are set up, all their indexes are asked, pip's first: what arrives is held against the
sha256 of the lock, so it does not matter which of them had it.
"""

from __future__ import annotations

import configparser
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC = "https://pypi.org/simple"
"""Asked when nothing is set up."""

_SECTIONS = ("global", "download", "install")
"""Of pip's files; a later one beats an earlier one."""


class IndexSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look for an archive, in order, and how to get there."""

    indexes: tuple[str, ...]
    """Addresses of simple indexes."""
    links: tuple[str, ...] = ()
    """Folders or pages that list archives directly (`find-links`)."""
    certificate: str | None = None
    client_certificate: str | None = None
    proxy: str | None = None
    trusted: tuple[str, ...] = ()
    """Hosts whose certificate the user does not want checked."""
    timeout: float = 60.0


def index_settings(environ: Mapping[str, str], start: Path) -> IndexSettings:
    """Gather what pip and uv are told, by `environ` and files; uv also in folders above `start`."""
    pip = _pip(environ)
    uv = _uv(environ, start)
    none = _true(pip.get("no-index", "")) or bool(uv.get("no-index"))
    main = [*pip.get("index-url", "").split()[:1], *uv["default"]]
    extra = [*pip.get("extra-index-url", "").split(), *uv["extra"]]
    indexes = () if none else _unique([*(main or [PUBLIC]), *extra])
    return IndexSettings(
        indexes=indexes,
        links=_unique([*pip.get("find-links", "").split(), *uv["links"]]),
        certificate=_certificate(pip, environ),
        client_certificate=pip.get("client-cert"),
        proxy=pip.get("proxy"),
        trusted=_unique([*pip.get("trusted-host", "").split(), *uv["trusted"]]),
        timeout=_number(pip.get("timeout") or pip.get("default-timeout"), 60.0),
    )


def pip_files(environ: Mapping[str, str]) -> list[Path]:
    """Pip's configuration files, the farthest first: global, user, site, then the one named."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    site = Path(environ.get("VIRTUAL_ENV") or sys.prefix) / _pip_name()
    files = [*_pip_global(environ), *_pip_user(environ), site]
    return [*files, Path(named)] if named else files


def uv_files(environ: Mapping[str, str], start: Path) -> list[Path]:
    """Uv's configuration files, the farthest first: system, user, project; or the one named."""
    if named := environ.get("UV_CONFIG_FILE"):
        return [Path(named)]
    if _true(environ.get("UV_NO_CONFIG", "")):
        return []
    user = Path(environ.get("APPDATA", "~")) if sys.platform == "win32" else _xdg(environ)
    files = [folder / "uv" / "uv.toml" for folder in reversed(_xdg_system(environ))]
    if sys.platform != "win32":
        files.insert(0, Path("/etc/uv/uv.toml"))
    files.append(user.expanduser() / "uv" / "uv.toml")
    for folder in (start, *start.parents):
        # uv.toml beside a pyproject.toml wins over its [tool.uv], as in uv.
        for name in ("uv.toml", "pyproject.toml"):
            if _uv_table(folder / name) is not None:
                return [*files, folder / name]
    return files


def _pip(environ: Mapping[str, str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    files = [] if _true(environ.get("PIP_ISOLATED", "")) else pip_files(environ)
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # pip itself will tell the user; here another source may still do
        for section in _SECTIONS:
            if parser.has_section(section):
                settings.update({k.replace("_", "-"): v for k, v in parser.items(section)})
    for name, value in environ.items():
        if name.startswith("PIP_") and value:
            settings[name[4:].lower().replace("_", "-")] = value
    return settings


def _pip_name() -> str:
    return "pip.ini" if sys.platform == "win32" else "pip.conf"


def _pip_global(environ: Mapping[str, str]) -> list[Path]:
    if sys.platform == "win32":
        return [Path(environ.get("PROGRAMDATA", "C:/ProgramData")) / "pip" / "pip.ini"]
    if sys.platform == "darwin":
        return [Path("/Library/Application Support/pip/pip.conf")]
    folders = reversed(_xdg_system(environ))
    return [*(folder / "pip" / "pip.conf" for folder in folders), Path("/etc/pip.conf")]


def _pip_user(environ: Mapping[str, str]) -> list[Path]:
    home = Path(environ.get("HOME") or Path.home())
    if sys.platform == "win32":
        roaming = Path(environ.get("APPDATA", home))
        return [home / "pip" / "pip.ini", roaming / "pip" / "pip.ini"]
    folder = _xdg(environ) / "pip"
    if sys.platform == "darwin" and (home / "Library/Application Support/pip").is_dir():
        folder = home / "Library/Application Support/pip"
    return [home / ".pip" / "pip.conf", folder / "pip.conf"]


def _xdg(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~"), ".config"))


def _xdg_system(environ: Mapping[str, str]) -> list[Path]:
    return [Path(p) for p in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if p]


def _uv(environ: Mapping[str, str], start: Path) -> dict[str, Any]:
    """Uv's say: `default`, `extra`, `links` and `trusted` as lists, and `no-index`."""
    found: dict[str, Any] = {"default": [], "extra": [], "links": [], "trusted": []}
    for file in uv_files(environ, start):
        _uv_merge(found, _uv_table(file) or {})
    named = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")
    if named:
        found["default"] = [_unnamed(named)]
    more = [*environ.get("UV_INDEX", "").split(), *environ.get("UV_EXTRA_INDEX_URL", "").split()]
    found["extra"] = [*(_unnamed(url) for url in more), *found["extra"]]
    found["links"] += environ.get("UV_FIND_LINKS", "").replace(",", " ").split()
    found["trusted"] += environ.get("UV_INSECURE_HOST", "").split()
    if _true(environ.get("UV_NO_INDEX", "")):
        found["no-index"] = True
    return found


def _uv_merge(found: dict[str, Any], table: dict[str, Any]) -> None:
    for part in (table, table.get("pip")):
        if not isinstance(part, dict):
            continue
        if isinstance(part.get("index-url"), str):
            found["default"] = [part["index-url"]]
        for index in _tables(part.get("index")):
            if index.get("default") is True:
                found["default"] = [index["url"]]
            elif index.get("explicit") is not True:
                found["extra"].append(index["url"])
        found["extra"] += _strings(part.get("extra-index-url"))
        found["links"] += _strings(part.get("find-links"))
        found["trusted"] += _strings(part.get("allow-insecure-host"))
        found["no-index"] = part.get("no-index", found.get("no-index", False))


def _uv_table(file: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if file.name != "pyproject.toml":
        return document
    table = document.get("tool", {}).get("uv")
    return table if isinstance(table, dict) else None


def _tables(value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict) and isinstance(item.get("url"), str)]


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _certificate(pip: dict[str, str], environ: Mapping[str, str]) -> str | None:
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return pip.get("cert") or next((environ[name] for name in names if environ.get(name)), None)


def _unnamed(index: str) -> str:
    """Uv lets an index have a name: `name=https://...`."""
    return re.sub(r"^[A-Za-z0-9._-]+=", "", index)


def _unique(values: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value.rstrip("/") for value in values))


def _true(value: str) -> bool:
    return value.strip().lower() in ("1", "true", "yes", "on", "y", "t")


def _number(value: str | None, otherwise: float) -> float:
    try:
        return float(value) if value else otherwise
    except ValueError:
        return otherwise
