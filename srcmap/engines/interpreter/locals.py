"""Arrays of each thread: `T.alloc_local`, with the threads of a role side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from srcmap.engines.interpreter.dtypes import dtype as named
from srcmap.engines.interpreter.memory import Buffer, Shadow


class LocalArray(Buffer):
    """An array that every thread has for itself.

    While all threads agree, it is one array. When a value differs between threads, the whole
    array is kept once more for each of them, along a first dimension that indexing does not see.
    """

    def __init__(self, name: str, shape: tuple[int, ...], kind: Any) -> None:
        kind = named(kind)
        data = np.zeros(shape, kind.numpy)
        super().__init__(name, data, kind, "local", Shadow(data.size, written=True))
        self.lanes: dict[tuple[int, ...], Any] = {}
        """Elements whose value differs between threads."""

    def __getitem__(self, index: Any) -> Any:
        found = self._place(index)
        if found in self.lanes:
            return self.lanes[found]
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        from srcmap.engines.interpreter.dtypes import cast
        from srcmap.engines.interpreter.machine import here
        from srcmap.engines.interpreter.memory import value_of

        value, mask = value_of(value), here.run.role.mask
        found = self._place(index)
        wide = isinstance(value, np.ndarray) and value.size > 1
        if found is None or not (wide or mask is not None or found in self.lanes):
            super().__setitem__(index, value)
            return
        new = cast(value, self.dtype)
        if mask is not None:
            new = np.where(mask, new, self.lanes.get(found, self.data[found]))
        if isinstance(new, np.ndarray) and new.size > 1:
            self.lanes[found] = new
        else:
            self.lanes.pop(found, None)
            super().__setitem__(index, new)

    def _place(self, index: Any) -> tuple[int, ...] | None:
        many = index if isinstance(index, tuple) else (index,)
        if all(isinstance(item, int | np.integer) for item in many):
            return tuple(int(item) for item in many)
        return None
