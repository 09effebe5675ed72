"""Values that differ between threads, where the threads of a role must agree: they part."""

from __future__ import annotations

from typing import Any

import numpy as np

from srcmap.engines.interpreter.machine import SplitError, here
from srcmap.engines.interpreter.memory import value_of


def part(values: Any, *, abreast: bool = False) -> None:
    """Give threads with different values roles of their own."""
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    bounds = [here.run.role.first + int(change) for change in changes]
    raise SplitError(bounds, abreast=abreast)


def agreed(value: Any) -> int:
    """Return the number that all threads of the role have; where they differ, they part abreast.

    Which barrier a thread waits for may depend on its warp group, and all else be the same.
    """
    value = value_of(value)
    if not isinstance(value, np.ndarray):
        return int(value)
    flat = value.reshape(-1)
    if flat.size > 1 and (flat != flat[0]).any():
        part(flat, abreast=True)
    return int(flat[0])
