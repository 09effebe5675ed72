"""`kernels/results/` -> what runs on real hardware said of our TileLang kernel beside upstream's.

Tests on a GPU keep `<folder>-<device>-tests.json`, benchmarks `<folder>-<device>.json`; both
name the sources that they saw. A result counts for the upstream file that it was compared with, as
long as neither that file nor ours has changed since. Nothing but a whole run without failures and
skipped tests is agreement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from srcmap.counterparts import folder_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESULTS = "results"
_TESTS = "srcmap-gpu-tests/1"
_SPEED = 1
_SHIPPED = "upstream as shipped"
State = Literal["agrees", "failed", "unfinished", "stale"]


class Tests(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the tests."""

    date: str
    state: State
    passed: int
    failed: int
    skipped: int
    unfinished: int
    """Tests, and files of tests, that did not run."""
    changed: tuple[str, ...] = ()
    """The sources that are not what they were."""


class Speed(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the benchmark: how many times as fast as upstream as shipped."""

    date: str
    shapes: int
    median: float
    least: float
    most: float
    changed: tuple[str, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether a source has changed since."""
        return bool(self.changed)


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What one device said of one file of upstream's and ours."""

    device: str
    ours: tuple[str, ...]
    """Our files that ran, relative to the project."""
    tests: Tests | None = None
    speed: Speed | None = None


class _Rests(msgspec.Struct, frozen=True, kw_only=True):
    device: str
    date: str
    ours: dict[str, str] = {}
    upstream: dict[str, str] = {}


class _TestFile(_Rests, frozen=True, kw_only=True):
    format: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    unfinished: int = 0
    missing: tuple[str, ...] = ()


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    faster_than: dict[str, float] = {}


class _SpeedFile(_Rests, frozen=True, kw_only=True):
    format: int
    shapes: tuple[_Line, ...] = ()


def seen(
    project: Path | None, variant: str, repo: str, path: str, blob: str
) -> tuple[Hardware, ...]:
    """Return what is kept of a variant's file on each device; files that are no results are not.

    `blob` is the file's id at the pin that is looked at; empty when that is not known.
    """
    folder = folder_of(project, variant)
    if project is None or folder is None or not path:
        return ()
    home = folder.parent / RESULTS
    tests = {
        file.device: file
        for file in _read(home, f"{folder.name}-*-tests.json", _TestFile)
        if file.format == _TESTS and _blob(file, repo, path)
    }
    speeds = {
        file.device: file
        for file in _read(home, f"{folder.name}-*.json", _SpeedFile)
        if file.format == _SPEED and _blob(file, repo, path)
    }
    return tuple(
        Hardware(
            device=device,
            ours=tuple((tests.get(device) or speeds[device]).ours),
            tests=_tests(project, tests.get(device), repo, path, blob),
            speed=_speed(project, speeds.get(device), repo, path, blob),
        )
        for device in sorted({*tests, *speeds})
    )


def _read(home: Path, pattern: str, kind: type[msgspec.Struct]) -> Iterator[Any]:
    folder = pattern.partition("-*")[0]
    for file in sorted(home.glob(pattern)):
        device = file.name.removeprefix(f"{folder}-").removesuffix(".json")
        if kind is _SpeedFile and device.endswith(("-tests", "-sweep")):
            continue
        try:
            yield msgspec.json.decode(file.read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError):
            continue


def _blob(file: _Rests, repo: str, path: str) -> str:
    """Return the id of upstream's file in a result, at whichever pin that was."""
    for name, blob in file.upstream.items():
        its_repo, _, rest = name.partition(" ")
        if (its_repo, rest.partition(" ")[2]) == (repo, path):
            return blob
    return ""


def _tests(project: Path, file: _TestFile | None, repo: str, path: str, blob: str) -> Tests | None:
    if file is None:
        return None
    changed = _changed(project, file, repo, path, blob)
    unfinished = file.unfinished + len(file.missing)
    state: State = "agrees"
    if changed:
        state = "stale"
    elif file.failed:
        state = "failed"
    elif unfinished or file.skipped or not file.passed:
        state = "unfinished"
    return Tests(
        date=file.date,
        state=state,
        passed=file.passed,
        failed=file.failed,
        skipped=file.skipped,
        unfinished=unfinished,
        changed=changed,
    )


def _speed(project: Path, file: _SpeedFile | None, repo: str, path: str, blob: str) -> Speed | None:
    if file is None:
        return None
    ratios = [line.faster_than[_SHIPPED] for line in file.shapes if _SHIPPED in line.faster_than]
    if not ratios:
        return None
    return Speed(
        date=file.date,
        shapes=len(ratios),
        median=_median(ratios),
        least=min(ratios),
        most=max(ratios),
        changed=_changed(project, file, repo, path, blob),
    )


def _median(values: list[float]) -> float:
    """Return the middle; the module of the standard library takes longer to import than a page."""
    ranked = sorted(values)
    half = len(ranked) // 2
    return ranked[half] if len(ranked) % 2 else (ranked[half - 1] + ranked[half]) / 2


def _changed(project: Path, file: _Rests, repo: str, path: str, blob: str) -> tuple[str, ...]:
    """Return which sources are not what they were: ours by its bytes, upstream's by its blob."""
    ours = (name for name, digest in file.ours.items() if _digest(project / name) != digest)
    upstream = [path] if blob and blob != _blob(file, repo, path) else []
    return (*ours, *upstream)


def _digest(path: Path) -> str:
    import hashlib  # OpenSSL: only where there is a result

    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
