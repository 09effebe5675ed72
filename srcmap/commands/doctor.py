"""`srcmap doctor`: what is installed and synced, what can be run here, and why not.

Nothing heavy is imported to find that out: torch and tilelang are looked up, not loaded.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer  # noqa: TC002  # the callback is read at run time

from srcmap import __version__, i18n
from srcmap.checkout import find_checkout, vendor_folder
from srcmap.commands.options import Lang  # noqa: TC001  # typer reads it at run time
from srcmap.commands.pinned import (
    PlainFormat,
    PlainFormatOption,
    label,
    partly,
    project_and_locks,
    table,
)
from srcmap.i18n import text
from srcmap.render.as_json import document
from srcmap.render.console import emit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from srcmap.lock import Lock, Pin

_LIBRARIES = (
    *("libcst", "tree-sitter", "GitPython", "httpx", "rich", "typer", "tomlkit"),
    *("msgspec", "platformdirs", "filelock", "rapidfuzz"),
)
_OLDEST_GIT = (2, 29)
"""`git fetch --stdin` and `--no-write-fetch-head` came with it."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report."""

    name: str
    state: str
    """ok, bad (something that srcmap needs does not work) or no (it does without)."""
    value: str = ""
    why: tuple[str, ...] = ()
    """Why not, as keys of sentences; empty when the state is ok."""


class Synced(msgspec.Struct, frozen=True, kw_only=True):
    """One pin: is it here, is it whole, and is there a map of it."""

    pin: str
    current: bool
    state: str
    """complete, partial or not-here."""
    path: str | None
    covers: tuple[str, ...]
    entries: int | None
    """How many entries its map has; None when there is no map."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All that the doctor saw."""

    versions: tuple[Fact, ...]
    libraries: tuple[Fact, ...]
    grammars: tuple[Fact, ...]
    project: str | None
    vendor: str
    pins: tuple[Synced, ...]
    can_run: tuple[Fact, ...]


