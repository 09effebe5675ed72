"""Tells `outcomes` of each test on a GPU; without one, nothing is kept."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kernels.gpu import outcomes, world

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@pytest.fixture(autouse=True)
def _drawn_alike() -> None:
    """What a test draws by PyTorch is the same in every run, whichever tests came before."""
    with contextlib.suppress(ImportError):  # where there is none, each test says so itself
        import torch

        torch.manual_seed(0)


class Reporter:
    """Where tests run: adds to each report what its test asked for of upstream's, and errors."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        outcome = yield
        report = outcome.get_result()  # type: ignore[attr-defined]
        report.user_properties.append((outcomes.USED, sorted(world.used)))
        report.user_properties.append((outcomes.ERRORS, list(world.ratios)))

    def pytest_runtest_setup(self) -> None:
        world.used.clear()
        world.ratios.clear()


class Rest:
    """Leaves out tests that passed before, with the same sources."""

    def __init__(self, passed: Iterable[str]) -> None:
        self.passed = set(passed)

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        out = [item for item in items if item.nodeid in self.passed]
        items[:] = [item for item in items if item.nodeid not in self.passed]
        config.hook.pytest_deselected(items=out)


class Recorder:
    """Where reports come together: keeps them."""

    def __init__(self, kept: outcomes.Outcomes, passed: list[str]) -> None:
        self.kept = kept
        self.passed = passed

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["srcmap_gpu_passed"] = self.passed

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.kept.collected(item.nodeid for item in session.items)

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        self.kept.left_out(item.nodeid for item in items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self.kept.collected(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.kept.ended(report)


def pytest_configure(config: pytest.Config) -> None:
    if world.why_not():
        return
    config.pluginmanager.register(Reporter(), "srcmap-gpu-reporter")
    side = getattr(config, "workerinput", None)
    if side is not None:  # a side process: reports go to the one that started it
        config.pluginmanager.register(Rest(side["srcmap_gpu_passed"]), "srcmap-gpu-rest")
        return
    out = Path(os.environ.get("SRCMAP_GPU_RESULTS", outcomes.KERNELS / "results"))
    kept = outcomes.Outcomes(out, outcomes.about(), narrowed=_narrowed(config))
    passed = kept.passed_before() if os.environ.get("SRCMAP_GPU_REST") else []
    config.pluginmanager.register(Rest(passed), "srcmap-gpu-rest")
    config.pluginmanager.register(Recorder(kept, passed), "srcmap-gpu-recorder")


def _narrowed(config: pytest.Config) -> bool:
    """Whether some tests of a file are left out: by id, by -k or -m, or as those that passed."""

    def asked(name: str) -> Any:
        return config.getoption(name, None)

    by_mark = asked("markexpr") not in (None, "", "gpu")
    return (
        any("::" in word for word in config.args)
        or by_mark
        or bool(asked("keyword") or asked("lf"))
    )
