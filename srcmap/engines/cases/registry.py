"""The cases, found by id or by file; and the checks that a job means."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from srcmap.engines.cases import ascend, more, nvidia  # noqa: F401 - imported to fill the list
from srcmap.engines.cases.checks import CASES, Case, Check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.engines.jobs import Job


def case_named(name: str) -> Case:
    """Return a case by its id. LookupError when there is none."""
    for case in CASES:
        if f"{case.repo}:{case.id}" == name:
            return case
    raise LookupError(name)


class _Made:
    """The checks of one case, made once and kept until another case is asked for."""

    def __init__(self, name: str, seed: int) -> None:
        case = case_named(name)
        rng = np.random.default_rng([zlib.crc32(case.id.encode()), seed])
        self.key = (name, seed)
        self._rest = case.checks(rng)
        self._made: list[Check] = []

    def __iter__(self) -> Iterator[Check]:
        place = 0
        while True:
            if place == len(self._made):
                following = next(self._rest, None)
                if following is None:
                    return
                self._made.append(following)
            yield self._made[place]
            place += 1


_last: list[_Made] = []


def _made(name: str, seed: int) -> _Made:
    """Return the checks of a case. Mutants of one file come one after another."""
    if not _last or _last[0].key != (name, seed):
        _last[:] = [_Made(name, seed)]
    return _last[0]


def checks_of(job: Job) -> Iterator[Check]:
    """Yield the checks of a job's case; inputs depend on the case's id and the seed alone."""
    for check in _made(job.case, job.seed):
        if job.only not in ("", check.name) or job.extra.get("part", "") not in check.name:
            continue
        yield check
        if job.extra.get("first"):
            return