def register(app: typer.Typer) -> None:
    """Add `srcmap doctor`."""

    @app.command("doctor", help="pins.help.doctor")
    def command(
        format: PlainFormatOption = PlainFormat.text,  # noqa: A002
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run(format=format.value, lang=i18n.language())


def run(*, format: str = "text", lang: str = "en", start: Path | None = None) -> int:  # noqa: A002
    """Print the report; 1 when something that srcmap needs does not work."""
    report = examine(start or Path.cwd())
    if format == "json":
        emit(document("srcmap-doctor", msgspec.to_builtins(report)))
    else:
        emit("\n\n".join(_sections(report, lang)))
    needed = (*report.versions, *report.libraries, *report.grammars)
    return 1 if any(fact.state == "bad" for fact in needed) else 0


def examine(start: Path, environ: Mapping[str, str] = os.environ) -> Report:
    """Look at this machine and at the project around `start`."""
    project, locks = project_and_locks(start)
    return Report(
        versions=(*_own_versions(), git_fact(environ)),
        libraries=tuple(_library(name) for name in _LIBRARIES),
        grammars=_grammars(),
        project=str(project) if project else None,
        vendor=str(vendor_folder(project)),
        pins=tuple(_synced(lock, pin, project) for lock in locks for pin in lock.pins),
        can_run=runnable(environ),
    )


# -- what is installed -----------------------------------------------------------------------


def _own_versions() -> list[Fact]:
    supported = sys.version_info >= (3, 10)
    return [
        Fact(name="srcmap", state="ok", value=f"{__version__} ({Path(__file__).parents[1]})"),
        Fact(
            name="python",
            state="ok" if supported else "bad",
            value=f"{platform.python_version()} ({sys.executable})",
        ),
        Fact(name="system", state="ok", value=platform.platform()),
    ]


def git_fact(environ: Mapping[str, str]) -> Fact:
    """Look for git; without it, only archives can be synced."""
    path = shutil.which("git", path=environ.get("PATH"))
    if path is None:
        return Fact(name="git", state="no", why=("pins.doctor.no-git",))
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return Fact(name="git", state="bad", value=f"{path}: {error}", why=("pins.doctor.no-git",))
    found = said.stdout.strip().removeprefix("git version ")
    old = tuple(int(part) for part in found.split(".")[:2] if part.isdecimal()) < _OLDEST_GIT
    why = ("pins.doctor.old-git",) if old else ()
    return Fact(name="git", state="no" if old else "ok", value=f"{found} ({path})", why=why)


def _library(name: str) -> Fact:
    try:
        return Fact(name=name, state="ok", value=version(name))
    except PackageNotFoundError:
        return Fact(name=name, state="bad", why=("pins.doctor.not-installed",))


def _grammars() -> tuple[Fact, ...]:
    from srcmap.parse.grammars import grammar_states

    facts = []
    for state in grammar_states():
        oldest, newest = state.core or (0, 0)
        value = f"{state.version}, ABI {state.abi} (core: {oldest}-{newest})"
        if state.problem:
            value = state.problem.splitlines()[0][:200]
        why = ("pins.doctor.grammar",) if state.problem else ()
        bad = "bad" if state.problem else "ok"
        facts.append(Fact(name=f"tree-sitter {state.name}", state=bad, value=value, why=why))
    return tuple(facts)


# -- what is here ----------------------------------------------------------------------------


def _synced(lock: Lock, pin: Pin, project: Path | None) -> Synced:
    from srcmap.mapfile import find_map

    checkout = find_checkout(lock, pin, project)
    source_map = find_map(lock.name, pin.version, project)
    state = "not-here" if checkout is None else "partial" if checkout.partial else "complete"
    return Synced(
        pin=label(lock, pin),
        current=pin.version == lock.current,
        state=state,
        path=str(checkout.root) if checkout else None,
        covers=checkout.manifest.covers if checkout else pin.covers,
        entries=len(source_map.entries) if source_map else None,
    )


# -- what can be run -------------------------------------------------------------------------


def runnable(environ: Mapping[str, str]) -> tuple[Fact, ...]:
    """Say which kernels could be run here, by the ways that there are to run them."""
    numpy, torch, tilelang = (_has(name) for name in ("numpy", "torch", "tilelang"))
    compiler = any(shutil.which(name, path=environ.get("PATH")) for name in ("cc", "gcc", "clang"))
    gpu = nvidia_gpu(environ)
    return (
        _can("numpy", numpy, [("pins.doctor.no-numpy", numpy)]),
        _can(
            "tilelang-cpu",
            tilelang,
            [
                ("pins.doctor.no-tilelang", tilelang),
                ("pins.doctor.no-torch", torch),
                ("pins.doctor.no-compiler", "yes" if compiler else None),
            ],
        ),
        _can(
            "tilelang-cuda",
            gpu,
            [
                ("pins.doctor.no-gpu", gpu),
                ("pins.doctor.no-tilelang", tilelang),
                ("pins.doctor.no-torch", torch),
            ],
        ),
        _can(
            "ascend",
            _has("torch_npu"),
            [
                ("pins.doctor.no-npu", "yes" if Path("/dev/davinci_manager").exists() else None),
                ("pins.doctor.no-torch-npu", _has("torch_npu")),
            ],
        ),
    )


def nvidia_gpu(environ: Mapping[str, str], devices: Path = Path("/dev")) -> str | None:
    """Name what shows that there is a usable NVIDIA GPU; None when nothing does."""
    if environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return None
    found = sorted(path.name for path in devices.glob("nvidia[0-9]*"))
    if found:
        return ", ".join(found)
    # Windows and WSL have no such files; there the driver's own program is the sign.
    program = shutil.which("nvidia-smi", path=environ.get("PATH"))
    wsl = (devices / "dxg").exists() or sys.platform == "win32"
    return program if program and wsl else None


def _has(package: str) -> str | None:
    """Return the version of an installed package, without importing it."""
    try:
        if find_spec(package) is None:
            return None
    except (ImportError, ValueError):
        return None
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def _can(name: str, value: str | None, needs: Sequence[tuple[str, str | None]]) -> Fact:
    missing = tuple(why for why, found in needs if found is None)
    if missing:
        return Fact(name=name, state="no", why=missing)
    return Fact(name=name, state="ok", value=value or "")


# -- saying it -------------------------------------------------------------------------------


def _sections(report: Report, lang: str) -> list[str]:
    where = text("pins.doctor.where", lang, path=report.vendor)
    no_project = "" if report.project else text("pins.doctor.no-project", lang)
    return [
        _section("versions", [_fact_row(fact, lang) for fact in report.versions], lang),
        _section(
            "libraries",
            [_fact_row(fact, lang) for fact in (*report.libraries, *report.grammars)],
            lang,
        ),
        _section("pins", [_pin_row(pin, lang) for pin in report.pins], lang),
        "\n".join(line for line in (where, no_project) if line),
        _section("can-run", [_fact_row(fact, lang) for fact in report.can_run], lang),
    ]


def _section(name: str, rows: list[tuple[str, str, str]], lang: str) -> str:
    heading = text(f"pins.doctor.head.{name}", lang)
    return "\n".join([heading, table(rows, lang)])


def _fact_row(fact: Fact, lang: str) -> tuple[str, str, str]:
    key = f"pins.doctor.name.{fact.name}"
    name = text(key, lang) if i18n.known(key, lang) else fact.name
    reasons = [text(why, lang) for why in fact.why]
    detail = "; ".join(part for part in (fact.value, *reasons) if part)
    return f"  {name}", text(f"pins.doctor.{fact.state}", lang), detail


def _pin_row(pin: Synced, lang: str) -> tuple[str, str, str]:
    kept = (
        text("pins.doctor.no-map", lang)
        if pin.entries is None
        else text("pins.doctor.map", lang, entries=pin.entries)
    )
    remarks = [kept]
    if pin.current:
        remarks.insert(0, text("pins.current", lang))
    if pin.covers:
        remarks.append(partly(pin.covers, lang))
    return f"  {pin.pin}", text(f"pins.doctor.{pin.state}", lang), "; ".join(remarks)
