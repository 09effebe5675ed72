"""Answers that were given before: kept by the content of both trees, the range and this code."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from srcmap.cache import Cache, cache_folder, fingerprint, key_of
from srcmap.drift.nouns import Answer, Spot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from srcmap.drift.sides import Side

_CODE = ("drift", "parse", "model.py", "digest.py")


class Answers:
    """Judges ranges, or remembers how they were judged."""

    def __init__(self, old: Side, new: Side, history: str, judge: Callable[[Spot], Answer]) -> None:
        self._judge = judge
        self._mark = key_of(fingerprint(*_CODE), tree_id(old), tree_id(new), history)
        self._cache = Cache(cache_folder() / "drift", dict[str, Answer])

    def all(self, spots: Sequence[Spot]) -> list[Answer]:
        """Judge many ranges; one file of the cache holds them all."""
        known = self._cache.get(self._mark) or {}
        fresh = {str(spot): self._judge(spot) for spot in spots if str(spot) not in known}
        if fresh:
            self._cache.put(self._mark, {**known, **fresh})
        return [fresh.get(str(spot)) or known[str(spot)] for spot in spots]


def tree_id(side: Side) -> str:
    """Name the content of a tree by its paths and blob ids."""
    digest = hashlib.sha256()
    for path, blob in sorted(side.blobs.items()):
        digest.update(f"{path}\0{blob}\0".encode("utf-8", "surrogateescape"))
    return f"{side.label} {side.commit} {side.partial} {digest.hexdigest()}"
