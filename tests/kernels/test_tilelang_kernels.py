"""Our TileLang kernels without a GPU: the interpreter runs them; the table of tilings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernels import launch

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "mha": "batch=1,heads=2,seq_q=100,seq_kv=130,dim=64,causal=True,block_n=64",
    "gqa": "batch=1,heads=4,kv_heads=2,seq_q=100,seq_kv=130,dim=64,causal=True,block_n=64",
    "window": "batch=1,heads=2,seq_q=130,seq_kv=200,dim=64,window_size=20,block_n=64",
    "sink": "batch=1,heads=4,kv_heads=2,seq_q=130,seq_kv=200,dim=64,window_size=20,block_n=64",
    "decode": "batch=2,heads=8,kv_heads=2,seq_kv=230,dim=64,masked=True,splits=3",
}


@pytest.mark.parametrize("variant", SMALL)
def test_the_interpreter_runs_them(variant: str) -> None:
    file = f"kernels/{variant}/tilelang_kernel.py::{variant}_forward"
    done = subprocess.run(
        [sys.executable, "-m", "srcmap", "run", file, "--shape", SMALL[variant]],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert " ran " in done.stdout, done.stdout + done.stderr
    assert "output 0" in done.stdout


def test_the_table_has_one_row_for_a_key() -> None:
    keys = [tuple(row[name] for name in launch.KEYS) for row in launch.table()]
    assert len(keys) == len(set(keys))
    for row in launch.table():
        kind = launch.Splitting if row["variant"] == "decode" else launch.Tiling
        kind(**row["tiling"])
        assert (ROOT / row["sweep"]).is_file()


def test_an_unknown_device_gets_the_default_and_a_message() -> None:
    with pytest.warns(UserWarning, match="no tiling of mha was measured on Some GPU"):
        assert launch.tiling_for("mha", "Some GPU", 64, False) == launch.Tiling()
