"""Our TileLang kernels: all are compared by the diff test, and no wait of one can be left out."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from srcmap.engines.cases.judging import compare_all
from srcmap.engines.cases.registry import case_named
from tests.kernels.tilelang.waits import HARMLESS, without_one

ROOT = Path(__file__).resolve().parents[2]
MHA = ROOT / "kernels" / "mha" / "tilelang_kernel.py"


def complaint(text: str | None, checks: list[Any]) -> str:
    """Run a text of the kernel and say what is wrong; empty when nothing is."""
    from srcmap.engines.interpreter import loader
    from srcmap.engines.interpreter.findings import Findings
    from srcmap.engines.interpreter.kernels import options
    from srcmap.engines.interpreter.machine import DeadlockError

    module: Any = loader.load(MHA, text)
    for check in checks:
        options.findings = Findings(options.findings.sources)
        try:
            outputs = module.like_upstream(check.run)
        except DeadlockError:
            return "deadlock"
        kinds = {found.kind for found in options.findings.sorted()} - HARMLESS
        if kinds or any(c.bad for c in compare_all(check, outputs)):
            return ", ".join(sorted(kinds)) or "wrong"
    return ""


def test_every_wait_and_every_arrival_of_a_kernel_is_missed() -> None:
    from srcmap.engines.interpreter import loader

    loader.prepare("nvidia")
    case = case_named("tilelang:flash_attention/example_mha_fwd_bhsd")
    rng = np.random.default_rng([zlib.crc32(case.id.encode()), 0])
    wanted = ("full 1x1x64x256x64", "causal 1x1x192x192x64 scale 1")
    checks = [c for c in case.checks(rng) if c.name.startswith(wanted) and not c.left_out]
    assert complaint(None, checks) == ""
    told = [(w, complaint(text, checks)) for w, text in without_one(MHA.read_text("utf-8"))]
    assert len(told) > 15
    # Turns only decide who goes first.
    unnoticed = [what for what, why in told if not why and "turn[tx // 128]" not in what]
    assert unnoticed == []
    kinds = {kind for _, why in told for kind in why.split(", ")}
    assert {"unwaited-read", "unwaited-write", "deadlock"} <= kinds


def test_every_kernel_takes_part_in_the_diff_test() -> None:
    silent = [
        path.parent.name
        for path in ROOT.glob("kernels/*/tilelang_kernel.py")
        if "def like_upstream(" not in path.read_text(encoding="utf-8")
    ]
    assert silent == []
