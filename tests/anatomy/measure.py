"""The measure of CONCEPTS.md: facts read by hand against what is found in the same lines of a pin.

`facts_gold.json` are the team's gold locations, `facts_heldout.json` places that two other readers
are sure of in files that no rule was written on, `facts_absent.json` concepts that they looked for
in those files in vain. Facts are paths, line numbers and digests; no upstream text is kept here.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pytest

from srcmap.anatomy import read_source
from srcmap.checkout import Checkout, find_checkout
from srcmap.errors import CheckoutError, UsageError
from srcmap.lock import known_locks, pick
from srcmap.model import FileAnatomy, KernelAnatomy, Lines, Site

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
RIGHT = 0.5
"""Intersection over union from which a location counts as right."""


class Fact(NamedTuple):
    """One place that a person has read."""

    concept: str
    pin: str
    """`repo@version`, as `srcmap sync` takes it."""
    path: str
    lines: Lines
    sha256: str
    label: str

    def __str__(self) -> str:
        return f"{self.path}:{self.lines} {self.concept} ({self.label})"


class Lack(NamedTuple):
    """Concepts that a person has looked for in a file, in vain."""

    pin: str
    path: str
    concepts: tuple[str, ...]


def facts(name: str) -> list[Fact]:
    """Facts of one file beside this one."""
    return [
        Fact(
            row["concept"],
            _pin(row),
            row["path"],
            Lines(*row["lines"]),
            row["sha256"],
            row["label"],
        )
        for row in _rows(name)
    ]


def lacks() -> list[Lack]:
    """What is known to be absent, by file."""
    return [Lack(_pin(r), r["path"], tuple(r["concepts"])) for r in _rows("facts_absent.json")]


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((HERE / name).read_text("utf-8"))
    return rows


def _pin(row: dict[str, Any]) -> str:
    return f"{row['repo']}@{row['pin']}"


@functools.cache
def _checkout(pin: str) -> Checkout | str:
    try:
        lock, version = pick(known_locks(PROJECT), pin)
    except UsageError:
        return f"{pin} is not pinned: `srcmap lock add` and `srcmap sync` of it let this run"
    return find_checkout(lock, version, PROJECT) or f"no checkout of {pin}: srcmap sync {pin}"


def checkout(pin: str) -> Checkout:
    """Give a pin's checkout; skip the test when it is not here."""
    found = _checkout(pin)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@functools.cache
def lines_of(pin: str, path: str) -> tuple[str, ...]:
    r"""Lines of an upstream file, cut at `\n` only, a CR before it left out."""
    text = checkout(pin).read(path).decode("utf-8")
    return tuple(line.removesuffix("\r") for line in text.split("\n"))


@functools.cache
def reading(pin: str, path: str) -> FileAnatomy:
    """The anatomy of an upstream file, its neighbours at hand as in a map."""
    tree = checkout(pin)
    folder = PurePosixPath(path).parent

    def sibling(name: str) -> bytes | None:
        try:
            return tree.read(str(folder / name))
        except CheckoutError:
            return None

    return read_source(tree.read(path), path, sibling)


def sites(pin: str, path: str) -> list[tuple[KernelAnatomy, Site]]:
    """Everything found in an upstream file, with the kernel that it is found in."""
    return [(kernel, site) for kernel in reading(pin, path).kernels for site in kernel.sites]


class Score(NamedTuple):
    """How many facts were found again."""

    total: int
    right: int
    exact: int
    misses: tuple[str, ...]
    """What is not right, in words."""

    def told(self) -> str:
        """Say the score and list the misses, for a failing test."""
        head = f"{self.right} right, {self.exact} exact of {self.total}"
        return "\n".join([head, *self.misses])


def measure(some: list[Fact]) -> Score:
    """Score facts of pins that are here."""
    right = exact = 0
    misses = list[str]()
    for fact in some:
        same = [
            site.lines for _, site in sites(fact.pin, fact.path) if site.concept == fact.concept
        ]
        best = max((lines.overlap(fact.lines) for lines in same), default=0.0)
        right += best >= RIGHT
        exact += fact.lines in same
        if best < RIGHT:
            misses.append(f"  missed {fact}\n    {nearest(fact)}")
    return Score(len(some), right, exact, tuple(misses))


def nearest(fact: Fact) -> str:
    """Say what was found instead of a fact: its concept elsewhere, or other concepts there."""
    found = sites(fact.pin, fact.path)
    same = sorted(
        (abs(site.lines.first - fact.lines.first), str(site.lines))
        for _, site in found
        if site.concept == fact.concept
    )
    there = [
        f"{site.concept} {site.lines}" for _, site in found if site.lines.overlap(fact.lines) >= 0.3
    ]
    reasons = {
        absence.reason.key
        for kernel in reading(fact.pin, fact.path).kernels
        for absence in kernel.absences
        if absence.concept == fact.concept
    }
    elsewhere = ", ".join(lines for _, lines in same[:3]) or "nowhere"
    said = f"; said to be absent: {', '.join(sorted(reasons))}" if reasons else ""
    return f"found at {elsewhere}; these lines are {', '.join(there) or 'nothing'}{said}"
