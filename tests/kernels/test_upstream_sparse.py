"""The sparse variants and MLA against upstream's own kernels, on the same inputs.

A check holds when upstream's output, our definition and our blocked form are all within one budget
of the same float64 reference. Where upstream diverges from what is meant, ours must not.
"""

from __future__ import annotations

from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from srcmap.counterparts import FOLDER, INDEX, folders

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
PINS = {"tilelang": "tilelang-v0.1.14", "tilelang-ascend": "tilelang-ascend-95acbd7"}
SPARSE = {"block_causal", "block_sparse", "seer", "nsa", "vertical_slash", "indexer"} | {
    *("sparse_mla", "hisa", "mla_decode")
}
pytestmark = pytest.mark.pins

try:
    from srcmap.engines.caselist import LISTED
except ImportError:  # pragma: no cover - the engines are a part of their own
    LISTED = ()  # type: ignore[assignment]


def pairs() -> list[tuple[str, str, str, str]]:
    """Return repository, upstream's file, its case and our folder."""
    index = folders((ROOT / FOLDER / INDEX).read_text(encoding="utf-8"))
    return sorted(
        (found.repo, found.path, found.case, index[variant])
        for found in LISTED
        for variant in found.variants
        if index.get(variant) in SPARSE
    )


PAIRS = pairs()


@pytest.fixture(scope="module")
def outcomes() -> Mapping[tuple[str, str], list[Any]]:
    """Run all files in one child process: loading takes longer than most kernels."""
    pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")
    child = pytest.importorskip("srcmap.engines.child", reason="no engine to run upstream with")
    from srcmap.engines.jobs import Job

    here = [pair for pair in PAIRS if (ROOT / "_vendor" / PINS[pair[0]]).is_dir()]
    jobs = [
        Job(
            kind="check",
            repo=repo,
            root=str(ROOT / "_vendor" / PINS[repo]),
            path=path,
            case=case,
            ours=(str(ROOT), *(f"kernels.{folder}.{rung}" for rung in ("reference", "blocked"))),
        )
        for repo, path, case, folder in here
    ]
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for outcome in child.run_jobs(jobs):
        found[here[outcome.job][:2]].append(outcome)
    return found


def test_every_sparse_folder_has_a_file_of_upstreams() -> None:
    if not LISTED:
        pytest.skip("no engine to run upstream with")
    assert {folder for *_, folder in PAIRS} == SPARSE


@pytest.mark.parametrize(
    ("repo", "path", "case", "folder"), PAIRS, ids=[f"{f}-{Path(p).stem}" for _, p, _, f in PAIRS]
)
def test_both_forms_agree_with_upstreams_kernel(
    repo: str, path: str, case: str, folder: str, outcomes: Mapping[tuple[str, str], list[Any]]
) -> None:
    if not (ROOT / "_vendor" / PINS[repo]).is_dir():
        pytest.skip(f"{PINS[repo]} is not here: srcmap sync brings it")
    checks = outcomes[repo, path]
    assert checks, "no check ran"
    for check in checks:
        helper = check.failure is not None and check.failure.path not in ("", path)
        if helper and find_spec("torch") is None:
            pytest.skip(f"a file that this one imports needs torch: {check.failure.message}")
        assert check.failure is None, check.failure
        assert check.state in ("passed", "diverges"), (check.name, check.compared)
        if check.name.endswith("infinite where no block is visited"):
            continue  # the reference hides what upstream does not read at all
        assert check.ours_missing == "", check.name
        assert len(check.ours) == 2 * len(check.compared), f"{check.name}: both forms, all outputs"
        for compared in check.ours:
            assert compared.bad == 0, (check.name, compared)
