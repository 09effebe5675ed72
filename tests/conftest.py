"""For all tests: one line that says how many tests read real pins, and how many could not."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Pins:
    """Counts the tests marked `pins`, by what became of them."""

    def __init__(self) -> None:
        self.ran = 0
        self.skipped: Counter[str] = Counter()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        outcome = yield
        if item.get_closest_marker("pins") is None:
            return
        report = outcome.get_result()  # type: ignore[attr-defined]
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self.ran += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.ran and not self.skipped:
            return
        missed = sum(self.skipped.values())
        terminalreporter.section("real pins")
        terminalreporter.line(f"{self.ran} tests read real pins, {missed} could not:")
        for reason, count in self.skipped.most_common():
            terminalreporter.line(f"  {count:5}  {reason}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Pins(), "srcmap-pins")
