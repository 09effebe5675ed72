"""One job that fails, dies or hangs takes no other along."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.gpu import crew
from benchmarks.gpu.crew import Crew, Failed, Job

if TYPE_CHECKING:
    from collections.abc import Iterator


def job(name: str, *arguments: Any) -> Job:
    return Job("tests.benchmarks.jobs", name, arguments)


@pytest.fixture
def team(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    monkeypatch.setattr(crew, "START", 5.0)
    with Crew(2) as made:
        yield made


def test_every_job_has_an_outcome(team: Crew) -> None:
    jobs = [job("double", 1), job("fail"), job("die"), job("double", 2), job("spoil")]
    jobs += [job("double", 3), job("double", 4)]
    found = dict(team.map(jobs, 20))
    assert [found[j] for j in jobs if j.function == "double"] == [2, 4, 6, 8]
    assert found[job("fail")] == Failed("ValueError: no such shape (jobs.py:19)")
    assert found[job("die")] == Failed("its process died (exit code 7)")
    assert found[job("spoil")].why.startswith("RuntimeError: an illegal memory access")


def test_a_process_is_used_again_unless_it_is_spoilt(team: Crew) -> None:
    first = team.run(job("who"), 20)
    assert team.run(job("fail"), 20).why
    assert team.run(job("who"), 20) == first
    assert team.run(job("spoil"), 20).why
    assert team.run(job("who"), 20) != first


def test_a_job_that_does_not_end_is_ended(team: Crew) -> None:
    assert team.run(job("double", 1), 20) == 2
    found = dict(team.map([job("hang"), job("double", 5)], 1))
    assert found == {job("hang"): Failed("it did not end"), job("double", 5): 10}


def test_nothing_runs_on_after_the_limit(team: Crew) -> None:
    began = time.monotonic()
    jobs = [job("double", 5), job("hang"), job("hang"), job("double", 6)]
    found = list(team.map(jobs, 60, began + 3))
    assert found[0] == (jobs[0], 10)
    assert [outcome for _, outcome in found[1:]] == [Failed("the time was up")] * 3
    assert time.monotonic() - began < 8


def test_what_a_job_was_at_is_known(team: Crew) -> None:
    assert team.run(job("talk"), 20) == 3
    assert team.run(job("hang", "timing ours"), 1) == Failed("it did not end: timing ours")
    assert team.run(job("die_at", "x"), 20) == Failed("its process died (exit code 7): x")


def test_each_step_of_a_job_has_its_time(team: Crew) -> None:
    assert team.run(job("double", 1), 20) == 2
    assert team.run(job("steps", 0.6, 1), 1.2) == 4
    assert team.run(job("steps", 0.6, 4), 0.3) == 4
    assert team.run(job("steps", 0.9, 1), 0.3) == Failed("it did not end: step 0")
