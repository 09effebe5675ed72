"""Tells `outcomes` of each test on a GPU; without one, nothing is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kernels.gpu import outcomes, world

if TYPE_CHECKING:
    from collections.abc import Iterator


class Recorder:
    """Hears of tests from pytest."""

    def __init__(self, kept: outcomes.Outcomes) -> None:
        self.kept = kept

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.kept.collected(session.items)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.kept.deselected(items)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome = yield
        used = set(world.used)
        self.kept.ended(item, outcome.get_result(), used)  # type: ignore[attr-defined]

    def pytest_runtest_setup(self) -> None:
        world.used.clear()


def pytest_configure(config: pytest.Config) -> None:
    if world.why_not():
        return
    narrowed = any("::" in word for word in config.args) or bool(config.getoption("lf", False))
    out = Path(os.environ.get("SRCMAP_GPU_RESULTS", outcomes.KERNELS / "results"))
    kept = outcomes.Outcomes(out, outcomes.about(), narrowed)
    config.pluginmanager.register(Recorder(kept), "srcmap-gpu-results")
