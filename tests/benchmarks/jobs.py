"""Jobs that do well, fail, die and never end, for processes of the benchmarks."""

from __future__ import annotations

import os
import time
from typing import Any

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


def hang() -> None:
    time.sleep(1000)


def who() -> int:
    return os.getpid()
