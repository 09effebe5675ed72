"""Our forms against upstream's own kernels, run by the interpreter on the same inputs.

A check holds when upstream's output and ours are within one budget of the same float64 reference.
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.window import blocked, reference
from srcmap.counterparts import FOLDER, INDEX, folders

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
PINS = {"tilelang": "tilelang-v0.1.14", "tilelang-ascend": "tilelang-ascend-95acbd7"}
INDEXED = folders((ROOT / FOLDER / INDEX).read_text(encoding="utf-8"))
LEFT_OUT = ("infinite where no block is visited", "before the window")
"""Checks of what upstream's loops do not read: the reference reads it, and hides it."""
DENSE = ("mha", "gqa", "varlen", "decode", "paged", "sink", "sink_gqa_varlen", "ascend")
"""The window shares a file with the sink: see below. Sparse variants have tests of their own."""
pytestmark = pytest.mark.pins

try:
    from srcmap.engines.caselist import LISTED
except ImportError:  # pragma: no cover - the engines are a part of their own
    LISTED = ()  # type: ignore[assignment]
PAIRS = sorted(
    {
        (listed.repo, listed.path, INDEXED[variant])
        for listed in LISTED
        for variant in listed.variants
        if INDEXED.get(variant) in DENSE
    }
)
"""Upstream file and our folder."""


def checkout(repo: str) -> Path:
    root = ROOT / "_vendor" / PINS[repo]
    if not root.is_dir():
        pytest.skip(f"{PINS[repo]} is not here: srcmap sync brings it")
    return root


@pytest.fixture(scope="module")
def outcomes() -> Mapping[tuple[str, str], list[Any]]:
    """Run all files in one child process."""
    pytest.importorskip("ml_dtypes", reason="the interpreter needs ml_dtypes")
    child = pytest.importorskip("srcmap.engines.child", reason="no engine to run upstream with")
    from srcmap.engines.caselist import listed
    from srcmap.engines.jobs import Job

    here = [pair for pair in PAIRS if (ROOT / "_vendor" / PINS[pair[0]]).is_dir()]
    jobs = [
        Job(
            kind="check",
            repo=repo,
            root=str(checkout(repo)),
            path=path,
            case=listed(repo, path).case,  # type: ignore[union-attr]
            ours=(str(ROOT), *(f"kernels.{folder}.{rung}" for rung in ("reference", "blocked"))),
        )
        for repo, path, folder in here
    ]
    found: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for outcome in child.run_jobs(jobs):
        _, path, folder = here[outcome.job]
        found[path, folder].append(outcome)
    return found


@pytest.mark.parametrize(
    ("repo", "path", "folder"), PAIRS, ids=[f"{f}-{Path(p).stem}" for _, p, f in PAIRS]
)
def test_both_forms_agree_with_upstreams_kernel(
    repo: str, path: str, folder: str, outcomes: Mapping[tuple[str, str], list[Any]]
) -> None:
    checkout(repo)
    checks = outcomes[path, folder]
    assert checks, "no check ran"
    for check in checks:
        helper = check.failure is not None and check.failure.path not in ("", path)
        if helper and find_spec("torch") is None:
            pytest.skip(f"a file that this one imports needs torch: {check.failure.message}")
        assert check.failure is None, check.failure
        assert check.state in ("passed", "diverges"), (check.name, check.compared)
        if check.name.endswith(LEFT_OUT) or (
            folder == "decode" and check.name.startswith("causal")
        ):
            continue
        assert check.ours_missing == "", check.name
        outputs = len(check.compared)
        assert len(check.ours) == 2 * outputs, f"{check.name}: both forms, every output"
        for compared in check.ours:
            assert compared.bad == 0, (check.name, compared)


SCRIPT = """
import sys
import numpy as np
from pathlib import Path
from srcmap.engines.interpreter import loader
loader.prepare("nvidia")
module = loader.load(Path(sys.argv[1]))
x = np.load(sys.argv[2])
q, k, v = x["q"], x["k"], x["v"]
b, h, sq, d = q.shape
out = module.flashattn(b, h, sq, k.shape[2], d, int(x["size"]))(q, k, v, x["sinks"])
np.save(sys.argv[3], np.asarray(out))
"""


@pytest.mark.parametrize(("queries", "keys", "size"), [(100, 100, 64), (65, 190, 64), (1, 64, 64)])
def test_window_agrees_with_upstreams_kernel_whose_sinks_are_minus_infinity(
    queries: int, keys: int, size: int, tmp_path: Path
) -> None:
    """A sink of -inf adds exp(-inf) = 0: what is left is the window."""
    pytest.importorskip("srcmap.engines.interpreter.loader", reason="no interpreter")
    path = checkout("tilelang") / "examples/attention_sink/example_mha_sink_fwd_bhsd.py"
    rng = np.random.default_rng([queries, keys])
    q, k, v = (
        rng.standard_normal((1, 2, length, 32)).astype(np.float16)
        for length in (queries, keys, keys)
    )
    sinks = np.full(2, -np.inf, np.float16)
    np.savez(tmp_path / "in.npz", q=q, k=k, v=v, sinks=sinks, size=size)
    argv = [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "in.npz")]
    done = subprocess.run(
        [*argv, str(tmp_path / "out.npy")], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = np.load(tmp_path / "out.npy").astype(np.float64)
    exact = reference.attention(q, k, v, window_size=size)
    spread = reference.attention(q, k, np.abs(v), window_size=size)
    ours = blocked.attention(q, k, v, window_size=size)
    budget = 2.0**-11 * (np.abs(exact) + 2 * spread)  # the output and the probabilities, rounded
    assert (np.abs(theirs - exact) <= budget).all()
    assert (np.abs(ours - exact) <= budget).all()
