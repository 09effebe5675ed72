"""Two versions of one file: which line and which definition became which."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from srcmap.drift.align import Aligner, Alignment, Gap, Likeness

if TYPE_CHECKING:
    from srcmap.drift.text import Text

_SAME_FILE = 0.5
"""How alike two definitions of other names must be to be one."""


class FilePair:
    """An old and a new file that belong together, by name or by content."""

    def __init__(self, old: Text, new: Text) -> None:
        self.old = old
        self.new = new
        self.likeness = Likeness(old, new)
        self._maps: dict[tuple[int, int], Alignment] = {}

    @cached_property
    def lines(self) -> Alignment:
        """The alignment of the whole files, top to bottom."""
        whole = Gap(1, len(self.old.lines), 1, len(self.new.lines))
        return Aligner(self.likeness, self._may_pair).anchored(whole)

    def inside(self, old_scope: int, new_scope: int) -> Alignment:
        """Align the bodies of two definitions, wherever in the files they are."""
        known = self._maps.get((old_scope, new_scope))
        if known is None:
            o, n = self.old.scopes[old_scope], self.new.scopes[new_scope]
            gap = Gap(o.first, o.last, n.first, n.last)
            known = self._maps[old_scope, new_scope] = Aligner(self.likeness).chained(gap)
        return known

    def _may_pair(self, i: int, j: int, like: float) -> bool:
        """Whether a pair that is merely alike stays within definitions that belong together."""
        if like >= 0.9:
            return True
        mine, other = self.old.scope_at(i), self.new.scope_at(j)
        match = self.named_scopes.get(mine)
        if match is not None and match != other:
            return other in (self._inner_of(match)) or other not in self._taken
        return not (mine not in self.named_scopes and mine >= 0 and other in self._taken)

    def _inner_of(self, scope: int) -> set[int]:
        return {k for k, s in enumerate(self.new.scopes) if s.parent == scope}

    @cached_property
    def _taken(self) -> set[int]:
        return set(self.named_scopes.values())

    @cached_property
    def named_scopes(self) -> dict[int, int]:
        """Definitions matched by their names: qualified, k-th of as many, or below a match."""
        old, new = self.old.scopes, self.new.scopes
        homes: dict[str, list[int]] = defaultdict(list)
        for number, scope in enumerate(new):
            homes[scope.qualname].append(number)
        mine: dict[str, list[int]] = defaultdict(list)
        for number, scope in enumerate(old):
            mine[scope.qualname].append(number)
        found: dict[int, int] = {}
        for name, numbers in mine.items():
            if len(homes.get(name, ())) == len(numbers):
                found.update(zip(numbers, homes[name], strict=True))
        for number, scope in enumerate(old):
            if number not in found and scope.parent in found:
                parent = found[scope.parent]
                taken = set(found.values())
                heirs = [k for k, s in enumerate(new) if s.parent == parent and k not in taken]
                same = [k for k in heirs if new[k].name == scope.name]
                rivals = [
                    k
                    for k, s in enumerate(old)
                    if s.parent == scope.parent and s.name == scope.name
                ]
                if len(same) == 1 and len(rivals) == 1:
                    found[number] = same[0]
        return found

    @cached_property
    def scopes(self) -> dict[int, tuple[int, float]]:
        """Every old definition that is still in the file, and how alike the two are."""
        found = {k: (v, self._dice(k, v)) for k, v in self.named_scopes.items()}
        orphans = [k for k in range(len(self.old.scopes)) if k not in found]
        free = [k for k in range(len(self.new.scopes)) if k not in self._taken]
        scored = sorted(
            ((self._score(k, v), k, v) for k in orphans for v in free if self._near(k, v)),
            reverse=True,
        )
        used: set[int] = set()
        for score, k, v in scored:
            if score < _SAME_FILE or k in found or v in used:
                continue
            rivals = [s for s, kk, vv in scored if kk == k and vv != v and s > score - 0.08]
            if not rivals or self.old.scopes[k].name == self.new.scopes[v].name:
                found[k] = (v, min(score, 1.0))
                used.add(v)
        return found

    def _near(self, k: int, v: int) -> bool:
        small, large = sorted((self._bags[0][k][1], self._bags[1][v][1]))
        return large > 0 and small / large > 0.2

    def _score(self, k: int, v: int) -> float:
        name = self.old.scopes[k].name == self.new.scopes[v].name
        return self._dice(k, v) + (0.3 if name and self._rare(k) else 0.0)

    def _rare(self, k: int) -> bool:
        name = self.old.scopes[k].name
        return sum(s.name == name for s in self.old.scopes) <= 3

    @cached_property
    def _bags(self) -> tuple[list[tuple[Counter[str], float]], list[tuple[Counter[str], float]]]:
        return _bags(self.old), _bags(self.new)

    def _dice(self, k: int, v: int) -> float:
        (left, a), (right, b) = self._bags[0][k], self._bags[1][v]
        common = sum(
            min(count, right[key]) / max(self.old.key_counts[key], 1)
            for key, count in left.items()
            if key in right
        )
        return 2 * common / (a + b) if a + b else 0.0


def _bags(text: Text) -> list[tuple[Counter[str], float]]:
    bags = []
    for scope in text.scopes:
        span = range(scope.first - 1, min(scope.last, len(text.lines)))
        bag = Counter(text.keys[n] for n in span if text.telling[n])
        bags.append((bag, sum(c / text.key_counts[k] for k, c in bag.items())))
    return bags
