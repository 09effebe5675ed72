"""Upstream's own kernels, run by the interpreter in a child process, for comparison with ours."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PINS = {"tilelang": "tilelang-v0.1.14", "tilelang-ascend": "tilelang-ascend-95acbd7"}
"""Checkouts that have been verified with the cases."""

_CHILD = """
import sys
import numpy as np
from srcmap.engines.cases.checks import execute
from srcmap.engines.cases.registry import checks_of
from srcmap.engines.interpreter import host
from srcmap.engines.jobs import Job

name, root, path, out = sys.argv[1:]
job = Job(kind="check", repo=name.partition(":")[0], root=root, path=path, case=name)
module = host.load(job)
found = {}
for n, check in enumerate(checks_of(job)):
    host.begin(job)
    for m, output in enumerate(host.execute(module, check.run, execute)):
        found[f"{n}.{m}"] = np.asarray(output).astype(np.float64)
np.savez(out, **found)
"""


def cases_of(variant: str) -> list[Any]:
    """Return upstream's cases of a variant; none when the engines are not here."""
    try:
        from srcmap.engines.cases import registry  # noqa: F401 - fills the list
        from srcmap.engines.cases.checks import CASES
    except ImportError:
        return []
    return [case for case in CASES if variant in case.variants]


@cache
def outputs(name: str, path: str) -> dict[str, Any]:
    """Return upstream's outputs as `check.output`; skips when there is no checkout."""
    repo = name.partition(":")[0]
    root = ROOT / "_vendor" / PINS[repo]
    if not (root / path).is_file():
        pytest.skip(f"no checkout of {PINS[repo]}: `srcmap sync` fetches it")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "outputs.npz"
        child = [sys.executable, "-W", "ignore", "-c", _CHILD, name, str(root), path, str(out)]
        done = subprocess.run(
            child, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode and find_spec("torch") is None:
            pytest.skip(f"upstream's file wants torch: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr[-2000:]
        with np.load(out) as stored:
            return {key: stored[key] for key in stored.files}


def compare(variant: str, reference: Any, blocked: Any) -> None:
    """Compare upstream's outputs, our blocked form and our definition, on upstream's inputs.

    The budget is that of the diff test: derived from the types in which upstream stores and works.
    Both of ours get upstream's inputs through `like_upstream`.
    """
    cases = cases_of(variant)
    if not cases:
        pytest.skip(f"srcmap.engines has no case of {variant}")
    compared = sum(_compare_case(case, reference, blocked) for case in cases)
    assert compared, f"like_upstream knows no kernel of {variant}"


def _compare_case(case: Any, reference: Any, blocked: Any) -> int:
    """Return how many checks were compared; those that ours do not cover are left out."""
    from srcmap.engines.cases import registry
    from srcmap.engines.cases.checks import Expected, budget
    from srcmap.engines.jobs import Job

    name = f"{case.repo}:{case.id}"
    theirs = outputs(name, case.path)
    compared = 0
    job = Job(kind="check", repo=case.repo, root="", path=case.path, case=name)
    for n, check in enumerate(registry.checks_of(job)):
        try:
            definition = reference.like_upstream(check.run)
        except NotImplementedError:
            continue
        compared += 1
        ours = blocked.like_upstream(check.run)
        for m, want in enumerate(check.want):
            wide = np.asarray(definition[m]).astype(np.float64)
            allowed = budget(check, Expected(wide, want.spread, want.magnify))
            allowed = np.zeros_like(allowed) if check.exact else allowed
            label = f"{name} {check.name} output {m}"
            _within(f"{label}: blocked", ours[m], wide, allowed)
            if not check.diverges:
                _within(f"{label}: upstream", theirs[f"{n}.{m}"], wide, allowed)
    return compared


def _within(label: str, got: Any, want: Any, allowed: Any) -> None:
    got = np.asarray(got).astype(np.float64)
    assert got.shape == want.shape, label
    with np.errstate(invalid="ignore"):
        off = np.where(got == want, 0.0, np.abs(got - want))
    bad = np.argwhere(~(off <= allowed))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise AssertionError(
            f"{label}: {len(bad)} of {got.size} off, first {at}: {got[at]} is not {want[at]} "
            f"within {allowed[at]:.3g}"
        )
