"""The checkouts that the tests marked `pins` read, and what is known about their kernels."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from srcmap.anatomy import read_source
from srcmap.checkout import Checkout, find_checkout
from srcmap.lock import known_locks, pick
from srcmap.model import FileAnatomy

_PROJECT = Path(__file__).parents[2]

PINS = ("tilelang@v0.1.14", "tilelang-ascend@95acbd7")

KINDS: dict[str, dict[str, dict[str, str]]] = json.loads(
    (Path(__file__).parent / "kernels.json").read_text()
)
"""Pin -> path -> qualified name -> kind, of every kernel that is not just `other`."""


class Example(NamedTuple):
    """One file of a pin."""

    pin: str
    path: str

    def __str__(self) -> str:
        return self.path


def checkout(pin: str) -> Checkout:
    """Return the pin's checkout; skip the test when it is not on this disk."""
    lock, version = pick(known_locks(_PROJECT), pin)
    found = find_checkout(lock, version, _PROJECT)
    if found is None:
        pytest.skip(f"{pin} is not here; `srcmap sync {pin}` brings it")
    return found


def read_example(example: Example) -> bytes:
    return checkout(example.pin).read(example.path)


def attention_examples() -> list[Example]:
    """Every file that holds a softmax-attention kernel."""
    return [
        Example(pin, path)
        for pin, files in KINDS.items()
        for path, kernels in files.items()
        if "attention" in kernels.values()
    ]


class Sweep(NamedTuple):
    """Every Python file of a pin, read once per test run."""

    readings: dict[str, FileAnatomy]
    failures: dict[str, str]
    """path -> the exception, of a file that could not be read at all."""


@functools.cache
def sweep(pin: str) -> Sweep:
    readings, failures = dict[str, FileAnatomy](), dict[str, str]()
    here = checkout(pin)
    for path in python_files(pin):
        try:
            readings[path] = read_source(here.read(path), path)
        except Exception as error:  # noqa: BLE001, PERF203  # collected, then told all at once
            failures[path] = f"{type(error).__name__}: {error}"
    return Sweep(readings, failures)


def python_files(pin: str) -> list[str]:
    return sorted(path for path in checkout(pin).paths() if path.endswith(".py"))


def kinds_of(reading: FileAnatomy) -> dict[str, str]:
    return {k.qualname: k.kind for k in reading.kernels if k.kind not in ("other", "file")}
