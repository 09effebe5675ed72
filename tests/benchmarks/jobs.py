"""Jobs that do well, fail, die and never end, for processes of the benchmarks."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.gpu.crew import doing

state: dict[str, Any] = {"sound": True}


def double(number: int) -> int:
    return 2 * number


def fail() -> None:
    raise ValueError("no such shape")


def spoil() -> None:
    state["sound"] = False
    raise RuntimeError("an illegal memory access was encountered")


def sound() -> bool:
    return bool(state["sound"])


def die() -> None:
    os._exit(7)


def hang(what: str = "") -> None:
    if what:
        doing("before")
        doing(what)
    time.sleep(1000)


def talk() -> int:
    doing("one")
    doing("two")
    return 3


def steps(seconds: float, times: float) -> int:
    for number in range(3):
        doing(f"step {number}", times)
        time.sleep(seconds)
    return 4


def die_at(what: str) -> None:
    doing(what)
    os._exit(7)


def who() -> int:
    return os.getpid()
