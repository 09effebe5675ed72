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


def checks_of(job: Job) -> Iterator[Check]:
    """Yield the checks of a job's case; inputs depend on the case's id and the seed alone."""
    case = case_named(job.case)
    rng = np.random.default_rng([zlib.crc32(case.id.encode()), job.seed])
    for check in case.checks(rng):
        if job.only not in ("", check.name) or job.extra.get("part", "") not in check.name:
            continue
        yield check
        if job.extra.get("first"):
            return
